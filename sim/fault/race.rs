//! A race: two accesses to the same bytes without an order between them.

use super::Access;
use crate::Dim3;
use crate::memory::{Nearest, Place};
use std::fmt;
use std::panic::Location;

/// The memory in which a race happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RaceSpace {
    /// The shared memory of a block.
    Shared {
        /// The first byte of both accesses, from the start of that memory.
        offset: i64,
        /// The block's rank in the cluster, if it is not the block of the fault.
        rank: Option<u32>,
    },
    /// Global memory.
    Global {
        /// The first byte of both accesses.
        address: u64,
        /// The allocation that contains it.
        nearest: Option<Nearest>,
    },
}

/// The closest group that both threads of a race belong to. It decides what can order them.
///
/// A race is reported with the widest pair of threads that the launch has at one of its lines, so
/// that the suggested fix orders all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RaceThreads {
    /// Lanes of one warp.
    Warp,
    /// Threads of two warps of a block.
    Block,
    /// Threads of two blocks of a cluster.
    Cluster,
    /// Threads of two blocks of the grid.
    Grid,
    /// Threads of two launches that overlap: the second may begin before the first has ended.
    Launches,
    /// Threads of two launches of a chain that overlap: the wait is for the launch between, which
    /// has not waited for the earlier one.
    Chain,
    /// Threads of two launches, or of a launch and a copy, on different streams.
    Streams,
}

/// The earlier of the two accesses of a race, in this run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RaceAccess {
    /// The kind of access.
    pub access: Access,
    /// The kernel, if it belongs to another launch than the fault; `copy` is a stream's copy.
    pub kernel: Option<String>,
    /// The block, if it is not the block of the fault.
    pub block: Option<Dim3>,
    /// The thread.
    pub thread: Dim3,
    /// The line.
    pub location: &'static Location<'static>,
}

/// Two unordered accesses to the same bytes, at least one of them a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Race {
    /// The kind of access by the thread of the fault.
    pub access: Access,
    /// The size of its access.
    pub bytes: usize,
    /// The bytes.
    pub space: RaceSpace,
    /// The other access.
    pub other: RaceAccess,
    /// The closest group that both threads belong to.
    pub threads: RaceThreads,
    /// The widest group of threads that may race at its lines, if the launch reached a limit before
    /// all of them had run.
    pub unseen: Option<RaceThreads>,
}

impl Race {
    /// The ways to order the two accesses.
    pub fn remedy(&self) -> &'static str {
        self.remedy_of(self.threads)
    }

    /// The ways to order two such accesses of threads that share no closer group.
    pub(crate) fn remedy_of(&self, threads: RaceThreads) -> &'static str {
        match threads {
            RaceThreads::Streams => {
                return "streams are ordered by events and flags only: record an event or raise a flag after the earlier work and let the other stream wait for it, or let the host wait between the two";
            }
            RaceThreads::Chain => {
                return "the launches overlap, and a launch between them has not waited: `wait_for_prior_kernels` waits only for the previous launch, so call it in each kernel of the chain";
            }
            RaceThreads::Launches => {
                return "the launches overlap: call `wait_for_prior_kernels` before the access, in this thread or before a barrier that it waits at";
            }
            RaceThreads::Warp | RaceThreads::Block | RaceThreads::Cluster | RaceThreads::Grid => {}
        }
        let either = |access: Access| self.access == access || self.other.access == access;
        if either(Access::BulkDestination) && matches!(self.space, RaceSpace::Global { .. }) {
            return "call `bulk_wait_group` in the thread that issues the bulk store, and then order the two threads: by a barrier in a block, by `fence_gpu` and an atomic operation between blocks";
        }
        if either(Access::BulkDestination) || either(Access::StoreAsync) {
            return "a bulk copy is ordered by mbarriers: threads that use the bytes wait on the mbarrier at which the copy completes, and the thread that issues the copy waits until earlier users have released the bytes";
        }
        if either(Access::CpAsyncDestination) {
            return "call cp_async_wait in the thread that copies, then `sync_threads`; call `sync_threads` again before the next copy into these bytes";
        }
        if self.access == Access::Atomic && self.other.access == Access::Atomic {
            return "an atomic operation of block scope is not atomic for other blocks: use GPU scope";
        }
        if either(Access::Atomic) {
            return match threads {
                RaceThreads::Grid => "make both accesses atomic, or put them into separate launches",
                RaceThreads::Cluster => {
                    "make both accesses atomic, or put a barrier of the cluster between them (`sync_cluster`)"
                }
                RaceThreads::Warp => {
                    "make both accesses atomic, or put a barrier of the warp between them (`sync_warp`)"
                }
                _ => "make both accesses atomic, or put a barrier between them (`sync_threads`)",
            };
        }
        match threads {
            RaceThreads::Warp => {
                "put `sync_warp` between them: shuffles, votes and ldmatrix do not order memory accesses"
            }
            RaceThreads::Cluster => {
                "put a barrier of the cluster (`sync_cluster`) or an mbarrier between them"
            }
            RaceThreads::Grid => {
                "order the blocks by an atomic operation of GPU scope, with `fence_gpu` before it in the block that releases and after it in the block that acquires, or use separate launches"
            }
            _ => {
                "put a barrier between them at which both threads arrive: `sync_threads`, a named barrier, or an mbarrier"
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
        write!(f, ", and {} ", other.access)?;
        if !matches!(other.access, Access::CopySource | Access::CopyDestination) {
            f.write_str("by ")?;
            if let Some(block) = other.block {
                write!(f, "block {block}, ")?;
            }
            write!(f, "thread {} ", other.thread)?;
            if let Some(kernel) = &other.kernel {
                write!(f, "of kernel `{kernel}` ")?;
            }
        }
        let (file, line) = (other.location.file(), other.location.line());
        write!(f, "at {file}:{line} are not ordered\n{}", self.remedy())?;
        let Some(unseen) = self.unseen else { return Ok(()) };
        let wider = self.remedy_of(unseen);
        write!(
            f,
            "; the launch ended at a limit before all threads had run, and threads further apart may race here too, which needs more: {wider}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The remedy for a race of such threads by these accesses, in global memory or not.
    fn remedy(threads: RaceThreads, [access, second]: [Access; 2], is_global: bool) -> &'static str {
        let location = Location::caller();
        let thread = Dim3::new(0, 0, 0);
        let other = RaceAccess { access: second, kernel: None, block: None, thread, location };
        let space = match is_global {
            true => RaceSpace::Global { address: 0, nearest: None },
            false => RaceSpace::Shared { offset: 0, rank: None },
        };
        Race { access, bytes: 4, space, other, threads, unseen: None }.remedy()
    }

    #[test]
    fn the_way_out_is_one_that_orders_these_threads() {
        use Access::{Atomic, BulkDestination, Read, Write};
        use RaceThreads::{Block, Chain, Cluster, Grid, Launches, Streams, Warp};
        for accesses in [[Write, Read], [Atomic, Read], [Atomic, Atomic], [BulkDestination, Read]] {
            let between_launches = |threads| remedy(threads, accesses, true);
            assert!(between_launches(Launches).contains("`wait_for_prior_kernels`"), "{accesses:?}");
            assert!(between_launches(Chain).contains("in each kernel of the chain"), "{accesses:?}");
            assert!(between_launches(Streams).contains("events"), "{accesses:?}");
        }
        for (threads, part) in [
            (Warp, "`sync_warp`"),
            (Block, "`sync_threads`"),
            (Cluster, "`sync_cluster`"),
            (Grid, "launches"),
        ] {
            for accesses in [[Write, Read], [Atomic, Write]] {
                let said = remedy(threads, accesses, threads == Grid);
                assert!(said.contains(part), "{threads:?}, {accesses:?}: {said}");
            }
        }
        let stored = remedy(Block, [BulkDestination, Read], true);
        assert!(stored.contains("`bulk_wait_group`") && !stored.contains("mbarrier"), "{stored}");
        assert!(remedy(Block, [BulkDestination, Read], false).contains("mbarrier"), "a bulk load");
    }
}
