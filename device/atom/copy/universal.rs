//! Copies of one thread by plain loads and stores, between any two memories.

use super::atom::{AnySpace, CopyAtom};
use crate::layout::{IntTuple, Layout, layout};
use crate::memory::Element;
use crate::tiling::TilingError;
use core::marker::PhantomData;

/// One load and one store of a `T`: `UniversalCopy<u128>` moves 16 bytes, whatever the tensors'
/// elements are.
///
/// Also found as MoYe's `UniversalCopy`.
pub struct UniversalCopy<T>(PhantomData<T>);

impl<T> Clone for UniversalCopy<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for UniversalCopy<T> {}
impl<T> Default for UniversalCopy<T> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

/// `(1, bits):(0, 1)`: one thread, its bits in order.
pub(super) const fn one_thread(bits: usize) -> Layout {
    Layout::new(IntTuple::flat(&[1, bits as i64]), IntTuple::flat(&[0, 1]))
}

impl<T: Element> CopyAtom for UniversalCopy<T> {
    const NAME: &'static str = "UniversalCopy";
    const PARAMETER: Option<&'static str> = Some(T::NAME);
    const ARCH: u32 = 0;
    const PTX: Option<&'static str> = None;
    type Source = AnySpace<T>;
    type Destination = AnySpace<T>;
    const THR_ID: Layout = layout!(1:0);
    const SRC: Layout = one_thread(8 * T::BYTES);
    const DST: Layout = Self::SRC;
    const REF: Layout = Self::SRC;

    /// Returns the value: the tensors load and store it.
    #[inline(always)]
    unsafe fn call(source: T, (): ()) -> T {
        source
    }
}

/// Loads and stores of the widest word that both layouts, the element type and an alignment of
/// `BITS` bits allow, up to 16 bytes. The tensors determine the width, so its layouts are those of
/// a single element.
///
/// `BITS` is a limit: a single element may be larger.
///
/// ```
/// use half::f16;
/// use moye_device::atom::TiledCopy;
/// use moye_device::atom::copy::{AutoVectorizingCopyWithAssumedAlignment, CopyAtom};
/// use moye_device::layout::layout;
///
/// // Eight f16 of a column for each thread. Columns aligned only to 4 bytes are copied two by two,
/// // in four accesses; by the atom of 128 bits they go at once where the tensors' layouts and
/// // alignment let them.
/// type ByFour = AutoVectorizingCopyWithAssumedAlignment<32>;
/// const COPY: TiledCopy<ByFour, f16> = TiledCopy::new(layout!((1, 32)), layout!((8, 1)));
/// assert_eq!((COPY.threads(), COPY.values(), ByFour::MOST_BITS), (32, 8, 32));
/// // The width of an access depends on the tensors, so there is no report of its cost.
/// assert!(COPY.try_access_s(moye_device::layout::ComposedLayout::plain(layout!((8, 32)))).is_err());
/// ```
#[derive(Clone, Copy, Default)]
pub struct AutoVectorizingCopyWithAssumedAlignment<const BITS: usize>;

/// The widest loads and stores for tensors aligned to 16 bytes.
pub type AutoVectorizingCopy = AutoVectorizingCopyWithAssumedAlignment<128>;

/// Copies element by element, for byte alignment.
pub type DefaultCopy = AutoVectorizingCopyWithAssumedAlignment<8>;

/// Ends constant evaluation for an invalid alignment.
#[track_caller]
const fn no_alignment(bits: usize) -> ! {
    TilingError::of("AutoVectorizingCopyWithAssumedAlignment")
        .str("an alignment of ")
        .int(bits as i64)
        .str(" bits is assumed; 8, 16, 32, 64 or 128 would work")
        .raise()
}

impl<const BITS: usize> CopyAtom for AutoVectorizingCopyWithAssumedAlignment<BITS> {
    const NAME: &'static str =
        if BITS == 8 { "DefaultCopy" } else { "AutoVectorizingCopyWithAssumedAlignment" };
    const PARAMETER: Option<&'static str> = match BITS {
        16 => Some("16"),
        32 => Some("32"),
        64 => Some("64"),
        128 => Some("128"),
        8 => None,
        _ => no_alignment(BITS),
    };
    const ARCH: u32 = 0;
    const PTX: Option<&'static str> = None;
    type Source = AnySpace<()>;
    type Destination = AnySpace<()>;
    const THR_ID: Layout = layout!(1:0);
    const SRC: Layout = layout!((1, 1):(0, 0));
    const DST: Layout = Self::SRC;
    const REF: Layout = Self::SRC;
    const MOST_BITS: i64 = BITS as i64;

    /// Has no effect: the tensors load and store directly.
    #[inline(always)]
    unsafe fn call((): (), (): ()) {}
}
