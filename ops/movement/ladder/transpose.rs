//! Step 1: a transpose that reads and writes whole sectors, because the tile is transposed in
//! shared memory.

use moye_device::prelude::*;

static_layout! {
    // (BLK_M, BLK_N). Columns are 33 elements apart, so a warp that writes a column and one that
    // reads a row both use all 32 banks.
    Smem = layout!((32, 32):(1, 33));
    Threads = layout!((32, 8)); // (THR_M, THR_N) of the source, (THR_N, THR_M) of the destination
}

/// `dst = transpose(src)`: `src` is `m x n`, `dst` is `n x m`, strides in elements; a block of 256
/// threads for each tile of 32 x 32, grid `(ceil(m / 32), ceil(n / 32))`.
///
/// Fastest if the first stride of both is 1 (column-major).
///
/// # Safety
/// Both matrices are in memory of the device inside the buffers that the pointers come from, and
/// they do not overlap. `m` is at most 2^31 - 128 and `n` at most 2,097,120: a grid has no more
/// than 65,535 blocks along y.
#[kernel(threads = 256, shared = (sX: SharedArray<f32, Smem>))]
pub unsafe fn transpose(
    src: Global<f32>,
    dst: GlobalMut<f32>,
    m: u32,
    n: u32,
    src_stride_m: i64,
    src_stride_n: i64,
    dst_stride_n: i64,
    dst_stride_m: i64,
) {
    let (block, thread) = (block_idx(), thread_idx().x);
    let mX = tensor!(src, (m, n), (src_stride_m, src_stride_n)); // (M, N)
    let mY = tensor!(dst, (n, m), (dst_stride_n, dst_stride_m)); // (N, M)
    let gX = tile!(mX, (32, 32), (block.x, block.y)); // (BLK_M, BLK_N)
    let gY = tile!(mY, (32, 32), (block.y, block.x)); // (BLK_N, BLK_M)
    let sY = sX.transposed(); // (BLK_N, BLK_M), the same elements

    let (tXgX, tXsX) = (partition!(gX, Threads, thread), partition!(sX, Threads, thread)); // (THR_M, THR_N)
    let (tYsY, tYgY) = (partition!(sY, Threads, thread), partition!(gY, Threads, thread)); // (THR_N, THR_M)

    copy(tXgX, tXsX);
    sync_threads();
    copy(tYsY, tYgY);
}
