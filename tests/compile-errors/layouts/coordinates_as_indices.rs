use moye_device::layout::{Layout, layout, right_inverse};

const R: Layout = right_inverse(layout!((4, 3):(1@0, 1@1)));

fn main() {
    println!("{R}");
}
