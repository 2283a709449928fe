//! Step 2: a producer and a ring of stages. A producer warp loads up to four stages ahead, and the
//! warpgroup multiplies the full ones.

use crate::rows::store_tile;
pub use crate::step1::{BLK_M, BLK_N, LoadAB, Mma, TileC};
use crate::tile::{BLK_K, Smem};
use moye_device::prelude::*;

/// Stages of the ring.
const STAGES: u32 = 4;

/// A grid of `(m / 128, n / 128)` blocks.
///
/// # Safety
/// Same contract as [`step1`](crate::step1::step1).
#[kernel(
    threads = 160,
    shared = (
        sA: SharedArray<bf16, Smem<128, 4>>,
        sB: SharedArray<bf16, Smem<128, 4>>,
        pipeline: PipelineStorage<STAGES, Warps<4>>,
    )
)]
pub unsafe fn step2(a: TmaMap<LoadAB>, b: TmaMap<LoadAB>, c: GlobalMut<bf16>, n: u32, k: u32) {
    let (thread, block) = (thread_idx().x, block_idx());
    let (gA, gB) = (a.tensor(), b.tensor()); // (m, k), (n, k): tiles
    if thread == 0 {
        pipeline.init();
    }
    sync_threads();

    if thread == 128 {
        let (load, mut producer) = (LoadAB::get_slice(), pipeline.producer());
        for stage in 0..k / BLK_K {
            let filling = producer.acquire(2 * LoadAB::BYTES);
            let (sA, sB) = filling.of((sA, sB)); // (BLK_M, BLK_K), (BLK_N, BLK_K)
            load.copy(gA.at((block.x, stage)), sA, &filling);
            load.copy(gB.at((block.y, stage)), sB, &filling);
        }
    } else if thread < 128 {
        let (mma, mut consumer) = (Mma::get_slice(0), pipeline.consumer());
        let tCrA = mma.fragment_a(&mma.partition_a(sA)); // (1, MMA_M, MMA_K, PIPE)
        let tCrB = mma.fragment_b(&mma.partition_b(sB)); // (1, MMA_N, MMA_K, PIPE)
        let mut tCrC = mma.accumulator::<TileC>(); // (MMA, MMA_M, MMA_N)
        let mut before = None;
        for _ in 0..k / BLK_K {
            let full = consumer.wait();
            let (tCrA, tCrB) = full.of((tCrA, tCrB)); // (1, MMA_M, MMA_K), (1, MMA_N, MMA_K)
            mma.gemm(&mut tCrC, tCrA, tCrB);
            // When only this stage's product is in flight, the previous one has read its stage.
            mma.wait::<1>();
            if let Some(before) = before.replace(full) {
                consumer.release(before);
            }
        }
        mma.wait_for::<0>(&mut tCrC);
        store_tile::<Mma, TileC>(Mma::get_slice(thread), &tCrC, c, n, (block.x, block.y));
    }
}
