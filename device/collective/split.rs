//! Schedulers that divide the K of a tile among workers: split-K and stream-K.

use super::Team;
use super::fix_up::{FixUp, Piece, Workspace};
use super::scheduler::TileScheduler;
use super::tiles::{Bands, Tiles, WorkTile, Worker};
use crate::tensor::{Fragment, StaticLayout};

/// Split-K: K in slices of the same number of tiles, each slice of a tile of C by another worker. A
/// persistent grid.
///
/// For products with few tiles and a large K. All tiles of one slice come before those of the next,
/// so that concurrent workers read the same part of K.
#[derive(Clone, Copy, Debug)]
pub struct SplitK {
    bands: Bands,
    worker: Worker,
    next: u32,
    /// Tiles along K of a slice.
    chunk: u32,
    workspace: Workspace,
}

impl SplitK {
    /// The worker's tiles in at most `slices` slices, counted in bands of `rows` rows of tiles.
    #[inline(always)]
    #[must_use]
    pub const fn new(tiles: Tiles, worker: Worker, rows: u32, slices: u32, workspace: Workspace) -> Self {
        let chunk = tiles.k.div_ceil(if slices == 0 { 1 } else { slices });
        Self { bands: Bands::new(tiles, rows), worker, next: worker.number, chunk, workspace }
    }

    /// Elements of [`Workspace::partials`] for tiles of C of `tile` elements a block, in clusters
    /// of `cluster` blocks.
    #[must_use]
    pub const fn partials(tiles: Tiles, slices: u32, tile: usize, cluster: u32) -> usize {
        tiles.count() as usize * slices as usize * cluster as usize * tile
    }

    /// Slices of a tile, each of one tile along K at least.
    #[inline(always)]
    const fn slices(&self) -> u32 {
        self.bands.tiles().k.div_ceil(self.chunk)
    }
}

impl TileScheduler for SplitK {
    #[inline(always)]
    fn next_tile(&mut self) -> Option<WorkTile> {
        let tiles = self.bands.tiles();
        if self.next >= tiles.count() * self.slices() {
            return None;
        }
        let (slice, number) = (self.next / tiles.count(), self.next % tiles.count());
        self.next += self.worker.count;
        let (k, left) = (slice * self.chunk, tiles.k - slice * self.chunk);
        let chunk = if left < self.chunk { left } else { self.chunk };
        Some(self.bands.work(self.worker, number, (k, k + chunk)))
    }

    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn fix_up<D: FixUp, L: StaticLayout>(
        &self,
        tile: &WorkTile,
        accumulators: &mut Fragment<D, L>,
        team: &Team,
    ) -> bool {
        let of_block = |number: u32| number * self.worker.cluster + self.worker.rank;
        let piece = Piece { counter: of_block(tile.number), own: tile.k / self.chunk, pieces: self.slices() };
        let tiles = self.bands.tiles().count();
        let slot = |piece: u32| of_block(piece * tiles + tile.number);
        // SAFETY: the caller's contract; each piece of each tile has a slot of its own.
        unsafe { self.workspace.reduce(accumulators, team, piece, slot) }
    }
}

/// Stream-K: whole tiles as long as each worker has one, and the K of the tiles that are left in
/// equal shares.
///
/// A persistent grid with a partial last wave leaves workers idle. Here every worker has the same
/// number of K tiles, plus or minus one; a share may end within a tile, which then has a piece in
/// each of two or three shares. (Osama et al., "Stream-K", PPoPP 2023.)
#[derive(Clone, Copy, Debug)]
pub struct StreamK {
    bands: Bands,
    worker: Worker,
    /// The next whole tile.
    next: u32,
    /// Tiles of C that are not shared.
    whole: u32,
    /// The worker's next tile along K, counted through all shared tiles, and the end of its share.
    at: u32,
    end: u32,
    /// Tiles along K of a share.
    share: u32,
    workspace: Workspace,
}

impl StreamK {
    /// The worker's tiles, counted in bands of `rows` rows of tiles. The tiles along K of all tiles
    /// of C are fewer than 2^32.
    #[inline(always)]
    #[must_use]
    pub const fn new(tiles: Tiles, worker: Worker, rows: u32, workspace: Workspace) -> Self {
        let (count, workers) = (tiles.count(), worker.count);
        // A share is one whole tile at least, where there are tiles enough, so that few tiles have
        // three pieces.
        let waves = count / workers;
        let whole = match count % workers {
            0 => count,
            _ if waves == 0 => 0,
            _ => (waves - 1) * workers,
        };
        let all = (count - whole) * tiles.k;
        let share = all.div_ceil(workers);
        let at = if worker.number * share < all { worker.number * share } else { all };
        let end = if all - at < share { all } else { at + share };
        Self { bands: Bands::new(tiles, rows), worker, next: worker.number, whole, at, end, share, workspace }
    }

    /// Elements of [`Workspace::partials`] for `workers` workers and tiles of C of `tile` elements
    /// a block, in clusters of `cluster` blocks.
    #[must_use]
    pub const fn partials(workers: u32, tile: usize, cluster: u32) -> usize {
        2 * workers as usize * cluster as usize * tile
    }
}

impl TileScheduler for StreamK {
    #[inline(always)]
    fn next_tile(&mut self) -> Option<WorkTile> {
        let k_tiles = self.bands.tiles().k;
        if self.next < self.whole {
            let number = self.next;
            self.next += self.worker.count;
            return Some(self.bands.work(self.worker, number, (0, k_tiles)));
        }
        if self.at >= self.end {
            return None;
        }
        let (tile, k) = (self.at / k_tiles, self.at % k_tiles);
        let (left_of_tile, left_of_share) = (k_tiles - k, self.end - self.at);
        let count = if left_of_tile < left_of_share { left_of_tile } else { left_of_share };
        self.at += count;
        Some(self.bands.work(self.worker, self.whole + tile, (k, k + count)))
    }

    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn fix_up<D: FixUp, L: StaticLayout>(
        &self,
        tile: &WorkTile,
        accumulators: &mut Fragment<D, L>,
        team: &Team,
    ) -> bool {
        let k_tiles = self.bands.tiles().k;
        if tile.k_tiles() == k_tiles {
            return true;
        }
        let start = (tile.number - self.whole) * k_tiles;
        let (first, last) = (start / self.share, (start + k_tiles - 1) / self.share);
        let of_block = |number: u32| number * self.worker.cluster + self.worker.rank;
        let piece = Piece {
            counter: of_block(tile.number),
            own: self.worker.number - first,
            pieces: last - first + 1,
        };
        // A worker has two pieces at most: one that begins within its tile, and the first piece of
        // another tile.
        let slot = |piece: u32| of_block(2 * (first + piece) + u32::from(piece == 0));
        // SAFETY: the caller's contract; each worker has two slots of its own.
        unsafe { self.workspace.reduce(accumulators, team, piece, slot) }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::memory::GlobalMut;
    use std::collections::BTreeMap;
    use std::vec::Vec;

    const NONE: Workspace =
        Workspace { partials: GlobalMut::from_address(0), counters: GlobalMut::from_address(0) };

    /// The pieces of each tile, as `(k, k_end)`, in the order of K.
    fn pieces<S: TileScheduler>(count: u32, of: impl Fn(Worker) -> S) -> BTreeMap<u32, Vec<(u32, u32)>> {
        let mut pieces = BTreeMap::<u32, Vec<(u32, u32)>>::new();
        for number in 0..count {
            let mut scheduler = of(Worker { number, count, rank: 0, cluster: 1 });
            while let Some(tile) = scheduler.next_tile() {
                assert!(tile.k < tile.k_end, "{tile:?} has something of K");
                pieces.entry(tile.number).or_default().push((tile.k, tile.k_end));
            }
        }
        for own in pieces.values_mut() {
            own.sort_unstable();
        }
        pieces
    }

    fn are_all_of_k(pieces: &BTreeMap<u32, Vec<(u32, u32)>>, tiles: Tiles, what: &str) {
        assert_eq!(pieces.len() as u32, tiles.count(), "{what}: {pieces:?}");
        for (tile, own) in pieces {
            let mut next = 0;
            for &(k, k_end) in own {
                assert_eq!(k, next, "{what}: tile {tile} has {own:?}");
                next = k_end;
            }
            assert_eq!(next, tiles.k, "{what}: tile {tile} has {own:?}");
        }
    }

    const CASES: [(u32, u32, u32, u32); 6] =
        [(1, 1, 1, 1), (1, 1, 9, 4), (3, 2, 7, 4), (5, 3, 4, 4), (8, 8, 5, 7), (4, 4, 3, 16)];

    #[test]
    fn slices_of_split_k_are_all_of_k_of_each_tile() {
        for (m, n, k, count) in CASES {
            for slices in [0, 1, 2, 3, 20] {
                let tiles = Tiles { m, n, k, batches: 1 };
                let pieces = pieces(count, |worker| SplitK::new(tiles, worker, 4, slices, NONE));
                are_all_of_k(&pieces, tiles, "split-K");
                let most = pieces.values().map(Vec::len).max().unwrap() as u32;
                assert!(most <= slices.max(1), "{most} slices, and not {slices}");
            }
        }
    }

    #[test]
    fn shares_of_stream_k_are_all_of_k_of_each_tile_and_equal_but_for_one() {
        for (m, n, k, count) in CASES {
            let tiles = Tiles { m, n, k, batches: 1 };
            let of = |worker| StreamK::new(tiles, worker, 4, NONE);
            are_all_of_k(&pieces(count, of), tiles, "stream-K");
            let most = (tiles.count() * k).div_ceil(count);
            for number in 0..count {
                let mut scheduler = of(Worker { number, count, rank: 0, cluster: 1 });
                let own: u32 = std::iter::from_fn(|| scheduler.next_tile()).map(|tile| tile.k_tiles()).sum();
                assert!(own <= most, "worker {number} of {count} has {own} of {tiles:?}, and not {most}");
            }
        }
    }

    #[test]
    fn a_product_without_rows_or_columns_has_no_pieces() {
        let tiles = Tiles { m: 0, n: 5, k: 3, batches: 1 };
        assert!(pieces(2, |worker| SplitK::new(tiles, worker, 4, 2, NONE)).is_empty());
        assert!(pieces(2, |worker| StreamK::new(tiles, worker, 4, NONE)).is_empty());
    }

    #[test]
    fn a_last_wave_that_is_full_shares_nothing() {
        let tiles = Tiles { m: 4, n: 2, k: 6, batches: 1 };
        for own in pieces(4, |worker| StreamK::new(tiles, worker, 4, NONE)).values() {
            assert_eq!(own[..], [(0, 6)]);
        }
    }
}
