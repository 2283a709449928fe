//! `cp.async`: copies from global to shared memory that complete at a wait.

use super::bulk::CopyInFlight;
use super::context::BlockContext;
use super::knowledge::Knowledge;
use super::shared::{Proxy, SHARED_BASE};
use crate::fault::{Access, FaultKind};
use crate::memory::words;
use crate::profile::{Action, Outstanding};
use crate::race::{Gathered, Kind, Noted};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::panic::Location;

/// A copy that was issued but has not completed.
struct Copy {
    /// Offset in shared memory.
    offset: usize,
    bytes: usize,
    source: u64,
    /// Bytes that are read; the rest is zero-filled.
    source_bytes: usize,
    issued_at: &'static Location<'static>,
}

/// A thread's pending copies, oldest first.
#[derive(Default)]
pub(crate) struct CpAsyncQueue {
    copies: VecDeque<Copy>,
    /// Copies of each committed group, oldest first.
    groups: VecDeque<usize>,
    /// Copies not yet in a group; the youngest.
    uncommitted: usize,
    /// Issued copies, and completed copies.
    issued: u64,
    landed: u64,
    /// Arrivals at mbarriers that follow the copies issued before them, oldest first.
    arrivals: VecDeque<Arrival>,
}

/// An arrival at an mbarrier that waits for copies.
struct Arrival {
    /// Copies that the thread issued before it.
    after: u64,
    /// The shared address of the mbarrier.
    mbarrier: u32,
    /// The thread's knowledge, and the accesses before the arrival.
    known: Knowledge,
    before: Gathered,
}

/// A copy's write, as an access.
fn copy_to(location: &'static Location<'static>) -> Noted {
    Noted::new(Access::CpAsyncDestination, Kind::Write, location)
}

impl CpAsyncQueue {
    pub(crate) fn clear(&mut self) {
        self.copies.clear();
        self.groups.clear();
        self.uncommitted = 0;
        (self.issued, self.landed) = (0, 0);
        self.arrivals.clear();
    }

    /// The outstanding copies, including copies that no group has yet.
    pub(crate) fn outstanding(&self) -> Outstanding {
        let bytes = self.copies.iter().map(|copy| copy.bytes as u64).sum();
        let groups = self.groups.iter().filter(|size| **size > 0).count();
        Outstanding { bytes, groups: groups as u64 + u64::from(self.uncommitted > 0) }
    }

    /// Removes the oldest copy from the queue and from its group.
    fn take_oldest(&mut self) -> Option<Copy> {
        let copy = self.copies.pop_front()?;
        self.landed += 1;
        match self.groups.iter_mut().find(|size| **size > 0) {
            Some(size) => *size -= 1,
            None => self.uncommitted -= 1,
        }
        Some(copy)
    }

    /// The oldest arrival, if the copies before it have completed.
    fn take_arrival(&mut self) -> Option<Arrival> {
        let due = self.arrivals.front()?.after <= self.landed;
        due.then(|| self.arrivals.pop_front()).flatten()
    }
}

impl BlockContext {
    /// Issues a copy of `bytes` bytes, of which `source_bytes` are read and the rest is
    /// zero-filled.
    #[track_caller]
    pub(crate) fn cp_async(&self, address: u32, source: u64, bytes: u32, source_bytes: u32) {
        if std::thread::panicking() {
            return;
        }
        self.step();
        let location = Location::caller();
        if !matches!(bytes, 4 | 8 | 16) || source_bytes > bytes {
            let reason = format!(
                "a copy of {bytes} bytes, {source_bytes} of them from the source: it copies 4, 8 or 16 bytes and reads no more than it copies"
            );
            self.raise(location, FaultKind::InvalidOperand { operation: "cp.async", reason });
        }
        let (bytes, source_bytes) = (bytes as usize, source_bytes as usize);
        let offset = address.wrapping_sub(SHARED_BASE) as usize;
        if !self.shared.fits(offset, bytes)
            || self.shared.first_in_flight(offset, bytes).is_some()
            || !self.settle_reads(offset, bytes)
        {
            return self.shared_fault(Access::CpAsyncDestination, address, bytes);
        }
        // A copy that reads nothing accepts any source address: kernels predicate edges with such
        // copies.
        if source_bytes > 0 {
            if !source.is_multiple_of(bytes as u64) {
                return self.global_fault(Access::CpAsyncSource, source, bytes);
            }
            if !self.holds(source, source_bytes as u64) {
                let nearest = self.global.nearest(source, source_bytes as u64);
                let access = Access::CpAsyncSource;
                let kind =
                    FaultKind::GlobalOutOfBounds { access, bytes: source_bytes, address: source, nearest };
                self.raise(location, kind);
            }
        }
        // The profile also counts a copy that only writes zeros; it reads no byte of its source.
        self.profile_access(Action::AsyncSource, source, source_bytes);
        self.profile_access(Action::AsyncDestination, address.into(), bytes);
        let from = Noted::new(Access::CpAsyncSource, Kind::Read, location);
        self.note_global_range(from, source, source_bytes);
        self.note_shared(copy_to(location), offset, bytes);
        self.shared.take_off(offset, bytes);
        let mut queue = self.thread().cp_async.borrow_mut();
        queue.copies.push_back(Copy { offset, bytes, source, source_bytes, issued_at: location });
        queue.uncommitted += 1;
        queue.issued += 1;
    }

    /// Commits the running thread's copies as a group, which may be empty.
    pub(crate) fn cp_async_commit(&self) {
        let mut queue = self.thread().cp_async.borrow_mut();
        let size = std::mem::take(&mut queue.uncommitted);
        queue.groups.push_back(size);
    }

    /// Completes the running thread's oldest groups until `pending` are left.
    pub(crate) fn cp_async_wait_group(&self, pending: usize) {
        let queue = &self.thread().cp_async;
        while queue.borrow().groups.len() > pending {
            let size = queue.borrow().groups.front().copied().unwrap_or(0);
            for _ in 0..size {
                self.land_oldest(queue, true);
            }
            queue.borrow_mut().groups.pop_front();
        }
    }

    /// Completes all copies of the running thread, committed or not.
    pub(crate) fn cp_async_wait_all(&self) {
        let queue = &self.thread().cp_async;
        while !queue.borrow().copies.is_empty() {
            self.land_oldest(queue, true);
        }
        queue.borrow_mut().groups.clear();
    }

    /// The running thread arrives at an mbarrier once its issued copies have completed.
    pub(crate) fn cp_async_arrive(&self, mbarrier: u32) {
        let queue = &self.thread().cp_async;
        {
            let mut before = Gathered::default();
            self.release(&mut before);
            let queue = &mut *queue.borrow_mut();
            queue.arrivals.push_back(Arrival { after: queue.issued, mbarrier, known: self.known(), before });
        }
        self.late_arrivals.set(self.late_arrivals.get() + 1);
        self.arrive_where_due(queue);
    }

    /// Completes the copies of all threads that an arrival at `mbarrier` waits for.
    pub(crate) fn land_before_arrivals(&self, mbarrier: u32) {
        if self.late_arrivals.get() == 0 {
            return;
        }
        for thread in &self.threads {
            let queue = &thread.cp_async;
            let wanted =
                |queue: &CpAsyncQueue| queue.arrivals.iter().any(|arrival| arrival.mbarrier == mbarrier);
            while wanted(&queue.borrow()) {
                self.land_oldest(queue, false);
            }
        }
    }

    /// Completes the oldest copy of a queue, and the arrivals that waited for it. With `waits`, the
    /// queue belongs to the running thread.
    fn land_oldest(&self, queue: &RefCell<CpAsyncQueue>, waits: bool) {
        let copy = queue.borrow_mut().take_oldest();
        if let Some(Copy { offset, bytes, source, source_bytes, issued_at }) = copy {
            let mut buffer = [0; 16];
            // SAFETY: the source was checked when the copy was issued, and the launch keeps all
            // allocations.
            unsafe { words::copy_out(source, &mut buffer[..source_bytes]) };
            self.shared.land(offset, &buffer[..bytes], Proxy::Generic);
            if waits && self.clock.is_on() && !std::thread::panicking() {
                // A thread ordered after the wait finds the bytes; a thread ordered only after the
                // issue does not.
                self.note_shared(copy_to(issued_at), offset, bytes);
            }
        }
        self.arrive_where_due(queue);
    }

    fn arrive_where_due(&self, queue: &RefCell<CpAsyncQueue>) {
        loop {
            let due = queue.borrow_mut().take_arrival();
            let Some(Arrival { mbarrier, known, before, .. }) = due else { return };
            self.late_arrivals.set(self.late_arrivals.get() - 1);
            self.hand_on_later(mbarrier, &known, &before);
            self.or_raise(self.change_mbarrier("cp.async.mbarrier.arrive", mbarrier, |m| m.arrived(1)));
        }
    }

    fn holds(&self, address: u64, bytes: u64) -> bool {
        self.global.find(address).is_some_and(|span| span.contains(address, bytes))
    }

    /// The copy that will write a byte in flight.
    pub(crate) fn copy_to(&self, at: usize) -> CopyInFlight {
        if let Some(copy) = self.bulk_loads.borrow().copy_to(at) {
            return copy;
        }
        for thread in &self.threads {
            let queue = thread.cp_async.borrow();
            let covers = |copy: &&Copy| (copy.offset..copy.offset + copy.bytes).contains(&at);
            if let Some(copy) = queue.copies.iter().find(covers) {
                return CopyInFlight {
                    what: "cp.async",
                    issuer: thread.index,
                    issued_at: copy.issued_at,
                    issuer_exited: thread.exited.get(),
                };
            }
        }
        unreachable!("a byte is in flight only while a queue holds the copy into it")
    }
}
