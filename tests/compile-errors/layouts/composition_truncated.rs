use moye_device::layout::{Layout, composition, layout};

const R: Layout = composition(layout!((4, 3):(3, 1)), layout!(6:1));

fn main() {
    println!("{R}");
}
