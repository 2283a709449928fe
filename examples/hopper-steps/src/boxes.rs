//! The epilogue of steps 5 and 6: C through shared memory.

use crate::step3::{Mma, TileC};
use crate::tile::{Load, Smem};
use moye_device::prelude::*;

/// Boxes of C, two for each warpgroup: (64, 64, 4).
pub type SmemC = Smem<64, 4>;
/// The store of one box.
pub type StoreC = Load<64>;
static_layout! { TileOfWarpgroup = layout!((64, 256)); }
tiled_mma! {
    /// A warpgroup's accumulators in boxes of 64 columns: the same registers.
    Boxes: TiledMma<SM90_64x64x16_F32BF16BF16_SS> = TiledMma::new(layout!((1, 1, 1)));
}
tiled_copy! {
    /// Copies a box to shared memory with `stmatrix`.
    ToShared: TiledCopy<SM90_U32x4_STSM_N, bf16> = make_tiled_copy_c(&Boxes::MMA);
}
named_barriers! {
    /// The named barriers of steps 5 and 6.
    pub enum Barrier {
        /// The threads of one consumer warpgroup.
        Warpgroup[2] = 128,
    }
}

/// Stores a warpgroup's 64 x 256 accumulators, starting at box `(row, column)` of C, through its
/// two boxes alternately. The last stores are still in flight when it returns.
///
/// # Safety
/// All threads of a warpgroup call it, in a block of three warpgroups; the tensor is that of
/// [`StoreC`].
#[inline(always)]
pub unsafe fn store_boxes(
    tCrC: &Fragment<f32, AccumulatorOf<TileC, Mma>>,
    sC: SharedTensor<bf16, SmemC>,
    gC: TmaTensor<StoreC, 2>,
    (row, column): (u32, u32),
) {
    let (thread, warpgroup) = (thread_idx().x % 128, thread_idx().x / 128);
    let to_shared = ToShared::get_slice(thread);
    let rounded = tCrC.convert::<bf16>();
    // (CPY, CPY_M, boxes)
    let tBrC = rounded.view_as::<RetileOf<AccumulatorOf<TileOfWarpgroup, Boxes>, ToShared>>();
    for b in 0..4 {
        let sC = sC.at((.., .., 2 * warpgroup + b % 2)); // (64, 64)
        // A box is overwritten after the store before the previous one has read it.
        if thread == 0 {
            bulk_wait_group_read::<1>();
        }
        Barrier::Warpgroup.of(warpgroup).sync();
        to_shared.copy(tBrC.at((.., .., b)), to_shared.partition_d(sC));
        fence_proxy_async_shared();
        Barrier::Warpgroup.of(warpgroup).sync();
        if thread == 0 {
            StoreC::get_slice().store(sC, gC.at((row, column + b)));
            bulk_commit_group();
        }
    }
}
