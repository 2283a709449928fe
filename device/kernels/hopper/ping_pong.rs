//! The ping-pong schedule: two consumer warpgroups have a tile each, and multiply in turn.
//!
//! Cooperative warpgroups reach the end of a tile at most a ring of stages apart, so that the
//! tensor cores are idle for much of C's epilogue. Here each warpgroup has whole tiles: of the
//! cluster's sequence of tiles, the first warpgroup has the first, the third, ..., and the second
//! the others. While one multiplies, the other stores its last tile and waits for its turn:
//!
//! ```text
//! producer         stages of t0     of t1            of t2            of t3            ...
//! warpgroup 1      multiplies t0  | writes t0, waits | multiplies t2 | writes t2, waits ...
//! warpgroup 2      waits          | multiplies t1    | writes t1, ... | multiplies t3   ...
//! ```
//!
//! # How the turn goes round
//! After the last stage of its tile a warpgroup arrives at the *other's* named barrier and goes on.
//! Before the first stage of a tile a warpgroup waits at its *own*. So each barrier has 128 threads
//! that arrive and 128 that wait. The first tile needs no turn, and the last tile hands over no
//! turn, so that every arrival meets its wait and no barrier is left incomplete. The turn is handed
//! over when all instructions are issued, while the last ones still run: the other warpgroup's
//! instructions queue up after them.
//!
//! Turns are needed for correctness, too. A warpgroup skips the other's stages without a look at
//! their mbarriers, and an mbarrier's parity distinguishes only two consecutive phases. A warpgroup
//! with the turn knows that all stages before its tile have been full.
//!
//! # Why there is no deadlock
//! There are three waits, and each is for an earlier event in the order of the cluster's tiles and
//! stages:
//! - The turn for a tile is handed over by the warpgroup of the previous tile, after it has waited
//!   for that tile's last stage and before it stores. So it depends on no later turn, nor on how C
//!   is stored.
//! - A stage becomes full when the producers of all blocks of the cluster have loaded it. They load
//!   the same stages in the same order, and wait only for the release of the stage that used the
//!   same slot, [`STAGES`](WgmmaConfig::STAGES) stages earlier, in all blocks.
//! - A stage is released by the one warpgroup of each block that reads it, once it has waited for
//!   the tile's next stage. A tile's last stage is released when its instructions have completed
//!   and TMA has read the warpgroup's earlier stores: neither depends on a stage.
//!
//! To store C a warpgroup waits for its own threads and for TMA copies in flight. So the earliest
//! event that has not happened can always happen: there is no deadlock.

use super::config::{ArgumentsOf, Sums as _, WARPGROUP, WgmmaConfig};
use super::epilogue::Writer;
use super::matmul::{complete, issue, job, steps_of_last};
use super::scale::{load_factors, scale};
use super::schedule::{Job, Schedule, Turn};
use super::sharing::Sharing;
use moye_device::arch::{arrive_barrier, sync_barrier};
use moye_device::collective::Epilogue;
use moye_device::pipeline::Consumer;

/// The named barrier of the first warpgroup's turn; the second one's follows. Before them are the
/// block's and each warpgroup's own.
const TURN: u32 = 3;

/// A tile of one of the two warpgroups, and its neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Own {
    /// The tile.
    turn: Turn,
    /// The other warpgroup's stages since the last own tile.
    skipped: u32,
    /// Whether the other warpgroup has the previous tile, and hands over the turn.
    follows: bool,
    /// Whether the other warpgroup has the next tile, and receives the turn.
    precedes: bool,
}

/// The tiles of one warpgroup: every second one of the cluster's.
#[derive(Clone, Copy, Debug)]
struct Turns {
    schedule: Schedule,
    /// Whether the next tile is the other warpgroup's.
    others: bool,
}

impl Turns {
    /// The tiles of the first warpgroup, 0, or the second, 1.
    #[inline(always)]
    fn new(consumer: u32, job: &Job) -> Self {
        Self { schedule: Schedule::new(job), others: consumer > 0 }
    }

    /// The next own tile of the same job, which has no shared tiles.
    #[inline(always)]
    fn take_next(&mut self, job: &Job) -> Option<Own> {
        let follows = self.others;
        let skipped = if follows { self.schedule.take_next(job)?.stages } else { 0 };
        self.others = true;
        let turn = self.schedule.take_next(job)?;
        Some(Own { turn, skipped, follows, precedes: self.schedule.has_whole(job) })
    }
}

/// A ping-pong consumer: multiplies all stages of every second tile, and writes C.
///
/// # Safety
/// All threads of a consumer warpgroup call it, while those of the other do the same; the kernel's
/// contract.
#[inline(always)]
pub unsafe fn take_turns<G: WgmmaConfig, E: Epilogue<G::Scalar>, const CLUSTER: u32, const STAGES: u32>(
    mut consumer: Consumer<STAGES, CLUSTER>,
    writer: &Writer<G, E>,
    arguments: &ArgumentsOf<G>,
    sharing: &Sharing<G::Sum>,
) {
    const {
        assert!(
            G::CONSUMERS == 2 && STAGES > 1,
            "two warpgroups take turns, and a stage is released after the next"
        )
    };
    let mut sums = G::Sums::ZERO;
    let mut turns = Turns::new(writer.consumer, &job::<G>(arguments, sharing));
    while let Some(own) = turns.take_next(&job::<G>(arguments, sharing)) {
        // SAFETY: the caller's contract. The other warpgroup has waited for the skipped stages when
        // it hands over the turn; if it hands over none, there are no skipped stages.
        unsafe {
            consumer.skip(own.skipped);
            if own.follows {
                sync_barrier(TURN + writer.consumer, 2 * WARPGROUP);
            }
            let steps = steps_of_last::<G>(arguments, own.turn);
            let last = issue::<G, E, CLUSTER, STAGES>(
                &mut sums,
                &mut consumer,
                writer,
                None,
                own.turn.stages,
                steps,
            );
            if own.precedes {
                arrive_barrier(TURN + 1 - writer.consumer, 2 * WARPGROUP);
            }
            let part = writer.part(job::<G>(arguments, sharing).work(own.turn));
            let factors = load_factors::<G>(arguments, part, writer.thread);
            writer.make_room();
            complete::<G>(&mut sums);
            if let Some(last) = last {
                consumer.release(last);
            }
            scale::<G>(&mut sums, arguments, factors, part, writer.thread);
            // No boxes are in a stage, and the last one is already released.
            writer.write(&mut sums, arguments, part, (None, true));
        }
    }
    writer.wait_for_stores::<0>();
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::super::sharing::Cut;
    use super::*;
    use std::vec::Vec;

    fn job(rows: u32, (splits, batches): (u32, u32), clusters: u32) -> Job {
        // Splits of K with four stages, and the remainder of ten stages.
        let chunk = if splits > 1 { 4 } else { 10 };
        Job {
            cluster: 0,
            clusters,
            extents: (rows, 700),
            tile: (128, 256),
            stages: (10, chunk),
            splits,
            batches,
            cut: Cut::NONE,
        }
    }

    /// All jobs of the test: with one tile, with fewer tiles than clusters, with odd and even
    /// numbers for each.
    fn jobs() -> impl Iterator<Item = Job> {
        [1, 128, 300, 1000, 4096].into_iter().flat_map(|rows| {
            [(1, 1), (3, 1), (1, 5), (3, 2)].into_iter().flat_map(move |parts| {
                [1, 2, 3, 7, 66].into_iter().flat_map(move |clusters| {
                    (0..clusters).map(move |cluster| Job { cluster, ..job(rows, parts, clusters) })
                })
            })
        })
    }

    fn tiles_of(consumer: u32, job: &Job) -> Vec<Own> {
        let mut turns = Turns::new(consumer, job);
        let tiles = std::iter::from_fn(|| turns.take_next(job)).collect();
        assert_eq!(turns.take_next(job), None, "what is done stays done: {job:?}");
        tiles
    }

    /// The tiles in the producer's order.
    fn all_tiles(job: &Job) -> Vec<Turn> {
        let mut schedule = Schedule::new(job);
        std::iter::from_fn(|| schedule.take_next(job)).collect()
    }

    #[test]
    fn both_together_have_the_tiles_that_are_loaded_in_turn() {
        for job in jobs() {
            let both = [tiles_of(0, &job), tiles_of(1, &job)];
            let loaded = all_tiles(&job);
            assert_eq!(both[0].len() + both[1].len(), loaded.len(), "{job:?}");
            for (number, turn) in loaded.iter().enumerate() {
                assert_eq!(both[number % 2][number / 2].turn, *turn, "tile {number} of {job:?}");
            }
        }
    }

    #[test]
    fn each_finds_its_stages_where_the_producer_has_put_them() {
        for job in jobs() {
            let loaded = all_tiles(&job);
            for consumer in 0..2 {
                let mut at = 0;
                for (own, number) in tiles_of(consumer, &job).iter().zip((consumer as usize..).step_by(2)) {
                    at += own.skipped;
                    let before: u32 = loaded[..number].iter().map(|turn| turn.stages).sum();
                    assert_eq!(at, before, "tile {number} of {job:?}");
                    at += own.turn.stages;
                }
            }
        }
    }

    #[test]
    fn whoever_waits_for_the_turn_is_given_it_and_nobody_else() {
        for job in jobs() {
            let both = [tiles_of(0, &job), tiles_of(1, &job)];
            let count = both[0].len() + both[1].len();
            for number in 0..count {
                let own = both[number % 2][number / 2];
                assert_eq!(own.follows, number > 0, "tile {number} of {count} of {job:?}");
                assert_eq!(own.precedes, number + 1 < count, "tile {number} of {count} of {job:?}");
            }
        }
    }
}
