//! The score policies: changes to the scores of a consumer warpgroup's tile before the softmax.
//! Hidden keys, [`ThreadRows`]; in the kernels for all options also soft cap, ALiBi, bias and mask,
//! [`Options`].
//!
//! Scores that only masks change stay unscaled: the softmax multiplies by the scale. Bias and mask
//! are loaded one tile of keys ahead where registers allow. A thread loads eight consecutive keys
//! at a time, and the lanes of a quad exchange them: in the accumulator each lane holds two of
//! every eight columns.
#![allow(non_snake_case, reason = "tensors have CuTe's names")]

use super::super::config::Half;
use super::super::scores::{SoftCap, TileScores};
use super::super::sequence::{Query, Span};
use super::super::softmax::at;
use super::config::HopperConfig;
use super::mainloop::ScoresOf;
use super::rows::ThreadRows;
use core::marker::PhantomData;
use moye_device::arch::{Fma, Word, Word64x2, Word128, lane_id, prmt, transpose_quad};
use moye_device::atom::mma::accumulator_column;
use moye_device::layout;
use moye_device::layout::{Layout, Swizzle};
use moye_device::tensor::{Fragment, StaticLayout};

/// Changes the scores of a warpgroup's rows, a tile of keys at a time.
pub trait ScorePolicy<C: HopperConfig> {
    /// Changes the scores of tile `tile` of keys. Tiles come from the last to the first.
    ///
    /// # Safety
    /// The memory that the arguments point to may be read. All threads of the consumer warpgroup
    /// execute this call.
    unsafe fn apply(&mut self, tSrS: &mut ScoresOf<C>, tile: u32);
}

impl<C: HopperConfig> ScorePolicy<C> for ThreadRows {
    #[inline(always)]
    unsafe fn apply(&mut self, tSrS: &mut ScoresOf<C>, tile: u32) {
        self.mask::<C>(tSrS, tile);
    }
}

/// Keys that a thread loads at a time. Rows of bias and mask begin at multiples of this many
/// elements, and are readable up to such a multiple.
pub const CHUNK: u32 = 8;

/// Chunks of a row of a tile per thread, which loads every fourth chunk.
const fn chunks<C: HopperConfig>() -> usize {
    (C::BLK_N / (4 * CHUNK)) as usize
}

/// Words of bias or mask that a thread has loaded: (word, chunk, row).
#[derive(Clone, Copy, Debug)]
pub struct Loaded<C>(PhantomData<C>);

impl<C: HopperConfig> StaticLayout for Loaded<C> {
    const LAYOUT: Layout = layout!((4, { chunks::<C>() as i64 }, 2));
    const SWIZZLE: Swizzle = Swizzle::NONE;
}

/// The score options for a warpgroup's rows.
pub struct Options<'a, C: HopperConfig> {
    scores: TileScores<'a, C>,
    rows: ThreadRows,
    /// The first tile of keys.
    begin: u32,
    /// The slopes of the thread's rows.
    slopes: [f32; 2],
    /// The addresses of the thread's rows in the tensor that is loaded ahead: the bias, or else the
    /// mask.
    ahead: [u64; 2],
    loaded: Fragment<u32, Loaded<C>>,
}

impl<'a, C: HopperConfig> Options<'a, C> {
    /// The options for `rows`, whose keys are in these tiles, at least one.
    #[inline(always)]
    pub unsafe fn new(scores: TileScores<'a, C>, rows: ThreadRows, Span { begin, end }: Span<u32>) -> Self {
        let mut slopes = [0.0; 2];
        if scores.arguments.slopes.address() != 0 {
            for row in 0..2 {
                slopes[row] = scores.slope(rows.query::<C>(row).head).read(0);
            }
        }
        let queries = [0, 1].map(|row| rows.query::<C>(row));
        let ahead =
            queries.map(|row| if scores.has_bias() { bias(&scores, row) } else { mask(&scores, row) });
        let mut options = Self { scores, rows, begin, slopes, ahead, loaded: Fragment::zeros() };
        if C::AHEAD {
            options.load_ahead(end - 1);
        }
        options
    }

    /// Loads the bias, or else the mask, of a tile ahead of its use.
    #[inline(always)]
    unsafe fn load_ahead(&mut self, tile: u32) {
        let rows = self.ahead;
        if self.scores.has_bias() {
            self.load::<4, 0, 2>(tile, |row, key| Word128::load_global(rows[row] + 2 * u64::from(key)).0);
        } else if self.scores.has_mask() {
            self.load::<2, 0, 2>(tile, |row, key| Word64x2::load_global(rows[row] + u64::from(key)).0);
        }
    }

    /// Loads the bias of a tile for the thread's rows `FIRST .. END`.
    #[inline(always)]
    unsafe fn load_bias<const FIRST: usize, const END: usize>(&mut self, tile: u32) {
        let rows = [0, 1].map(|row| bias(&self.scores, self.rows.query::<C>(row)));
        self.load::<4, FIRST, END>(tile, |row, key| Word128::load_global(rows[row] + 2 * u64::from(key)).0);
    }

    /// Loads the mask of a tile for the thread's rows `FIRST .. END`.
    #[inline(always)]
    unsafe fn load_mask<const FIRST: usize, const END: usize>(&mut self, tile: u32) {
        let rows = [0, 1].map(|row| mask(&self.scores, self.rows.query::<C>(row)));
        self.load::<2, FIRST, END>(tile, |row, key| Word64x2::load_global(rows[row] + u64::from(key)).0);
    }

    /// Loads the chunks of a tile of the thread's rows `FIRST .. END`. `words` loads one, given the
    /// row and its first key.
    #[inline(always)]
    fn load<const WORDS: usize, const FIRST: usize, const END: usize>(
        &mut self,
        tile: u32,
        words: impl Fn(usize, u32) -> [u32; WORDS],
    ) {
        let first = tile * C::BLK_N + lane_id() % 4 * CHUNK;
        // Chunks past the end are clamped to the last; their scores are hidden.
        let last = (self.scores.sequence.visible.keys - 1) / CHUNK * CHUNK;
        for chunk in 0..const { chunks::<C>() } {
            let key = (first + 4 * CHUNK * chunk as u32).min(last);
            for row in FIRST..END {
                let words = words(row, key);
                for word in 0..WORDS {
                    self.loaded[index::<C>(word, chunk, row)] = words[word];
                }
            }
        }
    }

    /// Scales the thread's rows `FIRST .. END` and adds the loaded bias.
    #[inline(always)]
    fn add_bias<const FIRST: usize, const END: usize>(&self, tSrS: &mut ScoresOf<C>, scale: f32) {
        for row in FIRST..END {
            for chunk in 0..const { chunks::<C>() } {
                let words = [0, 1, 2, 3].map(|word| self.loaded[index::<C>(word, chunk, row)]);
                // The thread's pair of columns of the chunk of each lane of the quad.
                let words = transpose_quad(words);
                for lane in 0..4 {
                    let bias = C::T::unpack(words[lane]);
                    for i in 0..2 {
                        let score = at(2, row, 8 * chunk + 2 * lane + i);
                        tSrS[score] = tSrS[score].fma(scale, bias[i]);
                    }
                }
            }
        }
    }

    /// Hides the scores of the rows `FIRST .. END` whose byte of the loaded mask is 0.
    #[inline(always)]
    fn hide<const FIRST: usize, const END: usize>(&self, tSrS: &mut ScoresOf<C>) {
        for row in FIRST..END {
            for two in 0..const { chunks::<C>() / 2 } {
                let chunk = |chunk: usize| [0, 1].map(|word| self.loaded[index::<C>(word, chunk, row)]);
                let ([a, b], [c, d]) = (chunk(2 * two), chunk(2 * two + 1));
                // The pairs of columns of each lane of the quad, of two chunks in a word.
                let pairs = |x, y| [prmt(x, y, 0x5410), prmt(x, y, 0x7632)];
                let ([k, l], [m, n]) = (pairs(a, c), pairs(b, d));
                let words = transpose_quad([k, l, m, n]);
                for lane in 0..4 {
                    for i in 0..4 {
                        let score = at(2, row, 8 * (2 * two + i / 2) + 2 * lane + i % 2);
                        if words[lane] & 0xff << (8 * i) == 0 {
                            tSrS[score] = f32::NEG_INFINITY;
                        }
                    }
                }
            }
        }
    }
}

/// The address of a row of the bias.
#[inline(always)]
fn bias<C: HopperConfig>(scores: &TileScores<'_, C>, row: Query) -> u64 {
    scores.arguments.bias.offset(scores.arguments.stride_bias.row(&scores.work, row)).address()
}

/// The address of a row of the mask.
#[inline(always)]
fn mask<C: HopperConfig>(scores: &TileScores<'_, C>, row: Query) -> u64 {
    scores.arguments.mask.offset(scores.arguments.stride_mask.row(&scores.work, row)).address()
}

/// The index of a word among the loaded words.
const fn index<C: HopperConfig>(word: usize, chunk: usize, row: usize) -> usize {
    word + 4 * (chunk + chunks::<C>() * row)
}

impl<C: HopperConfig> ScorePolicy<C> for Options<'_, C> {
    #[inline(always)]
    unsafe fn apply(&mut self, tSrS: &mut ScoresOf<C>, tile: u32) {
        let arguments = self.scores.arguments;
        // The first option that computes with scaled scores scales them.
        let mut scale = arguments.scale;
        if arguments.softcap != 0.0 {
            let cap = SoftCap::of::<C>(arguments);
            for score in 0..const { C::BLK_N as usize / 2 } {
                tSrS[score] = cap.apply::<C>(tSrS[score]);
            }
            scale = 1.0;
        }
        if arguments.slopes.address() != 0 {
            for row in 0..2 {
                let position = self.rows.query::<C>(row).token as i32 + self.scores.sequence.visible.shift;
                let first = ((tile * C::BLK_N + accumulator_column(lane_id())) as i32 - position) as f32;
                for column in 0..const { C::BLK_N as usize / 4 } {
                    let distance = (first + (column / 2 * 8 + column % 2) as f32).abs();
                    let score = at(2, row, column);
                    tSrS[score] = distance.fma(-self.slopes[row], tSrS[score] * scale);
                }
            }
            scale = 1.0;
        }
        // Without `AHEAD`, bias and mask are loaded one row at a time.
        if self.scores.has_bias() {
            if C::AHEAD {
                self.add_bias::<0, 2>(tSrS, scale);
            } else {
                self.load_bias::<0, 1>(tile);
                self.add_bias::<0, 1>(tSrS, scale);
                self.load_bias::<1, 2>(tile);
                self.add_bias::<1, 2>(tSrS, scale);
            }
        }
        if self.scores.has_mask() {
            if C::AHEAD {
                if self.scores.has_bias() {
                    self.load_mask::<0, 2>(tile);
                }
                self.hide::<0, 2>(tSrS);
            } else {
                self.load_mask::<0, 1>(tile);
                self.hide::<0, 1>(tSrS);
                self.load_mask::<1, 2>(tile);
                self.hide::<1, 2>(tSrS);
            }
        }
        if C::AHEAD && tile > self.begin {
            self.load_ahead(tile - 1);
        }
        self.rows.mask::<C>(tSrS, tile);
    }
}
