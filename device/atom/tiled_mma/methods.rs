//! The methods of a slice of a tiled MMA: fragments, products, coordinates.

use super::kernel::{
    AccumulatorOf, FragmentOf, OfA, OfB, OfC, OperandKind, PartitionMma, StaticTiledMma, ThrMma, ThreadMma,
    same_width,
};
use super::partition::fragment_of;
use crate::algorithm::{gemm_tiled_into, results_fit};
use crate::arch::Fma;
use crate::atom::mma::MmaAtom;
use crate::atom::operands::{FragmentA, FragmentB, MakeFragment, Multiplies, Operands};
use crate::layout::Layout;
use crate::memory::Storable;
use crate::tensor::{
    CoordinateTensor, Engine, Fragment, IdentityOf, Input, Movable, OfTile, Output, RegistersRef, Reordered,
    StaticLayout, Tensor, identity_tensor, one_tile, same_threads,
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
    /// `d(m, n) = c(m, n) + a(m, k) * b(n, k)`, summed over all `k`: [`gemm`](Self::gemm) with a
    /// separate result, CuTe's `gemm(tiled_mma, d, a, b, c)`.
    ///
    /// `d` has the modes of `c`, and the atom's result type:
    /// [`partition_fragment_d`](Self::partition_fragment_d) builds it,
    /// [`partition_d`](Self::partition_d) returns the places of its elements. The first of several
    /// steps along K adds to `c` and the others to `d`, in the type of `d`: an atom from f16 to f32
    /// does not round between them.
    ///
    /// ```
    /// use half::f16;
    /// use moye_device::algorithm::copy;
    /// use moye_device::arch::lane_id;
    /// use moye_device::atom::mma::SM70_8x8x4_F32F16F16F16_TN;
    /// use moye_device::atom::{StaticTiledMma, TiledMma};
    /// use moye_device::layout::layout;
    /// use moye_device::memory::{Global, GlobalMut};
    /// use moye_device::tensor::{Matrix, UnitStride};
    /// use moye_device::{static_layout, tiled_mma};
    ///
    /// tiled_mma! {
    ///     /// The four quad pairs of a warp, two by two, which have f16 and want f32.
    ///     Mixed: TiledMma<SM70_8x8x4_F32F16F16F16_TN> = TiledMma::new(layout!((2, 2, 1)));
    /// }
    /// static_layout! {
    ///     TileAb = layout!((16, 12));
    ///     TileCd = layout!((16, 16));
    /// }
    ///
    /// /// `D = A B + C`, 16 x 16 x 12, by a warp.
    /// fn kernel(a: Global<f16>, b: Global<f16>, c: Global<f16>, d: GlobalMut<f32>) {
    ///     let mma = Mixed::get_slice(lane_id());
    ///     let (ab, cd) = (UnitStride::<1>(12), UnitStride::<0>(16));
    ///     let gA = Matrix::new(a, (16, 12), ab).local_tile::<TileAb, _>((0, 0)); // (BLK_M, BLK_K)
    ///     let gB = Matrix::new(b, (16, 12), ab).local_tile::<TileAb, _>((0, 0)); // (BLK_N, BLK_K)
    ///     let gC = Matrix::new(c, (16, 16), cd).local_tile::<TileCd, _>((0, 0)); // (BLK_M, BLK_N)
    ///     let gD = Matrix::new(d, (16, 16), cd).local_tile::<TileCd, _>((0, 0)); // (BLK_M, BLK_N)
    ///     // SAFETY: fragments are written before they are read; an element of D has one thread.
    ///     unsafe {
    ///         let mut tCrC = mma.partition_fragment_c(&gC); // (MMA, MMA_M, MMA_N), f16
    ///         let mut tCrD = mma.partition_fragment_d(&gD); // (MMA, MMA_M, MMA_N), f32
    ///         copy(&mma.partition_c(gC), &mut tCrC);
    ///         // Three steps along K.
    ///         mma.gemm_into(&mut tCrD, mma.partition_a(gA), mma.partition_b(gB), &tCrC);
    ///         copy(&tCrD, &mut mma.partition_d(gD));
    ///     }
    /// }
    /// # use moye_sim::{GlobalMemory, Launch};
    /// # let memory = GlobalMemory::new();
    /// # let bytes = [192 * 2, 192 * 2, 256 * 2, 256 * 4];
    /// # let [a, b, c, d] = bytes.map(|bytes| memory.alloc(bytes, "operand").unwrap());
    /// # let halves = |f: &dyn Fn(usize) -> f32, count: usize| -> Vec<u8> {
    /// #     (0..count).flat_map(|i| f16::from_f32(f(i)).to_le_bytes()).collect()
    /// # };
    /// # let (fa, fb) = (|i: usize| (i * 7 % 13) as f32 - 6.0, |i: usize| (i * 5 % 11) as f32 - 5.0);
    /// # let fc = |i: usize| 2048.0 + 2.0 * i as f32;
    /// # a.write(0, &halves(&fa, 192)).unwrap();
    /// # b.write(0, &halves(&fb, 192)).unwrap();
    /// # c.write(0, &halves(&fc, 256)).unwrap();
    /// # let at = [a.address(), b.address(), c.address(), d.address()];
    /// # Launch::new("mixed", 1, 32, &memory)
    /// #     .run(&|| {
    /// #         kernel(
    /// #             Global::from_address(at[0]),
    /// #             Global::from_address(at[1]),
    /// #             Global::from_address(at[2]),
    /// #             GlobalMut::from_address(at[3]),
    /// #         )
    /// #     })
    /// #     .unwrap();
    /// # let mut bytes = vec![0; 256 * 4];
    /// # d.read(0, &mut bytes).unwrap();
    /// # for (i, element) in bytes.chunks(4).enumerate() {
    /// #     let (m, n) = (i % 16, i / 16);
    /// #     let want = (0..12).fold(fc(i), |sum, k| sum + fa(12 * m + k) * fb(12 * n + k));
    /// #     assert_eq!(f32::from_le_bytes(element.try_into().unwrap()), want, "({m}, {n})");
    /// # }
    /// ```
    ///
    /// # Safety
    /// Same contract as [`gemm`](Self::gemm) for `a` and `b`; `d` is readable and writable, and no
    /// other thread accesses its elements meanwhile; `c` is readable, and no other thread writes
    /// it.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn gemm_into<D: Output, A: Input, B: Input, C: Input>(self, mut d: D, a: A, b: B, c: C) {
        const { results_fit::<M, D, A, B, C>() };
        // SAFETY: operands and results may be accessed, and all lanes execute this.
        unsafe { gemm_tiled_into(M::default(), d.output(), a.input(), b.input(), c.input()) }
    }

    /// A zeroed accumulator fragment for a partition of C: `(MMA, MMA_M, MMA_N)`. Its elements have
    /// the accumulator's type, independent of the tile's.
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
