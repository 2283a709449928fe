//! Filling tensors.

use crate::atom::TilingError;
use crate::memory::Storable;
use crate::tensor::{AccessMut, StaticLayout, Tensor};

/// Sets every element to `value`.
///
/// # Safety
/// The tensor's memory may be written, and no other thread touches those elements meanwhile, nor,
/// of elements smaller than a byte, others in the same bytes: those are written by reading their
/// byte and writing it back.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn fill<E: AccessMut, L: StaticLayout>(tensor: &mut Tensor<E, L>, value: E::Element) {
    for i in 0..Tensor::<E, L>::SIZE {
        // SAFETY: the tensor's memory may be written, and no other thread touches it.
        unsafe { tensor.set(i, value) };
    }
}

/// As many bytes as the largest element has, aligned for any.
#[repr(align(16))]
struct Zeros([u8; 32]);

/// Sets every element to zero, whatever its type: all its bits are 0.
///
/// # Safety
/// Same contract as [`fill`], bytes that elements share included.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn clear<E: AccessMut, L: StaticLayout>(tensor: &mut Tensor<E, L>) {
    const {
        if E::Element::BITS > 256 {
            TilingError::of("clear")
                .str("an element ")
                .str(E::Element::NAME)
                .str(" has ")
                .int(E::Element::BITS)
                .str(" bits; those of at most 256 are cleared, fill takes a value of any")
                .raise();
        }
    };
    let zeros = Zeros([0; 32]);
    // SAFETY: there are as many bytes, which were written; the caller's contract for the tensor.
    unsafe { fill(tensor, E::Element::read_own(zeros.0.as_ptr(), 0)) }
}
