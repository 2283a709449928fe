//! The online softmax: maxima and sums of a thread's rows, tile of keys by tile of keys.

use super::reference::{Reference, lowest};
use moye_device::arch::{
    FULL_WARP, Fma, Word, Word128, ex2_approx_f32, rcp_approx_f32, shuffle_xor, vote_any,
};
use moye_device::tensor::{Fragment, StaticLayout};

/// The index of an element of an accumulator `((2, 2), MMA_M, MMA_N)` of `mma.sync` or `wgmma`,
/// given the thread's row (of `rows`) and column.
///
/// Row `r` of thread `t` is row `16 (r / 2) + 8 (r % 2) + t / 4` of its warp's, with `MMA_M` blocks
/// of 16 rows; column `c` is column `8 (c / 2) + 2 (t % 4) + c % 2` of the tile.
#[inline(always)]
#[must_use]
pub const fn at(rows: usize, row: usize, column: usize) -> usize {
    column % 2 + 2 * (row % 2) + 4 * (row / 2 + rows / 2 * (column / 2))
}

/// The running softmax of a thread's `ROWS` rows.
///
/// The four threads of a quad share the rows: they agree on the maxima, and each accumulates a part
/// of the sums.
#[derive(Clone, Copy, Debug)]
pub struct OnlineSoftmax<const ROWS: usize> {
    /// The largest score of each row, not scaled.
    pub(super) max: [f32; ROWS],
    /// The thread's part of the sum of `exp(scale (score - max))`.
    pub(super) sum: [f32; ROWS],
}

impl<const ROWS: usize> OnlineSoftmax<ROWS> {
    /// The state before the first tile; `any` as in [`Reference::of`].
    #[inline(always)]
    #[must_use]
    pub fn new(any: bool, scale_log2: f32) -> Self {
        Self { max: [lowest(any, scale_log2); ROWS], sum: [0.0; ROWS] }
    }

    /// Writes four rows to shared memory: 16 bytes at the address, and 16 bytes `further` on.
    ///
    /// # Safety
    /// No other thread accesses the two places.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    pub unsafe fn store(&self, (address, further): (u32, u32)) {
        let (mut max, mut sum) = ([0; 4], [0; 4]);
        for row in 0..ROWS {
            (max[row], sum[row]) = (self.max[row].to_bits(), self.sum[row].to_bits());
        }
        Word128::store_shared(address, Word128(max));
        Word128::store_shared(address + further, Word128(sum));
    }

    /// Reads what [`store`](Self::store) wrote.
    ///
    /// # Safety
    /// Same contract as [`store`](Self::store), which has written both.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    #[must_use]
    pub unsafe fn load((address, further): (u32, u32)) -> Self {
        const { assert!(ROWS <= 4) };
        let (max, sum) = (Word128::load_shared(address).0, Word128::load_shared(address + further).0);
        let mut softmax = Self { max: [0.0; ROWS], sum: [0.0; ROWS] };
        for row in 0..ROWS {
            softmax.max[row] = f32::from_bits(max[row]);
            softmax.sum[row] = f32::from_bits(sum[row]);
        }
        softmax
    }

    /// Replaces a tile's scores by `2^(scale (score - max))`, where a hidden score is minus
    /// infinity, and adds them to the sums. The caller must multiply the results accumulated so far
    /// by the returned factors, one per row. `any` as in [`Reference::of`]. All lanes of the warp
    /// execute this call together.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    pub fn online_softmax<L: StaticLayout>(
        &mut self,
        scores: &mut Fragment<f32, L>,
        any: bool,
        scale_log2: f32,
    ) -> [f32; ROWS] {
        let columns = const { L::LAYOUT.size() as usize / ROWS };
        let mut factors = [1.0; ROWS];
        for row in 0..ROWS {
            let mut max = self.max[row];
            for column in 0..columns {
                max = max.max(scores[at(ROWS, row, column)]);
            }
            max = max.max(shuffle_xor(FULL_WARP, max, 1));
            max = max.max(shuffle_xor(FULL_WARP, max, 2));
            let of = |max| Reference::of(any, max, scale_log2, 0.0);
            let (before, reference) = (of(self.max[row]), of(max));
            factors[row] = before.factor(&reference, any, scale_log2);
            self.max[row] = max;
            if any && vote_any(FULL_WARP, reference.subtracts()) {
                for column in 0..columns {
                    let score = scores[at(ROWS, row, column)];
                    scores[at(ROWS, row, column)] = score - reference.subtract;
                }
            }
            let mut sum = 0.0;
            for column in 0..columns {
                let p = ex2_approx_f32(scores[at(ROWS, row, column)].fma(scale_log2, reference.shift));
                scores[at(ROWS, row, column)] = p;
                sum += p;
            }
            self.sum[row] = self.sum[row].fma(factors[row], sum);
        }
        factors
    }

    /// The largest score of row `row`, its sum of exponentials over all four threads, and the
    /// factor that makes the accumulated results relative to that score. The exponentials are
    /// larger by `2^offset`. All lanes of the warp execute this call together.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    #[must_use]
    pub fn row(&self, row: usize, any: bool, scale_log2: f32, offset: f32) -> (RowSum, f32) {
        let mut sum = self.sum[row];
        sum += shuffle_xor(FULL_WARP, sum, 1);
        sum += shuffle_xor(FULL_WARP, sum, 2);
        Reference::of(any, self.max[row], scale_log2, offset).row(self.max[row], sum, scale_log2)
    }
}

/// The softmax of a row over some of its keys. Splits are merged by maximum and sum: next to a
/// large score, a log-sum-exp in f32 loses the logarithm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RowSum {
    /// The largest score, in the [unit](super::Arguments::unit) of the scores.
    pub max: f32,
    /// The sum of `exp(unit (score - max))`; 0 where the row has seen no score.
    pub sum: f32,
}

impl RowSum {
    /// The maximum to merge by: that of an empty row is below all others.
    #[inline(always)]
    #[must_use]
    pub fn merged_max(&self) -> f32 {
        if self.sum == 0.0 { f32::MIN } else { self.max }
    }

    /// The sum relative to `max`, at least [`merged_max`](Self::merged_max).
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    #[must_use]
    pub fn relative_to(&self, max: f32, unit: f32) -> f32 {
        let factor = ex2_approx_f32((self.merged_max() - max) * (unit * core::f32::consts::LOG2_E));
        self.sum * factor
    }

    /// The factor that normalises the sum, including `sink`, a score without a value (minus
    /// infinity for none), and the natural logarithm of that sum of exponentials. For a row without
    /// scores the logarithm is the sink.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    #[must_use]
    pub fn finish(&self, unit: f32, sink: f32) -> (f32, f32) {
        const LOG2_E: f32 = core::f32::consts::LOG2_E;
        // The maximum of an empty sum has no meaning.
        let max = if self.sum == 0.0 { sink } else { self.max * unit };
        let new_max = max.max(sink);
        let factor = if max == new_max { 1.0 } else { ex2_approx_f32((max - new_max) * LOG2_E) };
        let sink = if sink == f32::NEG_INFINITY { 0.0 } else { ex2_approx_f32((sink - new_max) * LOG2_E) };
        let total = self.sum.fma(factor, sink);
        if total == 0.0 {
            return (0.0, f32::NEG_INFINITY);
        }
        (factor * rcp_approx_f32(total), log2(total).fma(core::f32::consts::LN_2, new_max))
    }
}

/// `log2(x)` of a positive normal number within 2 units in the last place of the larger of 1 and
/// the result; NaN of NaN.
#[inline(always)]
#[must_use]
pub fn log2(x: f32) -> f32 {
    // The mantissa from sqrt(1/2) to sqrt(2), and the exponent.
    let shifted = x.to_bits().wrapping_sub(0x3f35_04f3);
    let exponent = (shifted as i32 >> 23) as f32;
    let m = f32::from_bits((shifted & 0x007f_ffff).wrapping_add(0x3f35_04f3));
    // log(m) = 2 artanh(t), by its series.
    let t = (m - 1.0) / (m + 1.0);
    let s = t * t;
    let series = s.fma(s.fma(s.fma(s.fma(1.0 / 9.0, 1.0 / 7.0), 0.2), 1.0 / 3.0), 1.0);
    let log = (t * series).fma(2.0 * core::f32::consts::LOG2_E, exponent);
    if x < f32::INFINITY { log } else { x }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;

    #[test]
    fn the_logarithm_is_within_two_units_in_the_last_place() {
        let mut x = 1.0e-37f32;
        while x < 1.0e38 {
            let (got, want) = (f64::from(log2(x)), f64::from(x).log2());
            assert!(
                (got - want).abs() <= 2.5e-7 * want.abs().max(1.0),
                "log2({x:e}) = {got}, expected {want}"
            );
            x *= 1.0037;
        }
        assert_eq!(log2(1.0), 0.0);
        assert!(log2(f32::NAN).is_nan() && log2(f32::INFINITY) == f32::INFINITY);
    }

    #[test]
    fn a_sink_takes_its_share_whichever_is_larger() {
        for (max, sum, sink) in
            [(0.0f32, 3.0f32, 0.0f32), (0.0, 3.0, 150.0), (-200.0, 3.0, 0.5), (5.0, 1.0, -300.0)]
        {
            let (factor, lse) = RowSum { max: 2.0 * max, sum }.finish(0.5, sink);
            // In f64, from the larger exponent on.
            let (max, sum, sink) = (f64::from(max), f64::from(sum), f64::from(sink));
            let top = max.max(sink);
            let total = sum * (max - top).exp() + (sink - top).exp();
            let want = (max - top).exp() / total;
            assert!((f64::from(factor) - want).abs() <= 1e-5 * want + 1e-38, "{factor} and {want}");
            assert!((f64::from(lse) - (top + total.ln())).abs() <= 1e-6 * top.abs().max(1.0));
        }
        let empty = RowSum { max: f32::MIN, sum: 0.0 };
        assert_eq!(empty.finish(1.0, f32::NEG_INFINITY), (0.0, f32::NEG_INFINITY));
        assert_eq!(empty.finish(1.0, 2.0).1, 2.0);
    }
}
