//! Stream-K: how the last tiles of C are split along K among workers.
//!
//! A partial wave of tiles leaves workers idle. So its tiles are split along K into *even* pieces
//! (work units), one for each worker available for the tile, or fewer. If workers are left over,
//! each even piece is shorter, and the rest of the tiles' K, their *tails*, are concatenated and
//! split into equal *runs*, one for each remaining worker:
//!
//! ```text
//! two tiles, six workers, K of six tiles     worker   0    1    2    3    4    5
//!                                            even     t0   t1   t0   t1   t0   t1     two each
//!
//! four tiles, six workers, K of six tiles    worker   0    1    2    3    4    5
//!                                            even     t0   t1   t2   t3               four each
//!                                            runs                         t0+1 t2+3   two of two
//! ```
//!
//! Workers with even pieces process the same range of K at the same time, so that the L2 cache
//! loads their common rows and columns once. A run may start and end within a tail: such a tile has
//! a piece in each of two runs. Stream-K of Osama et al. (PPoPP 2023) uses only runs, of whole
//! tiles: [`Cut::runs`]. It was slower on an H200 for a short K: the workers share no loads, and
//! most tiles have three pieces.

use super::tiles::Tiles;
use crate::kernel::KernelParam;

/// The division of the last tiles of C along K. All fields are 0 if no tile is divided.
///
/// ```
/// use moye_device::collective::{Cut, Span};
///
/// // 34 tiles whose K is 128 tiles, for 66 workers: 34 have 68 of a tile each, and 32 have 64 of
/// // tails.
/// let cut = Cut { tiles: 34, even: 1, stages: 68, run: 64 };
/// assert_eq!(cut.piece(128, 33, 0), Some(Span { tile: 33, first: 0, stages: 68 }));
/// // A tail has 60, so the first run ends with four of the second tile.
/// assert_eq!(cut.piece(128, 34, 0), Some(Span { tile: 0, first: 68, stages: 60 }));
/// assert_eq!(cut.piece(128, 34, 60), Some(Span { tile: 1, first: 68, stages: 4 }));
/// assert_eq!(cut.piece(128, 34, 64), None);
/// assert_eq!((cut.pieces(128, 0), cut.pieces(128, 1)), (2, 3));
/// ```
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, KernelParam)]
pub struct Cut {
    /// The number of shared tiles, the last ones of C.
    pub tiles: u32,
    /// Even pieces of each tile; 0 if runs cover all of K.
    pub even: u32,
    /// Tiles along K of an even piece; if even pieces cover all of K, the last one may have fewer,
    /// but at least one.
    pub stages: u32,
    /// Tiles along K of a run; 0 only if even pieces cover all of K. All runs together cover all
    /// tails.
    pub run: u32,
}

/// A worker's piece of a shared tile: a work unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The index among the shared tiles.
    pub tile: u32,
    /// The first tile along K.
    pub first: u32,
    /// The number of tiles along K.
    pub stages: u32,
}

impl Cut {
    /// No tile is shared.
    pub const NONE: Self = Self { tiles: 0, even: 0, stages: 0, run: 0 };

    /// Only runs, of the last tiles of `count` workers: each worker has the same number of tiles
    /// along K, except that the last may have fewer.
    ///
    /// If there are enough tiles, a run is at least one whole tile, so that a tile has at most two
    /// pieces.
    #[inline(always)]
    #[must_use]
    pub const fn runs(tiles: Tiles, count: u32) -> Self {
        let (all, waves) = (tiles.count(), tiles.count() / count);
        let shared = match all % count {
            0 => return Self::NONE,
            _ if waves == 0 => all,
            _ => all - (waves - 1) * count,
        };
        Self { tiles: shared, even: 0, stages: 0, run: (shared * tiles.k).div_ceil(count) }
    }

    /// The workers with even pieces: those of a tile are consecutive, and pieces with the same
    /// index are adjacent for adjacent tiles.
    #[inline(always)]
    const fn of_even(self) -> u32 {
        self.tiles * self.even
    }

    /// Tiles along K, of `all`, that the even pieces leave to the tail.
    #[inline(always)]
    const fn tail(self, all: u32) -> u32 {
        all.saturating_sub(self.even * self.stages)
    }

    /// The worker's next piece after its first `done` tiles along K of shared tiles, which must be
    /// whole pieces. `all` is the number of tiles along K.
    #[inline(always)]
    #[must_use]
    pub fn piece(self, all: u32, worker: u32, done: u32) -> Option<Span> {
        if worker < self.of_even() {
            let first = worker / self.tiles * self.stages;
            let left = all - first;
            let stages = if left < self.stages { left } else { self.stages };
            return if done == 0 { Some(Span { tile: worker % self.tiles, first, stages }) } else { None };
        }
        let tail = self.tail(all);
        let at = (worker - self.of_even()) * self.run + done;
        if done >= self.run || at >= self.tiles * tail {
            return None;
        }
        let (left, left_of_run) = (tail - at % tail, self.run - done);
        let stages = if left < left_of_run { left } else { left_of_run };
        Some(Span { tile: at / tail, first: self.even * self.stages + at % tail, stages })
    }

    /// The index, in K order, of the worker's piece of the tile.
    #[inline(always)]
    #[must_use]
    pub fn number(self, all: u32, worker: u32, tile: u32) -> u32 {
        if worker < self.of_even() {
            worker / self.tiles
        } else {
            self.even + (worker - self.of_even()) - tile * self.tail(all) / self.run
        }
    }

    /// The number of pieces of the tile.
    #[inline(always)]
    #[must_use]
    pub fn pieces(self, all: u32, tile: u32) -> u32 {
        let tail = self.tail(all);
        if tail == 0 {
            return self.even;
        }
        self.even + ((tile + 1) * tail - 1) / self.run - tile * tail / self.run + 1
    }

    /// An upper bound on the pieces of any tile.
    #[must_use]
    pub const fn most_pieces(self, all: u32) -> u32 {
        let (tail, run) = (self.tail(all), self.run);
        self.even
            + if self.tiles == 0 || tail == 0 {
                0
            } else if run.is_multiple_of(tail) || tail.is_multiple_of(run) {
                tail.div_ceil(run)
            } else {
                // One run starts in the tail, and one ends there.
                tail.div_ceil(run) + 1
            }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;

    /// Cuts of tiles, with their tiles along K, for enough workers: only even pieces, also of
    /// unequal length; runs that are shorter than a tail, equal, longer, and with a short last run;
    /// only runs.
    fn cuts() -> impl Iterator<Item = (u32, Cut)> {
        let even =
            |tiles: u32, even: u32, all: u32| (all, Cut { tiles, even, stages: all.div_ceil(even), run: 0 });
        let run = |tiles, even, stages, all, run| (all, Cut { tiles, even, stages, run });
        let equal = |count, k, workers| (k, Cut::runs(Tiles { m: count, n: 1, k, batches: 1 }, workers));
        [
            even(2, 4, 8),
            even(3, 3, 7),
            even(1, 8, 65),
            even(5, 2, 2),
            run(34, 1, 68, 128, 60),
            run(34, 1, 68, 128, 64),
            run(34, 1, 70, 128, 62),
            run(2, 1, 4, 9, 3),
            run(3, 2, 2, 7, 1),
            run(4, 1, 4, 6, 4),
            run(1, 1, 5, 8, 2),
            run(58, 1, 60, 64, 29),
            equal(5, 4, 3),
            equal(7, 9, 2),
            equal(1, 9, 4),
            equal(12, 5, 7),
        ]
        .into_iter()
    }

    /// All pieces with their worker's index, in each worker's order.
    fn dealt(all: u32, cut: Cut) -> Vec<(u32, Span)> {
        let runs = if cut.run > 0 { (cut.tiles * cut.tail(all)).div_ceil(cut.run) } else { 0 };
        let mut dealt = Vec::new();
        for worker in 0..cut.of_even() + runs {
            let mut done = 0;
            while let Some(piece) = cut.piece(all, worker, done) {
                assert!(piece.stages > 0, "{piece:?} of worker {worker}, {cut:?}");
                dealt.push((worker, piece));
                done += piece.stages;
            }
            assert!(done > 0, "worker {worker} has nothing, {cut:?}");
        }
        let none = cut.of_even() + runs;
        assert_eq!(
            cut.piece(all, none, 0),
            None,
            "there are no more than {none} workers with a piece, {cut:?}"
        );
        dealt
    }

    #[test]
    fn pieces_are_all_of_k_of_each_tile_in_the_order_of_their_numbers() {
        for (all, cut) in cuts() {
            let dealt = dealt(all, cut);
            for tile in 0..cut.tiles {
                let mut of: Vec<_> = dealt.iter().filter(|(_, piece)| piece.tile == tile).collect();
                of.sort_by_key(|(_, piece)| piece.first);
                assert_eq!(of.len() as u32, cut.pieces(all, tile), "tile {tile} of {cut:?} has {of:?}");
                let mut next = 0;
                for (i, &&(worker, piece)) in of.iter().enumerate() {
                    assert_eq!(piece.first, next, "tile {tile} of {cut:?} has {of:?}");
                    assert_eq!(cut.number(all, worker, tile), i as u32, "{piece:?} of {cut:?}");
                    next += piece.stages;
                }
                assert_eq!(next, all, "tile {tile} of {cut:?} has {of:?}");
            }
            let most = (0..cut.tiles).map(|tile| cut.pieces(all, tile)).max().unwrap();
            let bound = cut.most_pieces(all);
            assert!(most <= bound && bound <= most + 1, "{most} and not {bound} pieces at most, {cut:?}");
        }
    }

    #[test]
    fn no_worker_has_more_than_its_even_piece_or_run() {
        for (all, cut) in cuts() {
            let dealt = dealt(all, cut);
            for worker in 0..=dealt.last().unwrap().0 {
                let stages: u32 =
                    dealt.iter().filter(|(of, _)| *of == worker).map(|(_, piece)| piece.stages).sum();
                let most = if worker < cut.of_even() { cut.stages } else { cut.run };
                assert!(stages <= most, "worker {worker} has {stages} stages, {cut:?}");
            }
        }
    }

    #[test]
    fn where_no_tile_is_shared_no_worker_has_a_piece() {
        for worker in [0, 1, 65] {
            assert_eq!(Cut::NONE.piece(10, worker, 0), None);
        }
    }
}
