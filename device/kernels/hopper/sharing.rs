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
#[path = "../tests/hopper/sharing.rs"]
mod tests;
