//! The reference of the exponents of a row's scores.
//!
//! A probability is `2^(scale score - scale max)` by one multiply-add, with `scale max` rounded.
//! The rounding is the same for all scores of a row and cancels, as long as the accumulated sums
//! are rescaled by the difference of the rounded products. For large scores the probability would
//! overflow or underflow. A kernel that accepts any scores then subtracts the maximum first
//! ([`SUBTRACTED`]). The other kernels have no instruction to spare: their epilogue detects such
//! rows ([`NEAR`]) and recomputes them (`recompute`).

use super::softmax::RowSum;
use moye_device::arch::{Fma, ex2_approx_f32, rcp_approx_f32};

/// Scaled maxima above this are subtracted first. Up to it the rounding error is at most 2^-13, so
/// that a probability of 1 is still 1 in f16.
const SUBTRACTED: f32 = 4096.0;
/// The largest scaled maximum of kernels that subtract none: its rounding error is at most 2^-5.
const NEAR: f32 = 1_048_576.0;

/// [`NEAR`] in the unit of the scores, at most the largest finite value.
#[inline(always)]
fn near(scale: f32) -> f32 {
    (NEAR * rcp_approx_f32(scale)).min(f32::MAX)
}

/// The maximum before the first score. It is finite, so that a difference of two maxima is not NaN.
/// With `any`, no finite score is below it; otherwise a row whose scores are all below it has a sum
/// of 0 or is relative to it.
#[inline(always)]
#[must_use]
pub fn lowest(any: bool, scale: f32) -> f32 {
    if any { f32::MIN } else { -near(scale) }
}

/// The reference of the exponents of a row's scores: `scale subtract - shift`.
#[derive(Clone, Copy, Debug)]
pub struct Reference {
    /// Subtracted from the scores.
    pub subtract: f32,
    /// Added to the scaled differences.
    pub shift: f32,
}

impl Reference {
    /// The reference of the maximum `max`, with exponents larger by `offset`. `any`, a constant,
    /// says whether the kernel accepts scores of any size.
    #[inline(always)]
    #[must_use]
    pub fn of(any: bool, max: f32, scale: f32, offset: f32) -> Self {
        let shift = if offset == 0.0 { -max * scale } else { (-max).fma(scale, offset) };
        if any && shift.abs() > SUBTRACTED {
            return Self { subtract: max, shift: offset };
        }
        Self { subtract: 0.0, shift }
    }

    /// The factor that makes results accumulated relative to this reference relative to `next`.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    #[must_use]
    pub fn factor(&self, next: &Self, any: bool, scale: f32) -> f32 {
        let shift = next.shift - self.shift;
        ex2_approx_f32(if any { (self.subtract - next.subtract).fma(scale, shift) } else { shift })
    }

    /// The row whose sum relative to this reference is `sum`, and the factor that makes results
    /// accumulated relative to this reference relative to the maximum.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    #[must_use]
    pub fn row(&self, max: f32, sum: f32, scale: f32) -> (RowSum, f32) {
        let factor = ex2_approx_f32(-(max - self.subtract).fma(scale, self.shift));
        (RowSum { max, sum: sum * factor }, factor)
    }
}

/// Whether a kernel without `any` must recompute a row, since its scores exceed [`NEAR`] in
/// magnitude. Rows without scores count as such rows. Infinite and NaN scores have already reached
/// the results.
#[inline(always)]
#[must_use]
pub fn is_far(row: &RowSum, scale: f32) -> bool {
    let near = near(scale);
    row.max > near && row.max < f32::INFINITY || row.max <= -near && !row.sum.is_nan()
}
