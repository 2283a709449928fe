//! The shadow of a group of bytes: the last write, and the later reads and atomic operations.

/// The kind of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Races with writes and atomic operations.
    Read,
    /// Races with every access.
    Write,
    /// Races with reads and writes.
    Atomic,
    /// Same as [`Atomic`](Self::Atomic), in the block's scope: also races with those of other
    /// blocks.
    BlockAtomic,
}

/// An access, or the same access by several lanes of a warp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The cluster in the grid, the warp in the cluster, and the location: see [`Entry::who`].
    who: u64,
    /// The epoch of the threads; 0 if there is no access.
    pub(crate) epoch: u32,
    /// The lanes.
    pub(crate) lanes: u32,
}

/// The bit of the warp's index that marks an atomic operation.
const ATOMIC: u64 = 1 << 31;
/// The bit of the warp's index that marks an instruction of the whole warp, whose epoch counts the
/// warp's instructions.
const WHOLE: u64 = 1 << 30;
/// The bit of the warp's index that marks an atomic operation of the block's scope.
const NARROW: u64 = 1 << 29;
/// The bits of `who` with the warp and the cluster.
const WARP: u64 = 0xFFFF_FFFF_1FFF_0000;
/// The epoch of an entry that stands for the list of index `lanes`.
const LIST: u32 = u32::MAX;

impl Entry {
    pub(super) const NONE: Self = Self { who: 0, epoch: 0, lanes: 0 };

    /// An access of a cluster of the grid, by lanes of a warp of the cluster, at a location.
    pub(crate) fn new(cluster: u32, warp: u32, place: u16, epoch: u32, lanes: u32) -> Self {
        Self { who: u64::from(cluster) << 32 | u64::from(warp) << 16 | u64::from(place), epoch, lanes }
    }

    pub(crate) const fn cluster(&self) -> u32 {
        (self.who >> 32) as u32
    }

    pub(crate) const fn warp(&self) -> u32 {
        (self.who >> 16) as u32 & 0x1FFF
    }

    pub(crate) const fn place(&self) -> u16 {
        self.who as u16
    }

    /// Whether the entry is of an instruction of the whole warp, which ends for all lanes at once.
    pub(crate) const fn is_whole(&self) -> bool {
        self.who & WHOLE != 0
    }

    /// The same entry, for an instruction of the whole warp.
    pub(crate) const fn whole(self) -> Self {
        Self { who: self.who | WHOLE, ..self }
    }

    const fn is_atomic(&self) -> bool {
        self.who & ATOMIC != 0
    }

    const fn is_narrow(&self) -> bool {
        self.who & NARROW != 0
    }

    /// The same entry, of this kind.
    const fn of_kind(self, kind: Kind) -> Self {
        let bits = match kind {
            Kind::Read | Kind::Write => 0,
            Kind::Atomic => ATOMIC,
            Kind::BlockAtomic => ATOMIC | NARROW,
        };
        Self { who: self.who | bits, ..self }
    }

    /// Adds the lanes of the same access. An atomic operation keeps only the newest lane.
    const fn add_lanes(&mut self, other: &Self) {
        self.lanes = if self.is_atomic() { other.lanes } else { self.lanes | other.lanes };
    }

    /// Whether the entry includes all of these threads.
    const fn has(&self, threads: &Self) -> bool {
        (self.who ^ threads.who) & WARP == 0 && threads.lanes != 0 && threads.lanes & !self.lanes == 0
    }

    /// Whether the two differ only in their lanes.
    #[inline(always)]
    const fn is_alike(&self, other: &Self) -> bool {
        self.who == other.who && self.epoch == other.epoch
    }
}

/// The accesses of a group of bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cell {
    /// The last write, or the index of a list of writes of the same value.
    write: Entry,
    /// The only later read or atomic operation, or the index of a list.
    others: Entry,
}

impl Cell {
    pub(crate) const NONE: Self = Self { write: Entry::NONE, others: Entry::NONE };
}

/// Lists of entries, by index.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lists {
    lists: Vec<Vec<Entry>>,
    free: Vec<u32>,
    /// Entries of all lists past the first [`KEPT_READS`] of each.
    beyond: usize,
}

/// The length of a list above which reads that are ordered before a new read are dropped, whenever
/// the length doubles.
const LONG: usize = 8;
/// Reads that a list always keeps, and further reads that all lists of a page keep. Others are
/// dropped: a write that races only with dropped reads is not reported. Writes and atomic
/// operations are never dropped.
const KEPT_READS: usize = 64;
const KEPT_READS_OF_PAGE: usize = 1 << 14;
/// The number of last entries of a list that are searched for the same access by other lanes.
const RECENT: usize = 64;

impl Lists {
    pub(crate) fn clear(&mut self) {
        self.free.clear();
        self.beyond = 0;
        for (number, list) in self.lists.iter_mut().enumerate() {
            list.clear();
            self.free.push(number as u32);
        }
    }

    fn make(&mut self, entries: &[Entry]) -> Entry {
        let number = self.free.pop().unwrap_or_else(|| {
            self.lists.push(Vec::new());
            self.lists.len() as u32 - 1
        });
        self.change(number, |list| list.extend_from_slice(entries));
        Entry { who: 0, epoch: LIST, lanes: number }
    }

    /// Frees the list of an entry that stands for a list.
    fn release(&mut self, entry: Entry) {
        if entry.epoch == LIST {
            self.change(entry.lanes, Vec::clear);
            self.free.push(entry.lanes);
        }
    }

    /// Changes a list.
    fn change(&mut self, number: u32, act: impl FnOnce(&mut Vec<Entry>)) {
        let list = &mut self.lists[number as usize];
        let before = list.len().saturating_sub(KEPT_READS);
        act(list);
        self.beyond = self.beyond - before + list.len().saturating_sub(KEPT_READS);
    }

    /// Adds an access to a list unless it races with an entry, which is returned.
    ///
    /// A list has the reads first, then the atomic operations that a later access can race with.
    fn add(&mut self, number: u32, kind: Kind, access: Entry, order: &impl Ordering) -> Option<Found> {
        let list = &mut self.lists[number as usize];
        let atomics = list.iter().rev().take_while(|entry| entry.is_atomic()).count();
        let reads = list.len() - atomics;
        let candidates = if kind == Kind::Read { list.len().saturating_sub(1) } else { 0 };
        if let Some(found) = race_of(&list[candidates..], kind, |_| true, order) {
            return Some(found);
        }
        if access.is_atomic() {
            self.change(number, |list| add_atomic(list, reads, access, order));
            return None;
        }
        if let Some(alike) = list[..reads].iter_mut().rev().take(RECENT).find(|entry| entry.is_alike(&access))
        {
            alike.add_lanes(&access);
            return None;
        }
        let has_room = reads < KEPT_READS || self.beyond < KEPT_READS_OF_PAGE;
        self.change(number, |list| {
            let before = list.len();
            if reads >= LONG && reads.is_power_of_two() {
                list.retain(|entry| entry.is_atomic() || order.unordered(entry).is_some());
            }
            if has_room || list.len() < before {
                list.insert(list.len() - atomics, access);
            }
        });
        None
    }

    /// The entries of the list that an entry stands for, or the entry itself, `one`.
    fn of<'a>(&'a self, entry: &Entry, one: &'a [Entry; 1]) -> &'a [Entry] {
        if entry.epoch == LIST { &self.lists[entry.lanes as usize] } else { one }
    }

    /// A copy of this cell.
    pub(crate) fn duplicate(&mut self, cell: Cell) -> Cell {
        let mut copy = |entry: Entry| {
            if entry.epoch != LIST {
                return entry;
            }
            let entries = self.lists[entry.lanes as usize].clone();
            self.make(&entries)
        };
        Cell { write: copy(cell.write), others: copy(cell.others) }
    }
}

/// The order of earlier accesses relative to a new one.
pub(crate) trait Ordering {
    /// Whether all threads of the accessing block know that the entry's epoch has ended.
    fn is_known_to_all(&self, entry: &Entry) -> bool;
    /// A lane of the entry, and an accessing lane that is not ordered after it.
    fn unordered(&self, entry: &Entry) -> Option<(u32, u32)>;
    /// Whether the entry is of the accessing block.
    fn is_of_block(&self, entry: &Entry) -> bool;

    /// Two unordered threads write the same value to the same bytes.
    fn same_value(&self, found: Found) {
        let _ = found;
    }

    /// Same as [`unordered`](Self::unordered), with a fast path for most accesses.
    #[inline(always)]
    fn race(&self, entry: &Entry) -> Option<(u32, u32)> {
        if entry.epoch == 0 || self.is_known_to_all(entry) { None } else { self.unordered(entry) }
    }
}

/// An access that a new one races with.
#[derive(Clone, Copy)]
pub(crate) struct Found {
    pub entry: Entry,
    /// The entry's lane.
    pub lane: u32,
    /// The lane of the new access.
    pub own_lane: u32,
}

impl Cell {
    /// Records an access, or returns an earlier one that it races with. A write that leaves the
    /// bytes unchanged (`same`) does not race with other writes, nor with reads of threads that
    /// wrote the same value.
    #[inline(always)]
    pub(crate) fn access(
        &mut self,
        lists: &mut Lists,
        kind: Kind,
        access: Entry,
        order: &impl Ordering,
        same: impl Fn() -> bool,
    ) -> Option<Found> {
        if self.write.epoch != 0 && !order.is_known_to_all(&self.write) {
            let reader = if kind == Kind::Read { access } else { Entry::NONE };
            let found = self.race_of_writes(lists, &reader, order);
            if let Some(found) = found {
                if kind == Kind::Write && same() {
                    order.same_value(found);
                    return self.write_same(lists, access, order);
                }
                return Some(found);
            }
        }
        match kind {
            Kind::Read => {
                if self.others.is_alike(&access) {
                    self.others.lanes |= access.lanes;
                    return None;
                }
                self.add(lists, kind, access, order)
            }
            Kind::Atomic | Kind::BlockAtomic => self.add(lists, kind, access.of_kind(kind), order),
            Kind::Write => {
                if self.others.epoch != 0 {
                    if let Some(found) = self.race_of_others(lists, order) {
                        return Some(found);
                    }
                    lists.release(self.others);
                    self.others = Entry::NONE;
                }
                lists.release(self.write);
                self.write = access;
                None
            }
        }
    }

    /// The recorded write, or the first of several of the same value. An atomic operation counts as
    /// a write.
    fn writes(&self, lists: &Lists) -> Option<Entry> {
        let (one_write, one_other) = ([self.write], [self.others]);
        let writes = lists.of(&self.write, &one_write).first().filter(|write| write.epoch != 0);
        let mut others = lists.of(&self.others, &one_other).iter();
        writes.or_else(|| others.find(|other| other.epoch != 0 && other.is_atomic())).copied()
    }

    /// Same as [`access`](Self::access), without recording it.
    pub(crate) fn check(&self, lists: &Lists, order: &impl Ordering) -> Option<Found> {
        if self.write.epoch == 0 || order.is_known_to_all(&self.write) {
            return None;
        }
        self.race_of_writes(lists, &Entry::NONE, order)
    }

    /// The race with an unordered write. A thread that reads after it wrote the same value does not
    /// race.
    fn race_of_writes(&self, lists: &Lists, reader: &Entry, order: &impl Ordering) -> Option<Found> {
        let one = [self.write];
        let all = lists.of(&self.write, &one);
        if all.iter().any(|write| write.has(reader)) {
            return None;
        }
        let found = |(entry, (lane, own_lane))| Found { entry, lane, own_lane };
        all.iter().find_map(|write| Some((*write, order.race(write)?))).map(found)
    }

    /// Records another write of the same value.
    #[cold]
    fn write_same(&mut self, lists: &mut Lists, access: Entry, order: &impl Ordering) -> Option<Found> {
        let (one_write, one_other) = ([self.write], [self.others]);
        let writes = lists.of(&self.write, &one_write);
        let is_of_another = |entry: &Entry| entry.epoch != 0 && !writes.iter().any(|write| write.has(entry));
        if let Some(found) = race_of(lists.of(&self.others, &one_other), Kind::Write, is_of_another, order) {
            return Some(found);
        }
        if self.write.epoch != LIST {
            if self.write.is_alike(&access) {
                self.write.add_lanes(&access);
            } else {
                self.write = lists.make(&[self.write, access]);
            }
            return None;
        }
        lists.change(self.write.lanes, |list| {
            match list.iter_mut().rev().take(RECENT).find(|write| write.is_alike(&access)) {
                Some(alike) => alike.add_lanes(&access),
                None => list.push(access),
            }
        });
        None
    }

    /// The race of a write with the accesses after the previous write.
    fn race_of_others(&self, lists: &Lists, order: &impl Ordering) -> Option<Found> {
        let one = [self.others];
        race_of(lists.of(&self.others, &one), Kind::Write, |_| true, order)
    }

    /// Adds a read or an atomic operation.
    fn add(&mut self, lists: &mut Lists, kind: Kind, access: Entry, order: &impl Ordering) -> Option<Found> {
        let other = self.others;
        if other.epoch == LIST {
            return lists.add(other.lanes, kind, access, order);
        }
        if other.epoch == 0 {
            self.others = access;
            return None;
        }
        if let Some(found) = race_of(&[other], kind, |_| true, order) {
            return Some(found);
        }
        if other.is_alike(&access) {
            self.others.add_lanes(&access);
        } else if other.is_atomic() && access.is_atomic() {
            let mut list = vec![other];
            add_atomic(&mut list, 0, access, order);
            self.others = if list.len() == 1 { access } else { lists.make(&list) };
        } else if other.is_atomic() == access.is_atomic() && order.race(&other).is_none() {
            self.others = access;
        } else {
            let reads_first = if other.is_atomic() { [access, other] } else { [other, access] };
            self.others = lists.make(&reads_first);
        }
        None
    }
}

/// Adds an atomic operation after the reads of a list.
///
/// An atomic operation is ordered after the earlier ones, so an access ordered after the newest is
/// ordered after all. Two older ones stay: the newest of the block's scope and the newest of
/// another block. Because of their scopes, later atomic operations can race with them.
fn add_atomic(list: &mut Vec<Entry>, reads: usize, access: Entry, order: &impl Ordering) {
    let (mut has_narrow, mut has_foreign) = (access.is_narrow(), false);
    let mut at = list.len();
    while at > reads {
        at -= 1;
        let (entry, is_foreign) = (list[at], !order.is_of_block(&list[at]));
        if entry.is_narrow() && !has_narrow || is_foreign && !has_foreign {
            has_narrow |= entry.is_narrow();
            has_foreign |= is_foreign;
        } else {
            list.remove(at);
        }
    }
    list.push(access);
}

/// The race of an access of a kind with the reads and atomic operations for which `counts` holds;
/// the newest is last.
fn race_of(
    others: &[Entry],
    kind: Kind,
    counts: impl Fn(&Entry) -> bool,
    order: &impl Ordering,
) -> Option<Found> {
    let last = others.len().wrapping_sub(1);
    let race = |(at, entry): (usize, &Entry)| {
        let is_atomic = entry.is_atomic();
        let conflicts = match kind {
            Kind::Read => is_atomic && at == last,
            Kind::Write => !is_atomic || at == last,
            Kind::Atomic => !is_atomic || entry.is_narrow() && !order.is_of_block(entry),
            Kind::BlockAtomic => !is_atomic || !order.is_of_block(entry),
        };
        if !conflicts || !counts(entry) {
            return None;
        }
        let (lane, own_lane) = order.race(entry)?;
        Some(Found { entry: *entry, lane, own_lane })
    };
    others.iter().enumerate().find_map(race)
}

/// The group size of a page before the first access.
const UNCUT: u8 = u8::MAX;

/// Bytes of memory per page.
pub(crate) const PAGE: usize = 1024;

/// The shadow of a page of memory. A group has as many bytes as the smallest access to the page.
pub(crate) struct Page {
    /// The group size in bytes, as a power of two.
    shift: u8,
    cells: Vec<Cell>,
    lists: Lists,
}

impl Default for Page {
    fn default() -> Self {
        Self { shift: UNCUT, cells: Vec::new(), lists: Lists::default() }
    }
}

/// The largest power of two, 16 at most, that divides both.
fn shift_of(offset: usize, bytes: usize) -> u8 {
    (offset | bytes | 16).trailing_zeros() as u8
}

impl Page {
    /// Removes all accesses.
    pub(crate) fn clear(&mut self) {
        self.shift = UNCUT;
    }

    /// Splits the page into groups of at most `1 << shift` bytes.
    #[cold]
    #[inline(never)]
    fn cut(&mut self, shift: u8) {
        if self.shift == UNCUT {
            self.cells.clear();
            self.cells.resize(PAGE >> shift, Cell::NONE);
            self.lists.clear();
        } else {
            let before = std::mem::take(&mut self.cells);
            self.cells.reserve(PAGE >> shift);
            for cell in before {
                self.cells.push(cell);
                for _ in 1..1 << (self.shift - shift) {
                    let copy = self.lists.duplicate(cell);
                    self.cells.push(copy);
                }
            }
        }
        self.shift = shift;
    }

    /// Notes an access to `bytes` bytes at an offset in the page, and returns the race that it
    /// causes. `same(at, bytes)` says whether a write leaves these bytes of the access as they are.
    #[inline(always)]
    pub(crate) fn access(
        &mut self,
        offset: usize,
        bytes: usize,
        kind: Kind,
        access: Entry,
        order: &impl Ordering,
        same: impl Fn(usize, usize) -> bool,
    ) -> Option<(usize, Found)> {
        let shift = shift_of(offset, bytes);
        if self.shift > shift {
            self.cut(shift);
        }
        let shift = self.shift;
        let cells = &mut self.cells[offset >> shift..((offset + bytes - 1) >> shift) + 1];
        for (number, cell) in cells.iter_mut().enumerate() {
            let at = number << shift;
            let found = cell.access(&mut self.lists, kind, access, order, || same(at, 1 << shift));
            if let Some(found) = found {
                return Some((at, found));
            }
        }
        None
    }

    /// The last write to one of these bytes in this launch, ordered or not.
    pub(crate) fn last_write(&self, offset: usize, bytes: usize) -> Option<(usize, Entry)> {
        self.first(offset, bytes, |cell, lists| cell.writes(lists))
    }

    /// A write or an atomic operation of this launch on one of these bytes for which `is_it` holds.
    pub(crate) fn find_write(
        &self,
        offset: usize,
        bytes: usize,
        is_it: impl Fn(&Entry) -> bool,
    ) -> Option<(usize, Entry)> {
        self.first(offset, bytes, |cell, lists| {
            let (one_write, one_other) = ([cell.write], [cell.others]);
            let atomics = lists.of(&cell.others, &one_other).iter().filter(|other| other.is_atomic());
            let mut all = lists.of(&cell.write, &one_write).iter().chain(atomics);
            all.find(|write| write.epoch != 0 && is_it(write)).copied()
        })
    }

    /// An access to one of these bytes that conflicts with an access of this kind, ordered or not.
    pub(crate) fn conflict(&self, kind: Kind, offset: usize, bytes: usize) -> Option<(usize, Entry)> {
        self.first(offset, bytes, |cell, lists| {
            let (one_write, one_other) = ([cell.write], [cell.others]);
            let write = lists.of(&cell.write, &one_write).first().filter(|write| write.epoch != 0);
            let mut others = lists.of(&cell.others, &one_other).iter().filter(|other| other.epoch != 0);
            let conflicts = |other: &&Entry| match kind {
                Kind::Read => other.is_atomic(),
                Kind::Write | Kind::BlockAtomic => true,
                Kind::Atomic => !other.is_atomic() || other.is_narrow(),
            };
            write.or_else(|| others.find(conflicts)).copied()
        })
    }

    fn first(
        &self,
        offset: usize,
        bytes: usize,
        entry: impl Fn(&Cell, &Lists) -> Option<Entry>,
    ) -> Option<(usize, Entry)> {
        if self.shift == UNCUT {
            return None;
        }
        let cells = &self.cells[offset >> self.shift..((offset + bytes - 1) >> self.shift) + 1];
        let mut entries = cells.iter().enumerate();
        entries.find_map(|(number, cell)| {
            let entry = entry(cell, &self.lists).filter(|entry| entry.epoch != 0)?;
            Some((number << self.shift, entry))
        })
    }

    /// The race that a read of these bytes would cause.
    pub(crate) fn check(&self, offset: usize, bytes: usize, order: &impl Ordering) -> Option<(usize, Found)> {
        if self.shift == UNCUT {
            return None;
        }
        let cells = &self.cells[offset >> self.shift..((offset + bytes - 1) >> self.shift) + 1];
        let mut races = cells.iter().enumerate();
        races.find_map(|(number, cell)| Some((number << self.shift, cell.check(&self.lists, order)?)))
    }
}
