//! Schedulers that split the K of a tile among workers: split-K and stream-K.

use super::Team;
use super::cut::Cut;
use super::fix_up::{FixUp, Piece, Workspace};
use super::scheduler::TileScheduler;
use super::tiles::{Bands, Tiles, WorkTile, Worker};
use crate::tensor::{Fragment, StaticLayout};

/// Split-K: K is split into slices of the same number of tiles, and each slice of a tile of C is
/// computed by another worker. A persistent grid.
///
/// For products with few tiles and a large K. All tiles of one slice precede those of the next, so
/// that concurrent workers read the same range of K.
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
    /// The worker's tiles with at most `slices` slices, ordered in bands of `rows` rows of tiles.
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

    /// Slices of a tile, each of at least one tile along K.
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

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
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
        // SAFETY: all threads of the team call this; each piece of each tile has a separate slot.
        unsafe { self.workspace.reduce(accumulators, team, piece, slot) }
    }
}

/// Stream-K: whole tiles first, then pieces along K of the remaining tiles, as defined by a
/// [`Cut`].
///
/// A persistent grid whose last wave of whole tiles would leave workers idle.
#[derive(Clone, Copy, Debug)]
pub struct StreamK {
    bands: Bands,
    worker: Worker,
    /// The next whole tile; from [`SHARED`] on the completed tiles along K of shared tiles.
    next: u32,
    cut: Cut,
    workspace: Workspace,
}

/// More than the tiles of C, and than the tiles along K of a worker's pieces.
const SHARED: u32 = 1 << 31;

impl StreamK {
    /// The worker's tiles, ordered in bands of `rows` rows of tiles, the last ones in
    /// [runs](Cut::runs): every worker has the same number of tiles along K, plus or minus one. All
    /// tiles of C together have fewer than 2^32 tiles along K.
    #[inline(always)]
    #[must_use]
    pub const fn new(tiles: Tiles, worker: Worker, rows: u32, workspace: Workspace) -> Self {
        Self::with(tiles, worker, rows, Cut::runs(tiles, worker.count), workspace)
    }

    /// [`new`](Self::new) with a cut that the host has chosen for this number of workers.
    #[inline(always)]
    #[must_use]
    pub const fn with(tiles: Tiles, worker: Worker, rows: u32, cut: Cut, workspace: Workspace) -> Self {
        Self { bands: Bands::new(tiles, rows), worker, next: worker.number, cut, workspace }
    }

    /// Elements of [`Workspace::partials`] for tiles of C of `tile` elements a block, in clusters
    /// of `cluster` blocks.
    #[must_use]
    pub const fn partials(tiles: Tiles, cut: Cut, tile: usize, cluster: u32) -> usize {
        cut.tiles as usize * cut.most_pieces(tiles.k) as usize * cluster as usize * tile
    }

    /// Tiles of C that are not shared.
    #[inline(always)]
    const fn whole(&self) -> u32 {
        self.bands.tiles().count() - self.cut.tiles
    }

    /// Whether the tile is a piece of a shared tile.
    #[inline(always)]
    const fn is_piece(&self, tile: &WorkTile) -> bool {
        self.cut.tiles > 0 && tile.number >= self.whole()
    }
}

impl TileScheduler for StreamK {
    #[inline(always)]
    fn next_tile(&mut self) -> Option<WorkTile> {
        let (k, whole, number) = (self.bands.tiles().k, self.whole(), self.next);
        if number < whole {
            self.next += self.worker.count;
            return Some(self.bands.work(self.worker, number, (0, k)));
        }
        let done = number.saturating_sub(SHARED);
        let span = self.cut.piece(k, self.worker.number, done)?;
        self.next = SHARED + done + span.stages;
        Some(self.bands.work(self.worker, whole + span.tile, (span.first, span.first + span.stages)))
    }

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn fix_up<D: FixUp, L: StaticLayout>(
        &self,
        tile: &WorkTile,
        accumulators: &mut Fragment<D, L>,
        team: &Team,
    ) -> bool {
        if !self.is_piece(tile) {
            return true;
        }
        let (k, tiles, number) = (self.bands.tiles().k, self.cut.tiles, tile.number - self.whole());
        let of_block = |number: u32| number * self.worker.cluster + self.worker.rank;
        let piece = Piece {
            counter: of_block(number),
            own: self.cut.number(k, self.worker.number, number),
            pieces: self.cut.pieces(k, number),
        };
        let slot = |piece: u32| of_block(piece * tiles + number);
        // SAFETY: all threads of the team call this; each piece of each shared tile has a separate
        // slot.
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

    /// Cuts of `shared` tiles for `workers` workers: into even pieces, and into even pieces and
    /// runs.
    fn cuts(shared: u32, workers: u32, all: u32) -> Vec<Cut> {
        let mut cuts = Vec::new();
        for even in 1..=(workers / shared).min(8) {
            for stages in 1..=all.div_ceil(even) {
                let left = workers - shared * even;
                let tails = shared * all.saturating_sub(even * stages);
                let run = if tails > 0 && left > 0 { tails.div_ceil(left) } else { 0 };
                if (tails == 0) == (run == 0) && (even - 1) * stages < all {
                    cuts.push(Cut { tiles: shared, even, stages, run });
                }
            }
        }
        cuts
    }

    #[test]
    fn whole_tiles_come_first_and_pieces_of_a_cut_are_all_of_k_of_the_others() {
        for (m, n, k, batches, workers) in
            [(3, 2, 8, 1, 7), (12, 6, 9, 3, 66), (32, 17, 8, 1, 66), (1, 1, 65, 1, 7)]
        {
            let tiles = Tiles { m, n, k, batches };
            let shared = tiles.count() % workers;
            for cut in cuts(shared, workers, k) {
                let of = |worker| StreamK::with(tiles, worker, 4, cut, NONE);
                let pieces = pieces(workers, of);
                are_all_of_k(&pieces, tiles, "stream-K");
                let whole = pieces.values().filter(|of| of[..] == [(0, k)]).count() as u32;
                let in_one_piece = if cut.even == 1 && cut.run == 0 { shared } else { 0 };
                assert_eq!(whole, tiles.count() - shared + in_one_piece, "{cut:?}");
                for number in 0..workers {
                    let mut scheduler = of(Worker { number, count: workers, rank: 0, cluster: 1 });
                    let mut behind = false;
                    while let Some(tile) = scheduler.next_tile() {
                        let is_piece = scheduler.is_piece(&tile);
                        assert!(
                            is_piece || !behind,
                            "worker {number} has a whole tile after a piece, {cut:?}"
                        );
                        behind = is_piece;
                    }
                }
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
