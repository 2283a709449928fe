//! A block's tile in the kernel for variable lengths and pages: its rows among those of its
//! sequence, its split of the keys, and where both are in global memory.

use super::arguments::{Arguments, Strides};
use super::hopper_config::Config;
use super::hopper_places::Places;
use super::hopper_rows::key_tiles;
use super::hopper_scores::{TileScores, unit};
use super::recompute::Source;
use super::schedule::Work;
use super::scores::token;
use super::sequence::Sequence;
use super::softmax::RowSum;
use moye_device::arch::{lane_id, opaque};
use moye_device::collective::WorkTile;
use moye_device::memory::Global;

/// The block's tile of rows and its split of the keys.
#[derive(Clone, Copy)]
pub struct Tile<'a, C: Config> {
    /// The kernel's arguments.
    pub arguments: &'a Arguments<C::T>,
    /// The tile's coordinates.
    pub work: Work,
    /// Its sequence.
    pub sequence: Sequence,
    /// The tile's first row among those of the sequence.
    pub first: u32,
    /// Rows of the sequence.
    pub rows: u32,
    /// The tiles of keys of the split, `begin .. end`.
    pub keys: (u32, u32),
}

impl<'a, C: Config> Tile<'a, C> {
    /// A scheduler's tile, which may begin past the last row: see [`exists`](Self::exists).
    ///
    /// # Safety
    /// The memory that `arguments` point to may be read.
    #[inline(always)]
    pub unsafe fn of(arguments: &'a Arguments<C::T>, tile: &WorkTile) -> Self {
        let work = Work::of_tile(tile, arguments.group);
        let sequence = Sequence::of(arguments, work.batch);
        let of_tile = const { C::WARPGROUPS * 64 };
        let (first, rows) = (work.row_tile * of_tile, sequence.queries * arguments.pack);
        // A sequence without rows is treated as one row; its tiles are not used.
        let of_sequence = (rows.max(1), arguments.pack);
        let (begin, end) = key_tiles::<C>(&sequence.visible, first, of_tile, of_sequence);
        let keys = work.keys(arguments.splits, begin, end);
        Self { arguments, work, sequence, first, rows, keys }
    }

    /// Whether the sequence has a row of the tile.
    #[inline(always)]
    pub const fn exists(&self) -> bool {
        self.first < self.rows
    }

    /// Query token and head of a row of the sequence.
    #[inline(always)]
    pub fn token(&self, row: u32) -> (u32, u32) {
        let (token, head) = token(row, self.arguments.pack);
        (token, self.work.head + head)
    }

    /// The options for the tile's scores.
    #[inline(always)]
    pub const fn scores(&self) -> TileScores<'a, C> {
        TileScores { arguments: self.arguments, work: self.work, sequence: self.sequence }
    }

    /// The address of a row of O.
    #[inline(always)]
    pub fn row_of_o(&self, row: u32) -> u64 {
        let (token, head) = self.token(row);
        let strides = &self.arguments.stride_o;
        let first = self.sequence.q_offset(strides, head);
        self.arguments.o.offset(first + i64::from(token) * strides.row).address()
    }

    /// The workspace row of a row of the sequence.
    #[inline(always)]
    pub fn partial_row(&self, row: u32) -> i64 {
        let (token, head) = self.token(row);
        self.arguments.partial_row(&self.work, head, token)
    }

    /// Writes the log-sum-exp of a row, or the maximum and sum of a split's row. One of the row's
    /// four lanes writes. Returns the factor of the row's results. Splits leave the sinks out.
    ///
    /// # Safety
    /// The output may be written, and no other thread touches it; the sinks may be read.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    pub unsafe fn finish(&self, row: Option<u32>, unit: f32, sum: RowSum) -> f32 {
        let Arguments { lse: to, stride_lse: strides, sinks, splits, .. } = self.arguments;
        let mut sink = f32::NEG_INFINITY;
        if let Some(row) = row
            && sinks.address() != 0
            && *splits == 1
        {
            sink = sinks.read(self.token(row).1);
        }
        let (factor, lse) = sum.finish(unit, sink);
        if let Some(row) = row.filter(|_| lane_id().is_multiple_of(4)) {
            if *splits > 1 {
                self.arguments.write_partial_sum(self.partial_row(row), sum);
            } else if to.address() != 0 {
                let (token, head) = self.token(row);
                let first = self.sequence.q_offset(strides, head);
                to.write(first + i64::from(token) * strides.row, lse);
            }
        }
        factor
    }
}

/// Where the rows of a warpgroup and its keys are in global memory.
pub struct Varied<'a, C: Config> {
    /// The block's tile.
    pub tile: &'a Tile<'a, C>,
    /// The warpgroup's first row among those of the sequence.
    pub first: u32,
}

impl<C: Config> Varied<'_, C> {
    /// The query token and head of a row of the warpgroup.
    #[inline(always)]
    fn token(&self, row: u32) -> (u32, u32) {
        self.tile.token((self.first + row).min(opaque(self.tile.rows) - 1))
    }

    /// The offset of a key's row in K or V.
    #[inline(always)]
    fn place(&self, strides: &Strides, key: u32) -> i64 {
        let [row, batch] = Places::new(self.tile.arguments, &self.tile.sequence).of(key).map(i64::from);
        batch * strides.batch + i64::from(self.tile.work.kv_head) * strides.head + row * strides.row
    }
}

impl<C: Config> Source for Varied<'_, C> {
    type Element = C::T;

    #[inline(always)]
    fn scale(&self) -> f32 {
        unit::<C>(self.tile.arguments) * core::f32::consts::LOG2_E
    }

    #[inline(always)]
    unsafe fn score(&self, row: u32, key: u32, dot: f32) -> f32 {
        if !C::GENERAL {
            return dot;
        }
        let (token, head) = self.token(row);
        self.tile.scores().score((token, head - self.tile.work.head), key, dot)
    }

    #[inline(always)]
    unsafe fn finish(&self, row: u32, sum: RowSum) -> f32 {
        let row = self.first + row;
        self.tile.finish((row < self.tile.rows).then_some(row), unit::<C>(self.tile.arguments), sum)
    }

    #[inline(always)]
    fn hull(&self, first: u32, last: u32) -> (i32, i32) {
        let visible = &self.tile.sequence.visible;
        let ((begin, end), _) = visible.range(self.token(first).0, self.token(last).0);
        let of_split = |tile: u32| (tile * C::BLK_N) as i32;
        (begin.max(of_split(self.tile.keys.0)), end.min(of_split(self.tile.keys.1)))
    }

    #[inline(always)]
    fn query(&self, row: u32) -> (Global<C::T>, (i32, i32)) {
        let (token, head) = self.token(row);
        let strides = &self.tile.arguments.stride_q;
        let from = self.tile.sequence.q_offset(strides, head) + i64::from(token) * strides.row;
        (self.tile.arguments.q.offset(from), self.tile.sequence.visible.of(token))
    }

    #[inline(always)]
    fn key(&self, key: u32) -> Global<C::T> {
        self.tile.arguments.k.offset(self.place(&self.tile.arguments.stride_k, key))
    }

    #[inline(always)]
    fn value(&self, key: u32) -> Global<C::T> {
        self.tile.arguments.v.offset(self.place(&self.tile.arguments.stride_v, key))
    }
}
