//! A thread's index in its grid, and the extents of block and grid.
//!
//! These are not inlined: kernels call them often, and compile faster this way.

use crate::Dim3;
use crate::block::{BlockContext, SHARED_BASE, WARP_SIZE, current};

/// The block of the calling thread. The call is counted, so that an infinite loop that only reads
/// its index is also detected.
#[inline]
#[track_caller]
pub(crate) fn asked<'a>() -> &'a BlockContext {
    let block = current();
    block.ask();
    block
}

/// The thread's index in its block.
#[inline(never)]
#[track_caller]
pub fn thread_idx() -> Dim3 {
    asked().thread_index.get()
}

/// The block's index in the grid.
#[inline(never)]
#[track_caller]
pub fn block_idx() -> Dim3 {
    asked().block_index.get()
}

/// The extents of a block, in threads.
#[inline(never)]
#[track_caller]
pub fn block_dim() -> Dim3 {
    asked().block_dim
}

/// The extents of the grid, in blocks.
#[inline(never)]
#[track_caller]
pub fn grid_dim() -> Dim3 {
    asked().grid_dim
}

/// The thread's lane in its warp, 0 to 31. Threads fill warps in the order of their index, `x`
/// fastest.
#[inline(never)]
#[track_caller]
pub fn lane_id() -> u32 {
    asked().running.get() % WARP_SIZE
}

/// The thread's warp in its block.
#[inline(never)]
#[track_caller]
pub fn warp_id() -> u32 {
    asked().running.get() / WARP_SIZE
}

/// The block's shared memory in bytes, as set by the launch.
#[inline(never)]
#[track_caller]
pub fn dynamic_shared_bytes() -> u32 {
    asked().shared.bytes() as u32
}

/// The shared address of the first byte of the block's shared memory: always 1024.
///
/// Not 0, so that an offset used as an address faults. The alignment suffices for 128-byte
/// swizzles.
#[inline(never)]
pub const fn shared_base() -> u32 {
    SHARED_BASE
}
