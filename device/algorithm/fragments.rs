//! Tiled copies to and from fragments: bounds for [`ThrCopy::load`](crate::atom::ThrCopy::load) and
//! [`ThrCopy::store`](crate::atom::ThrCopy::store).

use super::{ReadBy, WrittenBy, copy_tiled};
use crate::atom::StaticTiledCopy;
use crate::tensor::{Access, AccessMut, Engine, RegistersMut, RegistersRef, StaticLayout, Tensor};

/// A tiled copy whose atom writes registers, such as `ldmatrix` or a plain load. Implemented by
/// every [`StaticTiledCopy`] with such an atom.
#[diagnostic::on_unimplemented(
    message = "the tiled copy `{Self}` does not write registers",
    note = "`SM75_*_LDSM_*` and `UniversalCopy` do"
)]
pub trait ToRegisters: StaticTiledCopy {
    /// [`ThrCopy::copy`](crate::atom::ThrCopy::copy) to a fragment.
    ///
    /// # Safety
    /// Same contract as [`ThrCopy::copy`](crate::atom::ThrCopy::copy).
    #[doc(hidden)]
    unsafe fn to_registers<S, LS, LD>(
        source: &Tensor<S, LS>,
        destination: &mut Tensor<RegistersMut<'_, Self::Element>, LD>,
    ) where
        S: ReadBy<Self::Atom> + Access + Engine<Element = Self::Element>,
        LS: StaticLayout,
        LD: StaticLayout;
}

impl<C> ToRegisters for C
where
    C: StaticTiledCopy,
    for<'r> RegistersMut<'r, C::Element>: WrittenBy<C::Atom>,
{
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn to_registers<S, LS, LD>(
        source: &Tensor<S, LS>,
        destination: &mut Tensor<RegistersMut<'_, C::Element>, LD>,
    ) where
        S: ReadBy<C::Atom> + Access + Engine<Element = C::Element>,
        LS: StaticLayout,
        LD: StaticLayout,
    {
        // SAFETY: the source may be read and the destination written.
        unsafe { copy_tiled(C::default(), source, destination) }
    }
}

/// A tiled copy whose atom reads registers, such as `stmatrix` or a plain store. Implemented by
/// every [`StaticTiledCopy`] with such an atom.
#[diagnostic::on_unimplemented(
    message = "the tiled copy `{Self}` does not read registers",
    note = "`SM90_*_STSM_*` and `UniversalCopy` do"
)]
pub trait FromRegisters: StaticTiledCopy {
    /// [`ThrCopy::copy`](crate::atom::ThrCopy::copy) from a fragment.
    ///
    /// # Safety
    /// Same contract as [`ThrCopy::copy`](crate::atom::ThrCopy::copy).
    #[doc(hidden)]
    unsafe fn from_registers<D, LS, LD>(
        source: &Tensor<RegistersRef<'_, Self::Element>, LS>,
        destination: &mut Tensor<D, LD>,
    ) where
        D: WrittenBy<Self::Atom> + AccessMut + Engine<Element = Self::Element>,
        LS: StaticLayout,
        LD: StaticLayout;
}

impl<C> FromRegisters for C
where
    C: StaticTiledCopy,
    for<'r> RegistersRef<'r, C::Element>: ReadBy<C::Atom>,
{
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn from_registers<D, LS, LD>(
        source: &Tensor<RegistersRef<'_, C::Element>, LS>,
        destination: &mut Tensor<D, LD>,
    ) where
        D: WrittenBy<C::Atom> + AccessMut + Engine<Element = C::Element>,
        LS: StaticLayout,
        LD: StaticLayout,
    {
        // SAFETY: the source may be read and the destination written.
        unsafe { copy_tiled(C::default(), source, destination) }
    }
}
