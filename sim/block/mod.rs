//! One block of a grid: its memory, its threads as coroutines, and what makes them wait for each other.
//!
//! A worker owns a [`BlockContext`] and runs one block after another in it. While a thread of the block runs, the
//! context is the worker's *current* one, which the intrinsics find through a thread-local pointer. A block never
//! leaves its OS thread, so everything in the context is a plain `Cell` or `RefCell`; no borrow of a `RefCell` is held
//! over a switch of coroutines.

mod access;
mod barrier;
mod collective;
mod context;
mod cp_async;
mod mbarrier;
mod panics;
mod scheduler;
mod shared;
mod stack;

pub use collective::{ExitedLanes, warp_collective};
pub(crate) use context::{BlockContext, Limits, RawFault, current, within_simulated_thread};
pub(crate) use mbarrier::{MAX_COUNT, Mbarrier};
pub(crate) use panics::install_hook;
pub(crate) use scheduler::Worker;
pub(crate) use shared::SHARED_BASE;
pub(crate) use stack::MAX_STACKS;

/// Lanes of a warp.
pub(crate) const WARP_SIZE: u32 = 32;
