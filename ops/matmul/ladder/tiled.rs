//! Step 2: the tiled matmul. A [`TiledCopy`] and a [`TiledMma`] define which thread copies and
//! multiplies which elements. The next tile is loaded from global memory to registers while this
//! one, in shared memory, is multiplied.

use moye_device::prelude::*;

static_layout! {
    Smem = layout!((128, 8):(1, 129)); // (BLK_M, BLK_K), columns padded by one element
}
tiled_copy! {
    Load: TiledCopy<UniversalCopy<f32>, f32> = TiledCopy::new(layout!((32, 8)), layout!((1, 1)));
}
tiled_mma! {
    // A thread computes every 32nd row and every 8th column of C. A warp reads 32 adjacent elements
    // of A, and one element of B.
    Mma: TiledMma<UniversalFma<f32>> = TiledMma::new(layout!((32, 8, 1)));
}

// Whole sectors of global memory, and one word at a time of each bank of shared memory: anything
// else does not compile.
const _: () = {
    Load::COPY.access_s(ComposedLayout::plain(layout!((128, 8):(1, 4096)))).expect_coalesced();
    Load::COPY.access_d(Smem::COMPOSED).expect_conflict_free();
    Mma::MMA.access::<f32>(Operand::A, Smem::COMPOSED).expect_conflict_free();
    Mma::MMA.access::<f32>(Operand::B, Smem::COMPOSED).expect_conflict_free();
    Mma::MMA.access::<f32>(Operand::C, ComposedLayout::plain(layout!((128, 128)))).expect_coalesced();
    assert!(Load::THREADS == Mma::THREADS);
};

/// Step 2: `c = a * b` with `a` as `(m, k)`, `b` as `(n, k)` and `c` as `(m, n)`, M and N
/// contiguous; a block of 256 threads for each tile of 128 x 128, grid
/// `(ceil(m / 128), ceil(n / 128))`.
///
/// # Safety
/// The matrices are in memory of the device inside the buffers that the pointers come from, and `c`
/// overlaps neither of the others. Each extent is at most 2^31 - 128.
#[kernel(threads = Mma::THREADS, min_blocks = 2,
    shared = (sA: SharedArray<f32, Smem>, sB: SharedArray<f32, Smem>))]
pub unsafe fn ladder_tiled(
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
    let gA = tile!(tensor!(a, (m, k), (1, lda)), (128, 8), (block.x, _)); // (BLK_M, BLK_K, k)
    let gB = tile!(tensor!(b, (n, k), (1, ldb)), (128, 8), (block.y, _)); // (BLK_N, BLK_K, k)
    let gC = tile!(tensor!(c, (m, n), (1, ldc)), (128, 128), (block.x, block.y)); // (BLK_M, BLK_N)

    let load = Load::get_slice(thread);
    let (tAgA, tBgB) = (load.partition_s(gA), load.partition_s(gB)); // (CPY, CPY_M, CPY_K, k), (CPY, CPY_N, CPY_K, k)
    let (tAsA, tBsB) = (load.partition_d(sA), load.partition_d(sB)); // (CPY, CPY_M, CPY_K), (CPY, CPY_N, CPY_K)
    let (mut tArA, mut tBrB) = (tAsA.fragment(), tBsB.fragment()); // (CPY, CPY_M, CPY_K), (CPY, CPY_N, CPY_K)

    let mma = Mma::get_slice(thread);
    let (tCsA, tCsB) = (mma.partition_a(sA), mma.partition_b(sB)); // (MMA, MMA_M, MMA_K), (MMA, MMA_N, MMA_K)
    let tCgC = mma.partition_c(gC); // (MMA, MMA_M, MMA_N)
    let mut tCrC = mma.fragment_c(&tCgC); // (MMA, MMA_M, MMA_N)

    load.copy(tAgA.at((.., .., .., 0)), &mut tArA);
    load.copy(tBgB.at((.., .., .., 0)), &mut tBrB);
    for k_tile in 0..gA.tiles() {
        load.copy(&tArA, tAsA);
        load.copy(&tBrB, tBsB);
        sync_threads();
        // These loads overlap the product. Tiles past the end of K read as zeros.
        load.copy(tAgA.at((.., .., .., k_tile + 1)), &mut tArA);
        load.copy(tBgB.at((.., .., .., k_tile + 1)), &mut tBrB);
        mma.gemm(&mut tCrC, tCsA, tCsB);
        sync_threads();
    }
    copy(&tCrC, tCgC);
}
