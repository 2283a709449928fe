//! The first matmul: one tile of `C` a block, operands through shared memory, products by FMA.
//!
//! `C = A * B` with `A` as `(M, K)`, `B` as `(N, K)` and `C` as `(M, N)`: each operand has `K` last, as in CuTe. A block
//! of 256 threads takes a tile of 128 x 128 of `C` and walks along `K` in steps of 8.

use moye_device::algorithm::{copy, copy_async, gemm};
use moye_device::arch::{block_idx, cp_async_commit, cp_async_wait, sync_threads, thread_idx};
use moye_device::memory::{Global, GlobalMut, SharedArray, SharedStorage};
use moye_device::tensor::{All, Dense, Matrix, One, StaticLayout, Step, X};
use moye_device::{kernel, layout, static_layout};

static_layout! {
    /// A block's tile of A, (BLK_M, BLK_K), and of B, (BLK_N, BLK_K).
    pub TileAb = layout!((128, 8));
    /// A block's tile of C, (BLK_M, BLK_N).
    pub TileC = layout!((128, 128));
    /// Threads over C, (THR_M, THR_N).
    pub ThreadsC = layout!((16, 16));

    /// (THR_M, THR_K), neighbours along M.
    pub ThreadsAlongM = layout!((32, 8));
    /// The operand in shared memory, (BLK_M, BLK_K): a warp writes 32 neighbours of a column, so every bank once.
    pub SmemAlongM = layout!((128, 8) : (1, 129));

    /// (THR_M, THR_K), neighbours along K.
    pub ThreadsAlongK = layout!((32, 8) : (8, 1));
    /// The operand in shared memory, (BLK_M, BLK_K): a warp writes 8 neighbours of each of 4 rows, and columns that are
    /// 4 banks apart keep the 32 of them in different banks.
    pub SmemAlongK = layout!((128, 8) : (1, 132));
}

/// How a block copies an operand to shared memory: threads and layout go by the operand's fast axis.
pub trait Operand {
    /// The threads over the operand's tile, (THR_M, THR_K).
    type Threads: StaticLayout;
    /// The tile in shared memory, (BLK_M, BLK_K).
    type Smem: StaticLayout;
}

/// M (or N) is the operand's fast axis.
pub struct AlongM;

impl Operand for AlongM {
    type Threads = ThreadsAlongM;
    type Smem = SmemAlongM;
}

/// K is the operand's fast axis.
pub struct AlongK;

impl Operand for AlongK {
    type Threads = ThreadsAlongK;
    type Smem = SmemAlongK;
}

/// What a block keeps in shared memory: a tile of A and one of B.
pub type Storage<A, B> = (SharedArray<f32, <A as Operand>::Smem>, SharedArray<f32, <B as Operand>::Smem>);

/// The operands of a product: pointers, extents and strides in elements.
struct Problem {
    a: Global<f32>,
    b: Global<f32>,
    c: GlobalMut<f32>,
    /// (M, N, K)
    shape: (u32, u32, u32),
    /// (M, K)
    a_strides: [i64; 2],
    /// (N, K)
    b_strides: [i64; 2],
    /// (M, N)
    c_strides: [i64; 2],
}

/// One block's tile of `C`.
///
/// # Safety
/// As the kernels below, each of which declares `Storage<A, B>`.
#[inline(always)]
unsafe fn matmul<A: Operand, B: Operand>(problem: Problem) {
    let (block, thread) = (block_idx(), thread_idx().x);
    let (m, n, k) = problem.shape;
    let m_a = Matrix::new(problem.a, (m, k), Dense(problem.a_strides)); // (M, K)
    let m_b = Matrix::new(problem.b, (n, k), Dense(problem.b_strides)); // (N, K)
    let m_c = Matrix::new(problem.c, (m, n), Dense(problem.c_strides)); // (M, N)
    let g_a = m_a.local_tile::<TileAb, _>((block.x, All)); // (BLK_M, BLK_K, k)
    let g_b = m_b.local_tile::<TileAb, _>((block.y, All)); // (BLK_N, BLK_K, k)
    let g_c = m_c.local_tile::<TileC, _>((block.x, block.y)); // (BLK_M, BLK_N)
    // SAFETY: the kernel declares `Storage<A, B>`.
    let (s_a, s_b) = unsafe { Storage::<A, B>::take() }; // (BLK_M, BLK_K), (BLK_N, BLK_K)

    let t_a_g_a = g_a.local_partition::<A::Threads>(thread); // (THR_M, THR_K, k)
    let t_b_g_b = g_b.local_partition::<B::Threads>(thread); // (THR_N, THR_K, k)
    let mut t_a_s_a = s_a.local_partition::<A::Threads>(thread); // (THR_M, THR_K)
    let mut t_b_s_b = s_b.local_partition::<B::Threads>(thread); // (THR_N, THR_K)

    let t_c_s_a = s_a.local_partition_by::<ThreadsC, Step<One, X>>(thread); // (THR_M, BLK_K)
    let t_c_s_b = s_b.local_partition_by::<ThreadsC, Step<X, One>>(thread); // (THR_N, BLK_K)
    let mut t_c_g_c = g_c.local_partition::<ThreadsC>(thread); // (THR_M, THR_N)
    let mut t_c_r_c = t_c_g_c.accumulator(); // (THR_M, THR_N)

    for k_tile in 0..g_a.tiles() {
        // SAFETY: tiles are read after the wait for them and a barrier, and overwritten after another.
        unsafe {
            copy_async(&t_a_g_a.tile(k_tile), &mut t_a_s_a);
            copy_async(&t_b_g_b.tile(k_tile), &mut t_b_s_b);
            cp_async_commit();
            cp_async_wait::<0>();
            sync_threads();
            gemm(&t_c_s_a, &t_c_s_b, &mut t_c_r_c);
            sync_threads();
        }
    }
    // SAFETY: each element of C belongs to one thread.
    unsafe { copy(&t_c_r_c, &mut t_c_g_c) };
}

macro_rules! matmul_f32 {
    ($(#[$doc:meta])* $name:ident, $a:ty, $b:ty) => {
        $(#[$doc])*
        ///
        /// `c = a * b` with `a` as `(m, k)`, `b` as `(n, k)` and `c` as `(m, n)`, strides in elements, one block of 256
        /// threads per 128 x 128 tile of `c` (grid `(ceil(m / 128), ceil(n / 128))`). Any strides are right; the
        /// name says which are fast.
        ///
        /// # Safety
        /// The matrices lie in memory of the device inside the buffers that the pointers come from; `c` overlaps
        /// neither of the others, nor itself. `m` and `k` are at most 2^31 - 128 and `n` is at most 8,388,480: a grid has
        /// no more than 65,535 blocks along y.
        #[kernel(threads = 256, min_blocks = 2, shared = Storage<$a, $b>)]
        pub unsafe fn $name(
            a: Global<f32>,
            b: Global<f32>,
            c: GlobalMut<f32>,
            m: u32,
            n: u32,
            k: u32,
            a_stride_m: i64,
            a_stride_k: i64,
            b_stride_n: i64,
            b_stride_k: i64,
            c_stride_m: i64,
            c_stride_n: i64,
        ) {
            let problem = Problem {
                a,
                b,
                c,
                shape: (m, n, k),
                a_strides: [a_stride_m, a_stride_k],
                b_strides: [b_stride_n, b_stride_k],
                c_strides: [c_stride_m, c_stride_n],
            };
            // SAFETY: the caller's contract.
            unsafe { matmul::<$a, $b>(problem) }
        }
    };
}

matmul_f32! {
    /// Matmul of an `a` and a `b` whose M and N are the fast axes.
    matmul_f32_nt, AlongM, AlongM
}
matmul_f32! {
    /// Matmul of an `a` whose M and a `b` whose K is the fast axis.
    matmul_f32_nn, AlongM, AlongK
}
matmul_f32! {
    /// Matmul of an `a` whose K and a `b` whose N is the fast axis.
    matmul_f32_tt, AlongK, AlongM
}
matmul_f32! {
    /// Matmul of an `a` and a `b` whose K is the fast axis.
    matmul_f32_tn, AlongK, AlongK
}
