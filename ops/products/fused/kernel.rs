//! Products on Hopper with a fused epilogue: the mainloop is that of products by group, and an
//! [`End`] provides the epilogue and the sink.
#![allow(non_snake_case, reason = "CuTe's names")]

use super::qkv::Qkv;
use super::quantised::Scaled8;
use super::residual::WithResidual;
use crate::grouped::kernel::{CopyA, CopyB, FillGroup, Grouped, Loop, Square, Tiling, Wide};
use moye_device::collective::*;
use moye_device::number::F8E4M3;
use moye_device::prelude::*;

/// The epilogue and the sink of a product of elements `T` with the mainloop `M`.
pub trait End<T, M: Mainloop>: KernelParam {
    /// Element type of C.
    type Output: Element;
    /// Epilogue applied to the accumulators.
    type Epilogue: TileEpilogue<M>;
    /// Sink of the tile.
    type Sink: Sink<M>;

    /// The epilogue.
    fn epilogue(&self, extents: Extents) -> Self::Epilogue;

    /// The sink to `target`, with its map `c` if it has one.
    fn sink(&self, c: &TensorMap, target: Target<Self::Output>, extents: Extents) -> Self::Sink;
}

/// M, N and K, and the rows of tiles in a band of the scheduler's.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, KernelParam)]
pub struct Extents {
    /// Rows of A.
    pub m: u32,
    /// Rows of B.
    pub n: u32,
    /// Elements of a row.
    pub k: u32,
    /// Rows of tiles in a band.
    pub band: u32,
}

/// `c = end(a b^T)` by a persistent grid of clusters of `CLUSTER` blocks.
///
/// # Safety
/// The maps are of (M, K, 1) and (N, K, 1) in memory of the device, built by [`CopyA`] and
/// [`CopyB`]. The map of C is by [`StoreC`], of (M, N), and needed if `target.tensor` is set. The
/// memory that the end names has the product's rows and columns; what it writes overlaps no
/// operand.
#[kernel(
    threads = Loop::<T, C, STAGES, CLUSTER>::THREADS,
    min_blocks = 1,
    shared = StorageOf<Loop<T, C, STAGES, CLUSTER>, <E as End<T, Loop<T, C, STAGES, CLUSTER>>>::Sink>,
    instances = (
        linear_residual_bf16_128x256<bf16, bf16, Wide, WithResidual, 4, 2>,
        linear_residual_bf16_128x128<bf16, bf16, Square, WithResidual, 6, 1>,
        linear_residual_f16_128x256<f16, f16, Wide, WithResidual, 4, 2>,
        linear_residual_f16_128x128<f16, f16, Square, WithResidual, 6, 1>,
        linear_qkv_bf16_128x256<bf16, bf16, Wide, Qkv, 4, 2>,
        linear_qkv_bf16_128x128<bf16, bf16, Square, Qkv, 6, 1>,
        linear_qkv_f16_128x256<f16, f16, Wide, Qkv, 4, 2>,
        linear_qkv_f16_128x128<f16, f16, Square, Qkv, 6, 1>,
        linear_e4m3_bf16_128x256<bf16, F8E4M3, Wide, Scaled8, 4, 2>,
        linear_e4m3_bf16_128x128<bf16, F8E4M3, Square, Scaled8, 6, 1>,
        linear_e4m3_f16_128x256<f16, F8E4M3, Wide, Scaled8, 4, 2>,
        linear_e4m3_f16_128x128<f16, F8E4M3, Square, Scaled8, 6, 1>
    )
)]
pub unsafe fn fused<T: Grouped, O: Element, C: Tiling<T>, E, const STAGES: u32, const CLUSTER: u32>(
    a: TensorMap,
    b: TensorMap,
    c: TensorMap,
    target: Target<O>,
    end: E,
    extents: Extents,
) where
    E: End<T, Loop<T, C, STAGES, CLUSTER>, Output = O>,
{
    let rows = Groups::one(extents.m);
    let (a, b) = (CopyA::<T, C>::tensor(&a), CopyB::<T, C, CLUSTER>::tensor(&b));
    let scheduler =
        GroupTiles::<Loop<T, C, STAGES, CLUSTER>>::new(rows, (extents.n, extents.k), extents.band);
    let fill = FillGroup(BySpans::new(a, rows), b);
    let (epilogue, sink) = (end.epilogue(extents), end.sink(&c, target, extents));
    gemm_warp_specialised::<Loop<T, C, STAGES, CLUSTER>, _, _, _>(fill, scheduler, epilogue, sink);
}
