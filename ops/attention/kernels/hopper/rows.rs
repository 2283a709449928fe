//! A consumer warpgroup's rows of a tile of queries, and the scores that a mask hides from them.
#![allow(non_snake_case, reason = "tensors have CuTe's names")]

use super::super::arguments::UNLIMITED;
use super::super::sequence::{Query, Span, Visible};
use super::super::softmax::at;
use super::super::tile::{Sequences, Tile};
use super::config::{HopperConfig, WARPGROUP, recomputed};
use super::mainloop::ScoresOf;
use moye_device::arch::{lane_id, thread_idx};
use moye_device::atom::mma::{accumulator_column, accumulator_row};

/// A warpgroup's rows of a tile. Each thread holds two rows, 8 apart.
///
/// With `pack` heads in a tile, row `r` of the sequence is token `r / pack` of head `r % pack`.
#[derive(Clone, Copy)]
pub struct ThreadRows {
    /// The warpgroup's first row.
    first: u32,
    /// The tiles of keys that all rows see.
    clear: Span<u32>,
    visible: Visible,
    /// The last row of the sequence.
    last: u32,
    /// Query heads in a tile.
    pack: u32,
}

impl ThreadRows {
    /// The 64 rows of a tile from row `first` of its sequence on.
    #[inline(always)]
    pub fn of<C: HopperConfig, S: Sequences<C>>(tile: &Tile<'_, C, S>, first: u32) -> Self {
        let (visible, last, pack) = (tile.sequence.visible, tile.rows - 1, tile.pack());
        let of = |row: u32| Query::of_row(row.min(last), pack).token;
        let Span { begin, end } = visible.range(of(first), of(first + 63)).by_all;
        let begin = (begin.max(0) as u32).div_ceil(C::BLK_N);
        let clear = Span { begin, end: end.max(0) as u32 / C::BLK_N };
        Self { first, clear, visible, last, pack }
    }

    /// The thread's rows among those of the sequence; `None` where the sequence ends before one.
    #[inline(always)]
    pub fn rows<C: HopperConfig>(&self) -> [Option<u32>; 2] {
        [0, 8].map(|further| {
            let row = self.first_row::<C>() + further;
            (row <= self.last).then_some(row)
        })
    }

    /// The query of the thread's row `index`, with its head in the tile; rows past the end are
    /// clamped to the last.
    #[inline(always)]
    pub fn query<C: HopperConfig>(&self, index: usize) -> Query {
        Query::of_row((self.first_row::<C>() + 8 * index as u32).min(self.last), self.pack)
    }

    /// The first of the thread's rows.
    #[inline(always)]
    fn first_row<C: HopperConfig>(&self) -> u32 {
        let warp = recomputed::<C>(thread_idx().x) % WARPGROUP / 32;
        self.first + warp * 16 + accumulator_row(recomputed::<C>(lane_id()))
    }

    /// Hides the scores of keys that a row does not see, in a tile of keys.
    #[inline(always)]
    pub fn mask<C: HopperConfig>(&self, tSrS: &mut ScoresOf<C>, tile: u32) {
        if tile >= self.clear.begin && tile < self.clear.end {
            return;
        }
        if self.visible.window.left == UNLIMITED {
            self.hide::<C, false>(tSrS, tile);
        } else {
            self.hide::<C, true>(tSrS, tile);
        }
    }

    /// Hides scores on the right, and with `LEFT` on the left.
    #[inline(always)]
    fn hide<C: HopperConfig, const LEFT: bool>(&self, tSrS: &mut ScoresOf<C>, tile: u32) {
        let first = (tile * C::BLK_N + accumulator_column(lane_id())) as i32;
        for row in 0..2 {
            // A thread's columns are compared with constants. Rows past the end are clamped to the
            // last and not stored.
            let seen = self.visible.of(self.query::<C>(row).token);
            let (begin, end) = (seen.begin - first, seen.end - first);
            for column in 0..C::BLK_N as usize / 4 {
                let key = (column / 2 * 8 + column % 2) as i32;
                if LEFT && key < begin || key >= end {
                    tSrS[at(2, row, column)] = f32::NEG_INFINITY;
                }
            }
        }
    }
}
