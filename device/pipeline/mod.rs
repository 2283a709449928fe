//! Pipelines between warps: stages of shared memory that a producer fills by TMA and consumers read, as types.
//!
//! A stage is full or empty, and two mbarriers tell which. The *full* barrier's phase ends when the producer has announced the
//! bytes of a stage (one arrival) and TMA has brought them; where warps write to the stage themselves, when each of them has, too (one arrival
//! each, [`Readers::FILLERS`]). The *empty* barrier's phase ends when every consuming warp has released the stage (one arrival each). Both sides go through the stages in a ring and count turns by one bit, the *parity* of
//! the phase that they wait for:
//!
//! ```text
//! turn            0        1        2     ...
//! consumer waits for full's phase   0 (parity 0), 1 (parity 1), 2 (parity 0), ...
//! producer waits for empty's phase -1 (parity 1), 0 (parity 0), 1 (parity 1), ...
//! ```
//!
//! An mbarrier that was just made says of parity 1 that it is over: so the producer's first turn does not wait.
//!
//! Consumers read all stages together, or each its own runs of them: then a stage's empty barrier counts the warps of those that read
//! it, and the others [skip](Consumer::skip) it.
//!
//! How many arrivals end a phase follows from the type: of `Pipeline<STAGES, Warps<8>, CLUSTER>` eight warps in each
//! of `CLUSTER` blocks release a stage. A thread that takes a role gives the pipeline for it ([`Pipeline::producer`], [`Pipeline::consumer`]), so that it
//! has no other, or two that go together ([`Pipeline::fillers`], [`Pipeline::both_sides`]).
//!
//! The stages come as values that cannot be copied. [`Producer::acquire`] gives a [`Filling`] after the wait for its release, [`Writer::acquire`] a
//! [`Writing`], which [`Writer::fill`] takes back, and
//! [`Consumer::wait`] a [`Full`] after the wait for its data, which [`Consumer::release`] takes back: a stage cannot be read
//! before it was waited for, released twice, or waited for under another number. What types do not catch (a stage that is released
//! before the wait for the product that reads it, or read by a warp that has not waited for it, bytes that were announced and do
//! not come) the simulator does, whatever the order of its threads: it faults where a copy overwrites what an asynchronous instruction
//! (`wgmma`, a bulk store) may still read, for all that the copying thread was told, and names the line of the release; and it tells
//! who waits where when nobody can go on.
//!
//! It does not follow what threads read and write themselves: a stage that lanes read by loads of their own, and that one of them
//! releases before the others have read it, is seen only where the order of a run shows it. So the lanes meet (`sync_warp`) before the
//! release of what they read that way. And on a GPU a load takes its time, and the arrival behind it may pass it: a warp that reads a stage
//! by `ldmatrix`, or by loads of its own, releases it by [`Consumer::release_read`], which waits for what was read. `wgmma` has waits of its own.
//!
//! ```
//! use moye_device::memory::SharedStorage;
//! use moye_device::pipeline::{PipelineStorage, Warps};
//! // Two mbarriers of 8 bytes for each of four stages, which eight warps release.
//! assert_eq!(PipelineStorage::<4, Warps<8>>::BYTES, 64);
//! ```

mod stage;
mod staged;

pub use stage::{Consumer, Filling, Full, Producer, Writer, Writing};
pub use staged::Staged;

use crate::arch::{fence_mbarrier_init, mbarrier_init};
use crate::memory::SharedStorage;
use crate::tiling::TilingError;
use core::marker::PhantomData;

/// Bytes of an mbarrier.
const MBARRIER: u32 = 8;

/// The mbarriers of a ring of `STAGES` stages, filled in each of `CLUSTER` blocks, and released to all of them by the warps of
/// each that read a stage, as many as `R` says.
///
/// With a `CLUSTER` of more than one, blocks of a cluster share what they load: each producer's copies go to several blocks at
/// once, so that a stage may be filled when the consumers of *all* blocks have released it.
#[derive(Debug)]
pub struct Pipeline<const STAGES: u32, R, const CLUSTER: u32 = 1> {
    barriers: Barriers<STAGES>,
    readers: PhantomData<R>,
}

/// Who reads a stage of a [`Pipeline`], and who fills it.
pub trait Readers: 'static {
    /// The warps of a block that read each stage, and release it: 1 to 31.
    const WARPS: u32;
    /// Who fills each stage of a block, 1 to 31: the thread that announces what TMA brings, and each warp that writes to it itself.
    const FILLERS: u32 = 1;
}

/// So many warps.
#[derive(Clone, Copy, Debug)]
pub struct Warps<const COUNT: u32>;

impl<const COUNT: u32> Readers for Warps<COUNT> {
    const WARPS: u32 = COUNT;
}

/// Bytes of the mbarriers of so many stages: what [`PipelineStorage`] takes.
#[must_use]
pub const fn mbarrier_bytes(stages: u32) -> u32 {
    2 * stages * MBARRIER
}

/// Where the mbarriers of `STAGES` stages lie.
#[derive(Clone, Copy, Debug)]
struct Barriers<const STAGES: u32> {
    base: u32,
}

/// What a [`Pipeline`] keeps in shared memory.
#[derive(Clone, Copy, Debug)]
pub struct PipelineStorage<const STAGES: u32, R, const CLUSTER: u32 = 1>(PhantomData<R>);

impl<const STAGES: u32, R: Readers, const CLUSTER: u32> PipelineStorage<STAGES, R, CLUSTER> {
    /// Panics where there is no such pipeline.
    const fn checked() {
        if STAGES == 0 {
            TilingError::of("Pipeline").str("STAGES is 0; a pipeline has one stage at least").raise();
        }
        if R::WARPS < 1 || R::WARPS > 31 {
            TilingError::of("Pipeline")
                .str("WARPS is ")
                .int(R::WARPS as i64)
                .str("; a stage is released by 1 to 31 warps of a block, which has 32 and one that fills it")
                .raise();
        }
        if R::FILLERS < 1 || R::FILLERS > 31 {
            TilingError::of("Pipeline")
                .str("FILLERS is ")
                .int(R::FILLERS as i64)
                .str("; a stage is filled by a thread that has TMA load, by up to 31 warps that write to it, or by both")
                .raise();
        }
        if CLUSTER < 1 || CLUSTER > 8 {
            TilingError::of("Pipeline")
                .str("CLUSTER is ")
                .int(CLUSTER as i64)
                .str("; a cluster has 1 to 8 blocks")
                .raise();
        }
    }
}

impl<const STAGES: u32, R: Readers, const CLUSTER: u32> SharedStorage
    for PipelineStorage<STAGES, R, CLUSTER>
{
    const BYTES: usize = {
        Self::checked();
        mbarrier_bytes(STAGES) as usize
    };
    const ALIGN: usize = MBARRIER as usize;

    type Tensors = Pipeline<STAGES, R, CLUSTER>;

    #[inline(always)]
    unsafe fn at(base: u32) -> Self::Tensors {
        Pipeline { barriers: Barriers { base }, readers: PhantomData }
    }
}

impl<const STAGES: u32, R: Readers, const CLUSTER: u32> Pipeline<STAGES, R, CLUSTER> {
    /// Makes the mbarriers. The contract of the whole pipeline stands here: its sides need none of their own.
    ///
    /// # Safety
    /// One thread of the block calls it, once. A barrier of the block (of the cluster, where there is one) follows, before any thread
    /// takes a side.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn init(&self) {
        const { PipelineStorage::<STAGES, R, CLUSTER>::checked() };
        let mut stage = 0;
        while stage < STAGES {
            // SAFETY: the storage's own bytes, which only its mbarriers use.
            unsafe {
                mbarrier_init(self.barriers.full(stage), const { R::FILLERS });
                mbarrier_init(self.barriers.empty(stage), const { R::WARPS * CLUSTER });
            }
            stage += 1;
        }
        fence_mbarrier_init();
    }

    /// The side that fills stages: one thread's, in each block.
    #[inline(always)]
    #[must_use]
    pub const fn producer(self) -> Producer<STAGES, CLUSTER> {
        Producer::new(self.barriers)
    }

    /// Both sides that fill stages: of warps that write to them themselves, each thread has its own writer, and one of all has TMA load, which alone uses
    /// its producer. Where there is nothing to load for it, nobody does.
    #[inline(always)]
    #[must_use]
    pub const fn fillers(self) -> (Producer<STAGES, CLUSTER>, Writer<STAGES>) {
        (Producer::new(self.barriers), Writer::new(self.barriers))
    }

    /// Both sides, for warps one thread of which fills the stages that all of them read: it alone uses its producer. A stage is filled again when
    /// all have released it, so that the thread's own warp has to do that before it [acquires](Producer::acquire) the same stage.
    #[inline(always)]
    #[must_use]
    pub const fn both_sides(self) -> (Producer<STAGES, CLUSTER>, Consumer<STAGES, CLUSTER>) {
        (Producer::new(self.barriers), Consumer::new(self.barriers))
    }

    /// The side that reads them: each thread of a consuming warp has its own, and goes through all stages, or
    /// [skips](Consumer::skip) those that others read.
    #[inline(always)]
    #[must_use]
    pub const fn consumer(self) -> Consumer<STAGES, CLUSTER> {
        Consumer::new(self.barriers)
    }
}

impl<const STAGES: u32> Barriers<STAGES> {
    /// The address of a stage's full barrier.
    #[inline(always)]
    const fn full(self, stage: u32) -> u32 {
        self.base + MBARRIER * stage
    }

    /// The address of a stage's empty barrier.
    #[inline(always)]
    const fn empty(self, stage: u32) -> u32 {
        self.base + MBARRIER * (STAGES + stage)
    }
}
