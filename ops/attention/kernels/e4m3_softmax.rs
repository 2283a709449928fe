//! The online softmax of 8-bit floats: as [`hopper_softmax`](super::hopper_softmax), with fewer
//! instructions per score, which limit these kernels.

use super::e4m3_config::OFFSET;
use super::hopper_softmax::{Raised, raise};
use super::reference::{Reference, lowest};
use super::softmax::{RowSum, at};
use moye_device::arch::{FULL_WARP, Fma, ex2_approx_f32, max3_i32, shuffle_xor, vote_any};
use moye_device::tensor::{Fragment, StaticLayout};

/// The reference of the exponents of a row with the maximum `max`.
#[inline(always)]
fn reference(max: f32, scale: f32) -> Reference {
    Reference::of(false, max, scale, OFFSET as f32)
}

/// The running softmax of two rows. The four threads of a quad share the rows: they agree on the
/// maxima, and each accumulates a part of the sums.
///
/// Exponentials and their sums are scaled by `2^OFFSET`: 8-bit floats have few values below 1. The
/// factor cancels in the results and the log-sum-exp.
#[derive(Clone, Copy, Debug)]
pub struct Softmax {
    /// The largest score of each row, not scaled.
    max: [f32; 2],
    /// The thread's part of the sum of the probabilities.
    sum: [f32; 2],
}

impl Softmax {
    /// The state before the first tile.
    #[inline(always)]
    #[must_use]
    pub fn new(scale: f32) -> Self {
        Self { max: [lowest(false, scale); 2], sum: [0.0; 2] }
    }

    /// Replaces a tile's scores by probabilities, `2^(scale (score - max) + OFFSET)`; a hidden
    /// score is minus infinity. Returns the factors for the results accumulated so far, and whether
    /// a factor of the warp's rows may differ from 1.
    ///
    /// With `SUMS` this call also accumulates their sums. Otherwise the caller [adds](Self::add)
    /// them before the next call. `LATER` and the slack are as in
    /// [`hopper_softmax`](super::hopper_softmax::Softmax::take_in). All lanes of the warp execute
    /// this call together.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    pub fn take_in<L: StaticLayout, const LATER: bool, const SUMS: bool>(
        &mut self,
        scores: &mut Fragment<f32, L>,
        scale: f32,
        slack: f32,
    ) -> ([f32; 2], bool) {
        let columns = const { L::LAYOUT.size() as usize / 2 };
        let mut max = if LATER { self.maxima(scores) } else { self.maxima_of_floats(scores) };
        for row in 0..2 {
            max[row] = max[row].max(shuffle_xor(FULL_WARP, max[row], 1));
            max[row] = max[row].max(shuffle_xor(FULL_WARP, max[row], 2));
        }
        let Raised { factors, references, rescale } =
            raise(&mut self.max, &mut max, false, scale, LATER.then_some(slack), |max| reference(max, scale));
        let mut parts = [[0.0f32; 4]; 2];
        for column in 0..columns {
            for row in 0..2 {
                let p = ex2_approx_f32(scores[at(2, row, column)].fma(scale, references[row].shift));
                scores[at(2, row, column)] = p;
                if SUMS {
                    parts[row][column % 4] += p;
                }
            }
        }
        if SUMS {
            for row in 0..2 {
                let [a, b, c, d] = parts[row];
                self.sum[row] = self.sum[row].fma(factors[row], (a + b) + (c + d));
            }
        }
        (factors, rescale)
    }

    /// The maximum of `max` and a thread's scores, for each row.
    ///
    /// Non-negative floats order like their bits as integers, and one instruction takes the maximum
    /// of three integers. Negative scores are negative integers, which do not change a non-negative
    /// maximum.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    fn maxima<L: StaticLayout>(&self, scores: &Fragment<f32, L>) -> [f32; 2] {
        let [first, second] = self.max.map(|max| max.to_bits() as i32);
        if vote_any(FULL_WARP, first | second < 0) {
            return self.maxima_of_floats(scores);
        }
        let mut parts = [[first; 4], [second; 4]];
        for pair in 0..const { L::LAYOUT.size() as usize / 4 } {
            for row in 0..2 {
                let [a, b] = [0, 1].map(|i| scores[at(2, row, 2 * pair + i)].to_bits() as i32);
                parts[row][pair % 4] = max3_i32(a, b, parts[row][pair % 4]);
            }
        }
        parts.map(|[a, b, c, d]| f32::from_bits(max3_i32(max3_i32(a, b, c), d, d) as u32))
    }

    /// [`maxima`](Self::maxima) for maxima of any sign.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    fn maxima_of_floats<L: StaticLayout>(&self, scores: &Fragment<f32, L>) -> [f32; 2] {
        let mut max = self.max;
        for row in 0..2 {
            let mut parts = [self.max[row]; 4];
            for column in 0..const { L::LAYOUT.size() as usize / 2 } {
                parts[column % 4] = parts[column % 4].max(scores[at(2, row, column)]);
            }
            max[row] = parts[0].max(parts[1]).max(parts[2].max(parts[3]));
        }
        max
    }

    /// Adds the sums of the last tile's probabilities, which all threads of the quad hold, then
    /// multiplies by the factors of the tile after it.
    #[inline(always)]
    pub fn add(&mut self, of_tile: [f32; 2], factors: [f32; 2]) {
        for row in 0..2 {
            // Each of the four threads adds a quarter.
            self.sum[row] = of_tile[row].fma(0.25, self.sum[row]) * factors[row];
        }
    }

    /// The largest score of row `row`, its sum of exponentials over all four threads, and the
    /// factor that makes the accumulated results relative to that score.
    ///
    /// All lanes of the warp execute this call together.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    #[must_use]
    pub fn row(&self, row: usize, scale: f32) -> (RowSum, f32) {
        let mut sum = self.sum[row];
        sum += shuffle_xor(FULL_WARP, sum, 1);
        sum += shuffle_xor(FULL_WARP, sum, 2);
        reference(self.max[row], scale).row(self.max[row], sum, scale)
    }
}
