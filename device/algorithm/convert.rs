//! Conversions of whole fragments, in packed pairs where the GPU has an instruction for two.

use super::copy::copy_alike;
use crate::arch::Convert;
use crate::memory::{Element, GlobalPointer, Storable};
use crate::tensor::{
    Access, AccessMut, Engine, Fragment, FragmentLike, GlobalTensor, InRegisters, StaticLayout, Strides,
    Tensor,
};
use half::{bf16, f16};

impl<T: Element, E: InRegisters + Engine<Element = T>, L: StaticLayout> Tensor<E, L> {
    /// A fragment of the same values as another type, each rounded as [`Convert`] has it:
    /// `scores.view().convert::<f16>()`.
    ///
    /// From f32 to f16 or bf16 one instruction converts two values (`cvt.rn.f16x2.f32`).
    ///
    /// ```
    /// use half::f16;
    /// use moye_device::layout::layout;
    /// use moye_device::static_layout;
    /// use moye_device::tensor::Fragment;
    ///
    /// static_layout! { Values = layout!((2, 2)); }
    /// let halves = Fragment::<f32, Values>::filled(0.1).convert::<f16>();
    /// assert_eq!(halves[(1, 1)], f16::from_f32(0.1));
    /// ```
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    #[must_use]
    pub fn convert<U: Element>(&self) -> Fragment<U, FragmentLike<L>>
    where
        T: Convert<U>,
    {
        let mut result = Fragment::zeros();
        // SAFETY: the index is below both sizes, and the tensor's elements were written when it was
        // made.
        unsafe { convert_into(self, &mut result) };
        result
    }
}

/// Converts element by element, or pair by pair.
///
/// # Safety
/// Both have the same number of elements; the source is written.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
unsafe fn convert_into<T, U, E, L, LD>(source: &Tensor<E, L>, destination: &mut Fragment<U, LD>)
where
    T: Element + Convert<U>,
    U: Element,
    E: InRegisters + Engine<Element = T>,
    L: StaticLayout,
    LD: StaticLayout,
{
    // SAFETY: the source is written, and both have as many elements.
    unsafe {
        for pair in 0..Tensor::<E, L>::SIZE / 2 {
            let [low, high] = Convert::<U>::convert_pair([source.get(2 * pair), source.get(2 * pair + 1)]);
            destination.set(2 * pair, low);
            destination.set(2 * pair + 1, high);
        }
        if const { Tensor::<E, L>::SIZE % 2 == 1 } {
            let last = const { Tensor::<E, L>::SIZE - 1 };
            destination.set(last, source.get(last).convert());
        }
    }
}

impl<P: GlobalPointer<Element: Element>, S: Strides, R, L: StaticLayout> GlobalTensor<P, S, L, R> {
    /// The thread's part in registers, each element converted to `U`, and `outside` for out of
    /// bounds elements: the start of a reduction of ragged rows.
    ///
    /// # Safety
    /// As [`copy`](super::copy()), for the source.
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn load_as<U: Element>(&self, outside: U) -> Fragment<U, FragmentLike<L>>
    where
        P::Element: Convert<U>,
    {
        let mut own = Fragment::<P::Element, FragmentLike<L>>::zeros();
        // SAFETY: the source is readable.
        unsafe { copy_alike(self, &mut own) };
        let mut result = Fragment::zeros();
        // SAFETY: both have the layout's elements, which are written.
        unsafe { convert_into(&own, &mut result) };
        if !S::WHOLE {
            for i in 0..Self::SIZE {
                if !self.engine().exists::<L>(i) {
                    result[i] = outside;
                }
            }
        }
        result
    }
}

/// A type whose values [`copy`](super::copy()) stores as `U`: the type itself, or one with a
/// conversion.
#[diagnostic::on_unimplemented(
    message = "elements `{Self}` are not copied as `{U}`",
    label = "no conversion from `{Self}` to `{U}`",
    note = "a copy converts between f32 and f16 or bf16; for another conversion `map` the fragment first"
)]
pub trait CopyAs<U: Storable>: Storable {
    /// Copies a whole tensor.
    ///
    /// # Safety
    /// As [`copy`](super::copy()).
    #[doc(hidden)]
    unsafe fn copy_all<S, LS, D, LD>(source: &Tensor<S, LS>, destination: &mut Tensor<D, LD>)
    where
        S: Access + Engine<Element = Self>,
        D: AccessMut + Engine<Element = U>,
        LS: StaticLayout,
        LD: StaticLayout;
}

impl<T: Storable> CopyAs<T> for T {
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn copy_all<S, LS, D, LD>(source: &Tensor<S, LS>, destination: &mut Tensor<D, LD>)
    where
        S: Access + Engine<Element = T>,
        D: AccessMut + Engine<Element = T>,
        LS: StaticLayout,
        LD: StaticLayout,
    {
        // SAFETY: the source is readable and the destination writable.
        unsafe { copy_alike(source, destination) }
    }
}

/// Copies by registers, where all elements are converted.
///
/// # Safety
/// As [`copy`](super::copy()).
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
unsafe fn copy_converted<S, LS, D, LD>(source: &Tensor<S, LS>, destination: &mut Tensor<D, LD>)
where
    S: Access + Engine<Element: Element + Convert<D::Element>>,
    D: AccessMut + Engine<Element: Element>,
    LS: StaticLayout,
    LD: StaticLayout,
{
    let mut own = Fragment::<S::Element, FragmentLike<LS>>::zeros();
    // SAFETY: the source is readable and the destination writable.
    unsafe {
        copy_alike(source, &mut own);
        copy_alike(&own.view().convert::<D::Element>(), destination);
    }
}

macro_rules! copy_as {
    ($($from:ty => $to:ty),*) => { $(
        impl CopyAs<$to> for $from {
            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            unsafe fn copy_all<S, LS, D, LD>(source: &Tensor<S, LS>, destination: &mut Tensor<D, LD>)
            where
                S: Access + Engine<Element = $from>,
                D: AccessMut + Engine<Element = $to>,
                LS: StaticLayout,
                LD: StaticLayout,
            {
                // SAFETY: the source is readable and the destination writable.
                unsafe { copy_converted(source, destination) }
            }
        }
    )* };
}
copy_as!(f32 => f16, f32 => bf16, f16 => f32, bf16 => f32);
