//! Step 2 of the ladder with threads whose reads of A meet in the banks: rows of 8 elements, K the fast axis.

use moye_device::atom::copy::UniversalCopy;
use moye_device::atom::mma::UniversalFma;
use moye_device::atom::{TiledCopy, TiledMma};
use moye_device::kernels::ladder::{Problem, Staged, Tiling, staged};
use moye_device::layout::layout;
use moye_device::memory::{Global, GlobalMut};
use moye_device::tensor::UnitStride;
use moye_device::{static_layout, tiled_copy, tiled_mma};

static_layout! {
    TileAb = layout!((128, 8));
    TileC = layout!((128, 128));
    Smem = layout!((128, 8):(8, 1));
}
tiled_copy! {
    Load: TiledCopy<UniversalCopy<f32>, f32> = TiledCopy::new(layout!((32, 8):(8, 1)), layout!((1, 1)));
}
tiled_mma! {
    Mma: TiledMma<UniversalFma<f32>> = TiledMma::new(layout!((32, 8, 1)));
}

struct Conflicting;

impl Tiling for Conflicting {
    type StridesA = UnitStride<1>;
    type StridesB = UnitStride<1>;
    type TileA = TileAb;
    type TileB = TileAb;
    type TileC = TileC;
    type SmemA = Smem;
    type SmemB = Smem;
    type LoadA = Load;
    type LoadB = Load;
    type Sums = [f32; 1];
    type Mma = Mma;
}

impl Staged for Conflicting {
    type Word = f32;
}

fn main() {
    let (a, c) = (Global::from_address(0), GlobalMut::from_address(0));
    unsafe { staged::<Conflicting>(Problem { a, b: a, c, shape: (1, 1, 1), leading: [8, 8, 1] }) };
}
