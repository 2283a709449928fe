use moye_device::layout::{Layout, complement, layout};

const R: Layout = complement(layout!((4, 4):(1, 2)), 64);

fn main() {
    println!("{R}");
}
