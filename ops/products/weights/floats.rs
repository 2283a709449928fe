//! `y = x W^T` of weights of e4m3 for few rows of x: [`linear`] without minima.

use super::codes::{CodeAs, E4m3, Pairs, Rows, Weights};
use super::kernel::{Finish, RingCodes, RingFactors, RingGains, RingX, Squares, blocks_of_sm, linear, warps};
use moye_device::prelude::*;

/// `y = x W^T` of e4m3 for `M` rows of x, or with `NORM` for their RMSNorm, and two tiles of rows
/// of W a block. Grid: `(tiles / 2, m / M)`, rounded up.
///
/// # Safety
/// Same contract as [`linear`].
#[kernel(
    threads = 32 * warps(M),
    min_blocks = blocks_of_sm(M, NORM),
    shared = (
        codes: SharedArray<[u32; 4], RingCodes<M, 2>>,
        vectors: SharedArray<T, RingX<E4m3, M>>,
        factors: SharedArray<u32, RingFactors<M, 2>>,
        gains: SharedArray<T, RingGains<E4m3, M, NORM>>,
        squares: SharedArray<f32, Squares<M>>
    ),
    instances = linear_e4m3<f16 | bf16, 1 | 8 | 16, false | true>,
    table = FloatKernels
)]
pub unsafe fn linear_e4m3<T: Pairs, const M: i64, const NORM: bool>(
    x: Global<T>,
    y: GlobalMut<T>,
    weights: Weights,
    m: u32,
    of_x: Rows,
    of_y: Rows,
    finish: Finish,
) where
    E4m3: CodeAs<T>,
    f32: Convert<T>,
{
    let shared = (codes, vectors, factors, gains, squares);
    linear::<T, E4m3, M, 2, false, NORM>(x, y, weights, m, of_x, of_y, finish, shared);
}
