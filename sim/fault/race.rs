//! A race: two accesses to the same bytes that nothing orders.

use super::Access;
use crate::Dim3;
use crate::memory::{Nearest, Place};
use std::fmt;
use std::panic::Location;

/// Which memory a race is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RaceSpace {
    /// The shared memory of a block.
    Shared {
        /// The first byte that both accesses touch, from the start of that memory.
        offset: i64,
        /// The block's number in the cluster, where it is not the block of the fault.
        rank: Option<u32>,
    },
    /// Global memory.
    Global {
        /// The first byte that both accesses touch.
        address: u64,
        /// The allocation that it lies in.
        nearest: Option<Nearest>,
    },
}

/// How close the two threads of a race are, which decides what can order them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RaceThreads {
    /// Lanes of one warp.
    Warp,
    /// Threads of two warps of a block.
    Block,
    /// Threads of two blocks of a cluster.
    Cluster,
    /// Threads of two blocks of the grid.
    Grid,
    /// Threads of two launches of which the second may begin before the first has ended.
    Launches,
}

/// The earlier of the two accesses of a race, in this run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RaceAccess {
    /// How it touched the memory.
    pub access: Access,
    /// The block, where it is not that of the fault.
    pub block: Option<Dim3>,
    /// The thread.
    pub thread: Dim3,
    /// The line.
    pub location: &'static Location<'static>,
}

/// Two accesses to the same bytes, at least one of which writes, that nothing orders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Race {
    /// How the thread of the fault touched the memory.
    pub access: Access,
    /// The size of its access.
    pub bytes: usize,
    /// Which bytes.
    pub space: RaceSpace,
    /// The other access.
    pub other: RaceAccess,
    /// How close the threads are.
    pub threads: RaceThreads,
}

impl Race {
    /// What would order the two accesses.
    pub fn remedy(&self) -> &'static str {
        let either = |access: Access| self.access == access || self.other.access == access;
        if either(Access::BulkDestination) || either(Access::StoreAsync) {
            return "the copy is ordered by mbarriers: whoever uses the bytes waits at the mbarrier that it arrives at, and whoever issues it waits for those that used them before";
        }
        if either(Access::CpAsyncDestination) {
            return "wait with cp_async_wait in the thread that copies, then synchronise with `sync_threads`; synchronise once more before the next copy into these bytes";
        }
        if self.access == Access::Atomic && self.other.access == Access::Atomic {
            return "an atomic operation of the block's scope is no atomic one to other blocks: use one of the GPU's scope";
        }
        if (self.access == Access::Atomic) != (self.other.access == Access::Atomic) {
            return match self.threads {
                RaceThreads::Grid => "make both accesses atomic, or order them by a launch of its own",
                _ => "make both accesses atomic, or put a barrier between them (`sync_threads`)",
            };
        }
        match self.threads {
            RaceThreads::Warp => {
                "put a barrier of the warp between them (`sync_warp`): shuffles, votes and ldmatrix order no memory"
            }
            RaceThreads::Block => {
                "put a barrier between them that both threads take part in: `sync_threads`, a named barrier, or an mbarrier"
            }
            RaceThreads::Cluster => {
                "put a barrier of the cluster (`sync_cluster`) or an mbarrier between them"
            }
            RaceThreads::Grid => {
                "blocks are ordered by an atomic operation alone, with `fence_gpu` before it in the block that releases and behind it in the one that acquires, all of the GPU's scope, or by a launch of its own"
            }
            RaceThreads::Launches => {
                "the launches overlap: call `wait_for_prior_kernels` before the access, in this thread or before a barrier"
            }
        }
    }
}

impl fmt::Display for Race {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { access, bytes, space, other, .. } = self;
        match space {
            RaceSpace::Shared { offset, rank } => {
                write!(f, "race: {access} of {bytes} bytes of shared memory, at offset {offset}")?;
                if let Some(rank) = rank {
                    write!(f, " of block {rank} of the cluster")?;
                }
            }
            RaceSpace::Global { address, nearest } => {
                write!(f, "race: {access} of {bytes} bytes of global memory, at ")?;
                match nearest {
                    Some(Nearest { label, place: Place::Crossing { offset, .. }, .. }) => {
                        write!(f, "byte {offset} of `{label}`")?;
                    }
                    _ => write!(f, "{address:#x}")?,
                }
            }
        }
        write!(f, ", and {} by ", other.access)?;
        if let Some(block) = other.block {
            write!(f, "block {block}, ")?;
        }
        let (file, line) = (other.location.file(), other.location.line());
        write!(f, "thread {} at {file}:{line} are not ordered: {}", other.thread, self.remedy())
    }
}
