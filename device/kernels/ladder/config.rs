//! How a step of the ladder is tiled, as a type, and what all steps start from.

use super::checks;
use moye_device::arch::block_idx;
use moye_device::arch::mma::Registers;
use moye_device::atom::mma::{AddsInPlace, MmaAtom};
use moye_device::atom::{StaticTiledCopy, StaticTiledMma};
use moye_device::memory::{Global, GlobalMut, SharedArray};
use moye_device::tensor::{
    Aligned, All, Along, GlobalTensor, IdentityOf, Matrix, StaticLayout, Strides, UnitStride,
};

/// A step's tiles, where they lie, and who copies and multiplies what of them. All elements are f32.
pub trait Tiling: Sized {
    /// A's fast axis and alignment.
    type StridesA: Leading;
    /// B's fast axis and alignment.
    type StridesB: Leading;
    /// A block's tile of A, (BLK_M, BLK_K).
    type TileA: StaticLayout;
    /// A block's tile of B, (BLK_N, BLK_K).
    type TileB: StaticLayout;
    /// A block's tile of C, (BLK_M, BLK_N).
    type TileC: StaticLayout;
    /// A in shared memory: (BLK_M, BLK_K), or (BLK_M, BLK_K, PIPE).
    type SmemA: StaticLayout;
    /// B in shared memory: (BLK_N, BLK_K), or (BLK_N, BLK_K, PIPE).
    type SmemB: StaticLayout;
    /// A from global memory towards shared memory.
    type LoadA: StaticTiledCopy<Element = f32>;
    /// B from global memory towards shared memory.
    type LoadB: StaticTiledCopy<Element = f32>;
    /// A thread's registers of C for one atom.
    type Sums: Registers;
    /// The product.
    type Mma: StaticTiledMma<
        Atom: MmaAtom<C = f32, RegistersC = Self::Sums, RegistersD = Self::Sums> + AddsInPlace,
    >;
}

/// A step whose operands are read into fragments before they are multiplied.
pub trait Fragments: Tiling {
    /// A from shared memory to fragments.
    type ReadA: StaticTiledCopy<Element = f32>;
    /// B from shared memory to fragments.
    type ReadB: StaticTiledCopy<Element = f32>;
}

/// What a block keeps in shared memory: a tile of A and one of B, or the stages of both.
pub type Storage<G> = (SharedArray<f32, <G as Tiling>::SmemA>, SharedArray<f32, <G as Tiling>::SmemB>);

/// Strides made of a leading dimension.
pub trait Leading: Strides {
    /// The strides of this leading dimension, in elements.
    fn of(leading_dimension: i64) -> Self;
}

impl<const AXIS: usize> Leading for UnitStride<AXIS> {
    #[inline(always)]
    fn of(leading_dimension: i64) -> Self {
        Self(leading_dimension)
    }
}

impl<S: Leading, const BYTES: usize> Leading for Aligned<S, BYTES> {
    #[inline(always)]
    fn of(leading_dimension: i64) -> Self {
        Self(S::of(leading_dimension))
    }
}

/// C is written element by element; M is its fast axis.
pub type StridesC = UnitStride<0>;

/// The tiles of an operand that a block needs, (BLK_M, BLK_K, k).
type OperandTiles<S, T> = GlobalTensor<Global<f32>, S, IdentityOf<T>, Along<1>>;
/// A block's tile of C, (BLK_M, BLK_N).
type TileOfC<T> = GlobalTensor<GlobalMut<f32>, StridesC, IdentityOf<T>>;

/// The operands of a product: pointers, extents, and leading dimensions in elements.
pub struct Problem {
    /// `(M, K)`
    pub a: Global<f32>,
    /// `(N, K)`
    pub b: Global<f32>,
    /// `(M, N)`
    pub c: GlobalMut<f32>,
    /// `(M, N, K)`
    pub shape: (u32, u32, u32),
    /// Of A, B and C.
    pub leading: [i64; 3],
}

impl Problem {
    /// What this block multiplies and writes: `g_a` (BLK_M, BLK_K, k), `g_b` (BLK_N, BLK_K, k) and `g_c` (BLK_M, BLK_N). Block
    /// `(x, y)` has tile `(x, y)` of C.
    #[inline(always)]
    #[allow(clippy::type_complexity, reason = "three tensors, each named by an alias")]
    pub fn tiles<G: Tiling>(
        self,
    ) -> (OperandTiles<G::StridesA, G::TileA>, OperandTiles<G::StridesB, G::TileB>, TileOfC<G::TileC>) {
        const { checks::tiling::<G>() };
        let block = block_idx();
        let (m, n, k) = self.shape;
        let [lda, ldb, ldc] = self.leading;
        let m_a = Matrix::new(self.a, (m, k), G::StridesA::of(lda)); // (M, K)
        let m_b = Matrix::new(self.b, (n, k), G::StridesB::of(ldb)); // (N, K)
        let m_c = Matrix::new(self.c, (m, n), StridesC::of(ldc)); // (M, N)
        (
            m_a.local_tile::<G::TileA, _>((block.x, All)),
            m_b.local_tile::<G::TileB, _>((block.y, All)),
            m_c.local_tile::<G::TileC, _>((block.x, block.y)),
        )
    }
}

/// A kernel of the ladder: `$body` in the tiling `$tiling`, with the parameters and the contract that all steps have.
macro_rules! entry {
    (
        $(#[$doc:meta])*
        $name:ident = $body:ident::<$tiling:ty>, threads = $threads:literal, min_blocks = $blocks:literal, $alignment:literal
    ) => {
        #[cfg(feature = "ladder")]
        $(#[$doc])*
        ///
        /// # Safety
        /// The matrices lie in memory of the device inside the buffers that the pointers come from; `c` overlaps neither of the
        #[doc = concat!("others. ", $alignment)]
        /// Each extent is at most 2^31 - 128.
        #[moye_device::kernel(threads = $threads, min_blocks = $blocks, shared = crate::ladder::Storage<$tiling>)]
        pub unsafe fn $name(
            a: moye_device::memory::Global<f32>,
            b: moye_device::memory::Global<f32>,
            c: moye_device::memory::GlobalMut<f32>,
            m: u32,
            n: u32,
            k: u32,
            lda: i64,
            ldb: i64,
            ldc: i64,
        ) {
            const { assert!(<<$tiling as crate::ladder::Tiling>::Mma as moye_device::atom::StaticTiledMma>::MMA.threads() == $threads) };
            let problem =
                crate::ladder::Problem { a, b, c, shape: (m, n, k), leading: [lda, ldb, ldc] };
            // SAFETY: the caller's contract.
            unsafe { $body::<$tiling>(problem) }
        }
    };
}
pub(super) use entry;
