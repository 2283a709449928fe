//! A write that may precede the end of an asynchronous read of the same bytes.

use crate::Dim3;
use std::fmt;
use std::panic::Location;

/// The wait for an asynchronous read of shared memory to complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadWait {
    /// The warps of the warpgroup that issued it, by `wgmma_wait_group`.
    WgmmaGroup,
    /// The thread that issued it, by `bulk_wait_group_read`.
    BulkGroup,
    /// Threads of the destination block, on the mbarrier on which the copy completes.
    Mbarrier,
}

/// An asynchronous operation that may still read shared memory: the writing thread has not
/// synchronised with its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AsyncRead {
    /// The instruction.
    pub operation: &'static str,
    /// The line that issued it.
    pub location: &'static Location<'static>,
    /// The thread that issued it; for a warpgroup, its first thread.
    pub thread: Dim3,
    /// The rank in the cluster of the block that owns the memory, if another block writes.
    pub block: Option<u32>,
    /// The wait that completes it.
    pub wait: ReadWait,
    /// Whether some thread has waited for it. If so, the writing thread has not synchronised with
    /// that thread.
    pub is_complete: bool,
    /// The reader that had arrived at the mbarrier on which the writing thread last waited, with
    /// the line: it released the bytes too early.
    pub released: Option<(Dim3, &'static Location<'static>)>,
}

impl fmt::Display for AsyncRead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { operation, location, thread, .. } = self;
        write!(f, "{operation} of ")?;
        match self.wait {
            ReadWait::WgmmaGroup => write!(f, "the warpgroup of thread {thread}")?,
            ReadWait::BulkGroup => write!(f, "thread {thread}")?,
            ReadWait::Mbarrier => f.write_str("a thread")?,
        }
        if let Some(block) = self.block {
            write!(f, " of block {block} of the cluster")?;
        }
        write!(f, " at {}:{} reads, and ", location.file(), location.line())?;
        f.write_str(if self.is_complete {
            "the writing thread has not synchronised with the thread that waited for it"
        } else {
            "no thread has waited for it"
        })?;
        if let Some((thread, location)) = self.released {
            write!(f, " (thread {thread} released it at {}:{})", location.file(), location.line())?;
        }
        f.write_str(match self.wait {
            ReadWait::WgmmaGroup => "\nrelease the stage after `wgmma_wait_group`",
            ReadWait::BulkGroup => {
                "\nlet the storing thread call `bulk_wait_group_read`, then a barrier, and write after that barrier"
            }
            ReadWait::Mbarrier => "\nwrite after a wait on the mbarrier at which the copy completes",
        })
    }
}
