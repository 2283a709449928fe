//! Step 6: clusters. Two blocks whose tiles are stacked along M need the same tile of B: each loads
//! half of it for both.

use crate::boxes::{SmemC, StoreC, store_boxes};
use crate::step3::{BLK_M, BLK_N, LoadA, Mma, STAGES, TileC};
use crate::tile::{BLK_K, Load, Smem};
use crate::tiles::{BAND, Tiles};
use moye_device::prelude::*;

/// Blocks of a cluster, along M.
pub const CLUSTER: u32 = 2;
/// The copy of B: each block loads half of it for both.
pub type LoadB = Load<256, CLUSTER>;

/// A grid of any number of blocks, in clusters of two.
///
/// # Safety
/// Same contract as [`step5`](crate::step5::step5).
#[kernel(
    threads = Role::threads(2),
    min_blocks = 1,
    shared = (
        sA: SharedArray<bf16, Smem<128, 4>>,
        sB: SharedArray<bf16, Smem<256, 4>>,
        sC: SharedArray<bf16, SmemC>,
        pipeline: PipelineStorage<STAGES, Warps<8>, CLUSTER>,
    )
)]
pub unsafe fn step6(a: TmaMap<LoadA>, b: TmaMap<LoadB>, c: TmaMap<StoreC>, m: u32, n: u32, k: u32) {
    let rank = cluster_rank();
    let (gA, gB, gC) = (a.tensor(), b.tensor(), c.tensor()); // (m, k), (n, k), (m, n): tiles
    // The cluster's tiles: pairs stacked along M.
    let (cluster, clusters) = (block_idx().x / CLUSTER, grid_dim().x / CLUSTER);
    let tiles = Tiles::new(cluster, clusters, (m / BLK_M / CLUSTER, n / BLK_N), BAND / CLUSTER);
    if thread_idx().x == 0 {
        pipeline.init();
    }
    sync_cluster();

    match Role::with_registers::<2, 40, 232>() {
        RoleWithRegisters::Producer(registers) => {
            if registers.give() {
                let (load_a, load_b, mut producer) =
                    (LoadA::get_slice(), LoadB::get_slice(), pipeline.producer());
                for (m, n) in tiles {
                    for stage in 0..k / BLK_K {
                        let tBgB = load_b.partition_s(gB.at((n, stage)));
                        let filling = producer.acquire(LoadA::BYTES + LoadB::BYTES);
                        let (sA, sB) = filling.of((sA, sB)); // (BLK_M, BLK_K), (BLK_N, BLK_K)
                        load_a.copy(gA.at((CLUSTER * m + rank, stage)), sA, &filling);
                        load_b.copy(tBgB, load_b.partition_d(sB), &filling);
                    }
                }
                // The other block arrives at this block's barriers until it has read its last
                // stage.
                producer.drain();
            }
        }
        RoleWithRegisters::Consumer(registers) => {
            let warpgroup = registers.take();
            let (mma, mut consumer) = (Mma::get_slice(128 * warpgroup), pipeline.consumer());
            let tCrA = mma.fragment_a(&mma.partition_a(sA)); // (1, MMA_M, MMA_K, PIPE)
            let tCrB = mma.fragment_b(&mma.partition_b(sB)); // (1, MMA_N, MMA_K, PIPE)
            for (m, n) in tiles {
                let mut tCrC = mma.accumulator::<TileC>(); // (MMA, MMA_M, MMA_N)
                let mut before = None;
                for _ in 0..k / BLK_K {
                    let full = consumer.wait();
                    let (tCrA, tCrB) = full.of((tCrA, tCrB)); // (1, MMA_M, MMA_K), (1, MMA_N, MMA_K)
                    mma.gemm(&mut tCrC, tCrA, tCrB);
                    // When only this stage's product is in flight, the previous one has read its
                    // stage.
                    mma.wait::<1>();
                    if let Some(before) = before.replace(full) {
                        consumer.release(before);
                    }
                }
                mma.wait_for::<0>(&mut tCrC);
                if let Some(before) = before {
                    consumer.release(before);
                }
                store_boxes(&tCrC, sC, gC, (2 * (CLUSTER * m + rank) + warpgroup, 4 * n));
            }
            // The block's shared memory must exist until TMA has read all of it.
            bulk_wait_group_read::<0>();
        }
    }
}
