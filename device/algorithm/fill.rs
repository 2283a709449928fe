//! Filling tensors.

use crate::atom::TilingError;
use crate::memory::Storable;
use crate::tensor::{AccessMut, StaticLayout, Tensor};

/// Sets every element to `value`.
///
/// # Safety
/// The tensor's memory is writable, and meanwhile no other thread accesses these elements. For
/// elements smaller than a byte, whose byte is read and written back, this includes all elements in
/// the same bytes.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn fill<E: AccessMut, L: StaticLayout>(tensor: &mut Tensor<E, L>, value: E::Element) {
    for i in 0..Tensor::<E, L>::SIZE {
        // SAFETY: the tensor's memory is writable, and no other thread accesses it.
        unsafe { tensor.set(i, value) };
    }
}

/// The bytes of the largest element, aligned for any.
#[repr(align(16))]
struct Zeros([u8; 32]);

/// Sets every element to zero: all bits are 0, whatever the type.
///
/// # Safety
/// Same contract as [`fill`].
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
    // SAFETY: `Zeros` has the element's bytes, which are initialised; the tensor is
    // writable.
    unsafe { fill(tensor, E::Element::read_own(zeros.0.as_ptr(), 0)) }
}
