//! Step 6, second part: `ldmatrix`. One instruction replaces four loads of each lane and
//! distributes the elements to the lanes as the MMA needs them.
//!
//! [`make_tiled_copy_a`] builds the tiled copy that matches the tiled MMA, `partition_s` partitions
//! shared memory for it, and `load` retiles the MMA's fragment. `ldmatrix` reads rows of 16 bytes,
//! so K is contiguous in both operands. A swizzle of one bit exchanges the halves of rows 4 to 7
//! (32 bytes each), and neither `cp.async` nor `ldmatrix` has a bank conflict.

use moye_device::prelude::*;

swizzled_layout! {
    SmemA = ComposedLayout::new(Swizzle::new(1, 2, 3), 0, layout!((16, 8):(8, 1))); // (BLK_M, BLK_K)
    SmemB = ComposedLayout::new(Swizzle::new(1, 2, 3), 0, layout!((8, 8):(8, 1))); // (BLK_N, BLK_K)
}
tiled_mma! {
    Mma: TiledMma<SM80_16x8x8_F32TF32TF32F32_TN> = TiledMma::new(layout!((1, 1, 1)));
}
tiled_copy! {
    LoadA: TiledCopy<SM80_CP_ASYNC_CACHEALWAYS<u128>, f32> = TiledCopy::new(layout!((16, 2):(2, 1)), layout!((1, 4)));
    LoadB: TiledCopy<SM80_CP_ASYNC_CACHEALWAYS<u64>, f32> = TiledCopy::new(layout!((8, 4):(4, 1)), layout!((1, 2)));
    ReadA: TiledCopy<SM75_U32x4_LDSM_N, f32> = make_tiled_copy_a(&Mma::MMA);
    ReadB: TiledCopy<SM75_U32x2_LDSM_N, f32> = make_tiled_copy_b(&Mma::MMA);
}

// Whole sectors of global memory, and one word at a time of each bank of shared memory; two without
// the swizzle.
const _: () = {
    LoadA::COPY.access_s(ComposedLayout::plain(layout!((16, 8):(4096, 1)))).expect_coalesced();
    LoadB::COPY.access_s(ComposedLayout::plain(layout!((8, 8):(4096, 1)))).expect_coalesced();
    LoadA::COPY.access_d(SmemA::COMPOSED).expect_conflict_free();
    LoadB::COPY.access_d(SmemB::COMPOSED).expect_conflict_free();
    ReadA::COPY.access_s(SmemA::COMPOSED).expect_conflict_free();
    ReadB::COPY.access_s(SmemB::COMPOSED).expect_conflict_free();
    assert!(ReadA::COPY.access_s(ComposedLayout::plain(SmemA::LAYOUT)).conflict_degree() == 2);
    Mma::MMA.access::<f32>(Operand::C, ComposedLayout::plain(layout!((16, 8):(1, 4096)))).expect_coalesced();
    assert!(LoadA::THREADS == Mma::THREADS && LoadB::THREADS == Mma::THREADS);
};

/// Step 6, `ldmatrix`: `c = a * b` in tf32 with `a` as `(m, k)` and `b` as `(n, k)`, K contiguous
/// in both, and `c` as `(m, n)`, M contiguous; a warp for each tile of 16 x 8, grid
/// `(ceil(m / 16), ceil(n / 8))`.
///
/// # Safety
/// The matrices are in memory of the device inside the buffers that the pointers come from, and `c`
/// overlaps neither of the others. `a` and `lda` are multiples of 16 bytes, 4 elements, `b` and
/// `ldb` of 8 bytes, 2 elements. Each extent is at most 2^31 - 128.
#[kernel(threads = Mma::THREADS, min_blocks = 1,
    shared = (sA: SharedArray<f32, SmemA>, sB: SharedArray<f32, SmemB>))]
pub unsafe fn ladder_tf32_ldmatrix(
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
    let gA = tile!(tensor!(a, (m, k), (lda, 1), align = 16), (16, 8), (block.x, _)); // (BLK_M, BLK_K, k)
    let gB = tile!(tensor!(b, (n, k), (ldb, 1), align = 8), (8, 8), (block.y, _)); // (BLK_N, BLK_K, k)
    let gC = tile!(tensor!(c, (m, n), (1, ldc)), (16, 8), (block.x, block.y)); // (BLK_M, BLK_N)

    let (loadA, loadB) = (LoadA::get_slice(thread), LoadB::get_slice(thread));
    let (tAgA, tBgB) = (loadA.partition_s(gA), loadB.partition_s(gB)); // (CPY, CPY_M, CPY_K, k), (CPY, CPY_N, CPY_K, k)
    let (tAsA, tBsB) = (loadA.partition_d(sA), loadB.partition_d(sB)); // (CPY, CPY_M, CPY_K), (CPY, CPY_N, CPY_K)

    let (mma, readA, readB) = (Mma::get_slice(thread), ReadA::get_slice(thread), ReadB::get_slice(thread));
    let (tXsA, tXsB) = (readA.partition_s(sA), readB.partition_s(sB)); // (CPY, MMA_M, MMA_K), (CPY, MMA_N, MMA_K)
    let mut tCrA = mma.fragment_a(&mma.partition_a(sA)); // (MMA, MMA_M, MMA_K)
    let mut tCrB = mma.fragment_b(&mma.partition_b(sB)); // (MMA, MMA_N, MMA_K)
    let tCgC = mma.partition_c(gC); // (MMA, MMA_M, MMA_N)
    let mut tCrC = mma.fragment_c(&tCgC); // (MMA, MMA_M, MMA_N)

    loadA.copy(tAgA.at((.., .., .., 0)), tAsA);
    loadB.copy(tBgB.at((.., .., .., 0)), tBsB);
    cp_async_commit();
    for k_tile in 0..gA.tiles() {
        cp_async_wait::<0>();
        sync_threads();
        readA.load(tXsA, &mut tCrA);
        readB.load(tXsB, &mut tCrB);
        sync_threads();
        loadA.copy(tAgA.at((.., .., .., k_tile + 1)), tAsA);
        loadB.copy(tBgB.at((.., .., .., k_tile + 1)), tBsB);
        cp_async_commit();
        mma.gemm(&mut tCrC, &tCrA, &tCrB);
    }
    cp_async_wait::<0>();
    copy(&tCrC, tCgC);
}
