//! Typed pointers to global memory, as kernels take them.

use super::Element;
use crate::arch::Word;

/// A pointer to elements in global memory that the kernel only reads.
///
/// As a kernel parameter it is one 64-bit address; the host passes a `&Buffer<T>` or a sub-range of one for it.
#[repr(transparent)]
pub struct Global<T: Element>(*const T);

/// A pointer to elements in global memory that the kernel may write.
///
/// As a kernel parameter it is one 64-bit address; the host passes a `&mut Buffer<T>` or a sub-range of one for it.
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

            /// The pointer moved by `elements` (may be negative). The arithmetic wraps; only an access is checked.
            #[inline(always)]
            pub fn offset(self, elements: i64) -> Self {
                Self(self.0.wrapping_offset(elements as isize))
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
        // SAFETY: an address only; every access through it goes through `arch`, which states its own contract.
        unsafe impl<T: Element> Send for $name<T> {}
        // SAFETY: as above.
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

/// A typed pointer to global memory: [`Global`] or [`GlobalMut`].
pub trait GlobalPointer: Copy {
    /// What it points to.
    type Element: Element;

    /// The device address, in bytes.
    fn address(self) -> u64;

    /// The pointer moved by `elements`.
    #[must_use]
    fn offset(self, elements: i64) -> Self;
}

impl<T: Element> GlobalPointer for Global<T> {
    type Element = T;

    #[inline(always)]
    fn address(self) -> u64 {
        self.address()
    }

    #[inline(always)]
    fn offset(self, elements: i64) -> Self {
        self.offset(elements)
    }
}

impl<T: Element> GlobalPointer for GlobalMut<T> {
    type Element = T;

    #[inline(always)]
    fn address(self) -> u64 {
        self.address()
    }

    #[inline(always)]
    fn offset(self, elements: i64) -> Self {
        self.offset(elements)
    }
}

impl<T: Element> Global<T> {
    /// Reads the element `index` elements further on.
    ///
    /// # Safety
    /// The element lies in memory that the kernel may read, and no thread writes it meanwhile.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn read(self, index: i64) -> T {
        // SAFETY: the caller's contract.
        T::from_bits(unsafe { T::Bits::load_global(self.offset(index).address()) })
    }
}

impl<T: Element> GlobalMut<T> {
    /// Reads the element `index` elements further on.
    ///
    /// # Safety
    /// The element lies in memory that the kernel may read, and no other thread writes it meanwhile.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn read(self, index: i64) -> T {
        // SAFETY: the caller's contract.
        T::from_bits(unsafe { T::Bits::load_global(self.offset(index).address()) })
    }

    /// Writes the element `index` elements further on.
    ///
    /// # Safety
    /// The element lies in memory that the kernel may write, and no other thread touches it meanwhile.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn write(self, index: i64, value: T) {
        // SAFETY: the caller's contract.
        unsafe { T::Bits::store_global(self.offset(index).address(), value.to_bits()) }
    }

    /// The same pointer, for reading only.
    #[inline(always)]
    pub fn as_const(self) -> Global<T> {
        Global(self.0)
    }
}
