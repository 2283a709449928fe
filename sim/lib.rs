//! Runs a CUDA grid on the CPU: the simulator behind kernels that are ordinary Rust.
#![warn(missing_docs)]

mod block;
mod dim;
mod fault;
pub mod intrinsics;
mod launch;
pub mod memory;
mod mma;
mod pod;

pub use dim::Dim3;
pub use fault::{Access, Fault, FaultKind, LaunchError, ThreadRange, ThreadSet, WaitPlace, WaitingThreads};
pub use launch::{Launch, Report};
pub use memory::{Allocation, GlobalMemory, MemoryError};
pub use pod::Pod;
