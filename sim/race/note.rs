//! Records the accesses of a block's threads in the memory's shadow, and reports races.

use super::cell::{Entry, Found, Kind, PAGE};
use super::order::{Accessor, Beyond};
use super::place::place;
use crate::Dim3;
use crate::block::{BlockContext, RawFault, WARP_SIZE, running};
use crate::fault::{Access, FaultKind, Race, RaceAccess, RaceSpace, RaceThreads};
use crate::memory::words;
use crate::stream::Concurrent;
use std::panic::Location;

/// An access as the intrinsics describe it.
#[derive(Clone, Copy)]
pub(crate) struct Noted {
    pub(crate) access: Access,
    pub(crate) kind: Kind,
    pub(crate) location: &'static Location<'static>,
    /// The bits that a write changes.
    pub(crate) changed: u128,
}

impl Noted {
    /// Whether a write leaves bytes of the access unchanged.
    #[inline(always)]
    fn keeps(&self, at: usize, bytes: usize) -> bool {
        at + bytes <= 16 && self.changed >> (8 * at) & (u128::MAX >> (128 - 8 * bytes)) == 0
    }

    /// An access that may change every bit.
    pub(crate) fn new(access: Access, kind: Kind, location: &'static Location<'static>) -> Self {
        Self { access, kind, location, changed: u128::MAX }
    }
}

impl BlockContext {
    /// Records an instruction by which all lanes of a warp of this block read shared memory.
    /// `reads` calls its argument `note(lanes, offset)` for each range: the bytes at `offset` go to
    /// `lanes`.
    pub(crate) fn note_whole(
        &self,
        warp: u32,
        bytes: usize,
        noted: Noted,
        reads: impl Fn(&dyn Fn(u32, usize)),
    ) {
        let whole = &self.clock.whole[warp as usize];
        let (mut epoch, handed_on) = whole.get();
        if handed_on {
            epoch += 1;
        }
        whole.set((epoch, false));
        let first = (warp * WARP_SIZE) as usize;
        for thread in &self.threads[first..self.threads.len().min(first + WARP_SIZE as usize)] {
            thread.clock.whole.set(epoch);
        }
        let place = self.clock.places.number(noted.location, noted.access);
        reads(&|lanes, offset| {
            let accessor = self.accessor(warp, lanes);
            self.note_entry(&accessor, accessor.entry(place, epoch).whole(), noted, offset, bytes);
        });
    }

    /// The running thread accesses the shared memory of this block, which may be another block of
    /// its cluster.
    #[inline(always)]
    pub(crate) fn note_shared(&self, noted: Noted, offset: usize, bytes: usize) {
        if self.clock.is_on()
            && let Some(by) = running()
        {
            let thread = by.running.get();
            self.note_shared_of(by, thread / WARP_SIZE, 1 << (thread % WARP_SIZE), noted, offset, bytes);
        }
    }

    /// The running thread accesses the shared memory of its block.
    #[inline(never)]
    pub(crate) fn note_own(&self, noted: Noted, offset: usize, bytes: usize) {
        let thread = self.running.get();
        let accessor = self.accessor(thread / WARP_SIZE, 1 << (thread % WARP_SIZE));
        let place = self.clock.places.number(noted.location, noted.access);
        let entry = accessor.entry(place, self.threads[thread as usize].clock.own.get());
        self.note_entry(&accessor, entry, noted, offset, bytes);
    }

    /// Lanes of a warp of block `by` access the shared memory of this block.
    #[inline(never)]
    pub(crate) fn note_shared_of(
        &self,
        by: &Self,
        warp: u32,
        lanes: u32,
        noted: Noted,
        offset: usize,
        bytes: usize,
    ) {
        // Lanes with different epochs leave different entries.
        let mut left = lanes;
        while left != 0 {
            let thread = warp * WARP_SIZE + left.trailing_zeros();
            let epoch = by.threads[thread as usize].clock.own.get();
            let mut alike = left;
            if left & (left - 1) != 0 {
                let own = |lane: u32| by.threads[(warp * WARP_SIZE + lane) as usize].clock.own.get();
                alike = (0..WARP_SIZE)
                    .filter(|lane| left >> lane & 1 != 0 && own(*lane) == epoch)
                    .fold(0, |lanes, lane| lanes | 1 << lane);
            }
            left &= !alike;
            let place = by.clock.places.number(noted.location, noted.access);
            // Earlier iterations have recorded the lanes that are no longer in `left`.
            let accessor = Accessor { together: (lanes & !left & !alike, place), ..by.accessor(warp, alike) };
            let entry = accessor.entry(place, epoch);
            self.note_entry(&accessor, entry, noted, offset, bytes);
        }
    }

    /// Records an access of at most 16 bytes, aligned to a power of two that divides them, in the
    /// shared memory of this block.
    #[inline(always)]
    fn note_entry(&self, accessor: &Accessor<'_>, entry: Entry, noted: Noted, offset: usize, bytes: usize) {
        let same = |at: usize, bytes: usize| noted.keeps(at, bytes);
        let race = self
            .shared_shadow
            .with_page(offset, |page, start| page.access(start, bytes, noted.kind, entry, accessor, same));
        if let Some(found) = race {
            let space = |byte| self.shared_space(accessor, offset + byte);
            accessor.raise_each(noted, bytes, found, space, |order| {
                self.shared_shadow.with_page(offset, |page, start| {
                    page.access(start, bytes, noted.kind, entry, order, same)
                })
            });
        } else if accessor.block.clock.tells_values
            && let Some(found) = accessor.block.clock.same.take()
        {
            accessor.warn(noted, bytes, self.shared_space(accessor, offset), found);
        }
    }

    /// A byte of this block's shared memory, as reported to the threads that access it.
    #[cold]
    fn shared_space(&self, accessor: &Accessor<'_>, offset: usize) -> RaceSpace {
        let rank = (self.rank != accessor.block.rank).then_some(self.rank);
        RaceSpace::Shared { offset: offset as i64, rank }
    }

    /// Lanes of the running warp that issue an asynchronous read; only with race detection.
    pub(crate) fn async_reader<'a>(&self, lanes: u32) -> Option<Accessor<'a>> {
        if !self.clock.is_on() {
            return None;
        }
        let by = running()?;
        Some(by.accessor(by.running.get() / WARP_SIZE, lanes))
    }

    /// The race of an asynchronous read of this block's shared memory by these lanes.
    pub(crate) fn check_shared(
        &self,
        by: Option<&Accessor<'_>>,
        access: Access,
        offset: usize,
        bytes: usize,
    ) -> Option<FaultKind> {
        let accessor = by?;
        let found = self.shared_shadow.with_page(offset, |page, start| page.check(start, bytes, accessor));
        let (byte, found) = found?;
        let rank = (self.rank != accessor.block.rank).then_some(self.rank);
        let space = RaceSpace::Shared { offset: (offset + byte) as i64, rank };
        Some(accessor.race(access, bytes, space, found))
    }

    /// The running thread accesses global memory, in the allocation of this index.
    #[inline(never)]
    pub(crate) fn note_global(&self, noted: Noted, allocation: usize, address: u64, bytes: usize) {
        self.note_global_by(noted, allocation, address, bytes, || noted);
    }

    /// The running thread stores the lowest `bytes` bytes of `bits`, 1 to 16 of them, in global
    /// memory, in the allocation of this index. No other thread accesses the page between the store
    /// and its record.
    // Not generic: that would be compiled, without optimisation, in the kernel's crate.
    #[inline(never)]
    pub(crate) fn store_noted(
        &self,
        noted: Noted,
        allocation: usize,
        address: u64,
        bits: u128,
        bytes: usize,
    ) {
        self.note_global_by(noted, allocation, address, bytes, || {
            // SAFETY: the address was looked up, for as many bytes.
            let before = unsafe { words::exchange_bits(address, bits, bytes) };
            Noted { changed: before ^ bits, ..noted }
        });
    }

    /// Same as [`note_global`](Self::note_global), for the access that `act` performs under the
    /// page's lock.
    pub(crate) fn note_global_with(
        &self,
        noted: Noted,
        allocation: usize,
        address: u64,
        bytes: usize,
        mut act: impl FnMut(),
    ) {
        self.note_global_by(noted, allocation, address, bytes, || {
            act();
            noted
        });
    }

    /// Same as [`note_global`](Self::note_global); `act` returns the access to record, and runs
    /// under the page's lock.
    #[inline(always)]
    fn note_global_by(
        &self,
        noted: Noted,
        allocation: usize,
        address: u64,
        bytes: usize,
        mut act: impl FnMut() -> Noted,
    ) {
        let thread = self.running.get();
        let epoch = self.threads[thread as usize].clock.own.get();
        let accessor = self.accessor(thread / WARP_SIZE, 1 << (thread % WARP_SIZE));
        let entry = accessor.entry(self.clock.places.number(noted.location, noted.access), epoch);
        if let Some(concurrent) = &self.concurrent {
            self.check_concurrent(concurrent, thread, noted, address, bytes);
        }
        let mut at = 0;
        while at < bytes {
            let start = address + at as u64;
            let first = at;
            let mut acted = noted;
            let race = self.races().with_page(allocation, start, |page, offset| {
                acted = act();
                let part = (bytes - first).min(PAGE - offset);
                at += part;
                let same = |byte: usize, bytes: usize| acted.keeps(first + byte, bytes);
                page.access(offset, part, noted.kind, entry, &accessor, same)
            });
            if let Some(found) = race {
                let space = |byte| {
                    let address = start + byte as u64;
                    RaceSpace::Global { address, nearest: self.global.nearest(address, 1) }
                };
                let part = at - first;
                let same = |byte: usize, bytes: usize| acted.keeps(first + byte, bytes);
                let goes_on = accessor.raise_each(noted, bytes, found, space, |order| {
                    self.races().with_page(allocation, start, |page, offset| {
                        page.access(offset, part, noted.kind, entry, order, same)
                    })
                });
                if !goes_on {
                    return;
                }
            }
            if self.clock.tells_values
                && let Some(found) = self.clock.same.take()
            {
                let space = RaceSpace::Global { address: start, nearest: self.global.nearest(start, 1) };
                accessor.warn(noted, bytes, space, found);
            }
        }
        if noted.access == Access::ReadOnly {
            self.check_read_only(noted, thread, allocation, address, bytes);
        }
    }

    /// Faults for a read-only load of bytes that this launch has written.
    fn check_read_only(&self, noted: Noted, thread: u32, allocation: usize, address: u64, bytes: usize) {
        let written =
            self.races().with_page(allocation, address, |page, offset| page.last_write(offset, bytes));
        let Some((byte, entry)) = written else { return };
        let address = address + byte as u64;
        let accessor = self.accessor(thread / WARP_SIZE, 1 << (thread % WARP_SIZE));
        let kind = FaultKind::StaleReadOnly {
            access: noted.access,
            bytes,
            address,
            nearest: self.global.nearest(address, 1),
            writer: accessor.other(entry, entry.lanes.trailing_zeros()).0,
        };
        accessor.fault(thread % WARP_SIZE, noted.location, kind);
    }

    /// Faults for an access that conflicts with an access of work that may run concurrently.
    fn check_concurrent(
        &self,
        concurrent: &Concurrent,
        thread: u32,
        noted: Noted,
        address: u64,
        bytes: usize,
    ) {
        let prior = concurrent
            .chain
            .beside(self.knows_prior(thread))
            .map(|(work, is_left)| (work, if is_left { RaceThreads::Chain } else { RaceThreads::Launches }));
        let known = self.threads[thread as usize].flags.borrow();
        let others = concurrent.others.iter().filter(|work| !work.is_before(&known));
        let others = others.map(|work| (work, RaceThreads::Streams));
        for (work, threads) in others.chain(prior) {
            let Some((address, other)) = work.find(noted.kind, address, bytes) else { continue };
            let space = RaceSpace::Global { address, nearest: self.global.nearest(address, 1) };
            let race = Race { access: noted.access, bytes, space, other, threads, unseen: None };
            let accessor = self.accessor(thread / WARP_SIZE, 1 << (thread % WARP_SIZE));
            accessor.fault(thread % WARP_SIZE, noted.location, FaultKind::Race(Box::new(race)));
        }
    }

    /// The fault of an asynchronous read of global memory that threads of this launch have written
    /// without a later proxy fence.
    pub(crate) fn global_unfenced(&self, access: Access, address: u64, bytes: usize) -> Option<FaultKind> {
        if !self.clock.is_on() {
            return None;
        }
        let (address, writer) = self.races().find_unfenced(address, bytes)?;
        let nearest = self.global.nearest(address, 1);
        Some(FaultKind::GlobalUnfenced { access, bytes, address, nearest, writer })
    }

    /// Same as [`note_global`](Self::note_global), for bytes in one allocation, found or not.
    pub(crate) fn note_global_range(&self, noted: Noted, address: u64, bytes: usize) {
        if self.clock.is_on()
            && bytes > 0
            && let Some(allocation) = self.global.number_of(address)
        {
            self.note_global(noted, allocation, address, bytes);
        }
    }
}

impl Accessor<'_> {
    /// Faults for a race, or for a race with a wider group of threads by the same access, which
    /// `again` finds. Returns true if the thread continues after all of them.
    #[cold]
    #[inline(never)]
    fn raise_each(
        &self,
        noted: Noted,
        bytes: usize,
        first: (usize, Found),
        space: impl Fn(usize) -> RaceSpace,
        again: impl Fn(&Beyond<'_>) -> Option<(usize, Found)>,
    ) -> bool {
        let mut next = Some(first);
        while let Some((byte, found)) = next {
            if !self.raise(noted, bytes, space(byte), found) {
                return false;
            }
            next = again(&Beyond(self, self.group(&found.entry)));
        }
        true
    }

    /// Faults for a race, or returns true if the thread continues after it. Otherwise it returns
    /// only in a thread that already unwinds.
    #[cold]
    #[inline(never)]
    fn raise(&self, noted: Noted, bytes: usize, space: RaceSpace, found: Found) -> bool {
        if std::thread::panicking() {
            return false;
        }
        let thread = self.thread(found.own_lane);
        let kind = self.race(noted.access, bytes, space, found);
        let fault = RawFault { thread, location: Some(noted.location), kind };
        match self.block.defer(fault) {
            None => true,
            Some(fault) => {
                self.fault(found.own_lane, noted.location, fault.kind);
                false
            }
        }
    }

    /// The thread of a lane.
    fn thread(&self, lane: u32) -> Dim3 {
        self.block.threads[(self.warp * WARP_SIZE + lane) as usize].index
    }

    /// Adds a warning that two threads write the same value, which is reported at the end of the
    /// launch.
    #[cold]
    #[inline(never)]
    fn warn(&self, noted: Noted, bytes: usize, space: RaceSpace, found: Found) {
        let thread = self.thread(found.own_lane);
        let kind = self.race(noted.access, bytes, space, found);
        let warning = RawFault { thread, location: Some(noted.location), kind };
        self.block.races().warn(self.block.block_index.get(), warning);
    }

    /// Faults. Returns only in a thread that already unwinds, or for a thread that has returned.
    #[cold]
    #[inline(never)]
    fn fault(&self, lane: u32, location: &'static Location<'static>, kind: FaultKind) {
        if std::thread::panicking() {
            return;
        }
        let thread = self.thread(lane);
        // A thread that has returned cannot unwind.
        if running().is_none() {
            return self.block.record(RawFault { thread, location: Some(location), kind });
        }
        self.block.raise_for(thread, location, kind);
    }

    /// The thread of an access, and its relation to the threads of this access.
    fn other(&self, entry: Entry, lane: u32) -> (RaceAccess, RaceThreads) {
        let (location, access) = place(entry.place());
        let rank = entry.warp() / self.warps;
        let warp = entry.warp() % self.warps;
        let threads = self.group(&entry);
        let block =
            (threads > RaceThreads::Block).then(|| self.block.cluster().block_index(entry.cluster(), rank));
        let thread = self.block.block_dim.index_of((warp * WARP_SIZE + lane).into());
        (RaceAccess { access, kernel: None, block, thread, location }, threads)
    }

    /// The fault of a race.
    fn race(&self, access: Access, bytes: usize, space: RaceSpace, found: Found) -> FaultKind {
        let (other, threads) = self.other(found.entry, found.lane);
        FaultKind::Race(Box::new(Race { access, bytes, space, other, threads, unseen: None }))
    }
}
