//! The two sides of a pipeline, and the stages that they hold.

use super::Barriers;
use crate::arch::{
    FULL_WARP, elect, lane_id, map_shared, mbarrier_arrive, mbarrier_arrive_cluster_relaxed,
    mbarrier_arrive_expect_tx, mbarrier_wait_parity,
};

/// Where a side is in the ring.
#[derive(Debug)]
struct Turn<const STAGES: u32> {
    stage: u32,
    /// Of the phase that is waited for next.
    parity: u32,
}

impl<const STAGES: u32> Turn<STAGES> {
    #[inline(always)]
    fn advance(&mut self) {
        self.stage += 1;
        if self.stage == STAGES {
            self.stage = 0;
            self.parity ^= 1;
        }
    }

    /// [`advance`](Self::advance) so many times.
    #[inline(always)]
    const fn skip(&mut self, stages: u32) {
        let stage = self.stage + stages;
        self.stage = stage % STAGES;
        self.parity ^= stage / STAGES % 2;
    }
}

/// The thread that fills stages.
#[derive(Debug)]
pub struct Producer<const STAGES: u32, const CLUSTER: u32> {
    barriers: Barriers<STAGES>,
    turn: Turn<STAGES>,
}

/// A stage that nobody reads, and whose bytes are announced: copies that arrive at its [`barrier`](Self::barrier) make it full.
#[derive(Debug)]
#[must_use = "the bytes of a stage are announced, and its readers wait until copies bring them to its barrier"]
pub struct Filling {
    stage: u32,
    barrier: u32,
}

impl Filling {
    /// Which of the stages it is.
    #[inline(always)]
    #[must_use]
    pub const fn index(&self) -> u32 {
        self.stage
    }

    /// The shared address of the mbarrier that the copies arrive at.
    #[inline(always)]
    #[must_use]
    pub const fn barrier(&self) -> u32 {
        self.barrier
    }
}

impl<const STAGES: u32, const CLUSTER: u32> Producer<STAGES, CLUSTER> {
    #[inline(always)]
    pub(super) const fn new(barriers: Barriers<STAGES>) -> Self {
        Self { barriers, turn: Turn { stage: 0, parity: 1 } }
    }

    /// Waits until the next stage was released, and announces `bytes`: all that will come into the stage of this block, from
    /// other blocks of the cluster too.
    ///
    /// Copies of `bytes` bytes in all arrive at the stage's barrier, or its readers wait for ever.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn acquire(&mut self, bytes: u32) -> Filling {
        let stage = self.turn.stage;
        let barrier = self.barriers.full(stage);
        // SAFETY: the pipeline's own barriers; phases are waited for in turn.
        unsafe {
            mbarrier_wait_parity(self.barriers.empty(stage), self.turn.parity);
            mbarrier_arrive_expect_tx(barrier, bytes);
        }
        self.turn.advance();
        Filling { stage, barrier }
    }

    /// Waits until every stage that was filled has been released. A block of a cluster that ends before would take away the
    /// barriers that others arrive at.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn drain(mut self) {
        let mut stage = 0;
        while stage < STAGES {
            // SAFETY: the pipeline's own barriers; phases are waited for in turn.
            unsafe { mbarrier_wait_parity(self.barriers.empty(self.turn.stage), self.turn.parity) };
            self.turn.advance();
            stage += 1;
        }
    }
}

/// A thread of a warp that writes to stages itself.
#[derive(Debug)]
pub struct Writer<const STAGES: u32> {
    barriers: Barriers<STAGES>,
    turn: Turn<STAGES>,
}

/// A stage that nobody reads. It is to be [filled](Writer::fill), or its readers wait for ever.
#[derive(Debug)]
#[must_use = "a stage that is not filled is never read"]
pub struct Writing {
    stage: u32,
}

impl Writing {
    /// Which of the stages it is.
    #[inline(always)]
    #[must_use]
    pub const fn index(&self) -> u32 {
        self.stage
    }
}

impl<const STAGES: u32> Writer<STAGES> {
    #[inline(always)]
    pub(super) const fn new(barriers: Barriers<STAGES>) -> Self {
        Self { barriers, turn: Turn { stage: 0, parity: 1 } }
    }

    /// Waits until the next stage was released.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn acquire(&mut self) -> Writing {
        let stage = self.turn.stage;
        // SAFETY: the pipeline's own barriers; phases are waited for in turn.
        unsafe { mbarrier_wait_parity(self.barriers.empty(stage), self.turn.parity) };
        self.turn.advance();
        Writing { stage }
    }

    /// Says for the warp that it has written its part of the stage.
    ///
    /// All lanes of the warp call it, each with its own stage, the same, after a `sync_warp` that follows their writes.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn fill(&self, writing: Writing) {
        if lane_id() == 0 {
            // SAFETY: the pipeline's own barrier. The arrival releases what the lane has seen: its own writes, and those that the others made
            // in front of their meeting.
            unsafe { mbarrier_arrive(self.barriers.full(writing.stage)) };
        }
    }
}

/// A thread that reads stages.
#[derive(Debug)]
pub struct Consumer<const STAGES: u32, const CLUSTER: u32> {
    barriers: Barriers<STAGES>,
    turn: Turn<STAGES>,
}

/// A stage that is full. It is to be released, or the producer waits for ever.
#[derive(Debug)]
#[must_use = "a stage that is not released is never filled again"]
pub struct Full {
    stage: u32,
}

impl Full {
    /// Which of the stages it is.
    #[inline(always)]
    #[must_use]
    pub const fn index(&self) -> u32 {
        self.stage
    }
}

impl<const STAGES: u32, const CLUSTER: u32> Consumer<STAGES, CLUSTER> {
    #[inline(always)]
    pub(super) const fn new(barriers: Barriers<STAGES>) -> Self {
        Self { barriers, turn: Turn { stage: 0, parity: 0 } }
    }

    /// Waits until the next stage is full.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn wait(&mut self) -> Full {
        let stage = self.turn.stage;
        // SAFETY: the pipeline's own barriers; phases are waited for in turn.
        unsafe { mbarrier_wait_parity(self.barriers.full(stage), self.turn.parity) };
        self.turn.advance();
        Full { stage }
    }

    /// Passes over the next `stages` stages, which other warps wait for and release: where consumers take turns, each goes through the
    /// ring in steps of its own. At most 2^32 - `STAGES` at a time.
    ///
    /// # Safety
    /// Before this thread [waits](Self::wait) again, others have waited for all that it passed over, and something that orders threads
    /// is in between (a barrier). A parity tells a phase from the next one alone: without that order the wait may take the
    /// phase two turns ago for its own, and end at once.
    #[inline(always)]
    pub const unsafe fn skip(&mut self, stages: u32) {
        self.turn.skip(stages);
    }

    /// Says for the warp that it reads the stage no more: what its instructions read of it, they have read.
    ///
    /// All lanes of the warp call it, each with its own stage, the same.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn release(&self, full: Full) {
        // SAFETY: the pipeline's own barrier, by all lanes.
        unsafe { self.arrive(self.barriers.empty(full.stage)) };
    }

    /// [`release`](Self::release) for a warp that reads the stage itself, by instructions of the whole warp (`ldmatrix`) or, its lanes having met, by loads of each lane: `read` is something that
    /// is made of every register that was read last. An arrival may pass a read that is on its way, so that the stage is overwritten before
    /// it is read; this one needs `read` for its address, of which it takes the bits of `zero`.
    ///
    /// # Safety
    /// As [`release`](Self::release), all lanes together. `zero` is 0, and no compiler is to know it: a number that the kernel was given.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn release_read(&self, full: Full, read: u32, zero: u32) {
        let barrier = self.barriers.empty(full.stage) + (read & zero);
        // SAFETY: the caller's contract: the address is the barrier's.
        unsafe {
            if CLUSTER > 1 {
                self.arrive(barrier);
            } else if elect(FULL_WARP) {
                // Not lane 0: its number is read anew each time, and waited for.
                mbarrier_arrive(barrier);
            }
        }
    }

    /// Arrives at a stage's empty barrier for the warp.
    ///
    /// # Safety
    /// As [`release`](Self::release).
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn arrive(&self, barrier: u32) {
        // Relaxed: nobody reads what this warp wrote to the stage. Where it wrote there, it has seen it read by what reads it, behind a
        // fence between its writes and those of TMA, so that no write of its own comes behind the copy that fills the stage anew.
        // One lane for each block that may fill it.
        let lane = lane_id();
        if lane < CLUSTER {
            // SAFETY: the barriers of this block and, at the same place, of the others, which do not end before.
            unsafe {
                if CLUSTER == 1 {
                    mbarrier_arrive(barrier);
                } else {
                    mbarrier_arrive_cluster_relaxed(map_shared(barrier, lane));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Turn;

    /// What is skipped at once is skipped one by one, from each place of the ring on.
    fn skips_as_it_advances<const STAGES: u32>() {
        for parity in 0..2 {
            for stage in 0..STAGES {
                let mut one_by_one = Turn::<STAGES> { stage, parity };
                for count in 0..5 * STAGES {
                    let mut at_once = Turn::<STAGES> { stage, parity };
                    at_once.skip(count);
                    assert_eq!(
                        (at_once.stage, at_once.parity),
                        (one_by_one.stage, one_by_one.parity),
                        "{count} of {STAGES} from stage {stage} and parity {parity} on"
                    );
                    one_by_one.advance();
                }
            }
        }
    }

    #[test]
    fn skipping_is_advancing_as_often() {
        skips_as_it_advances::<1>();
        skips_as_it_advances::<2>();
        skips_as_it_advances::<4>();
        skips_as_it_advances::<5>();
        skips_as_it_advances::<6>();
    }
}
