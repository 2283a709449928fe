//! The last tiles, which several clusters have a piece of K of: how they are cut, and where the pieces meet.
//!
//! A round of tiles that is not full leaves clusters idle. So its tiles are cut along K, into as many *even* pieces as there are
//! clusters for each of them, or fewer. Where clusters are left over, each even piece is shorter, and what remains of the tiles' K, their
//! *tails*, is laid end to end and cut into equal *runs*, one for each of those clusters:
//!
//! ```text
//! two tiles, six clusters, six stages       cluster   0    1    2    3    4    5
//!                                           even      t0   t1   t0   t1   t0   t1       two stages each
//!
//! four tiles, six clusters, six stages      cluster   0    1    2    3    4    5
//!                                           even      t0   t1   t2   t3                 four stages each
//!                                           runs                          t0+1 t2+3     two stages of each of two tiles
//! ```
//!
//! Clusters that have even pieces have the same part of K at the same time, so that the L2 cache brings the rows and columns that their
//! tiles have in common once. A run may begin and end within a tail: the tile then has a piece in each of two runs. ("Stream-K" of Osama et
//! al., PPoPP 2023, has runs alone, of whole tiles too. Tried here, and slower where K is short: nobody reads what others do, and most
//! tiles have three pieces.)

use moye_device::kernel::KernelParam;
use moye_device::memory::{Element, GlobalMut};

/// How tiles of clusters are cut along K. With them K is in one part. All numbers are 0 where no tile is shared.
///
/// ```
/// use moye_kernels::hopper::{Cut, Piece};
///
/// // 34 tiles of 128 stages, for 66 clusters: 34 of these have 68 stages of a tile each, and 32 have 64 stages of tails.
/// let cut = Cut { tiles: 34, even: 1, stages: 68, run: 64 };
/// assert_eq!(cut.piece(128, 33, 0), Some(Piece { tile: 33, first: 0, stages: 68 }));
/// // A tail has 60 stages, so the first run ends with four of the second tile.
/// assert_eq!(cut.piece(128, 34, 0), Some(Piece { tile: 0, first: 68, stages: 60 }));
/// assert_eq!(cut.piece(128, 34, 60), Some(Piece { tile: 1, first: 68, stages: 4 }));
/// assert_eq!(cut.piece(128, 34, 64), None);
/// assert_eq!((cut.pieces(128, 0), cut.pieces(128, 1)), (2, 3));
/// ```
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, KernelParam)]
pub struct Cut {
    /// The tiles that are shared, the last of all.
    pub tiles: u32,
    /// Even pieces of each tile, one at least.
    pub even: u32,
    /// Stages of each of these; the last one may have fewer, where they are all of K, but not none.
    pub stages: u32,
    /// Stages of a run; 0 where even pieces are all of K, and only there. All runs together have as many as the tails.
    pub run: u32,
}

/// A cluster's piece of a shared tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The tile, of those that are shared.
    pub tile: u32,
    /// The first stage of K.
    pub first: u32,
    /// How many there are.
    pub stages: u32,
}

impl Cut {
    /// No tile is shared.
    pub const NONE: Self = Self { tiles: 0, even: 0, stages: 0, run: 0 };

    /// The clusters that have even pieces: those of a tile one after the other, and of each tile's those of the same number beside each
    /// other.
    #[inline(always)]
    const fn of_even(self) -> u32 {
        self.tiles * self.even
    }

    /// Stages of a tile, of `all`, that even pieces leave.
    #[inline(always)]
    const fn tail(self, all: u32) -> u32 {
        all.saturating_sub(self.even * self.stages)
    }

    /// The piece that a cluster has behind its first `done` stages of shared tiles, which are whole pieces. `all` are the stages of K.
    #[inline(always)]
    #[must_use]
    pub fn piece(self, all: u32, cluster: u32, done: u32) -> Option<Piece> {
        if cluster < self.of_even() {
            let first = cluster / self.tiles * self.stages;
            let left = all - first;
            let stages = if left < self.stages { left } else { self.stages };
            return if done == 0 { Some(Piece { tile: cluster % self.tiles, first, stages }) } else { None };
        }
        let tail = self.tail(all);
        let at = (cluster - self.of_even()) * self.run + done;
        if done >= self.run || at >= self.tiles * tail {
            return None;
        }
        let (left, left_of_run) = (tail - at % tail, self.run - done);
        let stages = if left < left_of_run { left } else { left_of_run };
        Some(Piece { tile: at / tail, first: self.even * self.stages + at % tail, stages })
    }

    /// Which of the tile's pieces, in the order of K, is the cluster's, which has one.
    #[inline(always)]
    #[must_use]
    pub fn number(self, all: u32, cluster: u32, tile: u32) -> u32 {
        if cluster < self.of_even() {
            cluster / self.tiles
        } else {
            self.even + (cluster - self.of_even()) - tile * self.tail(all) / self.run
        }
    }

    /// The pieces of a tile.
    #[inline(always)]
    #[must_use]
    pub fn pieces(self, all: u32, tile: u32) -> u32 {
        let tail = self.tail(all);
        if tail == 0 {
            return self.even;
        }
        self.even + ((tile + 1) * tail - 1) / self.run - tile * tail / self.run + 1
    }

    /// No tile has more pieces than so many.
    #[must_use]
    pub const fn most_pieces(self, all: u32) -> u32 {
        let (tail, run) = (self.tail(all), self.run);
        self.even
            + if self.tiles == 0 || tail == 0 {
                0
            } else if run.is_multiple_of(tail) || tail.is_multiple_of(run) {
                tail.div_ceil(run)
            } else {
                // One begins somewhere in the tail, and one ends there.
                tail.div_ceil(run) + 1
            }
    }
}

/// How the last tiles are shared, and where their pieces meet: see [`gather()`](super::gather()).
#[repr(C)]
#[derive(Clone, Copy, Debug, KernelParam)]
pub struct Sharing<S: Element> {
    /// Sums of pieces: for each piece of each shared tile as many as the tile has elements; all tiles' first pieces, then the second ones, ...
    pub sums: GlobalMut<S>,
    /// A counter for each shared tile, each block of a cluster and each consuming warpgroup: 0 before and after.
    pub counters: GlobalMut<u32>,
    /// How they are cut. There are as many clusters as have a piece, at least.
    pub cut: Cut,
}

impl<S: Element> Sharing<S> {
    /// Nothing is shared.
    pub const NONE: Self =
        Self { sums: GlobalMut::from_address(0), counters: GlobalMut::from_address(0), cut: Cut::NONE };
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;

    /// Cuts of tiles of so many stages, for clusters enough: even pieces alone, also of unequal length, and runs that are shorter than a tail, as
    /// long, longer, and of which the last one is short.
    fn cuts() -> impl Iterator<Item = (u32, Cut)> {
        let even = [(2, 4, 8), (3, 3, 7), (1, 8, 65), (5, 2, 2)];
        let even = even.into_iter().map(|(tiles, even, all): (u32, u32, u32)| {
            (all, Cut { tiles, even, stages: all.div_ceil(even), run: 0 })
        });
        let runs = [
            (34, 1, 68, 128, 60),
            (34, 1, 68, 128, 64),
            (34, 1, 70, 128, 62),
            (2, 1, 4, 9, 3),
            (3, 2, 2, 7, 1),
            (4, 1, 4, 6, 4),
            (1, 1, 5, 8, 2),
            (58, 1, 60, 64, 29),
        ];
        even.chain(
            runs.into_iter().map(|(tiles, even, stages, all, run)| (all, Cut { tiles, even, stages, run })),
        )
    }

    /// The pieces of all clusters, with the cluster's number, in the order in which each has them.
    fn dealt(all: u32, cut: Cut) -> Vec<(u32, Piece)> {
        let runs = if cut.run > 0 { (cut.tiles * cut.tail(all)).div_ceil(cut.run) } else { 0 };
        let mut dealt = Vec::new();
        for cluster in 0..cut.of_even() + runs {
            let mut done = 0;
            while let Some(piece) = cut.piece(all, cluster, done) {
                assert!(piece.stages > 0, "{piece:?} of cluster {cluster}, {cut:?}");
                dealt.push((cluster, piece));
                done += piece.stages;
            }
            assert!(done > 0, "cluster {cluster} has nothing, {cut:?}");
        }
        let none = cut.of_even() + runs;
        assert_eq!(
            cut.piece(all, none, 0),
            None,
            "there are no more than {none} clusters with a piece, {cut:?}"
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
                for (i, &&(cluster, piece)) in of.iter().enumerate() {
                    assert_eq!(piece.first, next, "tile {tile} of {cut:?} has {of:?}");
                    assert_eq!(cut.number(all, cluster, tile), i as u32, "{piece:?} of {cut:?}");
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
    fn no_cluster_has_more_than_its_even_piece_or_run() {
        for (all, cut) in cuts() {
            let dealt = dealt(all, cut);
            for cluster in 0..=dealt.last().unwrap().0 {
                let stages: u32 =
                    dealt.iter().filter(|(of, _)| *of == cluster).map(|(_, piece)| piece.stages).sum();
                let most = if cluster < cut.of_even() { cut.stages } else { cut.run };
                assert!(stages <= most, "cluster {cluster} has {stages} stages, {cut:?}");
            }
        }
    }

    #[test]
    fn where_no_tile_is_shared_no_cluster_has_a_piece() {
        for cluster in [0, 1, 65] {
            assert_eq!(Cut::NONE.piece(10, cluster, 0), None);
        }
    }
}
