//! Lists of products of 8-bit floats with the scales of their blocks: the mainloop is
//! [`FilledPromoted`]; a tile's product determines its operands and scales.

use super::promoted::{FillScaled, FilledPromoted, TileScales};
use crate::block_scaled::kernel::{Mma, Smem};
use crate::grouped::list::{FillListed, List, ListStages, Listed, ToListed, multiply};
use moye_device::algorithm::CopyAs;
use moye_device::collective::*;
use moye_device::prelude::*;

/// Stages of the mainloop.
const STAGES: u32 = 6;

/// Operands of 8 bits, in tiles of 128 x 128.
#[derive(Clone, Copy)]
pub struct Bytes;

impl ListStages<STAGES> for Bytes {
    type Element = u8;
    type A = Smem<128, 6>;
    type B = Smem<128, 6>;
}

/// The copy of a stage of A.
pub type CopyA = LoadA<u8, Smem<128, 6>, 3>;
/// The copy of a stage of B.
pub type CopyB = LoadB<u8, Smem<128, 6>, 3>;

impl FillScaled<STAGES> for FillListed<Bytes> {
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn scales(&self, tile: &WorkTile) -> TileScales {
        // SAFETY: the product exists.
        let Listed { m, n, scale_a, scale_b, .. } = unsafe { self.products.of(tile.batch) };
        TileScales { of: [scale_a.scales(), scale_b.scales()], rows: [m, n] }
    }
}

/// The mainloop of the instruction `A`, which has the types of the operands.
pub type Loop<A> = FilledPromoted<FillListed<Bytes>, Mma<A, 2>, STAGES>;

/// `c = (scale_a a) (scale_b b)^T` for each product of the list, by a persistent grid.
///
/// # Safety
/// Same contract as [`grouped_list`](crate::grouped::list::grouped_list), of maps built by
/// [`CopyA`] and [`CopyB`], with scales for the operands' blocks of 1 x 128 and 128 x 128.
#[kernel(
    threads = Loop::<A>::THREADS,
    min_blocks = 1,
    shared = StorageOf<Loop<A>, ToListed<O>>,
    instances = (
        block_scaled_list_bf16<bf16, SM90_64x128x32_F32E4M3E4M3_SS_TN>,
        block_scaled_list_f16<f16, SM90_64x128x32_F32E4M3E4M3_SS_TN>,
        block_scaled_list_f32<f32, SM90_64x128x32_F32E4M3E4M3_SS_TN>,
        block_scaled_list_bf16_e4m3_e5m2<bf16, SM90_64x128x32_F32E4M3E5M2_SS_TN>,
        block_scaled_list_bf16_e5m2_e4m3<bf16, SM90_64x128x32_F32E5M2E4M3_SS_TN>,
        block_scaled_list_bf16_e5m2_e5m2<bf16, SM90_64x128x32_F32E5M2E5M2_SS_TN>,
        block_scaled_list_f32_e4m3_e5m2<f32, SM90_64x128x32_F32E4M3E5M2_SS_TN>,
        block_scaled_list_f32_e5m2_e4m3<f32, SM90_64x128x32_F32E5M2E4M3_SS_TN>,
        block_scaled_list_f32_e5m2_e5m2<f32, SM90_64x128x32_F32E5M2E5M2_SS_TN>
    )
)]
pub unsafe fn block_scaled_list<O: Paired, A: WgmmaAtom<OperandA = u64, D = f32> + 'static>(
    a0: TensorMap,
    b0: TensorMap,
    a1: TensorMap,
    b1: TensorMap,
    a2: TensorMap,
    b2: TensorMap,
    a3: TensorMap,
    b3: TensorMap,
    list: List,
) where
    f32: CopyAs<O>,
{
    let maps = [
        [a0.pointer(), b0.pointer()],
        [a1.pointer(), b1.pointer()],
        [a2.pointer(), b2.pointer()],
        [a3.pointer(), b3.pointer()],
    ];
    multiply::<Loop<A>, _, O>(list, maps);
}
