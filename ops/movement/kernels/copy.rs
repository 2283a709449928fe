//! Copies at memory bandwidth, for matrices with contiguous lines: enough bytes in flight to cover
//! the latency of memory.
//!
//! By Little's law, an H200 (4.8 TB/s, 132 SMs, 700 to 800 ns of latency) needs 25 to 30 KB in
//! flight on each SM. The 2,048 threads of an SM have 32 KB in flight with 16 bytes each. More is
//! not better: for 16384 x 16384 elements of 16 bytes, threads with 1, 2, 4 and 8 vectors copied
//! 4,295, 4,267, 4,227 and 4,191 GB/s, and the driver's copy 4,274 GB/s. Lines shorter than a
//! block's threads need more bytes in flight: there a thread copies a vector of each of eight
//! lines.

use moye_device::arch::overlap_launches;
use moye_device::prelude::*;

/// Vectors of a block's tile along a line.
pub const BLK_M: i64 = 256;

/// Copies `n` lines of `m` vectors of 16 bytes; leading dimensions are the distances between lines,
/// in vectors. The grid has a block of 256 threads along x for each tile of [`BLK_M`] vectors of
/// `BLK_N` lines: `ceil(m / 256) * ceil(n / BLK_N)` blocks.
///
/// `copy_long_lines` has one line in a tile, fastest for lines of thousands of vectors;
/// `copy_lines` has eight.
///
/// # Safety
/// Both matrices are in memory of the device, inside the buffers that the pointers belong to, start
/// at multiples of 16 bytes, and do not overlap. Both extents are at most 2^31 - 256.
#[kernel(threads = 256, instances = (copy_long_lines<1>, copy_lines<8>))]
pub unsafe fn copy_vectors<const BLK_N: i64>(
    src: Global<u128>,
    dst: GlobalMut<u128>,
    m: u32,
    n: u32,
    src_ld: i64,
    dst_ld: i64,
) {
    overlap_launches();
    let (block, thread) = (block_idx().x, thread_idx().x);
    // A grid has at most 2^31 - 1 blocks along x, but only 65,535 along y.
    let tiles_m = m.div_ceil(BLK_M as u32);
    let (i, j) = (block % tiles_m, block / tiles_m);
    let gX = tile!(tensor!(src, (m, n), (1, src_ld)), (BLK_M, BLK_N), (i, j)); // (BLK_M, BLK_N)
    let gY = tile!(tensor!(dst, (m, n), (1, dst_ld)), (BLK_M, BLK_N), (i, j)); // (BLK_M, BLK_N)
    let (tXgX, tXgY) = (partition!(gX, (BLK_M, 1), thread), partition!(gY, (BLK_M, 1), thread)); // (1, BLK_N)

    let mut tXrX = tXgX.fragment(); // (1, BLK_N)
    if (i + 1) * BLK_M as u32 <= m && (j + 1) * BLK_N as u32 <= n {
        copy(tXgX.whole(), &mut tXrX);
        copy(&tXrX, tXgY.whole());
    } else {
        copy(tXgX, &mut tXrX);
        copy(&tXrX, tXgY);
    }
}
