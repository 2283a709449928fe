//! Two threads of two values do not copy a tile of eight elements.

use moye_device::atom::TiledCopy;
use moye_device::atom::copy::UniversalCopy;
use moye_device::layout::{Tiler, layout, tuple};

const COPY: TiledCopy<UniversalCopy<f32>, f32> =
    TiledCopy::from_tv(layout!((2, 2):(1, 2)), Tiler::shape(tuple!((4, 2))));

fn main() {
    println!("{}", COPY.tile());
}
