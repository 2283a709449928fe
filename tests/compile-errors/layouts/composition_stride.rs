use moye_device::layout::{Layout, composition, layout};

const A: Layout = layout!((4, 6):(1, 10));
const R: Layout = composition(A, layout!(4:3));

fn main() {
    println!("{R}");
}
