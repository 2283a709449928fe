//! RMSNorm, `y = x / sqrt(mean(x^2) + eps) * w`: one warp for each row, f32 accumulators.

use crate::softmax::{Rows, Tile};
use moye_device::prelude::*;

/// A grid of `ceil(m / 4)` blocks.
///
/// # Safety
/// `x` and `y` have `m` rows of `n` elements with stride `ld`, and `w` has `n` elements; rows and
/// `w` are aligned to 16 bytes. `y` is `x` or overlaps neither.
#[kernel(threads = Rows::<T>::THREADS, instances = (rmsnorm_f32<f32>, rmsnorm_bf16<bf16>))]
pub unsafe fn rmsnorm<T: Element + Convert<f32>>(
    x: Global<T>,
    w: Global<T>,
    y: GlobalMut<T>,
    m: u32,
    n: u32,
    ld: i64,
    eps: f32,
) where
    f32: Convert<T>,
{
    let rows = Rows::<T>::get_slice(thread_idx().x);
    let gX = tile!(tensor!(x, (m, n), (ld, 1), align = 16), Tile<T>, (block_idx().x, _)); // (BLK_M, BLK_N, n)
    let gY = tile!(tensor!(y, (m, n), (ld, 1), align = 16), Tile<T>, (block_idx().x, _)); // (BLK_M, BLK_N, n)
    let gW = tile!(tensor!(w, (4, n), (0, 1), align = 16), Tile<T>, (0, _)); // (BLK_M, BLK_N, n), of equal rows
    let (tXgX, tXgW, tXgY) = (rows.partition_s(gX), rows.partition_s(gW), rows.partition_d(gY)); // (CPY, CPY_M, CPY_N, n)

    let mut sum = tXgX.rows(0.0f32); // (CPY_M)
    for tile in 0..gX.tiles() {
        sum = tXgX.at((.., .., .., tile)).load_as(0.0f32).fold_rows(&sum, |sum, x| x.fma(x, sum));
    }
    let scale = sum.across_lanes(f32::add).map(|sum| math::fast::rsqrt(sum / n as f32 + eps));
    for tile in 0..gX.tiles() {
        let mut tXrX = tXgX.at((.., .., .., tile)).load_as(0.0f32); // (CPY, CPY_M, CPY_N)
        tXrX.apply_rows(&scale, |x, scale| x * scale);
        tXrX.apply_with(&tXgW.at((.., .., .., tile)).load_as(0.0f32), |x, w| x * w);
        copy(&tXrX.convert::<T>(), tXgY.at((.., .., .., tile)));
    }
}
