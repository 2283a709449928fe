//! Step 3: tiles of 128 x 256. Two consumer warpgroups multiply 64 x 256 each, with registers that
//! the producer warpgroup releases.

use crate::rows::store_tile;
use crate::tile::{BLK_K, Load, Smem};
use moye_device::prelude::*;

/// A block's tile of C.
pub const BLK_M: u32 = 128;
/// See [`BLK_M`].
pub const BLK_N: u32 = 256;
/// Stages of the ring.
pub const STAGES: u32 = 4;
static_layout! { pub TileC = layout!((128, 256)); }
/// The copy of A.
pub type LoadA = Load<128>;
/// The copy of B.
pub type LoadB = Load<256>;
// Two warpgroups, stacked along M.
tiled_mma! { pub Mma: TiledMma<SM90_64x256x16_F32BF16BF16_SS> = TiledMma::new(layout!((2, 1, 1))); }

/// A grid of `(m / 128, n / 256)` blocks.
///
/// # Safety
/// The maps are of matrices (M, K) and (N, K) in device memory; `c` has `m * n` elements.
#[kernel(
    threads = Role::threads(2),
    min_blocks = 1,
    shared = (
        sA: SharedArray<bf16, Smem<128, 4>>,
        sB: SharedArray<bf16, Smem<256, 4>>,
        pipeline: PipelineStorage<STAGES, Warps<8>>,
    )
)]
pub unsafe fn step3(a: TmaMap<LoadA>, b: TmaMap<LoadB>, c: GlobalMut<bf16>, n: u32, k: u32) {
    let (thread, block) = (thread_idx().x, block_idx());
    let (gA, gB) = (a.tensor(), b.tensor()); // (m, k), (n, k): tiles
    if thread == 0 {
        pipeline.init();
    }
    sync_threads();

    match Role::with_registers::<2, 40, 232>() {
        RoleWithRegisters::Producer(registers) => {
            if registers.give() {
                let (load_a, load_b, mut producer) =
                    (LoadA::get_slice(), LoadB::get_slice(), pipeline.producer());
                for stage in 0..k / BLK_K {
                    let filling = producer.acquire(LoadA::BYTES + LoadB::BYTES);
                    let (sA, sB) = filling.of((sA, sB)); // (BLK_M, BLK_K), (BLK_N, BLK_K)
                    load_a.copy(gA.at((block.x, stage)), sA, &filling);
                    load_b.copy(gB.at((block.y, stage)), sB, &filling);
                }
            }
        }
        RoleWithRegisters::Consumer(registers) => {
            let warpgroup = registers.take();
            let (mma, mut consumer) = (Mma::get_slice(128 * warpgroup), pipeline.consumer());
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
}
