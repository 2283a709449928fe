//! Loads from and stores to global memory.

use crate::block::current;
use crate::fault::{Access, FaultKind};
use crate::memory::words;
use crate::pod::{Pod, access_size, poison};
use crate::profile::Action;
use crate::race::{Kind, Noted};
use crate::stream::has_reached;
use std::panic::Location;

/// Loads a `T` from global memory, in one access; the address is a multiple of its size.
#[inline]
#[track_caller]
pub fn load_global<T: Pod>(address: u64) -> T {
    let block = current();
    block.step();
    if !block.global_fits(address, access_size::<T>()) {
        block.global_fault(Access::Read, address, size_of::<T>());
        return poison();
    }
    block.profile_access(Action::GlobalLoad, address, size_of::<T>());
    if block.clock.is_on() {
        let noted = Noted::new(Access::Read, Kind::Read, Location::caller());
        block.note_global(noted, block.found_number.get(), address, size_of::<T>());
    }
    // SAFETY: the address was looked up.
    unsafe { words::load(address) }
}

/// Same as [`load_global`], through the read-only cache: `ld.global.nc`. With race detection, a
/// load of bytes that the same launch has written is a fault.
#[inline]
#[track_caller]
pub fn load_global_read_only<T: Pod>(address: u64) -> T {
    let block = current();
    block.step();
    if !block.global_fits(address, access_size::<T>()) {
        block.global_fault(Access::Read, address, size_of::<T>());
        return poison();
    }
    block.profile_access(Action::GlobalLoad, address, size_of::<T>());
    if block.clock.is_on() {
        let noted = Noted::new(Access::ReadOnly, Kind::Read, Location::caller());
        block.note_global(noted, block.found_number.get(), address, size_of::<T>());
    }
    // SAFETY: the address was looked up.
    unsafe { words::load(address) }
}

/// Waits until the previous launch has ended, if this one may overlap it: `griddepcontrol.wait`.
#[track_caller]
pub fn wait_for_prior_launch() {
    let block = current();
    block.profile_event("griddepcontrol.wait", Location::caller());
    block.wait_for_prior();
}

/// Allows the next launch to begin, if it may overlap this one: `griddepcontrol.launch_dependents`.
/// It begins when each block has called this or ended.
#[track_caller]
pub fn launch_dependents() {
    let block = current();
    block.profile_event("griddepcontrol.launch_dependents", Location::caller());
    block.launch_dependents();
}

/// Waits until a word that a stream raises ([`Stream::raise`](crate::Stream::raise)) has reached
/// `value`, modulo 2^32. This thread's later accesses are then ordered after that stream's work;
/// barriers do not pass this order on. A flag that is not raised is an immediate fault: the work
/// that raises it runs before the launch, or never.
#[track_caller]
pub fn wait_flag(address: u64, value: u32) {
    let block = current();
    block.step();
    if !block.global_fits(address, 4) {
        return block.global_fault(Access::Read, address, 4);
    }
    block.profile_access(Action::GlobalLoad, address, 4);
    // SAFETY: the address was looked up.
    let found = unsafe { words::load::<u32>(address) };
    if has_reached(found, value) {
        if let Some(concurrent) = &block.concurrent {
            concurrent.learn(address, &mut block.thread().flags.borrow_mut());
        }
    } else if !std::thread::panicking() {
        block.raise(Location::caller(), FaultKind::FlagNotRaised { address, found, value });
    }
}

/// Stores a `T` to global memory, in one access; the address is a multiple of its size.
#[inline]
#[track_caller]
pub fn store_global<T: Pod>(address: u64, value: T) {
    let block = current();
    block.step();
    if !block.global_fits(address, access_size::<T>()) {
        return block.global_fault(Access::Write, address, size_of::<T>());
    }
    block.profile_access(Action::GlobalStore, address, size_of::<T>());
    if block.clock.is_on() {
        let noted = Noted::new(Access::Write, Kind::Write, Location::caller());
        let bits = words::to_bits(value);
        return block.store_noted(noted, block.found_number.get(), address, bits, size_of::<T>());
    }
    // SAFETY: the address was looked up.
    unsafe { words::store(address, value) }
}
