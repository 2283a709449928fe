use moye_device::layout::{Layout, layout, logical_divide, tiler};

const TILES: Layout = logical_divide(layout!(12), tiler!((2, 2):(1, 3)));

fn main() {
    println!("{TILES}");
}
