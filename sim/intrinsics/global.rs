//! Loads from and stores to global memory.

use crate::block::current;
use crate::fault::Access;
use crate::memory::words;
use crate::pod::{Pod, access_size, poison};

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
    // SAFETY: the address was looked up.
    unsafe { words::load(address) }
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
    // SAFETY: the address was looked up.
    unsafe { words::store(address, value) }
}
