//! Step 1: the plainest kernel, a copy through shared memory. Each block copies a 32 x 32 tile with
//! 32 x 8 threads.

use moye_device::algorithm;
use moye_device::prelude::*;

static_layout! {
    Smem = layout!((32, 32)); // (BLK_M, BLK_N), columns one after the other
    Threads = layout!((32, 8)); // (THR_M, THR_N)
}

/// Copy of a matrix, through a tile in shared memory that is not padded: `dst = src`, `m x n`
/// elements with strides in elements; a block of 256 threads for each tile of 32 x 32, grid
/// `(ceil(m / 32), ceil(n / 32))`.
///
/// # Safety
/// Both matrices are in memory of the device inside the buffers that the pointers come from, and
/// they do not overlap. `m` is at most 2^31 - 128 and `n` at most 2,097,120: a grid has no more
/// than 65,535 blocks along y.
#[kernel(threads = 256, shared = (sX: SharedArray<f32, Smem>))]
pub unsafe fn ladder_plain_copy(
    src: Global<f32>,
    dst: GlobalMut<f32>,
    m: u32,
    n: u32,
    src_stride_m: i64,
    src_stride_n: i64,
    dst_stride_m: i64,
    dst_stride_n: i64,
) {
    let (block, thread) = (block_idx(), thread_idx().x);
    let mX = tensor!(src, (m, n), (src_stride_m, src_stride_n)); // (M, N)
    let mY = tensor!(dst, (m, n), (dst_stride_m, dst_stride_n)); // (M, N)
    let gX = tile!(mX, (32, 32), (block.x, block.y)); // (BLK_M, BLK_N)
    let gY = tile!(mY, (32, 32), (block.x, block.y)); // (BLK_M, BLK_N)

    let (tXgX, tXgY) = (partition!(gX, Threads, thread), partition!(gY, Threads, thread)); // (THR_M, THR_N)
    let tXsX = partition!(sX, Threads, thread); // (THR_M, THR_N)

    algorithm::copy(tXgX, tXsX);
    // Each thread reads its own elements, which needs no barrier; any other use of the tile would.
    sync_threads();
    algorithm::copy(tXsX, tXgY);
}
