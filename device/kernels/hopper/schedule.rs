//! Which tiles a cluster has, one after the other, and which parts of K of them.
//!
//! Most tiles are whole: one cluster sums all of K. Where the last round of tiles would leave most of the chip idle, those tiles
//! are *shared*: each is cut along K into as many pieces as there are clusters for it, which meet in memory (see
//! [`gather`](super::gather)):
//!
//! ```text
//! eight tiles, six clusters    cluster   0    1    2    3    4    5
//!                              round 1   t0   t1   t2   t3   t4   t5
//!                              round 2   t6   t7   t6   t7   t6   t7    a third of K each
//! ```
//!
//! Clusters that have the same part of K have it at the same time, so that the L2 cache brings the rows and columns that their
//! tiles have in common once. ("Stream-K" of Osama et al., PPoPP 2023, deals out equal runs of stages instead, which begin anywhere:
//! tried here, and slower, since nobody reads what others do.)

use crate::kernel::{KernelParam, ParamType};
use crate::memory::{Element, GlobalMut};

/// Rows of C that a group of tiles has. Blocks go along a group's rows first, so that those that run at the same time share
/// rows of A and columns of B, which the L2 cache keeps for them.
const GROUP: u32 = 2048;

/// How the last tiles are shared, and where their pieces meet.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Sharing<S: Element> {
    /// Sums of pieces: for each piece of each shared tile as many as the tile has elements.
    pub sums: GlobalMut<S>,
    /// A counter for each shared tile, each block of a cluster and each consuming warpgroup: 0 before and after.
    pub counters: GlobalMut<u32>,
    /// Tiles of clusters that are shared, the last of all; 0 where none is. With them K is in one part.
    pub tiles: u32,
    /// The pieces of each, at most one for each stage of K; there are as many clusters as pieces of all at least.
    pub pieces: u32,
}

impl<S: Element> Sharing<S> {
    /// Nothing is shared.
    pub const NONE: Self =
        Self { sums: GlobalMut::from_address(0), counters: GlobalMut::from_address(0), tiles: 0, pieces: 0 };
}

// SAFETY: `repr(C)` of two addresses and two numbers of 32 bits, without gaps, the same on host and device.
unsafe impl<S: Element> KernelParam for Sharing<S> {
    const TYPE: ParamType = ParamType::Struct { name: "Sharing", size: size_of::<Self>() };
}

/// A cluster's next tile, or piece of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// The tile's number, whole ones first.
    number: u32,
    /// The first stage of K, and how many there are.
    pub first: u32,
    /// See `first`.
    pub stages: u32,
}

/// Where a tile of C of a cluster lies, in one part of K of one batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// The tile's number along M.
    pub m: u32,
    /// The tile's number along N.
    pub n: u32,
    /// The batch.
    pub batch: u32,
    /// The part of K.
    pub split: u32,
}

/// What there is to be done: tiles of C, and the stages of K.
///
/// There are fewer than 2^31 tiles. It is made anew wherever it is asked: a
/// thread that multiplies has no registers to keep it.
#[derive(Clone, Copy, Debug)]
pub struct Job {
    /// The cluster's number, and how many there are.
    pub cluster: u32,
    /// See `cluster`.
    pub clusters: u32,
    /// M and N.
    pub extents: (u32, u32),
    /// The tile of a cluster.
    pub tile: (u32, u32),
    /// Stages of K in all, and of each part but the last.
    pub stages: (u32, u32),
    /// Parts of K, and batches.
    pub splits: u32,
    /// See `splits`.
    pub batches: u32,
    /// Tiles that are shared, and the pieces of each.
    pub shared: (u32, u32),
}

impl Job {
    /// The tiles along M and along N.
    #[inline(always)]
    fn tiles(&self) -> (u32, u32) {
        (self.extents.0.div_ceil(self.tile.0), self.extents.1.div_ceil(self.tile.1))
    }

    /// The tiles that are not shared.
    #[inline(always)]
    fn whole(&self) -> u32 {
        let (m, n) = self.tiles();
        m * n * self.splits * self.batches - self.shared.0
    }

    /// The cluster's piece of a shared tile: the tile's number among those, and the piece's. `None` where it has none.
    #[inline(always)]
    #[must_use]
    pub fn piece(&self) -> Option<(u32, u32)> {
        let (tiles, pieces) = self.shared;
        if self.cluster < tiles * pieces { Some((self.cluster % tiles, self.cluster / tiles)) } else { None }
    }

    /// Whether a turn is a piece.
    #[inline(always)]
    #[must_use]
    pub fn is_piece(&self, turn: Turn) -> bool {
        self.shared.0 > 0 && turn.number >= self.whole()
    }

    /// Where the cluster's tile lies, in a grid that has a cluster for each.
    #[inline(always)]
    #[must_use]
    pub fn own(&self) -> Work {
        self.work(Turn { number: self.cluster, first: 0, stages: 0 })
    }

    /// Where a tile lies.
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

/// The tiles of a cluster of a persistent grid: every so many of the whole ones, then its piece of a shared one.
#[derive(Clone, Copy, Debug)]
pub struct Schedule {
    /// The next whole tile; one that there is not when all is done.
    next: u32,
}

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
            // K is in one part where it is in one chunk.
            let first =
                if all <= chunk { 0 } else { job.work(Turn { number, first: 0, stages: 0 }).split * chunk };
            let stages = if all - first < chunk { all - first } else { chunk };
            return Some(Turn { number, first, stages });
        }
        if number == u32::MAX {
            return None;
        }
        self.next = u32::MAX;
        let (tile, piece) = job.piece()?;
        let (first, stages) = piece_of(all, job.shared.1, piece);
        Some(Turn { number: whole + tile, first, stages })
    }
}

/// The first stage of a piece, and how many it has: as even as can be, the first pieces have one more.
#[inline(always)]
#[must_use]
pub const fn piece_of(stages: u32, pieces: u32, piece: u32) -> (u32, u32) {
    let (least, more) = (stages / pieces, stages % pieces);
    let first = piece * least + if piece < more { piece } else { more };
    (first, least + if piece < more { 1 } else { 0 })
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::collections::HashMap;
    use std::vec::Vec;

    /// A tile: its place along M and N, its matrix of a batch, its part of K.
    type Tile = (u32, u32, u32, u32);

    /// Each tile's pieces: the first stage, and how many.
    fn dealt(clusters: u32, job: Job) -> HashMap<Tile, Vec<(u32, u32)>> {
        let mut tiles: HashMap<_, Vec<_>> = HashMap::new();
        for cluster in 0..clusters {
            let job = Job { cluster, clusters, ..job };
            let mut schedule = Schedule::new(&job);
            let mut last = false;
            while let Some(turn) = schedule.take_next(&job) {
                assert!(!last, "cluster {cluster} goes on after its piece, {job:?}");
                last = job.is_piece(turn);
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
            shared: (0, 0),
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

    #[test]
    fn pieces_of_shared_tiles_make_up_all_of_k_and_differ_by_one_stage_at_most() {
        for (extents, clusters) in [((384, 512), 7), ((1536, 1536), 66), ((4095, 4097), 66), ((100, 100), 7)]
        {
            let tiles = u32::div_ceil(extents.0, 128) * u32::div_ceil(extents.1, 256);
            for (batches, stages) in [(1, 8), (3, 9), (1, 65)] {
                let rest = tiles * batches % clusters;
                for pieces in (2..=8).filter(|pieces| rest * pieces <= clusters) {
                    let job =
                        Job { batches, stages: (stages, stages), shared: (rest, pieces), ..job(extents) };
                    let dealt = dealt(clusters, job);
                    assert_eq!(dealt.len() as u32, tiles * batches, "{job:?}");
                    let shared = dealt.values().filter(|of| of.len() > 1).count() as u32;
                    assert_eq!(shared, rest, "{job:?}");
                    for (tile, of) in &dealt {
                        let mut next = 0;
                        for &(first, count) in of {
                            assert_eq!(first, next, "{tile:?} of {job:?} has {of:?}");
                            let all = of.len() as u32;
                            assert!(
                                count == stages / all || count == stages.div_ceil(all),
                                "{tile:?} of {job:?} has {of:?}"
                            );
                            next += count;
                        }
                        assert_eq!(next, stages, "{tile:?} of {job:?} has {of:?}");
                    }
                }
            }
        }
    }
}
