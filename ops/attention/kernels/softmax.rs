//! The online softmax: maxima and sums of a thread's rows, tile of keys by tile of keys. Kernels
//! for 8-bit floats, whose limit is the softmax, find the maxima with fewer instructions.

use super::reference::{Reference, lowest};
use moye_device::algorithm::quad_reduce;
use moye_device::arch::{FULL_WARP, Fma, Word, Word128, ex2_approx_f32, max3_i32, rcp_approx_f32, vote_any};
use moye_device::tensor::{Fragment, OfTile, StaticLayout};
use moye_device::{layout, static_layout};

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

static_layout! {
    /// A value for each of a thread's rows.
    pub OfRows<const ROWS: usize> = layout!(({ ROWS as i64 }));
}

/// Multiplies each of a thread's rows by its factor.
#[inline(always)]
pub fn scale_rows<L: OfTile, const ROWS: usize>(results: &mut Fragment<f32, L>, factors: [f32; ROWS]) {
    let mut by_row = Fragment::<f32, OfRows<ROWS>>::zeros();
    for row in 0..ROWS {
        by_row[row] = factors[row];
    }
    results.apply_rows(&by_row, |result, factor| result * factor);
}

/// The softmax policy of a kernel: constants.
#[derive(Clone, Copy, Debug)]
pub struct SoftmaxPolicy {
    /// Whether scores may have any size; see [`Reference::of`].
    pub any: bool,
    /// Where no maximum of the warp's rows grows by more than this many powers of two, the maxima
    /// stay: the probabilities are larger by as much, and so is their sum. The results are the same
    /// up to rounding. `None`: the maxima are those of the scores so far.
    pub slack: Option<f32>,
    /// Exponentials and their sums are larger by `2^offset`, which cancels in the results and the
    /// log-sum-exp. If it is not 0, maxima are compared as integers.
    pub offset: u32,
    /// Whether it sums the probabilities. Otherwise the caller
    /// [adds](OnlineSoftmax::add_sums) the sums of a tile before the next one.
    pub sums: bool,
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
    pub unsafe fn store(&self, address: u32, further: u32) {
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
    pub unsafe fn load(address: u32, further: u32) -> Self {
        const { assert!(ROWS <= 4) };
        let (max, sum) = (Word128::load_shared(address).0, Word128::load_shared(address + further).0);
        let mut softmax = Self { max: [0.0; ROWS], sum: [0.0; ROWS] };
        for row in 0..ROWS {
            softmax.max[row] = f32::from_bits(max[row]);
            softmax.sum[row] = f32::from_bits(sum[row]);
        }
        softmax
    }

    /// Replaces a tile's scores by `2^(scale (score - max) + offset)`; a hidden score is minus
    /// infinity. Returns the factors for the results accumulated so far, and whether a factor of
    /// the warp's rows may differ from 1. With `sums` this call also accumulates the sums. `LATER`
    /// is false for the first tile. A row's maximum and its sum are of `CHAINS` parts.
    ///
    /// All lanes of the warp execute this call together.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    pub fn online_softmax<L: StaticLayout, const CHAINS: usize, const LATER: bool>(
        &mut self,
        scores: &mut Fragment<f32, L>,
        SoftmaxPolicy { any, slack, offset, sums }: SoftmaxPolicy,
        scale: f32,
    ) -> ([f32; ROWS], bool) {
        let columns = const { L::LAYOUT.size() as usize / ROWS };
        let max = if LATER && offset != 0 {
            self.maxima_by_integers::<L, CHAINS>(scores)
        } else {
            self.maxima::<L, CHAINS>(scores)
        };
        let max = max.map(|max| quad_reduce(max, f32::max));
        let slack = if LATER { slack } else { None };
        let (factors, references, rescale) = self.raise(max, any, scale, slack, offset as f32);
        let mut subtracts = false;
        for row in 0..ROWS {
            subtracts |= references[row].subtract != 0.0;
        }
        if any && vote_any(FULL_WARP, subtracts) {
            for column in 0..columns {
                for row in 0..ROWS {
                    let score = scores[at(ROWS, row, column)];
                    scores[at(ROWS, row, column)] = score - references[row].subtract;
                }
            }
        }
        let mut parts = [[0.0f32; CHAINS]; ROWS];
        // All rows at a time: a warp waits for the shuffles of their maxima once.
        for column in 0..columns {
            for row in 0..ROWS {
                let p = ex2_approx_f32(scores[at(ROWS, row, column)].fma(scale, references[row].shift));
                scores[at(ROWS, row, column)] = p;
                if sums {
                    parts[row][column % CHAINS] += p;
                }
            }
        }
        if sums {
            for row in 0..ROWS {
                self.sum[row] = self.sum[row].fma(factors[row], of_chains(parts[row], |a, b| a + b));
            }
        }
        (factors, rescale)
    }

    /// The largest of each row's maximum so far and the thread's scores.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    fn maxima<L: StaticLayout, const CHAINS: usize>(&self, scores: &Fragment<f32, L>) -> [f32; ROWS] {
        let mut maxima = self.max;
        for row in 0..ROWS {
            let mut parts = [maxima[row]; CHAINS];
            for column in 0..const { L::LAYOUT.size() as usize / ROWS } {
                parts[column % CHAINS] = parts[column % CHAINS].max(scores[at(ROWS, row, column)]);
            }
            maxima[row] = of_chains(parts, f32::max);
        }
        maxima
    }

    /// [`maxima`](Self::maxima) by integer instructions, where the maxima are not negative.
    /// Non-negative floats order like their bits as integers, and one instruction takes the maximum
    /// of three integers. Negative scores are negative integers, which do not change a non-negative
    /// maximum.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    fn maxima_by_integers<L: StaticLayout, const CHAINS: usize>(
        &self,
        scores: &Fragment<f32, L>,
    ) -> [f32; ROWS] {
        let maxima = self.max.map(|max| max.to_bits() as i32);
        let mut signs = 0;
        for row in 0..ROWS {
            signs |= maxima[row];
        }
        if vote_any(FULL_WARP, signs < 0) {
            return self.maxima::<L, CHAINS>(scores);
        }
        let mut parts = maxima.map(|max| [max; 4]);
        for pair in 0..const { L::LAYOUT.size() as usize / (2 * ROWS) } {
            for row in 0..ROWS {
                let [a, b] = [0, 1].map(|i| scores[at(ROWS, row, 2 * pair + i)].to_bits() as i32);
                parts[row][pair % 4] = max3_i32(a, b, parts[row][pair % 4]);
            }
        }
        parts.map(|[a, b, c, d]| f32::from_bits(max3_i32(max3_i32(a, b, c), d, d) as u32))
    }

    /// Raises the maxima to `max`: with a slack, only if a maximum of the warp's rows grows by more
    /// than `slack` powers of two. Returns the factors for the results accumulated so far, the
    /// reference of each row's exponents, and whether a factor of any row of the warp may differ
    /// from 1. All lanes of the warp execute this call together.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    fn raise(
        &mut self,
        mut max: [f32; ROWS],
        any: bool,
        scale: f32,
        slack: Option<f32>,
        offset: f32,
    ) -> ([f32; ROWS], [Reference; ROWS], bool) {
        let reference = |max| Reference::of(any, max, scale, offset);
        let mut rescale = true;
        if let Some(slack) = slack {
            let mut grown = false;
            for row in 0..ROWS {
                grown |= (max[row] - self.max[row]) * scale > slack;
            }
            rescale = vote_any(FULL_WARP, grown);
            if !rescale {
                max = self.max;
            }
        }
        let references = max.map(reference);
        let mut factors = [1.0; ROWS];
        for row in 0..ROWS {
            factors[row] = reference(self.max[row]).factor(&references[row], any, scale);
        }
        self.max = max;
        (factors, references, rescale)
    }

    /// Adds the sums of the last tile's probabilities, which all threads of the quad hold, then
    /// multiplies by the factors of the tile after it.
    #[inline(always)]
    pub fn add_sums(&mut self, of_tile: [f32; ROWS], factors: [f32; ROWS]) {
        for row in 0..ROWS {
            // Each of the four threads adds a quarter.
            self.sum[row] = of_tile[row].fma(0.25, self.sum[row]) * factors[row];
        }
    }

    /// The largest score of row `row`, its sum of exponentials over all four threads, and the
    /// factor that makes the accumulated results relative to that score. The exponentials are
    /// larger by `2^offset`. All lanes of the warp execute this call together.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    #[must_use]
    pub fn row(&self, row: usize, any: bool, scale_log2: f32, offset: f32) -> (RowSum, f32) {
        let sum = quad_reduce(self.sum[row], |a, b| a + b);
        Reference::of(any, self.max[row], scale_log2, offset).row(self.max[row], sum, scale_log2)
    }
}

/// One value of a power of two of them, combined in pairs.
#[inline(always)]
fn of_chains<const CHAINS: usize>(mut parts: [f32; CHAINS], f: impl Fn(f32, f32) -> f32) -> f32 {
    let mut step = 1;
    while step < CHAINS {
        let mut i = 0;
        while i < CHAINS {
            parts[i] = f(parts[i], parts[i + step]);
            i += 2 * step;
        }
        step *= 2;
    }
    parts[0]
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
