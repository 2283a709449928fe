//! `cp.async`: asynchronous copies from global to shared memory.
//!
//! The data arrive at the wait. Between issue and wait, the destination may be neither read nor
//! written. A wait completes the copies of the waiting thread, for all threads of the block. Copies
//! still pending when a thread returns never arrive; that alone is not a fault, only an access to
//! their destination is.

use crate::block::current;
use std::panic::Location;

/// Issues a copy of `bytes` bytes (4, 8 or 16) to shared memory, of which the first `source_bytes`
/// come from global memory and the rest is zero-filled.
///
/// Both addresses are multiples of `bytes`. A source of which nothing is read may be any address.
#[inline]
#[track_caller]
pub fn cp_async(destination: u32, source: u64, bytes: u32, source_bytes: u32) {
    current().cp_async(destination, source, bytes, source_bytes);
}

/// Commits the copies that the thread issued since the last commit as a group, which may be empty.
#[inline]
#[track_caller]
pub fn cp_async_commit() {
    let block = current();
    block.profile_event("cp.async.commit_group", Location::caller());
    block.cp_async_commit();
}

/// Waits until at most the `pending` youngest groups of the thread are incomplete.
#[inline]
#[track_caller]
pub fn cp_async_wait_group(pending: u32) {
    let block = current();
    block.profile_wait_for_copies("cp.async.wait_group", Location::caller());
    block.cp_async_wait_group(pending as usize);
}

/// Waits for all copies of the thread, committed or not.
#[inline]
#[track_caller]
pub fn cp_async_wait_all() {
    let block = current();
    block.profile_wait_for_copies("cp.async.wait_all", Location::caller());
    block.cp_async_wait_all();
}
