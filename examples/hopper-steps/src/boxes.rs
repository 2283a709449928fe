//! C through shared memory: what steps 5 and 6 do with their accumulators.

use crate::step3::{Mma, TileC};
use crate::tile::{Load, Smem};
use half::bf16;
use moye_device::algorithm::copy_tiled;
use moye_device::arch::{
    bulk_commit_group, bulk_wait_group_read, fence_proxy_async_shared, sync_barrier, thread_idx,
};
use moye_device::atom::copy::SM90_U32x4_STSM_N;
use moye_device::atom::tma::TmaTensor;
use moye_device::atom::wgmma::{SM90_64x64x16_F32BF16BF16_SS, pack_fragment};
use moye_device::atom::{
    AccumulatorOf, RetileOf, StaticTiledCopy, StaticTiledMma, TiledMma, make_tiled_copy_c,
};
use moye_device::tensor::{Fragment, SharedTensor};
use moye_device::{layout, static_layout, tiled_copy, tiled_mma};

/// Boxes of C, two for each warpgroup: (64, 64, 4).
pub type SmemC = Smem<64, 4>;
/// The store of one.
pub type StoreC = Load<64>;
static_layout! { TileOfWarpgroup = layout!((64, 256)); }
tiled_mma! {
    /// A warpgroup's accumulators in boxes of 64 columns: the same registers.
    Boxes: TiledMma<SM90_64x64x16_F32BF16BF16_SS> = TiledMma::new(layout!((1, 1, 1)));
}
tiled_copy! {
    /// A box to shared memory by `stmatrix`.
    ToShared: TiledCopy<SM90_U32x4_STSM_N, bf16> = make_tiled_copy_c(&Boxes::MMA);
}

/// Stores a warpgroup's 64 x 256 accumulators from box `(row, column)` of C on, through its two
/// boxes in turn. The last stores go on when it returns.
///
/// # Safety
/// All threads of a warpgroup, in a block of three; the tensor is by [`StoreC`].
#[inline(always)]
pub unsafe fn store_boxes(
    tCrC: &Fragment<f32, AccumulatorOf<TileC, Mma>>,
    sC: SharedTensor<bf16, SmemC>,
    c: TmaTensor<StoreC, 2>,
    (row, column): (u32, u32),
) {
    let (thread, warpgroup) = (thread_idx().x % 128, thread_idx().x / 128);
    let to_shared = ToShared::get_slice(thread);
    let rounded = pack_fragment::<bf16, _>(tCrC);
    // (CPY, CPY_M, CPY_N, boxes)
    let boxes = rounded.view_as::<RetileOf<AccumulatorOf<TileOfWarpgroup, Boxes>, ToShared>>();
    for b in 0..4 {
        let sC = sC.slice_last(2 * warpgroup + b % 2); // (64, 64)
        // A box is written again when the store before the last has read it.
        if thread == 0 {
            bulk_wait_group_read::<1>();
        }
        sync_barrier(1 + warpgroup, 128);
        copy_tiled(ToShared, &boxes.slice_last(b), &mut to_shared.partition_d(sC));
        fence_proxy_async_shared();
        sync_barrier(1 + warpgroup, 128);
        if thread == 0 {
            StoreC::get_slice().store(sC, c.tile([row, column + b]));
            bulk_commit_group();
        }
    }
}
