//! A block's shared memory, with a state for every byte.

use crate::pod::{Pod, access_size, from_bits};
use std::cell::UnsafeCell;

/// The shared address of a block's first byte. It is not 0, so that an offset used as an address is noticed.
pub(crate) const SHARED_BASE: u32 = 1024;

/// A byte that a thread or a completed `cp.async` wrote. A byte that nobody wrote is 0.
const WRITTEN: u8 = 1;
/// A byte that a `cp.async` is to write.
const IN_FLIGHT: u8 = 2;

/// Shared memory and its states. Offsets count from the first byte.
pub(crate) struct SharedMemory {
    /// Both in units that are aligned as the widest access is.
    data: Box<[UnsafeCell<u128>]>,
    state: Box<[UnsafeCell<u128>]>,
    bytes: usize,
}

/// `byte` in every byte of an access's width.
#[inline(always)]
const fn everywhere(byte: u8, width: usize) -> u128 {
    (u128::from_ne_bytes([byte; 16])) >> (128 - 8 * width)
}

impl SharedMemory {
    pub(crate) fn new(bytes: usize) -> Self {
        let units = || (0..bytes.div_ceil(16)).map(|_| UnsafeCell::new(0)).collect();
        Self { data: units(), state: units(), bytes }
    }

    /// Forgets everything: all bytes are poison and unwritten.
    pub(crate) fn reset(&self) {
        for (data, state) in self.data.iter().zip(&self.state) {
            // SAFETY: one OS thread uses the block, and no reference into a cell is ever made.
            unsafe {
                data.get().write(u128::MAX);
                state.get().write(0);
            }
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether an access at `offset` is aligned and lies within the memory.
    #[inline(always)]
    pub(crate) fn fits(&self, offset: usize, width: usize) -> bool {
        offset & (width - 1) == 0 && offset + width <= self.bytes
    }

    #[inline(always)]
    fn data_at<T>(&self, offset: usize) -> *mut T {
        self.data.as_ptr().cast::<u8>().wrapping_add(offset).cast_mut().cast()
    }

    #[inline(always)]
    fn state_at<T>(&self, offset: usize) -> *mut T {
        self.state.as_ptr().cast::<u8>().wrapping_add(offset).cast_mut().cast()
    }

    /// The states of `width` bytes from `offset`, which fits.
    #[inline(always)]
    fn states(&self, offset: usize, width: usize) -> u128 {
        // SAFETY: the range was checked by `fits`; an address that is a multiple of a power of two up to 16 within
        // memory aligned to 16 is aligned. One OS thread uses the block.
        unsafe {
            match width {
                1 => self.state_at::<u8>(offset).read().into(),
                2 => self.state_at::<u16>(offset).read().into(),
                4 => self.state_at::<u32>(offset).read().into(),
                8 => self.state_at::<u64>(offset).read().into(),
                _ => self.state_at::<u128>(offset).read(),
            }
        }
    }

    /// Loads a `T` if the access fits and every byte was written.
    #[inline(always)]
    pub(crate) fn load<T: Pod>(&self, offset: usize) -> Option<T> {
        let width = access_size::<T>();
        if !self.fits(offset, width) || self.states(offset, width) != everywhere(WRITTEN, width) {
            return None;
        }
        // SAFETY: within the memory and aligned to its width; unaligned only in that `T` may ask for more.
        Some(unsafe { self.data_at::<T>(offset).read_unaligned() })
    }

    /// Stores a `T` if the access fits and no byte is in flight; says whether it did.
    #[inline(always)]
    pub(crate) fn store<T: Pod>(&self, offset: usize, value: T) -> bool {
        let width = access_size::<T>();
        if !self.fits(offset, width) || self.states(offset, width) & everywhere(IN_FLIGHT, width) != 0 {
            return false;
        }
        // SAFETY: both as in `load`; any bytes are valid states.
        unsafe {
            self.data_at::<T>(offset).write_unaligned(value);
            self.state_at::<T>(offset).write_unaligned(from_bits(everywhere(WRITTEN, width)));
        }
        true
    }

    /// Stores the bytes of a completed `cp.async`.
    pub(crate) fn land(&self, offset: usize, bytes: &[u8]) {
        debug_assert!(self.fits(offset, bytes.len()), "checked when the copy was issued");
        for (i, &byte) in bytes.iter().enumerate() {
            // SAFETY: the range was checked when the copy was issued.
            unsafe {
                self.data_at::<u8>(offset + i).write(byte);
                self.state_at::<u8>(offset + i).write(WRITTEN);
            }
        }
    }

    /// Marks bytes that a `cp.async` is to write.
    pub(crate) fn take_off(&self, offset: usize, bytes: usize) {
        debug_assert!(self.fits(offset, bytes), "checked by the caller");
        for at in offset..offset + bytes {
            // SAFETY: the range was checked by the caller.
            unsafe {
                self.data_at::<u8>(at).write(0xFF);
                self.state_at::<u8>(at).write(IN_FLIGHT);
            }
        }
    }

    /// The first byte of a range that is in flight, if any is.
    pub(crate) fn first_in_flight(&self, offset: usize, bytes: usize) -> Option<usize> {
        // SAFETY: the caller checked the range by `fits`.
        (offset..offset + bytes).find(|&at| unsafe { self.state_at::<u8>(at).read() } == IN_FLIGHT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_width_knows_what_was_written() {
        let shared = SharedMemory::new(40);
        shared.reset();
        assert_eq!(shared.load::<u8>(3), None, "unwritten");
        assert!(shared.store::<u32>(4, 0x0403_0201));
        assert_eq!(shared.load::<u8>(6), Some(3));
        assert_eq!(shared.load::<u16>(6), Some(0x0403));
        assert_eq!(shared.load::<u64>(0), None, "the lower half is unwritten");
        assert!(shared.store::<u32>(0, 0));
        assert_eq!(shared.load::<u64>(0), Some(0x0403_0201 << 32));
        assert!(shared.store::<u128>(16, 7));
        assert_eq!(shared.load::<[u32; 4]>(16), Some([7, 0, 0, 0]));
        assert!(!shared.store::<u128>(32, 7), "40 bytes are not 48");
        assert!(shared.store::<u64>(32, 7), "the last 8 bytes");
        shared.reset();
        assert_eq!(shared.load::<u32>(4), None, "a new block finds nothing");
    }

    #[test]
    fn bytes_in_flight_are_neither_readable_nor_writable_until_they_land() {
        let shared = SharedMemory::new(32);
        shared.reset();
        shared.take_off(8, 4);
        assert_eq!(shared.load::<u32>(8), None);
        assert!(!shared.store::<u64>(8, 1));
        assert_eq!(shared.first_in_flight(0, 16), Some(8));
        shared.land(8, &[1, 2, 3, 4]);
        assert_eq!(shared.load::<u32>(8), Some(0x0403_0201));
        assert_eq!(shared.first_in_flight(0, 16), None);
    }
}
