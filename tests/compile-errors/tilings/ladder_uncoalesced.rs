//! Step 3 of the ladder with four neighbours a thread, two at a time: each request leaves half of its sectors unused.

use moye_device::atom::copy::UniversalCopy;
use moye_device::atom::mma::UniversalFma;
use moye_device::atom::{TiledCopy, TiledMma};
use moye_device::kernels::ladder::{Problem, Staged, Tiling, staged};
use moye_device::layout::layout;
use moye_device::memory::{Global, GlobalMut};
use moye_device::tensor::{Aligned, UnitStride};
use moye_device::{static_layout, tiled_copy, tiled_mma};

static_layout! {
    TileAb = layout!((128, 8));
    TileC = layout!((128, 128));
    Smem = layout!((128, 8):(1, 130));
}
tiled_copy! {
    Load: TiledCopy<UniversalCopy<u64>, f32> = TiledCopy::new(layout!((32, 8)), layout!((4, 1)));
}
tiled_mma! {
    Mma: TiledMma<UniversalFma<f32>> = TiledMma::new(layout!((32, 8, 1)));
}

struct Torn;

impl Tiling for Torn {
    type StridesA = Aligned<UnitStride<0>, 8>;
    type StridesB = Aligned<UnitStride<0>, 8>;
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

impl Staged for Torn {
    type Word = u64;
}

fn main() {
    let (a, c) = (Global::from_address(0), GlobalMut::from_address(0));
    unsafe { staged::<Torn>(Problem { a, b: a, c, shape: (1, 1, 1), leading: [2, 2, 1] }) };
}
