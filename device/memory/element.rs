//! The types that a kernel may store in global or shared memory.

use super::packed::{extract, insert, per_byte, place};
use crate::arch::{Bf16x2, F16x2, Word, Word128};
use crate::number::{B1, Number, S4, U4};
use core::mem::offset_of;
use half::{bf16, f16};

/// The element type of tensors and tiled copies: an [`Element`], or a type smaller than a byte that
/// is packed without gaps.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot live in device memory, packed or not",
    label = "not an element type"
)]
pub trait Storable: Copy + Send + Sync + 'static {
    /// The name in messages and tables: `f32`, `bf16`, `s4`, ...
    const NAME: &'static str;

    /// The bits of an element: a multiple of 8 for an [`Element`]; 1, 2 or 4 for packed types.
    const BITS: i64;

    /// Reads element `index` of a packed run in a thread's own memory that starts at `first`.
    ///
    /// # Safety
    /// Its bytes are readable and were written, and `first` is aligned like the element.
    #[doc(hidden)]
    unsafe fn read_own(first: *const u8, index: usize) -> Self;

    /// Writes element `index`; for an element smaller than a byte, the rest of its byte is kept.
    ///
    /// # Safety
    /// Same contract as [`read_own`](Self::read_own), for writing; the byte of a small element was
    /// written before.
    #[doc(hidden)]
    unsafe fn write_own(first: *mut u8, index: usize, value: Self);
}

impl<T: Element> Storable for T {
    const NAME: &'static str = <T as Element>::NAME;
    const BITS: i64 = 8 * T::BYTES as i64;

    #[inline(always)]
    unsafe fn read_own(first: *const u8, index: usize) -> Self {
        // SAFETY: the element's bytes were written, and `first` is aligned.
        T::from_bits(unsafe { first.add(index * T::BYTES).cast::<T::Bits>().read() })
    }

    #[inline(always)]
    unsafe fn write_own(first: *mut u8, index: usize, value: Self) {
        // SAFETY: the element's bytes may be written, and `first` is aligned.
        unsafe { first.add(index * T::BYTES).cast::<T::Bits>().write(value.to_bits()) }
    }
}

macro_rules! packed {
    ($($t:ty),*) => { $(
        impl Storable for $t {
            const NAME: &'static str = <$t as Number>::NAME;
            const BITS: i64 = <$t as Number>::WIDTH as i64;

            #[inline(always)]
            unsafe fn read_own(first: *const u8, index: usize) -> Self {
                let (byte, at) = place(index as i64, per_byte::<$t>());
                // SAFETY: the element's byte was written.
                extract(unsafe { first.add(byte as usize).read() }, at)
            }

            #[inline(always)]
            unsafe fn write_own(first: *mut u8, index: usize, value: Self) {
                let (byte, at) = place(index as i64, per_byte::<$t>());
                // SAFETY: the element's byte was written and may be written again.
                unsafe {
                    let byte = first.add(byte as usize);
                    byte.write(insert(byte.read(), at, value));
                }
            }
        }
    )* };
}
packed!(S4, U4, B1);

/// A distance in elements: any integer type of indices, extents or strides.
///
/// The rule for integers in kernels: parameters that are an element, a place of a mode, a distance
/// or a stride accept each of these types, in global and in shared memory, so that the author
/// converts no index. Distances in global memory are computed in 64 bits. Threads, the extents of
/// tensors and the coordinates of tiles are `u32`, like `thread_idx` and `block_idx`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a distance in elements",
    label = "not an integer",
    note = "a distance is an i32, u32, i64, u64 or usize, as it is: `x.read(thread_idx().x)`"
)]
pub trait ElementOffset: Copy {
    /// The distance; a negative distance goes backwards.
    #[doc(hidden)]
    fn elements(self) -> i64;
}

/// The integer types of elements, places and distances.
macro_rules! for_each_index {
    ($then:ident) => {
        $then!(u32, i32, usize, i64, u64);
    };
}
pub(crate) use for_each_index;

macro_rules! offset {
    ($($t:ty),*) => { $(
        impl ElementOffset for $t {
            #[inline(always)]
            fn elements(self) -> i64 {
                self as i64
            }
        }
    )* };
}
for_each_index!(offset);

/// A type that device memory can hold: fixed size, no padding, valid for every bit pattern.
///
/// # Safety
/// Every bit pattern of `size_of::<Self>()` bytes is a valid value, there is no padding, `Bits` has
/// the same size, and the type has neither drop glue nor references.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot live in device memory",
    label = "not an element type",
    note = "element types are i8..i64, u8..u64, u128, f32, f64, half::f16, half::bf16, Tf32, F8E4M3, F8E5M2, Complex64, F16x2, \
            Bf16x2, and pairs and arrays of numbers of 32 or of 64 bits that have 8 or 16 bytes"
)]
pub unsafe trait Element: Copy + Send + Sync + 'static {
    /// The name in messages and tables: `f32`, `bf16`, ...
    const NAME: &'static str;

    /// The size of an element in bytes.
    const BYTES: usize = size_of::<Self>();

    /// The word with which an element is loaded and stored.
    type Bits: Word;

    /// The element's bits.
    #[inline(always)]
    fn to_bits(self) -> Self::Bits {
        const { assert!(size_of::<Self>() == size_of::<Self::Bits>()) };
        // SAFETY: same size, both plain bits.
        unsafe { core::mem::transmute_copy(&self) }
    }

    /// The element with these bits.
    #[inline(always)]
    fn from_bits(bits: Self::Bits) -> Self {
        const { assert!(size_of::<Self>() == size_of::<Self::Bits>()) };
        // SAFETY: same size, both plain bits.
        unsafe { core::mem::transmute_copy(&bits) }
    }
}

macro_rules! element {
    ($($t:ty: $bits:ty),*) => { $(
        // SAFETY: a plain number type; all bit patterns are valid.
        unsafe impl Element for $t {
            const NAME: &'static str = stringify!($t);
            type Bits = $bits;
        }
    )* };
}
element!(i8: u8, u8: u8, i16: u16, u16: u16, f16: u16, bf16: u16, i32: u32, u32: u32, f32: u32);
element!(F16x2: u32, Bf16x2: u32);
element!(i64: u64, u64: u64, f64: u64, u128: Word128);

/// Pairs of number types of one size (for example a value and its index), and arrays of 2 or 4:
/// they have no padding, and fit a word of 8 or 16 bytes.
macro_rules! pairs {
    ($word:ty: $($one:ident)+) => { pairs!(@each $word; [$($one)+] $($one)+); };
    (@each $word:ty; $all:tt $($one:ident)+) => { $( pairs!(@with $word; $one $all); )+ };
    (@with $word:ty; $one:ident [$($other:ident)+]) => {
        element!($(($one, $other): $word),+);
        // Kernel and host have both fields at the same offsets.
        $( const _: () = assert!(
            offset_of!(($one, $other), 0) == 0 && offset_of!(($one, $other), 1) == size_of::<$one>()
        ); )+
    };
}
pairs!(u64: f32 i32 u32);
pairs!(Word128: f64 i64 u64);
element!([f32; 2]: u64, [i32; 2]: u64, [u32; 2]: u64, [f32; 4]: Word128, [i32; 4]: Word128, [u32; 4]: Word128);
element!([f64; 2]: Word128, [i64; 2]: Word128, [u64; 2]: Word128);
