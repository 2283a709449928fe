//! Step 6, third part, with K contiguous in both operands: the double buffer on tensor cores, where
//! `ldmatrix` loads both operands.

use moye_device::prelude::*;

swizzled_layout! {
    Smem = // (BLK_M, BLK_K, PIPE), rows of 64 bytes
        ComposedLayout::new(Swizzle::new(2, 2, 3), 0, layout!((8, 16):(16, 1))).tile_to_shape(tuple!((128, 16, 2)));
}
tiled_mma! {
    Mma: TiledMma<SM80_16x8x8_F32TF32TF32F32_TN> = TiledMma::tiled(layout!((2, 2, 1):(2, 1, 1)), [32, 32, 8]);
}
tiled_copy! {
    Load: TiledCopy<SM80_CP_ASYNC_CACHEALWAYS<u128>, f32> = TiledCopy::new(layout!((32, 4):(4, 1)), layout!((1, 4)));
    ReadA: TiledCopy<SM75_U32x4_LDSM_N, f32> = make_tiled_copy_a(&Mma::MMA);
    ReadB: TiledCopy<SM75_U32x4_LDSM_N, f32> = make_tiled_copy_b(&Mma::MMA);
}

// Whole sectors of global memory, and one word at a time of each bank of shared memory: anything
// else does not compile.
const _: () = {
    Load::COPY.access_s(ComposedLayout::plain(layout!((128, 16):(4096, 1)))).expect_coalesced();
    Load::COPY.access_d(Smem::COMPOSED).expect_conflict_free();
    ReadA::COPY.access_s(Smem::COMPOSED).expect_conflict_free();
    ReadB::COPY.access_s(Smem::COMPOSED).expect_conflict_free();
    Mma::MMA.access::<f32>(Operand::C, ComposedLayout::plain(layout!((128, 128)))).expect_coalesced();
    assert!(Load::THREADS == Mma::THREADS);
};

/// Step 6, the double buffer: `c = a * b` in tf32 with `a` as `(m, k)` and `b` as `(n, k)`, K
/// contiguous in both, and `c` as `(m, n)`, M contiguous; a block of 128 threads for each tile of
/// 128 x 128, grid `(ceil(m / 128), ceil(n / 128))`.
///
/// # Safety
/// The matrices are in memory of the device inside the buffers that the pointers come from, and `c`
/// overlaps neither of the others. `a`, `b`, `lda` and `ldb` are multiples of 16 bytes, 4 elements.
/// Each extent is at most 2^31 - 128.
#[kernel(threads = Mma::THREADS, min_blocks = 2,
    shared = (sA: SharedArray<f32, Smem>, sB: SharedArray<f32, Smem>))]
pub unsafe fn ladder_tf32_tn(
    a: Global<f32>,
    b: Global<f32>,
    c: GlobalMut<f32>,
    m: u32,
    n: u32,
    k: u32,
    lda: i64,
    ldb: i64,
    ldc: i64,
) {
    let (block, thread) = (block_idx(), thread_idx().x);
    let gA = tile!(tensor!(a, (m, k), (lda, 1), align = 16), (128, 16), (block.x, _)); // (BLK_M, BLK_K, k)
    let gB = tile!(tensor!(b, (n, k), (ldb, 1), align = 16), (128, 16), (block.y, _)); // (BLK_N, BLK_K, k)
    let gC = tile!(tensor!(c, (m, n), (1, ldc)), (128, 128), (block.x, block.y)); // (BLK_M, BLK_N)

    let load = Load::get_slice(thread);
    let (tAgA, tBgB) = (load.partition_s(gA), load.partition_s(gB)); // (CPY, CPY_M, CPY_K, k), (CPY, CPY_N, CPY_K, k)
    let (tAsA, tBsB) = (load.partition_d(sA), load.partition_d(sB)); // (CPY, CPY_M, CPY_K, PIPE), (CPY, CPY_N, CPY_K, PIPE)

    let (mma, readA, readB) = (Mma::get_slice(thread), ReadA::get_slice(thread), ReadB::get_slice(thread));
    let (tXsA, tXsB) = (readA.partition_s(sA), readB.partition_s(sB)); // (CPY, MMA_M, MMA_K, PIPE), (CPY, MMA_N, MMA_K, PIPE)
    let mut tCrA = mma.fragment_a(&mma.partition_a(sA)); // (MMA, MMA_M, MMA_K)
    let mut tCrB = mma.fragment_b(&mma.partition_b(sB)); // (MMA, MMA_N, MMA_K)
    let tCgC = mma.partition_c(gC); // (MMA, MMA_M, MMA_N)
    let mut tCrC = mma.fragment_c(&tCgC); // (MMA, MMA_M, MMA_N)

    // Tiles past the end of K read as zeros.
    for stage in 0..2 {
        load.copy(tAgA.at((.., .., .., stage)), tAsA.at((.., .., .., stage)));
        load.copy(tBgB.at((.., .., .., stage)), tBsB.at((.., .., .., stage)));
        cp_async_commit();
    }
    cp_async_wait::<1>();
    sync_threads();
    readA.copy(tXsA.at((.., .., 0, 0)), readA.retile_d(&mut tCrA).at_mut((.., .., 0)));
    readB.copy(tXsB.at((.., .., 0, 0)), readB.retile_d(&mut tCrB).at_mut((.., .., 0)));
    for k_tile in 0..gA.tiles() {
        let stage = k_tile % 2;
        for step in 0..2 {
            let (next, from) = if step == 0 { (1, stage) } else { (0, 1 - stage) };
            if step == 1 {
                cp_async_wait::<0>();
                sync_threads();
            }
            readA.copy(tXsA.at((.., .., next, from)), readA.retile_d(&mut tCrA).at_mut((.., .., next)));
            readB.copy(tXsB.at((.., .., next, from)), readB.retile_d(&mut tCrB).at_mut((.., .., next)));
            if step == 1 {
                load.copy(tAgA.at((.., .., .., k_tile + 2)), tAsA.at((.., .., .., stage)));
                load.copy(tBgB.at((.., .., .., k_tile + 2)), tBsB.at((.., .., .., stage)));
                cp_async_commit();
            }
            sync_warp(FULL_WARP); // Keeps ptxas from moving these loads after the product that they overlap.
            mma.gemm(&mut tCrC, tCrA.at((.., .., step)), tCrB.at((.., .., step)));
        }
    }
    cp_async_wait::<0>();
    copy(&tCrC, tCgC);
}
