//! The common part of a tiled MMA's partitions of an operand, computed once: a constant of a
//! generic type is evaluated for every instance of it, and the algebra takes most of the time.

use super::{OperandKind, StaticTiledMma};
use crate::layout::{Layout, Tiler};
use crate::tensor::StaticLayout;
use crate::tiling::TilingError;
use core::marker::PhantomData;

/// A tensor of layout `L`, the operand `O` of the tiled MMA `M`.
pub(super) struct Cut<L, M, O>(PhantomData<(L, M, O)>);

impl<M: StaticTiledMma> Cut<(), M, ()> {
    /// The common part for all operands: thread to `(V, M, N, K)`.
    pub const COORDINATES: Result<Layout, TilingError> = M::MMA.tiling().coordinates();
}

impl<M: StaticTiledMma, O: OperandKind> Cut<(), M, O> {
    /// The common part for all tensors: `(V, (THR_0, THR_1))` to `(V, M, N, K)`.
    pub const ALL_MODES: Tiler = M::MMA.tiling().with_all_modes(O::OPERAND);
}

impl<L: StaticLayout, M: StaticTiledMma, O: OperandKind> Cut<L, M, O> {
    /// `((V, (THR_0, THR_1)), (value, (REST_0, REST_1)))`.
    pub const PARTS: Result<Layout, TilingError> = M::MMA.tiling().thrfrg(O::OPERAND, L::LAYOUT);
}
