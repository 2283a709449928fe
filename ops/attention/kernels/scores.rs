//! Changes to individual scores before the softmax: hidden keys, soft cap, ALiBi, bias and mask.
//! The policies of the kernels by `wgmma`, which load bias and mask in words, are in
//! [`hopper`](super::hopper).

use super::arguments::{Arguments, ScoreStrides};
use super::config::{Pairs, TileConfig};
use super::schedule::Work;
use super::sequence::{Query, Sequence, Span};
use super::softmax::at;
use moye_device::arch::{Fma, ex2_approx_f32, rcp_approx_f32, tanh_approx_f32};
use moye_device::memory::Global;
use moye_device::tensor::{Fragment, StaticLayout};

const LOG2_E: f32 = core::f32::consts::LOG2_E;

/// The options for the scores of a tile: slopes, bias and mask of its heads and its sequence. Rows
/// are given as queries, with heads of the tile.
#[derive(Clone, Copy)]
pub struct TileScores<'a, C: TileConfig> {
    /// The kernel's arguments.
    pub arguments: &'a Arguments<C::Operand>,
    /// The tile.
    pub work: Work,
    /// The tile's sequence.
    pub sequence: Sequence,
}

impl<C: TileConfig> TileScores<'_, C> {
    /// Whether there is a bias.
    #[inline(always)]
    pub fn has_bias(&self) -> bool {
        self.arguments.bias.address() != 0
    }

    /// Whether there is a mask.
    #[inline(always)]
    pub fn has_mask(&self) -> bool {
        self.arguments.mask.address() != 0
    }

    /// A pointer to the slope of a head of the tile.
    #[inline(always)]
    pub fn slope(&self, head: u32) -> Global<f32> {
        let Arguments { slopes, stride_slopes, .. } = self.arguments;
        slopes.offset(i64::from(self.work.batch) * stride_slopes + i64::from(self.work.head + head))
    }

    /// The score of one key of a row whose product is `dot`.
    ///
    /// # Safety
    /// The memory that the arguments point to may be read; row and key exist.
    #[inline(always)]
    pub unsafe fn score(&self, row: Query, key: u32, dot: f32) -> f32 {
        let arguments = self.arguments;
        let mut score = dot;
        if arguments.softcap != 0.0 {
            score = SoftCap::of::<C>(arguments).apply::<C>(score);
        } else if arguments.unit() != arguments.scale {
            score *= arguments.scale;
        }
        if arguments.slopes.address() != 0 {
            let distance = key as i32 - (row.token as i32 + self.sequence.visible.shift);
            score = (distance.abs() as f32).fma(-self.slope(row.head).read(0), score);
        }
        if self.has_bias() {
            let from =
                arguments.stride_bias.row(&self.work, row) + i64::from(key) * arguments.stride_bias.column;
            score += arguments.bias.read(from).widened();
        }
        if self.has_mask() {
            let from =
                arguments.stride_mask.row(&self.work, row) + i64::from(key) * arguments.stride_mask.column;
            if arguments.mask.read(from) == 0 {
                score = f32::NEG_INFINITY;
            }
        }
        score
    }
}

/// A thread's scores in the accumulators of `mma.sync`: the query tokens of its rows and the keys
/// of its columns.
#[derive(Clone, Copy)]
pub struct ThreadScores<'a, C: TileConfig, const ROWS: usize> {
    /// The options of the tile.
    pub options: TileScores<'a, C>,
    /// The thread's rows among those of the sequence, of packed heads.
    pub rows: [u32; ROWS],
    /// The key of the thread's first column.
    pub key: u32,
}

impl<C: TileConfig, const ROWS: usize> ThreadScores<'_, C, ROWS> {
    /// Query token and head, counted from the tile's first, of a row.
    #[inline(always)]
    fn query(&self, row: usize) -> Query {
        Query::of_row(self.rows[row], self.options.arguments.pack)
    }

    /// The key of a column.
    #[inline(always)]
    const fn key(&self, column: usize) -> u32 {
        self.key + (column / 2 * 8 + column % 2) as u32
    }

    /// Sets the scores of keys that a row does not see to minus infinity.
    #[inline(always)]
    pub fn hide<L: StaticLayout>(&self, scores: &mut Fragment<f32, L>) {
        for row in 0..ROWS {
            let Span { begin, end } = self.options.sequence.visible.of(self.query(row).token);
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
    /// The memory that the arguments point to may be read.
    #[inline(always)]
    pub unsafe fn apply<L: StaticLayout>(&self, scores: &mut Fragment<f32, L>) {
        let TileScores { arguments, sequence, .. } = self.options;
        if arguments.softcap != 0.0 {
            let cap = SoftCap::of::<C>(arguments);
            for index in 0..const { L::LAYOUT.size() as usize } {
                scores[index] = cap.apply::<C>(scores[index]);
            }
        } else if arguments.unit() != arguments.scale {
            for index in 0..const { L::LAYOUT.size() as usize } {
                let score = scores[index];
                scores[index] = score * arguments.scale;
            }
        }
        if arguments.slopes.address() != 0 {
            for row in 0..ROWS {
                let Query { token, head } = self.query(row);
                let slope = self.options.slope(head).read(0);
                let position = token as i32 + sequence.visible.shift;
                for column in 0..const { L::LAYOUT.size() as usize / ROWS } {
                    let distance = (self.key(column) as i32 - position).abs() as f32;
                    let score = scores[at(ROWS, row, column)];
                    scores[at(ROWS, row, column)] = distance.fma(-slope, score);
                }
            }
        }
        if self.options.has_bias() {
            // Elements of queries and keys that do not exist are not read.
            self.each_existing::<L>(&arguments.stride_bias, |index, from| {
                let score = scores[index];
                scores[index] = score + arguments.bias.read(from).widened();
            });
        }
        if self.options.has_mask() {
            self.each_existing::<L>(&arguments.stride_mask, |index, from| {
                if arguments.mask.read(from) == 0 {
                    scores[index] = f32::NEG_INFINITY;
                }
            });
        }
    }

    /// Calls `f` for each score of an existing query and key with its index in the accumulator and
    /// its element's offset in a tensor with these strides.
    #[inline(always)]
    fn each_existing<L: StaticLayout>(&self, strides: &ScoreStrides, mut f: impl FnMut(usize, i64)) {
        let TileScores { work, sequence, .. } = self.options;
        for row in 0..ROWS {
            let query = self.query(row);
            let first = strides.row(&work, query);
            for column in 0..const { L::LAYOUT.size() as usize / ROWS } {
                let key = self.key(column);
                if query.token < sequence.queries && key < sequence.visible.keys {
                    f(at(ROWS, row, column), first + i64::from(key) * strides.column);
                }
            }
        }
    }
}

/// The soft cap of a call.
#[derive(Clone, Copy)]
pub struct SoftCap {
    scale: f32,
    cap: f32,
    per_cap: f32,
}

impl SoftCap {
    /// The soft cap of the arguments, which is not 0.
    #[inline(always)]
    pub fn of<C: TileConfig>(arguments: &Arguments<C::Operand>) -> Self {
        let Arguments { scale, softcap: cap, .. } = *arguments;
        let per_cap = rcp_approx_f32(cap);
        Self {
            scale,
            cap,
            per_cap: if C::APPROXIMATE_TANH { scale * per_cap } else { per_cap.min(f32::MAX) },
        }
    }

    /// `cap tanh(scale dot / cap)`.
    #[inline(always)]
    pub fn apply<C: TileConfig>(&self, dot: f32) -> f32 {
        if C::APPROXIMATE_TANH {
            return tanh_approx_f32(dot * self.per_cap) * self.cap;
        }
        capped(dot * self.scale, self.cap, self.per_cap)
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
