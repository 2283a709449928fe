//! The tile scheduler of a cluster: its sequence of tiles, and their parts of K.
//!
//! Most tiles are whole: one cluster accumulates all of K. If the last wave would leave many
//! multiprocessors idle, its tiles are *shared* (stream-K): each is split along K into pieces for
//! several clusters (see [`Cut`]), which are reduced in memory (see [`gather`](super::gather())):
//!
//! ```text
//! eight tiles, six clusters    cluster   0    1    2    3    4    5
//!                              round 1   t0   t1   t2   t3   t4   t5
//!                              round 2   t6   t7   t6   t7   t6   t7    a third of K each
//! ```

use super::sharing::Cut;

/// Rows of C in a group of tiles. Blocks run along a group's rows first, so that concurrent blocks
/// share rows of A and columns of B in the L2 cache.
const GROUP: u32 = 2048;

/// A cluster's next tile, or piece of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// The tile's number; whole tiles come before shared ones.
    number: u32,
    /// The first stage of K, and the number of stages.
    pub first: u32,
    /// See `first`.
    pub stages: u32,
}

/// The piece of a shared tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// The number among the shared tiles.
    pub tile: u32,
    /// The number of the piece, in K order.
    pub number: u32,
    /// The number of pieces.
    pub pieces: u32,
}

/// The coordinates of a cluster's tile of C, with its split of K and its batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// The tile's number along M.
    pub m: u32,
    /// The tile's number along N.
    pub n: u32,
    /// The batch.
    pub batch: u32,
    /// The split of K.
    pub split: u32,
}

/// The work of a launch: tiles of C, and the stages of K.
///
/// There are fewer than 2^31 tiles. Every user recomputes it, because consumer threads have no
/// registers to keep it.
#[derive(Clone, Copy, Debug)]
pub struct Job {
    /// The cluster's number, and the number of clusters.
    pub cluster: u32,
    /// See `cluster`.
    pub clusters: u32,
    /// M and N.
    pub extents: (u32, u32),
    /// The tile of a cluster.
    pub tile: (u32, u32),
    /// Stages of K in all, and of each split except the last.
    pub stages: (u32, u32),
    /// The number of splits of K, and of batches.
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

    /// Whether the work item is a piece of a shared tile.
    #[inline(always)]
    #[must_use]
    pub fn is_piece(&self, turn: Turn) -> bool {
        self.cut.tiles > 0 && turn.number >= self.whole()
    }

    /// The piece of the cluster's work item, which is one.
    #[inline(always)]
    #[must_use]
    pub fn share(&self, turn: Turn) -> Share {
        let (all, tile) = (self.stages.0, turn.number - self.whole());
        Share { tile, number: self.cut.number(all, self.cluster, tile), pieces: self.cut.pieces(all, tile) }
    }

    /// The coordinates of the cluster's tile, in a grid with one cluster for each tile.
    #[inline(always)]
    #[must_use]
    pub fn own(&self) -> Work {
        self.work(Turn { number: self.cluster, first: 0, stages: 0 })
    }

    /// The coordinates of a tile.
    #[inline(always)]
    #[must_use]
    pub fn work(&self, turn: Turn) -> Work {
        let (tiles_m, tiles_n) = self.tiles();
        let (part, tile) = (turn.number / (tiles_m * tiles_n), turn.number % (tiles_m * tiles_n));
        let group = if GROUP < self.tile.0 { 1 } else { GROUP / self.tile.0 };
        let (number, place) = (tile / (group * tiles_n), tile % (group * tiles_n));
        let above = number * group;
        // The last group may have fewer rows.
        let rows = if tiles_m - above < group { tiles_m - above } else { group };
        Work {
            m: above + place % rows,
            n: place / rows,
            batch: part / self.splits,
            split: part % self.splits,
        }
    }
}

/// The tiles of a cluster of a persistent grid: whole tiles with the stride of the grid, then its
/// pieces of shared tiles.
#[derive(Clone, Copy, Debug)]
pub struct Schedule {
    /// The next whole tile; after those, [`BEHIND`] plus the completed stages of pieces. One
    /// register.
    next: u32,
}

/// See [`Schedule`]; there are fewer tiles than this, and fewer stages in a cluster's pieces.
const BEHIND: u32 = 1 << 31;

impl Schedule {
    /// The tiles of the job's cluster.
    #[inline(always)]
    #[must_use]
    pub fn new(job: &Job) -> Self {
        Self { next: job.cluster }
    }

    /// Whether there is another whole tile.
    #[inline(always)]
    #[must_use]
    pub fn has_whole(&self, job: &Job) -> bool {
        self.next < job.whole()
    }

    /// The next tile of the same job.
    #[inline(always)]
    pub fn take_next(&mut self, job: &Job) -> Option<Turn> {
        let (all, chunk) = job.stages;
        let (whole, number) = (job.whole(), self.next);
        if number < whole {
            self.next += job.clusters;
            // K has one split if it is one chunk.
            let first =
                if all <= chunk { 0 } else { job.work(Turn { number, first: 0, stages: 0 }).split * chunk };
            let stages = if all - first < chunk { all - first } else { chunk };
            return Some(Turn { number, first, stages });
        }
        let done = number.saturating_sub(BEHIND);
        let piece = job.cut.piece(all, job.cluster, done)?;
        self.next = BEHIND + done + piece.stages;
        Some(Turn { number: whole + piece.tile, first: piece.first, stages: piece.stages })
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::collections::HashMap;
    use std::vec::Vec;

    /// A tile: its coordinates along M and N, its batch, its split of K.
    type Tile = (u32, u32, u32, u32);

    /// Each tile's pieces: the first stage, and the number of stages.
    fn dealt(clusters: u32, job: Job) -> HashMap<Tile, Vec<(u32, u32)>> {
        let mut tiles: HashMap<_, Vec<_>> = HashMap::new();
        for cluster in 0..clusters {
            let job = Job { cluster, clusters, ..job };
            let mut schedule = Schedule::new(&job);
            let mut behind = false;
            while let Some(turn) = schedule.take_next(&job) {
                let is_shared = job.is_piece(turn);
                assert!(is_shared || !behind, "cluster {cluster} has a whole tile behind a piece, {job:?}");
                behind = is_shared;
                let work = job.work(turn);
                let key = (work.m, work.n, work.batch, work.split);
                tiles.entry(key).or_default().push((turn.first, turn.stages));
            }
            assert_eq!(schedule.take_next(&job), None, "what is done stays done");
        }
        tiles
    }

    fn job(extents: (u32, u32)) -> Job {
        Job {
            cluster: 0,
            clusters: 1,
            extents,
            tile: (128, 256),
            stages: (10, 10),
            splits: 1,
            batches: 1,
            cut: Cut::NONE,
        }
    }

    #[test]
    fn clusters_share_all_tiles_and_no_tile_twice() {
        for (m, n, clusters) in
            [(1, 1, 1), (128, 256, 7), (1000, 3000, 132), (4096, 4096, 132), (2049, 255, 5)]
        {
            for (splits, batches, chunk) in [(1, 1, 10), (3, 1, 4), (2, 4, 6)] {
                let job = Job { splits, batches, stages: (10, chunk), ..job((m, n)) };
                let tiles = dealt(clusters, job);
                assert_eq!(
                    tiles.len() as u32,
                    m.div_ceil(128) * n.div_ceil(256) * splits * batches,
                    "{job:?}"
                );
                for (&(tm, tn, batch, split), pieces) in &tiles {
                    assert!(tm * 128 < m && tn * 256 < n && batch < batches && split < splits, "{job:?}");
                    let stages = chunk.min(10 - split * chunk);
                    assert_eq!(pieces[..], [(split * chunk, stages)], "({tm}, {tn}) of {job:?}");
                }
            }
        }
    }

    /// Cuts of `rest` tiles for this many clusters: into even pieces, and into these and runs.
    fn cuts(rest: u32, clusters: u32, all: u32) -> Vec<Cut> {
        let mut cuts = Vec::new();
        for even in 1..=(clusters / rest).min(8) {
            for stages in 1..=all.div_ceil(even) {
                let (left, tails) = (clusters - rest * even, rest * all.saturating_sub(even * stages));
                let run = if tails > 0 && left > 0 { tails.div_ceil(left) } else { 0 };
                if (tails == 0) == (run == 0) && (even - 1) * stages < all {
                    cuts.push(Cut { tiles: rest, even, stages, run });
                }
            }
        }
        cuts
    }

    #[test]
    fn whole_tiles_come_first_and_pieces_make_up_all_of_k_of_those_that_are_shared() {
        for (extents, clusters) in [((384, 512), 7), ((1536, 1536), 66), ((4095, 4097), 66), ((100, 100), 7)]
        {
            let tiles = u32::div_ceil(extents.0, 128) * u32::div_ceil(extents.1, 256);
            for (batches, stages) in [(1, 8), (3, 9), (1, 65)] {
                let rest = tiles * batches % clusters;
                for cut in cuts(rest, clusters, stages) {
                    let job = Job { batches, stages: (stages, stages), cut, ..job(extents) };
                    let dealt = dealt(clusters, job);
                    assert_eq!(dealt.len() as u32, tiles * batches, "{job:?}");
                    let whole = dealt.values().filter(|of| of[..] == [(0, stages)]).count() as u32;
                    let shared_by_one = if cut.even == 1 && cut.run == 0 { rest } else { 0 };
                    assert_eq!(whole, tiles * batches - rest + shared_by_one, "{job:?}");
                    for (tile, mut of) in dealt {
                        of.sort_unstable();
                        let mut next = 0;
                        for &(first, count) in &of {
                            assert_eq!(first, next, "{tile:?} of {job:?} has {of:?}");
                            next += count;
                        }
                        assert_eq!(next, stages, "{tile:?} of {job:?} has {of:?}");
                    }
                }
            }
        }
    }
}
