//! Shared memory: pointers to it, arrays with a layout, and the set of arrays that a kernel
//! declares.
//!
//! A kernel declares its shared memory as one type, a tuple of [`SharedArray`]s:
//!
//! ```
//! use moye_device::memory::{SharedArray, SharedStorage};
//! use moye_device::{layout, static_layout};
//!
//! static_layout! {
//!     SmemA = layout!((128, 8) : (1, 129));
//!     SmemB = layout!((128, 8) : (1, 129));
//! }
//! type Smem = (SharedArray<f32, SmemA>, SharedArray<f32, SmemB>);
//!
//! // 128 + 7 * 129 elements of 4 bytes for A, and B after it at the next multiple of 128 bytes.
//! assert_eq!(Smem::BYTES, 4224 + 4 * 1031);
//! ```
//!
//! `#[kernel(shared = Smem)]` declares the size to the host, and `Smem::take()` in the kernel's
//! body returns the arrays as tensors.

use super::{Element, ElementOffset};
use crate::arch::{self, Word, simulator_assert};
use crate::layout::{Swizzle, Text};
use crate::tensor::{SharedTensor, StaticLayout, Tensor, block_bytes, starts_at_zero};
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

/// The shared memory of a kernel: a [`SharedArray`], or a tuple of up to eight storages.
///
/// Each array starts at a multiple of [`SharedArray::ALIGN`] bytes.
pub trait SharedStorage {
    /// The bytes that a block needs.
    const BYTES: usize;

    /// Its alignment in bytes; at most 1,024, the alignment of the block's shared memory.
    const ALIGN: usize;

    /// The arrays as tensors: one tensor, or a tuple of them.
    type Tensors;

    /// The arrays, placed at the shared address `base`.
    ///
    /// # Safety
    /// `BYTES` bytes from `base`, a multiple of `ALIGN`, are used by this storage only.
    unsafe fn at(base: u32) -> Self::Tensors;

    /// The arrays, placed at the start of the block's shared memory.
    ///
    /// # Safety
    /// The block was launched with at least `BYTES` bytes (a kernel that declares this type as
    /// `shared` always is), and nothing else is placed there.
    #[inline(always)]
    #[must_use]
    unsafe fn take() -> Self::Tensors
    where
        Self: Sized,
    {
        // SAFETY: the block was launched with at least `BYTES` bytes.
        unsafe { Self::at(arch::shared_base()) }
    }
}

/// A multiple of the widest access (16 bytes): one row of the 32 banks.
const ALIGN: usize = 128;

/// Elements in shared memory, one for each index of the layout `L`.
pub struct SharedArray<T: Element, L: StaticLayout>(PhantomData<(T, L)>);

impl<T: Element, L: StaticLayout> SharedArray<T, L> {
    /// The alignment of the array in bytes: 128, or a block of its layout's swizzle if that is
    /// larger.
    pub const ALIGN: usize = {
        let block = block_bytes::<T, L>() as usize;
        within_start(L::SWIZZLE, block);
        if block > ALIGN { block } else { ALIGN }
    };
}

/// The alignment of a block's shared memory, in bytes.
const START: usize = 1024;

/// A swizzle works on addresses: its blocks must start at multiples of their size, or the array
/// does not compile.
const fn within_start(swizzle: Swizzle, block: usize) {
    if block > START {
        let mut text = Text::<400>::new();
        text.str("shared memory starts at a multiple of ");
        text.int(START as i64);
        text.str(" bytes, and the swizzle ");
        swizzle.write(&mut text);
        text.str(" repeats after ");
        text.int(block as i64);
        text.str(": take one of fewer bits or a smaller shift, or pad the layout after every few rows");
        panic!("{}", text.as_str());
    }
}

impl<T: Element, L: StaticLayout> SharedStorage for SharedArray<T, L> {
    const BYTES: usize = {
        starts_at_zero(L::LAYOUT);
        within_start(L::SWIZZLE, block_bytes::<T, L>() as usize);
        let end = L::LAYOUT.cosize();
        // A swizzle permutes within its blocks, and may use all of the last one.
        let block = block_bytes::<T, L>() as i64 / T::BYTES as i64;
        (if L::SWIZZLE.bits() == 0 { end } else { (end + block - 1) / block * block }) as usize * T::BYTES
    };
    const ALIGN: usize = Self::ALIGN;

    type Tensors = SharedTensor<T, L>;

    #[inline(always)]
    unsafe fn at(base: u32) -> Self::Tensors {
        Tensor::shared(Shared::from_address(base))
    }
}

/// No shared memory.
impl SharedStorage for () {
    const BYTES: usize = 0;
    const ALIGN: usize = 1;

    type Tensors = ();

    #[inline(always)]
    unsafe fn at(_: u32) {}
}

/// The offset of the next part, a constant once inlined; advances `end` past it.
#[inline(always)]
fn place<S: SharedStorage>(end: &mut u32) -> u32 {
    let start = end.next_multiple_of(S::ALIGN as u32);
    *end = start + S::BYTES as u32;
    start
}

macro_rules! storage {
    ($($name:ident)+) => {
        impl<$($name: SharedStorage),+> SharedStorage for ($($name,)+) {
            const BYTES: usize = {
                let mut end = 0usize;
                $(end = end.next_multiple_of($name::ALIGN) + $name::BYTES;)+
                end
            };
            const ALIGN: usize = {
                let mut most = ALIGN;
                $(if $name::ALIGN > most {
                    most = $name::ALIGN;
                })+
                most
            };

            type Tensors = ($($name::Tensors,)+);

            #[inline(always)]
            unsafe fn at(base: u32) -> Self::Tensors {
                let mut offset = 0;
                // SAFETY: the parts are consecutive inside the range that the caller passed.
                let tensors = ($(unsafe { $name::at(base + place::<$name>(&mut offset)) },)+);
                debug_assert!(offset as usize == Self::BYTES, "parts end at {offset}, not at {}", Self::BYTES);
                tensors
            }
        }
    };
}
storage!(A);
storage!(A B);
storage!(A B C);
storage!(A B C D);
storage!(A B C D E);
storage!(A B C D E F);
storage!(A B C D E F G);
storage!(A B C D E F G H);

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::panic::catch_unwind;
    use std::string::String;

    #[test]
    fn a_swizzle_that_repeats_after_more_than_shared_memory_starts_at_is_refused() {
        within_start(Swizzle::new(3, 3, 3), 1024);
        let refused = catch_unwind(|| within_start(Swizzle::new(3, 3, 3), 2048)).unwrap_err();
        let text = refused.downcast_ref::<String>().unwrap();
        assert!(text.contains("starts at a multiple of 1024 bytes, and the swizzle"), "{text}");
        assert!(text.contains("repeats after 2048: take one of fewer bits"), "{text}");
    }
}
