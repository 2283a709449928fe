//! How a product on tensor cores is tiled, as a type.

use crate::atom::{AccumulatorOf, StaticTiledCopy, StaticTiledMma};
use crate::memory::{Element, Global, GlobalMut, SharedArray};
use crate::tensor::{Fragment, GlobalTensor, IdentityOf, StaticLayout, Strides};

/// A configuration: the tiles, where they lie, and who copies and multiplies what of them.
pub trait MmaConfig: Sized {
    /// The elements of A and B.
    type Operand: Element;
    /// The elements that the atom accumulates.
    type Sum: Element;
    /// The elements of C.
    type Output: Element;
    /// What is known of A's strides.
    type StridesA: Strides;
    /// What is known of B's strides.
    type StridesB: Strides;
    /// What is known of C's strides.
    type StridesC: Strides;
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
    /// A from global to shared memory.
    type LoadA: StaticTiledCopy<Element = Self::Operand>;
    /// B from global to shared memory.
    type LoadB: StaticTiledCopy<Element = Self::Operand>;
    /// A from shared memory to fragments.
    type CopyA: StaticTiledCopy<Element = Self::Operand>;
    /// B from shared memory to fragments.
    type CopyB: StaticTiledCopy<Element = Self::Operand>;
    /// The product.
    type Mma: StaticTiledMma;
    /// What becomes of the accumulator.
    type Epilogue: Epilogue<Self>;
    /// Tiles in shared memory at the same time, 3 to 6.
    const STAGES: u32 = {
        let stages = Self::SmemA::LAYOUT.extent(2);
        assert!(
            stages >= 3 && stages <= 6 && stages == Self::SmemB::LAYOUT.extent(2),
            "the pipeline has 3 to 6 stages, as many of A as of B"
        );
        stages as u32
    };
}

/// What a block keeps in shared memory: the stages of A and of B.
pub type Storage<G> = (
    SharedArray<<G as MmaConfig>::Operand, <G as MmaConfig>::SmemA>,
    SharedArray<<G as MmaConfig>::Operand, <G as MmaConfig>::SmemB>,
);

/// The operands of a product: pointers, extents and strides in elements.
pub struct Problem<G: MmaConfig> {
    /// `(M, K)`
    pub a: Global<G::Operand>,
    /// `(N, K)`
    pub b: Global<G::Operand>,
    /// `(M, N)`
    pub c: GlobalMut<G::Output>,
    /// `(M, N, K)`
    pub shape: (u32, u32, u32),
    /// Of A.
    pub strides_a: G::StridesA,
    /// Of B.
    pub strides_b: G::StridesB,
    /// Of C.
    pub strides_c: G::StridesC,
}

/// Writes a block's tile of C.
pub trait Epilogue<G: MmaConfig> {
    /// Writes the accumulators `(MMA, MMA_M, MMA_N)` of thread `thread` to the tile `(BLK_M, BLK_N)`.
    ///
    /// # Safety
    /// All threads of the block come by together; none needs the stages in shared memory any more; the tile may be written
    /// and belongs to this block.
    unsafe fn store(
        sums: &Fragment<G::Sum, AccumulatorOf<G::TileC, G::Mma>>,
        tile: GlobalTensor<GlobalMut<G::Output>, G::StridesC, IdentityOf<G::TileC>>,
        thread: u32,
    );
}
