//! Which kernel computes a product.

use super::problem::{Parameters, Problem};
use moye_device::kernel::Kernel;
use moye_device::kernels::{matmul_f32_nn, matmul_f32_nt, matmul_f32_tn, matmul_f32_tt};

/// The extent along M and N of the tile of `c` that a block computes.
pub(super) const TILE: u32 = 128;

/// Threads of a block.
pub(super) const THREADS: u32 = 256;

/// The kernel for a product, by the axes along which the operands' elements lie closest together.
pub(super) fn select(problem: &Problem) -> Kernel<Parameters> {
    match problem.fast_along_mn() {
        (true, true) => matmul_f32_nt,
        (true, false) => matmul_f32_nn,
        (false, true) => matmul_f32_tt,
        (false, false) => matmul_f32_tn,
    }
}
