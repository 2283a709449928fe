//! Step 3: tiles of 128 x 256. Two warpgroups multiply 64 x 256 each, with registers that the
//! loading warpgroup gives away.

use crate::rows::store_tile;
use crate::tile::{BLK_K, Load, Smem};
use half::bf16;
use moye_device::arch::{
    FULL_WARP, block_idx, decrease_registers, increase_registers, shuffle, sync_threads, thread_idx,
};
use moye_device::atom::wgmma::*;
use moye_device::atom::{StaticTiledMma, TiledMma};
use moye_device::memory::{GlobalMut, SharedArray, SharedStorage, TensorMap};
use moye_device::pipeline::{PipelineStorage, Warps};
use moye_device::{kernel, layout, static_layout, tiled_mma};

/// A block's tile of C.
pub const BLK_M: u32 = 128;
/// See [`BLK_M`].
pub const BLK_N: u32 = 256;
/// Stages of the ring.
pub const STAGES: u32 = 4;
static_layout! { pub TileC = layout!((128, 256)); }
/// How A is loaded.
pub type LoadA = Load<128>;
/// How B is loaded.
pub type LoadB = Load<256>;
// Two warpgroups, one above the other.
tiled_mma! { pub Mma: TiledMma<SM90_64x256x16_F32BF16BF16_SS> = TiledMma::new(layout!((2, 1, 1))); }
type Storage =
    (SharedArray<bf16, Smem<128, 4>>, SharedArray<bf16, Smem<256, 4>>, PipelineStorage<STAGES, Warps<8>>);

/// A grid of `(m / 128, n / 256)` blocks.
///
/// # Safety
/// The maps are of matrices (M, K) and (N, K) in memory of the device, by [`LoadA`] and [`LoadB`];
/// `c` has `m * n` elements.
#[kernel(threads = 384, min_blocks = 1, shared = Storage)]
pub unsafe fn step3(a: TensorMap, b: TensorMap, c: GlobalMut<bf16>, n: u32, k: u32) {
    let (thread, block) = (thread_idx().x, block_idx());
    // `warpgroup` is uniform across the warp; the shuffle tells the compiler so.
    let warpgroup = shuffle(FULL_WARP, thread / 128, 0);
    // The kernel declares its storage; the pipeline says who may touch a stage.
    let (sA, sB, pipeline) = Storage::take(); // (BLK_M, BLK_K, PIPE), (BLK_N, BLK_K, PIPE)
    if thread == 0 {
        pipeline.init();
    }
    sync_threads();

    if warpgroup == 2 {
        decrease_registers::<40>();
        if thread == 256 {
            let (load_a, load_b, mut producer) =
                (LoadA::get_slice(), LoadB::get_slice(), pipeline.producer());
            for stage in 0..k / BLK_K {
                let filling = producer.acquire(LoadA::BYTES + LoadB::BYTES);
                let (sA, sB) = filling.of((sA, sB));
                load_a.copy(LoadA::tensor(&a).tile([block.x, stage]), sA, &filling);
                load_b.copy(LoadB::tensor(&b).tile([block.y, stage]), sB, &filling);
            }
        }
    } else {
        increase_registers::<232>();
        let (mma, mut consumer) = (Mma::get_slice(128 * warpgroup), pipeline.consumer());
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
