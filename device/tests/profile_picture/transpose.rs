//! The kernel of docs/guide/profile.md, line by line.

use moye_device::arch::{Word, block_idx, shared_base, sync_warp, thread_idx};

/// `b = a^T`, both 32 x 32; rows of the tile in shared memory are `pitch` words apart.
pub fn transpose(a: u64, b: u64, pitch: u32) {
    let lane = thread_idx().x;
    let tile = 4096 * u64::from(block_idx().x);
    for row in 0..32 {
        let at = u64::from(4 * (32 * row + lane));
        // SAFETY: within the tile, and within the block's shared memory.
        unsafe {
            let word = u32::load_global(a + tile + at); // load of A
            u32::store_shared(shared_base() + 4 * (pitch * row + lane), word); // store to the tile
        }
    }
    sync_warp(u32::MAX);
    for row in 0..32 {
        let at = u64::from(4 * (32 * row + lane));
        // SAFETY: within the tile, and within the block's shared memory.
        unsafe {
            let word = u32::load_shared(shared_base() + 4 * (pitch * lane + row)); // load of a column
            u32::store_global(b + tile + at, word); // store of B
        }
    }
}
