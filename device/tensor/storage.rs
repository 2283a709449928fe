//! Arrays with a layout in shared memory, and the set of arrays that a kernel declares.
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

use super::{SharedTensor, StaticLayout, Tensor, block_bytes, starts_at_zero};
use crate::arch;
use crate::layout::{Swizzle, Text};
use crate::memory::{Element, Shared};
use core::marker::PhantomData;

/// The shared memory of a kernel: a [`SharedArray`], or a tuple of up to eight.
///
/// Each array starts at a multiple of [`SharedArray::ALIGN`] bytes.
pub trait SharedStorage {
    /// The need of a block, in bytes.
    const BYTES: usize;

    /// Its alignment in bytes; at most 1,024, the alignment of the block's shared memory.
    const ALIGN: usize;

    /// The arrays as tensors: one tensor, or a tuple of them.
    type Tensors;

    /// The arrays, placed from shared address `base` on.
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

/// A multiple of the widest access (16 bytes), and one row of the 32 banks.
const ALIGN: usize = 128;

/// Elements in shared memory, one for each index of the layout `L`.
pub struct SharedArray<T: Element, L: StaticLayout>(PhantomData<(T, L)>);

impl<T: Element, L: StaticLayout> SharedArray<T, L> {
    /// The array starts at a multiple of this, in bytes: 128, or a block of its layout's swizzle
    /// where that is larger.
    pub const ALIGN: usize = {
        let block = block_bytes::<T, L>() as usize;
        within_start(L::SWIZZLE, block);
        if block > ALIGN { block } else { ALIGN }
    };
}

/// The alignment of a block's shared memory, in bytes.
const START: usize = 1024;

/// A swizzle works on addresses: its blocks start at multiples of their size, or the array does not
/// compile.
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
        // A swizzle keeps each of its blocks to itself, and may use all of the last one.
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

/// Nothing.
impl SharedStorage for () {
    const BYTES: usize = 0;
    const ALIGN: usize = 1;

    type Tensors = ();

    #[inline(always)]
    unsafe fn at(_: u32) {}
}

/// The offset of the next part, a constant once inlined; `end` moves past it.
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
                // SAFETY: the parts follow each other inside the range that the caller gave.
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
