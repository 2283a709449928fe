//! A race whose report waits until no wider pair of threads can race at its lines.
//!
//! Two lanes of a warp are often the first pair of many that race at the same line, and a barrier
//! of the warp would order only this pair. So the block goes on until a pair is found that only
//! the widest way out orders, or until no further pair can come: at the block's next barrier, or at
//! the end of the cluster or of the grid where other blocks may access the same bytes. A thread
//! that has another fault meanwhile ends there, and the others go on.

use super::WARP_SIZE;
use super::context::{BlockContext, RawFault};
use crate::fault::{FaultKind, RaceSpace, RaceThreads};

impl BlockContext {
    /// Keeps a race that may have a wider pair of threads, and returns `None`: the running thread
    /// goes on. Returns a fault to report otherwise.
    pub(crate) fn defer(&self, fault: RawFault) -> Option<RawFault> {
        let mut kept = self.deferred.borrow_mut();
        if kept.as_ref().is_some_and(|first| !fault.widens(first)) {
            // The next run finds a race at other lines.
            return None;
        }
        *kept = None;
        if !fault.may_widen(self.reach(&fault)) {
            return Some(fault);
        }
        *kept = Some(fault);
        None
    }

    /// The fault to report where this one comes while a race is kept: the race, a wider one, or
    /// none yet. A race that is kept when the launch comes to a limit says what was not watched.
    pub(super) fn with_deferred(&self, fault: RawFault) -> Option<RawFault> {
        if self.deferred.borrow().is_none() {
            return Some(fault);
        }
        // Other threads and blocks would spend their limits too.
        if matches!(fault.kind, FaultKind::NoProgress { .. } | FaultKind::NoStack { .. }) {
            self.races().give_up();
            let mut first = self.deferred.take()?;
            let reach = self.reach(&first);
            if let FaultKind::Race(race) = &mut first.kind {
                race.unseen = reach;
            }
            return Some(first);
        }
        self.defer(fault)
    }

    /// All threads of the block have met: reports a race that was kept, if only they could race
    /// with it.
    pub(crate) fn settle_at_barrier(&self) {
        let is_settled = |first: &RawFault| self.reach(first) == Some(RaceThreads::Block);
        if self.deferred.borrow().as_ref().is_some_and(is_settled) {
            self.settle_deferred();
        }
    }

    /// Reports the race that was kept: no other pair of threads races with it from now on.
    pub(crate) fn settle_deferred(&self) {
        if let Some(first) = self.deferred.take() {
            self.record(first);
        }
    }

    /// The widest group of threads, of this launch, that access the memory of a race.
    fn reach(&self, fault: &RawFault) -> Option<RaceThreads> {
        let FaultKind::Race(race) = &fault.kind else { return None };
        Some(match race.space {
            RaceSpace::Global { .. } if self.cluster().is_one_of_several() => RaceThreads::Grid,
            _ if self.cluster().blocks().len() > 1 => RaceThreads::Cluster,
            _ if self.count() > WARP_SIZE => RaceThreads::Block,
            _ => RaceThreads::Warp,
        })
    }
}

impl RawFault {
    /// Whether it is a race that another way out orders for the threads of a wider group, `reach`.
    pub(crate) fn may_widen(&self, reach: Option<RaceThreads>) -> bool {
        let (FaultKind::Race(race), Some(reach)) = (&self.kind, reach) else { return false };
        race.threads < reach && race.remedy_of(reach) != race.remedy()
    }

    /// Whether threads of other blocks may race at its lines, in a grid of several clusters.
    pub(crate) fn may_widen_in_grid(&self) -> bool {
        let FaultKind::Race(race) = &self.kind else { return false };
        matches!(race.space, RaceSpace::Global { .. }) && self.may_widen(Some(RaceThreads::Grid))
    }

    /// Whether it is a race at a line of the race `first` by threads of a wider group.
    pub(crate) fn widens(&self, first: &Self) -> bool {
        let (FaultKind::Race(race), FaultKind::Race(narrow)) = (&self.kind, &first.kind) else {
            return false;
        };
        let lines = [self.location, Some(race.other.location)];
        race.threads > narrow.threads
            && race.threads <= RaceThreads::Grid
            && [first.location, Some(narrow.other.location)].iter().any(|line| lines.contains(line))
    }
}
