//! Half precision: f16 and bf16 with f32 accumulators.

use super::family::tensor_core;
use moye_device::atom::copy::{SM75_U16x8_LDSM_T, SM75_U32x4_LDSM_N};
use moye_device::atom::mma::*;

/// Large tiles (eight warps, 4 x 2, of 64 x 64) and small ones (four warps, 2 x 2, of 32 x 32) for
/// all majors. As in BLAS, which views `c` as column-major, `t` and `n` name the contiguous modes:
/// `tn` has K contiguous in both.
macro_rules! majors {
    ($(
        $t:ty, $atom:ty:
        $($doc:literal $large:ident $small:ident $major_a:ident $copy_a:ty, $major_b:ident $copy_b:ty;)+
    )+) => { $( tensor_core! { $(
        #[doc = concat!("`c = a * b` with ", $doc, ", accumulators in f32. A block of 256 threads for each tile of 256 x 128.")]
        $large = $t => f32, $t {
            tile: 256 x 128 x 64 in 3, threads = 256, min_blocks = 1,
            mma: $atom = TiledMma::tiled(layout!((4, 2, 1)), [64, 32, 16]),
            a: $major_a by $copy_a,
            b: $major_b by $copy_b,
        }
        #[doc = concat!("`c = a * b` with ", $doc, ", accumulators in f32. A block of 128 threads for each tile of 64 x 64.")]
        $small = $t => f32, $t {
            tile: 64 x 64 x 64 in 4, threads = 128, min_blocks = 3,
            mma: $atom = TiledMma::tiled(layout!((2, 2, 1)), [32, 32, 16]),
            a: $major_a by $copy_a,
            b: $major_b by $copy_b,
        }
    )+ } )+ };
}
#[cfg(feature = "f16")]
majors! {
    half::f16, SM80_16x8x16_F32F16F16F32_TN:
    "K contiguous in both" matmul_f16_tn matmul_f16_tn_64x64 k SM75_U32x4_LDSM_N, k SM75_U32x4_LDSM_N;
    "M contiguous in `a` and N in `b`" matmul_f16_nt matmul_f16_nt_64x64 mn SM75_U16x8_LDSM_T, mn SM75_U16x8_LDSM_T;
    "M contiguous in `a` and K in `b`" matmul_f16_nn matmul_f16_nn_64x64 mn SM75_U16x8_LDSM_T, k SM75_U32x4_LDSM_N;
    "K contiguous in `a` and N in `b`" matmul_f16_tt matmul_f16_tt_64x64 k SM75_U32x4_LDSM_N, mn SM75_U16x8_LDSM_T;
}
#[cfg(feature = "bf16")]
majors! {
    half::bf16, SM80_16x8x16_F32BF16BF16F32_TN:
    "K contiguous in both" matmul_bf16_tn matmul_bf16_tn_64x64 k SM75_U32x4_LDSM_N, k SM75_U32x4_LDSM_N;
    "M contiguous in `a` and N in `b`" matmul_bf16_nt matmul_bf16_nt_64x64 mn SM75_U16x8_LDSM_T, mn SM75_U16x8_LDSM_T;
    "M contiguous in `a` and K in `b`" matmul_bf16_nn matmul_bf16_nn_64x64 mn SM75_U16x8_LDSM_T, k SM75_U32x4_LDSM_N;
    "K contiguous in `a` and N in `b`" matmul_bf16_tt matmul_bf16_tt_64x64 k SM75_U32x4_LDSM_N, mn SM75_U16x8_LDSM_T;
}
