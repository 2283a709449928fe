//! Recomputes single rows of results, key by key from global memory, over the keys that the query
//! sees:
//! - rows that a NaN or an infinity has reached through a hidden row of V: tensor cores multiply
//!   every row of a tile of V, and `0 * NaN` must not reach a result;
//! - rows whose scores are too large for the online softmax, see `reference`.

use super::config::Half;
use super::sequence::Span;
use super::softmax::{RowSum, at};
use half::{bf16, f16};
use moye_device::arch::{
    Convert, FULL_WARP, Fma, ballot, e4m3x2_to_f16x2, ex2_approx_f32, f16_to_f32, lane_id, opaque,
    shuffle_xor, vote_any,
};
use moye_device::atom::mma::{accumulator_column, accumulator_row};
use moye_device::memory::{Element, Global};
use moye_device::number::F8E4M3;
use moye_device::tensor::{Fragment, StaticLayout};

/// Elements that are read from global memory two at a time.
pub trait Pairs: Element {
    /// The values of elements `2 pair` and `2 pair + 1` of a row.
    ///
    /// # Safety
    /// They may be read; the row begins at a multiple of two elements.
    unsafe fn pair(row: Global<Self>, pair: i64) -> [f32; 2];

    /// The value of an element.
    fn widened(self) -> f32;
}

macro_rules! halves {
    ($($t:ty)+) => { $(
        impl Pairs for $t {
            #[inline(always)]
            unsafe fn pair(row: Global<Self>, pair: i64) -> [f32; 2] {
                Self::unpack(row.cast::<u32>().read(pair))
            }
            #[inline(always)]
            fn widened(self) -> f32 {
                self.convert()
            }
        }
    )+ };
}
halves!(bf16 f16);

impl Pairs for F8E4M3 {
    #[inline(always)]
    unsafe fn pair(row: Global<Self>, pair: i64) -> [f32; 2] {
        let halves = e4m3x2_to_f16x2(row.cast::<u16>().read(pair));
        [f16_to_f32(halves.low()), f16_to_f32(halves.high())]
    }
    #[inline(always)]
    fn widened(self) -> f32 {
        f16_to_f32(e4m3x2_to_f16x2(self.to_bits().into()).low())
    }
}

/// Where the rows of queries of a tile, or of a warpgroup, and their keys are in global memory.
/// Rows are counted from the tile's first; rows past the end are clamped to the last.
pub trait Source {
    /// The elements of Q, K and V.
    type Element: Pairs;
    /// Columns of a row of Q and K, and of V.
    const D: u32;
    const DV: u32;

    /// The factor of the scores, for exponentials to base 2.
    fn scale(&self) -> f32;

    /// The score of row `row` and key `key`, both of which exist, whose product is `dot`.
    ///
    /// # Safety
    /// The memory that the options of the call point to may be read.
    #[inline(always)]
    unsafe fn score(&self, _row: u32, _key: u32, dot: f32) -> f32 {
        dot
    }

    /// Stores the log-sum-exp of row `row`, or a split's maximum and sum, and returns the factor of
    /// its results. All threads of the row's quad call it.
    ///
    /// # Safety
    /// No other thread touches the output.
    unsafe fn finish(&self, row: u32, sum: RowSum) -> f32;

    /// The keys that some of the rows `first ..= last` see.
    fn hull(&self, first: u32, last: u32) -> Span<i32>;

    /// A row of Q, and the keys that it sees.
    fn query(&self, row: u32) -> (Global<Self::Element>, Span<i32>);

    /// A row of K.
    fn key(&self, key: u32) -> Global<Self::Element>;

    /// A row of V.
    fn value(&self, key: u32) -> Global<Self::Element>;
}

/// Whether a row of results must be recomputed: a mask hides keys (`hides`), and the row is not
/// finite. The thread has `ROWS` rows. All lanes of the warp execute this call together.
#[inline(always)]
pub fn is_hit<L: StaticLayout, const ROWS: usize>(
    results: &Fragment<f32, L>,
    index: usize,
    hides: bool,
) -> bool {
    if !hides {
        return false;
    }
    let mut nothing = 0.0f32;
    for column in 0..const { L::LAYOUT.size() as usize / ROWS } {
        // A NaN or infinite result turns the 0 into NaN.
        nothing = results[at(ROWS, index, column)].fma(0.0, nothing);
    }
    ballot(FULL_WARP, nothing != 0.0) >> (lane_id() & !3) & 15 != 0
}

/// Recomputes this thread's rows that are marked `again`, and passes their results to `put`: row,
/// column, and the results of this column and the next. `of_warp` returns the first of the warp's
/// eight rows at an index. `4 SUMS` columns, a divisor of those of V, are computed at a time: few
/// registers, since this seldom runs.
///
/// # Safety
/// The rows of `source` may be read. All lanes of the warp execute this call together.
#[inline(always)]
pub unsafe fn recompute_rows<S: Source, const ROWS: usize, const SUMS: usize>(
    source: &S,
    again: [bool; ROWS],
    of_warp: impl Fn(u32) -> u32,
    mut put: impl FnMut(u32, u32, [f32; 2]),
) {
    let mut some = again[0];
    for row in 1..ROWS {
        some |= again[row];
    }
    if !vote_any(FULL_WARP, some) {
        return;
    }
    // `opaque` prevents unrolling, which keeps the code small.
    for index in 0..opaque(ROWS as u32) {
        // A run-time index would move the rows to local memory.
        let mut row = again[ROWS - 1];
        for i in (0..ROWS - 1).rev() {
            row = if index == i as u32 { again[i] } else { row };
        }
        if vote_any(FULL_WARP, row) {
            recompute_row::<S, SUMS>(source, row, &of_warp, index, &mut put)
        }
    }
}

/// Recomputes row `index` of the threads that request it with `again`.
#[inline(always)]
unsafe fn recompute_row<S: Source, const SUMS: usize>(
    source: &S,
    again: bool,
    of_warp: &impl Fn(u32) -> u32,
    index: u32,
    put: &mut impl FnMut(u32, u32, [f32; 2]),
) {
    // This code seldom runs and must keep no register alive elsewhere: it computes everything from
    // the arguments.
    let scale = source.scale();
    let lane = lane_id();
    let of_warp = of_warp(index);
    let place = of_warp + accumulator_row(lane);
    let (q, Span { begin, end }) = source.query(place);
    let Span { begin: from, end: to } = source.hull(of_warp, of_warp + 7);
    let mut max = f32::MIN;
    // The row's maximum, then its sum and results, a part of the columns at a time.
    for part in 0..opaque(1 + S::DV / (4 * SUMS as u32)) {
        let (mut sum, mut sums) = (0.0, [0.0f32; SUMS]);
        for key in from..to {
            let k = source.key(key as u32);
            let mut dot = 0.0f32;
            for pair in 0..opaque(S::D / 8) {
                let word = i64::from(4 * pair + lane % 4);
                let (q, k) = (Pairs::pair(q, word), Pairs::pair(k, word));
                dot = q[1].fma(k[1], q[0].fma(k[0], dot));
            }
            dot += shuffle_xor(FULL_WARP, dot, 1);
            dot += shuffle_xor(FULL_WARP, dot, 2);
            let score = source.score(place, key as u32, dot);
            if !again || key < begin || key >= end || score == f32::NEG_INFINITY {
                continue;
            }
            if part == 0 {
                max = max.max(score);
                continue;
            }
            let p = ex2_approx_f32((score - max) * scale);
            sum += p;
            if p != 0.0 {
                let v = source.value(key as u32);
                for pair in 0..SUMS / 2 {
                    let word = (part - 1) * (2 * SUMS as u32) + 4 * pair as u32 + lane % 4;
                    let v = Pairs::pair(v, word.into());
                    for i in 0..2 {
                        sums[2 * pair + i] = p.fma(v[i], sums[2 * pair + i]);
                    }
                }
            }
        }
        if again && part > 0 {
            let factor = source.finish(place, RowSum { max, sum });
            for pair in 0..SUMS / 2 {
                let column = (part - 1) * (4 * SUMS as u32) + 8 * pair as u32 + accumulator_column(lane);
                put(place, column, [sums[2 * pair] * factor, sums[2 * pair + 1] * factor]);
            }
        }
    }
}
