//! tf32 and 8-bit integers: K contiguous in both operands.
//!
//! `ldmatrix` moves pairs of 16 bits, so it cannot transpose these types; if M or N is contiguous,
//! the host repacks the operand first.

use super::family::tensor_core;
use moye_device::atom::copy::SM75_U32x4_LDSM_N;
use moye_device::atom::mma::*;

#[cfg(feature = "tf32")]
tensor_core! {
    /// `c = a * b` of f32, of which the tensor cores ignore the lower 13 bits (tf32), with f32
    /// accumulators. A block of 256 threads for each tile of 256 x 128.
    matmul_tf32_tn = f32 => f32, f32 {
        tile: 256 x 128 x 32 in 3, threads = 256, min_blocks = 1,
        mma: SM80_16x8x8_F32TF32TF32F32_TN = TiledMma::tiled(layout!((4, 2, 1)), [64, 32, 8]),
        a: k by SM75_U32x4_LDSM_N,
        b: k by SM75_U32x4_LDSM_N,
    }
    /// Same as [`matmul_tf32_tn`], with a block of 128 threads for each tile of 64 x 64.
    matmul_tf32_tn_64x64 = f32 => f32, f32 {
        tile: 64 x 64 x 32 in 4, threads = 128, min_blocks = 3,
        mma: SM80_16x8x8_F32TF32TF32F32_TN = TiledMma::tiled(layout!((2, 2, 1)), [32, 32, 8]),
        a: k by SM75_U32x4_LDSM_N,
        b: k by SM75_U32x4_LDSM_N,
    }
}
#[cfg(feature = "i8")]
tensor_core! {
    /// `c = a * b` of signed bytes, with wrapping i32 accumulators. A block of 256 threads for each
    /// tile of 256 x 128.
    matmul_s8_tn = i8 => i32, i32 {
        tile: 256 x 128 x 128 in 3, threads = 256, min_blocks = 1,
        mma: SM80_16x8x32_S32S8S8S32_TN = TiledMma::tiled(layout!((4, 2, 1)), [64, 32, 32]),
        a: k by SM75_U32x4_LDSM_N,
        b: k by SM75_U32x4_LDSM_N,
    }
    /// Same as [`matmul_s8_tn`], with a block of 128 threads for each tile of 64 x 64.
    matmul_s8_tn_64x64 = i8 => i32, i32 {
        tile: 64 x 64 x 128 in 4, threads = 128, min_blocks = 3,
        mma: SM80_16x8x32_S32S8S8S32_TN = TiledMma::tiled(layout!((2, 2, 1)), [32, 32, 32]),
        a: k by SM75_U32x4_LDSM_N,
        b: k by SM75_U32x4_LDSM_N,
    }
}
