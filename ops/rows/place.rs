//! Rows in groups in memory, and vectors of their elements, with any strides; aligned vectors are
//! accessed as whole words.

use moye_device::arch::{Convert, Word};
use moye_device::kernel::KernelParam;
use moye_device::memory::{Element, Global, GlobalMut, GlobalPointer as _, GlobalPointerMut as _};

/// The strides of an array's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, KernelParam)]
#[repr(C)]
pub struct Place {
    /// Stride between two groups of rows.
    pub group: i64,
    /// Stride between two rows of a group.
    pub row: i64,
    /// Stride between two elements of a row.
    pub element: i64,
}

impl Place {
    /// The offset of a row's first element.
    #[inline(always)]
    #[must_use]
    pub const fn row(self, group: u32, row: u32) -> i64 {
        group as i64 * self.group + row as i64 * self.row
    }

    /// The offset of an element.
    #[inline(always)]
    #[must_use]
    pub const fn at(self, group: u32, row: u32, element: u32) -> i64 {
        self.row(group, row) + element as i64 * self.element
    }
}

/// The values of a vector of 16 bytes.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn values<T: Element + Convert<f32>>(words: &[u32; 4]) -> [f32; 8] {
    // SAFETY: any bits of the words are valid elements.
    let elements: &[T] =
        unsafe { core::slice::from_raw_parts(words.as_ptr().cast(), const { 16 / T::BYTES }) };
    let mut values = [0.0; 8];
    for (value, element) in values.iter_mut().zip(elements) {
        *value = element.convert();
    }
    values
}

/// A vector of 16 bytes of elements, converted from values in pairs.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn elements<T: Element>(values: &[f32; 8]) -> [u32; 4]
where
    f32: Convert<T>,
{
    let mut words = [0u32; 4];
    let to = words.as_mut_ptr().cast::<T>();
    for i in 0..const { 8 / T::BYTES } {
        let [low, high] = f32::convert_pair([values[2 * i], values[2 * i + 1]]);
        // SAFETY: the words have room for the elements.
        unsafe {
            to.add(2 * i).write(low);
            to.add(2 * i + 1).write(high);
        }
    }
    words
}

/// Reads the first `existing` elements of a vector; the others are zeros.
///
/// # Safety
/// The existing elements are readable, `stride` apart; if all exist and `aligned`, the vector is
/// contiguous and at a multiple of its size.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn read<T: Element, W: Element>(x: Global<T>, stride: i64, existing: u32, aligned: bool) -> W {
    // SAFETY: the existing elements are accessible at these places.
    unsafe {
        if aligned {
            return x.cast::<W>().read_if(existing > 0);
        }
        let mut word = W::from_bits(<W::Bits as Word>::ZERO);
        let elements = (&raw mut word).cast::<T>();
        for i in 0..const { W::BYTES / T::BYTES } {
            elements.add(i).write(x.offset(i as i64 * stride).read_if((i as u32) < existing));
        }
        word
    }
}

/// [`read`] of the vectors at several pointers, with the number of existing elements of each. One
/// branch contains all loads, so that none waits for the previous one.
///
/// # Safety
/// Same contract as [`read`].
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn read_all<T: Element, W: Element, const N: usize>(
    from: &[(Global<T>, u32); N],
    stride: i64,
    aligned: bool,
) -> [W; N] {
    let mut words = [W::from_bits(<W::Bits as Word>::ZERO); N];
    // SAFETY: the existing elements are accessible at these places.
    unsafe {
        if aligned {
            for (word, (x, existing)) in words.iter_mut().zip(from) {
                *word = x.cast::<W>().read_if(*existing > 0);
            }
            return words;
        }
        for (word, (x, existing)) in words.iter_mut().zip(from) {
            *word = read(*x, stride, *existing, false);
        }
    }
    words
}

/// Writes the first `existing` elements of a vector.
///
/// # Safety
/// Same contract as [`read`], but the elements are writable.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn write<T: Element, W: Element>(
    y: GlobalMut<T>,
    stride: i64,
    existing: u32,
    aligned: bool,
    word: W,
) {
    // SAFETY: the existing elements are accessible at these places.
    unsafe {
        if aligned {
            return y.cast::<W>().write_if(existing > 0, word);
        }
        let elements = (&raw const word).cast::<T>();
        for i in 0..const { W::BYTES / T::BYTES } {
            y.offset(i as i64 * stride).write_if((i as u32) < existing, elements.add(i).read());
        }
    }
}
