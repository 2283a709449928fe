//! The score policies: changes to the scores of a consumer warpgroup's tile before the softmax.
//! Hidden keys, [`ThreadRows`]; in the kernels for all options also soft cap, ALiBi, bias and mask,
//! [`Options`].
//!
//! Scores that only masks change stay unscaled: the softmax multiplies by the scale. Bias and mask
//! are loaded one tile of keys ahead where registers allow. A thread loads eight consecutive keys
//! at a time, and the lanes of a quad exchange them: in the accumulator each lane holds two of
//! every eight columns.
#![allow(non_snake_case, reason = "tensors have CuTe's names")]

use super::super::arguments::Arguments;
use super::super::config::Half;
use super::super::schedule::Work;
use super::super::sequence::Sequence;
use super::super::softmax::at;
use super::config::HopperConfig;
use super::mainloop::ScoresOf;
use super::rows::ThreadRows;
use core::marker::PhantomData;
use moye_device::arch::{
    Convert, Fma, Word, Word64x2, Word128, lane_id, prmt, rcp_approx_f32, tanh_approx_f32, transpose_quad,
};
use moye_device::atom::mma::accumulator_column;
use moye_device::layout;
use moye_device::layout::{Layout, Swizzle};
use moye_device::memory::Global;
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

/// The unit of the scores that the softmax takes: its factor, for exponentials to base e.
#[inline(always)]
pub fn unit<C: HopperConfig>(arguments: &Arguments<C::Operand>) -> f32 {
    if C::GENERAL { arguments.unit() } else { arguments.scale }
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
    /// The options for `rows`, whose keys are in the tiles `begin .. end`, at least one.
    #[inline(always)]
    pub unsafe fn new(scores: TileScores<'a, C>, rows: ThreadRows, (begin, end): (u32, u32)) -> Self {
        let mut slopes = [0.0; 2];
        if scores.arguments.slopes.address() != 0 {
            for row in 0..2 {
                slopes[row] = scores.slope(rows.token::<C>(row).1).read(0);
            }
        }
        let ahead = scores.ahead(&rows);
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
        let rows = [0, 1].map(|row| self.scores.bias(self.rows.token::<C>(row)));
        self.load::<4, FIRST, END>(tile, |row, key| Word128::load_global(rows[row] + 2 * u64::from(key)).0);
    }

    /// Loads the mask of a tile for the thread's rows `FIRST .. END`.
    #[inline(always)]
    unsafe fn load_mask<const FIRST: usize, const END: usize>(&mut self, tile: u32) {
        let rows = [0, 1].map(|row| self.scores.mask(self.rows.token::<C>(row)));
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
            let inner = scale * rcp_approx_f32(arguments.softcap);
            for score in 0..const { C::BLK_N as usize / 2 } {
                tSrS[score] = tanh_approx_f32(tSrS[score] * inner) * arguments.softcap;
            }
            scale = 1.0;
        }
        if arguments.slopes.address() != 0 {
            for row in 0..2 {
                let position = self.rows.token::<C>(row).0 as i32 + self.scores.sequence.visible.shift;
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

/// The options for the scores of a tile: slopes, bias and mask of its heads and its sequence. Rows
/// are given as token and head of the tile.
#[derive(Clone, Copy)]
pub struct TileScores<'a, C: HopperConfig> {
    /// The kernel's arguments.
    pub arguments: &'a Arguments<C::Operand>,
    /// The tile.
    pub work: Work,
    /// The tile's sequence.
    pub sequence: Sequence,
}

impl<C: HopperConfig> TileScores<'_, C> {
    #[inline(always)]
    fn has_bias(&self) -> bool {
        self.arguments.bias.address() != 0
    }

    #[inline(always)]
    fn has_mask(&self) -> bool {
        self.arguments.mask.address() != 0
    }

    /// The address of a row of the bias.
    #[inline(always)]
    fn bias(&self, row: (u32, u32)) -> u64 {
        self.arguments.bias.offset(self.arguments.stride_bias.row(&self.work, row)).address()
    }

    /// The address of a row of the mask.
    #[inline(always)]
    fn mask(&self, row: (u32, u32)) -> u64 {
        self.arguments.mask.offset(self.arguments.stride_mask.row(&self.work, row)).address()
    }

    /// The addresses of the thread's rows in the tensor that is loaded a tile ahead.
    #[inline(always)]
    fn ahead(&self, rows: &ThreadRows) -> [u64; 2] {
        let tokens = [0, 1].map(|row| rows.token::<C>(row));
        tokens.map(|token| if self.has_bias() { self.bias(token) } else { self.mask(token) })
    }

    /// A pointer to the slope of a head of the tile.
    #[inline(always)]
    fn slope(&self, head: u32) -> Global<f32> {
        let Arguments { slopes, stride_slopes, .. } = self.arguments;
        slopes.offset(i64::from(self.work.batch) * stride_slopes + i64::from(self.work.head + head))
    }

    /// The score of one key of a row whose product is `dot`.
    ///
    /// # Safety
    /// The memory that the arguments point to may be read; row and key exist.
    #[inline(always)]
    pub unsafe fn score(&self, row: (u32, u32), key: u32, dot: f32) -> f32 {
        let arguments = self.arguments;
        let mut score = dot;
        if arguments.softcap != 0.0 {
            let inner = arguments.scale * rcp_approx_f32(arguments.softcap);
            score = tanh_approx_f32(score * inner) * arguments.softcap;
        } else if arguments.unit() != arguments.scale {
            score *= arguments.scale;
        }
        if arguments.slopes.address() != 0 {
            let distance = key as i32 - (row.0 as i32 + self.sequence.visible.shift);
            score = (distance.abs() as f32).fma(-self.slope(row.1).read(0), score);
        }
        if self.has_bias() {
            let from = arguments.stride_bias.row(&self.work, row) + i64::from(key);
            let bias: f32 = arguments.bias.cast::<C::T>().read(from).convert();
            score += bias;
        }
        if self.has_mask() {
            let from = arguments.stride_mask.row(&self.work, row) + i64::from(key);
            if arguments.mask.read(from) == 0 {
                score = f32::NEG_INFINITY;
            }
        }
        score
    }
}
