use moye_device::layout::{Layout, layout, logical_product};

const R: Layout = logical_product(layout!((4, 6):(1, 10)), layout!(3:1).tiler());

fn main() {
    println!("{R}");
}
