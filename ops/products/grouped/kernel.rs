//! Products by group on Hopper: the mainloop is [`Filled`]; a tile's group determines its first row
//! of A.
#![allow(non_snake_case, reason = "CuTe's names")]

use moye_device::collective::*;
use moye_device::layout::{layout, tuple};
use moye_device::pipeline::Filling;
use moye_device::prelude::*;

/// An operand type, with its instructions.
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
    /// Two warpgroups, stacked along M.
    type Mma: StaticTiledMma<Atom: WgmmaAtom<OperandA = u64, D = f32>>;
}

swizzled_layout! {
    /// Rows of 128 bytes in stages.
    pub Smem<const ROWS: i64, const PIPE: i64> =
        shared_memory_atom(Major::K, SwizzleBytes::B128, 16).tile_to_shape(tuple!((ROWS, 64, PIPE)));
}
tiled_mma! {
    /// Two warpgroups, stacked along M.
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
/// The tensor of B.
pub type OfB<T, C, const CLUSTER: u32> = TmaTensor<CopyB<T, C, CLUSTER>, 3>;

/// Loads A from the rows of a tile's group, and B from its matrix.
pub struct FillGroup<T: Grouped, C: Tiling<T>, const CLUSTER: u32>(pub OfA<T, C>, pub OfB<T, C, CLUSTER>);

impl<T: Grouped, C: Tiling<T>, const CLUSTER: u32> Clone for FillGroup<T, C, CLUSTER> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}
impl<T: Grouped, C: Tiling<T>, const CLUSTER: u32> Copy for FillGroup<T, C, CLUSTER> {}

impl<T: Grouped, C: Tiling<T>, const STAGES: u32, const CLUSTER: u32> Fill<STAGES, CLUSTER>
    for FillGroup<T, C, CLUSTER>
{
    type Operands = Self;
    type A = T;
    type B = T;
    type StagesA = C::SmemA;
    type StagesB = C::SmemB;
    /// A from the tile's first row on.
    type Tile = TmaTensor<CopyA<T, C>, 3>;
    const BYTES: u32 = CopyA::<T, C>::BYTES + CopyB::<T, C, CLUSTER>::BYTES;

    #[inline(always)]
    fn new(operands: Self) -> Self {
        operands
    }

    #[inline(always)]
    unsafe fn tile(&mut self, tile: &WorkTile) -> Self::Tile {
        // SAFETY: the ends of the groups are readable.
        unsafe { self.0.rows_of(tile, const { C::SmemA::LAYOUT.extent(0) as u32 }) }
    }

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn load(
        &self,
        gA: &Self::Tile,
        tile: &WorkTile,
        k: u32,
        stages: (SharedTensor<T, C::SmemA>, SharedTensor<T, C::SmemB>),
        filling: &Filling,
    ) {
        let load_b = CopyB::<T, C, CLUSTER>::get_slice();
        let gB = load_b.partition_s(self.1.at([tile.n, k, tile.batch]));
        let (sA, sB) = filling.of(stages); // (BLK_M, 64), (BLK_N, 64)
        // SAFETY: the stage is free and expects the bytes of both tiles, whose maps are those of
        // the kernel's contract.
        unsafe {
            CopyA::<T, C>::get_slice().copy(gA.at([0, k, 0]), sA, filling);
            load_b.copy(gB, load_b.partition_d(sB), filling);
        }
    }

    #[inline(always)]
    unsafe fn rows(&self, tile: &WorkTile) -> u32 {
        // SAFETY: the ends of the groups are readable.
        unsafe { self.0.rows(tile, const { C::SmemA::LAYOUT.extent(0) as u32 }) }
    }
}

/// The mainloop of a tiling.
pub type Loop<T, C, const STAGES: u32, const CLUSTER: u32> =
    Filled<FillGroup<T, C, CLUSTER>, <C as Tiling<T>>::Mma, STAGES, CLUSTER>;

/// `c[rows of g] = a[rows of g] b[g]^T` for each group g, by a persistent grid of clusters of
/// `CLUSTER` blocks.
///
/// # Safety
/// The maps are of (M, K, 1) and (N, K, groups) in memory of the device, built by [`CopyA`] and
/// [`CopyB`]. There is an end for each group, in nondecreasing order. The map of C is by
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
    let (fill, sink) =
        (FillGroup(BySpans::new(a, groups), b), BoxesToSpans::new(c, groups.rows, target, groups));
    gemm_warp_specialised::<Loop<T, C, STAGES, CLUSTER>, _, _, _>(fill, scheduler, (), sink);
}
