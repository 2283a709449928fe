//! Products by group on Hopper: the mainloop is [`TmaWarpSpecialised`], whose rows of A begin where
//! a tile's group says.
#![allow(non_snake_case, reason = "CuTe's names")]

use moye_device::collective::*;
use moye_device::layout::{layout, tuple};
use moye_device::prelude::*;

/// A type of operands, with its instructions.
pub trait Grouped: Boxed + Paired {
    /// 64 x 256 x 16.
    type Wide: WgmmaAtom<OperandA = u64, D = f32> + 'static;
    /// 64 x 128 x 16.
    type Square: WgmmaAtom<OperandA = u64, D = f32> + 'static;
}
impl Grouped for bf16 {
    type Wide = SM90_64x256x16_F32BF16BF16_SS;
    type Square = SM90_64x128x16_F32BF16BF16_SS;
}
impl Grouped for f16 {
    type Wide = SM90_64x256x16_F32F16F16_SS;
    type Square = SM90_64x128x16_F32F16F16_SS;
}

/// A block's tile: the stages of A and B, and the tiled MMA for elements `T`.
pub trait Tiling<T: Grouped>: 'static {
    /// (BLK_M, 64, PIPE)
    type SmemA: StaticLayout;
    /// (BLK_N, 64, PIPE)
    type SmemB: StaticLayout;
    /// Two warpgroups, one below the other.
    type Mma: StaticTiledMma<Atom: WgmmaAtom<OperandA = u64, D = f32>>;
}

swizzled_layout! {
    /// Rows of 128 bytes in stages.
    pub Smem<const ROWS: i64, const PIPE: i64> =
        shared_memory_atom(Major::K, SwizzleBytes::B128, 16).tile_to_shape(tuple!((ROWS, 64, PIPE)));
}
tiled_mma! {
    /// Two warpgroups, one below the other.
    pub Mma<A: WgmmaAtom>: TiledMma<A> = TiledMma::new(layout!((2, 1, 1)));
}
/// 128 x 256.
pub struct Wide;
impl<T: Grouped> Tiling<T> for Wide {
    type SmemA = Smem<128, 4>;
    type SmemB = Smem<256, 4>;
    type Mma = Mma<T::Wide>;
}
/// 128 x 128.
pub struct Square;
impl<T: Grouped> Tiling<T> for Square {
    type SmemA = Smem<128, 6>;
    type SmemB = Smem<128, 6>;
    type Mma = Mma<T::Square>;
}

/// The copy of a stage of A.
pub type CopyA<T, C> = LoadA<T, <C as Tiling<T>>::SmemA, 3>;
/// The copy of a stage of B.
pub type CopyB<T, C, const CLUSTER: u32> = LoadB<T, <C as Tiling<T>>::SmemB, 3, CLUSTER>;
/// The rows of A.
pub type OfA<T, C> = BySpans<CopyA<T, C>, Groups, 3>;
/// The mainloop of a tiling.
pub type Loop<T, C, const STAGES: u32, const CLUSTER: u32> = TmaWarpSpecialised<
    T,
    <C as Tiling<T>>::SmemA,
    <C as Tiling<T>>::SmemB,
    <C as Tiling<T>>::Mma,
    STAGES,
    CLUSTER,
    3,
    OfA<T, C>,
>;

/// `c[rows of g] = a[rows of g] b[g]^T` for each group g, by a persistent grid of clusters of
/// `CLUSTER` blocks.
///
/// # Safety
/// The maps are of (M, K, 1) and (N, K, groups) in memory of the device, made by [`CopyA`] and
/// [`CopyB`]. There is an end for each group, none below the one before. The map of C is by
/// [`StoreC`], of (M, N), and needed if `target.tensor` is set. `target` has the groups' rows,
/// which overlap no operand.
#[kernel(
    threads = Loop::<T, C, STAGES, CLUSTER>::THREADS,
    min_blocks = 1,
    shared = StorageOf<Loop<T, C, STAGES, CLUSTER>, BoxesToSpans<T, Groups>>,
    instances = (
        grouped_bf16_128x256<bf16, Wide, 4, 2>,
        grouped_bf16_128x256_alone<bf16, Wide, 4, 1>,
        grouped_bf16_128x128<bf16, Square, 6, 1>,
        grouped_f16_128x256<f16, Wide, 4, 2>,
        grouped_f16_128x256_alone<f16, Wide, 4, 1>,
        grouped_f16_128x128<f16, Square, 6, 1>
    ),
    table = GroupedKernels
)]
pub unsafe fn grouped<T: Grouped, C: Tiling<T>, const STAGES: u32, const CLUSTER: u32>(
    a: TensorMap,
    b: TensorMap,
    c: TensorMap,
    target: Target<T>,
    groups: Groups,
    n: u32,
    k: u32,
    band: u32,
) where
    f32: CopyAs<T>,
{
    let (a, b) = (CopyA::<T, C>::tensor(&a), CopyB::<T, C, CLUSTER>::tensor(&b));
    let scheduler = GroupTiles::<Loop<T, C, STAGES, CLUSTER>>::new(groups, (n, k), band);
    let c = (target.tensor > 0).then(|| StoreC::<T>::tensor(&c));
    let (operands, sink) = ((BySpans::new(a, groups), b), BoxesToSpans::new(c, groups.rows, target, groups));
    gemm_warp_specialised::<Loop<T, C, STAGES, CLUSTER>, _, _, _>(operands, scheduler, (), sink);
}
