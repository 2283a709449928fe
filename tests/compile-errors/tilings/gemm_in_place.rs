//! An atom that adds to f16 and gives f32 has no room for its results in what it adds to.

use half::f16;
use moye_device::algorithm::gemm_tiled;
use moye_device::atom::mma::SM70_8x8x4_F32F16F16F16_TN;
use moye_device::atom::{StaticTiledMma, TiledMma};
use moye_device::layout::layout;
use moye_device::memory::Shared;
use moye_device::tensor::SharedTensor;
use moye_device::{static_layout, tiled_mma};

tiled_mma! {
    Mixed: TiledMma<SM70_8x8x4_F32F16F16F16_TN> = TiledMma::new(layout!((2, 2, 1)));
}
static_layout! {
    Smem = layout!((16, 4):(4, 1));
    TileC = layout!((16, 16));
}

fn main() {
    let mma = Mixed::get_slice(0);
    let smem = SharedTensor::<f16, Smem>::shared(Shared::from_address(0));
    let mut c = mma.accumulator::<TileC>();
    unsafe { gemm_tiled(Mixed, &mma.partition_a(smem), &mma.partition_b(smem), &mut c) };
}
