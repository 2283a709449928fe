//! A block's tile of queries: its rows among those of its sequence, its tiles of keys, and where
//! both are in global memory.

use super::arguments::{Arguments, Strides};
use super::config::TileConfig;
use super::schedule::Work;
use super::scores::TileScores;
use super::sequence::{Query, Seen, Sequence, Span, Visible};
use super::softmax::RowSum;
use moye_device::collective::WorkTile;

/// The sequences of a call.
pub trait Sequences<C: TileConfig>: Copy {
    /// Whether lengths and offsets are read for each sequence, heads are packed into tiles, and
    /// keys are split. Otherwise all sequences have one length, and a tile has rows of one head.
    const VARIED: bool;
    /// The fewest tiles of keys of a tile of queries: with 1, a row that sees nothing gets a tile
    /// of hidden scores.
    const FEWEST_TILES: u32;

    /// Sequence `batch`; `None` with [`VARIED`](Self::VARIED).
    fn sequence(&self, arguments: &Arguments<C::Operand>, batch: u32) -> Option<Sequence>;

    /// The unit of the scores that the softmax takes: its factor, for exponentials to base e.
    ///
    /// # Safety
    /// The scale factors of the call may be read.
    #[inline(always)]
    unsafe fn unit(&self, arguments: &Arguments<C::Operand>, _work: &Work) -> f32 {
        if C::GENERAL { arguments.unit() } else { arguments.scale }
    }
}

/// Sequences of any lengths, with packed heads and splits of the keys.
#[derive(Clone, Copy)]
pub struct Varied;

impl<C: TileConfig> Sequences<C> for Varied {
    const VARIED: bool = true;
    const FEWEST_TILES: u32 = 0;

    #[inline(always)]
    fn sequence(&self, _: &Arguments<C::Operand>, _: u32) -> Option<Sequence> {
        None
    }
}

/// The keys that two rows of `pack` heads see, and the rows between them.
#[inline(always)]
fn seen(visible: &Visible, rows: [u32; 2], pack: u32) -> Seen {
    let [first, last] = rows.map(|row| Query::of_row(row, pack).token);
    visible.range(first, last)
}

/// A block's tile of rows and its tiles of keys.
#[derive(Clone, Copy)]
pub struct Tile<'a, C: TileConfig, S> {
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
    /// Rows of the sequence; see [`rows`](Self::rows()).
    pub rows: u32,
    /// The tiles of keys, of the split where keys are split.
    pub keys: Span<u32>,
}

impl<'a, C: TileConfig, S: Sequences<C>> Tile<'a, C, S> {
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
        let pack = if S::VARIED { arguments.pack } else { 1 };
        let (first, rows) = (work.row_tile * C::BLK_M, sequence.queries * pack);
        // A sequence without rows is treated as one row; its tiles are not used.
        let of_sequence = if S::VARIED { rows.max(1) } else { rows };
        let last = (first + C::BLK_M).min(of_sequence) - 1;
        let Span { begin, end } = seen(&sequence.visible, [first, last], pack).by_some;
        let all = if end <= begin {
            Span { begin: 0, end: 0 }
        } else {
            Span { begin: begin as u32 / C::BLK_N, end: (end as u32).div_ceil(C::BLK_N) }
        };
        let keys = match (S::VARIED, S::FEWEST_TILES) {
            (true, _) => work.keys(arguments.splits, all),
            (false, 0) => all,
            (false, _) => Span { end: all.end.max(all.begin + 1), ..all },
        };
        Self { sequences, arguments, work, sequence, first, rows, keys }
    }

    /// Whether the sequence has a row of the tile.
    #[inline(always)]
    pub const fn exists(&self) -> bool {
        !S::VARIED || self.first < self.rows
    }

    /// Rows of the sequence. If all sequences are equal, they are read from the arguments, which
    /// saves a register.
    #[inline(always)]
    pub const fn rows(&self) -> u32 {
        if S::VARIED { self.rows } else { self.arguments.q_length }
    }

    /// Query heads in a tile.
    #[inline(always)]
    pub const fn pack(&self) -> u32 {
        if S::VARIED { self.arguments.pack } else { 1 }
    }

    /// Row `row` of the tile among those of the sequence; `None` where the sequence ends before it.
    #[inline(always)]
    pub fn row(&self, row: u32) -> Option<u32> {
        let row = self.first + row;
        (row < self.rows()).then_some(row)
    }

    /// The keys that all rows of the tile see.
    #[inline(always)]
    pub fn seen_by_all(&self) -> Span<i32> {
        let last = (self.first + C::BLK_M).min(self.rows()) - 1;
        seen(&self.sequence.visible, [self.first, last], self.pack()).by_all
    }

    /// Query token and head of a row of the sequence.
    #[inline(always)]
    pub fn query(&self, row: u32) -> Query {
        let Query { token, head } = Query::of_row(row, self.pack());
        Query { token, head: self.work.head + head }
    }

    /// The options for the tile's scores.
    #[inline(always)]
    pub const fn scores(&self) -> TileScores<'a, C> {
        TileScores { arguments: self.arguments, work: self.work, sequence: self.sequence }
    }

    /// The unit of the tile's scores.
    ///
    /// # Safety
    /// The scale factors of the call may be read.
    #[inline(always)]
    pub unsafe fn unit(&self) -> f32 {
        self.sequences.unit(self.arguments, &self.work)
    }

    /// The offset of a head of the sequence in a tensor of queries or results.
    #[inline(always)]
    pub fn q_offset(&self, strides: &Strides, head: u32) -> i64 {
        if S::VARIED {
            return self.sequence.q_offset(strides, head);
        }
        // The index of the sequence in addition to `work.batch` would take a second register.
        i64::from(self.work.batch) * strides.batch + i64::from(head) * strides.head
    }

    /// The offset of the first row of the KV head in a tensor of keys; with pages, of the head in a
    /// page.
    #[inline(always)]
    pub fn head(&self, strides: &Strides) -> i64 {
        let paged = C::PAGED && self.arguments.pages.address() != 0;
        self.sequence.k_offset(strides, self.work.kv_head, paged)
    }

    /// The address of a row of Q.
    #[inline(always)]
    pub fn row_of_q(&self, row: u32) -> u64 {
        let Query { token, head } = self.query(row);
        let strides = &self.arguments.stride_q;
        let from = self.q_offset(strides, head) + i64::from(token) * strides.row;
        self.arguments.q.offset(from).address()
    }

    /// The address of column `column` of a row of O.
    #[inline(always)]
    pub fn row_of_o(&self, row: u32, column: u32) -> u64 {
        let Query { token, head } = self.query(row);
        let strides = &self.arguments.stride_o;
        let first = self.q_offset(strides, head);
        self.arguments.o.offset(first + i64::from(token) * strides.row + i64::from(column)).address()
    }

    /// The workspace row of a row of the sequence.
    #[inline(always)]
    pub fn partial_row(&self, row: u32) -> i64 {
        let Query { token, head } = self.query(row);
        self.arguments.partial_row(&self.work, head, token)
    }

    /// Writes the log-sum-exp of a row, or the maximum and sum of a split's row, in the one thread
    /// of the row that `writes`. Returns the factor of the row's results. Splits leave the sinks
    /// out.
    ///
    /// # Safety
    /// The output may be written, and no other thread touches it; the sinks may be read.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    pub unsafe fn finish(&self, row: Option<u32>, writes: bool, unit: f32, sum: RowSum) -> f32 {
        let Arguments { lse: to, stride_lse: strides, sinks, splits, .. } = self.arguments;
        if !S::VARIED {
            let (factor, lse) = sum.finish(unit, f32::NEG_INFINITY);
            if to.address() != 0
                && writes
                && let Some(row) = row
            {
                let Query { token, head } = self.query(row);
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
            sink = sinks.read(self.query(row).head);
        }
        let (factor, lse) = sum.finish(unit, sink);
        if let Some(row) = row.filter(|_| writes) {
            if *splits > 1 {
                self.arguments.write_partial_sum(self.partial_row(row), sum);
            } else if to.address() != 0 {
                let Query { token, head } = self.query(row);
                let first = self.q_offset(strides, head);
                to.write(first + i64::from(token) * strides.row, lse);
            }
        }
        factor
    }
}
