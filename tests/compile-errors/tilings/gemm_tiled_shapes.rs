//! Parts of different tiles: A has two steps along K, B has one.

use half::f16;
use moye_device::algorithm::gemm_tiled;
use moye_device::atom::mma::SM80_16x8x16_F32F16F16F32_TN;
use moye_device::atom::{StaticTiledMma, TiledMma};
use moye_device::layout::layout;
use moye_device::memory::Shared;
use moye_device::tensor::SharedTensor;
use moye_device::{static_layout, tiled_mma};

tiled_mma! {
    Mma: TiledMma<SM80_16x8x16_F32F16F16F32_TN> = TiledMma::new(layout!((1, 1, 1)));
}
static_layout! {
    SmemA = layout!((16, 32):(32, 1));
    SmemB = layout!((8, 16):(16, 1));
    TileC = layout!((16, 8));
}

fn main() {
    let mma = Mma::get_slice(0);
    let a = mma.partition_a(SharedTensor::<f16, SmemA>::shared(Shared::from_address(0)));
    let b = mma.partition_b(SharedTensor::<f16, SmemB>::shared(Shared::from_address(0)));
    let mut c = mma.accumulator::<TileC>();
    unsafe { gemm_tiled(Mma, &a, &b, &mut c) };
}
