//! The tile scheduler of a cluster: its sequence of tiles, and their slices of K.
//!
//! Most tiles are whole: one cluster accumulates all of K. If the last wave would leave many SMs
//! idle, its tiles are *shared* (stream-K): each is split along K into work units for several
//! clusters (see [`Cut`]). Each warpgroup reduces them in memory ([`Workspace::reduce`]):
//!
//! ```text
//! eight tiles, six clusters    cluster   0    1    2    3    4    5
//!                              round 1   t0   t1   t2   t3   t4   t5
//!                              round 2   t6   t7   t6   t7   t6   t7    a third of K each
//! ```

use super::config::{ArgumentsOf, WgmmaConfig};
use moye_device::arch::{block_idx, cluster_rank, grid_dim, opaque};
use moye_device::collective::{Cut, FixUp, Piece, Team, TileScheduler, WorkTile, Workspace};
use moye_device::kernel::KernelParam;
use moye_device::memory::{Element, GlobalMut};
use moye_device::tensor::{Fragment, StaticLayout};

/// Rows of C in a group of tiles. Blocks run along a group's rows first, so that concurrent blocks
/// share rows of A and columns of B in the L2 cache.
pub(super) const GROUP: u32 = 2048;

/// The cut of the last tiles into work units, and the workspace in which they are reduced.
#[repr(C)]
#[derive(Clone, Copy, Debug, KernelParam)]
pub struct Sharing<S: Element> {
    /// Partial accumulators: one for each element of the tile, for each work unit of each shared
    /// tile. The first work units of all tiles precede the second ones, and so on.
    pub sums: GlobalMut<S>,
    /// A counter for each shared tile, block of a cluster and consumer warpgroup: 0 before and
    /// after the launch.
    pub counters: GlobalMut<u32>,
    /// How tiles are split; K then has no other split. The grid has at least the clusters to which
    /// the cut assigns work units.
    pub cut: Cut,
}

impl<S: Element> Sharing<S> {
    /// Nothing is shared.
    pub const NONE: Self =
        Self { sums: GlobalMut::from_address(0), counters: GlobalMut::from_address(0), cut: Cut::NONE };
}

/// A piece of a shared tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// The index among the shared tiles.
    pub tile: u32,
    /// The index of the piece, in K order.
    pub number: u32,
    /// The number of work units.
    pub pieces: u32,
}

/// The work of a launch: tiles of C, and the stages of K.
///
/// There are fewer than 2^31 tiles. It is recomputed at each use, because consumer threads have no
/// registers to keep it.
#[derive(Clone, Copy, Debug)]
pub struct Job {
    /// The index of the cluster, and the number of clusters.
    pub cluster: u32,
    /// See `cluster`.
    pub clusters: u32,
    /// M and N.
    pub extents: (u32, u32),
    /// The tile of a cluster.
    pub tile: (u32, u32),
    /// Stages of K in total, and of each slice except the last.
    pub stages: (u32, u32),
    /// The number of slices of K, and of batches.
    pub splits: u32,
    /// See `splits`.
    pub batches: u32,
    /// How the last tiles are split.
    pub cut: Cut,
}

impl Job {
    /// The number of tiles along M and along N.
    #[inline(always)]
    fn tiles(&self) -> (u32, u32) {
        (self.extents.0.div_ceil(self.tile.0), self.extents.1.div_ceil(self.tile.1))
    }

    /// The number of tiles that are not shared.
    #[inline(always)]
    fn whole(&self) -> u32 {
        let (m, n) = self.tiles();
        m * n * self.splits * self.batches - self.cut.tiles
    }

    /// Whether the tile is a piece of a shared tile.
    #[inline(always)]
    #[must_use]
    pub fn is_piece(&self, tile: &WorkTile) -> bool {
        self.cut.tiles > 0 && tile.number >= self.whole()
    }

    /// The cluster's piece of a shared tile.
    #[inline(always)]
    #[must_use]
    pub fn share(&self, tile: &WorkTile) -> Share {
        let (all, tile) = (self.stages.0, tile.number - self.whole());
        Share { tile, number: self.cut.number(all, self.cluster, tile), pieces: self.cut.pieces(all, tile) }
    }

    /// The index of tile `number` in its matrix, and the index of its batch and slice of K.
    #[inline(always)]
    fn part(&self, number: u32) -> (u32, u32) {
        let (tiles_m, tiles_n) = self.tiles();
        (number % (tiles_m * tiles_n), number / (tiles_m * tiles_n))
    }

    /// The coordinates of tile `number`: along M, along N, and the index of its batch and slice of
    /// K.
    #[inline(always)]
    #[must_use]
    pub fn place(&self, number: u32) -> (u32, u32, u32) {
        let (tiles_m, tiles_n) = self.tiles();
        let (tile, part) = self.part(number);
        let group = if GROUP < self.tile.0 { 1 } else { GROUP / self.tile.0 };
        let (number, place) = (tile / (group * tiles_n), tile % (group * tiles_n));
        let above = number * group;
        // The last group may have fewer rows.
        let rows = if tiles_m - above < group { tiles_m - above } else { group };
        (above + place % rows, place / rows, part)
    }

    /// The next tile of a cluster. `next` is the number of its next whole tile, or the stages of
    /// shared tiles that it has completed, counted from [`BEHIND`].
    #[inline(always)]
    fn take_next(&self, next: &mut u32) -> Option<WorkTile> {
        let (all, chunk) = self.stages;
        let (whole, number) = (self.whole(), *next);
        let tile = |number, k, k_end| Some(WorkTile { m: 0, n: 0, batch: 0, k, k_end, number });
        if number < whole {
            *next += self.clusters;
            // K has one slice if it is one chunk.
            let first = if all <= chunk { 0 } else { self.part(number).1 % self.splits * chunk };
            let stages = if all - first < chunk { all - first } else { chunk };
            return tile(number, first, first + stages);
        }
        let done = number.saturating_sub(BEHIND);
        let piece = self.cut.piece(all, self.cluster, done)?;
        *next = BEHIND + done + piece.stages;
        tile(whole + piece.tile, piece.first, piece.first + piece.stages)
    }
}

/// More than the tiles, and than the stages of a cluster's pieces.
const BEHIND: u32 = 1 << 31;

/// The tiles of a cluster of a persistent grid: whole tiles with the stride of the grid, then its
/// pieces of shared tiles. A [`WorkTile`]'s `batch` is batch times slices of K, plus slice.
pub struct Schedule<'a, G: WgmmaConfig> {
    /// See [`Job::take_next`]. One register.
    next: u32,
    arguments: &'a ArgumentsOf<G>,
    sharing: &'a Sharing<G::Sum>,
}

impl<G: WgmmaConfig> Clone for Schedule<'_, G> {
    #[inline(always)]
    fn clone(&self) -> Self {
        Self { ..*self }
    }
}

impl<'a, G: WgmmaConfig> Schedule<'a, G> {
    /// The tiles of this block's cluster.
    #[inline(always)]
    pub(super) fn new(arguments: &'a ArgumentsOf<G>, sharing: &'a Sharing<G::Sum>) -> Self {
        Self { next: block_idx().x / G::CLUSTER, arguments, sharing }
    }
}

/// The cluster's work, recomputed where it is used so that the compiler does not keep it in
/// registers beside the accumulators. Ping-pong warpgroups do not split tiles along K.
#[inline(always)]
pub(super) fn job<G: WgmmaConfig>(arguments: &ArgumentsOf<G>, sharing: &Sharing<G::Sum>) -> Job {
    let k = opaque(arguments.k);
    Job {
        cluster: block_idx().x / G::CLUSTER,
        clusters: grid_dim().x / G::CLUSTER,
        extents: (opaque(arguments.m), opaque(arguments.n)),
        tile: (G::CLUSTER * G::BLK_M, G::BLK_N),
        stages: (k.div_ceil(G::BLK_K), opaque(arguments.k_chunk).div_ceil(G::BLK_K)),
        splits: opaque(arguments.splits),
        batches: opaque(arguments.batches),
        cut: if G::PING_PONG {
            Cut::NONE
        } else {
            let Cut { tiles, even, stages, run } = sharing.cut;
            Cut { tiles: opaque(tiles), even: opaque(even), stages: opaque(stages), run: opaque(run) }
        },
    }
}

impl<G: WgmmaConfig> TileScheduler for Schedule<'_, G> {
    #[inline(always)]
    fn next_tile(&mut self) -> Option<WorkTile> {
        job::<G>(self.arguments, self.sharing).take_next(&mut self.next)
    }

    #[inline(always)]
    fn place(&self, tile: WorkTile) -> WorkTile {
        let (m, n, batch) = job::<G>(self.arguments, self.sharing).place(tile.number);
        let m = if G::CLUSTER > 1 { m * G::CLUSTER + cluster_rank() } else { m };
        WorkTile { m, n, batch, ..tile }
    }

    /// The fix-up of a warpgroup's rows. One of two warpgroups that share a tile may store its
    /// piece and continue, while the other is last to arrive and writes C: so each has a separate
    /// counter.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn fix_up<D: FixUp, L: StaticLayout>(
        &self,
        tile: &WorkTile,
        accumulators: &mut Fragment<D, L>,
        team: &Team,
    ) -> bool {
        let job = job::<G>(self.arguments, self.sharing);
        if !job.is_piece(tile) {
            return true;
        }
        // The sink uses the tile's last stage, so the warpgroups synchronise: here, because one of
        // them may never reach the sink. All threads of the team are here.
        team.sync();
        let Share { tile, number, pieces } = self::job::<G>(self.arguments, self.sharing).share(tile);
        let rank = if G::CLUSTER > 1 { cluster_rank() } else { 0 };
        let tiles = opaque(self.sharing.cut.tiles);
        let of_warpgroup =
            |number: u32| (number * G::CLUSTER + rank) * G::CONSUMERS + team.number + team.warpgroup();
        let workspace = Workspace { partials: self.sharing.sums.cast(), counters: self.sharing.counters };
        let piece = Piece { counter: of_warpgroup(tile), own: number, pieces };
        // `sharing` has memory of this launch only.
        workspace
            .reduce(accumulators, &team.of_warpgroup(), piece, |piece| of_warpgroup(piece * tiles + tile))
    }
}

#[cfg(test)]
#[path = "../../tests/hopper/schedule.rs"]
mod tests;
