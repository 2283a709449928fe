//! The online softmax of a thread's two rows of a warpgroup's tile.

use super::reference::{Reference, lowest};
use super::softmax::{RowSum, at};
use moye_device::arch::{FULL_WARP, Fma, ex2_approx_f32, shuffle_xor, vote_any};
use moye_device::tensor::{Fragment, StaticLayout};

/// The running softmax of two rows. The four threads of a quad share the rows: they agree on the
/// maxima, and each accumulates a part of the sums.
#[derive(Clone, Copy, Debug)]
pub struct Softmax {
    /// The largest score of each row, not scaled.
    pub max: [f32; 2],
    /// The thread's part of the sum of `exp(scale (score - max))`.
    pub sum: [f32; 2],
}

/// The effect of a tile's maxima.
pub struct Raised {
    /// The factors for the results accumulated so far.
    pub factors: [f32; 2],
    /// The reference of each row's exponents.
    pub references: [Reference; 2],
    /// Whether a factor of any row of the warp may differ from 1.
    pub rescale: bool,
}

/// Raises the maxima of a thread's two rows to `max`: with a slack, only if a maximum of the warp's
/// rows grows by more than `slack` powers of two. `reference` returns the reference of a maximum;
/// `any` as in [`Reference::of`].
///
/// All lanes of the warp execute this call together.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
#[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
pub fn raise(
    maxima: &mut [f32; 2],
    max: &mut [f32; 2],
    any: bool,
    scale: f32,
    slack: Option<f32>,
    reference: impl Fn(f32) -> Reference,
) -> Raised {
    let mut rescale = true;
    if let Some(slack) = slack {
        let grown = (max[0] - maxima[0]) * scale > slack || (max[1] - maxima[1]) * scale > slack;
        rescale = vote_any(FULL_WARP, grown);
        if !rescale {
            *max = *maxima;
        }
    }
    let references = max.map(&reference);
    let mut factors = [1.0; 2];
    for row in 0..2 {
        factors[row] = reference(maxima[row]).factor(&references[row], any, scale);
        maxima[row] = max[row];
    }
    Raised { factors, references, rescale }
}

impl Softmax {
    /// The state before the first tile; `any` as in [`Reference::of`].
    #[inline(always)]
    #[must_use]
    pub fn new(any: bool, scale: f32) -> Self {
        Self { max: [lowest(any, scale); 2], sum: [0.0; 2] }
    }

    /// Replaces a tile's scores by `2^(scale (score - max))` and adds them to the sums; a hidden
    /// score is minus infinity. If the returned flag is set, the caller must multiply the results
    /// accumulated so far by the returned factors.
    ///
    /// Where no maximum of the warp's rows grows by more than `slack` powers of two, the maxima
    /// stay as they are: the probabilities and their sum are larger by the same factor. The results
    /// are the same up to rounding. `any` as in [`Reference::of`]. All lanes of the warp execute
    /// this call together.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    pub fn take_in<L: StaticLayout, const LATER: bool>(
        &mut self,
        scores: &mut Fragment<f32, L>,
        any: bool,
        scale: f32,
        slack: f32,
    ) -> ([f32; 2], bool) {
        let columns = const { L::LAYOUT.size() as usize / 2 };
        let mut max = self.max;
        for row in 0..2 {
            // Four chains of maxima, and later of sums.
            let mut parts = [self.max[row]; 4];
            for column in 0..columns {
                parts[column % 4] = parts[column % 4].max(scores[at(2, row, column)]);
            }
            max[row] = parts[0].max(parts[1]).max(parts[2].max(parts[3]));
            max[row] = max[row].max(shuffle_xor(FULL_WARP, max[row], 1));
            max[row] = max[row].max(shuffle_xor(FULL_WARP, max[row], 2));
        }
        let slack = (LATER && slack > 0.0).then_some(slack);
        let Raised { factors, references, rescale } =
            raise(&mut self.max, &mut max, any, scale, slack, |max| Reference::of(any, max, scale, 0.0));
        let subtracts = || references[0].subtracts() || references[1].subtracts();
        if any && vote_any(FULL_WARP, subtracts()) {
            for column in 0..columns {
                for row in 0..2 {
                    let score = scores[at(2, row, column)];
                    scores[at(2, row, column)] = score - references[row].subtract;
                }
            }
        }
        let mut parts = [[0.0f32; 4]; 2];
        // Both rows at a time: a warp waits for the shuffles of both maxima once.
        for column in 0..columns {
            for row in 0..2 {
                let p = ex2_approx_f32(scores[at(2, row, column)].fma(scale, references[row].shift));
                scores[at(2, row, column)] = p;
                parts[row][column % 4] += p;
            }
        }
        for row in 0..2 {
            let [a, b, c, d] = parts[row];
            self.sum[row] = self.sum[row].fma(factors[row], (a + b) + (c + d));
        }
        (factors, rescale)
    }

    /// The largest score of row `row`, its sum of exponentials over all four threads, and the
    /// factor that makes the accumulated results relative to that score.
    ///
    /// All lanes of the warp execute this call together.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    #[must_use]
    pub fn row(&self, row: usize, any: bool, scale: f32) -> (RowSum, f32) {
        let mut sum = self.sum[row];
        sum += shuffle_xor(FULL_WARP, sum, 1);
        sum += shuffle_xor(FULL_WARP, sum, 2);
        Reference::of(any, self.max[row], scale, 0.0).row(self.max[row], sum, scale)
    }
}
