//! Step 1: TMA and `wgmma`, one after the other. A block of one warpgroup has a tile of 128 x 128:
//! a stage is loaded, all wait, it is multiplied, all wait.

use crate::rows::store_tile;
use crate::tile::{BLK_K, Load, Mbarrier, Smem};
use half::bf16;
use moye_device::arch::{
    block_idx, fence_mbarrier_init, mbarrier_arrive_expect_tx, mbarrier_init, mbarrier_wait_parity,
    sync_threads, thread_idx,
};
use moye_device::atom::wgmma::*;
use moye_device::atom::{StaticTiledMma, TiledMma};
use moye_device::memory::{GlobalMut, SharedArray, SharedStorage, TensorMap};
use moye_device::{kernel, layout, static_layout, tiled_mma};

/// A block's tile of C.
pub const BLK_M: u32 = 128;
/// See [`BLK_M`].
pub const BLK_N: u32 = 128;
static_layout! { pub TileC = layout!((128, 128)); }
/// A and B are loaded alike.
pub type LoadAB = Load<128>;
// One warpgroup: two instructions along M, four along K.
tiled_mma! { pub Mma: TiledMma<SM90_64x128x16_F32BF16BF16_SS> = TiledMma::new(layout!((1, 1, 1))); }
type Storage = (SharedArray<bf16, Smem<128, 1>>, SharedArray<bf16, Smem<128, 1>>, Mbarrier);

/// A grid of `(m / 128, n / 128)` blocks.
///
/// # Safety
/// The maps are of matrices (M, K) and (N, K) in memory of the device, by [`LoadAB`]; `c` has
/// `m * n` elements.
#[kernel(threads = 128, shared = Storage)]
pub unsafe fn step1(a: TensorMap, b: TensorMap, c: GlobalMut<bf16>, n: u32, k: u32) {
    let (thread, block) = (thread_idx().x, block_idx());
    // The kernel declares its storage; a stage is read when its bytes have come, and overwritten
    // when all have read it.
    let (sA, sB, full) = Storage::take();
    let (sA, sB) = (sA.slice_last(0), sB.slice_last(0)); // (BLK_M, BLK_K), (BLK_N, BLK_K)
    if thread == 0 {
        mbarrier_init(full, 1);
        fence_mbarrier_init();
    }
    sync_threads();

    let (load, mma) = (LoadAB::get_slice(), Mma::get_slice(0));
    let tCrA = mma.descriptors_a(&mma.partition_a(sA)); // (1, MMA_M, MMA_K)
    let tCrB = mma.descriptors_b(&mma.partition_b(sB)); // (1, MMA_N, MMA_K)
    let mut tCrC = mma.accumulators::<TileC>(); // (MMA, MMA_M, MMA_N)
    for stage in 0..k / BLK_K {
        if thread == 0 {
            mbarrier_arrive_expect_tx(full, 2 * LoadAB::BYTES);
            load.copy_to_barrier(LoadAB::tensor(&a).tile([block.x, stage]), sA, full);
            load.copy_to_barrier(LoadAB::tensor(&b).tile([block.y, stage]), sB, full);
        }
        mbarrier_wait_parity(full, stage % 2);
        warpgroup_arrive();
        warpgroup_gemm(Mma, &tCrA, &tCrB, &mut tCrC, ScaleOut::One.unless(stage == 0));
        warpgroup_commit_batch();
        warpgroup_wait::<0>();
        sync_threads();
    }
    warpgroup_fence_operand(Mma, &mut tCrC);
    store_tile::<Mma, TileC>(Mma::get_slice(thread), &tCrC, c, n, (block.x, block.y));
}
