//! `stmatrix` reads registers and writes shared memory: other spaces do not compile.

use half::f16;
use moye_device::algorithm::copy_tiled;
use moye_device::atom::copy::SM90_U32x4_STSM_N;
use moye_device::atom::mma::SM80_16x8x16_F32F16F16F32_TN;
use moye_device::atom::{StaticTiledCopy, TiledMma, make_tiled_copy_a};
use moye_device::layout::layout;
use moye_device::memory::Shared;
use moye_device::tensor::SharedTensor;
use moye_device::{static_layout, tiled_copy};

const MMA: TiledMma<SM80_16x8x16_F32F16F16F32_TN> = TiledMma::new(layout!((1, 1, 1)));

tiled_copy! {
    Store: TiledCopy<SM90_U32x4_STSM_N, f16> = make_tiled_copy_a(&MMA);
}
static_layout! {
    SmemA = layout!((16, 16):(16, 1));
}

fn main() {
    let smem = SharedTensor::<f16, SmemA>::shared(Shared::from_address(0));
    let copy = Store::get_slice(0);
    unsafe {
        let mut fragment = copy.partition_s(smem).make_fragment_like();
        copy_tiled(Store, &copy.partition_s(smem), &mut copy.partition_d(smem));
        copy_tiled(Store, &fragment.clone(), &mut fragment);
    }
}
