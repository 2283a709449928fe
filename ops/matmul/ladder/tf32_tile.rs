//! Step 6, first part: tensor cores. The kernel of step 4 with another [`TiledMma`]: one warp, one
//! tile of 16 x 8, by `mma.sync` of 8 elements along K.
//!
//! Elements are f32, of which the instruction reads the upper 19 bits (tf32); it accumulates in
//! f32. Tiles in shared memory have no padding, so loading a fragment has two-way bank conflicts.
//! The next part has none.

use moye_device::prelude::*;

static_layout! {
    SmemA = layout!((16, 8):(1, 16)); // (BLK_M, BLK_K)
    SmemB = layout!((8, 8):(8, 1)); // (BLK_N, BLK_K)
}
tiled_copy! {
    LoadA: TiledCopy<SM80_CP_ASYNC_CACHEALWAYS<u128>, f32> = TiledCopy::new(layout!((4, 8)), layout!((4, 1)));
    LoadB: TiledCopy<SM80_CP_ASYNC_CACHEALWAYS<u64>, f32> = TiledCopy::new(layout!((8, 4):(4, 1)), layout!((1, 2)));
}
tiled_mma! {
    Mma: TiledMma<SM80_16x8x8_F32TF32TF32F32_TN> = TiledMma::new(layout!((1, 1, 1)));
}

// Whole sectors of global memory, and at most two words at a time of each bank of shared memory.
const _: () = {
    LoadA::COPY.access_s(ComposedLayout::plain(layout!((16, 8):(1, 4096)))).expect_coalesced();
    LoadB::COPY.access_s(ComposedLayout::plain(layout!((8, 8):(4096, 1)))).expect_coalesced();
    LoadA::COPY.access_d(SmemA::COMPOSED).expect_conflict_free();
    LoadB::COPY.access_d(SmemB::COMPOSED).expect_conflict_free();
    assert!(Mma::MMA.access::<f32>(Operand::A, SmemA::COMPOSED).conflict_degree() == 2);
    assert!(Mma::MMA.access::<f32>(Operand::B, SmemB::COMPOSED).conflict_degree() == 2);
    Mma::MMA.access::<f32>(Operand::C, ComposedLayout::plain(layout!((16, 8):(1, 4096)))).expect_coalesced();
    assert!(LoadA::THREADS == Mma::THREADS && LoadB::THREADS == Mma::THREADS);
};

/// Step 6, one tile: `c = a * b` in tf32 with `a` as `(m, k)`, M contiguous, `b` as `(n, k)`, K
/// contiguous, and `c` as `(m, n)`, M contiguous; a warp for each tile of 16 x 8, grid
/// `(ceil(m / 16), ceil(n / 8))`.
///
/// # Safety
/// The matrices are in memory of the device inside the buffers that the pointers come from, and `c`
/// overlaps neither of the others. `a` and `lda` are multiples of 16 bytes, 4 elements, `b` and
/// `ldb` of 8 bytes, 2 elements. Each extent is at most 2^31 - 128.
#[kernel(threads = Mma::THREADS, min_blocks = 1,
    shared = (sA: SharedArray<f32, SmemA>, sB: SharedArray<f32, SmemB>))]
pub unsafe fn ladder_tf32_tile(
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
    let gA = tile!(tensor!(a, (m, k), (1, lda), align = 16), (16, 8), (block.x, _)); // (BLK_M, BLK_K, k)
    let gB = tile!(tensor!(b, (n, k), (ldb, 1), align = 8), (8, 8), (block.y, _)); // (BLK_N, BLK_K, k)
    let gC = tile!(tensor!(c, (m, n), (1, ldc)), (16, 8), (block.x, block.y)); // (BLK_M, BLK_N)

    let (loadA, loadB) = (LoadA::get_slice(thread), LoadB::get_slice(thread));
    let (tAgA, tBgB) = (loadA.partition_s(gA), loadB.partition_s(gB)); // (CPY, CPY_M, CPY_K, k), (CPY, CPY_N, CPY_K, k)
    let (tAsA, tBsB) = (loadA.partition_d(sA), loadB.partition_d(sB)); // (CPY, CPY_M, CPY_K), (CPY, CPY_N, CPY_K)

    let mma = Mma::get_slice(thread);
    let (tCsA, tCsB) = (mma.partition_a(sA), mma.partition_b(sB)); // (MMA, MMA_M, MMA_K), (MMA, MMA_N, MMA_K)
    let (mut tCrA, mut tCrB) = (mma.fragment_a(&tCsA), mma.fragment_b(&tCsB)); // (MMA, MMA_M, MMA_K), (MMA, MMA_N, MMA_K)
    let tCgC = mma.partition_c(gC); // (MMA, MMA_M, MMA_N)
    let mut tCrC = mma.fragment_c(&tCgC); // (MMA, MMA_M, MMA_N)

    loadA.copy(tAgA.at((.., .., .., 0)), tAsA);
    loadB.copy(tBgB.at((.., .., .., 0)), tBsB);
    cp_async_commit();
    for k_tile in 0..gA.tiles() {
        cp_async_wait::<0>();
        sync_threads();
        copy(tCsA, &mut tCrA);
        copy(tCsB, &mut tCrB);
        sync_threads();
        // Tiles past the end of K read as zeros.
        loadA.copy(tAgA.at((.., .., .., k_tile + 1)), tAsA);
        loadB.copy(tBgB.at((.., .., .., k_tile + 1)), tBsB);
        cp_async_commit();
        mma.gemm(&mut tCrC, &tCrA, &tCrB);
    }
    cp_async_wait::<0>();
    copy(&tCrC, tCgC);
}
