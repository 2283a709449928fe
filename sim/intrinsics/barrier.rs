//! Barriers of a block, and waiting for a condition.

use crate::block::current;
use std::panic::Location;

/// Waits until every thread of the block has come here: `bar.sync 0`.
///
/// A thread that returns without coming is a fault, also where hardware would let it pass.
#[inline]
#[track_caller]
pub fn sync_threads() {
    current().arrive("bar.sync", 0, None, true);
}

/// Waits at barrier `id` (0 to 15) until `thread_count` threads, a multiple of 32, have come:
/// `barrier.sync id, count`.
#[inline]
#[track_caller]
pub fn barrier_sync(id: u32, thread_count: u32) {
    current().arrive("barrier.sync", id, Some(thread_count), true);
}

/// Counts as one of the `thread_count` threads of barrier `id` without waiting there:
/// `barrier.arrive id, count`.
#[inline]
#[track_caller]
pub fn barrier_arrive(id: u32, thread_count: u32) {
    current().arrive("barrier.arrive", id, Some(thread_count), false);
}

/// Waits until `condition` holds; the primitive under waits on state in shared memory, such as an
/// mbarrier's phase.
///
/// The condition is evaluated when the thread arrives, and again whenever no thread of the block
/// can run. If no waiting thread's condition holds then, that is a fault; so a condition may depend
/// only on actions of threads of the same block. Its accesses to memory race with none. `what`
/// names it in the fault.
#[track_caller]
pub fn wait_until(what: &'static str, condition: impl Fn() -> bool) {
    let block = current();
    block.wait_until(what, || block.clock.unnoticed(&condition), Location::caller());
    block.order_by_condition();
}
