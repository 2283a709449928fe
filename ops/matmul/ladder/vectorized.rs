//! Step 3: the kernel of step 2 with copies of 64 and of 128 bits.
//!
//! A load moves two or four adjacent elements along the contiguous mode, so a tile takes a half or
//! a quarter of the loads and of the stores to shared memory. Two rules follow. A thread loads all
//! its values in one access: two accesses of 64 bits for four values would each use half of every
//! sector. A word is stored at a multiple of its size, so columns in shared memory are padded by a
//! whole word.

use moye_device::prelude::*;

static_layout! {
    Smem<W: Storable> = layout!((128, 8):(1, { 128 + W::BITS / 32 })); // (BLK_M, BLK_K), columns padded by a word
}
tiled_copy! {
    Load<W: Element>: TiledCopy<UniversalCopy<W>, f32> = TiledCopy::new(layout!((32, 8)), layout!(({ W::BITS / 32 }, 1)));
}
tiled_mma! {
    Mma: TiledMma<UniversalFma<f32>> = TiledMma::new(layout!((32, 8, 1)));
}

// Whole sectors of global memory, and one word at a time of each bank of shared memory: anything
// else does not compile.
const fn check<W: Element>() {
    Load::<W>::COPY.access_s(ComposedLayout::plain(layout!((128, 8):(1, 4096)))).expect_coalesced();
    Load::<W>::COPY.access_d(Smem::<W>::COMPOSED).expect_conflict_free();
    Mma::MMA.access::<f32>(Operand::A, Smem::<W>::COMPOSED).expect_conflict_free();
    Mma::MMA.access::<f32>(Operand::B, Smem::<W>::COMPOSED).expect_conflict_free();
    Mma::MMA.access::<f32>(Operand::C, ComposedLayout::plain(layout!((128, 128)))).expect_coalesced();
    assert!(Load::<W>::THREADS == Mma::THREADS);
}
const _: () = check::<u64>();
const _: () = check::<u128>();
// Four adjacent elements a thread, two at a time, would move twice the sectors that the bytes need.
const TORN: TiledCopy<UniversalCopy<u64>, f32> = TiledCopy::new(layout!((32, 8)), layout!((4, 1)));
const _: () = assert!(!TORN.is_coalesced(layout!((128, 8):(1, 4096))));

/// Step 3, by words of 64 or 128 bits: `c = a * b` with `a` as `(m, k)`, `b` as `(n, k)` and `c` as
/// `(m, n)`, M and N contiguous; a block of 256 threads for each tile of 128 x 128, grid
/// `(ceil(m / 128), ceil(n / 128))`.
///
/// # Safety
/// The matrices are in memory of the device inside the buffers that the pointers come from, and `c`
/// overlaps neither of the others. `a`, `b`, `lda` and `ldb` are multiples of the word, 8 or 16
/// bytes. Each extent is at most 2^31 - 128.
#[kernel(threads = Mma::THREADS, min_blocks = 2,
    shared = (sA: SharedArray<f32, Smem<W>>, sB: SharedArray<f32, Smem<W>>),
    instances = (ladder_vectorized_64<u64, 8>, ladder_vectorized_128<u128, 16>))]
pub unsafe fn vectorized<W: Element, const BYTES: usize>(
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
    let gA = tile!(tensor!(a, (m, k), (1, lda), align = BYTES), (128, 8), (block.x, _)); // (BLK_M, BLK_K, k)
    let gB = tile!(tensor!(b, (n, k), (1, ldb), align = BYTES), (128, 8), (block.y, _)); // (BLK_N, BLK_K, k)
    let gC = tile!(tensor!(c, (m, n), (1, ldc)), (128, 128), (block.x, block.y)); // (BLK_M, BLK_N)

    let load = Load::<W>::get_slice(thread);
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
        load.copy(tAgA.at((.., .., .., k_tile + 1)), &mut tArA);
        load.copy(tBgB.at((.., .., .., k_tile + 1)), &mut tBrB);
        mma.gemm(&mut tCrC, tCsA, tCsB);
        sync_threads();
    }
    copy(&tCrC, tCgC);
}
