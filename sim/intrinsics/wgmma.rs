//! `wgmma`: matrix instructions of a warpgroup. See [`Wgmma`](super::Wgmma) for what is
//! asynchronous about them.

use crate::block::current;
use crate::wgmma::{Wgmma, WgmmaA};
use std::panic::Location;

/// Orders the thread's registers before the instructions that follow: `wgmma.fence.sync.aligned`.
#[track_caller]
pub fn wgmma_fence() {
    current().wgmma_fence(Location::caller());
}

/// The running lane's part in an instruction, with its accumulators: the words of D. Where `adds`
/// is not set, what they held is of no meaning.
#[track_caller]
pub fn wgmma(instruction: &Wgmma, registers: &mut [u32], a: WgmmaA, b: u64, adds: bool) {
    let block = current();
    block.step();
    block.wgmma(instruction, registers, a, b, adds, Location::caller());
}

/// Makes the instructions since the last one a group: `wgmma.commit_group.sync.aligned`.
#[track_caller]
pub fn wgmma_commit_group() {
    current().wgmma_commit(Location::caller());
}

/// Waits until all groups but the `pending` youngest are complete: `wgmma.wait_group.sync.aligned`.
#[track_caller]
pub fn wgmma_wait_group(pending: u32) {
    current().wgmma_wait(pending as usize, Location::caller());
}

/// Gives the accumulators the results of instructions that were waited for. On a GPU there is
/// nothing to do: the registers have them, and the compiler only has to know.
#[track_caller]
pub fn wgmma_take_results(registers: &mut [u32]) {
    current().wgmma_take(registers);
}
