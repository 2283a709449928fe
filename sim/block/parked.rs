//! Reads of bytes that are not yet written.
//!
//! A thread that reads unwritten bytes either reads too early or races with another thread's write.
//! The simulator decides which after the other threads have run: a later write makes it a race,
//! which names both lines. So the thread waits; without a later write, the read alone is the fault.

use super::context::{BlockContext, RawFault};
use crate::fault::{FaultKind, WaitPlace};
use std::panic::Location;

/// A waiting thread, and its fault if no write follows.
pub(crate) struct Parked {
    thread: u32,
    offset: i64,
    location: &'static Location<'static>,
    kind: FaultKind,
    /// Slices that other threads have used up since.
    slices: u32,
}

/// Slices after which polling threads are no longer expected to write.
const PATIENCE: u32 = 64;

impl BlockContext {
    /// Suspends for good the running thread, which read shared memory at an offset.
    #[cold]
    #[inline(never)]
    pub(crate) fn park(&self, offset: i64, location: &'static Location<'static>, kind: FaultKind) -> ! {
        let thread = self.running.get();
        self.parked.borrow_mut().push(Parked { thread, offset, location, kind, slices: 0 });
        loop {
            self.wait(WaitPlace::Memory { offset }, location);
        }
    }

    /// Reports the first parked thread as the block's fault; returns whether there is one.
    pub(crate) fn fault_parked(&self) -> bool {
        let parked = self.parked.borrow();
        let Some(first) = parked.iter().min_by_key(|parked| parked.thread) else { return false };
        let thread = self.threads[first.thread as usize].index;
        self.record(RawFault { thread, location: Some(first.location), kind: first.kind.clone() });
        true
    }

    /// Records that a thread of the block has used up a slice.
    pub(crate) fn wear_patience(&self) {
        let mut parked = self.parked.borrow_mut();
        let Some(first) = parked.first_mut() else { return };
        first.slices += 1;
        let is_over = first.slices > PATIENCE;
        drop(parked);
        if is_over {
            self.fault_parked();
        }
    }

    /// A bulk copy has written bytes that threads wait for: their fault is a read without a wait.
    pub(crate) fn fault_not_awaited(&self, bytes: std::ops::Range<usize>, fault: impl Fn(i64) -> FaultKind) {
        let parked = self.parked.borrow();
        let reads = parked.iter().filter(|parked| bytes.contains(&(parked.offset as usize)));
        let Some(first) = reads.min_by_key(|parked| parked.thread) else { return };
        let thread = self.threads[first.thread as usize].index;
        self.record(RawFault { thread, location: Some(first.location), kind: fault(first.offset) });
    }
}
