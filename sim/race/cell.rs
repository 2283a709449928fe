//! What a shadow holds of each group of bytes: the last write, and the reads and atomic operations since.

/// How an access counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Races with writes and atomic operations.
    Read,
    /// Races with every access.
    Write,
    /// Races with reads and writes.
    Atomic,
}

/// An access, or the same access by several lanes of a warp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The cluster in the grid, the warp in the cluster, and the place: see [`Entry::who`].
    who: u64,
    /// The epoch of the threads; 0 where there is no access.
    pub(crate) epoch: u32,
    /// The lanes.
    pub(crate) lanes: u32,
}

/// The bit of the warp's number that tells an atomic operation.
const ATOMIC: u64 = 1 << 31;
/// The bit of the warp's number that tells an instruction of the whole warp, whose epoch is one of the warp.
const WHOLE: u64 = 1 << 30;
/// The epoch of an entry that stands for a list, whose number is `lanes`; it is atomic if one of the list is.
const LIST: u32 = u32::MAX;

impl Entry {
    const NONE: Self = Self { who: 0, epoch: 0, lanes: 0 };

    /// An access of a cluster of the grid, by lanes of a warp of the cluster, at a place.
    pub(crate) fn new(cluster: u32, warp: u32, place: u16, epoch: u32, lanes: u32) -> Self {
        Self { who: u64::from(cluster) << 32 | u64::from(warp) << 16 | u64::from(place), epoch, lanes }
    }

    pub(crate) const fn cluster(&self) -> u32 {
        (self.who >> 32) as u32
    }

    pub(crate) const fn warp(&self) -> u32 {
        (self.who >> 16) as u32 & 0x3FFF
    }

    pub(crate) const fn place(&self) -> u16 {
        self.who as u16
    }

    /// Whether it is one of an instruction of the whole warp, which is over for all lanes when it is for one.
    pub(crate) const fn is_whole(&self) -> bool {
        self.who & WHOLE != 0
    }

    /// The same as one of an instruction of the whole warp.
    pub(crate) const fn whole(self) -> Self {
        Self { who: self.who | WHOLE, ..self }
    }

    const fn is_atomic(&self) -> bool {
        self.who & ATOMIC != 0
    }

    const fn atomic(self) -> Self {
        Self { who: self.who | ATOMIC, ..self }
    }

    /// Whether these threads are among those of the entry, all of them.
    const fn has(&self, threads: &Self) -> bool {
        self.who >> 16 & 0xFFFF_FFFF_3FFF == threads.who >> 16 & 0xFFFF_FFFF_3FFF
            && threads.lanes != 0
            && threads.lanes & !self.lanes == 0
    }

    /// Whether both are the same access but for the lanes.
    #[inline(always)]
    const fn is_alike(&self, other: &Self) -> bool {
        self.who == other.who && self.epoch == other.epoch
    }
}

/// What is known of a group of bytes that were accessed as one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cell {
    /// The last write, or the number of a list of some that wrote the same.
    write: Entry,
    /// The one read or atomic operation since, or the number of a list.
    others: Entry,
}

impl Cell {
    pub(crate) const NONE: Self = Self { write: Entry::NONE, others: Entry::NONE };
}

/// Lists of reads and atomic operations, numbered.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lists {
    lists: Vec<Vec<Entry>>,
    free: Vec<u32>,
}

/// Entries of a list above which all that are ordered before are looked for, and above which no more are kept.
const LONG: usize = 8;
const LONGEST: usize = 64;

impl Lists {
    pub(crate) fn clear(&mut self) {
        self.free.clear();
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
        self.lists[number as usize].extend_from_slice(entries);
        let has_atomics = entries.iter().any(Entry::is_atomic);
        Entry { who: if has_atomics { ATOMIC } else { 0 }, epoch: LIST, lanes: number }
    }

    /// Frees the list that an entry stands for, if it does.
    fn release(&mut self, entry: Entry) {
        if entry.epoch == LIST {
            self.lists[entry.lanes as usize].clear();
            self.free.push(entry.lanes);
        }
    }

    /// The entries of the list that an entry stands for, or itself, which is the `one`.
    fn of<'a>(&'a self, entry: &Entry, one: &'a [Entry; 1]) -> &'a [Entry] {
        if entry.epoch == LIST { &self.lists[entry.lanes as usize] } else { one }
    }

    /// A cell that knows the same as this one.
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

/// What orders accesses, seen from the threads that make one.
pub(crate) trait Ordering {
    /// Whether all threads of the accessing block know that the entry's epoch has ended.
    fn is_known_to_all(&self, entry: &Entry) -> bool;
    /// A lane of the entry whose access is not ordered before that of an accessing lane, and the latter.
    fn unordered(&self, entry: &Entry) -> Option<(u32, u32)>;
    /// Whether the access of a lane of the entry, at least, is ordered before, or by the same thread.
    fn knows_any(&self, entry: &Entry) -> bool;

    /// Two threads write the same value to the same bytes, with no order.
    fn same_value(&self, found: Found) {
        let _ = found;
    }

    /// As [`unordered`](Self::unordered), for most accesses in few steps.
    #[inline(always)]
    fn race(&self, entry: &Entry) -> Option<(u32, u32)> {
        if entry.epoch == 0 || self.is_known_to_all(entry) { None } else { self.unordered(entry) }
    }
}

/// The access that another races with: the entry, its lane, and the lane of the other.
pub(crate) type Found = (Entry, u32, u32);

impl Cell {
    /// Notes an access unless it races with an earlier one, which it gives. Writes that leave the bytes as they are, which
    /// `same` says, do not race with other writes, nor with the reads of who wrote the same.
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
                self.add(lists, access, order)
            }
            Kind::Atomic => self.add(lists, access.atomic(), order),
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

    /// The write that is known, or the first of several of the same value; an atomic operation counts as one.
    fn writes(&self, lists: &Lists) -> Option<Entry> {
        let (one_write, one_other) = ([self.write], [self.others]);
        let writes = lists.of(&self.write, &one_write).first().filter(|write| write.epoch != 0);
        let mut others = lists.of(&self.others, &one_other).iter();
        writes.or_else(|| others.find(|other| other.epoch != 0 && other.is_atomic())).copied()
    }

    /// As [`access`](Self::access), without noting it.
    pub(crate) fn check(&self, lists: &Lists, order: &impl Ordering) -> Option<Found> {
        if self.write.epoch == 0 || order.is_known_to_all(&self.write) {
            return None;
        }
        self.race_of_writes(lists, &Entry::NONE, order)
    }

    /// The race with a write that nothing has ordered since; readers who have written the same themselves make none.
    fn race_of_writes(&self, lists: &Lists, reader: &Entry, order: &impl Ordering) -> Option<Found> {
        let one = [self.write];
        let all = lists.of(&self.write, &one);
        if all.iter().any(|write| write.has(reader)) {
            return None;
        }
        all.iter().find_map(|write| order.race(write).map(|(other, own)| (*write, other, own)))
    }

    /// Notes one more write of the same value.
    #[cold]
    fn write_same(&mut self, lists: &mut Lists, access: Entry, order: &impl Ordering) -> Option<Found> {
        let (one_write, one_other) = ([self.write], [self.others]);
        let writes = lists.of(&self.write, &one_write);
        let is_anothers = |entry: &Entry| entry.epoch != 0 && !writes.iter().any(|write| write.has(entry));
        if let Some(found) = race_of(lists.of(&self.others, &one_other), is_anothers, order) {
            return Some(found);
        }
        if self.write.epoch != LIST {
            if self.write.is_alike(&access) {
                self.write.lanes |= access.lanes;
            } else {
                self.write = lists.make(&[self.write, access]);
            }
            return None;
        }
        let list = &mut lists.lists[self.write.lanes as usize];
        if let Some(alike) = list.iter_mut().find(|write| write.is_alike(&access)) {
            alike.lanes |= access.lanes;
        } else if list.len() < LONGEST {
            list.push(access);
        }
        None
    }

    /// The race of a write with what came since the last one.
    fn race_of_others(&self, lists: &Lists, order: &impl Ordering) -> Option<Found> {
        let one = [self.others];
        race_of(lists.of(&self.others, &one), |_| true, order)
    }

    /// Adds a read or an atomic operation.
    fn add(&mut self, lists: &mut Lists, access: Entry, order: &impl Ordering) -> Option<Found> {
        let conflicts = |entry: &Entry| entry.is_atomic() != access.is_atomic();
        if self.others.epoch != LIST {
            if let Some(found) = race_of(&[self.others], conflicts, order) {
                return Some(found);
            }
            if self.others.is_alike(&access) {
                self.others.lanes |= access.lanes;
            } else if self.others.epoch == 0 || order.race(&self.others).is_none() {
                self.others = access;
            } else {
                self.others = lists.make(&[self.others, access]);
            }
            return None;
        }
        let number = self.others;
        let list = &mut lists.lists[number.lanes as usize];
        let may_race = access.is_atomic() || number.is_atomic();
        // The lanes of a warp come one after another: theirs is the last.
        if !may_race
            && let Some(last) = list.last_mut()
            && last.is_alike(&access)
        {
            last.lanes |= access.lanes;
            return None;
        }
        if let Some(at) = list.iter().rposition(|entry| entry.is_alike(&access)) {
            let lanes = list[at].lanes | access.lanes;
            if access.is_atomic() {
                // The last of those that came.
                let alike = list.remove(at);
                list.push(alike);
            }
            let at = if access.is_atomic() { list.len() - 1 } else { at };
            list[at].lanes = lanes;
            return if may_race { race_of(list, conflicts, order) } else { None };
        }
        if may_race && let Some(found) = race_of(list, conflicts, order) {
            return Some(found);
        }
        if list.len() >= LONG {
            list.retain(|entry| !order.is_known_to_all(entry));
        }
        if list.len() > LONG {
            list.retain(|entry| order.unordered(entry).is_some());
        }
        if list.is_empty() {
            lists.release(number);
            self.others = access;
        } else if list.len() < LONGEST {
            list.push(access);
            self.others.who |= access.who & ATOMIC;
        }
        None
    }
}

/// The race of an access with those of others with which it conflicts, in the order in which they came.
///
/// An atomic operation has seen those before it. So whoever is ordered behind one of them is ordered behind all of these.
fn race_of(others: &[Entry], conflicts: impl Fn(&Entry) -> bool, order: &impl Ordering) -> Option<Found> {
    let race = |(at, entry): (usize, &Entry)| {
        if !conflicts(entry) {
            return None;
        }
        let (other, own) = order.race(entry)?;
        let is_seen = || others[at..].iter().any(|later| later.is_atomic() && order.knows_any(later));
        if entry.is_atomic() && is_seen() { None } else { Some((*entry, other, own)) }
    };
    others.iter().enumerate().find_map(race)
}

/// The group of bytes that a page is cut into where nothing was accessed.
const UNCUT: u8 = u8::MAX;

/// Bytes of memory that a page stands for.
pub(crate) const PAGE: usize = 1024;

/// The shadow of a page of memory, by groups of as many bytes as the smallest access to it has had.
pub(crate) struct Page {
    /// Bytes of a group, as a power of two.
    shift: u8,
    cells: Vec<Cell>,
    lists: Lists,
}

impl Default for Page {
    fn default() -> Self {
        Self { shift: UNCUT, cells: Vec::new(), lists: Lists::default() }
    }
}

impl Page {
    /// Forgets all.
    pub(crate) fn clear(&mut self) {
        self.shift = UNCUT;
    }

    /// Cuts the page into groups of at most `1 << shift` bytes.
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

    /// Notes an access to `bytes` bytes at an offset in the page, both multiples of `1 << shift`, and gives the race that
    /// it makes. `same(at, bytes)` says whether a write leaves these bytes of the access as they are.
    #[inline(always)]
    pub(crate) fn access(
        &mut self,
        (offset, bytes, shift): (usize, usize, u8),
        kind: Kind,
        access: Entry,
        order: &impl Ordering,
        same: impl Fn(usize, usize) -> bool,
    ) -> Option<(usize, Found)> {
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

    /// The last write to one of these bytes in this launch, if there was one, ordered or not.
    pub(crate) fn last_write(&self, offset: usize, bytes: usize) -> Option<(usize, Entry)> {
        self.first(offset, bytes, |cell, lists| cell.writes(lists))
    }

    /// The last access of any kind to one of these bytes.
    pub(crate) fn last_access(&self, offset: usize, bytes: usize) -> Option<(usize, Entry)> {
        self.first(offset, bytes, |cell, lists| {
            let one = [cell.others];
            cell.writes(lists).or_else(|| lists.of(&cell.others, &one).first().copied())
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

    /// The race that a read of these bytes would make.
    pub(crate) fn check(&self, offset: usize, bytes: usize, order: &impl Ordering) -> Option<(usize, Found)> {
        if self.shift == UNCUT {
            return None;
        }
        let cells = &self.cells[offset >> self.shift..((offset + bytes - 1) >> self.shift) + 1];
        let mut races = cells.iter().enumerate();
        races.find_map(|(number, cell)| Some((number << self.shift, cell.check(&self.lists, order)?)))
    }
}
