//! Gated products on Hopper: the mainloop of the first product of experts, for one group of rows.
#![allow(non_snake_case, reason = "CuTe's names")]

use super::join::{Join, Part, SwiGlu, store};
use crate::grouped::kernel::{CopyA, Grouped, Wide};
use crate::moe::gated::{COLUMNS, CopyPair, FillPair, GatedLoop};
use core::marker::PhantomData;
use moye_device::collective::*;
use moye_device::prelude::*;

/// The sink: `J` of a tile's two halves.
#[derive(Clone, Copy)]
pub struct Joined<T: Element, J> {
    target: Target<T>,
    rows: u32,
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
        let row = tile.m * M::TILE.0 + 64 * team.warpgroup() + team.within_warpgroup() / 32 * 16;
        let part = Part { first: (row, tile.n * COLUMNS), rows: self.rows, blocks: COLUMNS / 8 };
        // The accumulators of the up projection follow those of the gate.
        let values = |block: u32, below: u32| {
            let (at, up) = ((4 * block + 2 * below) as usize, COLUMNS as usize / 2);
            J::join([tCrC[at], tCrC[at + 1]], [tCrC[at + up], tCrC[at + up + 1]])
        };
        // SAFETY: the target has the rows, each of which is one warp's.
        unsafe { store(&self.target, part, values) };
    }
}

/// `c = J(a gate^T, a up^T)` by a persistent grid of clusters of `CLUSTER` blocks.
///
/// # Safety
/// The maps are of (M, K, 1), made by [`CopyA`], and of (2, N, K, 1), made by [`CopyPair`], in
/// memory of the device. `target` has `m` rows, which overlap no operand.
#[kernel(
    threads = GatedLoop::<T, CLUSTER>::THREADS,
    min_blocks = 1,
    shared = StorageOf<GatedLoop<T, CLUSTER>, Joined<T, J>>,
    instances = (
        linear_gated_bf16_pairs<bf16, SwiGlu, 2>,
        linear_gated_bf16<bf16, SwiGlu, 1>,
        linear_gated_f16_pairs<f16, SwiGlu, 2>,
        linear_gated_f16<f16, SwiGlu, 1>
    ),
    table = GatedKernels
)]
pub unsafe fn linear_gated<T: Grouped, J: Join, const CLUSTER: u32>(
    a: TensorMap,
    b: TensorMap,
    target: Target<T>,
    m: u32,
    k: u32,
    band: u32,
) where
    f32: Convert<T>,
{
    let rows = Groups::one(m);
    let fill = FillPair::new(CopyA::<T, Wide>::tensor(&a), CopyPair::<T, CLUSTER>::tensor(&b), rows);
    let scheduler = GroupTiles::<GatedLoop<T, CLUSTER>>::new(rows, (2 * target.columns, k), band);
    let sink = Joined::<T, J> { target, rows: m, join: PhantomData };
    gemm_warp_specialised::<GatedLoop<T, CLUSTER>, _, _, _>(fill, scheduler, (), sink);
}
