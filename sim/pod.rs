//! The element types of simulated memory.

use half::{bf16, f16};

/// A type that a simulated thread may load or store in one access.
///
/// # Safety
/// Every bit pattern of `size_of::<Self>()` bytes is a valid value and there is no padding. The
/// size is 1, 2, 4, 8 or 16 bytes; a type of another size does not compile where it is accessed.
pub unsafe trait Pod: Copy + Send + Sync + 'static {}

macro_rules! pod {
    ($($t:ty),*) => { $(
        // SAFETY: a plain number, without padding, every bit pattern of which is a value.
        unsafe impl Pod for $t {}
    )* };
}
pod!(u8, u16, u32, u64, u128, usize, i8, i16, i32, i64, i128, isize, f32, f64, f16, bf16);

// SAFETY: an array has no padding between its elements and adds no invalid bit pattern.
unsafe impl<T: Pod, const N: usize> Pod for [T; N] {}

/// The size of one access of `T`, in bytes; an unsupported size is a compile error.
pub(crate) const fn access_size<T: Pod>() -> usize {
    const {
        assert!(
            matches!(size_of::<T>(), 1 | 2 | 4 | 8 | 16),
            "one access of a simulated thread moves 1, 2, 4, 8 or 16 bytes"
        );
    }
    size_of::<T>()
}

/// The value with all bits set, which fills unwritten memory: a NaN for floats.
pub(crate) fn poison<T: Pod>() -> T {
    from_bits(u128::MAX)
}

/// The bytes of a value, zero-extended.
#[inline(always)]
pub(crate) fn to_bits<T: Pod>(value: T) -> u128 {
    let mut bytes = [0; 16];
    let _ = access_size::<T>();
    // SAFETY: `T` is at most 16 bytes, none of them padding.
    unsafe { bytes.as_mut_ptr().cast::<T>().write_unaligned(value) };
    u128::from_le_bytes(bytes)
}

/// The value of the lowest bytes of `bits`.
#[inline(always)]
pub(crate) fn from_bits<T: Pod>(bits: u128) -> T {
    let bytes = bits.to_le_bytes();
    let _ = access_size::<T>();
    // SAFETY: `T` is at most 16 bytes, and every bit pattern of it is a value.
    unsafe { bytes.as_ptr().cast::<T>().read_unaligned() }
}
