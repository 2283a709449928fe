//! What orders the threads of a block, and the accesses that nothing orders.

use super::cell::{Entry, Found, Kind, Ordering, PAGE};
use super::clock::{Gathered, Seen, ThreadClock};
use super::global::GlobalRaces;
use super::place::{Places, place};
use crate::block::{BlockContext, RawFault, WARP_SIZE, running};
use crate::fault::{Access, FaultKind, Race, RaceAccess, RaceSpace, RaceThreads};
use crate::memory::words;
use crate::pod::Pod;
use std::cell::{Cell, RefCell};
use std::panic::Location;
use std::rc::Rc;

/// What a thread knew at a fence.
#[derive(Clone)]
pub(crate) struct Snapshot {
    /// The thread's number in the block.
    thread: u32,
    own: u32,
    whole: u32,
    warp: u32,
    block: u32,
    others: Option<Rc<Seen>>,
}

/// What a thread has released: to its cluster, and to the whole GPU.
pub(crate) struct Released {
    pub(super) cluster: Snapshot,
    pub(super) gpu: Option<Snapshot>,
}

/// A join that was made, which the next thread often makes again.
type Joined = (Rc<Seen>, Rc<Seen>, Rc<Seen>);

/// The part of the clocks that a block's threads share.
pub(crate) struct BlockClock {
    on: Cell<bool>,
    /// The last epoch that has ended of all threads of the block.
    block: Cell<u32>,
    joined: RefCell<Option<Joined>>,
    /// By warp: the epoch of the instructions that read for the whole warp, and whether a lane has handed on its clock since the
    /// last.
    whole: Box<[Cell<(u32, bool)>]>,
    places: Places,
}

impl BlockClock {
    pub(crate) fn new(on: bool, warps: usize) -> Self {
        Self {
            on: Cell::new(on),
            block: Cell::new(0),
            joined: RefCell::default(),
            whole: vec![Cell::new((1, false)); warps].into(),
            places: Places::default(),
        }
    }

    /// Whether races are looked for.
    #[inline(always)]
    pub(crate) fn is_on(&self) -> bool {
        self.on.get()
    }

    /// Lets accesses of `act` go unnoticed: they are the simulator's.
    pub(crate) fn unnoticed<R>(&self, act: impl FnOnce() -> R) -> R {
        let on = self.on.replace(false);
        let result = act();
        self.on.set(on);
        result
    }

    pub(crate) fn clear(&self) {
        self.block.set(0);
        self.whole.iter().for_each(|whole| whole.set((1, false)));
        self.joined.take();
    }
}

/// Threads of a warp that make an access together.
pub(crate) struct Accessor<'a> {
    block: &'a BlockContext,
    /// The cluster's number in the grid.
    cluster: u32,
    /// The block's first warp in the cluster, and its warps.
    first_warp: u32,
    warps: u32,
    /// What all threads of the block know of each other.
    known: u32,
    /// The warp in the block.
    warp: u32,
    lanes: u32,
}

impl Accessor<'_> {
    fn clock(&self, lane: u32) -> &ThreadClock {
        &self.block.threads[(self.warp * WARP_SIZE + lane) as usize].clock
    }

    fn entry(&self, place: u16, epoch: u32) -> Entry {
        Entry::new(self.cluster, self.first_warp + self.warp, place, epoch, self.lanes)
    }
}

impl Ordering for Accessor<'_> {
    #[inline(always)]
    fn is_known_to_all(&self, entry: &Entry) -> bool {
        entry.epoch <= self.known
            && entry.cluster() == self.cluster
            && entry.warp().wrapping_sub(self.first_warp) < self.warps
    }

    fn knows_any(&self, entry: &Entry) -> bool {
        let one = |entry: &Entry, lane: u32| {
            let mut one = *entry;
            one.lanes = 1 << lane;
            one
        };
        let mut lanes = (0..WARP_SIZE).filter(|lane| entry.lanes >> lane & 1 != 0);
        lanes.any(|lane| self.unordered(&one(entry, lane)).is_none())
    }

    fn unordered(&self, entry: &Entry) -> Option<(u32, u32)> {
        let is_ours = entry.cluster() == self.cluster;
        let mut lanes = self.lanes;
        while lanes != 0 {
            let lane = lanes.trailing_zeros();
            lanes &= lanes - 1;
            let clock = self.clock(lane);
            let mut others = entry.lanes;
            if entry.is_whole() {
                // A lane of the warp took part. Instructions of a whole warp read shared memory alone, so it is of the cluster.
                let number = self.block.whole_number(entry.warp());
                let seen = clock.others.borrow();
                let is_known = entry.warp() == self.first_warp + self.warp
                    || seen.as_ref().is_some_and(|seen| seen.of(number) >= entry.epoch);
                if is_known || self.is_known_to_all(entry) {
                    continue;
                }
                return Some((others.trailing_zeros(), lane));
            }
            if is_ours && entry.warp() == self.first_warp + self.warp {
                others &= !(1 << lane);
                if entry.epoch <= clock.warp.get() {
                    continue;
                }
            }
            if others == 0 || self.is_known_to_all(entry) {
                continue;
            }
            let seen = clock.others.borrow();
            while others != 0 {
                let other = others.trailing_zeros();
                others &= others - 1;
                let thread = entry.warp() * WARP_SIZE + other;
                let known = seen.as_ref().map_or(0, |seen| {
                    if is_ours { seen.of(thread) } else { seen.of_foreign(entry.cluster(), thread) }
                });
                if known < entry.epoch {
                    return Some((other, lane));
                }
            }
        }
        None
    }
}

/// An access as the intrinsics know it.
#[derive(Clone, Copy)]
pub(crate) struct Noted {
    pub(crate) access: Access,
    pub(crate) kind: Kind,
    pub(crate) location: &'static Location<'static>,
    /// The bits that a write changes: those of two values that differ.
    pub(crate) changed: u128,
}

impl Noted {
    /// Whether a write leaves bytes of the access as they are.
    #[inline(always)]
    fn keeps(&self, at: usize, bytes: usize) -> bool {
        at + bytes <= 16 && self.changed >> (8 * at) & (u128::MAX >> (128 - 8 * bytes)) == 0
    }

    /// One of which nothing is known but that it may change all.
    pub(crate) fn new(access: Access, kind: Kind, location: &'static Location<'static>) -> Self {
        Self { access, kind, location, changed: u128::MAX }
    }
}

/// The largest power of two, 16 at most, that divides both.
fn shift_of(offset: usize, bytes: usize) -> u8 {
    (offset | bytes | 16).trailing_zeros() as u8
}

impl BlockContext {
    /// The first warp of this block in its cluster.
    fn first_warp(&self) -> u32 {
        self.rank * self.count().div_ceil(WARP_SIZE)
    }

    /// The number in its cluster of a thread of this block.
    fn number_in_cluster(&self, thread: u32) -> u32 {
        self.first_warp() * WARP_SIZE + thread
    }

    /// The number, behind those of all threads, of a warp of the cluster: of its instructions that read for all of it.
    fn whole_number(&self, warp: u32) -> u32 {
        self.cluster().blocks().len() as u32 * self.count().div_ceil(WARP_SIZE) * WARP_SIZE + warp
    }

    /// All lanes of a warp of this block take part in an instruction that reads shared memory for all of them, of which
    /// `reads(note)` tells: `note(lanes, offset)` notes the bytes at an offset that are for these lanes.
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

    /// Lanes of a warp of this block, which accesses memory.
    #[inline(always)]
    fn accessor(&self, warp: u32, lanes: u32) -> Accessor<'_> {
        let warps = self.exited_lanes.len() as u32;
        Accessor {
            block: self,
            cluster: self.cluster().number.get(),
            first_warp: self.rank * warps,
            warps,
            known: self.clock.block.get(),
            warp,
            lanes,
        }
    }

    /// The running thread accesses the shared memory of this block, which may be another of its cluster.
    #[inline(always)]
    pub(crate) fn note_shared(&self, noted: Noted, offset: usize, bytes: usize) {
        if self.clock.is_on()
            && let Some(by) = running()
        {
            let thread = by.running.get();
            self.note_shared_of(by, thread / WARP_SIZE, 1 << (thread % WARP_SIZE), noted, offset, bytes);
        }
    }

    /// The running thread accesses the shared memory of its own block, this one.
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
            let accessor = by.accessor(warp, alike);
            let entry = accessor.entry(by.clock.places.number(noted.location, noted.access), epoch);
            self.note_entry(&accessor, entry, noted, offset, bytes);
        }
    }

    /// Notes an access of at most 16 bytes, aligned to a power of two that divides them, in the shared memory of this block.
    #[inline(always)]
    fn note_entry(&self, accessor: &Accessor<'_>, entry: Entry, noted: Noted, offset: usize, bytes: usize) {
        let same = |at: usize, bytes: usize| noted.keeps(at, bytes);
        let shift = shift_of(offset, bytes);
        let race = self.shared_shadow.with_page(offset, |page, start| {
            page.access((start, bytes, shift), noted.kind, entry, accessor, same)
        });
        if let Some((byte, found)) = race {
            let rank = (self.rank != accessor.block.rank).then_some(self.rank);
            let space = RaceSpace::Shared { offset: (offset + byte) as i64, rank };
            accessor.raise(noted, bytes, space, found);
        }
    }

    /// The race that an asynchronous read of this block's shared memory makes, issued by
    /// these lanes of the running warp.
    pub(crate) fn check_shared(
        &self,
        access: Access,
        lanes: u32,
        offset: usize,
        bytes: usize,
    ) -> Option<FaultKind> {
        if !self.clock.is_on() {
            return None;
        }
        let by = running()?;
        let thread = by.running.get();
        let accessor = by.accessor(thread / WARP_SIZE, lanes);
        let found = self.shared_shadow.with_page(offset, |page, start| page.check(start, bytes, &accessor));
        let (byte, found) = found?;
        let rank = (self.rank != by.rank).then_some(self.rank);
        let space = RaceSpace::Shared { offset: (offset + byte) as i64, rank };
        Some(accessor.race(access, bytes, space, found))
    }

    /// The running thread accesses global memory, in an allocation of this number.
    #[inline(never)]
    pub(crate) fn note_global(&self, noted: Noted, allocation: usize, address: u64, bytes: usize) {
        self.note_global_by(noted, allocation, address, bytes, || noted);
    }

    /// The running thread stores a `T` in global memory, in an allocation of this number: no other thread comes between the
    /// store and what is noted of it.
    #[inline(never)]
    pub(crate) fn store_noted<T: Pod>(&self, noted: Noted, allocation: usize, address: u64, value: T) {
        self.note_global_by(noted, allocation, address, size_of::<T>(), || {
            // SAFETY: the address was looked up.
            let before = unsafe { words::load::<T>(address) };
            // SAFETY: as above.
            unsafe { words::store(address, value) };
            Noted { changed: words::to_bits(before) ^ words::to_bits(value), ..noted }
        });
    }

    /// As [`note_global`](Self::note_global), of what `act` does meanwhile.
    pub(crate) fn note_global_with(
        &self,
        noted: Noted,
        (allocation, address, bytes): (usize, u64, usize),
        mut act: impl FnMut(),
    ) {
        self.note_global_by(noted, allocation, address, bytes, || {
            act();
            noted
        });
    }

    /// As [`note_global`](Self::note_global); `act`, which gives what is noted, runs while no other thread notes anything of
    /// the page.
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
        if let Some(prior) = &self.prior
            && !self.knows_prior(thread)
        {
            self.check_prior(prior, thread, noted, address, bytes);
        }
        let mut at = 0;
        while at < bytes {
            let start = address + at as u64;
            let race = self.races().with_page(allocation, start, |page, offset| {
                let noted = act();
                let part = (bytes - at).min(PAGE - offset);
                let shift = shift_of(offset, part);
                let first = at;
                let same = |byte: usize, bytes: usize| noted.keeps(first + byte, bytes);
                at += part;
                page.access((offset, part, shift), noted.kind, entry, &accessor, same)
            });
            if let Some((byte, found)) = race {
                let address = start + byte as u64;
                let space = RaceSpace::Global { address, nearest: self.global.nearest(address, 1) };
                accessor.raise(noted, bytes, space, found);
                return;
            }
        }
        if noted.access == Access::ReadOnly {
            self.check_read_only(noted, thread, allocation, address, bytes);
        }
    }

    /// Faults for a read-only load of what was written in this launch.
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

    /// Whether a thread knows that the launch before has ended.
    fn knows_prior(&self, thread: u32) -> bool {
        let others = self.threads[thread as usize].clock.others.borrow();
        others.as_ref().is_some_and(|seen| seen.prior)
    }

    /// The running thread waits for the launch before.
    pub(crate) fn wait_for_prior(&self) {
        if self.prior.is_some() {
            self.take_on(Some(&Rc::new(Seen { prior: true, ..Seen::default() })));
        }
    }

    /// Faults for an access to what the launch before touches, which may still run.
    fn check_prior(&self, prior: &GlobalRaces, thread: u32, noted: Noted, address: u64, bytes: usize) {
        let reads = noted.kind == Kind::Read;
        let touched = prior.with_address(address, |page, offset| {
            let bytes = bytes.min(PAGE - offset);
            if reads { page.last_write(offset, bytes) } else { page.last_access(offset, bytes) }
        });
        let Some((byte, entry)) = touched.flatten() else { return };
        let address = address + byte as u64;
        let (location, access) = place(entry.place());
        let (block, thread_of) = prior.thread(&entry);
        let accessor = self.accessor(thread / WARP_SIZE, 1 << (thread % WARP_SIZE));
        let kind = FaultKind::Race(Box::new(Race {
            access: noted.access,
            bytes,
            space: RaceSpace::Global { address, nearest: self.global.nearest(address, 1) },
            other: RaceAccess { access, block: Some(block), thread: thread_of, location },
            threads: RaceThreads::Launches,
        }));
        accessor.fault(thread % WARP_SIZE, noted.location, kind);
    }

    /// As [`note_global`](Self::note_global), for bytes that lie in one allocation, found or not.
    pub(crate) fn note_global_range(&self, noted: Noted, address: u64, bytes: usize) {
        if self.clock.is_on()
            && bytes > 0
            && let Some(allocation) = self.global.number_of(address)
        {
            self.note_global(noted, allocation, address, bytes);
        }
    }

    /// Adds to what a thread knows besides what its block knows.
    pub(super) fn learn(&self, clock: &ThreadClock, seen: &Rc<Seen>) {
        let mut others = clock.others.borrow_mut();
        match &*others {
            None => *others = Some(seen.clone()),
            Some(own) if Rc::ptr_eq(own, seen) => {}
            Some(own) => {
                let mut memo = self.clock.joined.borrow_mut();
                if let Some((a, b, joined)) = &*memo
                    && Rc::ptr_eq(a, own)
                    && Rc::ptr_eq(b, seen)
                {
                    *others = Some(joined.clone());
                    return;
                }
                let mut joined = Seen::clone(own);
                joined.join(seen);
                let joined = Rc::new(joined);
                *memo = Some((own.clone(), seen.clone(), joined.clone()));
                *others = Some(joined);
            }
        }
    }

    /// Adds what a thread of this block knows to what is gathered.
    fn gather(&self, into: &mut Gathered, thread: u32) {
        let clock = &self.threads[thread as usize].clock;
        if let Some(others) = &*clock.others.borrow() {
            into.join(others);
        }
        let number = self.number_in_cluster(thread);
        let is_cluster = self.cluster().blocks().len() > 1;
        let (first, block) = (self.number_in_cluster(0), self.clock.block.get());
        let seen = into.change();
        seen.learn(number, clock.own.get());
        if clock.whole.get() > 0 {
            seen.learn(self.whole_number(number / WARP_SIZE), clock.whole.get());
            let whole = &self.clock.whole[(thread / WARP_SIZE) as usize];
            whole.set((whole.get().0, true));
        }
        if clock.warp.get() > 0 {
            let warp = number / WARP_SIZE * WARP_SIZE;
            seen.learn_all(warp..warp + WARP_SIZE, clock.warp.get());
        }
        if is_cluster && block > 0 {
            seen.learn_all(first..first + self.count(), block);
        }
    }

    /// The running thread hands on its clock.
    pub(crate) fn release(&self, into: &mut Gathered) {
        if self.clock.is_on() {
            self.gather(into, self.running.get());
            self.thread().clock.tick();
        }
    }

    /// The running thread takes on what was gathered.
    pub(crate) fn take_on(&self, gathered: Option<&Rc<Seen>>) {
        if self.clock.is_on()
            && let Some(seen) = gathered
        {
            self.learn(&self.thread().clock, seen);
        }
    }

    /// What a thread of this block knows now.
    pub(super) fn snapshot(&self, thread: u32) -> Snapshot {
        let clock = &self.threads[thread as usize].clock;
        let whole = &self.clock.whole[(thread / WARP_SIZE) as usize];
        whole.set((whole.get().0, true));
        Snapshot {
            thread,
            own: clock.own.get(),
            whole: clock.whole.get(),
            warp: clock.warp.get(),
            block: self.clock.block.get(),
            others: clock.others.borrow().clone(),
        }
    }

    /// All that a snapshot of a thread of this block says.
    pub(super) fn whole(&self, snapshot: &Snapshot) -> Rc<Seen> {
        let mut seen = snapshot.others.as_deref().cloned().unwrap_or_default();
        let (number, first) = (self.number_in_cluster(snapshot.thread), self.number_in_cluster(0));
        seen.learn_all(first..first + self.count(), snapshot.block);
        let warp = number / WARP_SIZE * WARP_SIZE;
        seen.learn_all(warp..warp + WARP_SIZE, snapshot.warp);
        seen.learn(number, snapshot.own);
        if snapshot.whole > 0 {
            seen.learn(self.whole_number(warp / WARP_SIZE), snapshot.whole);
        }
        Rc::new(seen)
    }

    /// All threads of the block have met.
    pub(crate) fn meet_as_block(&self) {
        if !self.clock.is_on() {
            return;
        }
        let own = self.threads.iter().map(|thread| thread.clock.own.get());
        let whole = self.clock.whole.iter().map(|whole| whole.get().0);
        let epoch = own.chain(whole).max().unwrap_or(0);
        self.clock.block.set(epoch);
        self.clock.whole.iter().for_each(|whole| whole.set((epoch + 1, false)));
        let is_alone = self.cluster().blocks().len() == 1;
        let mut all = Gathered::default();
        for thread in &self.threads {
            thread.clock.own.set(epoch + 1);
            if let Some(others) = thread.clock.others.take()
                && !(is_alone && others.foreign.is_none() && !others.prior)
            {
                all.join(&others);
            }
        }
        if let Some(seen) = all.seen {
            for thread in &self.threads {
                thread.clock.others.replace(Some(seen.clone()));
            }
        }
    }

    /// Threads of the block have met, behind what others have `told` who went on.
    pub(crate) fn meet_as_some(&self, threads: &[u32], told: Gathered) {
        if !self.clock.is_on() {
            return;
        }
        let mut all = told;
        let mut epoch = 0;
        for &thread in threads {
            self.gather(&mut all, thread);
            epoch = epoch.max(self.threads[thread as usize].clock.own.get());
        }
        let Some(seen) = all.seen else { return };
        for &thread in threads {
            let clock = &self.threads[thread as usize].clock;
            // All that it knew is in there.
            clock.others.replace(Some(seen.clone()));
            clock.own.set(epoch + 1);
        }
    }

    /// Lanes of a warp of the block have met.
    pub(crate) fn meet_as_warp(&self, warp: u32, lanes: u32) {
        if !self.clock.is_on() {
            return;
        }
        let first = warp * WARP_SIZE;
        let there = WARP_SIZE.min(self.count() - first);
        let threads = || (0..there).filter(|lane| lanes >> lane & 1 != 0).map(|lane| first + lane);
        if threads().count() as u32 != there {
            return self.meet_as_some(&threads().collect::<Vec<_>>(), Gathered::default());
        }
        let clocks = || threads().map(|thread| &self.threads[thread as usize].clock);
        let epoch = clocks().map(|clock| clock.own.get()).max().unwrap_or(0);
        let mut all = Gathered::default();
        for clock in clocks() {
            clock.warp.set(epoch);
            clock.own.set(epoch + 1);
            if let Some(others) = &*clock.others.borrow() {
                all.join(others);
            }
        }
        if let Some(seen) = all.seen {
            for clock in clocks() {
                clock.others.replace(Some(seen.clone()));
            }
        }
    }

    /// The running thread has seen a condition of the simulator fulfilled, which any thread of the cluster may have brought
    /// about.
    pub(crate) fn meet_by_condition(&self) {
        if !self.clock.is_on() {
            return;
        }
        let mut all = Gathered::default();
        for block in self.cluster().blocks() {
            for thread in 0..block.count() {
                block.gather(&mut all, thread);
                block.threads[thread as usize].clock.tick();
            }
        }
        self.take_on(all.seen.as_ref());
    }
}

impl Accessor<'_> {
    /// Faults for a race; returns only in a thread that unwinds already.
    #[cold]
    #[inline(never)]
    fn raise(&self, noted: Noted, bytes: usize, space: RaceSpace, found: Found) {
        if !std::thread::panicking() {
            self.fault(found.2, noted.location, self.race(noted.access, bytes, space, found));
        }
    }

    /// Faults; returns only in a thread that unwinds already, and for one that has returned.
    #[cold]
    #[inline(never)]
    fn fault(&self, lane: u32, location: &'static Location<'static>, kind: FaultKind) {
        if std::thread::panicking() {
            return;
        }
        let thread = self.block.threads[(self.warp * WARP_SIZE + lane) as usize].index;
        // A thread that has returned unwinds no more.
        if running().is_none() {
            return self.block.record(RawFault { thread, location: Some(location), kind });
        }
        self.block.raise_for(thread, location, kind);
    }

    /// Who made an access, and how close to this one's threads.
    fn other(&self, entry: Entry, lane: u32) -> (RaceAccess, RaceThreads) {
        let (location, access) = place(entry.place());
        let rank = entry.warp() / self.warps;
        let warp = entry.warp() % self.warps;
        let is_block = entry.cluster() == self.cluster && rank == self.block.rank;
        let threads = if entry.cluster() != self.cluster {
            RaceThreads::Grid
        } else if !is_block {
            RaceThreads::Cluster
        } else if warp == self.warp {
            RaceThreads::Warp
        } else {
            RaceThreads::Block
        };
        let block = (!is_block).then(|| self.block.cluster().block_index(entry.cluster(), rank));
        let thread = self.block.block_dim.index_of((warp * WARP_SIZE + lane).into());
        (RaceAccess { access, block, thread, location }, threads)
    }

    /// The fault of a race.
    fn race(&self, access: Access, bytes: usize, space: RaceSpace, (entry, lane, _): Found) -> FaultKind {
        let (other, threads) = self.other(entry, lane);
        FaultKind::Race(Box::new(Race { access, bytes, space, other, threads }))
    }
}
