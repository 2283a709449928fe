//! Step 2: a producer and a ring. A warp of its own loads up to four stages ahead, and the
//! warpgroup multiplies what is there.

use crate::rows::store_tile;
pub use crate::step1::{BLK_M, BLK_N, LoadAB, Mma, TileC};
use crate::tile::{BLK_K, Smem};
use half::bf16;
use moye_device::arch::{block_idx, sync_threads, thread_idx};
use moye_device::atom::StaticTiledMma;
use moye_device::atom::wgmma::*;
use moye_device::kernel;
use moye_device::memory::{GlobalMut, SharedArray, SharedStorage, TensorMap};
use moye_device::pipeline::{PipelineStorage, Warps};

/// Stages of the ring.
const STAGES: u32 = 4;
type Storage =
    (SharedArray<bf16, Smem<128, 4>>, SharedArray<bf16, Smem<128, 4>>, PipelineStorage<STAGES, Warps<4>>);

/// A grid of `(m / 128, n / 128)` blocks.
///
/// # Safety
/// As of [`step1`](crate::step1::step1).
#[kernel(threads = 160, shared = Storage)]
pub unsafe fn step2(a: TensorMap, b: TensorMap, c: GlobalMut<bf16>, n: u32, k: u32) {
    let (thread, block) = (thread_idx().x, block_idx());
    // The kernel declares its storage; the pipeline says who may touch a stage.
    let (sA, sB, pipeline) = Storage::take(); // (BLK_M, BLK_K, PIPE), (BLK_N, BLK_K, PIPE)
    if thread == 0 {
        pipeline.init();
    }
    sync_threads();

    if thread == 128 {
        let (load, mut producer) = (LoadAB::get_slice(), pipeline.producer());
        for stage in 0..k / BLK_K {
            let filling = producer.acquire(2 * LoadAB::BYTES);
            let (sA, sB) = filling.of((sA, sB));
            load.copy(LoadAB::tensor(&a).tile([block.x, stage]), sA, &filling);
            load.copy(LoadAB::tensor(&b).tile([block.y, stage]), sB, &filling);
        }
    } else if thread < 128 {
        let (mma, mut consumer) = (Mma::get_slice(0), pipeline.consumer());
        let tCrA = mma.descriptors_a(&mma.partition_a(sA)); // (1, MMA_M, MMA_K, PIPE)
        let tCrB = mma.descriptors_b(&mma.partition_b(sB)); // (1, MMA_N, MMA_K, PIPE)
        let mut tCrC = mma.accumulators::<TileC>(); // (MMA, MMA_M, MMA_N)
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
        warpgroup_fence_operand(Mma, &mut tCrC);
        store_tile::<Mma, TileC>(Mma::get_slice(thread), &tCrC, c, n, (block.x, block.y));
    }
}
