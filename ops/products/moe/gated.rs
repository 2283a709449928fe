//! Gated products on Hopper, such as the first one of experts, `silu(x gate^T) * (x up^T)`: a tile
//! computes 128 columns of the gate and the same columns of the up projection, so that a thread
//! holds both accumulators of an element.
#![allow(non_snake_case, reason = "CuTe's names")]

use super::join::{Join, Part, SwiGlu, store};
use crate::grouped::kernel::{CopyA, Grouped, OfA, Tiling, Wide};
use core::marker::PhantomData;
use moye_device::collective::*;
use moye_device::layout::tuple;
use moye_device::pipeline::Filling;
use moye_device::prelude::*;

/// Stages of the mainloop.
pub const STAGES: u32 = 4;
/// Columns of a tile of the result.
pub const COLUMNS: u32 = 128;

/// Stages of B as rows of two matrices: (2, 128, 64, PIPE).
#[derive(Clone, Copy)]
pub struct Pair<const PIPE: i64>;

impl<const PIPE: i64> Pair<PIPE> {
    // (128, 64, 2, PIPE)
    const ROWS: ComposedLayout = shared_memory_atom(Major::K, SwizzleBytes::B128, 16)
        .tile_to_shape(tuple!((COLUMNS as i64, 64, 2, PIPE)));
}

impl<const PIPE: i64> StaticLayout for Pair<PIPE> {
    const LAYOUT: Layout = {
        let rows = Self::ROWS.layout;
        Layout::concat(&[rows.mode(2), rows.mode(0), rows.mode(1), rows.mode(3)])
    };
    const SWIZZLE: Swizzle = Self::ROWS.swizzle;
}

/// The copy of a stage of B, of a tensor (2, N, K, experts). In a cluster of two blocks one loads
/// the rows of the gate for both, the other those of the up projection.
pub type CopyPair<T, const CLUSTER: u32> = TmaCopy<T, Pair<1>, 4, CLUSTER>;

/// Loads A from the rows of its tile's group, and both halves of B from its expert's matrices.
#[derive(Clone, Copy)]
pub struct FillPair<T: Grouped, const CLUSTER: u32> {
    a: OfA<T, Wide>,
    b: TmaTensor<CopyPair<T, CLUSTER>, 4>,
}

impl<T: Grouped, const CLUSTER: u32> FillPair<T, CLUSTER> {
    /// The rows of `groups` in the tensor `a`, and the matrices of `b`.
    #[inline(always)]
    pub const fn new(
        a: TmaTensor<CopyA<T, Wide>, 3>,
        b: TmaTensor<CopyPair<T, CLUSTER>, 4>,
        groups: Groups,
    ) -> Self {
        Self { a: BySpans::new(a, groups), b }
    }
}

/// The mainloop.
pub type GatedLoop<T, const CLUSTER: u32> =
    Filled<FillPair<T, CLUSTER>, <Wide as Tiling<T>>::Mma, STAGES, CLUSTER>;
/// The rows of A and B of a tile.
type StagesA<T> = <Wide as Tiling<T>>::SmemA;
type StagesB<T> = <Wide as Tiling<T>>::SmemB;

impl<T: Grouped, const CLUSTER: u32> Fill<STAGES, CLUSTER> for FillPair<T, CLUSTER> {
    type Operands = Self;
    type A = T;
    type B = T;
    type StagesA = StagesA<T>;
    type StagesB = StagesB<T>;
    /// A from the tile's first row on.
    type Tile = TmaTensor<CopyA<T, Wide>, 3>;
    const BYTES: u32 = CopyA::<T, Wide>::BYTES + CopyPair::<T, CLUSTER>::BYTES;

    #[inline(always)]
    fn new(operands: Self) -> Self {
        operands
    }

    #[inline(always)]
    unsafe fn tile(&mut self, tile: &WorkTile) -> Self::Tile {
        // SAFETY: the ends of the groups are readable.
        unsafe { self.a.rows_of(tile, const { GatedLoop::<T, CLUSTER>::TILE.0 }) }
    }

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn load(
        &self,
        gA: &Self::Tile,
        tile: &WorkTile,
        k: u32,
        (sA, sB): (SharedTensor<T, StagesA<T>>, SharedTensor<T, StagesB<T>>),
        filling: &Filling,
    ) {
        let (load_a, load_b) = (CopyA::<T, Wide>::get_slice(), CopyPair::<T, CLUSTER>::get_slice());
        let gB = load_b.partition_s(self.b.at([0, tile.n, k, tile.batch]));
        // SAFETY: `Pair` names the modes of the same stages. The stage is free and expects the
        // bytes of both tiles, whose maps are those of the kernel's contract.
        unsafe {
            let sB = SharedArray::<T, Pair<{ STAGES as i64 }>>::at(sB.address_of((0u32, 0u32, 0u32)));
            let (sA, sB) = filling.of((sA, sB)); // (128, 64), (2, 128, 64)
            load_a.copy(gA.at([0, k, 0]), sA, filling);
            load_b.copy(gB, load_b.partition_d(sB), filling);
        }
    }

    #[inline(always)]
    unsafe fn rows(&self, tile: &WorkTile) -> u32 {
        // SAFETY: the ends of the groups are readable.
        unsafe { self.a.rows(tile, const { GatedLoop::<T, CLUSTER>::TILE.0 }) }
    }
}

/// `J` of a tile's two halves, to the rows of its group.
#[derive(Clone, Copy)]
pub struct Joined<T: Element, J> {
    target: Target<T>,
    groups: Groups,
    join: PhantomData<J>,
}

impl<T: Paired, J: Join, M: Mainloop<Accumulator = f32>> Sink<M> for Joined<T, J>
where
    f32: Convert<T>,
{
    type Storage = ();

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn store(&self, tCrC: &Accumulators<M>, (): &(), tile: &WorkTile, team: &Team, _: &mut M) {
        const { assert!(M::TILE.1 == 2 * COLUMNS && Accumulators::<M>::SIZE == 2 * COLUMNS as usize / 2) };
        // SAFETY: the ends are readable.
        let (first, left) = unsafe { self.groups.of_tile(tile, M::TILE.0) };
        let row = first + 64 * team.warpgroup() + team.within_warpgroup() / 32 * 16;
        let part = Part { first: (row, tile.n * COLUMNS), rows: first + left, blocks: COLUMNS / 8 };
        // The accumulators of the up projection follow those of the gate.
        let values = |block: u32, below: u32| {
            let (at, up) = ((4 * block + 2 * below) as usize, COLUMNS as usize / 2);
            J::join([tCrC[at], tCrC[at + 1]], [tCrC[at + up], tCrC[at + up + 1]])
        };
        // SAFETY: the target has the rows, each written by one warp.
        unsafe { store(&self.target, part, values) };
    }
}

/// `c[rows of g] = J(a[rows of g] gate[g]^T, a[rows of g] up[g]^T)` for each group g, by a
/// persistent grid of clusters of `CLUSTER` blocks.
///
/// # Safety
/// The maps are of (M, K, 1), built by [`CopyA`], and of (2, N, K, groups), built by [`CopyPair`],
/// in memory of the device. There is an end for each group, in nondecreasing order, and groups are
/// not padded. `target` has the groups' rows, which overlap no operand; its columns may be more
/// than N, up to the next multiple of 8.
#[kernel(
    threads = GatedLoop::<T, CLUSTER>::THREADS,
    min_blocks = 1,
    shared = StorageOf<GatedLoop<T, CLUSTER>, Joined<T, J>>,
    instances = (
        gated_bf16_pairs<bf16, SwiGlu, 2>,
        gated_bf16<bf16, SwiGlu, 1>,
        gated_f16_pairs<f16, SwiGlu, 2>,
        gated_f16<f16, SwiGlu, 1>
    ),
    table = GatedKernels
)]
pub unsafe fn gated<T: Grouped, J: Join, const CLUSTER: u32>(
    a: TensorMap,
    b: TensorMap,
    target: Target<T>,
    groups: Groups,
    k: u32,
    band: u32,
) where
    f32: Convert<T>,
{
    let fill = FillPair::new(CopyA::<T, Wide>::tensor(&a), CopyPair::<T, CLUSTER>::tensor(&b), groups);
    let scheduler = GroupTiles::<GatedLoop<T, CLUSTER>>::new(groups, (2 * target.columns, k), band);
    let sink = Joined::<T, J> { target, groups, join: PhantomData };
    gemm_warp_specialised::<GatedLoop<T, CLUSTER>, _, _, _>(fill, scheduler, (), sink);
}
