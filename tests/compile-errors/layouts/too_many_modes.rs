use moye_device::layout::{Layout, layout};

const R: Layout = layout!((4, 6):(1, 10)).append_dim(33);

fn main() {
    println!("{R}");
}
