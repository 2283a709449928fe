//! The configuration of a product on tensor cores, as a type.

use super::arguments::Arguments;
use super::epilogue::Epilogue;
use super::load::Load;
use super::scalar::{Convertible, Scalar};
use moye_device::atom::{StaticTiledCopy, StaticTiledMma, TilingError};
use moye_device::memory::SharedArray;
use moye_device::tensor::{StaticLayout, Strides};

/// The tiling of a block: its tiles, their layouts in shared memory, and the copies and the product
/// of its threads.
pub trait Tiled: Sized + 'static {
    /// The element type of A and B.
    type Operand: moye_device::memory::Element;
    /// The accumulator's type.
    type Sum: Convertible<Self::Scalar>;
    /// The type of the epilogue's arithmetic.
    type Scalar: Scalar + Convertible<Self::Scalar>;
    /// The element type of C.
    type Output: Convertible<Self::Scalar>;
    /// A block's tile of A, (BLK_M, BLK_K).
    type TileA: StaticLayout;
    /// A block's tile of B, (BLK_N, BLK_K).
    type TileB: StaticLayout;
    /// A block's tile of C, (BLK_M, BLK_N).
    type TileC: StaticLayout;
    /// A's stages in shared memory, (BLK_M, BLK_K, PIPE).
    type SmemA: StaticLayout;
    /// B's stages in shared memory, (BLK_N, BLK_K, PIPE).
    type SmemB: StaticLayout;
    /// The copy of A from shared memory to fragments.
    type CopyA: StaticTiledCopy<Element = Self::Operand>;
    /// The copy of B from shared memory to fragments.
    type CopyB: StaticTiledCopy<Element = Self::Operand>;
    /// The product.
    type Mma: StaticTiledMma;
}

/// A configuration of the [mainloop](super::matmul): the tiling of a block, the copies to shared
/// memory, and the epilogue.
pub trait MmaConfig: Tiled {
    /// The static part of A's strides, along (M, K).
    type StridesA: Strides;
    /// The static part of B's strides, along (N, K).
    type StridesB: Strides;
    /// The copy of A from global to shared memory: [`Asynchronous`](super::Asynchronous), or
    /// [`Turned`](super::Turned).
    type LoadA: Load<Self::Operand, Self::StridesA, Self::TileA, Self::SmemA>;
    /// The copy of B from global to shared memory, one of the same two.
    type LoadB: Load<Self::Operand, Self::StridesB, Self::TileB, Self::SmemB>;
    /// How C is written: [`ThroughShared`](super::ThroughShared), [`Direct`](super::Direct), or
    /// beside the last products, [`ByParts`](super::ByParts); [`Visited`](super::Visited) with an
    /// [`Epilogue`](moye_device::collective::Epilogue) of your own.
    type Epilogue: Epilogue<Self>;
    /// The strides of a matrix with this leading dimension.
    fn strides_a(leading: i64) -> Self::StridesA;
    /// The strides of a matrix with this leading dimension.
    fn strides_b(leading: i64) -> Self::StridesB;
    /// Pipeline stages, 3 to 6.
    const STAGES: u32 = {
        let (stages, of_b) = (Self::SmemA::LAYOUT.extent(2), Self::SmemB::LAYOUT.extent(2));
        if stages < 3 || stages > 6 || stages != of_b {
            TilingError::of("MmaConfig")
                .str("shared memory has ")
                .int(stages)
                .str(" stages of A and ")
                .int(of_b)
                .str(" of B; the pipeline has 3 to 6, as many of A as of B")
                .raise();
        }
        stages as u32
    };
}

/// A block's shared memory: the stages of A and of B.
pub type Storage<G> = (
    SharedArray<<G as Tiled>::Operand, <G as Tiled>::SmemA>,
    SharedArray<<G as Tiled>::Operand, <G as Tiled>::SmemB>,
);

/// The arguments of a configuration's kernel.
pub type ArgumentsOf<G> = Arguments<<G as Tiled>::Operand, <G as Tiled>::Output, <G as Tiled>::Scalar>;
