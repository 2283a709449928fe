//! The methods of a slice of a tiled MMA: fragments, products, coordinates.

use super::kernel::{
    FragmentOf, OfA, OfB, OfC, OperandKind, PartitionMma, StaticTiledMma, ThrMma, ThreadMma, same_width,
};
use super::partition::fragment_of;
use crate::algorithm::{AddsInPlace, gemm_tiled};
use crate::arch::Fma;
use crate::atom::mma::MmaAtom;
use crate::layout::Layout;
use crate::memory::Storable;
use crate::tensor::{
    CoordinateTensor, Engine, Fragment, IdentityOf, Input, OfTile, Output, RegistersRef, Reordered,
    StaticLayout, Tensor, identity_tensor, same_threads,
};
use crate::tiling::or_raise;
use core::marker::PhantomData;

/// The layout of a thread's fragment of one stage of an operand: of the first three modes
/// `(MMA, MMA_M, MMA_K)` of its part.
pub struct StageOf<P, O>(PhantomData<(P, O)>);

impl<P, O> Clone for StageOf<P, O> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<P, O> Copy for StageOf<P, O> {}

impl<P: StaticLayout, O: OperandKind> StaticLayout for StageOf<P, O> {
    const LAYOUT: Layout = {
        let modes = if P::LAYOUT.rank() > 3 { 3 } else { P::LAYOUT.rank() };
        or_raise!(fragment_of(O::OPERAND, &Ok(P::LAYOUT.take(0, modes))))
    };
}

macro_rules! fragments {
    ($($(#[$doc:meta])* $name:ident $kind:ident;)+) => { $(
        $(#[$doc])*
        #[inline(always)]
        pub fn $name<E: Engine, L: StaticLayout>(
            self,
            _part: &Tensor<E, PartitionMma<L, M, $kind>>,
        ) -> Fragment<E::Element, StageOf<PartitionMma<L, M, $kind>, $kind>> {
            const { same_width::<E::Element, M::Atom, $kind>() };
            Fragment::to_be_filled()
        }
    )+ };
}

impl<M: StaticTiledMma<Atom: MmaAtom>> ThrMma<M> {
    fragments! {
        /// A fragment, zero, for a part of A: `(MMA, MMA_M, MMA_K)`. A fourth mode of the part, its
        /// stages, is left out.
        ///
        /// In the simulator the use of an element is a fault that neither was written nor was left
        /// out by a copy's predicate.
        fragment_a OfA;
        /// A fragment, zero, for a part of B: `(MMA, MMA_N, MMA_K)`. A fourth mode of the part, its
        /// stages, is left out.
        ///
        /// In the simulator the use of an element is a fault that neither was written nor was left
        /// out by a copy's predicate.
        fragment_b OfB;
    }

    /// A zeroed accumulator fragment for a partition of C: `(MMA, MMA_M, MMA_N)`. Its element type
    /// is the atom's accumulator type, whatever the tile in memory has.
    #[inline(always)]
    pub fn fragment_c<E: Engine, L: StaticLayout>(
        self,
        _part: &Tensor<E, PartitionMma<L, M, OfC>>,
    ) -> Fragment<<M::Atom as MmaAtom>::C, FragmentOf<L, M, OfC>>
    where
        <M::Atom as MmaAtom>::C: Fma,
    {
        Fragment::filled(Fma::ZERO)
    }

    /// Adds the product of `a` and `b` to the accumulator `c` by the atom. See [`gemm_tiled`].
    ///
    /// # Safety
    /// As [`gemm_tiled`].
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn gemm<C: Output, A: Input, B: Input>(self, mut c: C, a: A, b: B)
    where
        M: StaticTiledMma<Atom: AddsInPlace>,
    {
        // SAFETY: the caller's contract.
        unsafe { gemm_tiled(M::default(), a.input(), b.input(), c.output()) }
    }
}

impl<M: StaticTiledMma> ThrMma<M> {
    /// The coordinates of the elements of this thread's accumulator, index by index, in the matrix
    /// in which its tile starts at `first`: `mma.coordinates(&scores, (block.x * 64, tile * 64))`.
    #[inline(always)]
    pub fn coordinates<T: Storable, L: StaticLayout, O: OperandKind>(
        self,
        _fragment: &Fragment<T, FragmentOf<L, M, O>>,
        first: (u32, u32),
    ) -> CoordinateTensor<T, PartitionMma<IdentityOf<L>, M, O>> {
        let mut engine = identity_tensor::<T, L>(first).into_engine();
        engine.shift::<ThreadMma<IdentityOf<L>, M, O>>(self.thread());
        Tensor::from_engine(engine)
    }

    /// An accumulator of another product as the operand A of this one, `(MMA, MMA_M, MMA_K)`: its
    /// columns are this product's K. The registers stay where they are;
    /// [`convert`](Tensor::convert) makes elements of the operand of them.
    ///
    /// Accumulators whose thread-value layout differs from the operand's do not compile.
    #[inline(always)]
    pub fn as_a<T: Storable, L: OfTile>(
        self,
        accumulator: &Fragment<T, L>,
    ) -> Tensor<RegistersRef<'_, T>, Reordered<L, PartitionMma<IdentityOf<L::Tile>, M, OfA>>> {
        const { same_threads(&ThreadMma::<IdentityOf<L::Tile>, M, OfA>::LAYOUT, &L::Threads::LAYOUT) };
        accumulator.view_as()
    }
}
