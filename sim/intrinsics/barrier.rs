//! Barriers of a block, and waits for a condition.

use crate::block::current;
use std::panic::Location;

/// Waits until every thread of the block has arrived: `bar.sync 0`.
///
/// A thread that returns without arriving is a fault, even if hardware would let the others pass.
#[inline]
#[track_caller]
pub fn sync_threads() {
    current().arrive("bar.sync", 0, None, true);
}

/// Waits at barrier `id` (0 to 15) until `thread_count` threads, a multiple of 32, have arrived:
/// `barrier.sync id, count`.
#[inline]
#[track_caller]
pub fn barrier_sync(id: u32, thread_count: u32) {
    current().arrive("barrier.sync", id, Some(thread_count), true);
}

/// Arrives as one of the `thread_count` threads of barrier `id` without waiting:
/// `barrier.arrive id, count`.
#[inline]
#[track_caller]
pub fn barrier_arrive(id: u32, thread_count: u32) {
    current().arrive("barrier.arrive", id, Some(thread_count), false);
}

/// Waits until `condition` holds. Waits for state in shared memory, such as an mbarrier's phase,
/// use it.
///
/// The condition is evaluated when the thread arrives, and again whenever no thread of the block
/// can run. If no waiting thread's condition holds then, that is a fault, so a condition may depend
/// only on actions of threads of the same block. Its memory accesses never race. `what` describes
/// it in the fault.
#[track_caller]
pub fn wait_until(what: &'static str, condition: impl Fn() -> bool) {
    let block = current();
    block.wait_until(what, || block.clock.unnoticed(&condition), Location::caller());
    block.order_by_condition();
}
