//! Pointers into shared memory.

use super::{Element, ElementOffset};
use crate::arch::{Word, simulator_assert};
use core::marker::PhantomData;

/// A pointer to elements in the block's shared memory: a 32-bit address.
///
/// As the engine of a tensor it stores the offset of slices within a block of a swizzle separately
/// from the address, in elements.
pub struct Shared<T: Element> {
    base: u32,
    step: i32,
    element: PhantomData<*mut T>,
}

impl<T: Element> Clone for Shared<T> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}
impl<T: Element> Copy for Shared<T> {}

impl<T: Element> Shared<T> {
    /// The pointer with this shared address, in bytes.
    #[inline(always)]
    pub const fn from_address(address: u32) -> Self {
        Self { base: address, step: 0, element: PhantomData }
    }

    /// The shared address, in bytes.
    #[inline(always)]
    pub const fn address(self) -> u32 {
        self.base.wrapping_add(self.step_bytes())
    }

    /// The pointer moved by `elements` (may be negative). The arithmetic wraps; only accesses are
    /// checked.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn offset(self, elements: impl ElementOffset) -> Self {
        let bytes = in_shared(elements).wrapping_mul(size_of::<T>() as i32);
        Self { base: self.base.wrapping_add_signed(bytes), ..self }
    }

    /// The pointer moved by `bytes`.
    #[inline(always)]
    pub(crate) const fn moved_bytes(self, bytes: i32) -> Self {
        Self { base: self.base.wrapping_add_signed(bytes), ..self }
    }

    /// The pointer with its step moved by `elements`.
    #[inline(always)]
    pub(crate) const fn stepped(self, elements: i32) -> Self {
        Self { step: self.step.wrapping_add(elements), ..self }
    }

    /// The address without the step.
    #[inline(always)]
    pub(crate) const fn base(self) -> u32 {
        self.base
    }

    /// The step, in bytes.
    #[inline(always)]
    pub(crate) const fn step_bytes(self) -> u32 {
        self.step.wrapping_mul(size_of::<T>() as i32) as u32
    }

    /// The same address as a pointer to another element type.
    #[inline(always)]
    pub const fn cast<U: Element>(self) -> Shared<U> {
        Shared::from_address(self.address())
    }
}

impl<T: Element> Shared<T> {
    /// Reads the element `index` elements further.
    ///
    /// # Safety
    /// The element is in the block's shared memory and was written, with a barrier since if another
    /// thread wrote it; no thread writes it meanwhile.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn read(self, index: impl ElementOffset) -> T {
        // SAFETY: the element is in the block's shared memory and was written.
        T::from_bits(unsafe { T::Bits::load_shared(self.offset(index).address()) })
    }

    /// Writes the element `index` elements further.
    ///
    /// # Safety
    /// The element is in the block's shared memory, and no other thread accesses it meanwhile.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn write(self, index: impl ElementOffset, value: T) {
        // SAFETY: the element is in the block's shared memory, and no other thread accesses it.
        unsafe { T::Bits::store_shared(self.offset(index).address(), value.to_bits()) }
    }
}

/// A distance in shared memory, whose addresses have 32 bits.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
fn in_shared(index: impl ElementOffset) -> i32 {
    let elements = index.elements();
    simulator_assert!(
        elements == i64::from(elements as i32),
        "the element {elements} further on is in no shared memory"
    );
    elements as i32
}
