//! A product of 8-bit floats with scales, on Hopper: the mainloop is [`Promoted`].
#![allow(non_snake_case, reason = "CuTe's names")]

use super::sink::{ByColumns, Out, OutScales, SinkOf};
use core::marker::PhantomData;
use moye_device::collective::*;
use moye_device::layout::{layout, tuple};
use moye_device::number::F8E4M3;
use moye_device::prelude::*;

/// A block's tile: the stages of A, the parts of B, and the tiled MMA.
pub trait Tiling: 'static {
    /// (BLK_M, 128, PIPE)
    type SmemA: StaticLayout;
    /// (N, 128, PARTS * PIPE)
    type SmemB: StaticLayout;
    /// Warpgroups stacked along M.
    type Mma: StaticTiledMma<Atom: WgmmaAtom<OperandA = u64, D = f32>>;
}

swizzled_layout! {
    /// Rows of 128 bytes in stages.
    pub Smem<const ROWS: i64, const PIPE: i64> =
        shared_memory_atom(Major::K, SwizzleBytes::B128, 8).tile_to_shape(tuple!((ROWS, 128, PIPE)));
}
tiled_mma! {
    /// Warpgroups that share a tile.
    pub Mma<A: WgmmaAtom, const WARPGROUPS: i64>: TiledMma<A> = TiledMma::new(layout!((WARPGROUPS, 1, 1)));
}

macro_rules! tilings {
    ($($(#[$doc:meta])* $name:ident: $m:literal, $n:literal, $pipe:literal, $parts:literal, $atom:ident $warpgroups:literal;)+) => { $(
        $(#[$doc])*
        pub struct $name<A = $atom>(PhantomData<A>);
        impl<A: WgmmaAtom<OperandA = u64, D = f32> + 'static> Tiling for $name<A> {
            type SmemA = Smem<$m, $pipe>;
            type SmemB = Smem<$n, $parts>;
            type Mma = Mma<A, $warpgroups>;
        }
    )+ };
}
tilings! {
    /// 128 x 256: two parts of 128 columns.
    Wide: 128, 128, 4, 8, SM90_64x128x32_F32E4M3E4M3_SS_TN 2;
    /// 128 x 128.
    Square: 128, 128, 6, 6, SM90_64x128x32_F32E4M3E4M3_SS_TN 2;
    /// 192 x 128: three warpgroups.
    Tall: 192, 128, 4, 4, SM90_64x128x32_F32E4M3E4M3_SS_TN 3;
    /// 64 x 64.
    Small: 64, 64, 12, 12, SM90_64x64x32_F32E4M3E4M3_SS_TN 1;
}
/// [`Wide`] of e4m3 by e5m2.
pub type Wide45 = Wide<SM90_64x128x32_F32E4M3E5M2_SS_TN>;
/// [`Wide`] of e5m2 by e4m3.
pub type Wide54 = Wide<SM90_64x128x32_F32E5M2E4M3_SS_TN>;
/// [`Wide`] of e5m2.
pub type Wide55 = Wide<SM90_64x128x32_F32E5M2E5M2_SS_TN>;

/// The mainloop of a tiling with scales `B`. Operands are bytes: the instruction has their types.
pub type Loop<T, B, const STAGES: u32, const CLUSTER: u32> = Promoted<
    u8,
    <T as Tiling>::SmemA,
    <T as Tiling>::SmemB,
    <T as Tiling>::Mma,
    Groups,
    STAGES,
    CLUSTER,
    3,
    B,
>;
/// The copy of a stage of A.
pub type CopyA<T> = LoadA<u8, <T as Tiling>::SmemA, 3>;
/// The copy of a part of B.
pub type CopyB<T, const CLUSTER: u32> = LoadB<u8, <T as Tiling>::SmemB, 3, CLUSTER>;

/// Scales and extents.
#[repr(C)]
#[derive(Clone, Copy, Debug, KernelParam)]
pub struct Arguments {
    /// The scales of A: 1 x 128.
    pub scale_a: BlockScales,
    /// The scales of B: 128 x 128 or, by rows, 1 x 128. Null: all are 1.
    pub scale_b: BlockScales,
    /// Scales of whole rows of B, applied to the accumulators: only `row` and `batch` are used.
    /// Null: none.
    pub columns: BlockScales,
    /// The scales of an 8-bit result.
    pub scales: OutScales,
    /// The rows of A of each matrix of B.
    pub groups: Groups,
    /// N and K.
    pub n: u32,
    /// See `n`.
    pub k: u32,
    /// Rows of tiles in a band.
    pub band: u32,
}

/// `c[rows of g] = (scale_a a)[rows of g] (scale_b b)[g]^T` for each group g, by a persistent grid
/// of clusters of `CLUSTER` blocks.
///
/// # Safety
/// The maps are of (M, K, 1) and (N, K, groups) in memory of the device, built by [`CopyA`] and
/// [`CopyB`]; there is a scale for each block, and an end for each group, none below the one
/// before. The map of C is by [`StoreC`], of (M, N), and needed if `target.tensor` is set. `target`
/// has the groups' rows, and so have the scales of a result of 8 bits, which overlap no operand. M,
/// N and K are at least 1.
#[kernel(
    threads = Loop::<T, B, STAGES, CLUSTER>::THREADS,
    min_blocks = 1,
    shared = StorageOf<Loop<T, B, STAGES, CLUSTER>, SinkOf<O, Loop<T, B, STAGES, CLUSTER>>>,
    instances = (
        block_scaled_bf16_128x256<bf16, Wide, BlockScales, 4, 2>,
        block_scaled_bf16_192x128<bf16, Tall, BlockScales, 4, 2>,
        block_scaled_bf16_128x128<bf16, Square, BlockScales, 6, 1>,
        block_scaled_bf16_64x64<bf16, Small, BlockScales, 12, 1>,
        block_scaled_bf16_128x256_e4m3_e5m2<bf16, Wide45, BlockScales, 4, 2>,
        block_scaled_bf16_128x256_e5m2_e4m3<bf16, Wide54, BlockScales, 4, 2>,
        block_scaled_bf16_128x256_e5m2_e5m2<bf16, Wide55, BlockScales, 4, 2>,
        block_scaled_bf16_128x128_rows<bf16, Square, RowScales, 6, 1>,
        block_scaled_f16_128x256<f16, Wide, BlockScales, 4, 2>,
        block_scaled_f16_192x128<f16, Tall, BlockScales, 4, 2>,
        block_scaled_f16_128x128<f16, Square, BlockScales, 6, 1>,
        block_scaled_f16_64x64<f16, Small, BlockScales, 12, 1>,
        block_scaled_f32_128x256<f32, Wide, BlockScales, 4, 2>,
        block_scaled_f32_64x64<f32, Small, BlockScales, 12, 1>,
        block_scaled_f32_128x256_e4m3_e5m2<f32, Wide45, BlockScales, 4, 2>,
        block_scaled_f32_128x256_e5m2_e4m3<f32, Wide54, BlockScales, 4, 2>,
        block_scaled_f32_128x256_e5m2_e5m2<f32, Wide55, BlockScales, 4, 2>,
        block_scaled_f32_128x128_rows<f32, Square, RowScales, 6, 1>,
        block_scaled_e4m3_128x256<F8E4M3, Wide, BlockScales, 4, 2>,
        block_scaled_e4m3_128x128<F8E4M3, Square, BlockScales, 6, 1>
    ),
    table = BlockScaledKernels
)]
pub unsafe fn block_scaled<O, T, B, const STAGES: u32, const CLUSTER: u32>(
    a: TensorMap,
    b: TensorMap,
    c: TensorMap,
    target: Target<O>,
    arguments: Arguments,
) where
    O: Out,
    T: Tiling,
    B: ScalesOfB + From<BlockScales> + 'static,
{
    let Arguments { scale_a, scale_b, columns, scales, groups, n, k, band } = arguments;
    let (a, b) = (CopyA::<T>::tensor(&a), CopyB::<T, CLUSTER>::tensor(&b));
    let operands = Scaled { a, b, scale_a, scale_b: scale_b.into(), columns: n, spans: groups };
    let scheduler = GroupTiles::<Loop<T, B, STAGES, CLUSTER>>::new(groups, (n, k), band);
    let sink = O::sink::<Loop<T, B, STAGES, CLUSTER>>(&c, target, scales, groups);
    let epilogue = ByColumns { scales: columns, end: n };
    gemm_warp_specialised::<Loop<T, B, STAGES, CLUSTER>, _, _, _>(operands, scheduler, epilogue, sink);
}
