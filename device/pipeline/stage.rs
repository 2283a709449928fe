//! The two sides of a pipeline, and their stages.

use super::Barriers;
use crate::arch::{
    FULL_WARP, elect, lane_id, map_shared, mbarrier_arrive, mbarrier_arrive_cluster_relaxed,
    mbarrier_arrive_expect_tx, mbarrier_wait_parity, sync_warp,
};

/// The position of a side in the ring.
#[derive(Debug)]
struct Turn<const STAGES: u32> {
    stage: u32,
    /// The parity of the next wait.
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

    /// Calls [`advance`](Self::advance) `stages` times.
    #[inline(always)]
    const fn skip(&mut self, stages: u32) {
        let stage = self.stage + stages;
        self.stage = stage % STAGES;
        self.parity ^= stage / STAGES % 2;
    }
}

/// The producer: the thread that fills stages.
#[derive(Debug)]
pub struct Producer<const STAGES: u32, const CLUSTER: u32> {
    barriers: Barriers<STAGES>,
    turn: Turn<STAGES>,
}

/// An empty stage, whose bytes are announced: copies that complete on its
/// [`barrier`](Self::barrier) make it full.
#[derive(Debug)]
#[must_use = "the bytes of a stage are announced, and its readers wait until copies bring them to its barrier"]
pub struct Filling {
    stage: u32,
    barrier: u32,
}

impl Filling {
    /// The index of the stage.
    #[inline(always)]
    #[must_use]
    pub const fn index(&self) -> u32 {
        self.stage
    }

    /// The shared address of the mbarrier on which the copies complete.
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

    /// Waits until the next stage is released, and announces `bytes`: all bytes that will arrive in
    /// this block's stage, including those from other blocks of the cluster.
    ///
    /// Copies of `bytes` bytes in all must complete on the stage's barrier, or its readers wait
    /// forever.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn acquire(&mut self, bytes: u32) -> Filling {
        let stage = self.turn.stage;
        let barrier = self.barriers.full(stage);
        // SAFETY: the pipeline's own barriers; phases are waited for in order.
        unsafe {
            mbarrier_wait_parity(self.barriers.empty(stage), self.turn.parity);
            mbarrier_arrive_expect_tx(barrier, bytes);
        }
        self.turn.advance();
        Filling { stage, barrier }
    }

    /// [`acquire`](Self::acquire) by a whole warp, whose lanes divide the copies of a stage: each
    /// lane has a producer of the pipeline, and all call this together. The bytes of all lanes'
    /// copies are announced once.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn acquire_by_warp(&mut self, bytes: u32) -> Filling {
        let stage = self.turn.stage;
        let barrier = self.barriers.full(stage);
        // SAFETY: the pipeline's own barriers; phases are waited for in order.
        unsafe {
            mbarrier_wait_parity(self.barriers.empty(stage), self.turn.parity);
            if lane_id() == 0 {
                mbarrier_arrive_expect_tx(barrier, bytes);
            }
        }
        // The bytes are announced before any lane's copy completes.
        sync_warp(FULL_WARP);
        self.turn.advance();
        Filling { stage, barrier }
    }

    /// Waits until every filled stage has been released. If a block of a cluster exited earlier,
    /// the barriers at which other blocks arrive would be gone.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn drain(mut self) {
        let mut stage = 0;
        while stage < STAGES {
            // SAFETY: the pipeline's own barriers; phases are waited for in order.
            unsafe { mbarrier_wait_parity(self.barriers.empty(self.turn.stage), self.turn.parity) };
            self.turn.advance();
            stage += 1;
        }
    }
}

/// A thread of a warp that writes to stages.
#[derive(Debug)]
pub struct Writer<const STAGES: u32> {
    barriers: Barriers<STAGES>,
    turn: Turn<STAGES>,
}

/// An empty stage. It must be [filled](Writer::fill), or its readers wait forever.
#[derive(Debug)]
#[must_use = "a stage that is not filled is never read"]
pub struct Writing {
    stage: u32,
}

impl Writing {
    /// The index of the stage.
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

    /// Waits until the next stage is released.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn acquire(&mut self) -> Writing {
        let stage = self.turn.stage;
        // SAFETY: the pipeline's own barriers; phases are waited for in order.
        unsafe { mbarrier_wait_parity(self.barriers.empty(stage), self.turn.parity) };
        self.turn.advance();
        Writing { stage }
    }

    /// Signals that the warp has written its part of the stage.
    ///
    /// All lanes of the warp call it, each with its value of the same stage, after a `sync_warp`
    /// that follows their writes.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn fill(&self, writing: Writing) {
        if lane_id() == 0 {
            // SAFETY: the pipeline's own barrier. The arrival releases the lane's writes and, since
            // `sync_warp`, those of the other lanes.
            unsafe { mbarrier_arrive(self.barriers.full(writing.stage)) };
        }
    }
}

/// A consumer: a thread that reads stages.
#[derive(Debug)]
pub struct Consumer<const STAGES: u32, const CLUSTER: u32> {
    barriers: Barriers<STAGES>,
    turn: Turn<STAGES>,
}

/// A full stage. It must be released, or the producer waits forever.
#[derive(Debug)]
#[must_use = "a stage that is not released is never filled again"]
pub struct Full {
    stage: u32,
}

impl Full {
    /// The index of the stage.
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
        // SAFETY: the pipeline's own barriers; phases are waited for in order.
        unsafe { mbarrier_wait_parity(self.barriers.full(stage), self.turn.parity) };
        self.turn.advance();
        Full { stage }
    }

    /// Skips the next `stages` stages, for which other warps wait and which they release: consumers
    /// that alternate step through the ring separately. At most 2^32 - `STAGES` at a time.
    ///
    /// # Safety
    /// Before this thread's next [`wait`](Self::wait), other threads must have waited for all
    /// skipped stages, and then synchronised with this thread (a barrier). A parity distinguishes a
    /// phase only from the next one: otherwise the wait may return for the phase two rounds ago.
    #[inline(always)]
    pub const unsafe fn skip(&mut self, stages: u32) {
        self.turn.skip(stages);
    }

    /// Signals that the warp has read the stage: its instructions have completed their reads.
    ///
    /// All lanes of the warp call it, each with its value of the same stage.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn release(&self, full: Full) {
        // SAFETY: the pipeline's own barrier, by all lanes.
        unsafe { self.arrive(self.barriers.empty(full.stage)) };
    }

    /// [`release`](Self::release) for a warp that loads the stage into registers, by `ldmatrix` or,
    /// after `sync_warp`, by plain loads. `read` is a value that depends on every register that was
    /// loaded last. An arrival may overtake a load in flight, so that the stage is overwritten
    /// before it is read; the address of this arrival depends on `read`, masked by `zero`.
    ///
    /// # Safety
    /// Same contract as [`release`](Self::release), all lanes together. `zero` is 0, but the
    /// compiler must not know it: pass a parameter of the kernel.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn release_read(&self, full: Full, read: u32, zero: u32) {
        let barrier = self.barriers.empty(full.stage) + (read & zero);
        // SAFETY: `zero` is 0, so the address is the barrier's.
        unsafe {
            if CLUSTER > 1 {
                self.arrive(barrier);
            } else if elect(FULL_WARP) {
                // Not lane 0: ptxas would re-read the lane index each time, with a wait.
                mbarrier_arrive(barrier);
            }
        }
    }

    /// Arrives at a stage's empty barrier for the warp.
    ///
    /// # Safety
    /// Same contract as [`release`](Self::release).
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn arrive(&self, barrier: u32) {
        // Relaxed: no thread reads what this warp wrote to the stage. If it wrote there, it has
        // seen the readers finish, after a fence between its writes and TMA's, so that none of its
        // writes can follow the copy that refills the stage. One lane arrives for each block that
        // may fill the stage.
        let lane = lane_id();
        if lane < CLUSTER {
            // SAFETY: the barriers of this block and, at the same offset, of the other blocks,
            // which have not exited.
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

    /// Skipping several stages at once equals skipping them one by one, from each position in the
    /// ring.
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
