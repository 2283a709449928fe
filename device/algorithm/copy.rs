//! Copies between tensors of the same shape, by the widest access that both allow.

use super::CopyAs;
use crate::arch::{CpAsyncSize, Word, Word64x2, Word128, cp_async};
use crate::atom::TilingError;
use crate::layout::Layout;
use crate::memory::{Element, GlobalPointer, Shared, Storable};
use crate::tensor::{
    Access, AccessMut, Engine, Input, InputElement, NoOpenMode, Output, OutputElement, SharedTensor,
    StaticLayout, Strided, Strides, Tensor, run_of, tables,
};
use core::marker::PhantomData;

/// The elements of one access: the largest number that both runs allow, in at most `most_bits`
/// bits.
const fn elements_per_access(source: usize, destination: usize, element_bits: i64, most_bits: i64) -> usize {
    let mut run = if source < destination { source } else { destination };
    while run > 1 && run as i64 * element_bits > most_bits {
        run /= 2;
    }
    run
}

/// The bits that one access moves: a whole number of bytes, or the copy does not compile.
const fn access_bits<T: Storable>(run: usize) -> i64 {
    let bits = run as i64 * T::BITS;
    if bits < 8 {
        let error = TilingError::of("copy")
            .str("elements of ")
            .int(T::BITS)
            .str(" bits are copied by whole bytes, and here only ")
            .int(run as i64)
            .str(" of them are contiguous and aligned on both sides: take layouts in which ")
            .int(8 / T::BITS)
            .str(" are, or read and write them one by one");
        error.raise();
    }
    bits
}

/// The bits that one access moves between sides with these runs, at most `most`.
pub(super) const fn bits_of<T: Storable>(source: usize, destination: usize, most: i64) -> i64 {
    access_bits::<T>(elements_per_access(source, destination, T::BITS, most))
}

/// The two tensors of a copy have the same number of elements, or the copy does not compile.
const fn same_size(source: Layout, destination: Layout) {
    if source.size() != destination.size() {
        let error = TilingError::of("copy")
            .str("the source ")
            .layout(&source)
            .str(" has ")
            .int(source.size())
            .str(" elements and the destination ")
            .layout(&destination)
            .str(" has ")
            .int(destination.size())
            .str(": source and destination must have the same number of elements");
        error.raise();
    }
}

/// [`same_size`], and few enough elements, if `R` marks the copy as reached. All functions of one
/// copy name this constant, so that the compiler reports a mistake once.
pub(super) struct SameSize<R, LS, LD>(PhantomData<(R, LS, LD)>);

impl<R: Where, LS: StaticLayout, LD: StaticLayout> SameSize<R, LS, LD> {
    pub(super) const CHECKED: () = {
        let () = tables::Unrolled::<LS>::CHECKED;
        if R::REACHED && R::CHECKED {
            same_size(LS::LAYOUT, LD::LAYOUT);
        }
    };
}

/// The bits of an access of a copy between these sides, if `R` marks it as reached; otherwise
/// 0. A named constant for the same reason as [`SameSize`].
pub(super) struct AccessBits<R, S, LS, D, LD>(PhantomData<(R, S, LS, D, LD)>);

impl<R, S, LS, D, LD> AccessBits<R, S, LS, D, LD>
where
    R: Where,
    S: Access,
    D: Access,
    LS: StaticLayout,
    LD: StaticLayout,
{
    pub(super) const BITS: i64 = {
        let () = SameSize::<R, LS, LD>::CHECKED;
        if R::REACHED { bits_of::<S::Element>(run_of::<S, LS>(), run_of::<D, LD>(), R::MOST_BITS) } else { 0 }
    };
}

/// Copies `source` to `destination`, index by index, with the widest loads and stores (up to 16
/// bytes) that both layouts, the element type and the known alignment allow.
///
/// Out of bounds elements of a matrix read as zeros and are not written. The destination is a
/// tensor in memory, by value, or any tensor by `&mut`. Its element type may differ: f32 stored as
/// f16 or bf16, for example, is converted in registers, in pairs.
///
/// # Safety
/// The source is readable and the destination writable; meanwhile no other thread writes elements
/// of the source or accesses elements of the destination. Elements smaller than a byte are copied
/// as whole bytes: meanwhile no other thread accesses another element in the bytes of the
/// destination, nor the padding after a row's end in its last byte, which is read and written back.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn copy<S, D>(source: S, mut destination: D)
where
    S: Input,
    D: Output,
    InputElement<S>: CopyAs<OutputElement<D>>,
{
    let () = SameSize::<Always, S::Layout, D::Layout>::CHECKED;
    // SAFETY: the source is readable and the destination writable.
    unsafe { InputElement::<S>::copy_all(source.input(), destination.output()) }
}

/// [`copy`] between elements of one type.
///
/// # Safety
/// Same contract as [`copy`].
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub(super) unsafe fn copy_alike<S, LS, D, LD>(source: &Tensor<S, LS>, destination: &mut Tensor<D, LD>)
where
    S: Access,
    D: AccessMut + Engine<Element = S::Element>,
    LS: StaticLayout,
    LD: StaticLayout,
{
    // SAFETY: the source is readable and the destination writable.
    unsafe { copy_where::<Always, S, LS, D, LD>(source, destination) }
}

/// Copies the elements `i` of `source`, counted through its coordinates, for which `predicate(i)`
/// holds, one by one: CuTe's `copy_if(pred, src, dst)`. Other elements keep their values.
///
/// To copy by the atom of a tiled copy, which moves several elements at once, use
/// [`ThrCopy::copy_if`](crate::atom::ThrCopy::copy_if).
///
/// ```
/// use moye_device::algorithm::copy_elements_if;
/// use moye_device::layout::layout;
/// use moye_device::static_layout;
/// use moye_device::tensor::Fragment;
///
/// static_layout! {
///     Down = layout!((4, 3));
///     Across = layout!((4, 3):(3, 1));
/// }
/// let (mut from, mut to) = (Fragment::<i32, Down>::filled(0), Fragment::<i32, Across>::filled(-1));
/// for i in 0..12 {
///     // SAFETY: inside the fragment.
///     unsafe { from.set(i, i as i32) };
/// }
/// // SAFETY: both are this thread's own.
/// unsafe { copy_elements_if(|i| i % 4 < 2, &from, &mut to) };
/// // SAFETY: inside the fragment.
/// let got: Vec<i32> = (0..12).map(|i| unsafe { to.get(i) }).collect();
/// assert_eq!(got, [0, 1, -1, -1, 4, 5, -1, -1, 8, 9, -1, -1]);
/// ```
///
/// # Safety
/// Same contract as [`copy`], for the copied elements; for elements smaller than a byte their byte
/// is read and written back, so no other thread accesses the byte meanwhile.
#[doc(alias = "copy_if")]
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn copy_elements_if<S, LS, D, LD>(
    predicate: impl Fn(usize) -> bool,
    source: &Tensor<S, LS>,
    destination: &mut Tensor<D, LD>,
) where
    S: Access,
    D: AccessMut + Engine<Element = S::Element>,
    LS: StaticLayout,
    LD: StaticLayout,
{
    let () = SameSize::<Always, LS, LD>::CHECKED;
    // SAFETY: the copied elements are readable and writable.
    unsafe { elements_where::<Always, S, LS, D, LD>(predicate, source, destination) }
}

/// [`copy_elements_if`], if `R` marks it as reached.
///
/// # Safety
/// Same contract as [`copy_elements_if`].
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub(super) unsafe fn elements_where<R, S, LS, D, LD>(
    predicate: impl Fn(usize) -> bool,
    source: &Tensor<S, LS>,
    destination: &mut Tensor<D, LD>,
) where
    R: Where,
    S: Access,
    D: AccessMut + Engine<Element = S::Element>,
    LS: StaticLayout,
    LD: StaticLayout,
{
    let () = SameSize::<R, LS, LD>::CHECKED;
    for i in 0..Tensor::<S, LS>::SIZE {
        if predicate(i) {
            // SAFETY: source and destination may be accessed; inside both, which have the same
            // size.
            unsafe { destination.set(i, source.get(i)) };
        } else {
            #[cfg(not(target_arch = "nvptx64"))]
            destination.engine_mut().leave::<LD>(i, 1);
        }
    }
}

/// Whether the copy is reached: calls that are never reached are compiled too, and must not be
/// checked.
pub(super) trait Where {
    /// Whether it is reached.
    const REACHED: bool;

    /// Whether its sizes are checked here; otherwise another check covers the same sizes.
    const CHECKED: bool = true;

    /// The most bits that an access may move; a single element may be larger.
    const MOST_BITS: i64 = 128;
}

/// A copy whose sizes another check covers.
pub(super) struct Checked;

impl Where for Checked {
    const REACHED: bool = true;
    const CHECKED: bool = false;
}

pub(super) struct Always;

impl Where for Always {
    const REACHED: bool = true;
}

/// [`copy`], if `R` marks it as reached.
///
/// # Safety
/// Same contract as [`copy`].
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub(super) unsafe fn copy_where<R, S, LS, D, LD>(source: &Tensor<S, LS>, destination: &mut Tensor<D, LD>)
where
    R: Where,
    S: Access,
    D: AccessMut + Engine<Element = S::Element>,
    LS: StaticLayout,
    LD: StaticLayout,
{
    let bits = AccessBits::<R, S, LS, D, LD>::BITS;
    // SAFETY: source and destination may be accessed; both runs allow accesses of this size.
    unsafe {
        match bits {
            0 => {}
            8 => words::<u8, S, LS, D, LD>(source, destination),
            16 => words::<u16, S, LS, D, LD>(source, destination),
            32 => words::<u32, S, LS, D, LD>(source, destination),
            64 if S::Element::BITS == 64 => words::<u64, S, LS, D, LD>(source, destination),
            64 => words::<Word64x2, S, LS, D, LD>(source, destination),
            _ => words::<Word128, S, LS, D, LD>(source, destination),
        }
    }
}

/// Copies word by word.
///
/// # Safety
/// Same contract as [`copy`]; the runs of both sides are multiples of the word's elements.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
unsafe fn words<W, S, LS, D, LD>(source: &Tensor<S, LS>, destination: &mut Tensor<D, LD>)
where
    W: Word,
    S: Access,
    D: AccessMut + Engine<Element = S::Element>,
    LS: StaticLayout,
    LD: StaticLayout,
{
    let count = (8 * size_of::<W>() as i64 / S::Element::BITS) as usize;
    for i in 0..Tensor::<S, LS>::SIZE / count {
        // SAFETY: both runs may be accessed and are multiples of the word.
        unsafe {
            destination.engine_mut().store::<LD, W>(i * count, source.engine().load::<LS, W>(i * count))
        }
    }
}

/// Starts copying `source`, in global memory, to `destination`, in shared memory, by `cp.async` of
/// the widest size (4, 8 or 16 bytes) that both layouts, the element type and the known alignment
/// allow. Out of bounds elements arrive as zeros.
///
/// The data are visible after [`cp_async_commit`](crate::arch::cp_async_commit) and
/// [`cp_async_wait`](crate::arch::cp_async_wait); to other threads after a further barrier.
/// Elements that no `cp.async` can move (under 4 consecutive bytes) are copied synchronously,
/// through registers.
///
/// # Safety
/// Same contract as [`copy`], until the wait.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn copy_async<P, S, R, LS, LD>(
    source: &Tensor<Strided<P, S, R>, LS>,
    destination: &mut SharedTensor<P::Element, LD>,
) where
    P: GlobalPointer<Element: Element>,
    S: Strides,
    R: NoOpenMode,
    LS: StaticLayout,
    LD: StaticLayout,
{
    let () = SameSize::<Always, LS, LD>::CHECKED;
    let count = const {
        let (source, destination) = (run_of::<Strided<P, S, R>, LS>(), run_of::<Shared<P::Element>, LD>());
        elements_per_access(source, destination, <P::Element as Storable>::BITS, 128)
    };
    let Some(size) = CpAsyncSize::of(count * P::Element::BYTES) else {
        // SAFETY: the source is readable, the destination writable until the wait.
        return unsafe { copy_alike(source, destination) };
    };
    for i in (0..Tensor::<Strided<P, S, R>, LS>::SIZE).step_by(count) {
        let valid = source.engine().existing::<LS>(i, count) * P::Element::BYTES as u32;
        // SAFETY: both sides may be accessed; both runs allow accesses of this size, and out of
        // bounds elements are not read.
        unsafe {
            cp_async(size, destination.engine().address_of::<LD>(i), source.engine().address::<LS>(i), valid);
        }
    }
}
