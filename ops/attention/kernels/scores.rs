//! Changes to individual scores before the softmax: hidden keys, soft cap, ALiBi, bias and mask.

use super::arguments::{Arguments, ScoreStrides};
use super::schedule::Work;
use super::sequence::Sequence;
use super::softmax::at;
use moye_device::arch::{Convert, Fma, ex2_approx_f32, rcp_approx_f32};
use moye_device::memory::Element;
use moye_device::tensor::{Fragment, StaticLayout};

const LOG2_E: f32 = core::f32::consts::LOG2_E;

/// The position of a thread's scores: the query tokens of its rows and the keys of its columns.
#[derive(Clone, Copy)]
pub struct Scores<const ROWS: usize> {
    /// The thread's rows, as rows of packed heads.
    pub rows: [u32; ROWS],
    /// The key of the thread's first column.
    pub key: u32,
    /// Query heads in a tile.
    pub pack: u32,
}

impl<const ROWS: usize> Scores<ROWS> {
    /// Query token and head, counted from the tile's first, of a row.
    #[inline(always)]
    #[must_use]
    pub fn token(&self, row: usize) -> (u32, u32) {
        token(self.rows[row], self.pack)
    }

    /// The key of a column.
    #[inline(always)]
    const fn key(&self, column: usize) -> u32 {
        self.key + (column / 2 * 8 + column % 2) as u32
    }

    /// Sets the scores of keys that a row does not see to minus infinity.
    #[inline(always)]
    pub fn hide<L: StaticLayout>(&self, scores: &mut Fragment<f32, L>, sequence: &Sequence) {
        for row in 0..ROWS {
            let (begin, end) = sequence.visible.of(self.token(row).0);
            // One comparison for both ends. Where the row sees nothing the number of keys is 0.
            let count = (end - begin).max(0) as u32;
            for column in 0..const { L::LAYOUT.size() as usize / ROWS } {
                if self.key(column).wrapping_sub(begin as u32) >= count {
                    scores[at(ROWS, row, column)] = f32::NEG_INFINITY;
                }
            }
        }
    }

    /// Applies the options; the results are in the [unit](Arguments::unit) of the scores.
    ///
    /// # Safety
    /// The memory that `arguments` point to may be read.
    #[inline(always)]
    pub unsafe fn apply<T, L>(
        &self,
        scores: &mut Fragment<f32, L>,
        arguments: &Arguments<T>,
        sequence: &Sequence,
        work: Work,
    ) where
        T: Element + Convert<f32>,
        L: StaticLayout,
    {
        let columns = const { L::LAYOUT.size() as usize / ROWS };
        if arguments.softcap != 0.0 {
            let per_cap = rcp_approx_f32(arguments.softcap).min(f32::MAX);
            for index in 0..const { L::LAYOUT.size() as usize } {
                let score = scores[index];
                scores[index] = capped(score * arguments.scale, arguments.softcap, per_cap);
            }
        } else if arguments.unit() != arguments.scale {
            for index in 0..const { L::LAYOUT.size() as usize } {
                let score = scores[index];
                scores[index] = score * arguments.scale;
            }
        }
        if arguments.slopes.address() != 0 {
            for row in 0..ROWS {
                let (token, head) = self.token(row);
                let at_slope = i64::from(work.batch) * arguments.stride_slopes + i64::from(work.head + head);
                let slope = arguments.slopes.read(at_slope);
                let position = token as i32 + sequence.visible.shift;
                for column in 0..columns {
                    let distance = (self.key(column) as i32 - position).abs() as f32;
                    let score = scores[at(ROWS, row, column)];
                    scores[at(ROWS, row, column)] = distance.fma(-slope, score);
                }
            }
        }
        if arguments.bias.address() != 0 {
            // Elements of queries and keys that do not exist are not read.
            self.each_existing::<L>(&arguments.stride_bias, sequence, work, |index, from| {
                let bias: f32 = arguments.bias.read(from).convert();
                let score = scores[index];
                scores[index] = score + bias;
            });
        }
        if arguments.mask.address() != 0 {
            self.each_existing::<L>(&arguments.stride_mask, sequence, work, |index, from| {
                if arguments.mask.read(from) == 0 {
                    scores[index] = f32::NEG_INFINITY;
                }
            });
        }
    }

    /// Calls `f` for each score of an existing query and key with its index in the accumulator and
    /// its element's offset in a tensor with these strides.
    #[inline(always)]
    fn each_existing<L: StaticLayout>(
        &self,
        strides: &ScoreStrides,
        sequence: &Sequence,
        work: Work,
        mut f: impl FnMut(usize, i64),
    ) {
        for row in 0..ROWS {
            let (token, head) = self.token(row);
            let first = strides.row(&work, (token, head));
            for column in 0..const { L::LAYOUT.size() as usize / ROWS } {
                let key = self.key(column);
                if token < sequence.queries && key < sequence.visible.keys {
                    f(at(ROWS, row, column), first + i64::from(key) * strides.column);
                }
            }
        }
    }
}

/// `cap tanh(score / cap)` within a few units in the last place, given the cap and its reciprocal.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
#[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
fn capped(score: f32, cap: f32, per_cap: f32) -> f32 {
    let y = score * per_cap;
    // tanh(y) = 1 - 2 / (1 + e^2y), which loses the digits of a small y.
    let tanh = rcp_approx_f32(1.0 + ex2_approx_f32(y.abs() * (2.0 * LOG2_E))).fma(-2.0, 1.0);
    let large = (cap * tanh).copysign(y);
    // tanh(y) / y by its series, up to y^10.
    let s = y * y;
    let series = s.fma(
        s.fma(
            s.fma(s.fma(s.fma(-0.008_863_235, 0.021_869_488), -0.053_968_254), 0.133_333_33),
            -0.333_333_34,
        ),
        1.0,
    );
    if y.abs() < 0.4 { score * series } else { large }
}

/// Query token and head, counted from the tile's first, of row `row` of the rows of `pack` heads.
#[inline(always)]
#[must_use]
pub fn token(row: u32, pack: u32) -> (u32, u32) {
    if pack == 1 { (row, 0) } else { (row / pack, row % pack) }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;

    #[test]
    fn a_capped_score_is_within_a_relative_error_at_any_cap() {
        for cap in [1e-6f32, 0.5, 3.0, 50.0, 1e5, 1e6, 1e8] {
            let mut score = 1e-3f32;
            while score < 1e9 {
                for score in [score, -score] {
                    let got = f64::from(capped(score, cap, rcp_approx_f32(cap)));
                    let (cap, score) = (f64::from(cap), f64::from(score));
                    let want = cap * (score / cap).tanh();
                    assert!(
                        (got - want).abs() <= 2e-6 * want.abs(),
                        "{got}, expected {want}; {score}, {cap}"
                    );
                }
                score *= 1.37;
            }
            assert_eq!(capped(0.0, cap, rcp_approx_f32(cap)), 0.0);
            assert_eq!(capped(f32::INFINITY, cap, rcp_approx_f32(cap)), cap);
            assert!(capped(f32::NAN, cap, rcp_approx_f32(cap)).is_nan());
        }
    }
}
