//! The registers of a fragment, and the simulator's record of written bytes.

#[cfg(not(target_arch = "nvptx64"))]
use crate::layout::Layout;
use core::mem::MaybeUninit;

/// Bytes of registers that a fragment has room for.
pub(super) const ROOM: usize = 1024;

/// The registers of a fragment. The record of writes exists only in the simulator.
#[derive(Clone)]
#[repr(C, align(16))]
pub(super) struct Room {
    bytes: [MaybeUninit<u8>; ROOM],
    #[cfg(not(target_arch = "nvptx64"))]
    written: Written,
}

/// The bytes that count as written.
#[cfg(not(target_arch = "nvptx64"))]
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tracking {
    /// All of it.
    Nothing,
    /// Each byte that was.
    Bytes,
    /// Each byte that was, or that a predicated copy has left at zero.
    Filling,
}

#[cfg(not(target_arch = "nvptx64"))]
#[derive(Clone)]
struct Written {
    tracking: Tracking,
    /// A bit for each byte.
    bits: [u64; ROOM / 64],
}

impl Room {
    /// Registers of any content, which is not tracked.
    #[inline(always)]
    pub(super) const fn new() -> Self {
        Self {
            bytes: [MaybeUninit::uninit(); ROOM],
            #[cfg(not(target_arch = "nvptx64"))]
            written: Written { tracking: Tracking::Nothing, bits: [0; ROOM / 64] },
        }
    }

    /// Lets a read of one of the first `bytes` bytes that no write came before be a fault in the
    /// simulator. Where a reference is read without a check, they are NaNs.
    #[inline(always)]
    pub(super) fn track(&mut self, bytes: usize) {
        #[cfg(not(target_arch = "nvptx64"))]
        {
            self.written.tracking = Tracking::Bytes;
            self.bytes[..bytes].fill(MaybeUninit::new(0xFF));
        }
        #[cfg(target_arch = "nvptx64")]
        let _ = bytes;
    }

    /// As [`track`](Self::track), of registers that hold zeros. A copy that leaves out an element
    /// by its predicate means the zero, so that the element counts as written.
    #[inline(always)]
    pub(super) fn track_filling(&mut self) {
        #[cfg(not(target_arch = "nvptx64"))]
        {
            self.written = Written { tracking: Tracking::Filling, bits: [0; ROOM / 64] };
        }
    }

    /// A predicated copy leaves these bytes as they are.
    #[cfg(not(target_arch = "nvptx64"))]
    pub(super) fn leave(&mut self, byte: usize, bytes: usize) {
        if self.written.tracking == Tracking::Filling {
            self.written.note(byte, bytes);
        }
    }

    #[inline(always)]
    pub(super) const fn as_ptr(&self) -> *const u8 {
        self.bytes.as_ptr().cast()
    }

    /// The registers, of which the caller writes these bytes.
    #[inline(always)]
    pub(super) fn written(&mut self, byte: usize, bytes: usize) -> *mut u8 {
        #[cfg(not(target_arch = "nvptx64"))]
        if self.written.tracking != Tracking::Nothing {
            self.written.note(byte, bytes);
        }
        #[cfg(target_arch = "nvptx64")]
        let _ = (byte, bytes);
        self.bytes.as_mut_ptr().cast()
    }

    /// Faults if one of these bytes, of element `index` of a fragment, was never written.
    #[cfg(not(target_arch = "nvptx64"))]
    #[inline(always)]
    #[track_caller]
    pub(super) fn check(&self, byte: usize, bytes: usize, index: usize, layout: &Layout) {
        if self.written.tracking != Tracking::Nothing {
            self.written.assert(byte, bytes, index, layout);
        }
    }
}

#[cfg(not(target_arch = "nvptx64"))]
impl Written {
    /// Notes bytes that are written. Not inlined, as each access of a kernel has it.
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

/// The words of bits that stand for these bytes, with the bits, for as long as `act` is true.
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
        assert!(!room.written.has(0, 1) && !room.written.has(1020, 4));
        room.written(60, 12);
        assert!(room.written.has(60, 12) && room.written.has(64, 8));
        assert!(!room.written.has(59, 2) && !room.written.has(71, 2) && !room.written.has(0, 1024));
        room.written(0, 60);
        room.written(72, 952);
        assert!(room.written.has(0, 1024));
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
            assert!(room.written.has(0, 4) && !room.written.has(4, 4) && !room.written.has(12, 1));
            assert_eq!(room.written.has(8, 4), counts);
        }
    }
}
