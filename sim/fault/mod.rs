//! The ways in which a launch can fail, and their messages.

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
    /// The line that called the faulting intrinsic, if known.
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

/// An error of a launch that did not complete. Its `Debug` form is its message, which is what
/// `unwrap` and a `main` that returns it print.
#[derive(Clone, Error)]
pub enum LaunchError {
    /// The launch is not possible; nothing ran.
    #[error("kernel `{kernel}` cannot be launched: {reason}")]
    Invalid {
        /// The kernel's name.
        kernel: String,
        /// The exceeded limit, with the values.
        reason: String,
    },
    /// The kernel caused a fault.
    #[error(transparent)]
    Fault(Box<Fault>),
    /// The caller ended it ([`Launch::interrupt`](crate::Launch::interrupt)).
    #[error("kernel `{kernel}` was interrupted")]
    Interrupted {
        /// The kernel's name.
        kernel: String,
    },
}

impl fmt::Debug for LaunchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl LaunchError {
    /// The fault, if the kernel caused one.
    pub fn fault(&self) -> Option<&Fault> {
        match self {
            Self::Fault(fault) => Some(fault),
            Self::Invalid { .. } | Self::Interrupted { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unwrapped_fault_prints_its_message_with_the_way_out() {
        let fault = Fault {
            kernel: "deep".into(),
            block: Dim3::new(0, 0, 0),
            thread: Dim3::new(3, 0, 0),
            location: None,
            kind: FaultKind::StackOverrun { bytes: 262_144 },
        };
        let said = format!("{:?}", LaunchError::Fault(Box::new(fault)));
        assert!(said.starts_with("kernel `deep`, block "), "{said}");
        assert!(said.contains("262144 bytes") && said.contains("`opt-level = 1`"), "{said}");
        assert!(said.contains("MOYE_SIM_STACK"), "{said}");
    }
}
