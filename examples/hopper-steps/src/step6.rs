//! Step 6: clusters. Two blocks whose tiles are one above the other need the same tile of B: each
//! loads half of it, for both.

use crate::boxes::{SmemC, StoreC, store_boxes};
use crate::step3::{BLK_M, BLK_N, LoadA, Mma, STAGES, TileC};
use crate::tile::{BLK_K, Load, Smem};
use crate::tiles::{BAND, Tiles};
use half::bf16;
use moye_device::arch::{
    FULL_WARP, block_idx, bulk_wait_group_read, cluster_rank, decrease_registers, grid_dim,
    increase_registers, shuffle, sync_cluster, thread_idx,
};
use moye_device::atom::StaticTiledMma;
use moye_device::atom::wgmma::*;
use moye_device::kernel;
use moye_device::memory::{SharedArray, SharedStorage, TensorMap};
use moye_device::pipeline::{PipelineStorage, Warps};

/// Blocks of a cluster, along M.
pub const CLUSTER: u32 = 2;
/// How B is loaded: half of it by each block, for both.
pub type LoadB = Load<256, CLUSTER>;
type Storage = (
    SharedArray<bf16, Smem<128, 4>>,
    SharedArray<bf16, Smem<256, 4>>,
    SharedArray<bf16, SmemC>,
    PipelineStorage<STAGES, Warps<8>, CLUSTER>,
);

/// A grid of any number of blocks, in clusters of two.
///
/// # Safety
/// The maps of A and C are as of [`step5`](crate::step5::step5), that of B is by [`LoadB`].
#[kernel(threads = 384, min_blocks = 1, shared = Storage)]
pub unsafe fn step6(a: TensorMap, b: TensorMap, c: TensorMap, m: u32, n: u32, k: u32) {
    let thread = thread_idx().x;
    // `warpgroup` is uniform across the warp; the shuffle tells the compiler so.
    let warpgroup = shuffle(FULL_WARP, thread / 128, 0);
    let rank = cluster_rank();
    // The cluster's tiles: pairs of tiles one above the other.
    let cluster = (block_idx().x / CLUSTER, grid_dim().x / CLUSTER);
    let tiles = Tiles::new(cluster, (m / BLK_M / CLUSTER, n / BLK_N), BAND / CLUSTER);
    // The kernel declares its storage; the pipeline says who may touch a stage.
    let (sA, sB, sC, pipeline) = Storage::take(); // (BLK_M, BLK_K, PIPE), (BLK_N, BLK_K, PIPE), (64, 64, 4)
    if thread == 0 {
        pipeline.init();
    }
    sync_cluster();

    if warpgroup == 2 {
        decrease_registers::<40>();
        if thread == 256 {
            let (load_a, load_b, mut producer) =
                (LoadA::get_slice(), LoadB::get_slice(), pipeline.producer());
            for (m, n) in tiles {
                for stage in 0..k / BLK_K {
                    let gB = load_b.partition_s(LoadB::tensor(&b).tile([n, stage]));
                    let filling = producer.acquire(LoadA::BYTES + LoadB::BYTES);
                    let (sA, sB) = filling.of((sA, sB));
                    load_a.copy(LoadA::tensor(&a).tile([CLUSTER * m + rank, stage]), sA, &filling);
                    load_b.copy(gB, load_b.partition_d(sB), &filling);
                }
            }
            // The other block arrives at this one's barriers until it has read its last stage.
            producer.drain();
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
            store_boxes(&tCrC, sC, StoreC::tensor(&c), (2 * (CLUSTER * m + rank) + warpgroup, 4 * n));
        }
        // The block's shared memory is there until all of it is read.
        bulk_wait_group_read::<0>();
    }
}
