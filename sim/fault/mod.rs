//! What can go wrong in a launch, and how it is told.

mod kind;
mod race;
mod read;
mod threads;

pub use kind::{Access, FaultKind};
pub use race::{Race, RaceAccess, RaceSpace, RaceThreads};
pub use read::{AsyncRead, ReadWait};
pub use threads::{ThreadRange, ThreadSet, WaitPlace, WaitingThreads};

use crate::Dim3;
use std::fmt;
use std::panic::Location;
use thiserror::Error;

/// A fault of a kernel: what happened, in which thread, at which line of the kernel's source.
#[derive(Clone, Debug, Error)]
pub struct Fault {
    /// The kernel's name, as given to [`Launch`](crate::Launch).
    pub kernel: String,
    /// The block's index in the grid.
    pub block: Dim3,
    /// The thread's index in the block.
    pub thread: Dim3,
    /// The line that called the faulting intrinsic, where it is known.
    pub location: Option<&'static Location<'static>>,
    /// What happened.
    pub kind: FaultKind,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "kernel `{}`, block {}, thread {}", self.kernel, self.block, self.thread)?;
        if let Some(location) = self.location {
            write!(f, " at {}:{}", location.file(), location.line())?;
        }
        write!(f, ": {}", self.kind)
    }
}

/// Why a launch did not complete.
#[derive(Clone, Debug, Error)]
pub enum LaunchError {
    /// The launch itself is not possible; nothing ran.
    #[error("kernel `{kernel}` cannot be launched: {reason}")]
    Invalid {
        /// The kernel's name.
        kernel: String,
        /// Which limit is exceeded, with the values.
        reason: String,
    },
    /// The kernel did something wrong.
    #[error(transparent)]
    Fault(Box<Fault>),
}

impl LaunchError {
    /// The fault, where the kernel ran into one.
    pub fn fault(&self) -> Option<&Fault> {
        match self {
            Self::Fault(fault) => Some(fault),
            Self::Invalid { .. } => None,
        }
    }
}
