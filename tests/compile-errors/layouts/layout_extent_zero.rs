use moye_device::layout::{Layout, layout};

const L: Layout = layout!((4, 0));

fn main() {
    println!("{L}");
}
