//! mbarriers: barriers in shared memory, at which `cp.async` copies arrive as well as threads.
//!
//! An mbarrier is 8 bytes of shared memory, aligned to 8. A phase of it ends when as many arrivals have come as it was
//! made for, and the next begins.

use super::barrier::wait_until;
use crate::block::{MAX_COUNT, Mbarrier, current};

/// Makes an mbarrier whose phases take `count` arrivals each, 1 to 2^20 - 1: `mbarrier.init.shared.b64`.
#[track_caller]
pub fn mbarrier_init(address: u32, count: u32) {
    let block = current();
    block.step();
    if count == 0 || count > MAX_COUNT {
        return block.mbarrier_misuse("mbarrier.init", format!("a count of {count}; it is 1 to {MAX_COUNT}"));
    }
    block.set_mbarrier(address, Mbarrier { pending: count, expected: count, phase: 0 });
}

/// Arrives, and gives the state from before, which names the phase: `mbarrier.arrive.shared.b64`.
#[track_caller]
pub fn mbarrier_arrive(address: u32) -> u64 {
    let block = current();
    block.step();
    let Some(before) = block.mbarrier(address) else { return u64::MAX };
    block.count_arrival(address);
    before.bits()
}

/// Whether the phase of `state`, which an arrival gave, is over: `mbarrier.test_wait.shared.b64`.
///
/// Copies that are to arrive at the mbarrier complete here at the latest.
#[track_caller]
pub fn mbarrier_test_wait(address: u32, state: u64) -> bool {
    let block = current();
    block.step();
    if std::thread::panicking() {
        return true;
    }
    block.land_before_arrivals(address);
    block.mbarrier(address).is_none_or(|now| now.phase != Mbarrier::of(state).phase)
}

/// Waits until the phase of `state` is over: a loop around [`mbarrier_test_wait`].
#[track_caller]
pub fn mbarrier_wait(address: u32, state: u64) {
    wait_until("an mbarrier's phase", || mbarrier_test_wait(address, state));
}

/// Arrives when all `cp.async` copies that the thread has issued are complete: `cp.async.mbarrier.arrive.shared.b64`.
///
/// With `counted` (PTX's `.noinc`) the arrival is one of those that the mbarrier was made for; without, the phase waits
/// for one more.
#[track_caller]
pub fn cp_async_mbarrier_arrive(address: u32, counted: bool) {
    let block = current();
    block.step();
    let Some(mbarrier) = block.mbarrier(address) else { return };
    if !counted {
        if mbarrier.pending == MAX_COUNT {
            let reason = format!("the phase waits for {MAX_COUNT} arrivals already, and cannot for one more");
            return block.mbarrier_misuse("cp.async.mbarrier.arrive", reason);
        }
        block.set_mbarrier(address, Mbarrier { pending: mbarrier.pending + 1, ..mbarrier });
    }
    block.cp_async_arrive(address);
}
