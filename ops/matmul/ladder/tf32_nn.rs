//! Step 6, third part: the double buffer on tensor cores. Four warps (2 x 2) compute 64 x 64 of C
//! each. A is M-contiguous: it has no rows for `ldmatrix`, so it is loaded element by element.

use moye_device::prelude::*;

static_layout! {
    SmemA = layout!((128, 16, 2):(1, 136, 2176)); // (BLK_M, BLK_K, PIPE), columns padded by 8 elements
}
swizzled_layout! {
    // (BLK_N, BLK_K, PIPE), rows of 64 bytes
    SmemB = ComposedLayout::new(Swizzle::new(2, 2, 3), 0, layout!((8, 16):(16, 1))).tile_to_shape(tuple!((128, 16, 2)));
}
tiled_mma! {
    Mma: TiledMma<SM80_16x8x8_F32TF32TF32F32_TN> = TiledMma::tiled(layout!((2, 2, 1):(2, 1, 1)), [32, 32, 8]);
}
tiled_copy! {
    LoadA: TiledCopy<SM80_CP_ASYNC_CACHEALWAYS<u128>, f32> = TiledCopy::new(layout!((16, 8)), layout!((4, 1)));
    LoadB: TiledCopy<SM80_CP_ASYNC_CACHEALWAYS<u128>, f32> = TiledCopy::new(layout!((32, 4):(4, 1)), layout!((1, 4)));
    ReadB: TiledCopy<SM75_U32x4_LDSM_N, f32> = make_tiled_copy_b(&Mma::MMA);
}

// Whole sectors of global memory, and no bank conflicts, thanks to padding and swizzle.
const _: () = {
    LoadA::COPY.access_s(ComposedLayout::plain(layout!((128, 16):(1, 4096)))).expect_coalesced();
    LoadB::COPY.access_s(ComposedLayout::plain(layout!((128, 16):(4096, 1)))).expect_coalesced();
    LoadA::COPY.access_d(SmemA::COMPOSED).expect_conflict_free();
    LoadB::COPY.access_d(SmemB::COMPOSED).expect_conflict_free();
    Mma::MMA.access::<f32>(Operand::A, SmemA::COMPOSED).expect_conflict_free();
    ReadB::COPY.access_s(SmemB::COMPOSED).expect_conflict_free();
    Mma::MMA.access::<f32>(Operand::C, ComposedLayout::plain(layout!((128, 128)))).expect_coalesced();
    assert!(LoadA::THREADS == Mma::THREADS && LoadB::THREADS == Mma::THREADS);
};

/// Step 6, the double buffer: `c = a * b` in tf32; `a` is `(m, k)` with M contiguous, `b` `(n, k)`
/// with K contiguous, `c` `(m, n)` with M contiguous. A block of 128 threads for each 128 x 128,
/// grid `(ceil(m / 128), ceil(n / 128))`.
///
/// # Safety
/// The matrices are in device memory inside the buffers of their pointers, and `c` overlaps no
/// other. `a`, `b`, `lda` and `ldb` are multiples of 16 bytes. Each extent is at most 2^31 - 128.
#[kernel(threads = Mma::THREADS, min_blocks = 2,
    shared = (sA: SharedArray<f32, SmemA>, sB: SharedArray<f32, SmemB>))]
pub unsafe fn ladder_tf32_nn(
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
    let gA = tile!(tensor!(a, (m, k), (1, lda), align = 16), (128, 16), (block.x, _)); // (BLK_M, BLK_K, k)
    let gB = tile!(tensor!(b, (n, k), (ldb, 1), align = 16), (128, 16), (block.y, _)); // (BLK_N, BLK_K, k)
    let gC = tile!(tensor!(c, (m, n), (1, ldc)), (128, 128), (block.x, block.y)); // (BLK_M, BLK_N)

    let (loadA, loadB) = (LoadA::get_slice(thread), LoadB::get_slice(thread));
    let (tAgA, tAsA) = (loadA.partition_s(gA), loadA.partition_d(sA)); // (CPY, CPY_M, CPY_K, k), (CPY, CPY_M, CPY_K, PIPE)
    let (tBgB, tBsB) = (loadB.partition_s(gB), loadB.partition_d(sB)); // (CPY, CPY_N, CPY_K, k), (CPY, CPY_N, CPY_K, PIPE)

    let (mma, readB) = (Mma::get_slice(thread), ReadB::get_slice(thread));
    let (tCsA, tXsB) = (mma.partition_a(sA), readB.partition_s(sB)); // (MMA, MMA_M, MMA_K, PIPE), (CPY, MMA_N, MMA_K, PIPE)
    let (mut tCrA, mut tCrB) = (mma.fragment_a(&tCsA), mma.fragment_b(&mma.partition_b(sB))); // (MMA, MMA_M, MMA_K)
    let tCgC = mma.partition_c(gC); // (MMA, MMA_M, MMA_N)
    let mut tCrC = mma.fragment_c(&tCgC); // (MMA, MMA_M, MMA_N)

    // Tiles past the end of K read as zeros.
    for stage in 0..2 {
        loadA.copy(tAgA.at((.., .., .., stage)), tAsA.at((.., .., .., stage)));
        loadB.copy(tBgB.at((.., .., .., stage)), tBsB.at((.., .., .., stage)));
        cp_async_commit();
    }
    cp_async_wait::<1>();
    sync_threads();
    copy(tCsA.at((.., .., 0, 0)), tCrA.at_mut((.., .., 0)));
    readB.copy(tXsB.at((.., .., 0, 0)), readB.retile_d(&mut tCrB).at_mut((.., .., 0)));
    for k_tile in 0..gA.tiles() {
        let stage = k_tile % 2;
        for step in 0..2 {
            let (next, from) = if step == 0 { (1, stage) } else { (0, 1 - stage) };
            if step == 1 {
                cp_async_wait::<0>();
                sync_threads();
            }
            copy(tCsA.at((.., .., next, from)), tCrA.at_mut((.., .., next)));
            readB.copy(tXsB.at((.., .., next, from)), readB.retile_d(&mut tCrB).at_mut((.., .., next)));
            if step == 1 {
                loadA.copy(tAgA.at((.., .., .., k_tile + 2)), tAsA.at((.., .., .., stage)));
                loadB.copy(tBgB.at((.., .., .., k_tile + 2)), tBsB.at((.., .., .., stage)));
                cp_async_commit();
            }
            sync_warp(FULL_WARP); // Keeps ptxas from moving these loads after the product that they overlap.
            mma.gemm(&mut tCrC, tCrA.at((.., .., step)), tCrB.at((.., .., step)));
        }
    }
    cp_async_wait::<0>();
    copy(&tCrC, tCgC);
}
