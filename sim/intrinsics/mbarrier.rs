//! mbarriers: barriers in shared memory, at which threads and copies arrive.
//!
//! An mbarrier is 8 bytes of shared memory, aligned to 8. A phase ends when the mbarrier has
//! received its count of arrivals and all announced bytes; then the next phase begins. A phase is
//! identified by the state that an arrival returned, or by its parity: the first phase has parity
//! 0, the second 1, and so on alternately.
//!
//! An `address` is a shared address of the block, or, where stated, of the cluster's shared memory.

use crate::block::{MAX_COUNT, Mbarrier, SHARED_BASE, current};
use crate::fault::{Access, FaultKind};
use crate::race::{Kind, Noted};
use std::panic::Location;

/// Initialises an mbarrier whose phases take `count` arrivals each, 1 to 2^20 - 1:
/// `mbarrier.init.shared.b64`.
#[track_caller]
pub fn mbarrier_init(address: u32, count: u32) {
    let block = current();
    block.step();
    block.profile_event("mbarrier.init", Location::caller());
    let made = if count == 0 || count > MAX_COUNT {
        let reason = format!("a count of {count}; it must be 1 to {MAX_COUNT}");
        Err(FaultKind::InvalidOperand { operation: "mbarrier.init", reason })
    } else {
        block.forget_phase(address);
        block.set_mbarrier(address, Mbarrier::new(count)).map(|()| {
            let noted = Noted::new(Access::Write, Kind::Write, Location::caller());
            block.note_shared(noted, address.wrapping_sub(SHARED_BASE) as usize, 8);
        })
    };
    block.or_raise(made);
}

/// Invalidates an mbarrier, so that its memory can be reused: `mbarrier.inval.shared.b64`.
#[track_caller]
pub fn mbarrier_inval(address: u32) {
    let block = current();
    block.step();
    block.profile_event("mbarrier.inval", Location::caller());
    if block.or_raise(block.mbarrier("mbarrier.inval", address)).is_some() {
        block.shared.forget((address - SHARED_BASE) as usize, 8);
        block.forget_phase(address);
    }
}

/// Arrives, and returns the previous state, which identifies the phase:
/// `mbarrier.arrive.shared.b64`.
#[track_caller]
pub fn mbarrier_arrive(address: u32) -> u64 {
    let block = current();
    block.step();
    block.profile_event("mbarrier.arrive", Location::caller());
    block.hand_on(address, Some(Location::caller()));
    let before = block.change_mbarrier("mbarrier.arrive", address, |mbarrier| mbarrier.arrived(1));
    block.condition_met.set(true);
    block.or_raise(before).map_or(u64::MAX, Mbarrier::bits)
}

/// Expects `bytes` more bytes of copies in this phase, then arrives:
/// `mbarrier.arrive.expect_tx.shared.b64`.
#[track_caller]
pub fn mbarrier_arrive_expect_tx(address: u32, bytes: u32) -> u64 {
    let block = current();
    block.step();
    block.profile_event("mbarrier.arrive.expect_tx", Location::caller());
    block.hand_on(address, Some(Location::caller()));
    let before = block.change_mbarrier("mbarrier.arrive.expect_tx", address, |mbarrier| {
        mbarrier.expecting(bytes.into())?.arrived(1)
    });
    block.or_raise(before).map_or(u64::MAX, Mbarrier::bits)
}

/// Expects `bytes` more bytes of copies in this phase: `mbarrier.expect_tx`.
#[track_caller]
pub fn mbarrier_expect_tx(address: u32, bytes: u32) {
    let block = current();
    block.step();
    block.profile_event("mbarrier.expect_tx", Location::caller());
    let changed =
        block.change_mbarrier("mbarrier.expect_tx", address, |mbarrier| mbarrier.expecting(bytes.into()));
    block.or_raise(changed);
}

/// Arrives at an mbarrier of any block of the cluster; `address` is in the cluster's shared memory.
/// If `bytes` is not 0, the phase first expects that many more bytes of copies:
/// `mbarrier.arrive{.expect_tx}.release.cluster.shared::cluster.b64`.
#[track_caller]
pub fn mbarrier_arrive_cluster(address: u32, bytes: u32) {
    let block = current();
    block.step();
    block.profile_event("mbarrier.arrive.shared::cluster", Location::caller());
    let location = Location::caller();
    let arrived = block.peer(Access::Atomic, address).and_then(|(peer, address)| {
        peer.hand_on(address, Some(location));
        peer.change_mbarrier("mbarrier.arrive", address, |mbarrier| {
            mbarrier.expecting(bytes.into())?.arrived(1)
        })
    });
    block.condition_met.set(true);
    block.or_raise(arrived);
}

/// Whether the phase of `state`, returned by an arrival, is over: `mbarrier.test_wait.shared.b64`.
///
/// Copies that arrive at the mbarrier complete here at the latest.
#[track_caller]
pub fn mbarrier_test_wait(address: u32, state: u64) -> bool {
    test(address, |now| now.phase != Mbarrier::of(state).phase)
}

/// Whether the phase of this parity (0 or 1) is over; it is the current or the previous phase:
/// `mbarrier.test_wait.parity.shared.b64`. On a new mbarrier, the phase of parity 1 is over.
#[track_caller]
pub fn mbarrier_test_wait_parity(address: u32, parity: u32) -> bool {
    test(address, |now| now.is_past(parity))
}

#[track_caller]
fn test(address: u32, is_over: impl Fn(Mbarrier) -> bool) -> bool {
    let block = current();
    block.step();
    block.profile_event("mbarrier.test_wait", Location::caller());
    if std::thread::panicking() {
        return true;
    }
    block.land_for(address);
    let is_over = block.or_raise(block.mbarrier("mbarrier.test_wait", address)).is_none_or(is_over);
    if is_over {
        block.see_phase(address);
    }
    is_over
}

/// Waits until the phase of `state` is over: a loop around [`mbarrier_test_wait`].
#[track_caller]
pub fn mbarrier_wait(address: u32, state: u64) {
    let phase = Mbarrier::of(state).phase;
    let block = current();
    block.step();
    block.wait_for_mbarrier(address, |_| phase, |now| now.phase != phase, Location::caller());
}

/// Waits until the phase of this parity is over: a loop around [`mbarrier_test_wait_parity`].
#[track_caller]
pub fn mbarrier_wait_parity(address: u32, parity: u32) {
    let block = current();
    block.step();
    block.wait_for_mbarrier(address, |_| parity, |now| now.is_past(parity), Location::caller());
}

/// Arrives when all `cp.async` copies that the thread has issued are complete:
/// `cp.async.mbarrier.arrive.shared.b64`.
///
/// With `counted` (PTX's `.noinc`), the arrival is one of the initialised count; without it, the
/// phase expects one more.
#[track_caller]
pub fn cp_async_mbarrier_arrive(address: u32, counted: bool) {
    let block = current();
    block.step();
    block.profile_event("cp.async.mbarrier.arrive", Location::caller());
    let operation = "cp.async.mbarrier.arrive";
    let changed = block.change_mbarrier(operation, address, |mbarrier| match (counted, mbarrier.pending) {
        (true, _) => Ok(mbarrier),
        (false, MAX_COUNT) => {
            Err(format!("the phase waits for {MAX_COUNT} arrivals already, and cannot for one more"))
        }
        (false, pending) => Ok(Mbarrier { pending: pending + 1, ..mbarrier }),
    });
    if block.or_raise(changed).is_some() {
        block.cp_async_arrive(address);
    }
}
