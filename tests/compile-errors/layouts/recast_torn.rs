use moye_device::layout::{Layout, layout, upcast};

const BYTES: Layout = layout!((3, 2):(2, 3));
const WORDS: Layout = upcast(BYTES, 6);

fn main() {
    println!("{WORDS}");
}
