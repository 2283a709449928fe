//! Reductions with a state: partial results that threads, warps and blocks combine.
//!
//! A [`Reduction`] computes the state of a few values of a thread ([`of`](Reduction::of)) and
//! combines two states. States pass through shuffles, shared memory and global memory like any
//! element, so that [`warp_reduce`](super::warp_reduce) and [`block_reduce`](super::block_reduce)
//! accept them:
//!
//! ```
//! use moye_device::algorithm::{ArgMax, Reduction, Variance, warp_reduce};
//! use moye_device::arch::lane_id;
//! # use moye_sim::{GlobalMemory, Launch};
//!
//! # Launch::new("warp", 1, 32, &GlobalMemory::new()).run(&|| {
//! // Two values a lane: 0 to 63, without their order.
//! let (lane, index) = (lane_id(), |i| 2 * lane_id() + i);
//! let values = [lane as f32, (lane + 32) as f32];
//! let [count, mean, m2, _] = warp_reduce(Variance::of(&values, index), Variance::combine);
//! assert_eq!((count, mean, m2 / count), (64.0, 31.5, 341.25));
//! assert_eq!(warp_reduce(ArgMax::of(&values, index), ArgMax::combine), (63.0, 63));
//! # }).unwrap();
//! ```

use crate::arch::{Fma, ShuffleValue, max_nan_f32};
use crate::math;
use crate::memory::Element;
use core::f32::consts::LOG2_E;

/// A reduction of f32 values whose partial states can be combined.
pub trait Reduction: 'static {
    /// The state of some of the values.
    type State: ShuffleValue + Element;

    /// The state of no values.
    const NONE: Self::State;

    /// The state of one or more values; `index` returns the index of each in the whole input, in
    /// ascending order.
    #[must_use]
    fn of(values: &[f32], index: impl Fn(u32) -> u32) -> Self::State;

    /// The state of the values of `a` and `b`.
    #[must_use]
    fn combine(a: Self::State, b: Self::State) -> Self::State;

    /// [`combine`](Self::combine) with a state of later values.
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn then(state: Self::State, later: Self::State) -> Self::State {
        Self::combine(state, later)
    }

    /// The state of a few values from index `at` on, without a search for an index among them:
    /// until [`located`](Self::located) it is `at`.
    ///
    /// ```
    /// use moye_device::algorithm::{ArgMax, Reduction};
    /// # use moye_sim::{GlobalMemory, Launch};
    ///
    /// # Launch::new("thread", 1, 1, &GlobalMemory::new()).run(&|| {
    /// let values = [3.0f32, -1.0, 4.0, 1.0, 5.0, 9.0, 2.0, 9.0];
    /// // A comparison for each four values, and a search among four at the end.
    /// let mut state = ArgMax::NONE;
    /// for at in [0, 4] {
    ///     state = ArgMax::then(state, ArgMax::roughly(&values[at..at + 4], at as u32));
    /// }
    /// assert_eq!(state, (9.0, 4));
    /// let value = |at: u32| values[(at as usize).min(7)];
    /// assert_eq!(ArgMax::located(state, value), (9.0, 5));
    /// # }).unwrap();
    /// ```
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn roughly(values: &[f32], at: u32) -> Self::State {
        Self::of(values, |i| at + i)
    }

    /// A state with a few more values, from index `at` on, as by [`roughly`](Self::roughly).
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn with(state: Self::State, values: &[f32], at: u32) -> Self::State {
        Self::then(state, Self::roughly(values, at))
    }

    /// A state of [`roughly`](Self::roughly), of at most eight values at a time, with the index
    /// that it stands for; `value` returns the value at an index, also past the end.
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn located(state: Self::State, value: impl Fn(u32) -> f32) -> Self::State {
        let _ = value;
        state
    }

    /// The state with its index replaced.
    #[inline(always)]
    #[must_use]
    fn indexed(state: Self::State, index: impl Fn(u32) -> u32) -> Self::State {
        let _ = index;
        state
    }
}

/// The sum.
#[derive(Clone, Copy, Debug)]
pub struct Sum;

impl Reduction for Sum {
    type State = f32;
    const NONE: f32 = 0.0;

    #[inline(always)]
    fn of(values: &[f32], _: impl Fn(u32) -> u32) -> f32 {
        values.iter().fold(0.0, |sum, x| sum + x)
    }

    #[inline(always)]
    fn combine(a: f32, b: f32) -> f32 {
        a + b
    }
}

/// The sum of the squares.
#[derive(Clone, Copy, Debug)]
pub struct SquareSum;

impl Reduction for SquareSum {
    type State = f32;
    const NONE: f32 = 0.0;

    #[inline(always)]
    fn of(values: &[f32], _: impl Fn(u32) -> u32) -> f32 {
        values.iter().fold(0.0, |sum, &x| x.fma(x, sum))
    }

    #[inline(always)]
    fn combine(a: f32, b: f32) -> f32 {
        a + b
    }
}

/// The maximum; NaN if any value is NaN.
#[derive(Clone, Copy, Debug)]
pub struct Max;

impl Reduction for Max {
    type State = f32;
    const NONE: f32 = f32::NEG_INFINITY;

    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn of(values: &[f32], _: impl Fn(u32) -> u32) -> f32 {
        let mut max = values[0];
        for &x in &values[1..] {
            max = max_nan_f32(max, x);
        }
        max
    }

    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn combine(a: f32, b: f32) -> f32 {
        max_nan_f32(a, b)
    }
}

/// The logarithm of the sum of exponentials, online: the maximum, and the sum of `e^(x - max)`.
/// While the maximum is infinite, the sum is of `e^x`.
#[derive(Clone, Copy, Debug)]
pub struct LogSumExp;

impl LogSumExp {
    /// The value that is subtracted before the exponential.
    #[inline(always)]
    #[must_use]
    pub fn base(max: f32) -> f32 {
        if max.abs() == f32::INFINITY { 0.0 } else { max }
    }
}

impl Reduction for LogSumExp {
    type State = (f32, f32);
    const NONE: (f32, f32) = (f32::NEG_INFINITY, 0.0);

    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn of(values: &[f32], index: impl Fn(u32) -> u32) -> (f32, f32) {
        let max = Max::of(values, index);
        let base = Self::base(max);
        (max, values.iter().fold(0.0, |sum, x| sum + math::fast::exp2((x - base) * LOG2_E)))
    }

    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn combine(a: (f32, f32), b: (f32, f32)) -> (f32, f32) {
        let max = max_nan_f32(a.0, b.0);
        let base = Self::base(max);
        let scaled = |(max, sum): (f32, f32)| sum * math::fast::exp2((Self::base(max) - base) * LOG2_E);
        // The sum of no values stays 0, whatever the maximum is.
        let (low, high) = if a.0 > b.0 { (b, a) } else { (a, b) };
        (max, if low.1 == 0.0 { 0.0 } else { scaled(low) } + scaled(high))
    }

    /// The sum is scaled only where a value exceeds the maximum, which is rare after a few values.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn with((mut max, mut sum): (f32, f32), values: &[f32], _: u32) -> (f32, f32) {
        let of_values = Max::of(values, |i| i);
        #[allow(clippy::neg_cmp_op_on_partial_ord, reason = "an unordered pair counts")]
        if !(of_values <= max) {
            let factor = math::fast::exp2((Self::base(max) - Self::base(of_values)) * LOG2_E);
            // The sum of no values stays 0.
            sum = if sum == 0.0 { 0.0 } else { sum * factor };
            max = of_values;
        }
        let base = Self::base(max);
        (max, values.iter().fold(sum, |sum, x| sum + math::fast::exp2((x - base) * LOG2_E)))
    }
}

/// The variance, after Chan, Golub and LeVeque, "Algorithms for computing the sample variance":
/// the number of values, their mean, and the sum of their squared distances from it; the last
/// element is not used.
#[derive(Clone, Copy, Debug)]
pub struct Variance;

impl Reduction for Variance {
    type State = [f32; 4];
    const NONE: [f32; 4] = [0.0; 4];

    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn of(values: &[f32], index: impl Fn(u32) -> u32) -> [f32; 4] {
        let count = values.len() as f32;
        let mean = Sum::of(values, index) * (1.0 / count);
        let m2 = values.iter().fold(0.0, |m2: f32, x| (x - mean).fma(x - mean, m2));
        [count, mean, m2, 0.0]
    }

    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn combine(a: [f32; 4], b: [f32; 4]) -> [f32; 4] {
        let count = a[0] + b[0];
        // No values have weight 0; 0 / 0 would be NaN.
        let weight = b[0] * math::fast::rcp(if count == 0.0 { 1.0 } else { count });
        let distance = b[1] - a[1];
        let mean = distance.fma(weight, a[1]);
        [count, mean, a[2] + b[2] + distance * distance * a[0] * weight, 0.0]
    }
}

/// The maximum and its index, the least index of equal values. NaN is greater than any number, and
/// the first NaN is found.
#[derive(Clone, Copy, Debug)]
pub struct ArgMax;

impl Reduction for ArgMax {
    type State = (f32, u32);
    const NONE: (f32, u32) = (f32::NEG_INFINITY, u32::MAX);

    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn of(values: &[f32], index: impl Fn(u32) -> u32) -> (f32, u32) {
        let max = Max::of(values, &index);
        let mut at = 0;
        // Backwards, so that the first one remains. NaN is rare: its branch costs one vote.
        if max.is_nan() {
            for i in (0..values.len()).rev() {
                at = if values[i].is_nan() { i as u32 } else { at };
            }
        } else {
            for i in (0..values.len()).rev() {
                at = if values[i] == max { i as u32 } else { at };
            }
        }
        (max, index(at))
    }

    #[inline(always)]
    fn combine(a: (f32, u32), b: (f32, u32)) -> (f32, u32) {
        let same = a.0 == b.0 || a.0.is_nan() && b.0.is_nan();
        let greater = b.0 > a.0 || b.0.is_nan() && !a.0.is_nan();
        if greater || same && b.1 < a.1 { b } else { a }
    }

    #[inline(always)]
    fn then(state: (f32, u32), later: (f32, u32)) -> (f32, u32) {
        let is_first = state.1 == u32::MAX;
        // Also if the later one is NaN.
        #[allow(clippy::neg_cmp_op_on_partial_ord, reason = "an unordered pair counts")]
        let is_greater = !(later.0 <= state.0) && !state.0.is_nan();
        if is_first || is_greater { later } else { state }
    }

    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn roughly(values: &[f32], at: u32) -> (f32, u32) {
        (Max::of(values, |i| i), at)
    }

    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn located((max, at): (f32, u32), value: impl Fn(u32) -> f32) -> (f32, u32) {
        let (mut values, mut first) = ([0.0f32; 8], at);
        for (own, i) in values.iter_mut().zip(0..) {
            *own = value(at + i);
        }
        // Backwards, so that the first one remains.
        for i in (0..8).rev() {
            let is_it = values[i] == max || values[i].is_nan() && max.is_nan();
            first = if is_it { at + i as u32 } else { first };
        }
        (max, first)
    }

    #[inline(always)]
    fn indexed((max, at): (f32, u32), index: impl Fn(u32) -> u32) -> (f32, u32) {
        (max, index(at))
    }
}
