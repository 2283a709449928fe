//! The ping-pong schedule: two consuming warpgroups have a tile each, and multiply in turn.
//!
//! Warpgroups that share a tile reach its end at most a ring of stages apart, so that for much of the time that C takes nobody
//! multiplies. Here each has whole tiles: of those of the cluster, one after the other, the first warpgroup has the first, the
//! third, ..., and the second one the others. While one multiplies, the other writes its last tile, and waits for its turn:
//!
//! ```text
//! producer         stages of t0     of t1            of t2            of t3            ...
//! warpgroup 1      multiplies t0  | writes t0, waits | multiplies t2 | writes t2, waits ...
//! warpgroup 2      waits          | multiplies t1    | writes t1, ... | multiplies t3   ...
//! ```
//!
//! # How the turn goes round
//! Behind the last stage of its tile a warpgroup arrives at the *other's* named barrier and goes on. In front of the first stage of
//! a tile a warpgroup waits at its *own*. Each barrier so has 128 threads that arrive and 128 that wait. The first tile of all needs
//! no turn, and the last one's is given to nobody, so that every arrival meets its wait and no barrier is left half full. The turn is
//! given when all instructions are issued, while the last ones still run: the other's stand in line behind them.
//!
//! Turns are no mere matter of speed. A warpgroup passes over the other's stages without a look at their mbarriers, and an
//! mbarrier's parity tells apart two phases that follow each other, no more. Whoever has the turn knows that all stages in front of
//! its tile have been full.
//!
//! # Why nobody waits for ever
//! There are three waits, and all of them are for something earlier in the order of the cluster's tiles and stages:
//! - The turn for a tile is given by whoever multiplies the one before, when it has waited for the last stage of that, and before it
//!   writes: so it depends on no later turn, nor on how C is written.
//! - A stage becomes full when the producers of all blocks of the cluster have loaded it. They go through the same stages in the same
//!   order, and wait for no more than the release of what was in the same place, [`STAGES`](WgmmaConfig::STAGES) stages earlier, in all
//!   blocks.
//! - A stage is released by the one warpgroup of each block that reads it, when the next one of the tile has been waited for. A tile's last
//!   one is released when its instructions have ended and TMA has read what the warpgroup has stored before: neither depends on a stage.
//!
//! To write C a warpgroup waits for its own threads and for copies that TMA has begun. So of all that has not happened yet, the first
//! can.

use super::config::{ArgumentsOf, Sums as _, WARPGROUP, WgmmaConfig};
use super::epilogue::Writer;
use super::matmul::{complete, issue, job, steps_of_last};
use super::scale::{load_factors, scale};
use super::schedule::{Job, Schedule, Turn};
use super::sharing::Sharing;
use moye_device::arch::{arrive_barrier, sync_barrier};
use moye_device::collective::Epilogue;
use moye_device::pipeline::Consumer;

/// Of a block's named barriers, the first warpgroup's for its turn, and behind it the second one's. In front of them are the block's,
/// and one for each warpgroup's own threads.
const TURN: u32 = 3;

/// A tile of one of the two, and what is around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Own {
    /// The tile.
    turn: Turn,
    /// Stages in front of it that are the other's, since the last own tile.
    skipped: u32,
    /// Whether the other has the tile before, and gives the turn.
    follows: bool,
    /// Whether the other has a tile behind, and is given the turn.
    precedes: bool,
}

/// The tiles of one of the two: every second one of the cluster's.
#[derive(Clone, Copy, Debug)]
struct Turns {
    schedule: Schedule,
    /// Whether the next tile is the other's.
    others: bool,
}

impl Turns {
    /// The tiles of the first warpgroup, 0, or the second.
    #[inline(always)]
    fn new(consumer: u32, job: &Job) -> Self {
        Self { schedule: Schedule::new(job), others: consumer > 0 }
    }

    /// The next own tile of the same job, which shares none.
    #[inline(always)]
    fn take_next(&mut self, job: &Job) -> Option<Own> {
        let follows = self.others;
        let skipped = if follows { self.schedule.take_next(job)?.stages } else { 0 };
        self.others = true;
        let turn = self.schedule.take_next(job)?;
        Some(Own { turn, skipped, follows, precedes: self.schedule.has_whole(job) })
    }
}

/// Multiplies all stages of every second tile, and writes C.
///
/// # Safety
/// All threads of a consuming warpgroup, while those of the other one do the same; the kernel's contract.
#[inline(always)]
pub unsafe fn take_turns<G: WgmmaConfig, E: Epilogue<G::Scalar>, const CLUSTER: u32, const STAGES: u32>(
    mut consumer: Consumer<STAGES, CLUSTER>,
    writer: &Writer<G, E>,
    arguments: &ArgumentsOf<G>,
    sharing: &Sharing<G::Sum>,
) {
    const { assert!(G::CONSUMERS == 2 && STAGES > 1, "two take turns, and a stage is released behind the next") };
    let mut sums = G::Sums::ZERO;
    let mut turns = Turns::new(writer.consumer, &job::<G>(arguments, sharing));
    while let Some(own) = turns.take_next(&job::<G>(arguments, sharing)) {
        // SAFETY: the caller's contract. The other has waited for the stages that are passed over when it gives the turn, and
        // there are none where it gives none.
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
            // No boxes lie in a stage, and the last one is released already.
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
        // Parts of K of four stages, and what is left of ten.
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

    /// All jobs that are looked at: of one tile, of fewer than clusters, of odd and even numbers for each.
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

    /// The tiles as the producer loads them.
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
