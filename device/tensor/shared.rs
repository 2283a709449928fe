//! Tensors in shared memory: everything but the thread's origin is known at compile time.

use super::static_layout::StaticLayout;
use super::tables::{Digits, Offsets, PLAIN, run};
use super::{Access, AccessMut, Engine, Tensor};
use crate::arch::Word;
use crate::layout::{Layout, Text};
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
        const { reaches_no_further(N::LAYOUT, L::LAYOUT) };
        Tensor::from_engine(self.engine)
    }
}

/// The new layout names no element past those of the old one, or the tensor does not compile.
const fn reaches_no_further(new: Layout, old: Layout) {
    if new.cosize() > old.cosize() {
        let mut text = Text::<400>::new();
        text.str("with_layout: ");
        text.layout(&new);
        text.str(" needs ");
        text.int(new.cosize());
        text.str(" elements, and ");
        text.layout(&old);
        text.str(" has ");
        text.int(old.cosize());
        panic!("{}", text.as_str());
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
