//! A copy that passes through shared memory: each block takes a tile of 32 x 32 with 32 x 8 threads.

use moye_device::algorithm;
use moye_device::arch::{block_idx, cp_async_commit, cp_async_wait, sync_threads, thread_idx};
use moye_device::memory::{Global, GlobalMut, SharedArray, SharedStorage};
use moye_device::tensor::{Dense, Matrix};
use moye_device::{kernel, layout, static_layout};

static_layout! {
    /// A block's tile, (BLK_M, BLK_N).
    pub Tile = layout!((32, 32));
    /// The tile in shared memory.
    pub Smem = layout!((32, 32) : (1, 33));
    /// (THR_M, THR_N)
    pub Threads = layout!((32, 8));
}

/// What the copies keep in shared memory: one tile.
pub type Storage = SharedArray<f32, Smem>;

/// Both matrices of a copy: pointers, extents and strides in elements.
struct Problem {
    src: Global<f32>,
    dst: GlobalMut<f32>,
    /// (M, N)
    shape: (u32, u32),
    /// (M, N)
    src_strides: [i64; 2],
    /// (M, N)
    dst_strides: [i64; 2],
}

/// One block's tile, through registers or, if `ASYNC`, by `cp.async` into shared memory.
///
/// # Safety
/// As the kernels below, which declare `Storage`.
#[inline(always)]
unsafe fn through_shared<const ASYNC: bool>(problem: Problem) {
    let (block, thread) = (block_idx(), thread_idx().x);
    let m_src = Matrix::new(problem.src, problem.shape, Dense(problem.src_strides)); // (M, N)
    let m_dst = Matrix::new(problem.dst, problem.shape, Dense(problem.dst_strides)); // (M, N)
    let g_src = m_src.local_tile::<Tile, _>((block.x, block.y)); // (BLK_M, BLK_N)
    let g_dst = m_dst.local_tile::<Tile, _>((block.x, block.y)); // (BLK_M, BLK_N)
    // SAFETY: the kernel declares `Storage`.
    let smem = unsafe { Storage::take() }; // (BLK_M, BLK_N)

    let t_g_src = g_src.local_partition::<Threads>(thread); // (THR_M, THR_N)
    let mut t_g_dst = g_dst.local_partition::<Threads>(thread); // (THR_M, THR_N)
    let mut t_smem = smem.local_partition::<Threads>(thread); // (THR_M, THR_N)

    // SAFETY: each thread touches its own elements, after the wait for them. They need no barrier, but any other use of
    // the tile would, and this kernel is the pattern.
    unsafe {
        if ASYNC {
            algorithm::copy_async(&t_g_src, &mut t_smem);
            cp_async_commit();
            cp_async_wait::<0>();
        } else {
            algorithm::copy(&t_g_src, &mut t_smem);
        }
        sync_threads();
        algorithm::copy(&t_smem, &mut t_g_dst);
    }
}

macro_rules! copy_f32 {
    ($(#[$doc:meta])* $name:ident, $async:literal) => {
        $(#[$doc])*
        ///
        /// `dst = src`: `m x n` elements with strides in elements, a block of 256 threads per 32 x 32 tile (grid
        /// `(ceil(m / 32), ceil(n / 32))`).
        ///
        /// # Safety
        /// Both matrices lie in memory of the device inside the buffers that the pointers come from, and they do not
        /// overlap. `m` is at most 2^31 - 128 and `n` at most 2,097,120: a grid has no more than 65,535 blocks along y.
        #[kernel(threads = 256, shared = Storage)]
        pub unsafe fn $name(
            src: Global<f32>,
            dst: GlobalMut<f32>,
            m: u32,
            n: u32,
            src_stride_m: i64,
            src_stride_n: i64,
            dst_stride_m: i64,
            dst_stride_n: i64,
        ) {
            let problem = Problem {
                src,
                dst,
                shape: (m, n),
                src_strides: [src_stride_m, src_stride_n],
                dst_strides: [dst_stride_m, dst_stride_n],
            };
            // SAFETY: the caller's contract.
            unsafe { through_shared::<$async>(problem) }
        }
    };
}

copy_f32! {
    /// Copy of a matrix, element by element through registers.
    copy, false
}
copy_f32! {
    /// Copy of a matrix by `cp.async` from global to shared memory.
    copy_async, true
}
