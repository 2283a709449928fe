//! A block's tile of queries: its rows among those of its sequence, its tiles of keys, and where
//! both are in global memory.

use super::super::arguments::{Arguments, Strides};
use super::super::recompute::{Source, recompute_rows};
use super::super::schedule::Work;
use super::super::scores::token;
use super::super::sequence::{Sequence, Visible};
use super::super::softmax::RowSum;
use super::config::{HopperConfig, WARPGROUP};
use super::rows::{ThreadRows, key_tiles};
use super::scores::{TileScores, unit};
use super::source::Places;
use moye_device::arch::{lane_id, opaque, thread_idx};
use moye_device::collective::WorkTile;
use moye_device::memory::{Element, Global};

/// The sequences of a call.
pub trait Sequences<C: HopperConfig>: Copy {
    /// Whether lengths and offsets are read for each sequence, heads are packed into tiles, and
    /// keys are split. Otherwise all sequences have one length, and a tile has rows of one head.
    const VARIED: bool;
    /// The fewest tiles of keys of a tile of queries: with 1, a row that sees nothing gets a tile
    /// of hidden scores.
    const FEWEST_TILES: u32;

    /// Sequence `batch`; `None` with [`VARIED`](Self::VARIED).
    fn sequence(&self, arguments: &Arguments<C::Operand>, batch: u32) -> Option<Sequence>;

    /// The unit of the scores that the softmax takes: its factor, for exponentials to base e.
    #[inline(always)]
    fn unit(&self, arguments: &Arguments<C::Operand>, _work: &Work) -> f32 {
        unit::<C>(arguments)
    }
}

/// Sequences of one length; their queries see these keys.
#[derive(Clone, Copy)]
pub struct Equal(pub Visible);

impl Equal {
    /// The sequences of a call, all of `q_length` and `k_length` tokens.
    #[inline(always)]
    pub fn of<T: Element>(arguments: &Arguments<T>) -> Self {
        Self(Visible::new(arguments.q_length, arguments.k_length, arguments.window))
    }

    /// Sequence `batch` of `queries` tokens.
    #[inline(always)]
    pub fn of_length(&self, queries: u32, batch: u32) -> Sequence {
        Sequence { batch, q_first: 0, k_first: 0, queries, visible: self.0 }
    }
}

impl<C: HopperConfig> Sequences<C> for Equal {
    const VARIED: bool = false;
    const FEWEST_TILES: u32 = 1;

    #[inline(always)]
    fn sequence(&self, arguments: &Arguments<C::Operand>, batch: u32) -> Option<Sequence> {
        Some(self.of_length(arguments.q_length, batch))
    }
}

/// Sequences of any lengths, with packed heads and splits of the keys.
#[derive(Clone, Copy)]
pub struct Varied;

impl<C: HopperConfig> Sequences<C> for Varied {
    const VARIED: bool = true;
    const FEWEST_TILES: u32 = 0;

    #[inline(always)]
    fn sequence(&self, _: &Arguments<C::Operand>, _: u32) -> Option<Sequence> {
        None
    }
}

/// A block's tile of rows and its tiles of keys.
#[derive(Clone, Copy)]
pub struct Tile<'a, C: HopperConfig, S> {
    /// The call's sequences.
    pub sequences: S,
    /// The kernel's arguments.
    pub arguments: &'a Arguments<C::Operand>,
    /// The tile's coordinates.
    pub work: Work,
    /// Its sequence.
    pub sequence: Sequence,
    /// The tile's first row among those of the sequence.
    pub first: u32,
    /// Rows of the sequence; see [`rows`](Self::rows).
    rows: u32,
    /// The tiles of keys, of the split where keys are split: `begin .. end`.
    pub keys: (u32, u32),
}

impl<'a, C: HopperConfig, S: Sequences<C>> Tile<'a, C, S> {
    /// A scheduler's tile, which may begin past the last row: see [`exists`](Self::exists).
    ///
    /// # Safety
    /// The memory that `arguments` point to may be read.
    #[inline(always)]
    pub unsafe fn of(arguments: &'a Arguments<C::Operand>, sequences: S, tile: &WorkTile) -> Self {
        let work = Work::of_tile(tile, arguments.group);
        let sequence = match sequences.sequence(arguments, work.batch) {
            Some(sequence) => sequence,
            None => Sequence::of(arguments, work.batch),
        };
        let of_tile = const { C::WARPGROUPS * 64 };
        let pack = if S::VARIED { arguments.pack } else { 1 };
        let (first, rows) = (work.row_tile * of_tile, sequence.queries * pack);
        // A sequence without rows is treated as one row; its tiles are not used.
        let of_sequence = if S::VARIED { rows.max(1) } else { rows };
        let (begin, end) = key_tiles::<C>(&sequence.visible, first, of_tile, (of_sequence, pack));
        let keys = match (S::VARIED, S::FEWEST_TILES) {
            (true, _) => work.keys(arguments.splits, begin, end),
            (false, 0) => (begin, end),
            (false, _) => (begin, end.max(begin + 1)),
        };
        Self { sequences, arguments, work, sequence, first, rows, keys }
    }

    /// Whether the sequence has a row of the tile.
    #[inline(always)]
    pub const fn exists(&self) -> bool {
        !S::VARIED || self.first < self.rows
    }

    /// Rows of the sequence. Those of equal sequences are read from the arguments: kept, they would
    /// take a register.
    #[inline(always)]
    pub const fn rows(&self) -> u32 {
        if S::VARIED { self.rows } else { self.arguments.q_length }
    }

    /// Query heads in a tile.
    #[inline(always)]
    const fn pack(&self) -> u32 {
        if S::VARIED { self.arguments.pack } else { 1 }
    }

    /// A thread's rows of the 64 that begin at `first`.
    #[inline(always)]
    pub fn thread_rows(&self, first: u32) -> ThreadRows {
        ThreadRows::new::<C>(self.sequence.visible, first, (self.rows, self.pack()))
    }

    /// Query token and head of a row of the sequence.
    #[inline(always)]
    pub fn token(&self, row: u32) -> (u32, u32) {
        let (token, head) = token(row, self.pack());
        (token, self.work.head + head)
    }

    /// The options for the tile's scores.
    #[inline(always)]
    pub const fn scores(&self) -> TileScores<'a, C> {
        TileScores { arguments: self.arguments, work: self.work, sequence: self.sequence }
    }

    /// The unit of the tile's scores.
    #[inline(always)]
    pub fn unit(&self) -> f32 {
        self.sequences.unit(self.arguments, &self.work)
    }

    /// The offset of a head of the sequence in a tensor of queries or results.
    #[inline(always)]
    fn q_offset(&self, strides: &Strides, head: u32) -> i64 {
        if S::VARIED {
            return self.sequence.q_offset(strides, head);
        }
        // The index of the sequence in addition to `work.batch` would take a second register.
        i64::from(self.work.batch) * strides.batch + i64::from(head) * strides.head
    }

    /// The address of a row of Q.
    #[inline(always)]
    pub fn row_of_q(&self, row: u32) -> u64 {
        let (token, head) = self.token(row);
        let strides = &self.arguments.stride_q;
        let from = self.q_offset(strides, head) + i64::from(token) * strides.row;
        self.arguments.q.offset(from).address()
    }

    /// The address of column `column` of a row of O.
    #[inline(always)]
    pub fn row_of_o(&self, row: u32, column: u32) -> u64 {
        let (token, head) = self.token(row);
        let strides = &self.arguments.stride_o;
        let first = self.q_offset(strides, head);
        self.arguments.o.offset(first + i64::from(token) * strides.row + i64::from(column)).address()
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
        let first_lane = || lane_id().is_multiple_of(4);
        if !S::VARIED {
            let (factor, lse) = sum.finish(unit, f32::NEG_INFINITY);
            if to.address() != 0
                && first_lane()
                && let Some(row) = row
            {
                let (token, head) = self.token(row);
                let first = self.q_offset(strides, head);
                to.write(first + i64::from(token) * strides.row, lse);
            }
            return factor;
        }
        let mut sink = f32::NEG_INFINITY;
        if let Some(row) = row
            && sinks.address() != 0
            && *splits == 1
        {
            sink = sinks.read(self.token(row).1);
        }
        let (factor, lse) = sum.finish(unit, sink);
        if let Some(row) = row.filter(|_| first_lane()) {
            if *splits > 1 {
                self.arguments.write_partial_sum(self.partial_row(row), sum);
            } else if to.address() != 0 {
                let (token, head) = self.token(row);
                let first = self.q_offset(strides, head);
                to.write(first + i64::from(token) * strides.row, lse);
            }
        }
        factor
    }
}

/// A warpgroup's rows of a tile, for their recomputation.
pub struct Again<'a, 'b, C: HopperConfig, S> {
    /// The block's tile.
    pub tile: &'a Tile<'b, C, S>,
    /// The warpgroup's first row among those of the sequence.
    pub first: u32,
}

impl<C: HopperConfig, S: Sequences<C>> Again<'_, '_, C, S> {
    /// Recomputes this thread's rows that are marked `again`; see [`recompute_rows`].
    #[inline(always)]
    pub unsafe fn recompute(&self, again: [bool; 2], put: impl FnMut(u32, u32, [f32; 2])) {
        let of_warp = |index: u32| opaque(thread_idx().x % WARPGROUP) / 32 * 16 + 8 * index;
        let columns = (C::D as u32, C::DV as u32);
        if const { C::DV % 32 == 0 } {
            recompute_rows::<_, 2, 8>(self, again, of_warp, columns, put);
        } else {
            recompute_rows::<_, 2, 4>(self, again, of_warp, columns, put);
        }
    }

    /// Query token and head of a row; rows past the end are clamped to the last.
    #[inline(always)]
    fn token(&self, row: u32) -> (u32, u32) {
        self.tile.token((self.first + row).min(opaque(self.tile.rows()) - 1))
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

    /// The offset of a key's row in K or V.
    #[inline(always)]
    fn place(&self, strides: &Strides, key: u32) -> i64 {
        let Tile { arguments, work, sequence, .. } = self.tile;
        let [row, batch] = if S::VARIED {
            let places = Places::new(arguments, sequence);
            [places.row(key), places.batch(key)].map(i64::from)
        } else {
            [key, work.batch].map(i64::from)
        };
        batch * strides.batch + i64::from(work.kv_head) * strides.head + row * strides.row
    }
}

impl<C: HopperConfig, S: Sequences<C>> Source for Again<'_, '_, C, S> {
    type Element = C::Operand;

    #[inline(always)]
    fn scale(&self) -> f32 {
        self.tile.unit() * core::f32::consts::LOG2_E
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
        self.tile.finish((row < self.tile.rows()).then_some(row), self.tile.unit(), sum)
    }

    #[inline(always)]
    fn hull(&self, first: u32, last: u32) -> (i32, i32) {
        if !S::VARIED {
            let rows = opaque(self.tile.rows());
            let token = |row: u32| (self.first + row).min(rows - 1);
            return self.visible(rows).range(token(first), token(last)).0;
        }
        let ((begin, end), _) = self.tile.sequence.visible.range(self.token(first).0, self.token(last).0);
        let of_split = |tile: u32| (tile * C::BLK_N) as i32;
        (begin.max(of_split(self.tile.keys.0)), end.min(of_split(self.tile.keys.1)))
    }

    #[inline(always)]
    fn query(&self, row: u32) -> (Global<C::Operand>, (i32, i32)) {
        let Arguments { q, stride_q, .. } = self.tile.arguments;
        let (token, head) = self.token(row);
        let head = if S::VARIED { head } else { opaque(head) };
        let visible = self.visible(self.tile.rows());
        let from = self.tile.q_offset(stride_q, head) + i64::from(token) * stride_q.row;
        (q.offset(from), visible.of(token))
    }

    #[inline(always)]
    fn key(&self, key: u32) -> Global<C::Operand> {
        self.tile.arguments.k.offset(self.place(&self.tile.arguments.stride_k, key))
    }

    #[inline(always)]
    fn value(&self, key: u32) -> Global<C::Operand> {
        self.tile.arguments.v.offset(self.place(&self.tile.arguments.stride_v, key))
    }
}
