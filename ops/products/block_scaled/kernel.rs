//! A product of 8-bit floats with the scales of their blocks, on Hopper: the mainloop is
//! [`Promoted`].
#![allow(non_snake_case, reason = "CuTe's names")]

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
    /// Warpgroups one below the other.
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
        pub struct $name;
        impl Tiling for $name {
            type SmemA = Smem<$m, $pipe>;
            type SmemB = Smem<$n, $parts>;
            type Mma = Mma<$atom, $warpgroups>;
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

/// The mainloop of a tiling.
pub type Loop<T, const STAGES: u32, const CLUSTER: u32> =
    Promoted<F8E4M3, <T as Tiling>::SmemA, <T as Tiling>::SmemB, <T as Tiling>::Mma, Groups, STAGES, CLUSTER>;
/// The copy of a stage of A.
pub type CopyA<T> = LoadA<F8E4M3, <T as Tiling>::SmemA, 3>;
/// The copy of a part of B.
pub type CopyB<T, const CLUSTER: u32> = LoadB<F8E4M3, <T as Tiling>::SmemB, 3, CLUSTER>;

/// Scales and extents.
#[repr(C)]
#[derive(Clone, Copy, Debug, KernelParam)]
pub struct Arguments {
    /// The scales of A: 1 x 128.
    pub scale_a: BlockScales,
    /// The scales of B: 128 x 128.
    pub scale_b: BlockScales,
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
/// The maps are of (M, K, 1) and (N, K, groups) in memory of the device, made by [`CopyA`] and
/// [`CopyB`]; there is a scale for each block, and an end for each group, none below the one
/// before. The map of C is by [`StoreC`], of (M, N), and needed if `target.tensor` is set. `target`
/// has the groups' rows, which overlap no operand. M, N and K are at least 1.
#[kernel(
    threads = Loop::<T, STAGES, CLUSTER>::THREADS,
    min_blocks = 1,
    shared = StorageOf<Loop<T, STAGES, CLUSTER>, BoxesToSpans<O, Groups>>,
    instances = (
        block_scaled_bf16_128x256<bf16, Wide, 4, 2>,
        block_scaled_bf16_192x128<bf16, Tall, 4, 2>,
        block_scaled_bf16_128x128<bf16, Square, 6, 1>,
        block_scaled_bf16_64x64<bf16, Small, 12, 1>,
        block_scaled_f16_128x256<f16, Wide, 4, 2>,
        block_scaled_f16_192x128<f16, Tall, 4, 2>,
        block_scaled_f16_128x128<f16, Square, 6, 1>,
        block_scaled_f16_64x64<f16, Small, 12, 1>
    ),
    table = BlockScaledKernels
)]
pub unsafe fn block_scaled<O: Boxed + Paired, T: Tiling, const STAGES: u32, const CLUSTER: u32>(
    a: TensorMap,
    b: TensorMap,
    c: TensorMap,
    target: Target<O>,
    arguments: Arguments,
) where
    f32: CopyAs<O>,
{
    let Arguments { scale_a, scale_b, groups, n, k, band } = arguments;
    let (a, b) = (CopyA::<T>::tensor(&a), CopyB::<T, CLUSTER>::tensor(&b));
    let operands = Scaled { a, b, scale_a, scale_b, columns: n, spans: groups };
    let scheduler = GroupTiles::<Loop<T, STAGES, CLUSTER>>::new(groups, (n, k), band);
    let c = (target.tensor > 0).then(|| StoreC::<O>::tensor(&c));
    let sink = BoxesToSpans::new(c, groups.rows, target, groups);
    gemm_warp_specialised::<Loop<T, STAGES, CLUSTER>, _, _, _>(operands, scheduler, (), sink);
}
