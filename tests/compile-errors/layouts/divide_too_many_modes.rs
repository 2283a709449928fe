use moye_device::layout::{Layout, layout, tiler, zipped_divide};

const R: Layout = zipped_divide(layout!((64, 32)), tiler!((8, 8, 8)));

fn main() {
    println!("{R}");
}
