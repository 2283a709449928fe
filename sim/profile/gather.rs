//! Combines the accesses of lanes into requests of warps.

use super::counts::{Counts, Request, SECTOR};
use super::flight::{Outstanding, Waits};
use super::sectors::Sectors;
use crate::block::{BlockContext, WARP_SIZE};
use std::collections::{HashMap, VecDeque};
use std::panic::Location;

/// The most requests of a line that wait for lanes. Further requests are counted as they are: lanes
/// that never arrive leave theirs incomplete.
const OPEN: usize = 1024;

/// The action of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Action {
    GlobalLoad,
    GlobalStore,
    GlobalAtomic,
    /// An atomic operation without a result.
    GlobalReduction,
    SharedLoad,
    SharedStore,
    SharedAtomic,
    SharedReduction,
    /// A row that `ldmatrix` reads. The instruction is counted where the lanes meet.
    MatrixLoad,
    /// A row that `stmatrix` writes.
    MatrixStore,
    /// The read of `cp.async`.
    AsyncSource,
    /// The write of `cp.async`; not a separate instruction.
    AsyncDestination,
    /// An instruction without an address.
    Event(&'static str),
}

impl Action {
    fn instruction(self, bytes: u64) -> Option<&'static str> {
        let of = |names: [&'static str; 5]| Some(names[bytes.max(1).ilog2().min(4) as usize]);
        match self {
            Self::GlobalLoad => {
                of(["ld.global.b8", "ld.global.b16", "ld.global.b32", "ld.global.b64", "ld.global.b128"])
            }
            Self::GlobalStore => {
                of(["st.global.b8", "st.global.b16", "st.global.b32", "st.global.b64", "st.global.b128"])
            }
            Self::SharedLoad => {
                of(["ld.shared.b8", "ld.shared.b16", "ld.shared.b32", "ld.shared.b64", "ld.shared.b128"])
            }
            Self::SharedStore => {
                of(["st.shared.b8", "st.shared.b16", "st.shared.b32", "st.shared.b64", "st.shared.b128"])
            }
            Self::GlobalAtomic => Some("atom.global"),
            Self::SharedAtomic => Some("atom.shared"),
            Self::GlobalReduction => Some("red.global"),
            Self::SharedReduction => Some("red.shared"),
            Self::AsyncSource => Some("cp.async"),
            Self::AsyncDestination | Self::MatrixLoad | Self::MatrixStore => None,
            Self::Event(name) => Some(name),
        }
    }
}

/// The actions of a warp at one source location.
#[derive(Debug, Default)]
struct Site {
    /// Completed requests.
    done: u64,
    /// The open requests, oldest first.
    open: VecDeque<Request>,
    /// Accesses of each lane.
    made: [u64; WARP_SIZE as usize],
}

/// The effect of a copy on global memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Touch {
    Read,
    Write,
    /// Adds to the contents.
    Update,
}

type Key = (usize, Action, u64);

/// An action of a warp at a source location, and the lanes that have returned.
struct Step {
    action: Action,
    /// The bytes of a lane.
    bytes: u64,
    /// The lanes that have returned.
    gone: u32,
}

/// The actions of the blocks of one worker.
#[derive(Debug)]
pub(crate) struct BlockProfile {
    /// By warp, actions not yet counted.
    sites: HashMap<(u32, Key), (Site, &'static Location<'static>)>,
    /// The counts of each location, by its address.
    pub(super) lines: HashMap<usize, (&'static Location<'static>, Counts)>,
    /// Waits of the running block for copies, by location.
    waits: HashMap<usize, (Waits, &'static Location<'static>)>,
    /// Sectors of global memory that were read, and written.
    pub(super) read: Sectors,
    pub(super) written: Sectors,
    sector_limit: usize,
}

fn key_of(location: &'static Location<'static>) -> usize {
    std::ptr::from_ref(location).addr()
}

impl BlockProfile {
    /// The profile of a worker that has run no block, which keeps this many sectors.
    pub fn new(sector_limit: usize) -> Self {
        let sectors = || Sectors::new(sector_limit);
        Self {
            sites: HashMap::new(),
            lines: HashMap::new(),
            waits: HashMap::new(),
            read: sectors(),
            written: sectors(),
            sector_limit,
        }
    }

    /// Records a wait of a thread for copies: see [`Waits::record`].
    pub(super) fn wait(
        &mut self,
        thread: u32,
        outstanding: Outstanding,
        own: bool,
        location: &'static Location<'static>,
    ) {
        let of_line = self.waits.entry(key_of(location)).or_insert_with(|| (Waits::default(), location));
        of_line.0.record(thread, outstanding, own);
    }

    /// Records an action of a thread; `gone` are the lanes of its warp that have returned.
    fn record(
        &mut self,
        thread: u32,
        gone: u32,
        action: Action,
        address: u64,
        bytes: u64,
        location: &'static Location<'static>,
    ) {
        let (warp, lane) = (thread / WARP_SIZE, (thread % WARP_SIZE) as usize);
        let key = (key_of(location), action, bytes);
        let (site, _) = self.sites.entry((warp, key)).or_insert_with(|| (Site::default(), location));
        let at = site.made[lane].saturating_sub(site.done) as usize;
        site.made[lane] = site.made[lane].max(site.done) + 1;
        while site.open.len() <= at {
            site.open.push_back(Request { mask: 0, addresses: [0; 32] });
        }
        let request = &mut site.open[at];
        request.mask |= 1 << lane;
        request.addresses[lane] = address;
        while site.open.len() > OPEN || site.open.front().is_some_and(|first| first.mask | gone == u32::MAX) {
            let Some(request) = site.open.pop_front() else { break };
            site.done += 1;
            let (lines, read, written) = (&mut self.lines, &mut self.read, &mut self.written);
            Self::count(lines, read, written, Step { action, bytes, gone }, &request, location);
        }
    }

    /// Counts, at the end of a block, the requests that wait for lanes that have not arrived.
    fn flush(&mut self, gone: impl Fn(u32) -> u32) {
        for ((warp, (_, action, bytes)), (site, location)) in self.sites.drain() {
            for request in site.open {
                // Lanes that the block lacks never lived; all others did when this was executed.
                let step = Step { action, bytes, gone: gone(warp) };
                let (lines, read, written) = (&mut self.lines, &mut self.read, &mut self.written);
                Self::count(lines, read, written, step, &request, location);
            }
        }
        for (waits, location) in std::mem::take(&mut self.waits).into_values() {
            Self::line(&mut self.lines, location).in_flight.add(&waits.total());
        }
    }

    fn line<'a>(
        lines: &'a mut HashMap<usize, (&'static Location<'static>, Counts)>,
        location: &'static Location<'static>,
    ) -> &'a mut Counts {
        &mut lines.entry(key_of(location)).or_insert_with(|| (location, Counts::default())).1
    }

    fn count(
        lines: &mut HashMap<usize, (&'static Location<'static>, Counts)>,
        read: &mut Sectors,
        written: &mut Sectors,
        Step { action, bytes, gone }: Step,
        request: &Request,
        location: &'static Location<'static>,
    ) {
        let counts = Self::line(lines, location);
        if let Some(name) = action.instruction(bytes) {
            counts.instruction(name, request.mask, !gone | request.mask);
        }
        let mut one = Counts::default();
        match action {
            Action::GlobalLoad => one.global_loads = request.global(bytes),
            Action::GlobalStore => one.global_stores = request.global(bytes),
            Action::GlobalAtomic | Action::GlobalReduction => one.global_atomics = request.global(bytes),
            Action::AsyncSource => one.async_loads = request.global(bytes),
            Action::SharedLoad => one.shared_loads = request.shared_load(bytes),
            Action::MatrixLoad => one.shared_loads = request.shared(bytes),
            Action::SharedStore | Action::MatrixStore => one.shared_stores = request.shared(bytes),
            Action::SharedAtomic | Action::SharedReduction => one.shared_atomics = request.shared(bytes),
            Action::AsyncDestination => one.async_stores = request.shared(bytes),
            Action::Event(_) => {}
        }
        counts.add(&one);
        let both = matches!(action, Action::GlobalAtomic | Action::GlobalReduction);
        if both || matches!(action, Action::GlobalLoad | Action::AsyncSource) {
            read.extend(request.units(bytes, SECTOR));
        }
        if both || action == Action::GlobalStore {
            written.extend(request.units(bytes, SECTOR));
        }
    }

    /// Records an instruction that lanes of a warp execute together.
    fn collective(
        &mut self,
        name: &'static str,
        lanes: u32,
        gone: u32,
        location: &'static Location<'static>,
    ) {
        Self::line(&mut self.lines, location).instruction(name, lanes, !gone | lanes);
    }
}

/// The hooks: each is one branch if no profile is taken.
impl BlockContext {
    /// Records an access of the running thread.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn profile_access(&self, action: Action, address: u64, bytes: usize) {
        if self.profile.is_some() {
            self.note_access(action, address, bytes, Location::caller());
        }
    }

    /// Records an instruction of the running thread without an address.
    #[inline(always)]
    pub(crate) fn profile_event(&self, name: &'static str, location: &'static Location<'static>) {
        if self.profile.is_some() {
            self.note_access(Action::Event(name), 0, 0, location);
        }
    }

    #[cold]
    #[inline(never)]
    fn note_access(&self, action: Action, address: u64, bytes: usize, location: &'static Location<'static>) {
        if let Some(profile) = &self.profile {
            let thread = self.running.get();
            let gone = self.exited_lanes[(thread / WARP_SIZE) as usize].get();
            profile.borrow_mut().record(thread, gone, action, address, bytes as u64, location);
        }
    }

    /// Records an instruction of these lanes of the running thread's warp.
    pub(crate) fn profile_collective(
        &self,
        name: &'static str,
        lanes: u32,
        location: &'static Location<'static>,
    ) {
        if let Some(profile) = &self.profile {
            let gone = self.exited_lanes[(self.running.get() / WARP_SIZE) as usize].get();
            profile.borrow_mut().collective(name, lanes, gone, location);
        }
    }

    /// Records a copy of the running thread that one lane issues. `ranges` calls its argument for
    /// the ranges of global memory that the copy accesses, by address and bytes.
    pub(crate) fn profile_bulk(
        &self,
        name: &'static str,
        bytes: u64,
        touch: Touch,
        ranges: impl FnOnce(&mut dyn FnMut(u64, usize)),
        location: &'static Location<'static>,
    ) {
        if let Some(profile) = &self.profile {
            let BlockProfile { lines, read, written, .. } = &mut *profile.borrow_mut();
            let counts = BlockProfile::line(lines, location);
            counts.instruction(name, 1, 1);
            counts.bulk_bytes += bytes;
            counts.bulk_stored_bytes += if touch == Touch::Read { 0 } else { bytes };
            ranges(&mut |address, bytes| {
                counts.bulk_global_bytes += bytes as u64;
                let sectors = address / SECTOR..(address + bytes as u64).div_ceil(SECTOR);
                if touch != Touch::Write {
                    read.extend(sectors.clone());
                }
                if touch != Touch::Read {
                    written.extend(sectors);
                }
            });
        }
    }

    /// Counts what the block has left before the next begins.
    pub(crate) fn profile_flush(&self) {
        if let Some(profile) = &self.profile {
            let threads = self.count();
            profile.borrow_mut().flush(|warp| match threads - warp * WARP_SIZE {
                lanes if lanes < WARP_SIZE => u32::MAX << lanes,
                _ => 0,
            });
        }
    }

    /// The actions of the blocks that ran here.
    pub(crate) fn take_profile(&self) -> Option<BlockProfile> {
        self.profile_flush();
        self.profile.as_ref().map(|profile| {
            let empty = BlockProfile::new(profile.borrow().sector_limit);
            profile.replace(empty)
        })
    }
}
