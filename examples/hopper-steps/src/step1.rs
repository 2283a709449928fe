//! Step 1: TMA and `wgmma`, alternately. A block of one warpgroup computes a 128 x 128 tile: load a
//! stage, synchronise, multiply it, synchronise.

use crate::rows::store_tile;
use crate::tile::{BLK_K, Load, Mbarrier, Smem};
use moye_device::prelude::*;

/// A block's tile of C.
pub const BLK_M: u32 = 128;
/// See [`BLK_M`].
pub const BLK_N: u32 = 128;
static_layout! { pub TileC = layout!((128, 128)); }
/// The copy of A and of B.
pub type LoadAB = Load<128>;
// One warpgroup: two instructions along M, four along K.
tiled_mma! { pub Mma: TiledMma<SM90_64x128x16_F32BF16BF16_SS> = TiledMma::new(layout!((1, 1, 1))); }

/// A grid of `(m / 128, n / 128)` blocks.
///
/// # Safety
/// The maps are of matrices (M, K) and (N, K) in device memory; `c` has `m * n` elements.
#[kernel(
    threads = 128,
    shared = (sA: SharedArray<bf16, Smem<128, 1>>, sB: SharedArray<bf16, Smem<128, 1>>, full: Mbarrier)
)]
pub unsafe fn step1(a: TmaMap<LoadAB>, b: TmaMap<LoadAB>, c: GlobalMut<bf16>, n: u32, k: u32) {
    let (thread, block) = (thread_idx().x, block_idx());
    let (gA, gB) = (a.tensor(), b.tensor()); // (m, k), (n, k): tiles
    let (sA, sB) = (sA.at((.., .., 0)), sB.at((.., .., 0))); // (BLK_M, BLK_K), (BLK_N, BLK_K)
    if thread == 0 {
        mbarrier_init(full, 1);
        fence_mbarrier_init();
    }
    sync_threads();

    let (load, mma) = (LoadAB::get_slice(), Mma::get_slice(0));
    let tCrA = mma.fragment_a(&mma.partition_a(sA)); // (1, MMA_M, MMA_K)
    let tCrB = mma.fragment_b(&mma.partition_b(sB)); // (1, MMA_N, MMA_K)
    let mut tCrC = mma.accumulator::<TileC>(); // (MMA, MMA_M, MMA_N)
    for stage in 0..k / BLK_K {
        if thread == 0 {
            mbarrier_arrive_expect_tx(full, 2 * LoadAB::BYTES);
            load.copy_to_barrier(gA.at((block.x, stage)), sA, full);
            load.copy_to_barrier(gB.at((block.y, stage)), sB, full);
        }
        // A stage is read after its bytes have arrived, and overwritten after all threads have read
        // it.
        mbarrier_wait_parity(full, stage % 2);
        mma.gemm(&mut tCrC, tCrA, tCrB);
        mma.wait_for::<0>(&mut tCrC);
        sync_threads();
    }
    store_tile::<Mma, TileC>(Mma::get_slice(thread), &tCrC, c, n, (block.x, block.y));
}
