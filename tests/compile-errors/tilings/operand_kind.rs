//! An atom of f16 does not multiply bf16, which has as many bits.

use half::bf16;
use moye_device::atom::mma::SM80_16x8x16_F32F16F16F32_TN;
use moye_device::atom::{StaticTiledMma, TiledMma};
use moye_device::layout::layout;
use moye_device::memory::Shared;
use moye_device::tensor::SharedTensor;
use moye_device::{static_layout, tiled_mma};

tiled_mma! {
    Mma: TiledMma<SM80_16x8x16_F32F16F16F32_TN> = TiledMma::tiled(layout!((2, 2, 1)), [32, 32, 16]);
}
static_layout! {
    SmemA = layout!((64, 16):(16, 1));
}

fn main() {
    let smem = SharedTensor::<bf16, SmemA>::shared(Shared::from_address(0));
    let part = Mma::get_slice(0).partition_a(smem);
    println!("{}", part.layout());
}
