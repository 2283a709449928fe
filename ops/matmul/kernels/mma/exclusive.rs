//! Products without a [`hopper`](crate::kernels::hopper) kernel: f64, and f16 with f16
//! accumulators. K is contiguous in both operands.

use super::family::tensor_core;
use moye_device::atom::copy::*;
use moye_device::atom::mma::*;

#[cfg(feature = "f16")]
tensor_core! {
    /// `c = a * b` in f16 with K contiguous in both and f16 accumulators: twice as fast on some
    /// GPUs, but less accurate, because each step of 16 along K rounds to 11 bits. A block of 256
    /// threads for each tile of 256 x 128.
    matmul_f16_acc_tn = half::f16 => half::f16, half::f16 {
        tile: 256 x 128 x 64 in 3, threads = 256, min_blocks = 1,
        mma: SM80_16x8x16_F16F16F16F16_TN = TiledMma::tiled(layout!((4, 2, 1)), [64, 32, 16]),
        a: k by SM75_U32x4_LDSM_N,
        b: k by SM75_U32x4_LDSM_N,
    }
    /// Same as [`matmul_f16_acc_tn`], with a block of 128 threads for each tile of 64 x 64.
    matmul_f16_acc_tn_64x64 = half::f16 => half::f16, half::f16 {
        tile: 64 x 64 x 64 in 4, threads = 128, min_blocks = 3,
        mma: SM80_16x8x16_F16F16F16F16_TN = TiledMma::tiled(layout!((2, 2, 1)), [32, 32, 16]),
        a: k by SM75_U32x4_LDSM_N,
        b: k by SM75_U32x4_LDSM_N,
    }
}
#[cfg(feature = "f64")]
tensor_core! {
    /// `c = a * b` of f64, f64 accumulators. A block of 128 threads for each tile of 64 x 64.
    matmul_f64_tn = f64 => f64, f64 {
        tile: 64 x 64 x 16 in 4, threads = 128, min_blocks = 3,
        mma: SM80_8x8x4_F64F64F64F64_TN = TiledMma::tiled(layout!((2, 2, 1)), [16, 16, 4]),
        a: k by UniversalCopy<f64>,
        b: k by UniversalCopy<f64>,
    }
}
