//! A block's shared memory, with a state for every byte.

use crate::pod::{Pod, access_size, from_bits};
use std::cell::{Cell, UnsafeCell};

/// The shared address of a block's first byte. Not 0, so that an offset used as an address is
/// noticed.
pub(crate) const SHARED_BASE: u32 = 1024;

/// A byte written by a thread or by a completed copy. An unwritten byte is 0.
const WRITTEN: u8 = 1;
/// A byte that an asynchronous copy will write.
const IN_FLIGHT: u8 = 2;
/// A byte that an asynchronous operation reads, or has read since the last write.
const READING: u8 = 4;
/// A byte written by a bulk copy or an asynchronous store, in addition to [`WRITTEN`].
const BROUGHT: u8 = 8;

/// The fence count starts at 1, so that no stamp is 0.
const FIRST_STAMP: u64 = 1;

/// The granularity, in bytes, at which asynchronous reads are recorded.
pub(crate) const PIECE: usize = 16;

/// The two proxies of PTX's memory model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Proxy {
    /// Loads and stores of threads, `cp.async`, and `st.async`.
    Generic,
    /// Bulk copies and `wgmma`.
    Async,
}

/// The last write of a thread into a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LastWrite {
    /// The thread, if it is of this block.
    pub thread: Option<u32>,
    /// The number of the last fence between the proxies before the write.
    pub fences: u32,
}

/// Shared memory and its states. Offsets count from the first byte.
pub(crate) struct SharedMemory {
    /// Both in units aligned for the widest access.
    data: Box<[UnsafeCell<u128>]>,
    state: Box<[UnsafeCell<u128>]>,
    bytes: usize,
    /// For each piece, its last writer in the generic proxy and the time; 0 if there is none.
    written: Box<[Cell<u64>]>,
    /// The stamp of a write: the number of proxy fences so far, and above it one more than the
    /// index of the running thread; 0 for another block's.
    stamp: Cell<u64>,
}

/// The stamp of a write by a thread of the block, or by another block.
fn stamp(writer: Option<u32>, fences: u32) -> u64 {
    writer.map_or(0, |thread| u64::from(thread) + 1) << 32 | u64::from(fences)
}

/// `byte` in every byte of an access.
#[inline(always)]
const fn everywhere(byte: u8, width: usize) -> u128 {
    (u128::from_ne_bytes([byte; 16])) >> (128 - 8 * width)
}

impl SharedMemory {
    pub(crate) fn new(bytes: usize) -> Self {
        let units = || (0..bytes.div_ceil(16)).map(|_| UnsafeCell::new(0)).collect();
        let pieces = bytes.div_ceil(PIECE);
        Self {
            data: units(),
            state: units(),
            bytes,
            written: vec![Cell::new(0); pieces].into(),
            stamp: Cell::new(FIRST_STAMP),
        }
    }

    /// Resets everything: all bytes are poison and unwritten.
    pub(crate) fn reset(&self) {
        for (data, state) in self.data.iter().zip(&self.state) {
            // SAFETY: one OS thread uses the block, and no reference into a cell is ever made.
            unsafe {
                data.get().write(u128::MAX);
                state.get().write(0);
            }
        }
        for written in &self.written {
            written.set(0);
        }
        self.stamp.set(FIRST_STAMP);
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether an access at `offset` is aligned and inside the memory.
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

    /// The states of `width` bytes at `offset`, which fits.
    #[inline(always)]
    fn states(&self, offset: usize, width: usize) -> u128 {
        // SAFETY: the range was checked by `fits`; an address that is a multiple of a power of two
        // up to 16 within memory aligned to 16 is aligned. One OS thread uses the block.
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

    /// Loads a `T` if the access fits, every byte was written, and none by a bulk copy.
    #[inline(always)]
    pub(crate) fn load<T: Pod>(&self, offset: usize) -> Option<T> {
        self.load_unless(IN_FLIGHT | BROUGHT, offset)
    }

    /// Same as [`load`](Self::load), but bulk copies may have written the bytes.
    pub(crate) fn load_brought<T: Pod>(&self, offset: usize) -> Option<T> {
        self.load_unless(IN_FLIGHT, offset)
    }

    /// Loads a `T` if the access fits, every byte was written, and no byte has one of these bits in
    /// its state.
    #[inline(always)]
    fn load_unless<T: Pod>(&self, bits: u8, offset: usize) -> Option<T> {
        let width = access_size::<T>();
        if !self.fits(offset, width)
            || self.states(offset, width) & everywhere(WRITTEN | bits, width) != everywhere(WRITTEN, width)
        {
            return None;
        }
        // SAFETY: within the memory and aligned to its width; unaligned only if `T` requires more.
        Some(unsafe { self.data_at::<T>(offset).read_unaligned() })
    }

    /// The value at an offset where a `T` fits, whatever its state.
    #[inline(always)]
    pub(crate) fn peek<T: Pod>(&self, offset: usize) -> T {
        debug_assert!(self.fits(offset, access_size::<T>()), "checked by the caller");
        // SAFETY: within the memory; one OS thread uses the block.
        unsafe { self.data_at::<T>(offset).read_unaligned() }
    }

    /// Stores a `T` if the access fits and no asynchronous operation uses a byte of it; returns
    /// whether it did.
    #[inline(always)]
    pub(crate) fn store<T: Pod>(&self, offset: usize, value: T) -> bool {
        let width = access_size::<T>();
        if !self.fits(offset, width)
            || self.states(offset, width) & everywhere(IN_FLIGHT | READING, width) != 0
        {
            return false;
        }
        // SAFETY: both as in `load`; any bytes are valid states.
        unsafe {
            self.data_at::<T>(offset).write_unaligned(value);
            self.state_at::<T>(offset).write_unaligned(from_bits(everywhere(WRITTEN, width)));
        }
        self.written[offset / PIECE].set(self.stamp.get());
        true
    }

    /// Stores the bytes of a completed copy by a proxy.
    pub(crate) fn land(&self, offset: usize, bytes: &[u8], proxy: Proxy) {
        // In the async proxy, a copy writes whole pieces.
        match proxy {
            Proxy::Generic => self.put(offset, bytes, self.stamp.get(), WRITTEN),
            Proxy::Async => self.put(offset, bytes, 0, WRITTEN | BROUGHT),
        }
    }

    /// Stores the bytes of an asynchronous store by a thread of the block, or by another block. It
    /// counts as a bulk copy, but in the generic proxy.
    pub(crate) fn land_store(&self, offset: usize, bytes: &[u8], writer: Option<u32>) {
        self.put(offset, bytes, stamp(writer, self.fences()), WRITTEN | BROUGHT);
    }

    fn put(&self, offset: usize, bytes: &[u8], stamp: u64, state: u8) {
        debug_assert!(offset + bytes.len() <= self.bytes, "checked when the copy was issued");
        for piece in offset / PIECE..(offset + bytes.len()).div_ceil(PIECE) {
            self.written[piece].set(stamp);
        }
        for (i, &byte) in bytes.iter().enumerate() {
            // SAFETY: the range was checked when the copy was issued.
            unsafe {
                self.data_at::<u8>(offset + i).write(byte);
                self.state_at::<u8>(offset + i).write(state);
            }
        }
    }

    /// Marks bytes that an asynchronous copy will write.
    pub(crate) fn take_off(&self, offset: usize, bytes: usize) {
        debug_assert!(offset + bytes <= self.bytes, "checked by the caller");
        for at in offset..offset + bytes {
            // SAFETY: the range was checked by the caller.
            unsafe {
                self.data_at::<u8>(at).write(0xFF);
                self.state_at::<u8>(at).write(IN_FLIGHT);
            }
        }
    }

    /// The first byte of a range that is in flight.
    pub(crate) fn first_in_flight(&self, offset: usize, bytes: usize) -> Option<usize> {
        self.first_with(IN_FLIGHT, offset, bytes)
    }

    /// The first byte of a range that an asynchronous operation reads.
    pub(crate) fn first_being_read(&self, offset: usize, bytes: usize) -> Option<usize> {
        self.first_with(READING, offset, bytes)
    }

    /// The first byte of a range that a bulk copy has written.
    pub(crate) fn first_brought(&self, offset: usize, bytes: usize) -> Option<usize> {
        self.first_with(BROUGHT, offset, bytes)
    }

    /// The first byte of a range, checked by the caller, with this bit in its state.
    fn first_with(&self, bit: u8, offset: usize, bytes: usize) -> Option<usize> {
        // Most ranges are one access.
        if bytes.is_power_of_two()
            && bytes <= PIECE
            && self.fits(offset, bytes)
            && self.states(offset, bytes) & everywhere(bit, bytes) == 0
        {
            return None;
        }
        // SAFETY: the caller checked the range.
        (offset..offset + bytes).find(|&at| unsafe { self.state_at::<u8>(at).read() } & bit != 0)
    }

    /// Counts a fence between the proxies; returns its number.
    pub(crate) fn fence_proxies(&self) -> u32 {
        self.stamp.set(self.stamp.get() + 1);
        self.fences()
    }

    /// The number of the last fence between the proxies.
    pub(crate) const fn fences(&self) -> u32 {
        self.stamp.get() as u32
    }

    /// From here on, the writes are by a thread of the block, or by another block.
    pub(crate) fn set_writer(&self, thread: Option<u32>) {
        self.stamp.set(stamp(thread, self.fences()));
    }

    /// The last write of a thread into a piece, if there was one.
    pub(super) fn last_write(&self, piece: usize) -> Option<LastWrite> {
        let written = self.written[piece].get();
        (written != 0)
            .then_some(LastWrite { thread: ((written >> 32) as u32).checked_sub(1), fences: written as u32 })
    }

    /// Whether every byte of a range within the memory was written, and none is in flight.
    pub(crate) fn is_written(&self, offset: usize, bytes: usize) -> bool {
        // Most ranges are one piece.
        if bytes == PIECE && self.fits(offset, bytes) {
            let (both, written) = (everywhere(WRITTEN | IN_FLIGHT, bytes), everywhere(WRITTEN, bytes));
            return self.states(offset, bytes) & both == written;
        }
        // SAFETY: the caller checked the range.
        (offset..offset + bytes)
            .all(|at| unsafe { self.state_at::<u8>(at).read() } & (WRITTEN | IN_FLIGHT) == WRITTEN)
    }

    /// The bytes from `offset` on, which are inside the memory.
    pub(crate) fn copy_out(&self, offset: usize, bytes: &mut [u8]) {
        for (i, byte) in bytes.iter_mut().enumerate() {
            // SAFETY: the caller checked the range.
            *byte = unsafe { self.data_at::<u8>(offset + i).read() };
        }
    }

    /// Records that an asynchronous operation will read a piece, which must not be written until
    /// [`end_reading`](Self::end_reading).
    pub(crate) fn begin_reading(&self, piece: usize) {
        let state = self.state[piece].get();
        // SAFETY: a piece is one unit of the states; one OS thread uses the block.
        unsafe { state.write(state.read() | everywhere(READING, PIECE)) }
    }

    /// Records that bytes may be written again.
    pub(crate) fn end_reading(&self, offset: usize, bytes: usize) {
        for at in offset..offset + bytes {
            // SAFETY: the caller checked the range.
            unsafe { self.state_at::<u8>(at).write(self.state_at::<u8>(at).read() & !READING) }
        }
    }

    /// Forgets that bytes were written.
    pub(crate) fn forget(&self, offset: usize, bytes: usize) {
        for at in offset..offset + bytes {
            // SAFETY: the caller checked the range.
            unsafe { self.state_at::<u8>(at).write(0) }
        }
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
        shared.land(8, &[1, 2, 3, 4], Proxy::Generic);
        assert_eq!(shared.load::<u32>(8), Some(0x0403_0201));
        assert_eq!(shared.first_in_flight(0, 16), None);
    }

    #[test]
    fn what_is_being_read_is_readable_and_not_writable() {
        let shared = SharedMemory::new(64);
        shared.reset();
        assert!(shared.store::<u32>(16, 7));
        shared.begin_reading(1);
        assert_eq!(shared.load::<u32>(16), Some(7));
        assert!(!shared.store::<u32>(16, 8));
        assert!(shared.store::<u32>(32, 8), "another piece");
        shared.end_reading(16, 4);
        assert!(shared.store::<u32>(16, 8));
        assert!(!shared.store::<u32>(20, 8), "other bytes of the piece");
    }

    #[test]
    fn a_piece_knows_who_wrote_it_last_and_after_which_fence() {
        let shared = SharedMemory::new(64);
        shared.reset();
        assert!(shared.store::<u32>(16, 7));
        let by = |thread, fences| Some(LastWrite { thread, fences });
        assert_eq!([0, 1].map(|piece| shared.last_write(piece)), [None, by(None, 1)]);
        shared.set_writer(Some(5));
        assert_eq!(shared.fence_proxies(), 2);
        assert!(shared.store::<u32>(20, 7));
        assert_eq!(shared.last_write(1), by(Some(5), 2));
        assert_eq!(shared.fences(), 2);
        shared.take_off(16, 16);
        shared.land(16, &[1; 16], Proxy::Async);
        assert_eq!(shared.last_write(1), None, "written by the proxy itself");
        shared.take_off(20, 8);
        shared.land_store(20, &[1; 8], Some(7));
        assert_eq!(shared.last_write(1), by(Some(7), 2), "an asynchronous store is its thread's");
        assert_eq!((shared.load::<u32>(20), shared.load_brought::<u32>(20)), (None, Some(0x0101_0101)));
    }
}
