//! The kinds of faults.

use super::{AsyncRead, Race, RaceAccess, ThreadSet, WaitingThreads};
use crate::Dim3;
use crate::memory::Nearest;
use std::fmt;
use std::panic::Location;
use thiserror::Error;

/// How a thread touched memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// A load.
    Read,
    /// A read-only load, `ld.global.nc`.
    ReadOnly,
    /// A store.
    Write,
    /// A read-modify-write.
    Atomic,
    /// The source of a `cp.async`.
    CpAsyncSource,
    /// The destination of a `cp.async`.
    CpAsyncDestination,
    /// The source of a bulk copy, a tensor copy included.
    BulkSource,
    /// The destination of a bulk copy, a tensor copy included.
    BulkDestination,
    /// The destination of an asynchronous store.
    StoreAsync,
    /// An operand of `wgmma` in shared memory.
    WgmmaOperand,
}

impl Access {
    /// Whether it changes what is there.
    pub(crate) const fn writes(self) -> bool {
        matches!(
            self,
            Self::Write | Self::Atomic | Self::CpAsyncDestination | Self::BulkDestination | Self::StoreAsync
        )
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "read",
            Self::ReadOnly => "read-only load",
            Self::Write => "write",
            Self::Atomic => "atomic operation",
            Self::CpAsyncSource => "cp.async read",
            Self::CpAsyncDestination => "cp.async write",
            Self::BulkSource => "bulk copy's read",
            Self::BulkDestination => "bulk copy's write",
            Self::StoreAsync => "st.async write",
            Self::WgmmaOperand => "wgmma's read",
        })
    }
}

/// What a kernel did wrong. Shared memory is told by the offset from its start, global memory by address.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FaultKind {
    /// An access to global memory that no allocation holds whole.
    #[error("{access} of {bytes} bytes of global memory at {address:#x}, {}", nearest_text(nearest.as_ref()))]
    GlobalOutOfBounds {
        /// How it was touched.
        access: Access,
        /// The access's size.
        bytes: usize,
        /// Where it starts.
        address: u64,
        /// The allocation closest to it, if there is any.
        nearest: Option<Nearest>,
    },
    /// An address of global memory that is no multiple of the access's size.
    #[error("{access} of {bytes} bytes of global memory at {address:#x}, which is not a multiple of {bytes}")]
    GlobalMisaligned {
        /// How it was touched.
        access: Access,
        /// The access's size, which is also its alignment.
        bytes: usize,
        /// The address.
        address: u64,
    },
    /// An access past either end of the block's shared memory.
    #[error(
        "{access} of {bytes} bytes of shared memory at offset {offset}, outside the {shared_bytes} bytes that the launch gave the block"
    )]
    SharedOutOfBounds {
        /// How it was touched.
        access: Access,
        /// The access's size.
        bytes: usize,
        /// From the start of the block's shared memory; negative before it.
        offset: i64,
        /// The block's shared memory in bytes.
        shared_bytes: usize,
    },
    /// A shared address that is no multiple of the access's size.
    #[error(
        "{access} of {bytes} bytes of shared memory at offset {offset}, which is not a multiple of {bytes}"
    )]
    SharedMisaligned {
        /// How it was touched.
        access: Access,
        /// The access's size, which is also its alignment.
        bytes: usize,
        /// From the start of the block's shared memory.
        offset: i64,
    },
    /// A read of shared memory of which some byte was never written.
    #[error(
        "{access} of {bytes} bytes of shared memory at offset {offset}, which no thread of the block has written"
    )]
    SharedUnwritten {
        /// How it was touched.
        access: Access,
        /// The access's size.
        bytes: usize,
        /// From the start of the block's shared memory.
        offset: i64,
    },
    /// A read of an element of a fragment that the thread has not written.
    #[error(
        "element {element} of a fragment {layout} is read, which the thread has not written: fill the fragment before its use, by a copy, a load or a product"
    )]
    RegisterUnwritten {
        /// The element's index.
        element: usize,
        /// The layout of the fragment, or of the part of it that is read.
        layout: String,
    },
    /// An access to shared memory that an asynchronous copy is still writing.
    #[error(
        "{access} of {bytes} bytes of shared memory at offset {offset} while a {what} into it is in flight: thread {issuer} issued it at {}:{} and {}",
        issued_at.file(), issued_at.line(),
        if *issuer_exited { "exited without waiting for it" } else { "has not waited for it" }
    )]
    SharedInFlight {
        /// How it was touched.
        access: Access,
        /// The access's size.
        bytes: usize,
        /// From the start of the block's shared memory.
        offset: i64,
        /// The copy: `cp.async`, a bulk one, or `st.async`.
        what: &'static str,
        /// The thread that issued the copy.
        issuer: Dim3,
        /// The line that issued it.
        issued_at: &'static Location<'static>,
        /// Whether that thread has returned, so that the copy never completes.
        issuer_exited: bool,
    },
    /// A read of shared memory that a bulk copy or an asynchronous store has brought, by a thread that did not wait for it: another
    /// did.
    #[error(
        "{access} of {bytes} bytes of shared memory at offset {offset}, written by a {what} that completes on the mbarrier at offset {mbarrier}; this thread has not waited on it, nor synchronised with a thread that has"
    )]
    SharedNotAwaited {
        /// How it was touched.
        access: Access,
        /// The access's size.
        bytes: usize,
        /// From the start of the block's shared memory.
        offset: i64,
        /// What has brought it: a bulk copy, or `st.async`.
        what: &'static str,
        /// The mbarrier at which that arrives, from the start of the block's shared memory.
        mbarrier: i64,
    },
    /// A write to shared memory that an asynchronous operation may still read: the writing thread does not know otherwise.
    #[error("{access} of {bytes} bytes of shared memory at offset {offset}, which {read}")]
    SharedBeingRead {
        /// How it was touched.
        access: Access,
        /// The access's size.
        bytes: usize,
        /// From the start of the block's shared memory.
        offset: i64,
        /// What reads it.
        read: Box<AsyncRead>,
    },
    /// An asynchronous operation on shared memory that a thread wrote, with no fence between.
    #[error(
        "{access} of shared memory at offset {offset}, which {} wrote with no fence.proxy.async since: the operation may not see it; let {}",
        writer.map_or_else(|| "another block".to_owned(), |thread| format!("thread {thread}")),
        if writer.is_some() { "who writes fence, then meet who issues the operation" } else { "who issues the operation fence, after it has waited for that block" }
    )]
    SharedUnfenced {
        /// How it was touched.
        access: Access,
        /// From the start of the block's shared memory.
        offset: i64,
        /// The thread that wrote, of the same block; `None` is one of another block.
        writer: Option<Dim3>,
    },
    /// A read-only load (`ld.global.nc`) of what was written in the same launch: its cache may have what was there before.
    #[error(
        "{access} of {bytes} bytes of global memory at {address:#x}, {}, which thread {}{} wrote in this launch at {}:{}: the read-only cache may have what was there before; load it with `Coherence::Coherent`, or in a launch of its own",
        nearest_text(nearest.as_ref()), writer.thread,
        writer.block.map_or_else(String::new, |block| format!(" of block {block}")),
        writer.location.file(), writer.location.line()
    )]
    StaleReadOnly {
        /// How it was touched.
        access: Access,
        /// The access's size.
        bytes: usize,
        /// The address.
        address: u64,
        /// The allocation that it lies in.
        nearest: Option<Nearest>,
        /// Who wrote it.
        writer: RaceAccess,
    },
    /// Two accesses to the same bytes that nothing orders.
    #[error("{0}")]
    Race(Box<Race>),
    /// An access to the shared memory of a block of the cluster that has ended.
    #[error("{access} of the shared memory of block {rank} of the cluster, which has ended")]
    PeerEnded {
        /// How it was touched.
        access: Access,
        /// The block's number in the cluster.
        rank: u32,
    },
    /// An address of a cluster's shared memory that belongs to none of its blocks.
    #[error("{access} of cluster address {address:#x}: block {rank} of a cluster of {blocks}")]
    NoSuchPeer {
        /// How it was touched.
        access: Access,
        /// The address.
        address: u32,
        /// The block's number that the address names.
        rank: u32,
        /// Blocks of the cluster.
        blocks: u32,
    },
    /// A thread returned while bulk copies that it issued still read shared memory.
    #[error(
        "the thread returned while {copies} bulk copies that it issued still read shared memory: wait for them with cp.async.bulk.wait_group.read 0"
    )]
    BulkCopiesLeft {
        /// How many.
        copies: usize,
    },
    /// The last thread of a block returned while bulk copies or asynchronous stores into its shared memory, or copies out of it to
    /// another block, were in flight.
    #[error(
        "the last thread of the block returned while {copies} {what} into or out of its shared memory were in flight, the first issued by thread {issuer} at {}:{}: wait for them at their mbarrier before",
        issued_at.file(), issued_at.line()
    )]
    BulkLoadsLeft {
        /// How many.
        copies: usize,
        /// Of what: bulk copies, `st.async`, or both.
        what: &'static str,
        /// The thread that issued the first.
        issuer: Dim3,
        /// The line that issued it.
        issued_at: &'static Location<'static>,
    },
    /// An instruction with an operand that it does not take.
    #[error("{operation}: {reason}")]
    InvalidOperand {
        /// The instruction.
        operation: &'static str,
        /// Which operand, its value, and what is allowed.
        reason: String,
    },
    /// No thread of the block can go on, and some wait at a barrier.
    #[error(
        "barrier {barrier} is not reached by all: {arrived} of {expected} threads arrived{}{}",
        waiting_text(waiting),
        exited_text(exited)
    )]
    BarrierIncomplete {
        /// The barrier that the named thread waits at.
        barrier: u32,
        /// Threads that arrived at it.
        arrived: u32,
        /// Threads that it takes.
        expected: u32,
        /// All threads that wait, by what they wait for and where.
        waiting: Vec<WaitingThreads>,
        /// The threads that returned.
        exited: ThreadSet,
    },
    /// Threads came to one barrier with different thread counts.
    #[error(
        "barrier {barrier} for {count} threads, at which others already wait for {expected} threads{}",
        waiting_text(waiting)
    )]
    BarrierMismatch {
        /// The barrier.
        barrier: u32,
        /// This thread's count.
        count: u32,
        /// The count of those that came before.
        expected: u32,
        /// All threads that wait.
        waiting: Vec<WaitingThreads>,
    },
    /// A warp-wide operation by a lane that its own mask does not name.
    #[error("{operation} with mask {mask:#010x}, which does not name the calling lane {lane}")]
    WarpSelfNotInMask {
        /// The operation.
        operation: &'static str,
        /// Its mask.
        mask: u32,
        /// The lane that called it.
        lane: u32,
    },
    /// A warp-wide operation that needs every lane of its mask, after some of them have returned.
    #[error(
        "{operation} with mask {mask:#010x} needs lanes that have exited or do not exist, {missing:#010x}"
    )]
    WarpLaneExited {
        /// The operation.
        operation: &'static str,
        /// Its mask.
        mask: u32,
        /// The lanes of the mask that are gone, as a mask.
        missing: u32,
    },
    /// Two lanes that name each other in their masks wait in different operations.
    #[error(
        "{operation} with mask {mask:#010x}, but lane {other_lane} of the mask is in {other_operation} with mask {other_mask:#010x} at {}:{}: neither can complete",
        other_location.file(), other_location.line()
    )]
    WarpMismatch {
        /// This lane's operation.
        operation: &'static str,
        /// Its mask.
        mask: u32,
        /// A lane that waits elsewhere.
        other_lane: u32,
        /// What it waits in.
        other_operation: &'static str,
        /// With which mask.
        other_mask: u32,
        /// Where.
        other_location: &'static Location<'static>,
    },
    /// No thread of the block can go on, and none waits at a barrier: lanes of a mask wait elsewhere.
    #[error(
        "{operation} with mask {mask:#010x} is not reached by lanes {missing:#010x}{}{}",
        waiting_text(waiting),
        exited_text(exited)
    )]
    WarpIncomplete {
        /// The operation.
        operation: &'static str,
        /// Its mask.
        mask: u32,
        /// The lanes of the mask that did not come, as a mask.
        missing: u32,
        /// All threads that wait.
        waiting: Vec<WaitingThreads>,
        /// The threads that returned.
        exited: ThreadSet,
    },
    /// A shuffle that reads a lane which takes no part in it.
    #[error(
        "{operation} reads lane {source_lane}, which takes no part in it (lanes {active:#010x} do): its value is undefined"
    )]
    ShuffleInactive {
        /// The operation.
        operation: &'static str,
        /// The lane that is read.
        source_lane: u32,
        /// The lanes that take part, as a mask.
        active: u32,
    },
    /// No thread of the block can go on, and what they wait for will not happen.
    #[error(
        "waits for {what}, which no thread of the block can bring about any more{}{}",
        waiting_text(waiting),
        exited_text(exited)
    )]
    WaitNeverEnds {
        /// What the named thread waits for.
        what: &'static str,
        /// All threads that wait.
        waiting: Vec<WaitingThreads>,
        /// The threads that returned.
        exited: ThreadSet,
    },
    /// The host has no memory for the thread's stack.
    #[error("no memory for the stack of the simulated thread: {error}")]
    NoStack {
        /// What the host said.
        error: String,
    },
    /// A thread used up its stack: by recursion without end, or arrays that are too large.
    #[error(
        "the simulated thread's stack of {bytes} bytes is used up, by a recursion without end or by the frames of large arrays and fragments. Without optimisation every copy of a fragment has a place of its own there: compile the kernel's crate with `opt-level = 1`, at least, in its profile, or give the threads more (Launch::stack_bytes)"
    )]
    StackOverrun {
        /// The stack's size.
        bytes: usize,
    },
    /// The kernel panicked.
    #[error("the kernel panicked: {message}")]
    Panicked {
        /// The panic's message.
        message: String,
    },
    /// The block's budget of steps is spent: its threads run on without getting anywhere.
    #[error("no progress: the block's threads made {steps} {what}{}", waiting_text(waiting))]
    NoProgress {
        /// How many.
        steps: u64,
        /// Of what, and since when.
        what: &'static str,
        /// The threads that wait while others spin.
        waiting: Vec<WaitingThreads>,
    },
}

fn nearest_text(nearest: Option<&Nearest>) -> String {
    nearest.map_or_else(|| "but nothing is allocated".to_owned(), ToString::to_string)
}

fn waiting_text(waiting: &[WaitingThreads]) -> String {
    waiting.iter().map(|group| format!("; {group}")).collect()
}

fn exited_text(exited: &ThreadSet) -> String {
    if exited.count() == 0 { String::new() } else { format!("; {exited} exited") }
}
