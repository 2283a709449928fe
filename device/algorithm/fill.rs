//! Filling tensors.

use crate::arch::Fma;
use crate::tensor::{AccessMut, Engine, StaticLayout, Tensor};

/// Sets every element to `value`.
///
/// # Safety
/// The tensor's memory may be written, and no other thread touches those elements meanwhile.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn fill<E: AccessMut, L: StaticLayout>(tensor: &mut Tensor<E, L>, value: E::Element) {
    for i in 0..Tensor::<E, L>::SIZE {
        // SAFETY: the caller's contract.
        unsafe { tensor.set(i, value) };
    }
}

/// Sets every element to zero.
///
/// # Safety
/// As [`fill`].
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn clear<E: AccessMut + Engine<Element: Fma>, L: StaticLayout>(tensor: &mut Tensor<E, L>) {
    // SAFETY: the caller's contract.
    unsafe { fill(tensor, <E::Element as Fma>::ZERO) }
}
