//! One block of a grid: its memory, and its threads as coroutines that wait for each other.
//!
//! A worker owns a [`Cluster`] with one [`BlockContext`] for each block of a cluster of the launch,
//! and runs one cluster after another. While a thread of a block runs, its context is the
//! worker's *current* one, which intrinsics find through a thread-local pointer. A block and its
//! cluster never leave their OS thread, so everything in the context is a plain `Cell` or
//! `RefCell`; no borrow of a `RefCell` is held across a coroutine switch.

mod access;
mod arrived;
mod barrier;
mod bulk;
mod bulk_store;
mod clock;
mod cluster;
mod collective;
mod context;
mod cp_async;
mod deferred;
mod knowledge;
mod mbarrier;
mod order;
mod overflow;
mod panics;
mod parked;
mod phase;
mod reads;
mod scheduler;
mod shared;
mod stack;
mod wgmma;

pub(crate) use bulk::LoadSource;
pub(crate) use bulk_store::{BulkSink, StoreWait};
pub(crate) use cluster::{Cluster, MAX_CLUSTER};
pub(crate) use collective::WARP_BARRIER;
pub use collective::{ExitedLanes, warp_collective};
pub(crate) use context::{BlockContext, Limits, RawFault, Traces, current, running, within_simulated_thread};
pub(crate) use mbarrier::{MAX_COUNT, Mbarrier};
pub(crate) use order::Permutation;
pub(crate) use overflow::{SignalStack, install as install_guard};
pub(crate) use panics::install_hook;
pub(crate) use scheduler::Worker;
pub(crate) use shared::SHARED_BASE;
pub(crate) use stack::MAX_STACKS;

/// Lanes of a warp.
pub(crate) const WARP_SIZE: u32 = 32;
