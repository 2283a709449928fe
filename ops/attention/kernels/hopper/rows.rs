//! A consumer warpgroup's rows of a tile of queries, and the scores that a mask hides from them.
#![allow(non_snake_case, reason = "tensors have CuTe's names")]

use super::super::arguments::UNLIMITED;
use super::super::scores::token;
use super::super::sequence::Visible;
use super::super::softmax::at;
use super::config::{HopperConfig, WARPGROUP, recomputed};
use super::mainloop::ScoresOf;
use moye_device::arch::{lane_id, thread_idx};
use moye_device::atom::mma::{accumulator_column, accumulator_row};

/// The tiles of keys `begin .. end` that some of the rows `first .. first + rows` of a sequence
/// see. The sequence has `all` rows, of `pack` heads.
#[inline(always)]
pub fn key_tiles<C: HopperConfig>(
    visible: &Visible,
    first: u32,
    rows: u32,
    (all, pack): (u32, u32),
) -> (u32, u32) {
    let last = (first + rows).min(all) - 1;
    let ((begin, end), _) = visible.range(token(first, pack).0, token(last, pack).0);
    if end <= begin { (0, 0) } else { (begin as u32 / C::BLK_N, (end as u32).div_ceil(C::BLK_N)) }
}

/// A warpgroup's rows of a tile. Each thread holds two rows, 8 apart.
///
/// With `pack` heads in a tile, row `r` of the sequence is token `r / pack` of head `r % pack`.
#[derive(Clone, Copy)]
pub struct ThreadRows {
    /// The warpgroup's first row.
    pub first: u32,
    /// The tiles of keys `begin .. end` that all rows see.
    clear: (u32, u32),
    visible: Visible,
    /// The last row of the sequence.
    last: u32,
    /// Query heads in a tile.
    pack: u32,
}

impl ThreadRows {
    /// The 64 rows from `first` on, of a sequence of `rows` rows.
    #[inline(always)]
    pub fn new<C: HopperConfig>(visible: Visible, first: u32, (rows, pack): (u32, u32)) -> Self {
        let last = rows - 1;
        let of = |row: u32| token(row.min(last), pack).0;
        let (_, (begin, end)) = visible.range(of(first), of(first + 63));
        let clear = (begin.max(0) as u32).div_ceil(C::BLK_N);
        Self { first, clear: (clear, end.max(0) as u32 / C::BLK_N), visible, last, pack }
    }

    /// The thread's row `index`, 0 or 1, among those of the sequence; `None` where the sequence
    /// ends before it.
    #[inline(always)]
    pub fn row<C: HopperConfig>(&self, index: usize) -> Option<u32> {
        let row = self.first_row::<C>() + 8 * index as u32;
        (row <= self.last).then_some(row)
    }

    /// Query token and head, counted from the tile's first, of the thread's row `index`; rows past
    /// the end are clamped to the last.
    #[inline(always)]
    pub fn token<C: HopperConfig>(&self, index: usize) -> (u32, u32) {
        token((self.first_row::<C>() + 8 * index as u32).min(self.last), self.pack)
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
        if tile >= self.clear.0 && tile < self.clear.1 {
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
            let seen = self.visible.of(self.token::<C>(row).0);
            let (begin, end) = (seen.0 - first, seen.1 - first);
            for column in 0..C::BLK_N as usize / 4 {
                let key = (column / 2 * 8 + column % 2) as i32;
                if LEFT && key < begin || key >= end {
                    tSrS[at(2, row, column)] = f32::NEG_INFINITY;
                }
            }
        }
    }
}
