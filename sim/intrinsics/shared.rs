//! Loads from and stores to shared memory. Addresses count from
//! [`shared_base`](super::shared_base).

use crate::block::{SHARED_BASE, current};
use crate::fault::Access;
use crate::pod::{Pod, poison};
use crate::profile::Action;
use crate::race::{Kind, Noted};
use std::panic::Location;

/// Loads a `T` from shared memory in one access; the address is a multiple of its size, and every
/// byte was written.
#[inline]
#[track_caller]
pub fn load_shared<T: Pod>(address: u32) -> T {
    let block = current();
    block.step();
    block.profile_access(Action::SharedLoad, address.into(), size_of::<T>());
    let offset = address.wrapping_sub(SHARED_BASE) as usize;
    match block.load_shared(offset) {
        Some(value) => {
            if block.clock.is_on() {
                let noted = Noted::new(Access::Read, Kind::Read, Location::caller());
                block.note_own(noted, offset, size_of::<T>());
            }
            value
        }
        None => {
            block.shared_fault(Access::Read, address, size_of::<T>());
            poison()
        }
    }
}

/// Stores a `T` to shared memory in one access; the address is a multiple of its size, and no
/// `cp.async` into it is in flight.
#[inline]
#[track_caller]
pub fn store_shared<T: Pod>(address: u32, value: T) {
    let block = current();
    block.step();
    block.profile_access(Action::SharedStore, address.into(), size_of::<T>());
    let offset = address.wrapping_sub(SHARED_BASE) as usize;
    let is_on = block.clock.is_on();
    let changed = if is_on { block.changed_shared(offset, value) } else { 0 };
    if !block.store_shared(offset, value) {
        return block.shared_fault(Access::Write, address, size_of::<T>());
    }
    if is_on {
        let noted = Noted { changed, ..Noted::new(Access::Write, Kind::Write, Location::caller()) };
        block.note_own(noted, offset, size_of::<T>());
    }
}
