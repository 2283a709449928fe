//! What exponents of a row's scores are relative to.
//!
//! A probability is `2^(scale score - scale max)` by one multiply-add, with `scale max` rounded.
//! The rounding is the same for all scores of a row and cancels, as long as the accumulated sums
//! are rescaled by the difference of the rounded products. For large scores it would over- or
//! underflow. A kernel for any scores then subtracts the maximum first ([`SUBTRACTED`]). The other
//! kernels have no instruction left for it: they find such rows in the end ([`NEAR`]) and compute
//! them again (`recompute`).

use super::softmax::RowSum;
use moye_device::arch::{Fma, ex2_approx_f32, rcp_approx_f32};

/// Scaled maxima above this are subtracted first. Rounded, it is off by at most 2^-13, so that a
/// probability of 1 is one in f16.
const SUBTRACTED: f32 = 4096.0;
/// The largest scaled maximum of kernels that subtract none: rounded, it is off by at most 2^-5.
const NEAR: f32 = 1_048_576.0;

/// [`NEAR`] in the unit of the scores, at most the largest number.
#[inline(always)]
fn near(scale: f32) -> f32 {
    (NEAR * rcp_approx_f32(scale)).min(f32::MAX)
}

/// The maximum before the first score. Finite, so that a difference of two is a number. For `any`
/// scores no finite score is below; otherwise a row whose scores are all below has a sum of 0 or
/// is relative to this.
#[inline(always)]
#[must_use]
pub fn lowest(any: bool, scale: f32) -> f32 {
    if any { f32::MIN } else { -near(scale) }
}

/// What exponents of a row's scores are relative to: `scale subtract - shift`.
#[derive(Clone, Copy, Debug)]
pub struct Reference {
    /// Subtracted from the scores.
    pub subtract: f32,
    /// Added to the scaled differences.
    pub shift: f32,
}

impl Reference {
    /// That of the maximum `max`, with exponents larger by `offset`. `any`: whether the kernel
    /// takes scores of any size; a constant.
    #[inline(always)]
    #[must_use]
    pub fn of(any: bool, max: f32, scale: f32, offset: f32) -> Self {
        let shift = if offset == 0.0 { -max * scale } else { (-max).fma(scale, offset) };
        if any && shift.abs() > SUBTRACTED {
            return Self { subtract: max, shift: offset };
        }
        Self { subtract: 0.0, shift }
    }

    /// Whether something is subtracted.
    #[inline(always)]
    #[must_use]
    pub fn subtracts(&self) -> bool {
        self.subtract != 0.0
    }

    /// The factor of what was accumulated relative to this where `next` follows.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    #[must_use]
    pub fn factor(&self, next: &Self, any: bool, scale: f32) -> f32 {
        let shift = next.shift - self.shift;
        ex2_approx_f32(if any { (self.subtract - next.subtract).fma(scale, shift) } else { shift })
    }

    /// The row whose sum relative to this is `sum`, and the factor that makes what was accumulated
    /// relative to this relative to the maximum.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    #[must_use]
    pub fn row(&self, max: f32, sum: f32, scale: f32) -> (RowSum, f32) {
        let factor = ex2_approx_f32(-(max - self.subtract).fma(scale, self.shift));
        (RowSum { max, sum: sum * factor }, factor)
    }
}

/// Whether a kernel that does not take any scores has to compute a row again, since its scores are
/// beyond [`NEAR`]. Rows without scores seem to have such ones. Infinite scores and NaN have come
/// through already.
#[inline(always)]
#[must_use]
pub fn is_far(row: &RowSum, scale: f32) -> bool {
    let near = near(scale);
    row.max > near && row.max < f32::INFINITY || row.max <= -near && !row.sum.is_nan()
}
