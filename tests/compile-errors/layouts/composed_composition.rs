use moye_device::layout::{ComposedLayout, Swizzle, layout};

const SMEM: ComposedLayout = ComposedLayout::new(Swizzle::new(3, 3, 3), 0, layout!((6, 64):(64, 1)));
const R: ComposedLayout = SMEM.composition(layout!(4:4));

fn main() {
    println!("{R}");
}
