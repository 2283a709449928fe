//! The table of measured shapes whose fastest kernel the [estimate](super::cost) misses by more
//! than 1 %.

use super::descriptor::Preference;
use super::plan::Problem;

/// A shape, and its fastest kernel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measured {
    /// M, N and K of a product with C row-major. `moye bench` has C column-major: its M and N are
    /// swapped.
    pub extents: [u32; 3],
    /// The kernel, which exists for one element type and one pair of majors.
    pub kernel: &'static str,
}

/// The number of SMs of the GPUs on which shapes and the kernels' rates were measured.
pub(super) const MULTIPROCESSORS: u32 = 132;

/// On an H100: `docs/results/2026-11-27-h100-variants.csv`, and for the last eight rows
/// `2026-11-28-h100-variants.csv`, where `wgmma_f16_tn_64x64` is within 1 % of the fastest.
pub(super) const MEASURED: &[Measured] = &[
    Measured { extents: [640, 640, 640], kernel: "wgmma_f16_tn_64x128" },
    Measured { extents: [3000, 100, 3000], kernel: "wgmma_f16_tn_128x128" },
    Measured { extents: [4096, 768, 4096], kernel: "wgmma_f16_tn_128x192" },
    Measured { extents: [14336, 1024, 4096], kernel: "wgmma_f16_tn_256x128" },
    Measured { extents: [1000, 1000, 1000], kernel: "wgmma_bf16_tn_128x128_once" },
    Measured { extents: [8192, 8192, 8192], kernel: "wgmma_bf16_tn_alone" },
    Measured { extents: [100, 3000, 3000], kernel: "wgmma_bf16_tn_128x192_k2" },
    Measured { extents: [128, 4096, 4096], kernel: "wgmma_bf16_tn_64x64" },
    Measured { extents: [1024, 14336, 4096], kernel: "wgmma_bf16_tn_alone" },
    Measured { extents: [1280, 1280, 1280], kernel: "wgmma_bf16_tn_128x128" },
    Measured { extents: [2304, 2304, 2304], kernel: "wgmma_bf16_tn_128x192_once" },
    Measured { extents: [4096, 1024, 4096], kernel: "wgmma_bf16_tn_256x128" },
    Measured { extents: [64, 8192, 8192], kernel: "wgmma_f16_tn_64x64" },
    Measured { extents: [4096, 64, 4096], kernel: "matmul_s8_tn_64x64" },
];

/// The fastest kernels for exactly these extents, one for each type and pair of majors; none for a
/// batch, another kind of GPU, or a caller with a preference.
pub(super) fn fastest(problem: &Problem) -> impl Iterator<Item = &'static str> {
    let (extents, multiprocessors) = (problem.extents, problem.multiprocessors);
    let applies = problem.batches == 1
        && multiprocessors == MULTIPROCESSORS
        && problem.preference == Preference::default();
    let rows = MEASURED.iter().filter(move |row| applies && row.extents == extents);
    rows.map(|row| row.kernel)
}
