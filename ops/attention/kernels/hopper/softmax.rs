//! The online softmax of a thread's two rows of a warpgroup's tile. Kernels for 8-bit floats, whose
//! limit is the softmax, find the maxima with fewer instructions.

use super::super::reference::Reference;
use super::super::softmax::{OnlineSoftmax, at};
use moye_device::arch::{FULL_WARP, Fma, ex2_approx_f32, max3_i32, shuffle_xor, vote_any};
use moye_device::tensor::{Fragment, StaticLayout};

/// The softmax policy of a kernel: constants.
#[derive(Clone, Copy, Debug)]
pub struct SoftmaxPolicy {
    /// Whether scores may have any size; see [`Reference::of`].
    pub any: bool,
    /// Where no maximum of the warp's rows grows by more than this many powers of two, the maxima
    /// stay: the probabilities are larger by as much, and so is their sum. The results are the same
    /// up to rounding.
    pub slack: f32,
    /// Exponentials and their sums are larger by `2^offset`, which cancels in the results and the
    /// log-sum-exp. If it is not 0, maxima are compared as integers.
    pub offset: u32,
    /// Whether it sums the probabilities. Otherwise the caller [adds](add_sums) the sums of a tile
    /// before the next one.
    pub sums: bool,
}

/// The maxima after a tile, and what follows from them.
struct Raised {
    /// The factors for the results accumulated so far.
    factors: [f32; 2],
    /// The reference of each row's exponents.
    references: [Reference; 2],
    /// Whether a factor of any row of the warp may differ from 1.
    rescale: bool,
}

/// Raises the maxima of a thread's two rows to `max`: with a slack, only if a maximum of the warp's
/// rows grows by more than `slack` powers of two. All lanes of the warp execute this call together.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
#[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
fn raise(
    maxima: &mut [f32; 2],
    max: &mut [f32; 2],
    any: bool,
    scale: f32,
    slack: Option<f32>,
    offset: f32,
) -> Raised {
    let reference = |max| Reference::of(any, max, scale, offset);
    let mut rescale = true;
    if let Some(slack) = slack {
        let grown = (max[0] - maxima[0]) * scale > slack || (max[1] - maxima[1]) * scale > slack;
        rescale = vote_any(FULL_WARP, grown);
        if !rescale {
            *max = *maxima;
        }
    }
    let references = max.map(reference);
    let mut factors = [1.0; 2];
    for row in 0..2 {
        factors[row] = reference(maxima[row]).factor(&references[row], any, scale);
        maxima[row] = max[row];
    }
    Raised { factors, references, rescale }
}

/// The largest of a quad's values.
#[inline(always)]
fn quad_max(mut max: f32) -> f32 {
    max = max.max(shuffle_xor(FULL_WARP, max, 1));
    max.max(shuffle_xor(FULL_WARP, max, 2))
}

/// The largest of the maximum so far and of the thread's scores, of row `row`.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
#[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
fn row_max<L: StaticLayout>(softmax: &OnlineSoftmax<2>, scores: &Fragment<f32, L>, row: usize) -> f32 {
    // Four chains of maxima.
    let mut parts = [softmax.max[row]; 4];
    for column in 0..const { L::LAYOUT.size() as usize / 2 } {
        parts[column % 4] = parts[column % 4].max(scores[at(2, row, column)]);
    }
    parts[0].max(parts[1]).max(parts[2].max(parts[3]))
}

/// [`row_max`] of both rows by integer instructions, where the maxima are not negative.
/// Non-negative floats order like their bits as integers, and one instruction takes the maximum of
/// three integers. Negative scores are negative integers, which do not change a non-negative
/// maximum.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
#[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
fn maxima_by_integers<L: StaticLayout>(softmax: &OnlineSoftmax<2>, scores: &Fragment<f32, L>) -> [f32; 2] {
    let [first, second] = softmax.max.map(|max| max.to_bits() as i32);
    if vote_any(FULL_WARP, first | second < 0) {
        return [0, 1].map(|row| row_max(softmax, scores, row));
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

/// Replaces a tile's scores by `2^(scale (score - max) + offset)`; a hidden score is minus
/// infinity. Returns the factors for the results accumulated so far, and whether a factor of the
/// warp's rows may differ from 1. With `sums` this call also accumulates the sums. Otherwise the
/// caller [adds](add_sums) them before the next call. `LATER` is false for the first tile.
///
/// All lanes of the warp execute this call together.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
#[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
pub fn online_softmax<L: StaticLayout, const LATER: bool>(
    softmax: &mut OnlineSoftmax<2>,
    scores: &mut Fragment<f32, L>,
    SoftmaxPolicy { any, slack, offset, sums }: SoftmaxPolicy,
    scale: f32,
) -> ([f32; 2], bool) {
    let columns = const { L::LAYOUT.size() as usize / 2 };
    let mut max = if LATER && offset != 0 {
        maxima_by_integers(softmax, scores).map(quad_max)
    } else {
        [0, 1].map(|row| quad_max(row_max(softmax, scores, row)))
    };
    let Raised { factors, references, rescale } =
        raise(&mut softmax.max, &mut max, any, scale, LATER.then_some(slack), offset as f32);
    let subtracts = || references[0].subtracts() || references[1].subtracts();
    if any && vote_any(FULL_WARP, subtracts()) {
        for column in 0..columns {
            for row in 0..2 {
                let score = scores[at(2, row, column)];
                scores[at(2, row, column)] = score - references[row].subtract;
            }
        }
    }
    // Four chains of sums.
    let mut parts = [[0.0f32; 4]; 2];
    // Both rows at a time: a warp waits for the shuffles of both maxima once.
    for column in 0..columns {
        for row in 0..2 {
            let p = ex2_approx_f32(scores[at(2, row, column)].fma(scale, references[row].shift));
            scores[at(2, row, column)] = p;
            if sums {
                parts[row][column % 4] += p;
            }
        }
    }
    if sums {
        for row in 0..2 {
            let [a, b, c, d] = parts[row];
            softmax.sum[row] = softmax.sum[row].fma(factors[row], (a + b) + (c + d));
        }
    }
    (factors, rescale)
}

/// Adds the sums of the last tile's probabilities, which all threads of the quad hold, then
/// multiplies by the factors of the tile after it.
#[inline(always)]
pub fn add_sums(softmax: &mut OnlineSoftmax<2>, of_tile: [f32; 2], factors: [f32; 2]) {
    for row in 0..2 {
        // Each of the four threads adds a quarter.
        softmax.sum[row] = of_tile[row].fma(0.25, softmax.sum[row]) * factors[row];
    }
}
