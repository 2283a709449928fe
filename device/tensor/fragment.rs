//! Fragments: a thread's own elements, in registers.

use super::static_layout::StaticLayout;
use super::{Access, AccessMut, Engine, Tensor};
use crate::arch::{Fma, Word};
use crate::layout::{Layout, Text};
use crate::memory::Element;
use core::marker::PhantomData;
use core::mem::MaybeUninit;

/// A thread's own elements, one per index of `L`, in registers.
pub type Fragment<T, L> = Tensor<Registers<T>, L>;

/// The registers of a fragment: room for 1,024 bytes, which is all the registers that a thread can have.
///
/// The room is fixed so that a fragment needs no length in its type. What no index names is never touched, and costs
/// nothing: the compiler splits the room into registers, as long as every index is a constant after unrolling.
#[derive(Clone)]
pub struct Registers<T: Element> {
    words: Room,
    element: PhantomData<T>,
}

const ROOM: usize = 1024;

/// The fragment has room for the layout's elements, or it does not compile.
const fn fits(layout: Layout, element_bytes: usize) {
    let bytes = layout.size() as usize * element_bytes;
    if bytes > ROOM {
        let mut text = Text::<400>::new();
        text.str("a fragment of layout ");
        text.layout(&layout);
        text.str(" takes ");
        text.int(bytes as i64);
        text.str(" bytes of registers, and a thread has ");
        text.int(ROOM as i64);
        text.str(": spread the tile over more threads, or make it smaller");
        panic!("{}", text.as_str());
    }
}

#[derive(Clone)]
#[repr(C, align(16))]
struct Room([MaybeUninit<u8>; ROOM]);

impl<T: Element, L: StaticLayout> Fragment<T, L> {
    /// A fragment whose elements hold nothing yet.
    ///
    /// # Safety
    /// Every element is written before it is read.
    #[inline(always)]
    pub unsafe fn uninit() -> Self {
        const { fits(L::LAYOUT, T::BYTES) };
        Tensor::from_engine(Registers { words: Room([MaybeUninit::uninit(); ROOM]), element: PhantomData })
    }

    /// A fragment with every element `value`.
    #[inline(always)]
    pub fn filled(value: T) -> Self {
        // SAFETY: filled at once.
        let mut fragment = unsafe { Self::uninit() };
        for i in 0..Self::SIZE {
            // SAFETY: inside the fragment.
            unsafe { fragment.set(i, value) };
        }
        fragment
    }
}

impl<E: Engine<Element: Fma>, L: StaticLayout> Tensor<E, L> {
    /// A fragment of this tensor's shape, all zeros: an accumulator.
    #[inline(always)]
    pub fn accumulator(&self) -> Fragment<E::Element, L> {
        Fragment::filled(E::Element::ZERO)
    }
}

impl<E: Engine, L: StaticLayout> Tensor<E, L> {
    /// A fragment of this tensor's shape that holds nothing yet, CuTe's `make_fragment_like`.
    ///
    /// # Safety
    /// Every element is written before it is read.
    #[inline(always)]
    pub unsafe fn make_fragment_like(&self) -> Fragment<E::Element, L> {
        // SAFETY: the caller's contract.
        unsafe { Fragment::uninit() }
    }
}

impl<T: Element> Engine for Registers<T> {
    type Element = T;

    #[inline(always)]
    fn shift<S: StaticLayout>(&mut self, _: u32) {
        const { panic!("a fragment belongs to one thread and cannot be partitioned among several") }
    }
}

// SAFETY: elements follow each other in index order from a 16-byte boundary on.
unsafe impl<T: Element, L: StaticLayout> Access<L> for Registers<T> {
    const RUN: usize = {
        let mut run = 16 / T::BYTES;
        while !(L::LAYOUT.size() as usize).is_multiple_of(run) {
            run /= 2;
        }
        run
    };

    #[inline(always)]
    unsafe fn load<W: Word>(&self, index: usize) -> W {
        debug_assert!(index < L::LAYOUT.size() as usize, "element {index} of a fragment of fewer");
        // SAFETY: inside the room, aligned by `RUN`; the caller has written what it reads.
        unsafe { self.words.0.as_ptr().add(index * T::BYTES).cast::<W>().read() }
    }

    #[inline(always)]
    fn exists(&self, _: usize) -> bool {
        true
    }
}

// SAFETY: as for `Access`.
unsafe impl<T: Element, L: StaticLayout> AccessMut<L> for Registers<T> {
    #[inline(always)]
    unsafe fn store<W: Word>(&mut self, index: usize, word: W) {
        debug_assert!(index < L::LAYOUT.size() as usize, "element {index} of a fragment of fewer");
        // SAFETY: inside the room, aligned by `RUN`.
        unsafe { self.words.0.as_mut_ptr().add(index * T::BYTES).cast::<W>().write(word) }
    }
}
