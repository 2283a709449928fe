//! Copies in flight: the copies outstanding when threads wait.
//!
//! The n-th wait of a thread at a line belongs to the n-th waits of the block's other threads
//! there. `cp.async` copies and bulk stores belong to a thread, so their bytes are summed over the
//! threads of such a wait. Bulk loads belong to the block, so the maximum over the wait's threads
//! counts.

use super::gather::BlockProfile;
use crate::block::BlockContext;
use std::panic::Location;

/// Copies outstanding at waits of blocks, before each wait completed any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InFlight {
    /// Waits of a block.
    pub waits: u64,
    /// Bytes outstanding, summed over the waits.
    pub bytes: u64,
    /// The most bytes outstanding at one of them.
    pub max_bytes: u64,
    /// Committed groups of a thread, or bulk loads of the block, summed over the waits.
    pub groups: u64,
    /// The most groups or loads at one wait.
    pub max_groups: u64,
}

impl InFlight {
    /// The mean of bytes outstanding at a wait.
    pub fn mean_bytes(&self) -> f64 {
        self.bytes as f64 / self.waits.max(1) as f64
    }

    /// The mean of groups or bulk loads outstanding at a wait.
    pub fn mean_groups(&self) -> f64 {
        self.groups as f64 / self.waits.max(1) as f64
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.waits += other.waits;
        self.bytes += other.bytes;
        self.groups += other.groups;
        self.max_bytes = self.max_bytes.max(other.max_bytes);
        self.max_groups = self.max_groups.max(other.max_groups);
    }
}

/// Copies outstanding at a wait: their bytes, and their groups or bulk loads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outstanding {
    pub bytes: u64,
    pub groups: u64,
}

/// The waits of a block at one line.
#[derive(Debug, Default)]
pub(super) struct Waits {
    /// The waits of each thread.
    made: Vec<u32>,
    /// Bytes and groups at the n-th wait.
    found: Vec<(u64, u64)>,
}

impl Waits {
    /// Notes a wait of a thread that finds this outstanding, its own copies or the block's.
    pub fn record(&mut self, thread: u32, Outstanding { bytes, groups }: Outstanding, own: bool) {
        let thread = thread as usize;
        if self.made.len() <= thread {
            self.made.resize(thread + 1, 0);
        }
        let at = self.made[thread] as usize;
        self.made[thread] += 1;
        if self.found.len() <= at {
            self.found.push((0, 0));
        }
        let found = &mut self.found[at];
        found.0 = if own { found.0 + bytes } else { found.0.max(bytes) };
        found.1 = found.1.max(groups);
    }

    pub fn total(&self) -> InFlight {
        let mut total = InFlight::default();
        for &(bytes, groups) in &self.found {
            total.add(&InFlight { waits: 1, bytes, max_bytes: bytes, groups, max_groups: groups });
        }
        total
    }
}

/// The hooks: each is one branch if no profile is taken.
impl BlockContext {
    fn note_wait(
        &self,
        name: &'static str,
        outstanding: Outstanding,
        own: bool,
        location: &'static Location<'static>,
    ) {
        self.profile_event(name, location);
        if let Some(profile) = &self.profile {
            BlockProfile::wait(&mut profile.borrow_mut(), self.running.get(), outstanding, own, location);
        }
    }

    /// Records a wait of the running thread for its `cp.async` copies.
    #[inline(always)]
    pub(crate) fn profile_wait_for_copies(&self, name: &'static str, location: &'static Location<'static>) {
        if self.profile.is_some() {
            let outstanding = self.thread().cp_async.borrow().outstanding();
            self.note_wait(name, outstanding, true, location);
        }
    }

    /// Records a wait of the running thread for its bulk stores.
    #[inline(always)]
    pub(crate) fn profile_wait_for_stores(&self, name: &'static str, location: &'static Location<'static>) {
        if self.profile.is_some() {
            let outstanding = self.thread().bulk_stores.borrow().outstanding();
            self.note_wait(name, outstanding, true, location);
        }
    }

    /// Records a wait of the running thread at an mbarrier, for bulk loads or for `cp.async` copies
    /// that arrive there.
    #[inline(always)]
    pub(crate) fn profile_wait_at_mbarrier(&self, name: &'static str, location: &'static Location<'static>) {
        if self.profile.is_none() {
            return;
        }
        let mut outstanding = self.bulk_loads.borrow().outstanding();
        if self.late_arrivals.get() > 0 {
            let mut arrivals = 0;
            for thread in &self.threads {
                let copies = thread.cp_async.borrow().outstanding();
                outstanding.bytes += copies.bytes;
                arrivals = copies.groups.max(arrivals);
            }
            outstanding.groups += arrivals;
        }
        self.note_wait(name, outstanding, false, location);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nth_waits_of_the_threads_are_one_wait_of_the_block() {
        let (mut own, mut shared) = (Waits::default(), Waits::default());
        for thread in 0..4 {
            for (bytes, groups) in [(48, 3), (16, 1)] {
                own.record(thread, Outstanding { bytes, groups }, true);
                let bytes = if thread == 0 { bytes } else { 0 };
                shared.record(thread, Outstanding { bytes, groups }, false);
            }
        }
        let expected = InFlight { waits: 2, bytes: 4 * 64, max_bytes: 4 * 48, groups: 4, max_groups: 3 };
        assert_eq!(own.total(), expected);
        assert_eq!((own.total().mean_bytes(), own.total().mean_groups()), (128.0, 2.0));
        assert_eq!(shared.total(), InFlight { bytes: 64, max_bytes: 48, ..expected });
    }
}
