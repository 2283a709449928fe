//! The registers of a fragment, and the simulator's record of written bytes.

#[cfg(not(target_arch = "nvptx64"))]
use crate::layout::Layout;
use core::mem::MaybeUninit;
#[cfg(not(target_arch = "nvptx64"))]
use core::ptr::NonNull;
#[cfg(not(target_arch = "nvptx64"))]
use moye_sim::intrinsics::{REGISTER_BYTES, give_registers, take_registers};

/// Bytes of a fragment's registers.
pub(super) const ROOM: usize = 1024;

/// The registers of a fragment.
#[cfg(target_arch = "nvptx64")]
#[derive(Clone)]
#[repr(C, align(16))]
pub(super) struct Room {
    bytes: [MaybeUninit<u8>; ROOM],
}

/// The registers of a fragment in the simulator. Moving the fragment does not move them.
#[cfg(not(target_arch = "nvptx64"))]
pub(super) struct Room(NonNull<Registers>);

/// The registers and the record of writes.
#[cfg(not(target_arch = "nvptx64"))]
#[derive(Clone)]
#[repr(C, align(16))]
struct Registers {
    bytes: [MaybeUninit<u8>; ROOM],
    written: Written,
}

/// The tracking of written bytes.
#[cfg(not(target_arch = "nvptx64"))]
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tracking {
    /// All bytes: nothing is tracked.
    Nothing,
    /// The bytes that were written.
    Bytes,
    /// The bytes that were written, or that a predicated copy has left at zero.
    Filling,
}

#[cfg(not(target_arch = "nvptx64"))]
#[derive(Clone)]
struct Written {
    tracking: Tracking,
    /// One bit for each byte.
    bits: [u64; ROOM / 64],
}

#[cfg(target_arch = "nvptx64")]
impl Room {
    /// Registers of arbitrary content, which is not tracked.
    #[inline(always)]
    pub(super) const fn new() -> Self {
        Self { bytes: [MaybeUninit::uninit(); ROOM] }
    }

    #[inline(always)]
    pub(super) fn track(&mut self, _: usize) {}

    #[inline(always)]
    pub(super) fn track_filling(&mut self) {}

    #[inline(always)]
    pub(super) const fn as_ptr(&self) -> *const u8 {
        self.bytes.as_ptr().cast()
    }

    #[inline(always)]
    pub(super) fn written(&mut self, _: usize, _: usize) -> *mut u8 {
        self.bytes.as_mut_ptr().cast()
    }
}

#[cfg(not(target_arch = "nvptx64"))]
impl Room {
    /// Registers of arbitrary content, which is not tracked.
    #[inline]
    pub(super) fn new() -> Self {
        const { assert!(size_of::<Registers>() <= REGISTER_BYTES) };
        let mut room = Self(take_registers().cast());
        room.registers_mut().written.tracking = Tracking::Nothing;
        room
    }

    #[inline(always)]
    fn registers(&self) -> &Registers {
        // SAFETY: the memory belongs to this room, and its bytes were zeros or registers before.
        unsafe { self.0.as_ref() }
    }

    #[inline(always)]
    fn registers_mut(&mut self) -> &mut Registers {
        // SAFETY: `&mut self` borrows the room, whose bytes were zeros or registers before.
        unsafe { self.0.as_mut() }
    }

    /// Makes reading one of the first `bytes` bytes before it is written a fault in the simulator.
    /// Bytes that are read through a reference, without a check, are NaN.
    pub(super) fn track(&mut self, bytes: usize) {
        let registers = self.registers_mut();
        registers.written = Written { tracking: Tracking::Bytes, bits: [0; ROOM / 64] };
        registers.bytes[..bytes].fill(MaybeUninit::new(0xFF));
    }

    /// Like [`track`](Self::track), for registers that hold zeros. A copy whose predicate leaves
    /// out an element relies on the zero, so that the element counts as written.
    pub(super) fn track_filling(&mut self) {
        self.registers_mut().written = Written { tracking: Tracking::Filling, bits: [0; ROOM / 64] };
    }

    /// Records that a predicated copy leaves these bytes unchanged.
    pub(super) fn leave(&mut self, byte: usize, bytes: usize) {
        let written = &mut self.registers_mut().written;
        if written.tracking == Tracking::Filling {
            written.note(byte, bytes);
        }
    }

    #[inline(always)]
    pub(super) fn as_ptr(&self) -> *const u8 {
        self.registers().bytes.as_ptr().cast()
    }

    /// The registers; the caller writes these bytes.
    #[inline(always)]
    pub(super) fn written(&mut self, byte: usize, bytes: usize) -> *mut u8 {
        let registers = self.registers_mut();
        if registers.written.tracking != Tracking::Nothing {
            registers.written.note(byte, bytes);
        }
        registers.bytes.as_mut_ptr().cast()
    }

    /// Faults if one of these bytes, of element `index` of a fragment, was never written.
    #[inline(always)]
    #[track_caller]
    pub(super) fn check(&self, byte: usize, bytes: usize, index: usize, layout: &Layout) {
        let written = &self.registers().written;
        if written.tracking != Tracking::Nothing {
            written.assert(byte, bytes, index, layout);
        }
    }
}

#[cfg(not(target_arch = "nvptx64"))]
impl Clone for Room {
    fn clone(&self) -> Self {
        let mut room = Self::new();
        *room.registers_mut() = self.registers().clone();
        room
    }
}

#[cfg(not(target_arch = "nvptx64"))]
impl Drop for Room {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the memory belongs to this room, which ends here.
        unsafe { give_registers(self.0.cast()) }
    }
}

#[cfg(not(target_arch = "nvptx64"))]
impl Written {
    /// Records written bytes. Not inlined, since each access of a kernel calls it.
    #[inline(never)]
    fn note(&mut self, byte: usize, bytes: usize) {
        parts(byte, bytes, |word, mask| {
            self.bits[word] |= mask;
            true
        });
    }

    /// Faults if one of these bytes, of element `index`, was never written. Not inlined either.
    #[inline(never)]
    #[track_caller]
    fn assert(&self, byte: usize, bytes: usize, index: usize, layout: &Layout) {
        if !self.has(byte, bytes) {
            moye_sim::intrinsics::unwritten_register(index, layout);
        }
    }

    fn has(&self, byte: usize, bytes: usize) -> bool {
        let mut all = true;
        parts(byte, bytes, |word, mask| {
            all = self.bits[word] & mask == mask;
            all
        });
        all
    }
}

/// The words and masks of the bits of these bytes, for as long as `act` returns true.
#[cfg(not(target_arch = "nvptx64"))]
#[inline(always)]
fn parts(mut byte: usize, bytes: usize, mut act: impl FnMut(usize, u64) -> bool) {
    let end = byte + bytes;
    while byte < end {
        let here = (end - byte).min(64 - byte % 64);
        if !act(byte / 64, u64::MAX >> (64 - here) << (byte % 64)) {
            return;
        }
        byte += here;
    }
}

#[cfg(test)]
mod tests {
    use super::Room;

    #[test]
    fn written_bytes_are_those_that_were_written_across_words_of_bits_too() {
        let mut room = Room::new();
        room.track(1024);
        assert!(!room.registers().written.has(0, 1) && !room.registers().written.has(1020, 4));
        room.written(60, 12);
        assert!(room.registers().written.has(60, 12) && room.registers().written.has(64, 8));
        assert!(
            !room.registers().written.has(59, 2)
                && !room.registers().written.has(71, 2)
                && !room.registers().written.has(0, 1024)
        );
        room.written(0, 60);
        room.written(72, 952);
        assert!(room.registers().written.has(0, 1024));
    }

    #[test]
    fn what_a_predicate_leaves_out_counts_as_written_in_a_room_of_zeros_alone() {
        for (filling, counts) in [(true, true), (false, false)] {
            let mut room = Room::new();
            if filling {
                room.track_filling()
            } else {
                room.track(32)
            }
            room.written(0, 4);
            room.leave(8, 4);
            assert!(
                room.registers().written.has(0, 4)
                    && !room.registers().written.has(4, 4)
                    && !room.registers().written.has(12, 1)
            );
            assert_eq!(room.registers().written.has(8, 4), counts);
        }
    }
}
