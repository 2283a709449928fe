//! Typed pointers to global memory, as kernel parameters.

use super::{Element, ElementOffset, Storable};
use crate::arch::Word;
use core::mem::MaybeUninit;

/// A pointer to elements in global memory that the kernel only reads.
///
/// As a kernel parameter it is one 64-bit address, for which the host passes a `&Buffer<T>` or a
/// sub-range of one.
#[repr(transparent)]
pub struct Global<T: Element>(*const T);

/// A pointer to elements in global memory that the kernel may write.
///
/// As a kernel parameter it is one 64-bit address, for which the host passes a `&mut Buffer<T>` or
/// a sub-range of one.
#[repr(transparent)]
pub struct GlobalMut<T: Element>(*mut T);

macro_rules! pointer {
    ($name:ident, $raw:ty) => {
        impl<T: Element> $name<T> {
            /// The pointer with this device address.
            #[inline(always)]
            pub const fn from_address(address: u64) -> Self {
                Self(address as usize as $raw)
            }

            /// The device address, in bytes.
            #[inline(always)]
            pub fn address(self) -> u64 {
                self.0 as usize as u64
            }

            /// The pointer moved by `elements` (may be negative). The arithmetic wraps; only
            /// accesses are checked.
            #[inline(always)]
            pub fn offset(self, elements: impl ElementOffset) -> Self {
                Self(self.0.wrapping_offset(elements.elements() as isize))
            }

            /// The same address as a pointer to another element type.
            #[inline(always)]
            pub fn cast<U: Element>(self) -> $name<U> {
                $name::from_address(self.address())
            }
        }

        impl<T: Element> Clone for $name<T> {
            #[inline(always)]
            fn clone(&self) -> Self {
                *self
            }
        }
        impl<T: Element> Copy for $name<T> {}
        // SAFETY: it is only an address; every access uses `arch`, which states its own contract.
        unsafe impl<T: Element> Send for $name<T> {}
        // SAFETY: only an address; an access has the contract of its function of `arch`.
        unsafe impl<T: Element> Sync for $name<T> {}

        impl<T: Element> core::fmt::Debug for $name<T> {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                write!(f, concat!(stringify!($name), "<{}>({:#x})"), T::NAME, self.address())
            }
        }
    };
}
pointer!(Global, *const T);
pointer!(GlobalMut, *mut T);

/// A typed pointer to global memory: [`Global`] or [`GlobalMut`], or for elements smaller than a
/// byte [`GlobalPacked`](super::GlobalPacked) or [`GlobalPackedMut`](super::GlobalPackedMut).
pub trait GlobalPointer: Copy {
    /// The element type.
    type Element: Storable;

    /// The device address in bytes; for packed elements the address of the element's byte.
    fn address(self) -> u64;

    /// The pointer moved by `elements`.
    #[must_use]
    fn offset(self, elements: impl ElementOffset) -> Self;

    /// Reads the element if `valid`; otherwise returns zero.
    ///
    /// # Safety
    /// If `valid`, the element is in memory that the kernel may read, and no other thread writes it
    /// meanwhile (if it is smaller than a byte: any element of its byte).
    unsafe fn read_if(self, valid: bool) -> Self::Element;

    /// Reads a word of elements that starts at the pointer: the first `existing` are read, the
    /// others are zeros.
    ///
    /// # Safety
    /// Same contract as [`read_if`](Self::read_if), for elements in bounds; the element is the
    /// first of its byte.
    unsafe fn read_part<W: Word>(self, existing: u32) -> W;
}

/// A [`GlobalPointer`] through which the kernel may write.
pub trait GlobalPointerMut: GlobalPointer {
    /// Writes the element if `valid`. For an element smaller than a byte, its byte is read and
    /// written back.
    ///
    /// # Safety
    /// If `valid`, the element is in memory that the kernel may write, and no other thread accesses
    /// it meanwhile (if it is smaller than a byte: any element of its byte).
    unsafe fn write_if(self, valid: bool, value: Self::Element);

    /// Writes the first `existing` elements of a word, which starts at the pointer.
    ///
    /// # Safety
    /// Same contract as [`write_if`](Self::write_if), for elements in bounds; the element is the
    /// first of its byte.
    unsafe fn write_part<W: Word>(self, existing: u32, word: W);
}

macro_rules! global_pointer {
    ($name:ident) => {
        impl<T: Element> GlobalPointer for $name<T> {
            type Element = T;

            #[inline(always)]
            fn address(self) -> u64 {
                self.address()
            }

            #[inline(always)]
            fn offset(self, elements: impl ElementOffset) -> Self {
                self.offset(elements)
            }

            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            unsafe fn read_if(self, valid: bool) -> T {
                // SAFETY: if `valid`, the kernel may read the element.
                T::from_bits(unsafe { T::Bits::load_global_if(valid, self.address()) })
            }

            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            unsafe fn read_part<W: Word>(self, existing: u32) -> W {
                let address = self.address();
                let mut word = MaybeUninit::new(W::ZERO);
                for i in 0..size_of::<W>() / T::BYTES {
                    // SAFETY: elements in bounds are readable; others are not read; `i` stays
                    // inside the word.
                    unsafe {
                        let bits =
                            T::Bits::load_global_if((i as u32) < existing, address + (i * T::BYTES) as u64);
                        word.as_mut_ptr().cast::<T::Bits>().add(i).write_unaligned(bits);
                    }
                }
                // SAFETY: initialised above.
                unsafe { word.assume_init() }
            }
        }
    };
}
global_pointer!(Global);
global_pointer!(GlobalMut);

impl<T: Element> GlobalPointerMut for GlobalMut<T> {
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn write_if(self, valid: bool, value: T) {
        // SAFETY: if `valid`, the kernel may write the element, and no other thread accesses it.
        unsafe { T::Bits::store_global_if(valid, self.address(), value.to_bits()) }
    }

    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn write_part<W: Word>(self, existing: u32, word: W) {
        let address = self.address();
        let parts = (&raw const word).cast::<T::Bits>();
        for i in 0..size_of::<W>() / T::BYTES {
            // SAFETY: elements in bounds are writable; others are not written; `i` stays
            // inside the word.
            unsafe {
                let bits = parts.add(i).read_unaligned();
                T::Bits::store_global_if((i as u32) < existing, address + (i * T::BYTES) as u64, bits);
            }
        }
    }
}

impl<T: Element> Global<T> {
    /// Reads the element `index` elements further.
    ///
    /// # Safety
    /// The element is in memory that the kernel may read, and no thread writes it meanwhile.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn read(self, index: impl ElementOffset) -> T {
        // SAFETY: the kernel may read the element, and no thread writes it.
        T::from_bits(unsafe { T::Bits::load_global(self.offset(index).address()) })
    }
}

impl<T: Element> GlobalMut<T> {
    /// Reads the element `index` elements further.
    ///
    /// # Safety
    /// The element is in memory that the kernel may read, and no other thread writes it meanwhile.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn read(self, index: impl ElementOffset) -> T {
        // SAFETY: the kernel may read the element, and no other thread writes it.
        T::from_bits(unsafe { T::Bits::load_global(self.offset(index).address()) })
    }

    /// Writes the element `index` elements further.
    ///
    /// # Safety
    /// The element is in memory that the kernel may write, and no other thread accesses it
    /// meanwhile.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn write(self, index: impl ElementOffset, value: T) {
        // SAFETY: the kernel may write the element, and no other thread accesses it.
        unsafe { T::Bits::store_global(self.offset(index).address(), value.to_bits()) }
    }

    /// The same pointer, for reading only.
    #[inline(always)]
    pub fn as_const(self) -> Global<T> {
        Global(self.0)
    }
}
