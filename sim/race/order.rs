//! The order of a block's threads: the clocks that they share, and the accesses that precede an
//! access of one of them.

use super::cell::{Entry, Found, Ordering};
use super::clock::{Seen, ThreadClock};
use super::place::Places;
use crate::block::{BlockContext, WARP_SIZE};
use crate::fault::RaceThreads;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// The last join of two clocks: the next thread often needs the same one.
type Joined = (Rc<Seen>, Rc<Seen>, Rc<Seen>);

/// The part of the clocks that a block's threads share.
pub(crate) struct BlockClock {
    pub(super) on: Cell<bool>,
    /// The last epoch that has ended for all threads of the block.
    pub(super) block: Cell<u32>,
    pub(super) joined: RefCell<Option<Joined>>,
    /// By warp: the epoch of the instructions that read for the whole warp, and whether a lane has
    /// passed on its clock since the last one.
    pub(super) whole: Box<[Cell<(u32, bool)>]>,
    pub(super) places: Places,
    /// Whether threads that write the same value are reported, and such a pair in the last access.
    pub(super) tells_values: bool,
    pub(super) same: Cell<Option<Found>>,
    /// Whether a thread has waited for the previous launch, and whether a thread that had not
    /// waited has allowed the next launch.
    pub(super) waited: Cell<bool>,
    pub(super) allows_early: Cell<bool>,
}

impl BlockClock {
    pub(crate) fn new(on: bool, tells_values: bool, warps: usize) -> Self {
        Self {
            on: Cell::new(on),
            block: Cell::new(0),
            joined: RefCell::default(),
            whole: vec![Cell::new((1, false)); warps].into(),
            places: Places::default(),
            tells_values,
            same: Cell::new(None),
            waited: Cell::new(false),
            allows_early: Cell::new(false),
        }
    }

    /// Whether race detection is on.
    #[inline(always)]
    pub(crate) fn is_on(&self) -> bool {
        self.on.get()
    }

    /// Runs `act` without recording its accesses, which are the simulator's own.
    pub(crate) fn unnoticed<R>(&self, act: impl FnOnce() -> R) -> R {
        /// Also when a thread ends with a fault and the others continue.
        struct Restore<'a>(&'a Cell<bool>, bool);
        impl Drop for Restore<'_> {
            fn drop(&mut self) {
                self.0.set(self.1);
            }
        }
        let _restore = Restore(&self.on, self.on.replace(false));
        act()
    }

    pub(crate) fn clear(&self) {
        self.block.set(0);
        self.whole.iter().for_each(|whole| whole.set((1, false)));
        self.joined.take();
        self.waited.set(false);
        self.allows_early.set(false);
    }
}

/// Threads of a warp that access memory together.
pub(crate) struct Accessor<'a> {
    pub(super) block: &'a BlockContext,
    /// The cluster's index in the grid.
    pub(super) cluster: u32,
    /// The block's first warp in the cluster, and its warps.
    pub(super) first_warp: u32,
    pub(super) warps: u32,
    /// The last epoch that has ended for all threads of the block, as all of them know.
    pub(super) known: u32,
    /// The warp in the block.
    pub(super) warp: u32,
    pub(super) lanes: u32,
    /// Other lanes of the same instruction whose access is already recorded, and its location.
    pub(super) together: (u32, u16),
    /// The last entry that was found to be ordered before the access: adjacent bytes mostly have
    /// the same one.
    pub(super) ordered: Cell<Entry>,
}

impl Accessor<'_> {
    /// Whether the entry is of the same instruction by other lanes.
    fn is_same_instruction(&self, entry: &Entry) -> bool {
        let (lanes, place) = self.together;
        lanes != 0
            && entry.lanes & !lanes == 0
            && entry.place() == place
            && self.is_of_warp(entry)
            && entry.epoch == self.clock(entry.lanes.trailing_zeros()).own.get()
    }

    /// Whether the entry is of the accessing warp.
    pub(super) fn is_of_warp(&self, entry: &Entry) -> bool {
        entry.cluster() == self.cluster && entry.warp() == self.first_warp + self.warp
    }

    /// The closest group that contains the accessing threads and the entry's threads.
    pub(super) fn group(&self, entry: &Entry) -> RaceThreads {
        if entry.cluster() != self.cluster {
            RaceThreads::Grid
        } else if !self.is_of_block(entry) {
            RaceThreads::Cluster
        } else if self.is_of_warp(entry) {
            RaceThreads::Warp
        } else {
            RaceThreads::Block
        }
    }

    fn clock(&self, lane: u32) -> &ThreadClock {
        &self.block.threads[(self.warp * WARP_SIZE + lane) as usize].clock
    }

    pub(super) fn entry(&self, place: u16, epoch: u32) -> Entry {
        Entry::new(self.cluster, self.first_warp + self.warp, place, epoch, self.lanes)
    }
}

impl Ordering for Accessor<'_> {
    #[inline(always)]
    fn is_known_to_all(&self, entry: &Entry) -> bool {
        entry.epoch <= self.known && self.is_of_block(entry)
    }

    #[inline(always)]
    fn is_of_block(&self, entry: &Entry) -> bool {
        entry.cluster() == self.cluster && entry.warp().wrapping_sub(self.first_warp) < self.warps
    }

    fn same_value(&self, found: Found) {
        if self.block.clock.tells_values {
            self.block.clock.same.set(Some(found));
        }
    }

    #[inline(never)]
    fn unordered(&self, entry: &Entry) -> Option<(u32, u32)> {
        if self.ordered.get() == *entry || self.is_same_instruction(entry) {
            return None;
        }
        let is_ours = entry.cluster() == self.cluster;
        let mut lanes = self.lanes;
        while lanes != 0 {
            let lane = lanes.trailing_zeros();
            lanes &= lanes - 1;
            let clock = self.clock(lane);
            let mut others = entry.lanes;
            if entry.is_whole() {
                // A lane of the warp took part. Only reads of shared memory are instructions of a
                // whole warp, so the entry is of the cluster.
                let number = self.block.whole_number(entry.warp());
                let seen = clock.others.borrow();
                let is_known = entry.warp() == self.first_warp + self.warp
                    || seen.as_ref().is_some_and(|seen| seen.of(number) >= entry.epoch);
                if is_known || self.is_known_to_all(entry) {
                    continue;
                }
                return Some((others.trailing_zeros(), lane));
            }
            if self.is_of_warp(entry) {
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
        self.ordered.set(*entry);
        None
    }
}

/// An order in which accessing threads of such a group count as ordered: only races with threads of
/// a wider group remain.
pub(super) struct Beyond<'a>(pub(super) &'a Accessor<'a>, pub(super) RaceThreads);

impl Ordering for Beyond<'_> {
    fn is_known_to_all(&self, entry: &Entry) -> bool {
        self.0.is_known_to_all(entry)
    }

    fn is_of_block(&self, entry: &Entry) -> bool {
        self.0.is_of_block(entry)
    }

    fn unordered(&self, entry: &Entry) -> Option<(u32, u32)> {
        if self.0.group(entry) <= self.1 { None } else { self.0.unordered(entry) }
    }
}

impl BlockContext {
    /// The first warp of this block in its cluster.
    pub(super) fn first_warp(&self) -> u32 {
        self.rank * self.count().div_ceil(WARP_SIZE)
    }

    /// The index in its cluster of a thread of this block.
    pub(super) fn number_in_cluster(&self, thread: u32) -> u32 {
        self.first_warp() * WARP_SIZE + thread
    }

    /// The index of a warp of the cluster, for its instructions that read for the whole warp. These
    /// indices follow those of the threads.
    pub(super) fn whole_number(&self, warp: u32) -> u32 {
        self.cluster().blocks().len() as u32 * self.count().div_ceil(WARP_SIZE) * WARP_SIZE + warp
    }

    /// Lanes of a warp of this block that access memory.
    #[inline(always)]
    pub(super) fn accessor(&self, warp: u32, lanes: u32) -> Accessor<'_> {
        let warps = self.exited_lanes.len() as u32;
        Accessor {
            block: self,
            cluster: self.cluster().number.get(),
            first_warp: self.rank * warps,
            warps,
            known: self.clock.block.get(),
            warp,
            lanes,
            together: (0, 0),
            ordered: Cell::new(Entry::NONE),
        }
    }
}
