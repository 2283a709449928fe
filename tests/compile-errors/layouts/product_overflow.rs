use moye_device::layout::{Layout, layout, logical_product};

const R: Layout = logical_product(layout!(4611686018427387904:1), layout!(4:1).tiler());

fn main() {
    println!("{R}");
}
