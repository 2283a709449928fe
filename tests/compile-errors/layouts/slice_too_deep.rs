use moye_device::layout::{Layout, layout, slice, tuple};

const R: Layout = slice(layout!((4, (2, 2), 3):(2, (1, 8), 24)), tuple!(((1, 2), _, _)));

fn main() {
    println!("{R}");
}
