//! Which tile of which head a thread block computes.

use super::arguments::Arguments;
use super::sequence::Span;
use moye_device::arch::opaque;
use moye_device::collective::{TileScheduler, WorkTile};
use moye_device::memory::Element;

/// The work of one thread block: a tile of query rows of one head (or of `pack` heads), and one
/// split of the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// The tile of rows.
    pub row_tile: u32,
    /// The first query head of the tile.
    pub head: u32,
    /// The KV head.
    pub kv_head: u32,
    /// The sequence.
    pub batch: u32,
    /// The split of the keys.
    pub split: u32,
}

impl Work {
    /// Work unit `index` of [`Arguments::grid`]: row tiles fastest and from the last to the first,
    /// since under a causal mask the last has the most keys; then splits, heads and sequences, so
    /// that blocks which run together share keys in L2.
    #[inline(always)]
    #[must_use]
    pub fn of<T: Element>(arguments: &Arguments<T>, index: u32) -> Self {
        let (tiles, splits, pack) = (arguments.row_tiles, arguments.splits, arguments.pack);
        let heads = arguments.heads / pack;
        let row_tile = tiles - 1 - index % tiles;
        let rest = index / tiles;
        let (split, rest) = (rest % splits, rest / splits);
        let (head, batch) = (rest % heads * pack, rest / heads);
        Self { row_tile, head, kv_head: head / arguments.group, batch, split }
    }

    /// The work of a scheduler's tile: row tile `m` of query head `n`, where K counts the splits of
    /// the keys. `group` query heads share a KV head.
    #[inline(always)]
    #[must_use]
    pub fn of_tile(tile: &WorkTile, group: u32) -> Self {
        let &WorkTile { m: row_tile, n: head, batch, k: split, .. } = tile;
        // No branch for a divisor of 0.
        Self { row_tile, head, kv_head: head / group.max(1), batch, split }
    }

    /// This split's tiles of keys, given the tiles of all splits.
    #[inline(always)]
    #[must_use]
    pub fn keys(&self, splits: u32, all: Span<u32>) -> Span<u32> {
        if splits == 1 {
            return all;
        }
        let each = all.end.saturating_sub(all.begin).div_ceil(splits);
        let begin = all.begin + self.split * each;
        Span { begin, end: (begin + each).min(all.end) }
    }
}

/// The work of one block of [`Arguments::grid`] as a tile scheduler. Its coordinates are computed
/// in [`place`](TileScheduler::place).
#[derive(Clone, Copy, Debug)]
pub struct OneWork<'a, T: Element> {
    arguments: &'a Arguments<T>,
    index: u32,
    /// Whether each call of `place` recomputes them: kept, they would take registers.
    recomputes: bool,
    done: bool,
}

impl<'a, T: Element> OneWork<'a, T> {
    /// Work unit `index`. A kernel that needs the coordinates at several places, with few registers
    /// in between, `recomputes` them.
    #[inline(always)]
    #[must_use]
    pub const fn new(arguments: &'a Arguments<T>, index: u32, recomputes: bool) -> Self {
        Self { arguments, index, recomputes, done: false }
    }
}

impl<T: Element> TileScheduler for OneWork<'_, T> {
    #[inline(always)]
    fn next_tile(&mut self) -> Option<WorkTile> {
        if self.done {
            return None;
        }
        self.done = true;
        let Arguments { row_tiles, splits, .. } = *self.arguments;
        let (row, rest) = (row_tiles - 1 - self.index % row_tiles, self.index / row_tiles);
        let k = rest % splits;
        Some(WorkTile { m: 0, n: 0, batch: 0, k, k_end: k + 1, number: rest / splits * row_tiles + row })
    }

    #[inline(always)]
    fn place(&self, tile: WorkTile) -> WorkTile {
        let index = if self.recomputes { opaque(self.index) } else { self.index };
        let Work { row_tile: m, head: n, batch, split: k, .. } = Work::of(self.arguments, index);
        WorkTile { m, n, batch, k, k_end: k + 1, ..tile }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;

    #[test]
    fn each_tile_of_each_head_sequence_and_split_is_one_blocks() {
        for (pack, heads, kv_heads) in [(1, 6, 2), (3, 6, 2), (1, 1, 1), (4, 4, 1)] {
            let group = heads / kv_heads;
            let mut arguments = Arguments {
                batches: 3,
                heads,
                group,
                pack,
                q_length: 10,
                splits: 5,
                ..Arguments::<f32>::none()
            };
            let blocks = arguments.grid(16);
            let mut all: std::vec::Vec<_> = (0..blocks)
                .map(|block| {
                    let work = Work::of(&arguments, block);
                    assert!(work.row_tile < arguments.row_tiles && work.split < 5 && work.batch < 3);
                    assert_eq!(work.kv_head, work.head / (heads / kv_heads));
                    let mut scheduler = OneWork::new(&arguments, block, false);
                    let tile = scheduler.next_tile().unwrap();
                    let tile_of_heads = work.batch * (heads / pack) + work.head / pack;
                    assert_eq!(tile.number, tile_of_heads * arguments.row_tiles + work.row_tile);
                    assert_eq!((tile.k, tile.k_end), (work.split, work.split + 1));
                    let tile = scheduler.place(tile);
                    assert_eq!(Work::of_tile(&tile, arguments.group), work);
                    assert_eq!((tile.m, tile.n, tile.batch), (work.row_tile, work.head, work.batch));
                    assert_eq!((tile.k, tile.k_end), (work.split, work.split + 1));
                    assert_eq!(scheduler.next_tile(), None);
                    (work.batch, work.head, work.split, work.row_tile)
                })
                .collect();
            all.sort_unstable();
            all.dedup();
            assert_eq!(all.len() as u32, (10 * pack).div_ceil(16) * (heads / pack) * 5 * 3);
        }
    }

    #[test]
    fn splits_cover_all_tiles_of_keys_in_order_and_may_be_empty() {
        let work = |split| Work { row_tile: 0, head: 0, kv_head: 0, batch: 0, split };
        for (begin, end) in [(0, 0), (0, 1), (3, 10), (2, 66), (5, 4)] {
            for splits in [1, 2, 3, 7, 16] {
                let mut next = begin;
                for split in 0..splits {
                    let Span { begin: from, end: to } = work(split).keys(splits, Span { begin, end });
                    if from < to {
                        assert_eq!(from, next, "{begin}..{end} in {splits}");
                        next = to;
                    }
                }
                assert!(next == end || begin >= end, "{begin}..{end} in {splits} ends at {next}");
            }
        }
    }
}
