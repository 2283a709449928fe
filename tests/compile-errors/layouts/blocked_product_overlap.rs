use moye_device::layout::{Layout, blocked_product, layout};

const R: Layout = blocked_product(layout!((4, 2):(1, 2)), layout!(2:1));

fn main() {
    println!("{R}");
}
