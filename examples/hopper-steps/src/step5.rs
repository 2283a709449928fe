//! Step 5: C through shared memory. `stmatrix` brings the accumulators into boxes there, and TMA
//! stores them while the warpgroup goes on.

use crate::boxes::{SmemC, StoreC, store_boxes};
use crate::step3::{BLK_M, BLK_N, LoadA, LoadB, Mma, STAGES, TileC};
use crate::tile::{BLK_K, Smem};
use crate::tiles::{BAND, Tiles};
use half::bf16;
use moye_device::arch::{
    FULL_WARP, block_idx, bulk_wait_group_read, decrease_registers, grid_dim, increase_registers, shuffle,
    sync_threads, thread_idx,
};
use moye_device::atom::StaticTiledMma;
use moye_device::atom::wgmma::*;
use moye_device::kernel;
use moye_device::memory::{SharedArray, SharedStorage, TensorMap};
use moye_device::pipeline::{PipelineStorage, Warps};

type Storage = (
    SharedArray<bf16, Smem<128, 4>>,
    SharedArray<bf16, Smem<256, 4>>,
    SharedArray<bf16, SmemC>,
    PipelineStorage<STAGES, Warps<8>>,
);

/// A grid of any number of blocks.
///
/// # Safety
/// The maps of A and B are as of [`step3`](crate::step3::step3); `c` is one of (M, N), by
/// [`StoreC`].
#[kernel(threads = 384, min_blocks = 1, shared = Storage)]
pub unsafe fn step5(a: TensorMap, b: TensorMap, c: TensorMap, m: u32, n: u32, k: u32) {
    let thread = thread_idx().x;
    // `warpgroup` is uniform across the warp; the shuffle tells the compiler so.
    let warpgroup = shuffle(FULL_WARP, thread / 128, 0);
    let tiles = Tiles::new((block_idx().x, grid_dim().x), (m / BLK_M, n / BLK_N), BAND);
    // The kernel declares its storage; the pipeline says who may touch a stage.
    let (sA, sB, sC, pipeline) = Storage::take(); // (BLK_M, BLK_K, PIPE), (BLK_N, BLK_K, PIPE), (64, 64, 4)
    if thread == 0 {
        pipeline.init();
    }
    sync_threads();

    if warpgroup == 2 {
        decrease_registers::<40>();
        if thread == 256 {
            let (load_a, load_b, mut producer) =
                (LoadA::get_slice(), LoadB::get_slice(), pipeline.producer());
            for (m, n) in tiles {
                for stage in 0..k / BLK_K {
                    let filling = producer.acquire(LoadA::BYTES + LoadB::BYTES);
                    let (sA, sB) = filling.of((sA, sB));
                    load_a.copy(LoadA::tensor(&a).tile([m, stage]), sA, &filling);
                    load_b.copy(LoadB::tensor(&b).tile([n, stage]), sB, &filling);
                }
            }
        }
    } else {
        increase_registers::<232>();
        let (mma, mut consumer) = (Mma::get_slice(128 * warpgroup), pipeline.consumer());
        let tCrA = mma.descriptors_a(&mma.partition_a(sA)); // (1, MMA_M, MMA_K, PIPE)
        let tCrB = mma.descriptors_b(&mma.partition_b(sB)); // (1, MMA_N, MMA_K, PIPE)
        let mut tCrC = mma.accumulators::<TileC>(); // (MMA, MMA_M, MMA_N)
        for (m, n) in tiles {
            let mut before = None;
            for stage in 0..k / BLK_K {
                let full = consumer.wait();
                let (tCrA, tCrB) = full.of((tCrA, tCrB));
                warpgroup_arrive();
                warpgroup_gemm(Mma, &tCrA, &tCrB, &mut tCrC, ScaleOut::One.unless(stage == 0));
                warpgroup_commit_batch();
                // When only this stage's instructions run, the one before has been read.
                warpgroup_wait::<1>();
                if let Some(before) = before.replace(full) {
                    consumer.release(before);
                }
            }
            warpgroup_wait::<0>();
            if let Some(before) = before {
                consumer.release(before);
            }
            warpgroup_fence_operand(Mma, &mut tCrC);
            store_boxes(&tCrC, sC, StoreC::tensor(&c), (2 * m + warpgroup, 4 * n));
        }
        // The block's shared memory is there until all of it is read.
        bulk_wait_group_read::<0>();
    }
}
