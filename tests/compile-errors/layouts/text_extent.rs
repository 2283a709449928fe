use moye_device::layout::Layout;

const TILE: Layout = match Layout::parse("(4,(2,0)):(1,(4,8))") {
    Ok(layout) => layout,
    Err(error) => panic!("{}", error.text()),
};

fn main() {
    println!("{TILE}");
}
