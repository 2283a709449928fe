use moye_device::layout::{Layout, layout, tile_to_shape, tuple};

const R: Layout = tile_to_shape(layout!((4, 6):(1, 10)), tuple!((9, 6)));

fn main() {
    println!("{R}");
}
