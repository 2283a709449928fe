//! An asynchronous read that a write came too early for.

use crate::Dim3;
use std::fmt;
use std::panic::Location;

/// How one waits for an asynchronous read of shared memory to be over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadWait {
    /// The warps of the warpgroup that issued it, by `wgmma_wait_group`.
    WgmmaGroup,
    /// The thread that issued it, by `bulk_wait_group_read`.
    BulkGroup,
    /// Threads of the block that it copies to, at the mbarrier that it arrives at.
    Mbarrier,
}

/// An asynchronous operation that reads shared memory, and may still do so for all that the thread knows which writes there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AsyncRead {
    /// The instruction.
    pub operation: &'static str,
    /// The line that issued it.
    pub location: &'static Location<'static>,
    /// The thread that issued it; of a warpgroup the first.
    pub thread: Dim3,
    /// The block whose memory it is, by its number in the cluster, where another block writes.
    pub block: Option<u32>,
    /// How one waits for it.
    pub wait: ReadWait,
    /// Whether somebody has waited for it by now: only not so that the writing thread would know.
    pub is_complete: bool,
    /// Which of those who read had arrived at the mbarrier that the writing thread waited at last, and at which line: the release
    /// that came too early.
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
            "the wait for it did not come before what the writing thread has waited for"
        } else {
            "nobody has waited for it"
        })?;
        if let Some((thread, location)) = self.released {
            write!(f, " (thread {thread} released it at {}:{})", location.file(), location.line())?;
        }
        f.write_str(match self.wait {
            ReadWait::WgmmaGroup => ": release the stage behind wgmma_wait_group",
            ReadWait::BulkGroup => {
                ": write behind bulk_wait_group_read of the thread that stores, and a barrier with it"
            }
            ReadWait::Mbarrier => ": write behind a wait at the mbarrier that the copy arrives at",
        })
    }
}
