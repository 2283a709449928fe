//! The product of a warpgroup's tiles, and its order: `warpgroup_arrive`, `warpgroup_gemm`,
//! `warpgroup_commit_batch`, `warpgroup_wait`, `warpgroup_fence_operand`, as in CuTe.

use super::descriptors::Descriptors;
use super::{DescriptorTensor, WgmmaAtom};
#[cfg(not(target_arch = "nvptx64"))]
use crate::arch::wgmma::Accumulators;
use crate::arch::wgmma::{
    wgmma_commit_group, wgmma_fence, wgmma_fence_registers, wgmma_wait_group, wgmma_wait_group_after,
};
use crate::atom::tiled_mma::{AccumulatorOf, FragmentOf, OfA, StaticTiledMma, ThrMma};
use crate::atom::{TilingError, stands_for};
use crate::layout::{IntTuple, Layout};
use crate::memory::{Element, Storable};
use crate::number::Number;
use crate::tensor::{Access, Fragment, StaticLayout, Tensor};
use core::marker::PhantomData;

/// The use of the accumulators by a product: CuTe's `GMMA::ScaleOut`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScaleOut {
    /// `D = A B`: the previous accumulators are ignored.
    Zero,
    /// `D = A B + D`.
    One,
}

impl ScaleOut {
    /// [`Zero`](Self::Zero) if `first` holds, for example in the first step of a product, otherwise
    /// `self`.
    #[inline(always)]
    #[must_use]
    pub const fn unless(self, first: bool) -> Self {
        if first { Self::Zero } else { self }
    }
}

/// The operand A of a warpgroup's product: [descriptors](DescriptorTensor) for an atom in `SS`, a
/// fragment for one in `RS`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an operand A of the atom `{A}`",
    note = "an atom in `_SS` takes descriptors (`descriptors_a`), one in `_RS` a fragment (`fragment_a`)"
)]
pub trait OperandTensorA<A: WgmmaAtom> {
    /// `(MMA, MMA_M, MMA_K)`.
    const LAYOUT: Layout;
    /// Values of the first mode that an instruction reads.
    const VALUES: i64;
    /// Does not compile unless the elements have the atom's type.
    const ELEMENTS: ();

    /// The operand of a product: the descriptors, or the fragment.
    type Source<'a>: Copy
    where
        Self: 'a;

    /// The source of a product.
    fn source(&self) -> Self::Source<'_>;

    /// The instruction's operand whose first value has this index.
    ///
    /// # Safety
    /// `index` is inside the tensor. Registers were written.
    unsafe fn operand(source: Self::Source<'_>, index: usize) -> A::OperandA;
}

impl<A: WgmmaAtom<OperandA = u64>, L: StaticLayout> OperandTensorA<A> for Tensor<Descriptors, L> {
    const LAYOUT: Layout = L::LAYOUT;
    const VALUES: i64 = 1;
    const ELEMENTS: () = ();

    type Source<'a> = Self;

    #[inline(always)]
    fn source(&self) -> Self {
        self.computed_here()
    }

    #[inline(always)]
    unsafe fn operand(source: Self, index: usize) -> u64 {
        source.descriptor(index)
    }
}

impl<A: WgmmaAtom<OperandA = [u32; 4]>, E: Access, L: StaticLayout> OperandTensorA<A> for Tensor<E, L> {
    const LAYOUT: Layout = L::LAYOUT;
    const VALUES: i64 = 128 / E::Element::BITS;
    const ELEMENTS: () = {
        if !stands_for(<E::Element as Storable>::NAME, A::TRAITS.numbers[0].0) {
            let error = TilingError::of("warpgroup_gemm")
                .str("the fragment of A holds ")
                .str(<E::Element as Storable>::NAME)
                .str(", and the atom multiplies ")
                .str(A::TRAITS.numbers[0].0);
            error.raise();
        }
    };

    type Source<'a>
        = &'a Self
    where
        Self: 'a;

    #[inline(always)]
    fn source(&self) -> &Self {
        self
    }

    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn operand(source: &Self, index: usize) -> [u32; 4] {
        let step = const { 32 / E::Element::BITS as usize };
        #[cfg(not(target_arch = "nvptx64"))]
        source.engine().assert_written::<L>(index, 4 * step);
        let mut words = [0; 4];
        // No `from_fn`: faults would name its closure instead of the kernel's line.
        for (i, word) in words.iter_mut().enumerate() {
            // SAFETY: the fragment is initialised; its values of an instruction are consecutive.
            *word = unsafe { source.engine().load::<L, u32>(index + i * step) };
        }
        words
    }
}

impl<A: WgmmaAtom, T: OperandTensorA<A>> OperandTensorA<A> for &T {
    const LAYOUT: Layout = T::LAYOUT;
    const VALUES: i64 = T::VALUES;
    const ELEMENTS: () = T::ELEMENTS;

    type Source<'a>
        = T::Source<'a>
    where
        Self: 'a;

    #[inline(always)]
    fn source(&self) -> T::Source<'_> {
        T::source(self)
    }

    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn operand(source: T::Source<'_>, index: usize) -> A::OperandA {
        // SAFETY: `index` is inside the tensor.
        unsafe { T::operand(source, index) }
    }
}

/// The extents of a product in instructions, `(M, N, K)`. The function that the user calls and
/// [`warpgroup_gemm`] use this constant, so that the compiler reports a mistake once.
pub(super) struct Extents<M, A, LB, LC>(PhantomData<(M, A, LB, LC)>);

impl<M, A, LB, LC> Extents<M, A, LB, LC>
where
    M: StaticTiledMma<Atom: WgmmaAtom>,
    A: OperandTensorA<M::Atom>,
    LB: StaticLayout,
    LC: StaticLayout,
{
    pub(super) const EXTENTS: [usize; 3] =
        extents(A::LAYOUT, A::VALUES, LB::LAYOUT, LC::LAYOUT, <M::Atom as WgmmaAtom>::C.extent(1));
}

/// See [`Extents`].
const fn extents(a: Layout, values: i64, b: Layout, c: Layout, sums: i64) -> [usize; 3] {
    let (a, b, c) = (by_modes(a), by_modes(b), by_modes(c));
    let agree = a.extent(0) == values
        && b.extent(0) == 1
        && c.extent(0) == sums
        && a.extent(1) == c.extent(1)
        && b.extent(1) == c.extent(2)
        && a.extent(2) == b.extent(2);
    if !agree {
        let error = TilingError::of("warpgroup_gemm")
            .str("the operands are a (V, M, K), b (1, N, K) and c (V, M, N), with ")
            .int(values)
            .str(", 1 and ")
            .int(sums)
            .str(" values of an instruction; a = ")
            .layout(&a)
            .str(", b = ")
            .layout(&b)
            .str(" and c = ")
            .layout(&c)
            .str(" make up no product; partition all of them by this tiled MMA, and slice all other modes");
        error.raise();
    }
    [a.extent(1) as usize, b.extent(1) as usize, a.extent(2) as usize]
}

/// Three modes: a tensor that was sliced along K has one step.
const fn by_modes(tensor: Layout) -> Layout {
    let one = Layout::new(IntTuple::int(1), IntTuple::int(0));
    match tensor.rank() {
        2 => Layout::concat(&[tensor.mode(0), tensor.mode(1), one]),
        _ => tensor,
    }
}

/// Issues the product `c = a b` or `c += a b` of a warpgroup's tiles: a `wgmma` for each
/// `(m, n, k)`, `k` outermost.
///
/// It does not wait. Call [`warpgroup_arrive`] before, [`warpgroup_commit_batch`] and
/// [`warpgroup_wait`] after, and [`warpgroup_fence_operand`] before the accumulators are read.
///
/// # Safety
/// All threads of the warpgroup call it with the same operands, in the order above; the tiles in
/// shared memory were written, and stay unchanged until the wait for the product. Until then
/// nothing else accesses the registers of A and the accumulators.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn warpgroup_gemm<M, A, LB, D, LC>(
    _mma: M,
    a: &A,
    b: &DescriptorTensor<LB>,
    c: &mut Fragment<D, LC>,
    scale: ScaleOut,
) where
    M: StaticTiledMma<Atom: WgmmaAtom>,
    A: OperandTensorA<M::Atom>,
    LB: StaticLayout,
    D: Storable,
    LC: StaticLayout,
{
    const { A::ELEMENTS };
    let [ms, ns, ks] = Extents::<M, A, LB, LC>::EXTENTS;
    let (a, b) = (a.source(), b.computed_here());
    for k in 0..ks {
        for m in 0..ms {
            for n in 0..ns {
                // SAFETY: all threads of the warpgroup call this with ready operands; the extents
                // were checked.
                unsafe {
                    let a = A::operand(a, (m + ms * k) * const { A::VALUES as usize });
                    #[cfg(not(target_arch = "nvptx64"))]
                    if k == 0 && scale == ScaleOut::One {
                        let values = const { <M::Atom as WgmmaAtom>::C.extent(1) as usize };
                        c.assert_written((m + ms * n) * values, values);
                    }
                    let c = accumulators::<M, D, LC>(c, m + ms * n);
                    #[cfg(not(target_arch = "nvptx64"))]
                    if k == 0 && scale == ScaleOut::Zero {
                        *c = Accumulators::ZERO;
                    }
                    M::Atom::mma(c, a, b.descriptor(n + ns * k), k > 0 || scale == ScaleOut::One);
                }
            }
        }
    }
}

/// The elements of the accumulators have the atom's type, or the product does not compile. A
/// constant for the same reason as [`Extents`].
pub(super) struct SameNumbers<M, D>(PhantomData<(M, D)>);

impl<M: StaticTiledMma<Atom: WgmmaAtom>, D: Storable> SameNumbers<M, D> {
    pub(super) const CHECKED: () = {
        let number = <<M::Atom as WgmmaAtom>::D as Number>::NAME;
        if !stands_for(D::NAME, number) {
            let error = TilingError::of("warpgroup_gemm")
                .str("the accumulators are ")
                .str(D::NAME)
                .str(", and those of the atom ")
                .str(number);
            error.raise();
        }
    };
}

/// The accumulators of one instruction.
///
/// # Safety
/// `index` is below the number of instructions.
#[inline(always)]
unsafe fn accumulators<M, D, L>(
    c: &mut Fragment<D, L>,
    index: usize,
) -> &mut <M::Atom as WgmmaAtom>::Accumulators
where
    M: StaticTiledMma<Atom: WgmmaAtom>,
    D: Storable,
    L: StaticLayout,
{
    let () = SameNumbers::<M, D>::CHECKED;
    let values = const { <M::Atom as WgmmaAtom>::C.extent(1) as usize };
    // SAFETY: a compact fragment's values of an instruction are consecutive; `index` is in bounds.
    unsafe { c.consecutive(index * values) }
}

/// Orders the warpgroup's register accesses before the products that follow (`wgmma.fence`).
/// All threads of the warpgroup must call it.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn warpgroup_arrive() {
    wgmma_fence();
}

/// Commits the products issued since the previous batch as a batch (`wgmma.commit_group`). All
/// threads of the warpgroup must call it.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn warpgroup_commit_batch() {
    wgmma_commit_group();
}

/// Waits until all batches except the `PENDING` youngest are complete (`wgmma.wait_group`). All
/// threads of the warpgroup must call it.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn warpgroup_wait<const PENDING: u32>() {
    wgmma_wait_group::<PENDING>();
}

/// [`warpgroup_wait`], but not before `values` are computed: `ptxas` moves a plain wait above
/// arithmetic that should overlap the product, such as a softmax. Pass the results of that
/// arithmetic.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn warpgroup_wait_after<const PENDING: u32, const N: usize>(values: [f32; N]) {
    wgmma_wait_group_after::<PENDING, N>(values);
}

/// Tells the compiler that a completed product has changed its accumulators: call it between the
/// wait and their use. It emits no instruction.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn warpgroup_fence_operand<M, D, L>(_mma: M, c: &mut Fragment<D, L>)
where
    M: StaticTiledMma<Atom: WgmmaAtom>,
    D: Storable,
    L: StaticLayout,
{
    let instructions = const { L::LAYOUT.size() as usize / <M::Atom as WgmmaAtom>::C.extent(1) as usize };
    for index in 0..instructions {
        // SAFETY: the index is below the number of instructions.
        wgmma_fence_registers(unsafe { accumulators::<M, D, L>(c, index) });
    }
}

impl<M: StaticTiledMma<Atom: WgmmaAtom>> ThrMma<M> {
    /// Uninitialised accumulators of a tile of the shape of `L`, `(MMA, MMA_M, MMA_N)`: for a
    /// product that begins with [`ScaleOut::Zero`].
    ///
    /// # Safety
    /// A product writes them before they are read.
    #[inline(always)]
    #[must_use]
    pub unsafe fn accumulators<L: StaticLayout>(
        self,
    ) -> Fragment<<M::Atom as WgmmaAtom>::D, AccumulatorOf<L, M>>
    where
        <M::Atom as WgmmaAtom>::D: Storable,
    {
        // SAFETY: a product writes them before they are read.
        unsafe { Fragment::uninit() }
    }
}

/// The layout of the fragment of A in registers, `(MMA, MMA_M, MMA_K)`, for a tile of the shape of
/// `L`.
pub type OperandOf<L, M> = FragmentOf<L, M, OfA>;

/// Accumulators as the operand A of the next product, in registers: rounds them to `T`, two at a
/// time.
///
/// Both hold the same rows, and their columns in the same order: CuTe's `convert_layout_acc_Aregs`.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
#[must_use]
pub fn accumulators_as_a<M, T, LC, L>(c: &Fragment<f32, LC>) -> Fragment<T, OperandOf<L, M>>
where
    M: StaticTiledMma<Atom: WgmmaAtom<OperandA = [u32; 4]>>,
    T: PackPair,
    LC: StaticLayout,
    L: StaticLayout,
{
    const {
        let size = OperandOf::<L, M>::LAYOUT.size();
        if LC::LAYOUT.size() != size || OperandOf::<L, M>::LAYOUT.extent(1) != 1 || LC::LAYOUT.extent(1) != 1
        {
            TilingError::of("accumulators_as_a")
                .str("accumulators ")
                .layout(&LC::LAYOUT)
                .str(" are not the operand A ")
                .layout(&OperandOf::<L, M>::LAYOUT)
                .str(": both have one instruction's rows, and the same number of columns")
                .raise();
        }
    }
    pack_into(c)
}

/// The elements rounded to `T`, two at a time, in a fragment of the same layout.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
#[must_use]
pub fn pack_fragment<T: PackPair, L: StaticLayout>(fragment: &Fragment<f32, L>) -> Fragment<T, L> {
    pack_into(fragment)
}

/// The elements in order, rounded two at a time: both fragments are compact, of the same even size.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
fn pack_into<T: PackPair, L: StaticLayout, N: StaticLayout>(fragment: &Fragment<f32, L>) -> Fragment<T, N> {
    const {
        assert!(
            L::LAYOUT.size() == L::LAYOUT.cosize() && L::LAYOUT.size() % 2 == 0,
            "pairs are packed of a compact fragment of an even number of elements"
        );
    }
    // SAFETY: all elements are written; indices are inside both.
    unsafe {
        let mut packed = Fragment::<T, N>::uninit();
        for i in 0..const { L::LAYOUT.size() as usize / 2 } {
            *packed.consecutive::<u32>(2 * i) = T::pack(fragment.get(2 * i), fragment.get(2 * i + 1));
        }
        packed
    }
}

/// A 16-bit float to which one instruction rounds two f32.
pub trait PackPair: Element {
    /// Both as one word, the first in the low half.
    fn pack(low: f32, high: f32) -> u32;
}

impl PackPair for half::bf16 {
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn pack(low: f32, high: f32) -> u32 {
        crate::arch::f32x2_to_bf16x2(low, high).to_bits()
    }
}

impl PackPair for half::f16 {
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn pack(low: f32, high: f32) -> u32 {
        crate::arch::f32x2_to_f16x2(low, high).to_bits()
    }
}
