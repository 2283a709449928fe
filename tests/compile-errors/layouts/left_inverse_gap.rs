use moye_device::layout::{Layout, layout, left_inverse};

const R: Layout = left_inverse(layout!((2, 2):(2, 3)));

fn main() {
    println!("{R}");
}
