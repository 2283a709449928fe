//! `ldmatrix` reads shared memory and writes registers: other spaces do not compile.

use half::f16;
use moye_device::algorithm::copy_tiled;
use moye_device::atom::copy::SM75_U32x4_LDSM_N;
use moye_device::atom::mma::SM80_16x8x16_F32F16F16F32_TN;
use moye_device::atom::{StaticTiledCopy, TiledMma, make_tiled_copy_a};
use moye_device::layout::layout;
use moye_device::memory::{Global, Shared};
use moye_device::tensor::{Aligned, Matrix, SharedTensor, UnitStride};
use moye_device::{static_layout, tiled_copy};

const MMA: TiledMma<SM80_16x8x16_F32F16F16F32_TN> = TiledMma::new(layout!((1, 1, 1)));

tiled_copy! {
    CopyA: TiledCopy<SM75_U32x4_LDSM_N, f16> = make_tiled_copy_a(&MMA);
}
static_layout! {
    SmemA = layout!((16, 16):(16, 1));
}

fn main() {
    let smem = SharedTensor::<f16, SmemA>::shared(Shared::from_address(0));
    let strides = Aligned::<_, 16>(UnitStride::<1>(16));
    let tile = Matrix::new(Global::<f16>::from_address(0), (16, 16), strides).local_tile::<SmemA, _>((0, 0));
    let copy = CopyA::get_slice(0);
    unsafe {
        let mut fragment = copy.partition_d(smem).make_fragment_like();
        copy_tiled(CopyA, &copy.partition_s(tile), &mut fragment);
        copy_tiled(CopyA, &copy.partition_s(smem), &mut copy.partition_d(smem));
    }
}
