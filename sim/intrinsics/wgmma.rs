//! `wgmma`: matrix instructions of a warpgroup. [`Wgmma`](super::Wgmma) describes their asynchrony.

use crate::block::current;
use crate::wgmma::{Wgmma, WgmmaA};
use std::panic::Location;

/// Orders the thread's registers before the following instructions: `wgmma.fence.sync.aligned`.
#[track_caller]
pub fn wgmma_fence() {
    current().wgmma_fence(Location::caller());
}

/// The running lane's part in an instruction, with its accumulators: the words of D. Without
/// `adds`, their previous values are ignored.
#[track_caller]
pub fn wgmma(instruction: &Wgmma, registers: &mut [u32], a: WgmmaA, b: u64, adds: bool) {
    let block = current();
    block.step();
    block.wgmma(instruction, registers, a, b, adds, Location::caller());
}

/// Commits the instructions since the last commit as a group: `wgmma.commit_group.sync.aligned`.
#[track_caller]
pub fn wgmma_commit_group() {
    current().wgmma_commit(Location::caller());
}

/// Waits until all groups except the `pending` youngest are complete:
/// `wgmma.wait_group.sync.aligned`.
#[track_caller]
pub fn wgmma_wait_group(pending: u32) {
    current().wgmma_wait(pending as usize, Location::caller());
}

/// Writes the results of completed groups into the accumulators. On a GPU this is no instruction:
/// the registers hold the results, and only the compiler must know that they changed.
#[track_caller]
pub fn wgmma_take_results(registers: &mut [u32]) {
    current().wgmma_take(registers);
}
