//! A race whose report is deferred until no wider pair of threads can race at its lines.
//!
//! Two lanes of a warp are often the first pair of many that race at the same line, and a barrier
//! of the warp would order only this pair. So the block continues until a pair is found that only
//! the widest way out orders, or until no further pair can come: at the end of the block, or at the
//! end of the cluster or of the grid where other blocks may access the same bytes. A barrier of the
//! block does not end the wait, since the lines may be of a loop. A thread that has another fault
//! meanwhile ends there, and the others continue.

use super::WARP_SIZE;
use super::context::{BlockContext, RawFault};
use crate::fault::{FaultKind, RaceSpace, RaceThreads};

impl BlockContext {
    /// Defers a race that may have a wider pair of threads and returns `None`: the running thread
    /// continues. Otherwise returns a fault to report.
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

    /// The fault to report if this fault occurs while a race is deferred: the race, a wider one, or
    /// none yet. If the launch reaches a limit, the deferred race states what was not checked.
    pub(super) fn with_deferred(&self, fault: RawFault) -> Option<RawFault> {
        if self.deferred.borrow().is_none() {
            return Some(fault);
        }
        // Other threads and blocks would spend their limits too.
        if fault.is_of_a_limit() {
            self.races().give_up();
            return self.take_limited();
        }
        self.defer(fault)
    }

    /// The deferred race, with the threads that a limit of the launch leaves unchecked.
    fn take_limited(&self) -> Option<RawFault> {
        let first = self.deferred.take()?;
        let reach = self.reach(&first);
        Some(first.with_unseen(reach))
    }

    /// The blocks of a cluster have ended: reports their deferred races, which state what was not
    /// checked if one of the blocks reached a limit.
    pub(super) fn settle_cluster(contexts: &[Self]) {
        let at_limit = |context: &Self| context.fault.borrow().as_ref().is_some_and(RawFault::is_of_a_limit);
        if contexts.iter().any(at_limit) {
            for context in contexts {
                if let Some(first) = context.take_limited() {
                    context.races().give_up();
                    context.record(first);
                }
            }
        }
        contexts.iter().for_each(Self::settle_deferred);
    }

    /// Reports the race that was kept: no other pair of threads races with it from now on.
    pub(crate) fn settle_deferred(&self) {
        if let Some(first) = self.deferred.take() {
            self.record(first);
        }
    }

    /// The widest group of this launch's threads that access the memory of a race.
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
    /// Whether the launch reached a limit: this fault is a limit's, or a race that was deferred
    /// until then.
    pub(crate) fn is_of_a_limit(&self) -> bool {
        match &self.kind {
            FaultKind::NoProgress { .. } | FaultKind::NoStack { .. } => true,
            FaultKind::Race(race) => race.unseen.is_some(),
            _ => false,
        }
    }

    /// A race, with the group of unchecked threads if these may race at its lines.
    pub(crate) fn with_unseen(mut self, reach: Option<RaceThreads>) -> Self {
        let may_widen = self.may_widen(reach);
        if let FaultKind::Race(race) = &mut self.kind
            && may_widen
        {
            race.unseen = reach;
        }
        self
    }

    /// Whether it is reported instead of `first`, the fault of another block of the cluster.
    pub(super) fn goes_before(&self, first: &Self) -> bool {
        let is_race = matches!(self.kind, FaultKind::Race(_));
        self.widens(first) || is_race && !matches!(first.kind, FaultKind::Race(_)) && first.is_of_a_limit()
    }

    /// Whether it is a race that needs another synchronisation for the threads of a wider group,
    /// `reach`.
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
