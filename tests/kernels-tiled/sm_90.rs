//! Products by instructions that newer chips have.

use crate::config::product;
use moye_device::atom::copy::{SM75_U32x2_LDSM_N, SM75_U32x4_LDSM_N, SM80_CP_ASYNC_CACHEGLOBAL};
use moye_device::atom::mma::SM89_16x8x32_F32E4M3E4M3F32_TN;
use moye_device::atom::{TiledCopy, TiledMma};
use moye_device::layout::layout;
use moye_device::number::F8E4M3;

product! {
    /// 8-bit floats.
    e4m3_ldmatrix = product(F8E4M3 => f32, threads = 128) {
        block: 64 x 64 x 64,
        smem: static_layout! { layout!((64, 64):(80, 1)), layout!((64, 64):(80, 1)) },
        load: SM80_CP_ASYNC_CACHEGLOBAL<u128> = TiledCopy::new(layout!((32, 4):(4, 1)), layout!((1, 16))),
        copy: (SM75_U32x4_LDSM_N, SM75_U32x2_LDSM_N),
        mma: SM89_16x8x32_F32E4M3E4M3F32_TN = TiledMma::tiled(layout!((2, 2, 1)), [32, 32, 32]),
    }
}
