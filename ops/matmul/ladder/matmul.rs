//! Step 1: the first matmul. One tile of C a block, operands through shared memory, products by
//! FMA.
//!
//! `C = A * B` with A as `(M, K)`, B as `(N, K)` and C as `(M, N)`: K is the last mode of each
//! operand, as in CuTe. The four kernels differ in the threads that copy an operand and in its tile
//! in shared memory; both depend on the operand's contiguous mode.

use moye_device::prelude::*;

static_layout! {
    ThreadsC = layout!((16, 16)); // (THR_M, THR_N)

    ThreadsAlongM = layout!((32, 8)); // (THR_M, THR_K)
    SmemAlongM = layout!((128, 8):(1, 129)); // (BLK_M, BLK_K): a warp writes 32 neighbours of a column, each bank once

    ThreadsAlongK = layout!((32, 8):(8, 1)); // (THR_M, THR_K)
    SmemAlongK = layout!((128, 8):(1, 132)); // (BLK_M, BLK_K): a warp writes 8 neighbours of 4 rows, columns 4 banks apart
}

/// `c = a * b` with `a` as `(m, k)`, `b` as `(n, k)` and `c` as `(m, n)`, strides in elements; a
/// block of 256 threads for each tile of 128 x 128 of `c`, grid `(ceil(m / 128), ceil(n / 128))`.
///
/// Any strides are correct; the name states for which the kernel is fast. The first letter is for
/// `a`: `n` for M contiguous, `t` for K. The second is for `b`: `n` for K contiguous, `t` for N.
///
/// # Safety
/// The matrices are in memory of the device inside the buffers that the pointers come from; `c`
/// overlaps neither of the others, nor itself. `m` and `k` are at most 2^31 - 128 and `n` is at
/// most 8,388,480: a grid has no more than 65,535 blocks along y.
#[kernel(
    threads = 256,
    min_blocks = 2,
    shared = (sA: SharedArray<f32, SmemA>, sB: SharedArray<f32, SmemB>),
    instances = (
        matmul_f32_nt<ThreadsAlongM, SmemAlongM, ThreadsAlongM, SmemAlongM>,
        matmul_f32_nn<ThreadsAlongM, SmemAlongM, ThreadsAlongK, SmemAlongK>,
        matmul_f32_tt<ThreadsAlongK, SmemAlongK, ThreadsAlongM, SmemAlongM>,
        matmul_f32_tn<ThreadsAlongK, SmemAlongK, ThreadsAlongK, SmemAlongK>
    )
)]
pub unsafe fn matmul_f32<
    ThreadsA: StaticLayout,
    SmemA: StaticLayout,
    ThreadsB: StaticLayout,
    SmemB: StaticLayout,
>(
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
    let (block, thread) = (block_idx(), thread_idx().x);
    let gA = tile!(tensor!(a, (m, k), (a_stride_m, a_stride_k)), (128, 8), (block.x, _)); // (BLK_M, BLK_K, k)
    let gB = tile!(tensor!(b, (n, k), (b_stride_n, b_stride_k)), (128, 8), (block.y, _)); // (BLK_N, BLK_K, k)
    let gC = tile!(tensor!(c, (m, n), (c_stride_m, c_stride_n)), (128, 128), (block.x, block.y)); // (BLK_M, BLK_N)

    let (tAgA, mut tAsA) = (partition!(gA, ThreadsA, thread), partition!(sA, ThreadsA, thread)); // (THR_M, THR_K, k)
    let (tBgB, mut tBsB) = (partition!(gB, ThreadsB, thread), partition!(sB, ThreadsB, thread)); // (THR_N, THR_K, k)

    let tCsA = partition!(sA, ThreadsC, thread, (1, X)); // (THR_M, BLK_K)
    let tCsB = partition!(sB, ThreadsC, thread, (X, 1)); // (THR_N, BLK_K)
    let tCgC = partition!(gC, ThreadsC, thread); // (THR_M, THR_N)
    let mut tCrC = tCgC.accumulator(); // (THR_M, THR_N)

    for k_tile in 0..gA.tiles() {
        copy_async(&tAgA.at((.., .., k_tile)), &mut tAsA);
        copy_async(&tBgB.at((.., .., k_tile)), &mut tBsB);
        cp_async_commit();
        cp_async_wait::<0>();
        sync_threads();
        gemm(&tCsA, &tCsB, &mut tCrC);
        sync_threads();
    }
    copy(&tCrC, tCgC);
}
