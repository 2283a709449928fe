//! Tiled copies by the memories between which they move: bounds for generic mainloops.

use super::{ReadBy, WrittenBy, copy_tiled};
use crate::atom::StaticTiledCopy;
use crate::memory::{Element, Global, Shared};
use crate::tensor::{RegistersMut, SharedTensor, StaticLayout, Strided, Strides, Tensor};

/// A tiled copy from global memory with the strides `S` to shared memory, for example by
/// `cp.async`.
///
/// Implemented by every [`StaticTiledCopy`] whose atom moves so. In a generic mainloop the bound
/// covers what its atom reads and writes:
///
/// ```
/// use moye_device::algorithm::{GlobalToShared, SharedToRegisters};
/// use moye_device::tensor::Strides;
///
/// trait Config {
///     type Strides: Strides;
///     type Load: GlobalToShared<Self::Strides, Element = f32>;
///     type Read: SharedToRegisters<Element = f32>;
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "the tiled copy `{Self}` does not move from global memory with the strides `{S}` to shared memory",
    note = "`SM80_CP_ASYNC_*` and `UniversalCopy` do"
)]
pub trait GlobalToShared<S: Strides>: StaticTiledCopy<Element: Element> {
    /// [`ThrCopy::copy`](crate::atom::ThrCopy::copy) between a thread's parts of a tile in global
    /// and in shared memory.
    ///
    /// # Safety
    /// Same contract as [`ThrCopy::copy`](crate::atom::ThrCopy::copy).
    unsafe fn fill<LS: StaticLayout, LD: StaticLayout>(
        source: &Tensor<Strided<Global<Self::Element>, S>, LS>,
        destination: &mut SharedTensor<Self::Element, LD>,
    );
}

impl<S, C> GlobalToShared<S> for C
where
    S: Strides,
    C: StaticTiledCopy<Element: Element>,
    Strided<Global<C::Element>, S>: ReadBy<C::Atom>,
    Shared<C::Element>: WrittenBy<C::Atom>,
{
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn fill<LS: StaticLayout, LD: StaticLayout>(
        source: &Tensor<Strided<Global<C::Element>, S>, LS>,
        destination: &mut SharedTensor<C::Element, LD>,
    ) {
        // SAFETY: the source may be read and the destination written.
        unsafe { copy_tiled(C::default(), source, destination) }
    }
}

/// A tiled copy from shared memory to fragments, for example by `ldmatrix`.
///
/// Implemented by every [`StaticTiledCopy`] whose atom moves so; see [`GlobalToShared`].
#[diagnostic::on_unimplemented(
    message = "the tiled copy `{Self}` does not move from shared memory to registers",
    note = "`SM75_*_LDSM_*` and `UniversalCopy` do"
)]
pub trait SharedToRegisters: StaticTiledCopy<Element: Element> {
    /// [`ThrCopy::copy`](crate::atom::ThrCopy::copy) from a thread's part of a tile in shared
    /// memory to a part of a fragment, which is [retiled](crate::atom::ThrCopy::retile_d).
    ///
    /// # Safety
    /// Same contract as [`ThrCopy::copy`](crate::atom::ThrCopy::copy).
    unsafe fn read<LS: StaticLayout, LD: StaticLayout>(
        source: &SharedTensor<Self::Element, LS>,
        destination: &mut Tensor<RegistersMut<'_, Self::Element>, LD>,
    );
}

impl<C> SharedToRegisters for C
where
    C: StaticTiledCopy<Element: Element>,
    Shared<C::Element>: ReadBy<C::Atom>,
    for<'r> RegistersMut<'r, C::Element>: WrittenBy<C::Atom>,
{
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn read<LS: StaticLayout, LD: StaticLayout>(
        source: &SharedTensor<C::Element, LS>,
        destination: &mut Tensor<RegistersMut<'_, C::Element>, LD>,
    ) {
        // SAFETY: the source may be read and the destination written.
        unsafe { copy_tiled(C::default(), source, destination) }
    }
}
