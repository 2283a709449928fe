//! The configuration of a product, as a type.

use super::arguments::Arguments;
use super::mainloop::Loop;
use super::scalar::{Convertible, Scalar};
use super::sink::TileSink;
use moye_device::algorithm::{AddsInPlace, SharedToRegisters};
use moye_device::arch::{Convert, Fma};
use moye_device::atom::StaticTiledMma;
use moye_device::atom::mma::MmaAtom;
use moye_device::collective::{FixUp, Load, Sink, StorageOf, TileOf};
use moye_device::memory::Element;
use moye_device::tensor::{Aligned, Rank, SharedTensor, StaticLayout, Strides, UnitStride};

/// The tiling of a block: its stages in shared memory, its threads' reads and their MMA.
pub trait Tiled: Sized + 'static {
    /// The element type of A and B.
    type Operand: Element;
    /// The accumulator's type.
    type Sum: Convertible<Self::Scalar> + Fma + FixUp;
    /// The type of the epilogue's arithmetic.
    type Scalar: Scalar + Convertible<Self::Scalar> + Convert<Self::Sum> + Convert<Self::Output>;
    /// The element type of C.
    type Output: Convertible<Self::Scalar>;
    /// A's stages in shared memory, (BLK_M, BLK_K, PIPE).
    type SmemA: StaticLayout;
    /// B's stages in shared memory, (BLK_N, BLK_K, PIPE).
    type SmemB: StaticLayout;
    /// The copy of A from shared memory to fragments.
    type ReadA: SharedToRegisters<Element = Self::Operand>;
    /// The copy of B from shared memory to fragments.
    type ReadB: SharedToRegisters<Element = Self::Operand>;
    /// The MMA.
    type Mma: StaticTiledMma<Atom: MmaAtom<C = Self::Sum> + AddsInPlace>;
    /// BLK_M, BLK_N and BLK_K.
    const TILE: (u32, u32, u32) = (
        Self::SmemA::LAYOUT.extent(0) as u32,
        Self::SmemB::LAYOUT.extent(0) as u32,
        Self::SmemA::LAYOUT.extent(1) as u32,
    );
}

/// A block's tile of C, (BLK_M, BLK_N).
pub type TileC<G> = TileOf<<G as Tiled>::SmemA, <G as Tiled>::SmemB>;

/// A configuration of [`matmul`](super::matmul): the tiling of a block, the copies to shared
/// memory, and the sink.
pub trait MmaConfig: Tiled {
    /// The static part of A's strides, along (M, K).
    type StridesA: OfLeading;
    /// The static part of B's strides, along (N, K).
    type StridesB: OfLeading;
    /// The copy of A from global to shared memory: by `cp.async`, or a
    /// [`TransposedLoad`](moye_device::collective::TransposedLoad).
    type LoadA: Load<Self::Operand, Self::StridesA, Self::SmemA>;
    /// The copy of B from global to shared memory.
    type LoadB: Load<Self::Operand, Self::StridesB, Self::SmemB>;
    /// The sink: [`ThroughShared`](super::ThroughShared), [`Direct`](super::Direct), or
    /// beside the last products, [`ByParts`](super::ByParts).
    type Sink: TileSink + Sink<Loop<Self>>;
}

/// Strides of a matrix with a leading dimension.
pub trait OfLeading: Strides<Rank = Rank<2>> {
    /// The strides.
    fn of_leading(leading: i64) -> Self;
}

impl<const MODE: usize, const BYTES: usize> OfLeading for Aligned<UnitStride<MODE>, BYTES> {
    #[inline(always)]
    fn of_leading(leading: i64) -> Self {
        Aligned(UnitStride(leading))
    }
}

/// The shared memory of a block.
pub type Storage<G> = StorageOf<Loop<G>, <G as MmaConfig>::Sink>;

/// The stages of A and of B, (BLK_M, BLK_K, PIPE) and (BLK_N, BLK_K, PIPE).
pub type Stages<G> = (
    SharedTensor<<G as Tiled>::Operand, <G as Tiled>::SmemA>,
    SharedTensor<<G as Tiled>::Operand, <G as Tiled>::SmemB>,
);

/// The arguments of a configuration's kernel.
pub type ArgumentsOf<G> = Arguments<<G as Tiled>::Operand, <G as Tiled>::Output, <G as Tiled>::Scalar>;
