//! Step 4: a persistent grid. Each block computes one tile after another, and the next tile's
//! stages are loaded while C is written.

use crate::rows::store_tile;
use crate::step3::{BLK_M, BLK_N, LoadA, LoadB, Mma, STAGES, TileC};
use crate::tile::{BLK_K, Smem};
use crate::tiles::{BAND, Tiles};
use moye_device::prelude::*;

/// A grid of any number of blocks.
///
/// # Safety
/// Same contract as [`step3`](crate::step3::step3).
#[kernel(
    threads = Role::threads(2),
    min_blocks = 1,
    shared = (
        sA: SharedArray<bf16, Smem<128, 4>>,
        sB: SharedArray<bf16, Smem<256, 4>>,
        pipeline: PipelineStorage<STAGES, Warps<8>>,
    )
)]
pub unsafe fn step4(a: TmaMap<LoadA>, b: TmaMap<LoadB>, c: GlobalMut<bf16>, m: u32, n: u32, k: u32) {
    let thread = thread_idx().x;
    let (gA, gB) = (a.tensor(), b.tensor()); // (m, k), (n, k): tiles
    let tiles = Tiles::new(block_idx().x, grid_dim().x, (m / BLK_M, n / BLK_N), BAND);
    if thread == 0 {
        pipeline.init();
    }
    sync_threads();

    match Role::with_registers::<2, 40, 232>() {
        RoleWithRegisters::Producer(registers) => {
            if registers.give() {
                let (load_a, load_b, mut producer) =
                    (LoadA::get_slice(), LoadB::get_slice(), pipeline.producer());
                for (m, n) in tiles {
                    for stage in 0..k / BLK_K {
                        let filling = producer.acquire(LoadA::BYTES + LoadB::BYTES);
                        let (sA, sB) = filling.of((sA, sB)); // (BLK_M, BLK_K), (BLK_N, BLK_K)
                        load_a.copy(gA.at((m, stage)), sA, &filling);
                        load_b.copy(gB.at((n, stage)), sB, &filling);
                    }
                }
            }
        }
        RoleWithRegisters::Consumer(registers) => {
            let warpgroup = registers.take();
            let (mma, mut consumer) = (Mma::get_slice(128 * warpgroup), pipeline.consumer());
            let tCrA = mma.fragment_a(&mma.partition_a(sA)); // (1, MMA_M, MMA_K, PIPE)
            let tCrB = mma.fragment_b(&mma.partition_b(sB)); // (1, MMA_N, MMA_K, PIPE)
            for (m, n_tile) in tiles {
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
                store_tile::<Mma, TileC>(Mma::get_slice(thread), &tCrC, c, n, (m, n_tile));
            }
        }
    }
}
