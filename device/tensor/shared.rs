//! Tensors in shared memory: everything but the thread's origin is known at compile time.

use super::static_layout::StaticLayout;
use super::tables::{Digits, Offsets, PLAIN, run};
use super::{Access, AccessMut, Engine, Tensor};
use crate::arch::Word;
use crate::memory::{Element, Shared};

/// Elements in shared memory, named by a layout of offsets.
pub type SharedTensor<T, L> = Tensor<Shared<T>, L>;

impl<T: Element, L: StaticLayout> SharedTensor<T, L> {
    /// The elements at `pointer`, which is aligned to 16 bytes.
    #[inline(always)]
    pub const fn shared(pointer: Shared<T>) -> Self {
        Tensor::from_engine(pointer)
    }

    /// The same memory, named by another layout that reaches no further.
    #[inline(always)]
    pub const fn with_layout<N: StaticLayout>(self) -> SharedTensor<T, N> {
        const {
            assert!(
                N::LAYOUT.cosize() <= L::LAYOUT.cosize(),
                "with_layout: the new layout reaches past the elements of the old one"
            );
        }
        Tensor::from_engine(self.engine)
    }
}

impl<T: Element> Shared<T> {
    /// The address of an element of `L`, in bytes.
    #[inline(always)]
    pub(crate) fn address_of<L: StaticLayout>(self, index: usize) -> u32 {
        self.offset(Offsets::<L, PLAIN>::TABLE[index]).address()
    }
}

impl<T: Element> Engine for Shared<T> {
    type Element = T;

    #[inline(always)]
    fn shift<S: StaticLayout>(&mut self, index: u32) {
        *self = self.offset(Digits::<S, PLAIN>::offset(index));
    }
}

// SAFETY: `run` looks for groups of consecutive offsets that start at multiples of their length, origin included, and
// arrays in shared memory start at multiples of 16 bytes.
unsafe impl<T: Element, L: StaticLayout> Access<L> for Shared<T> {
    const RUN: usize = run(L::LAYOUT, PLAIN, 1, L::ORIGIN, 16 / T::BYTES);

    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn load<W: Word>(&self, index: usize) -> W {
        // SAFETY: the caller's contract.
        unsafe { W::load_shared(self.address_of::<L>(index)) }
    }

    #[inline(always)]
    fn exists(&self, _: usize) -> bool {
        true
    }
}

// SAFETY: as for `Access`.
unsafe impl<T: Element, L: StaticLayout> AccessMut<L> for Shared<T> {
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn store<W: Word>(&mut self, index: usize, word: W) {
        // SAFETY: the caller's contract.
        unsafe { W::store_shared(self.address_of::<L>(index), word) }
    }
}
