//! Tile schedulers: the sequence of tiles of C that a block computes, and the range of K of each.

use super::tiles::{Bands, Tiles, WorkTile, Worker};
use super::{FixUp, Team};
use crate::memory::Element;
use crate::tensor::{Fragment, StaticLayout};

/// The tiles of one worker. Each warp of a block has a copy; all copies return the same tiles.
///
/// A custom scheduler takes two steps: a struct built from [`Tiles`] and a [`Worker`], and
/// `next_tile`. Here each block computes a row of tiles, and skips tiles above the diagonal of a
/// lower triangular C:
///
/// ```
/// use moye_device::collective::{Bands, TileScheduler, Tiles, WorkTile, Worker};
///
/// #[derive(Clone)]
/// struct LowerTriangle { bands: Bands, worker: Worker, column: u32 }
///
/// impl TileScheduler for LowerTriangle {
///     fn next_tile(&mut self) -> Option<WorkTile> {
///         let (tiles, row) = (self.bands.tiles(), self.worker.number);
///         let column = self.column;
///         self.column += 1;
///         // In bands of one row tiles are counted along rows.
///         (column <= row).then(|| self.bands.work(self.worker, row * tiles.n + column, (0, tiles.k)))
///     }
/// }
///
/// let tiles = Tiles::new((4, 4, 64), (1, 1, 64), 1);
/// let worker = Worker { number: 2, count: 4, rank: 0, cluster: 1 };
/// let mut scheduler = LowerTriangle { bands: Bands::new(tiles, 1), worker, column: 0 };
/// let columns: Vec<u32> = std::iter::from_fn(|| scheduler.next_tile()).map(|tile| tile.n).collect();
/// assert_eq!(columns, [0, 1, 2]);
/// ```
pub trait TileScheduler: Clone {
    /// The next tile of this worker; `None` after the last.
    fn next_tile(&mut self) -> Option<WorkTile>;

    /// The same tile with its coordinates.
    ///
    /// A scheduler whose coordinates would take registers beside the accumulators leaves `m`, `n`
    /// and `batch` 0 in [`next_tile`](Self::next_tile) and computes them here. Other schedulers
    /// keep this definition.
    #[inline(always)]
    fn place(&self, tile: WorkTile) -> WorkTile {
        tile
    }

    /// Reduces the accumulators of a tile with those of the blocks that compute other parts of its
    /// K. Returns whether this thread now holds the complete accumulators and writes its part of C:
    /// uniform across the team, or across each of its warpgroups if the sink needs no more.
    ///
    /// Schedulers that assign each tile to one block keep this definition. Others reduce with
    /// [`Workspace::reduce`](super::Workspace::reduce).
    ///
    /// # Safety
    /// All threads of the team call it, each with its own accumulators of the tile, which are
    /// complete.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn fix_up<D: FixUp + Element, L: StaticLayout>(
        &self,
        _tile: &WorkTile,
        _accumulators: &mut Fragment<D, L>,
        _team: &Team,
    ) -> bool {
        true
    }
}

/// One tile for each worker, for a grid of [`Tiles::count`] workers. Further workers have none.
#[derive(Clone, Copy, Debug)]
pub struct OneTile {
    bands: Bands,
    worker: Worker,
    done: bool,
}

impl OneTile {
    /// The worker's tile, ordered in bands of `rows` rows of tiles.
    #[inline(always)]
    #[must_use]
    pub const fn new(tiles: Tiles, worker: Worker, rows: u32) -> Self {
        Self { bands: Bands::new(tiles, rows), worker, done: false }
    }
}

impl TileScheduler for OneTile {
    #[inline(always)]
    fn next_tile(&mut self) -> Option<WorkTile> {
        if self.done || self.worker.number >= self.bands.tiles().count() {
            return None;
        }
        self.done = true;
        Some(self.bands.work(self.worker, self.worker.number, (0, self.bands.tiles().k)))
    }
}

/// A persistent grid of any number of workers: worker `i` of `count` computes tiles `i`,
/// `i + count`, `i + 2 count`...
#[derive(Clone, Copy, Debug)]
pub struct Persistent {
    bands: Bands,
    worker: Worker,
    next: u32,
}

impl Persistent {
    /// The worker's tiles, ordered in bands of `rows` rows of tiles.
    #[inline(always)]
    #[must_use]
    pub const fn new(tiles: Tiles, worker: Worker, rows: u32) -> Self {
        Self { bands: Bands::new(tiles, rows), worker, next: worker.number }
    }
}

impl TileScheduler for Persistent {
    #[inline(always)]
    fn next_tile(&mut self) -> Option<WorkTile> {
        let tiles = self.bands.tiles();
        if self.next >= tiles.count() {
            return None;
        }
        let number = self.next;
        self.next += self.worker.count;
        Some(self.bands.work(self.worker, number, (0, tiles.k)))
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::collections::BTreeMap;
    use std::vec::Vec;

    fn all_of<S: TileScheduler>(mut scheduler: S) -> Vec<WorkTile> {
        std::iter::from_fn(|| scheduler.next_tile()).collect()
    }

    fn worker(number: u32, count: u32) -> Worker {
        Worker { number, count, rank: 0, cluster: 1 }
    }

    #[test]
    fn a_persistent_grid_has_each_tile_once_whatever_its_bands_and_workers_are() {
        for (m, n, batches, count, rows) in
            [(1, 1, 1, 1, 8), (8, 3, 1, 5, 8), (9, 4, 2, 132, 8), (21, 17, 3, 66, 4), (5, 2, 1, 3, 0)]
        {
            let tiles = Tiles { m, n, k: 7, batches };
            let mut seen = BTreeMap::new();
            for number in 0..count {
                for tile in all_of(Persistent::new(tiles, worker(number, count), rows)) {
                    assert_eq!((tile.k, tile.k_end), (0, 7));
                    *seen.entry((tile.m, tile.n, tile.batch)).or_insert(0) += 1;
                }
            }
            assert_eq!(seen.len() as u32, tiles.count(), "{tiles:?} on {count} workers");
            assert!(seen.iter().all(|(&(i, j, b), &times)| i < m && j < n && b < batches && times == 1));
        }
    }

    #[test]
    fn neighbours_in_time_are_a_band_of_rows() {
        let tiles = Tiles { m: 5, n: 3, k: 1, batches: 1 };
        let places: Vec<_> =
            all_of(Persistent::new(tiles, worker(0, 1), 2)).iter().map(|tile| (tile.m, tile.n)).collect();
        assert_eq!(places[..6], [(0, 0), (1, 0), (0, 1), (1, 1), (0, 2), (1, 2)]);
        assert_eq!(places[12..], [(4, 0), (4, 1), (4, 2)], "the last band has one row");
    }

    #[test]
    fn blocks_of_a_cluster_have_tiles_below_each_other() {
        let tiles = Tiles { m: 2, n: 2, k: 1, batches: 1 };
        for rank in 0..2 {
            let worker = Worker { number: 1, count: 4, rank, cluster: 2 };
            let tile = all_of(OneTile::new(tiles, worker, 8))[0];
            assert_eq!((tile.m, tile.n), (2 + rank, 0));
        }
    }

    #[test]
    fn a_worker_of_a_plain_grid_has_one_tile() {
        let tiles = Tiles { m: 4, n: 4, k: 3, batches: 1 };
        for number in 0..16 {
            let own = all_of(OneTile::new(tiles, worker(number, 16), 4));
            assert_eq!(own.len(), 1);
            assert_eq!((own[0].m, own[0].n), (number % 4, number / 4));
        }
        assert_eq!(all_of(OneTile::new(tiles, worker(16, 17), 4)), [], "there are 16 tiles");
    }

    #[test]
    fn a_product_without_rows_or_columns_has_no_tiles() {
        for (m, n) in [(0, 3), (3, 0)] {
            let tiles = Tiles::new((m, n, 8), (1, 1, 8), 1);
            assert_eq!(all_of(OneTile::new(tiles, worker(0, 1), 4)), []);
            assert_eq!(all_of(Persistent::new(tiles, worker(0, 1), 4)), []);
        }
    }
}
