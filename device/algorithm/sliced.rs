//! Copies and products as methods of a thread's slice of a tiled copy or of a tiled MMA.

use super::{
    FromRegisters, ReadBy, TiledCall, ToRegisters, WrittenBy, copy_if, copy_tiled, gemm_tiled_into,
    results_fit,
};
use crate::atom::mma::MmaAtom;
use crate::atom::{RetileOf, StaticTiledCopy, StaticTiledMma, ThrCopy, ThrMma};
use crate::tensor::{Engine, Fragment, Input, Output, RegistersMut, RegistersRef, StaticLayout};

impl<C: StaticTiledCopy> ThrCopy<C> {
    /// Copies a thread's part of the source to its part of the destination by the atom, both
    /// partitioned by this copy: `(CPY, CPY_M, CPY_N, ...)`. CuTe's `copy(tiled_copy, src, dst)`.
    ///
    /// Elements outside of a matrix arrive as zeros and are not written. A `cp.async` is complete
    /// after [`cp_async_wait`](crate::arch::cp_async_wait).
    ///
    /// # Safety
    /// The source may be read and the destination written; no other thread writes elements of the
    /// source or touches those of the destination meanwhile (until the wait, for `cp.async`).
    /// Elements smaller than a byte are copied as whole bytes, as by
    /// [`copy`](crate::algorithm::copy()): no other thread touches the rest of a row's last byte
    /// either. An atom of a warp (`ldmatrix`, `stmatrix`) is called by all its lanes together, on a
    /// GPU that has its instruction.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn copy<S, D>(self, source: S, mut destination: D)
    where
        S: Input<Engine: ReadBy<C::Atom> + Engine<Element = C::Element>>,
        D: Output<Engine: WrittenBy<C::Atom> + Engine<Element = C::Element>>,
    {
        let _ = TiledCall::<C, S::Engine, S::Layout, D::Engine, D::Layout>::COUNT;
        let () = TiledCall::<C, S::Engine, S::Layout, D::Engine, D::Layout>::WHOLE_BYTES;
        // SAFETY: the source may be read and the destination written.
        unsafe { copy_tiled(C::default(), source.input(), destination.output()) }
    }

    /// [`copy`](Self::copy) of the atoms `i`, counted through `(repetition, CPY_M, CPY_N, ...)`,
    /// for which `predicate(i)` holds. CuTe's `copy_if(tiled_copy, pred, src, dst)`.
    ///
    /// Elements that the predicate excludes keep their values, or become zeros if the atom's name
    /// ends in `ZFILL`. With an atom that leaves its width to the tensors (`DefaultCopy`,
    /// `AutoVectorizingCopy`), whose layouts have one element, each element has a predicate:
    /// [`copy_elements_if`](crate::algorithm::copy_elements_if).
    ///
    /// # Safety
    /// Same contract as [`copy`](Self::copy), for the copied elements.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn copy_if<S, D>(self, predicate: impl Fn(usize) -> bool, source: S, mut destination: D)
    where
        S: Input<Engine: ReadBy<C::Atom> + Engine<Element = C::Element>>,
        D: Output<Engine: WrittenBy<C::Atom> + Engine<Element = C::Element>>,
    {
        let () = TiledCall::<C, S::Engine, S::Layout, D::Engine, D::Layout>::TAKES_PREDICATES;
        let _ = TiledCall::<C, S::Engine, S::Layout, D::Engine, D::Layout>::COUNT;
        // SAFETY: the copied elements of both sides may be accessed.
        unsafe { copy_if(C::default(), predicate, source.input(), destination.output()) }
    }

    /// Copies a thread's part of the source to a fragment of another partition, for example of an
    /// operand, by the atom: the fragment is [retiled](Self::retile_d).
    ///
    /// # Safety
    /// Same contract as [`copy`](Self::copy).
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn load<S, L>(self, source: S, fragment: &mut Fragment<C::Element, L>)
    where
        S: Input<Engine: ReadBy<C::Atom> + Engine<Element = C::Element>>,
        L: StaticLayout,
        C: ToRegisters,
    {
        let _ = TiledCall::<C, S::Engine, S::Layout, RegistersMut<'_, C::Element>, RetileOf<L, C>>::COUNT;
        let () =
            TiledCall::<C, S::Engine, S::Layout, RegistersMut<'_, C::Element>, RetileOf<L, C>>::WHOLE_BYTES;
        // SAFETY: the source may be read.
        unsafe { C::to_registers(source.input(), &mut self.retile_d(fragment)) }
    }

    /// Copies a fragment of another partition, for example an accumulator, to a thread's part of
    /// the destination by the atom: the fragment is [retiled](Self::retile_s).
    ///
    /// # Safety
    /// Same contract as [`copy`](Self::copy).
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn store<D, L>(self, fragment: &Fragment<C::Element, L>, mut destination: D)
    where
        D: Output<Engine: WrittenBy<C::Atom> + Engine<Element = C::Element>>,
        L: StaticLayout,
        C: FromRegisters,
    {
        let _ = TiledCall::<C, RegistersRef<'_, C::Element>, RetileOf<L, C>, D::Engine, D::Layout>::COUNT;
        let () =
            TiledCall::<C, RegistersRef<'_, C::Element>, RetileOf<L, C>, D::Engine, D::Layout>::WHOLE_BYTES;
        // SAFETY: the destination may be written.
        unsafe { C::from_registers(&self.retile_s(fragment), destination.output()) }
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
    /// loses nothing between them.
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
    /// Same contract as [`gemm`](Self::gemm) of `a` and `b`; `d` may be read and written, and
    /// no other thread touches its elements meanwhile; `c` may be read, and no other thread writes
    /// it.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn gemm_into<D: Output, A: Input, B: Input, C: Input>(self, mut d: D, a: A, b: B, c: C) {
        const { results_fit::<M, D, A, B, C>() };
        // SAFETY: operands and results may be accessed, and all lanes execute this.
        unsafe { gemm_tiled_into(M::default(), d.output(), a.input(), b.input(), c.input()) }
    }
}
