//! Ping-pong: two consumer warpgroups that alternate tiles.
//!
//! Cooperative warpgroups reach the end of a tile at most a ring of stages apart, so that the
//! tensor cores are idle for much of C's epilogue. Here each warpgroup computes whole tiles: the
//! first warpgroup the first, the third, ... of the worker's sequence, the second warpgroup the
//! others. While one multiplies, the other stores its last tile and waits for its turn:
//!
//! ```text
//! producer         stages of t0     of t1            of t2            of t3            ...
//! warpgroup 1      multiplies t0  | writes t0, waits | multiplies t2 | writes t2, waits ...
//! warpgroup 2      waits          | multiplies t1    | writes t1, ... | multiplies t3   ...
//! ```
//!
//! # How the turn is passed
//! After the last stage of its tile a warpgroup arrives at the *other's* named barrier and
//! continues. Before the first stage of a tile a warpgroup waits at its *own*. So 128 threads
//! arrive at each barrier and 128 wait. The first tile needs no turn, and the last tile hands over
//! no turn, so that every arrival has its wait and no barrier is left incomplete. The turn is
//! handed over when all instructions are issued, while the last ones still run: the other
//! warpgroup's instructions queue after them.
//!
//! Turns are also needed for correctness. A warpgroup skips the other's stages without testing
//! their mbarriers, and an mbarrier's parity distinguishes only two consecutive phases. A warpgroup
//! with the turn knows that all stages before its tile have been full.
//!
//! # Why there is no deadlock
//! There are three waits, and each is for an earlier event in the order of the worker's tiles and
//! stages:
//! - The turn for a tile is handed over by the warpgroup of the previous tile, after it has waited
//!   for that tile's last stage and before it stores. So it depends on no later turn, nor on how C
//!   is stored.
//! - A stage becomes full when the producers of all blocks of the cluster have loaded it. They load
//!   the same stages in the same order, and wait only for the release of the stage that used the
//!   same slot, a ring of stages earlier, in all blocks.
//! - A stage is released by the one warpgroup of each block that reads it, once it has waited for
//!   the tile's next stage. A tile's last stage is released when its instructions have completed.
//!
//! To store C a warpgroup waits for its own threads and for TMA copies in flight. So the earliest
//! event that has not happened can always happen: there is no deadlock.

use super::mainloop::{Accumulators, Mainloop, StagesOf, WARPGROUP, WarpSpecialised};
use super::scheduler::TileScheduler;
use super::tiles::{WorkTile, Worker};
use crate::atom::StaticTiledMma as _;

/// The mainloop `M` of one warpgroup, alternating between two: while one multiplies, the other
/// applies its epilogue and writes C. Cooperative warpgroups leave the tensor cores idle meanwhile,
/// but share a tile twice as large.
///
/// [`gemm_warp_specialised`](super::gemm_warp_specialised) passes the turn, by [`Turns`].
pub struct PingPong<M>(M);

/// A tile of one of the two teams of a [`PingPong`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// The previous tile, which is the other team's: it hands over the turn. `None` for the first
    /// tile.
    ///
    /// [Skip](WarpSpecialised::skip) its stages and wait for the turn before the tile is issued.
    pub before: Option<WorkTile>,
    /// The tile.
    pub tile: WorkTile,
    /// Whether the other team has the next tile: hand over the turn once the tile is issued.
    pub precedes: bool,
}

/// The tiles of one of the two teams of a [`PingPong`]: every second tile of the scheduler's.
///
/// ```
/// use moye_device::collective::{Persistent, Tiles, Turns, Worker};
///
/// let tiles = Tiles::new((3, 1, 64), (1, 1, 64), 1);
/// let worker = Worker { number: 0, count: 1, rank: 0, cluster: 1 };
/// let mut first = Turns::new(Persistent::new(tiles, worker, 1), 0);
/// let turn = first.take_next().unwrap();
/// assert_eq!((turn.before, turn.tile.m, turn.precedes), (None, 0, true));
/// // The second tile is the other team's.
/// let turn = first.take_next().unwrap();
/// assert_eq!((turn.before.unwrap().m, turn.tile.m, turn.precedes), (1, 2, false));
/// assert_eq!(first.take_next(), None);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Turns<S> {
    scheduler: S,
    /// Whether the next tile is the other team's.
    others: bool,
}

impl<S: TileScheduler> Turns<S> {
    /// The tiles of the first team, 0, or of the second, 1.
    #[inline(always)]
    #[must_use]
    pub const fn new(scheduler: S, team: u32) -> Self {
        Self { scheduler, others: team > 0 }
    }

    /// The team's next tile.
    #[inline(always)]
    pub fn take_next(&mut self) -> Option<Turn> {
        let before = if self.others { Some(self.scheduler.next_tile()?) } else { None };
        self.others = true;
        let tile = self.scheduler.next_tile()?;
        Some(Turn { before, tile, precedes: self.scheduler.clone().next_tile().is_some() })
    }

    /// The scheduler, for [`place`](TileScheduler::place) and [`fix_up`](TileScheduler::fix_up).
    #[inline(always)]
    pub const fn scheduler(&self) -> &S {
        &self.scheduler
    }
}

/// The mainloop's tiled MMA has one warpgroup, or the kernel does not compile.
const fn one_warpgroup<M: Mainloop>() {
    assert!(
        M::Mma::THREADS == WARPGROUP && M::TEAMS == 1,
        "PingPong: each of two warpgroups computes a tile, so that the tiled MMA has 128 threads"
    );
}

impl<M: WarpSpecialised> Mainloop for PingPong<M> {
    type Mma = M::Mma;
    type TileC = M::TileC;
    type Accumulator = M::Accumulator;
    type Storage = M::Storage;
    type Operands = M::Operands;

    const THREADS: u32 = {
        one_warpgroup::<M>();
        M::THREADS + WARPGROUP
    };
    const TILE: (u32, u32, u32) = M::TILE;
    const TEAMS: u32 = 2;
    const CLUSTER: u32 = M::CLUSTER;

    #[inline(always)]
    fn worker() -> Worker {
        M::worker()
    }

    #[inline(always)]
    unsafe fn start(operands: Self::Operands, stages: StagesOf<Self>, thread: u32, warpgroup: u32) -> Self {
        // SAFETY: all threads of the tiled MMA call it once, with initialised stages.
        Self(unsafe { M::start(operands, stages, thread, warpgroup) })
    }

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn issue(&mut self, tile: &WorkTile, tCrC: &mut Accumulators<Self>) {
        // SAFETY: all threads of the tiled MMA call it with the same tile.
        unsafe { self.0.issue(tile, tCrC) }
    }

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn complete(&mut self, tCrC: &mut Accumulators<Self>) {
        // SAFETY: all threads of the tiled MMA call it, after `issue`.
        unsafe { self.0.complete(tCrC) }
    }

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn release(&mut self) {
        // SAFETY: called after `complete`; nothing that was started refers to the stage.
        unsafe { self.0.release() }
    }
}

impl<M: WarpSpecialised> WarpSpecialised for PingPong<M> {
    type Producer = M::Producer;

    #[inline(always)]
    unsafe fn skip(&mut self, tile: &WorkTile) {
        // SAFETY: the other team has issued this tile's products, and a barrier separates the two.
        unsafe { self.0.skip(tile) }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::super::{Persistent, SplitK, Tiles, Workspace};
    use super::*;
    use crate::memory::GlobalMut;
    use std::vec::Vec;

    fn all_of<S: TileScheduler>(mut scheduler: S) -> Vec<WorkTile> {
        std::iter::from_fn(|| scheduler.next_tile()).collect()
    }

    fn turns_of<S: TileScheduler>(scheduler: S, team: u32) -> Vec<Turn> {
        let mut turns = Turns::new(scheduler, team);
        let own = std::iter::from_fn(|| turns.take_next()).collect();
        assert_eq!(turns.take_next(), None, "there is no tile after the last");
        own
    }

    /// Calls `check` with the tiles of each worker of several products, and of both teams: one
    /// tile, fewer tiles than workers, odd and even numbers of tiles, with and without slices of K.
    fn for_each_worker(check: impl Fn(&[WorkTile], [Vec<Turn>; 2])) {
        let workspace =
            Workspace { partials: GlobalMut::from_address(0), counters: GlobalMut::from_address(0) };
        for (m, batches) in [1, 3, 8, 32].into_iter().flat_map(|m| [(m, 1), (m, 2), (m, 5)]) {
            let tiles = Tiles { m, n: 3, k: 10, batches };
            for count in [1, 2, 3, 7, 66] {
                for number in 0..count {
                    let worker = Worker { number, count, rank: 0, cluster: 1 };
                    let whole = Persistent::new(tiles, worker, 4);
                    check(&all_of(whole), [0, 1].map(|team| turns_of(whole, team)));
                    let sliced = SplitK::new(tiles, worker, 4, 3, workspace);
                    check(&all_of(sliced), [0, 1].map(|team| turns_of(sliced, team)));
                }
            }
        }
    }

    #[test]
    fn both_teams_together_have_the_tiles_that_are_loaded_in_turn() {
        for_each_worker(|loaded, both| {
            assert_eq!(both[0].len() + both[1].len(), loaded.len());
            for (number, tile) in loaded.iter().enumerate() {
                assert_eq!(both[number % 2][number / 2].tile, *tile, "tile {number} of {loaded:?}");
            }
        });
    }

    #[test]
    fn each_team_finds_its_stages_where_the_producer_has_put_them() {
        for_each_worker(|loaded, both| {
            for (team, turns) in both.iter().enumerate() {
                let mut at = 0;
                for (turn, number) in turns.iter().zip((team..).step_by(2)) {
                    at += turn.before.map_or(0, |before| before.k_tiles());
                    let earlier: u32 = loaded[..number].iter().map(WorkTile::k_tiles).sum();
                    assert_eq!(at, earlier, "tile {number} of {loaded:?}");
                    at += turn.tile.k_tiles();
                }
            }
        });
    }

    #[test]
    fn a_team_that_waits_for_the_turn_is_given_it_and_no_other() {
        for_each_worker(|loaded, both| {
            for number in 0..loaded.len() {
                let turn = both[number % 2][number / 2];
                assert_eq!(turn.before.is_some(), number > 0, "tile {number} of {loaded:?}");
                assert_eq!(turn.precedes, number + 1 < loaded.len(), "tile {number} of {loaded:?}");
            }
        });
    }
}
