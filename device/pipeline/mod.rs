//! Pipelines between warps, as types: a producer fills stages of shared memory by TMA, and
//! consumers read them.
//!
//! A stage is full or empty, which two mbarriers track. The phase of the *full* barrier completes
//! when the producer has announced the bytes of a stage (one arrival) and TMA has written them; if
//! warps write to the stage too, each of them must also arrive ([`Readers::FILLERS`]). The phase of
//! the *empty* barrier completes when every consumer warp has released the stage (one arrival
//! each). Both sides step through the stages in a ring and keep one bit, the *parity* of the phase
//! for which they wait next:
//!
//! ```text
//! turn            0        1        2     ...
//! consumer waits for full's phase   0 (parity 0), 1 (parity 1), 2 (parity 0), ...
//! producer waits for empty's phase -1 (parity 1), 0 (parity 0), 1 (parity 1), ...
//! ```
//!
//! A wait for parity 1 of a new mbarrier returns at once, so the producer's first round does not
//! wait.
//!
//! Either all consumers read all stages, or each reads separate runs. Then a stage's empty barrier
//! counts only the warps that read it, and the other warps [skip](Consumer::skip) it.
//!
//! The type determines the number of arrivals: with `Pipeline<STAGES, Warps<8>, CLUSTER>` eight
//! warps in each of `CLUSTER` blocks release a stage. A thread exchanges the pipeline for one role
//! ([`Pipeline::producer`], [`Pipeline::consumer`]), or for two compatible roles
//! ([`Pipeline::fillers`], [`Pipeline::both_sides`]).
//!
//! Stages are values that cannot be copied. [`Producer::acquire`] waits for a stage's release and
//! returns a [`Filling`]. [`Writer::acquire`] returns a [`Writing`], which [`Writer::fill`]
//! consumes. [`Consumer::wait`] waits for the data and returns a [`Full`], which
//! [`Consumer::release`] consumes. So a stage cannot be read before the wait, released twice, or
//! confused with another. The simulator finds what types cannot: a stage that is released before
//! the instruction that reads it has completed, a stage for which only another warp waited,
//! announced bytes that do not arrive. It faults if a copy overwrites bytes that an asynchronous
//! instruction (`wgmma`, a bulk store) may still read, in any order of threads, and names the line
//! of the release. In a deadlock it lists what each thread waits for.
//!
//! The simulator does not track plain loads of a stage: if one lane releases it before the other
//! lanes have loaded, only an order of threads that shows it reveals the fault. So lanes
//! synchronise (`sync_warp`) before the release of a stage that they load. On a GPU, an arrival may
//! overtake a load in flight: a warp that loads a stage by `ldmatrix` or by plain loads releases it
//! by [`Consumer::release_read`], which depends on the loaded values. `wgmma` has its own waits.
//!
//! ```
//! use moye_device::memory::SharedStorage;
//! use moye_device::pipeline::{PipelineStorage, Warps};
//! // Two mbarriers of 8 bytes for each of four stages, which eight warps release.
//! assert_eq!(PipelineStorage::<4, Warps<8>>::BYTES, 64);
//! ```

mod load;
mod role;
mod stage;
mod staged;

pub use role::{ConsumerRegisters, ProducerRegisters, Role, RoleWithRegisters};
pub use stage::{Consumer, Filling, Full, Producer, Writer, Writing};
pub use staged::Staged;

use crate::arch::{fence_mbarrier_init, mbarrier_init};
use crate::memory::SharedStorage;
use crate::tiling::TilingError;
use core::marker::PhantomData;

/// Bytes of an mbarrier.
const MBARRIER: u32 = 8;

/// The mbarriers of a ring of `STAGES` stages. Each of `CLUSTER` blocks fills its stages, and the
/// `R` reading warps of every block release a stage to all blocks.
///
/// With `CLUSTER` above 1, blocks of a cluster share loads: a producer's copies are multicast, so
/// that a stage may be filled only when the consumers of *all* blocks have released it.
#[derive(Debug)]
pub struct Pipeline<const STAGES: u32, R, const CLUSTER: u32 = 1> {
    barriers: Barriers<STAGES>,
    readers: PhantomData<R>,
}

/// The number of readers and fillers of a stage of a [`Pipeline`].
pub trait Readers: 'static {
    /// The warps of a block that read and release each stage: 1 to 31.
    const WARPS: u32;
    /// The fillers of each stage of a block, 1 to 31: the thread that announces the TMA bytes, and
    /// each warp that writes to it.
    const FILLERS: u32 = 1;
}

/// `COUNT` warps.
#[derive(Clone, Copy, Debug)]
pub struct Warps<const COUNT: u32>;

impl<const COUNT: u32> Readers for Warps<COUNT> {
    const WARPS: u32 = COUNT;
}

/// Bytes of the mbarriers of `stages` stages, for [`PipelineStorage`].
#[must_use]
pub const fn mbarrier_bytes(stages: u32) -> u32 {
    2 * stages * MBARRIER
}

/// The memory of the mbarriers of `STAGES` stages.
#[derive(Clone, Copy, Debug)]
struct Barriers<const STAGES: u32> {
    base: u32,
}

/// The shared memory of a [`Pipeline`].
#[derive(Clone, Copy, Debug)]
pub struct PipelineStorage<const STAGES: u32, R, const CLUSTER: u32 = 1>(PhantomData<R>);

impl<const STAGES: u32, R: Readers, const CLUSTER: u32> PipelineStorage<STAGES, R, CLUSTER> {
    /// Panics if the parameters are invalid.
    const fn checked() {
        if STAGES == 0 {
            TilingError::of("Pipeline").str("STAGES is 0; a pipeline has at least one stage").raise();
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
    /// Initialises the mbarriers. Its contract covers the whole pipeline: the sides have none.
    ///
    /// # Safety
    /// One thread of the block calls it, once. A barrier of the block (of the cluster, if there is
    /// one) follows before any thread takes a side.
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

    /// The producer's side, for one thread of each block.
    #[inline(always)]
    #[must_use]
    pub const fn producer(self) -> Producer<STAGES, CLUSTER> {
        Producer::new(self.barriers)
    }

    /// Both filling sides, for warps that write to stages themselves: each thread has a writer, and
    /// only the thread that issues TMA copies uses its producer. If TMA has nothing to load, no
    /// thread uses it.
    #[inline(always)]
    #[must_use]
    pub const fn fillers(self) -> (Producer<STAGES, CLUSTER>, Writer<STAGES>) {
        (Producer::new(self.barriers), Writer::new(self.barriers))
    }

    /// Both sides, for warps of which one thread fills the stages that all of them read: only that
    /// thread uses its producer. A stage is refilled once all warps have released it, so the
    /// thread's own warp must release it before it [acquires](Producer::acquire) the same stage.
    #[inline(always)]
    #[must_use]
    pub const fn both_sides(self) -> (Producer<STAGES, CLUSTER>, Consumer<STAGES, CLUSTER>) {
        (Producer::new(self.barriers), Consumer::new(self.barriers))
    }

    /// The consumer's side: each thread of a consumer warp has one, and steps through all stages,
    /// or [skips](Consumer::skip) the stages that other warps read.
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
