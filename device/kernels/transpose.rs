//! A transpose that reads and writes whole rows of sectors: the tile turns round in shared memory.

use moye_device::algorithm::copy;
use moye_device::arch::{block_idx, sync_threads, thread_idx};
use moye_device::memory::{Global, GlobalMut, SharedArray, SharedStorage};
use moye_device::tensor::{Dense, Matrix};
use moye_device::{kernel, layout, static_layout};

static_layout! {
    /// A block's tile of the source, (BLK_M, BLK_N), and of the destination, (BLK_N, BLK_M).
    pub Tile = layout!((32, 32));
    /// The tile in shared memory as the source has it. A column is 33 elements long, so that a warp that writes a
    /// column and one that reads a row both touch all 32 banks.
    pub Smem = layout!((32, 32) : (1, 33));
    /// The same memory as the destination has it.
    pub SmemTransposed = layout!((32, 32) : (33, 1));
    /// (THR_M, THR_N) over the source, (THR_N, THR_M) over the destination.
    pub Threads = layout!((32, 8));
}

/// What the transpose keeps in shared memory: one tile.
pub type Storage = SharedArray<f32, Smem>;

/// `dst = transpose(src)`: `src` is `m x n`, `dst` is `n x m`, strides in elements, a block of 256 threads per 32 x 32
/// tile (grid `(ceil(m / 32), ceil(n / 32))`).
///
/// Fastest where the first stride of each is 1 (column-major).
///
/// # Safety
/// Both matrices lie in memory of the device inside the buffers that the pointers come from, and they do not overlap. `m` is
/// at most 2^31 - 128 and `n` at most 2,097,120: a grid has no more than 65,535 blocks along y.
#[kernel(threads = 256, shared = Storage)]
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
    let m_src = Matrix::new(src, (m, n), Dense([src_stride_m, src_stride_n])); // (M, N)
    let m_dst = Matrix::new(dst, (n, m), Dense([dst_stride_n, dst_stride_m])); // (N, M)
    let g_src = m_src.local_tile::<Tile, _>((block.x, block.y)); // (BLK_M, BLK_N)
    let g_dst = m_dst.local_tile::<Tile, _>((block.y, block.x)); // (BLK_N, BLK_M)
    // SAFETY: the kernel declares `Storage`.
    let s_src = unsafe { Storage::take() }; // (BLK_M, BLK_N)
    let s_dst = s_src.with_layout::<SmemTransposed>(); // (BLK_N, BLK_M)

    let t_g_src = g_src.local_partition::<Threads>(thread); // (THR_M, THR_N)
    let mut t_s_src = s_src.local_partition::<Threads>(thread); // (THR_M, THR_N)
    let t_s_dst = s_dst.local_partition::<Threads>(thread); // (THR_N, THR_M)
    let mut t_g_dst = g_dst.local_partition::<Threads>(thread); // (THR_N, THR_M)

    // SAFETY: the tile is read after the barrier that follows its writing.
    unsafe {
        copy(&t_g_src, &mut t_s_src);
        sync_threads();
        copy(&t_s_dst, &mut t_g_dst);
    }
}
