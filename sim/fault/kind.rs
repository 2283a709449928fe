//! The kinds of faults.

use super::{AsyncRead, Race, RaceAccess, ThreadSet, WaitingThreads};
use crate::Dim3;
use crate::memory::Nearest;
use std::fmt;
use std::panic::Location;
use thiserror::Error;

/// The kind of a memory access.
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
    /// The source of a stream's copy.
    CopySource,
    /// The destination of a stream's copy.
    CopyDestination,
}

impl Access {
    /// Whether it changes the memory.
    pub(crate) const fn writes(self) -> bool {
        matches!(
            self,
            Self::Write
                | Self::Atomic
                | Self::CpAsyncDestination
                | Self::BulkDestination
                | Self::StoreAsync
                | Self::CopyDestination
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
            Self::CopySource => "copy's read",
            Self::CopyDestination => "copy's write",
        })
    }
}

/// The kinds of faults of a kernel. Locations in shared memory are offsets from its start,
/// locations in global memory are addresses.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FaultKind {
    /// An access to global memory that is not completely inside one allocation.
    #[error("{access} of {bytes} bytes of global memory at {address:#x}, {}", nearest_text(nearest.as_ref()))]
    GlobalOutOfBounds {
        /// The kind of access.
        access: Access,
        /// The access's size.
        bytes: usize,
        /// Its address.
        address: u64,
        /// The closest allocation, if there is any.
        nearest: Option<Nearest>,
    },
    /// An address of global memory that is not a multiple of the access's size.
    #[error("{access} of {bytes} bytes of global memory at {address:#x}, which is not a multiple of {bytes}")]
    GlobalMisaligned {
        /// The kind of access.
        access: Access,
        /// The access's size, which is also its alignment.
        bytes: usize,
        /// The address.
        address: u64,
    },
    /// A wait for a flag that no stream has raised.
    #[error(
        "a wait for {value} in the flag at {address:#x}, which holds {found}: no stream has raised it\nissue the work that raises it before the wait, as the simulator runs all work when it is issued"
    )]
    FlagNotRaised {
        /// The flag.
        address: u64,
        /// Its value.
        found: u32,
        /// The value that the wait expects.
        value: u32,
    },
    /// An access past either end of the block's shared memory.
    #[error(
        "{access} of {bytes} bytes of shared memory at offset {offset}, outside the {shared_bytes} bytes that the launch gave the block"
    )]
    SharedOutOfBounds {
        /// The kind of access.
        access: Access,
        /// The access's size.
        bytes: usize,
        /// The offset from the start of the block's shared memory; negative before it.
        offset: i64,
        /// The block's shared memory in bytes.
        shared_bytes: usize,
    },
    /// A shared address that is not a multiple of the access's size.
    #[error(
        "{access} of {bytes} bytes of shared memory at offset {offset}, which is not a multiple of {bytes}"
    )]
    SharedMisaligned {
        /// The kind of access.
        access: Access,
        /// The access's size, which is also its alignment.
        bytes: usize,
        /// The offset from the start of the block's shared memory.
        offset: i64,
    },
    /// A read of shared memory in which at least one byte was never written.
    #[error(
        "{access} of {bytes} bytes of shared memory at offset {offset}, which no thread of the block has written"
    )]
    SharedUnwritten {
        /// The kind of access.
        access: Access,
        /// The access's size.
        bytes: usize,
        /// The offset from the start of the block's shared memory.
        offset: i64,
    },
    /// A read of an element of a fragment that the thread has not initialised.
    #[error(
        "element {element} of a fragment {layout} is read before the thread has written it\ninitialise the fragment with a copy, a load, a fill or a product"
    )]
    RegisterUnwritten {
        /// The element's index.
        element: usize,
        /// The layout of the fragment, or of the slice that is read.
        layout: String,
    },
    /// An access to shared memory that an asynchronous copy is still writing.
    #[error(
        "{access} of {bytes} bytes of shared memory at offset {offset} while a {what} into it is in flight: thread {issuer} issued it at {}:{} and {}\n{}",
        issued_at.file(), issued_at.line(),
        if *issuer_exited { "exited without waiting for it" } else { "has not waited for it" },
        if *what == "cp.async" {
            "call `cp_async_commit` and `cp_async_wait` in the thread that copies, then `sync_threads`, before the access"
        } else {
            "wait on the mbarrier at which it completes before the access"
        }
    )]
    SharedInFlight {
        /// The kind of access.
        access: Access,
        /// The access's size.
        bytes: usize,
        /// The offset from the start of the block's shared memory.
        offset: i64,
        /// The copy: `cp.async`, a bulk copy, or `st.async`.
        what: &'static str,
        /// The thread that issued the copy.
        issuer: Dim3,
        /// The line that issued it.
        issued_at: &'static Location<'static>,
        /// Whether that thread has exited, so that the copy never completes.
        issuer_exited: bool,
    },
    /// A read of shared memory that a bulk copy or an asynchronous store has written, by a thread
    /// that has not waited on the mbarrier itself; another thread has.
    #[error(
        "{access} of {bytes} bytes of shared memory at offset {offset}, written by a {what} that completes on the mbarrier at offset {mbarrier}; this thread has not waited on it, nor synchronised with a thread that has\nwait on that mbarrier in this thread, or in a thread that it meets at a barrier before the access"
    )]
    SharedNotAwaited {
        /// The kind of access.
        access: Access,
        /// The access's size.
        bytes: usize,
        /// The offset from the start of the block's shared memory.
        offset: i64,
        /// The writer: a bulk copy, or `st.async`.
        what: &'static str,
        /// The mbarrier on which the writer completes, in bytes from the start of the block's
        /// shared memory.
        mbarrier: i64,
    },
    /// A write to shared memory that an asynchronous operation may still read: the writing thread
    /// has not synchronised with the end of that read.
    #[error("{access} of {bytes} bytes of shared memory at offset {offset}, which {read}")]
    SharedBeingRead {
        /// The kind of access.
        access: Access,
        /// The access's size.
        bytes: usize,
        /// The offset from the start of the block's shared memory.
        offset: i64,
        /// The operation that reads it.
        read: Box<AsyncRead>,
    },
    /// An asynchronous operation on shared memory that a thread wrote, without a proxy fence
    /// between them.
    #[error(
        "{access} of shared memory at offset {offset}, which {} wrote with no fence.proxy.async since, so the operation may not see it\n{}",
        writer.map_or_else(|| "another block".to_owned(), |thread| format!("thread {thread}")),
        if writer.is_some() { "call `fence_proxy_async` in the writing thread, then synchronise it with the thread that issues the operation" } else { "synchronise the thread that issues the operation with that block, then call `fence_proxy_async` in it" }
    )]
    SharedUnfenced {
        /// The kind of access.
        access: Access,
        /// The offset from the start of the block's shared memory.
        offset: i64,
        /// The thread that wrote, if it is in the same block; otherwise `None`.
        writer: Option<Dim3>,
    },
    /// An asynchronous read of global memory that threads wrote in the same launch, without a fence
    /// between.
    #[error(
        "{access} of {bytes} bytes of global memory at {address:#x}, {}, which thread {}{} wrote in this launch at {}:{} with no fence.proxy.async since, so the copy may not see it\ncall `fence_proxy_async_global` after the write, and order the copy after that fence",
        nearest_text(nearest.as_ref()), writer.thread,
        writer.block.map_or_else(String::new, |block| format!(" of block {block}")),
        writer.location.file(), writer.location.line()
    )]
    GlobalUnfenced {
        /// The kind of access.
        access: Access,
        /// The access's size.
        bytes: usize,
        /// The first byte that was not fenced.
        address: u64,
        /// The allocation that contains it.
        nearest: Option<Nearest>,
        /// The write.
        writer: RaceAccess,
    },
    /// A read-only load (`ld.global.nc`) of bytes that were written in the same launch: its cache
    /// may hold the old bytes.
    #[error(
        "{access} of {bytes} bytes of global memory at {address:#x}, {}, which thread {}{} wrote in this launch at {}:{}: the read-only cache may hold the old bytes\nload with `Coherence::Coherent`, or in a separate launch",
        nearest_text(nearest.as_ref()), writer.thread,
        writer.block.map_or_else(String::new, |block| format!(" of block {block}")),
        writer.location.file(), writer.location.line()
    )]
    StaleReadOnly {
        /// The kind of access.
        access: Access,
        /// The access's size.
        bytes: usize,
        /// The address.
        address: u64,
        /// The allocation that contains it.
        nearest: Option<Nearest>,
        /// The thread that wrote it.
        writer: RaceAccess,
    },
    /// Two unordered accesses to the same bytes.
    #[error("{0}")]
    Race(Box<Race>),
    /// An access to the shared memory of a block of the cluster that has exited.
    #[error(
        "{access} of the shared memory of block {rank} of the cluster, which has exited\nlet that block wait at `sync_cluster` before it exits"
    )]
    PeerEnded {
        /// The kind of access.
        access: Access,
        /// The block's rank in the cluster.
        rank: u32,
    },
    /// An address of a cluster's shared memory that belongs to none of its blocks.
    #[error(
        "{access} of cluster address {address:#x}, which is in block {rank}: the cluster has {blocks} blocks"
    )]
    NoSuchPeer {
        /// The kind of access.
        access: Access,
        /// The address.
        address: u32,
        /// The block rank in the address.
        rank: u32,
        /// The cluster's blocks.
        blocks: u32,
    },
    /// A thread exited while bulk copies that it issued still read shared memory.
    #[error(
        "the thread exited while {copies} bulk copies that it issued still read shared memory\nwait for them by `bulk_wait_group_read` (cp.async.bulk.wait_group.read 0)"
    )]
    BulkCopiesLeft {
        /// The number of copies.
        copies: usize,
    },
    /// The last thread of a block exited while asynchronous operations on its shared memory were in
    /// flight: bulk copies or asynchronous stores into it, or copies from it to another block.
    #[error(
        "the last thread of the block exited while {copies} {what} into or out of its shared memory were in flight, the first issued by thread {issuer} at {}:{}\nwait on their mbarrier before the last thread exits",
        issued_at.file(), issued_at.line()
    )]
    BulkLoadsLeft {
        /// The number of operations.
        copies: usize,
        /// Their kind: bulk copies, `st.async`, or both.
        what: &'static str,
        /// The thread that issued the first.
        issuer: Dim3,
        /// The line that issued it.
        issued_at: &'static Location<'static>,
    },
    /// An instruction with an operand value that it does not accept.
    #[error("{operation}: {reason}")]
    InvalidOperand {
        /// The instruction.
        operation: &'static str,
        /// The operand, its value, and the permitted values.
        reason: String,
    },
    /// Deadlock at a barrier: no thread of the block can continue, and some wait at a barrier.
    #[error(
        "barrier {barrier} is incomplete: {arrived} of {expected} threads arrived{}{}",
        waiting_text(waiting),
        exited_text(exited)
    )]
    BarrierIncomplete {
        /// The barrier at which the named thread waits.
        barrier: u32,
        /// Threads that arrived at it.
        arrived: u32,
        /// Threads that the barrier expects.
        expected: u32,
        /// All waiting threads, by the object of their wait and their line.
        waiting: Vec<WaitingThreads>,
        /// The threads that have exited.
        exited: ThreadSet,
    },
    /// Threads arrived at one barrier with different thread counts.
    #[error(
        "barrier {barrier} is used with {count} threads, but other threads wait at it with {expected} threads{}",
        waiting_text(waiting)
    )]
    BarrierMismatch {
        /// The barrier.
        barrier: u32,
        /// This thread's count.
        count: u32,
        /// The count of the threads that arrived before.
        expected: u32,
        /// All threads that wait.
        waiting: Vec<WaitingThreads>,
    },
    /// A warp-wide operation by a lane that its own mask does not include.
    #[error("{operation} with mask {mask:#010x}, which does not include the calling lane {lane}")]
    WarpSelfNotInMask {
        /// The operation.
        operation: &'static str,
        /// Its mask.
        mask: u32,
        /// The lane that called it.
        lane: u32,
    },
    /// A warp-wide operation that needs every lane of its mask, after some of them have exited.
    #[error(
        "{operation} with mask {mask:#010x} needs lanes that have exited or do not exist, {missing:#010x}"
    )]
    WarpLaneExited {
        /// The operation.
        operation: &'static str,
        /// Its mask.
        mask: u32,
        /// The lanes of the mask that have exited, as a mask.
        missing: u32,
    },
    /// Two lanes include each other in their masks but wait in different operations.
    #[error(
        "{operation} with mask {mask:#010x}, but lane {other_lane} of the mask is in {other_operation} with mask {other_mask:#010x} at {}:{}: neither can complete",
        other_location.file(), other_location.line()
    )]
    WarpMismatch {
        /// This lane's operation.
        operation: &'static str,
        /// Its mask.
        mask: u32,
        /// A lane of the mask that waits in another operation.
        other_lane: u32,
        /// The operation in which it waits.
        other_operation: &'static str,
        /// The mask of that operation.
        other_mask: u32,
        /// The line of that operation.
        other_location: &'static Location<'static>,
    },
    /// Deadlock in a warp: no thread of the block can continue, none waits at a barrier, and lanes
    /// of a mask wait elsewhere.
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
        /// The lanes of the mask that have not arrived, as a mask.
        missing: u32,
        /// All threads that wait.
        waiting: Vec<WaitingThreads>,
        /// The threads that have exited.
        exited: ThreadSet,
    },
    /// A shuffle that reads a lane outside its mask.
    #[error(
        "{operation} reads lane {source_lane}, which is not in the mask of active lanes {active:#010x}: its value is undefined"
    )]
    ShuffleInactive {
        /// The operation.
        operation: &'static str,
        /// The lane that is read.
        source_lane: u32,
        /// The lanes of the mask, as a mask.
        active: u32,
    },
    /// Deadlock: no thread of the block can continue, and what they wait for cannot happen.
    #[error(
        "waits for {what}, which no thread of the block can make happen any more{}{}",
        waiting_text(waiting),
        exited_text(exited)
    )]
    WaitNeverEnds {
        /// What the named thread waits for.
        what: &'static str,
        /// All threads that wait.
        waiting: Vec<WaitingThreads>,
        /// The threads that have exited.
        exited: ThreadSet,
    },
    /// The host has no memory for a thread's stack.
    #[error("no memory for the stack of the simulated thread: {error}")]
    NoStack {
        /// The host's error.
        error: String,
    },
    /// Stack overflow of a simulated thread: by unbounded recursion, or by arrays that are too
    /// large.
    #[error(
        "the simulated thread's stack of {bytes} bytes overflowed, by unbounded recursion or by large arrays and fragments\ncompile the kernel's crate with `opt-level = 1` or higher, as without optimisation every copy of a fragment has its own stack slot; or set the environment variable MOYE_SIM_STACK to more bytes"
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
    /// The block has exhausted its budget of steps: its threads run but make no progress.
    #[error("no progress: the block's threads made {steps} {what}{}", waiting_text(waiting))]
    NoProgress {
        /// The number of steps.
        steps: u64,
        /// The kind of steps, and since when they are counted.
        what: &'static str,
        /// The threads that wait while others spin.
        waiting: Vec<WaitingThreads>,
    },
}

fn nearest_text(nearest: Option<&Nearest>) -> String {
    nearest.map_or_else(|| "and no global memory is allocated".to_owned(), ToString::to_string)
}

fn waiting_text(waiting: &[WaitingThreads]) -> String {
    waiting.iter().map(|group| format!("; {group}")).collect()
}

fn exited_text(exited: &ThreadSet) -> String {
    if exited.count() == 0 { String::new() } else { format!("; {exited} exited") }
}
