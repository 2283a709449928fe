//! Elements smaller than a byte in global and shared memory.
//!
//! Elements are packed without gaps, the first of a byte in its lowest bits, as in CUTLASS's
//! `subbyte_iterator` and the registers of `mma.sync`. Memory is addressed in bytes, so a pointer
//! to such elements is a byte address and an index in elements:
//!
//! - Reading an element reads its byte. Reading a [`Word`] of 1 to 16 bytes reads all elements in
//!   it by one instruction; the first must start a word.
//! - [`write`](GlobalPackedMut::write) reads the byte, changes the element's bits and writes it
//!   back, in two instructions. The thread needs exclusive access to the byte.
//! - [`write_shared_byte`](GlobalPackedMut::write_shared_byte) changes only the element's bits, in
//!   two atomic steps (clear, set) on the aligned 32-bit word around it. Other threads may write
//!   other elements of the word meanwhile; a thread that reads this element between the steps may
//!   see zeros.

use super::{ElementOffset, Global, GlobalMut, GlobalPointer, GlobalPointerMut, Shared, Storable};
use crate::arch::{AtomicInteger, Word, simulator_assert};
use crate::number::Scalar;
use crate::tiling::TilingError;
use core::marker::PhantomData;

/// Elements of `T` in one byte. Compiles only for 1, 2 and 4 bits.
pub(super) const fn per_byte<T: Scalar>() -> i64 {
    const {
        if !matches!(T::WIDTH, 1 | 2 | 4) {
            TilingError::of("packed elements")
                .str(T::NAME)
                .str(" has ")
                .int(T::WIDTH as i64)
                .str(" bits, and packed are elements of 1, 2 or 4: take Global, GlobalMut or Shared, whose elements are whole bytes")
                .raise();
        }
    }
    8 / T::WIDTH as i64
}

/// The place of an element in units of `per` elements: the unit, and the element's place in it.
#[inline(always)]
pub(super) const fn place(index: i64, per: i64) -> (i64, u32) {
    (index.div_euclid(per), index.rem_euclid(per) as u32)
}

/// The element at place `at` of a byte.
#[inline(always)]
pub(super) fn extract<T: Scalar>(byte: u8, at: u32) -> T {
    T::from_low_bits(u64::from(byte) >> (at * T::WIDTH as u32))
}

/// `unit` with the element at place `at` replaced.
#[inline(always)]
pub(super) fn insert<T: Scalar>(unit: u8, at: u32, value: T) -> u8 {
    let shift = at * T::WIDTH as u32;
    let mask = ((1u32 << T::WIDTH) - 1) << shift;
    (u32::from(unit) & !mask | (value.low_bits() as u32) << shift & mask) as u8
}

/// The masks of an element in the 32-bit word around its byte: the bits to keep, and its new bits.
#[inline(always)]
fn masks<T: Scalar>(byte_in_word: u32, at: u32, value: T) -> (u32, u32) {
    let shift = 8 * byte_in_word + at * T::WIDTH as u32;
    let mask = ((1u32 << T::WIDTH) - 1) << shift;
    (!mask, (value.low_bits() as u32) << shift & mask)
}

/// The common part of the three pointers.
macro_rules! pointer {
    ($(#[$doc:meta])* $name:ident, $bytes:ident, $address:ty) => {
        $(#[$doc])*
        pub struct $name<T: Scalar> {
            bytes: $bytes<u8>,
            /// The index of the pointed-to element, relative to the first of `bytes`.
            index: i64,
            element: PhantomData<T>,
        }

        impl<T: Scalar> Clone for $name<T> {
            #[inline(always)]
            fn clone(&self) -> Self {
                *self
            }
        }
        impl<T: Scalar> Copy for $name<T> {}

        impl<T: Scalar> $name<T> {
            /// Elements in a byte.
            pub const PER_BYTE: i64 = per_byte::<T>();

            /// The pointer to the first element of the byte that `bytes` points to.
            #[inline(always)]
            pub const fn new(bytes: $bytes<u8>) -> Self {
                Self { bytes, index: 0, element: PhantomData }
            }

            /// The pointer moved by `elements` (may be negative, and end within a byte). Only
            /// accesses are checked.
            #[inline(always)]
            #[must_use]
            pub fn offset(self, elements: impl ElementOffset) -> Self {
                Self { index: self.index.wrapping_add(elements.elements()), ..self }
            }

            /// The address of the byte that holds the element, and the number of its bits below the
            /// element.
            #[inline(always)]
            pub fn address(self) -> ($address, u32) {
                let (byte, at) = place(self.index, Self::PER_BYTE);
                (self.bytes.offset(byte).address(), at * T::WIDTH as u32)
            }

            /// Reads the element `index` elements further.
            ///
            /// # Safety
            /// Its byte may be read, and no other thread writes it meanwhile.
            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            pub unsafe fn read(self, index: impl ElementOffset) -> T {
                let (byte, at) = place(self.index.wrapping_add(index.elements()), Self::PER_BYTE);
                // SAFETY: the element's byte may be read, and no other thread writes it.
                extract(unsafe { self.bytes.read(byte) }, at)
            }

            /// The address of the word that starts with the element `index` elements further.
            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            fn word_address(self, index: i64) -> $address {
                let (byte, at) = place(self.index.wrapping_add(index), Self::PER_BYTE);
                simulator_assert!(at == 0, "a word starts with the first element of a byte, not with element {at} of it");
                self.bytes.offset(byte).address()
            }
        }
    };
}

pointer! {
    /// A pointer to packed elements in global memory that the kernel only reads.
    GlobalPacked, Global, u64
}
pointer! {
    /// A pointer to packed elements in global memory that the kernel may write.
    GlobalPackedMut, GlobalMut, u64
}
pointer! {
    /// A pointer to packed elements in the block's shared memory.
    SharedPacked, Shared, u32
}

macro_rules! load {
    ($name:ident $load:ident) => {
        impl<T: Scalar> $name<T> {
            /// Reads all elements of the word that starts `index` elements further, the first in
            /// its lowest bits, by one instruction.
            ///
            /// # Safety
            /// That element starts a word: its address is a multiple of the word's size, and it is
            /// the first of its byte. The word may be read, and no other thread writes it
            /// meanwhile.
            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            pub unsafe fn read_word<W: Word>(self, index: impl ElementOffset) -> W {
                // SAFETY: the element starts a word that may be read.
                unsafe { W::$load(self.word_address(index.elements())) }
            }
        }
    };
}
load!(GlobalPacked load_global);
load!(GlobalPackedMut load_global);
load!(SharedPacked load_shared);

macro_rules! store {
    ($name:ident $store:ident $and:ident $or:ident $address:ty) => {
        impl<T: Scalar> $name<T> {
            /// Writes the element `index` elements further: reads its byte, and writes the byte
            /// with the element replaced.
            ///
            /// # Safety
            /// Its byte may be read and written, and no other thread accesses *any element of the
            /// byte* meanwhile.
            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            pub unsafe fn write(self, index: impl ElementOffset, value: T) {
                let (byte, at) = place(self.index.wrapping_add(index.elements()), Self::PER_BYTE);
                // SAFETY: no other thread accesses the element's byte.
                unsafe { self.bytes.write(byte, insert(self.bytes.read(byte), at, value)) }
            }

            /// Writes the element `index` elements further when other threads may write other
            /// elements of its byte: clears and sets its bits by two atomic operations on the
            /// aligned 32-bit word around it.
            ///
            /// # Safety
            /// That word may be read and written; no other thread accesses this element meanwhile,
            /// and none writes another element of the word by [`write`](Self::write) or
            /// [`write_word`](Self::write_word).
            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            pub unsafe fn write_shared_byte(self, index: impl ElementOffset, value: T) {
                let (byte, at) = place(self.index.wrapping_add(index.elements()), Self::PER_BYTE);
                let address = self.bytes.offset(byte).address();
                let (stays, bits) = masks(address as u32 % 4, at, value);
                let word = address & !(3 as $address);
                // SAFETY: the word may be read and written; no other thread accesses this element.
                unsafe {
                    let _ = u32::$and(word, stays);
                    let _ = u32::$or(word, bits);
                }
            }

            /// Writes all elements of the word that starts `index` elements further, the first in
            /// its lowest bits, by one instruction.
            ///
            /// # Safety
            /// Same contract as [`read_word`](Self::read_word), for writing.
            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            pub unsafe fn write_word<W: Word>(self, index: impl ElementOffset, word: W) {
                // SAFETY: the element starts a word that may be written.
                unsafe { W::$store(self.word_address(index.elements()), word) }
            }
        }
    };
}
store!(GlobalPackedMut store_global atomic_and_global atomic_or_global u64);
store!(SharedPacked store_shared atomic_and_shared atomic_or_shared u32);

macro_rules! global {
    ($name:ident) => {
        // A tensor's accesses: the pointer is to the element, with which a word starts.
        impl<T: Scalar + Storable> GlobalPointer for $name<T> {
            type Element = T;

            #[inline(always)]
            fn address(self) -> u64 {
                self.address().0
            }

            #[inline(always)]
            fn offset(self, elements: impl ElementOffset) -> Self {
                self.offset(elements)
            }

            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            unsafe fn read_if(self, valid: bool) -> T {
                let (byte, at) = place(self.index, Self::PER_BYTE);
                // SAFETY: if `valid`, the byte may be read.
                extract(unsafe { u8::load_global_if(valid, self.bytes.offset(byte).address()) }, at)
            }

            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            unsafe fn read_part<W: Word>(self, existing: u32) -> W {
                let address = self.word_address(0);
                let mut word = W::ZERO;
                for byte in 0..size_of::<W>() {
                    let kept = existing_bits::<T>(byte, existing);
                    // SAFETY: elements in bounds are readable; a byte without one is not read.
                    // Inside the word, whose bytes are plain bits.
                    unsafe {
                        let bits = u8::load_global_if(kept != 0, address + byte as u64) & kept;
                        (&raw mut word).cast::<u8>().add(byte).write(bits);
                    }
                }
                word
            }
        }
    };
}
global!(GlobalPacked);
global!(GlobalPackedMut);

impl<T: Scalar + Storable> GlobalPointerMut for GlobalPackedMut<T> {
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn write_if(self, valid: bool, value: T) {
        let (byte, at) = place(self.index, Self::PER_BYTE);
        let address = self.bytes.offset(byte).address();
        // SAFETY: if `valid`, the byte may be written, and no other thread accesses it.
        unsafe { u8::store_global_if(valid, address, insert(u8::load_global_if(valid, address), at, value)) };
    }

    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn write_part<W: Word>(self, existing: u32, word: W) {
        let address = self.word_address(0);
        for byte in 0..size_of::<W>() {
            let written = existing_bits::<T>(byte, existing);
            let address = address + byte as u64;
            // SAFETY: elements in bounds are writable; a byte without one is not accessed,
            // and the other elements of a byte are kept. Inside the word, whose bytes are plain
            // bits.
            unsafe {
                let bits = (&raw const word).cast::<u8>().add(byte).read();
                let kept = u8::load_global_if(!matches!(written, 0 | u8::MAX), address) & !written;
                u8::store_global_if(written != 0, address, bits & written | kept);
            }
        }
    }
}

/// The bits of byte `byte` of a word that belong to its first `existing` elements.
#[inline(always)]
fn existing_bits<T: Scalar>(byte: usize, existing: u32) -> u8 {
    let bits = (existing as usize * T::WIDTH).saturating_sub(8 * byte).min(8);
    ((1u32 << bits) - 1) as u8
}
