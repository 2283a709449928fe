//! A race of two lanes of a warp, whose report waits for the block's next barrier.
//!
//! Two lanes of a warp are often the first pair of many that race at the same two lines, and a
//! barrier of the warp would order only this pair. So the block goes on until a pair of two warps
//! is found, which tells the barrier that orders all of them, or until no further pair can come.

use super::WARP_SIZE;
use super::context::{BlockContext, RawFault};
use crate::fault::{FaultKind, Race, RaceThreads};

impl BlockContext {
    /// Keeps a race of two lanes until the block's next barrier or fault, and returns whether the
    /// running thread goes on. Other races are not kept.
    pub(crate) fn defer(&self, fault: RawFault) -> Result<(), RawFault> {
        let FaultKind::Race(race) = &fault.kind else { return Err(fault) };
        let as_block = Race { threads: RaceThreads::Block, ..(**race).clone() };
        let may_widen = race.threads == RaceThreads::Warp
            && self.count() > WARP_SIZE
            && as_block.remedy() != race.remedy();
        if !may_widen {
            return Err(fault);
        }
        self.deferred.borrow_mut().get_or_insert(fault);
        Ok(())
    }

    /// Reports the race that was kept: no other pair of threads races with it from now on.
    pub(crate) fn settle_deferred(&self) {
        if let Some(first) = self.deferred.take() {
            self.record(first);
        }
    }

    /// The fault to report of the race that was kept and one that came after it.
    pub(super) fn widest(&self, fault: RawFault) -> RawFault {
        match self.deferred.take() {
            Some(first) if !fault.has_lines_of(&first) => first,
            _ => fault,
        }
    }
}

impl RawFault {
    /// Whether both are races at the same two lines.
    fn has_lines_of(&self, first: &Self) -> bool {
        let lines = |fault: &Self| match &fault.kind {
            FaultKind::Race(race) => Some([fault.location?, race.other.location]),
            _ => None,
        };
        let (Some([a, b]), Some(first)) = (lines(self), lines(first)) else { return false };
        first == [a, b] || first == [b, a]
    }
}
