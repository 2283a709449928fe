//! Registers. The simulator does not track them; fragments do, in memory that this module provides.

use crate::block::running;
use crate::fault::FaultKind;
use std::cell::Cell;
use std::fmt::Display;
use std::panic::Location;
use std::ptr::NonNull;

/// Bytes of the memory for a fragment's registers and their record, aligned to 16.
pub const REGISTER_BYTES: usize = 1168;

/// Memory for a fragment. While free, it holds the next free one.
#[repr(C, align(16))]
struct Memory {
    next: Option<NonNull<Memory>>,
    rest: [u8; REGISTER_BYTES - size_of::<usize>()],
}

/// The free memory of an OS thread.
struct Free(Cell<Option<NonNull<Memory>>>);

impl Drop for Free {
    fn drop(&mut self) {
        while let Some(memory) = self.0.take() {
            // SAFETY: free memory comes from a box, and is in one list.
            let memory = unsafe { Box::from_raw(memory.as_ptr()) };
            self.0.set(memory.next);
        }
    }
}

thread_local! {
    static FREE: Free = const { Free(Cell::new(None)) };
}

/// Returns memory for a fragment: [`REGISTER_BYTES`] bytes that are zeros or their previous
/// contents; [`give_registers`] takes it back. A kernel creates a fragment every few instructions,
/// for which an allocator would be slower.
pub fn take_registers() -> NonNull<u8> {
    let free = |free: &Free| {
        let memory = free.0.take()?;
        // SAFETY: free memory holds the next one.
        free.0.set(unsafe { (*memory.as_ptr()).next });
        Some(memory)
    };
    let new = || {
        let rest = [0; REGISTER_BYTES - size_of::<usize>()];
        NonNull::from(Box::leak(Box::new(Memory { next: None, rest })))
    };
    FREE.try_with(free).ok().flatten().unwrap_or_else(new).cast()
}

/// Takes memory back.
///
/// # Safety
/// It is from [`take_registers`], and is not used again.
pub unsafe fn give_registers(memory: NonNull<u8>) {
    let memory = memory.cast::<Memory>();
    let keep = |free: &Free| {
        // SAFETY: nothing else uses the memory.
        unsafe { (*memory.as_ptr()).next = free.0.take() };
        free.0.set(Some(memory));
    };
    if FREE.try_with(keep).is_err() {
        // The OS thread ends.
        drop(unsafe { Box::from_raw(memory.as_ptr()) });
    }
}

/// Faults for a read of a fragment's element that the thread has not written; the fragment tracks
/// its elements and calls this. Returns only in a thread that already unwinds.
///
/// # Panics
/// Outside a launch, with the fault's message.
#[cold]
#[inline(never)]
#[track_caller]
pub fn unwritten_register(element: usize, layout: &dyn Display) {
    if std::thread::panicking() {
        return;
    }
    let fault = FaultKind::RegisterUnwritten { element, layout: layout.to_string() };
    match running() {
        Some(block) => block.raise(Location::caller(), fault),
        None => panic!("{fault}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_was_given_back_is_taken_next_and_none_is_taken_twice() {
        let (first, second) = (take_registers(), take_registers());
        assert_ne!(first, second);
        // SAFETY: it is not used again before it is taken.
        unsafe { give_registers(first) };
        assert_eq!(take_registers(), first);
        // SAFETY: neither is used again before it is taken.
        unsafe {
            give_registers(first);
            give_registers(second);
        }
    }
}
