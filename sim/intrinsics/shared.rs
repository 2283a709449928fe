//! Loads from and stores to shared memory. Addresses count from [`shared_base`](super::shared_base).

use crate::block::{SHARED_BASE, current};
use crate::fault::Access;
use crate::pod::{Pod, poison};

/// Loads a `T` from shared memory, in one access; the address is a multiple of its size, and every byte was written.
#[inline]
#[track_caller]
pub fn load_shared<T: Pod>(address: u32) -> T {
    let block = current();
    block.step();
    match block.load_shared(address.wrapping_sub(SHARED_BASE) as usize) {
        Some(value) => value,
        None => {
            block.shared_fault(Access::Read, address, size_of::<T>());
            poison()
        }
    }
}

/// Stores a `T` to shared memory, in one access; the address is a multiple of its size, and no `cp.async` into it is
/// in flight.
#[inline]
#[track_caller]
pub fn store_shared<T: Pod>(address: u32, value: T) {
    let block = current();
    block.step();
    if !block.store_shared(address.wrapping_sub(SHARED_BASE) as usize, value) {
        block.shared_fault(Access::Write, address, size_of::<T>());
    }
}
