use moye_device::layout::{Layout, layout};

const TILE: Layout = layout!((4, (2, 2)):(2, (1, 8)));
const K: i64 = TILE.extent(2);

fn main() {
    println!("{K}");
}
