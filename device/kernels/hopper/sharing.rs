//! Stream-K: how the last tiles are split along K among clusters, and where their partial
//! accumulators are reduced.
//!
//! A partial wave of tiles leaves clusters idle. So its tiles are split along K into *even* pieces,
//! one for each cluster that is available for the tile, or fewer. If clusters are left over, each
//! even piece is shorter, and the rest of the tiles' K, their *tails*, are concatenated and split
//! into equal *runs*, one for each remaining cluster:
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
//! Clusters with even pieces work on the same part of K at the same time, so that the L2 cache
//! loads their common rows and columns once. A run may start and end within a tail: such a tile has
//! a piece in each of two runs. (Stream-K of Osama et al., PPoPP 2023, has only runs, of whole
//! tiles too. It was slower here for a short K: the clusters share no loads, and most tiles have
//! three pieces.)

use moye_device::kernel::KernelParam;
use moye_device::memory::{Element, GlobalMut};

/// How tiles of clusters are split along K. K then has no other split. All numbers are 0 if no tile
/// is shared.
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
    /// The number of shared tiles, the last ones of all.
    pub tiles: u32,
    /// Even pieces of each tile, at least one.
    pub even: u32,
    /// Stages of an even piece; if even pieces cover all of K, the last one may have fewer, but at
    /// least one.
    pub stages: u32,
    /// Stages of a run; 0 only if even pieces cover all of K. All runs together have the stages of
    /// all tails.
    pub run: u32,
}

/// A cluster's piece of a shared tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The number among the shared tiles.
    pub tile: u32,
    /// The first stage of K.
    pub first: u32,
    /// The number of stages.
    pub stages: u32,
}

impl Cut {
    /// No tile is shared.
    pub const NONE: Self = Self { tiles: 0, even: 0, stages: 0, run: 0 };

    /// The clusters with even pieces: those of a tile are consecutive, and pieces with the same
    /// number are adjacent for adjacent tiles.
    #[inline(always)]
    const fn of_even(self) -> u32 {
        self.tiles * self.even
    }

    /// Stages of a tile, of `all`, that the even pieces leave to the tail.
    #[inline(always)]
    const fn tail(self, all: u32) -> u32 {
        all.saturating_sub(self.even * self.stages)
    }

    /// The cluster's next piece after its first `done` stages of shared tiles, which are whole
    /// pieces. `all` is the number of stages of K.
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

    /// The number, in K order, of the cluster's piece of the tile.
    #[inline(always)]
    #[must_use]
    pub fn number(self, all: u32, cluster: u32, tile: u32) -> u32 {
        if cluster < self.of_even() {
            cluster / self.tiles
        } else {
            self.even + (cluster - self.of_even()) - tile * self.tail(all) / self.run
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

    /// An upper bound of the pieces of any tile.
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

/// How the last tiles are shared, and where their pieces are reduced.
#[repr(C)]
#[derive(Clone, Copy, Debug, KernelParam)]
pub struct Sharing<S: Element> {
    /// Partial accumulators: for each piece of each shared tile as many as the tile has elements;
    /// the first pieces of all tiles, then the second ones, ...
    pub sums: GlobalMut<S>,
    /// A counter for each shared tile, each block of a cluster and each consumer warpgroup: 0
    /// before and after the launch.
    pub counters: GlobalMut<u32>,
    /// How tiles are split. There are at least as many clusters as have a piece.
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

    /// Cuts of tiles with this many stages, with enough clusters: only even pieces, also of unequal
    /// length; and runs that are shorter than a tail, equal, longer, and with a short last run.
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

    /// The pieces of all clusters with the cluster's number, in each cluster's order.
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
