//! Recomputes single rows of results, key by key from global memory, over the keys that the query
//! sees:
//! - rows that a NaN or an infinity has reached through a hidden row of V: tensor cores multiply
//!   every row of a tile of V, and `0 * NaN` must not reach a result;
//! - rows whose scores are too large for the online softmax, see `reference`.

use super::arguments::{Arguments, Strides};
use super::config::{Pairs, TileConfig};
use super::sequence::{Places, Query, Span, Visible};
use super::softmax::{RowSum, at};
use super::tile::{Sequences, Tile};
use moye_device::arch::{FULL_WARP, Fma, ballot, ex2_approx_f32, lane_id, opaque, shuffle_xor, vote_any};
use moye_device::atom::mma::{accumulator_column, accumulator_row};
use moye_device::memory::Global;
use moye_device::tensor::{Fragment, StaticLayout};

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

/// The rows of a tile from `first` on, for their recomputation. They are counted from `first`.
pub struct Again<'a, 'b, C: TileConfig, S> {
    /// The block's tile.
    pub tile: &'a Tile<'b, C, S>,
    /// The first row among those of the sequence.
    pub first: u32,
}

impl<C: TileConfig, S: Sequences<C>> Again<'_, '_, C, S> {
    /// Recomputes this thread's rows that are marked `again`, and passes their results to `put`:
    /// row, column, and the results of this column and the next. `of_warp` returns the first of the
    /// warp's eight rows at an index.
    ///
    /// # Safety
    /// The memory that the arguments point to may be read; no other thread accesses the
    /// log-sum-exps or partial sums of the rows. All lanes of the warp execute this call together.
    #[inline(always)]
    pub unsafe fn recompute<const ROWS: usize>(
        &self,
        again: [bool; ROWS],
        of_warp: impl Fn(u32) -> u32,
        put: impl FnMut(u32, u32, [f32; 2]),
    ) {
        if const { ROWS == 2 && C::DV % 32 == 0 } {
            self.recompute_rows::<ROWS, 8>(again, of_warp, put);
        } else {
            self.recompute_rows::<ROWS, 4>(again, of_warp, put);
        }
    }

    #[inline(always)]
    unsafe fn recompute_rows<const ROWS: usize, const SUMS: usize>(
        &self,
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
                self.recompute_row::<SUMS>(row, &of_warp, index, &mut put)
            }
        }
    }

    /// Recomputes row `index` of the threads that request it with `again`. `4 SUMS` columns, a
    /// divisor of those of V, are computed at a time: few registers, since this seldom runs.
    #[inline(always)]
    unsafe fn recompute_row<const SUMS: usize>(
        &self,
        again: bool,
        of_warp: &impl Fn(u32) -> u32,
        index: u32,
        put: &mut impl FnMut(u32, u32, [f32; 2]),
    ) {
        // This code seldom runs and must keep no register alive elsewhere: it computes everything
        // from the arguments.
        let arguments = self.tile.arguments;
        let scale = self.tile.unit() * core::f32::consts::LOG2_E;
        let lane = lane_id();
        let of_warp = of_warp(index);
        let place = of_warp + accumulator_row(lane);
        let (q, Span { begin, end }) = self.query(place);
        let Span { begin: from, end: to } = self.hull(of_warp, of_warp + 7);
        let mut max = f32::MIN;
        // The row's maximum, then its sum and results, a part of the columns at a time.
        for part in 0..opaque(1 + C::DV as u32 / (4 * SUMS as u32)) {
            let (mut sum, mut sums) = (0.0, [0.0f32; SUMS]);
            for key in from..to {
                let k = arguments.k.offset(self.place(&arguments.stride_k, key as u32));
                let mut dot = 0.0f32;
                for pair in 0..opaque(C::D as u32 / 8) {
                    let word = i64::from(4 * pair + lane % 4);
                    let (q, k) = (Pairs::pair(q, word), Pairs::pair(k, word));
                    dot = q[1].fma(k[1], q[0].fma(k[0], dot));
                }
                dot += shuffle_xor(FULL_WARP, dot, 1);
                dot += shuffle_xor(FULL_WARP, dot, 2);
                let mut score = dot;
                if C::GENERAL {
                    let Query { token, head } = self.clamped(place);
                    let query = Query { token, head: head - self.tile.work.head };
                    score = self.tile.scores().score(query, key as u32, dot);
                }
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
                    let v = arguments.v.offset(self.place(&arguments.stride_v, key as u32));
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
                let factor = self.finish(place, RowSum { max, sum });
                for pair in 0..SUMS / 2 {
                    let column = (part - 1) * (4 * SUMS as u32) + 8 * pair as u32 + accumulator_column(lane);
                    put(place, column, [sums[2 * pair] * factor, sums[2 * pair + 1] * factor]);
                }
            }
        }
    }

    /// Stores the log-sum-exp of a row, or a split's maximum and sum, and returns the factor of its
    /// results. All threads of the row's quad call it.
    #[inline(always)]
    unsafe fn finish(&self, row: u32, sum: RowSum) -> f32 {
        let row = self.first + row;
        let row = (row < self.tile.rows()).then_some(row);
        self.tile.finish(row, lane_id().is_multiple_of(4), self.tile.unit(), sum)
    }

    /// The query of a row; rows past the end are clamped to the last.
    #[inline(always)]
    fn clamped(&self, row: u32) -> Query {
        self.tile.query((self.first + row).min(opaque(self.tile.rows()) - 1))
    }

    /// The keys that the queries of the sequence see, computed from its length: kept, they would
    /// take registers.
    #[inline(always)]
    fn visible(&self, queries: u32) -> Visible {
        if S::VARIED {
            return self.tile.sequence.visible;
        }
        Visible::new(queries, self.tile.arguments.k_length, self.tile.arguments.window)
    }

    /// The keys that some of the rows `first ..= last` see.
    #[inline(always)]
    fn hull(&self, first: u32, last: u32) -> Span<i32> {
        if !S::VARIED {
            let rows = opaque(self.tile.rows());
            let token = |row: u32| (self.first + row).min(rows - 1);
            return self.visible(rows).range(token(first), token(last)).by_some;
        }
        let [first, last] = [first, last].map(|row| self.clamped(row).token);
        let Span { begin, end } = self.tile.sequence.visible.range(first, last).by_some;
        let of_split = |tile: u32| (tile * C::BLK_N) as i32;
        let Span { begin: from, end: to } = self.tile.keys;
        Span { begin: begin.max(of_split(from)), end: end.min(of_split(to)) }
    }

    /// A row of Q, and the keys that it sees.
    #[inline(always)]
    fn query(&self, row: u32) -> (Global<C::Operand>, Span<i32>) {
        let Arguments { q, stride_q, .. } = self.tile.arguments;
        let Query { token, head } = self.clamped(row);
        let head = if S::VARIED { head } else { opaque(head) };
        let visible = self.visible(self.tile.rows());
        let from = self.tile.q_offset(stride_q, head) + i64::from(token) * stride_q.row;
        (q.offset(from), visible.of(token))
    }

    /// The offset of a key's row in K or V.
    #[inline(always)]
    fn place(&self, strides: &Strides, key: u32) -> i64 {
        let Tile { arguments, work, sequence, .. } = self.tile;
        let [row, batch] = if S::VARIED {
            let places = Places::new(arguments, sequence, C::PAGED);
            [places.row(key), places.batch(key)].map(i64::from)
        } else {
            [key, work.batch].map(i64::from)
        };
        batch * strides.batch + i64::from(work.kv_head) * strides.head + row * strides.row
    }
}
