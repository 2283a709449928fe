//! The methods of a slice of a tiled MMA: fragments, products, coordinates.

use super::kernel::{
    AccumulatorOf, FragmentOf, OfA, OfB, OfC, OperandKind, PartitionMma, StaticTiledMma, ThrMma, ThreadMma,
    same_width,
};
use super::partition::fragment_of;
use crate::arch::Fma;
use crate::atom::mma::MmaAtom;
use crate::atom::operands::{FragmentA, FragmentB, MakeFragment, Multiplies, Operands};
use crate::layout::Layout;
use crate::memory::Storable;
use crate::tensor::{
    CoordinateTensor, Engine, Fragment, IdentityOf, Movable, OfTile, RegistersRef, Reordered, StaticLayout,
    Tensor, identity_tensor, one_tile, same_threads,
};
use crate::tiling::or_raise;
use core::marker::PhantomData;

/// The layout of a thread's fragment of one stage of an operand: the first three modes
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
    const WHOLE: () = P::WHOLE;
}

impl<M: StaticTiledMma> ThrMma<M> {
    /// The operand A of a product, for a part of A.
    ///
    /// For an instruction that takes registers it is a fragment of zeros, `(MMA, MMA_M, MMA_K)`; a
    /// fourth mode of the part, its stages, is dropped. In the simulator, using an element that was
    /// neither written nor excluded by a copy's predicate is a fault.
    ///
    /// For `wgmma` with A in shared memory it is a tensor of matrix descriptors,
    /// `(1, MMA_M, MMA_K, ...)`, with all stages. The part must be of a whole array, or of one of
    /// its stages. In a kernel whose warpgroups divide M, slice the tiled MMA by the warpgroup's
    /// first thread (`get_slice(128 * warpgroup)`), which is uniform across the warp: descriptors
    /// are in uniform registers.
    #[inline(always)]
    #[must_use]
    pub fn fragment_a<E: Engine, L: StaticLayout>(
        self,
        part: &Tensor<E, PartitionMma<L, M, OfA>>,
    ) -> FragmentA<M, OfA, E, L>
    where
        M::Atom: Operands<FormA: MakeFragment<M, OfA, E, L>>,
    {
        const { one_tile("fragment_a", E::OPEN_AXES, &L::LAYOUT) };
        const { same_width::<E::Element, M::Atom, OfA>() };
        let () = <M::Atom as Operands>::FormA::CHECKED;
        <M::Atom as Operands>::FormA::make(part)
    }

    /// The operand B of a product, for a part of B: a fragment `(MMA, MMA_N, MMA_K)`, or for
    /// `wgmma` a tensor of matrix descriptors `(1, MMA_N, MMA_K, ...)`; see
    /// [`fragment_a`](Self::fragment_a).
    #[inline(always)]
    #[must_use]
    pub fn fragment_b<E: Engine, L: StaticLayout>(
        self,
        part: &Tensor<E, PartitionMma<L, M, OfB>>,
    ) -> FragmentB<M, OfB, E, L>
    where
        M::Atom: Operands<FormB: MakeFragment<M, OfB, E, L>>,
    {
        const { one_tile("fragment_b", E::OPEN_AXES, &L::LAYOUT) };
        const { same_width::<E::Element, M::Atom, OfB>() };
        let () = <M::Atom as Operands>::FormB::CHECKED;
        <M::Atom as Operands>::FormB::make(part)
    }

    /// An accumulator for this thread's part of a tile of the shape of `L`, all zeros:
    /// `(MMA, MMA_M, MMA_N)`.
    ///
    /// Its elements have the accumulator's type, independent of the tile's.
    #[inline(always)]
    #[must_use]
    pub fn accumulator<L: StaticLayout>(
        self,
    ) -> Fragment<<M::Atom as Operands>::Accumulator, AccumulatorOf<L, M>>
    where
        M::Atom: Operands<Accumulator: Fma>,
    {
        const { PartitionMma::<L, M, OfC>::WHOLE };
        Fragment::filled(Fma::ZERO)
    }

    /// Adds the product of `a` and `b` to the accumulator `c`, by the atom:
    /// `c(m, n) += a(m, k) * b(n, k)` over all `k`, of a thread's parts `(MMA, MMA_M, MMA_K)`,
    /// `(MMA, MMA_N, MMA_K)` and `(MMA, MMA_M, MMA_N)`. CuTe's `gemm(tiled_mma, a, b, c)`.
    ///
    /// For FMA or `mma.sync` the operands may be in registers, which are used in place, or in
    /// shared or global memory, from which each step along K loads its column once. Along K the
    /// atoms run in order; over M and N in serpentine order, so that consecutive atoms share an
    /// operand. The operands may also have fewer modes:
    ///
    /// | a | b | c |
    /// | --- | --- | --- |
    /// | `(V)` | `(V)` | `(V)` |
    /// | `(M)` | `(N)` | `(M, N)`, atoms of one value |
    /// | `(M, K)` | `(N, K)` | `(M, N)`, atoms of one value |
    /// | `(V, M)` | `(V, N)` | `(V, M, N)` |
    /// | `(V, M, K)` | `(V, N, K)` | `(V, M, N)` |
    ///
    /// The elements have the atom's types. f32 stands for tf32, its upper 19 bits, and an unsigned
    /// integer for the bits of a float; other types do not compile. Atoms whose D has another type
    /// than C (`SM70_8x8x4_F32F16F16F16_TN` and similar atoms) cannot work in place: use
    /// [`gemm_into`](Self::gemm_into), which takes two tensors.
    ///
    /// For `wgmma` it issues a batch of instructions and returns at once: [`wait`](Self::wait)
    /// waits for all but the youngest batches, and [`wait_for`](Self::wait_for) also returns the
    /// accumulator to the thread.
    ///
    /// ```
    /// use moye_device::prelude::*;
    ///
    /// static_layout! { Smem = layout!((16, 32):(32, 1)); } // (BLK_M, BLK_K)
    /// static_layout! { Tile = layout!((16, 16)); }
    /// tiled_mma! { Mma: TiledMma<SM80_16x8x16_F32F16F16F32_TN> = TiledMma::new(layout!((1, 1, 1))); }
    ///
    /// fn product(sA: SharedTensor<f16, Smem>, sB: SharedTensor<f16, Smem>) -> f32 {
    ///     let mma = Mma::get_slice(thread_idx().x);
    ///     let mut tCrC = mma.accumulator::<Tile>(); // (MMA, MMA_M, MMA_N)
    ///     // SAFETY: all lanes of the warp are here; the tiles were written, and a barrier followed.
    ///     unsafe { mma.gemm(&mut tCrC, mma.partition_a(sA), mma.partition_b(sB)) };
    ///     tCrC[(0, 0, 0)]
    /// }
    /// ```
    ///
    /// # Safety
    /// `a` and `b` are readable, and no other thread writes them meanwhile. `c` is readable and
    /// writable, and no other thread accesses its elements meanwhile. All lanes of the warp (for
    /// `wgmma`: all threads of the warpgroup, with the same operands in shared memory) execute this
    /// call together, on an architecture that has the instruction. For `wgmma` "meanwhile" ends
    /// with the wait, and until then nothing accesses the registers of `a` and `c`.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn gemm<C, A, B: Multiplies<M, A, C>>(self, c: C, a: A, b: B) {
        let () = B::CHECKED;
        // SAFETY: operands and accumulators may be accessed, and all lanes execute this.
        unsafe { b.multiply(a, c, true) }
    }

    /// [`gemm`](Self::gemm) that replaces `c`, whose previous elements have no effect: the first
    /// step of a product. For `wgmma` this is an operand of the instruction; other atoms clear `c`
    /// first.
    ///
    /// # Safety
    /// Same contract as [`gemm`](Self::gemm).
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn gemm_zero<C, A, B: Multiplies<M, A, C>>(self, c: C, a: A, b: B) {
        let () = B::CHECKED;
        // SAFETY: operands and accumulators may be accessed, and all lanes execute this.
        unsafe { b.multiply(a, c, false) }
    }
}

impl<M: StaticTiledMma<Atom: MmaAtom>> ThrMma<M> {
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
        const { one_tile("fragment_c", E::OPEN_AXES, &L::LAYOUT) };
        Fragment::filled(Fma::ZERO)
    }
}

impl<M: StaticTiledMma> ThrMma<M> {
    /// The coordinates of the elements of this thread's accumulator, index by index, in the matrix
    /// where its tile starts at `first`: `mma.coordinates(&scores, (block.x * 64, tile * 64))`.
    #[inline(always)]
    pub fn coordinates<T: Storable, L: StaticLayout, O: OperandKind>(
        self,
        _fragment: &Fragment<T, FragmentOf<L, M, O>>,
        first: (u32, u32),
    ) -> CoordinateTensor<T, PartitionMma<IdentityOf<L>, M, O>> {
        let mut engine = identity_tensor::<T, L, _>(first).into_engine();
        engine.shift::<ThreadMma<IdentityOf<L>, M, O>>(self.thread());
        Tensor::from_engine(engine)
    }

    /// An accumulator of another product as the operand A of this one, `(MMA, MMA_M, MMA_K)`: its
    /// columns are this product's K. The registers do not move; [`convert`](Tensor::convert)
    /// converts them to the operand's type.
    ///
    /// Accumulators whose thread-value layout differs from the operand's do not compile.
    #[inline(always)]
    pub fn as_a<T: Storable, L: OfTile>(
        self,
        accumulator: &Fragment<T, L>,
    ) -> Tensor<RegistersRef<'_, T>, Reordered<L, PartitionMma<IdentityOf<L::Tile>, M, OfA>>> {
        const { PartitionMma::<IdentityOf<L::Tile>, M, OfA>::WHOLE };
        const { same_threads(&ThreadMma::<IdentityOf<L::Tile>, M, OfA>::LAYOUT, &L::Threads::LAYOUT) };
        accumulator.view_as()
    }
}
