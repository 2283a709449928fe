//! The knowledge that an mbarrier passes on: threads that wait for a phase receive the knowledge of
//! the threads that arrived in it.

use super::clock::Clock;
use super::context::{BlockContext, running};
use super::knowledge::Knowledge;
use crate::Dim3;
use crate::race::{Gathered, Seen};
use std::collections::HashMap;
use std::panic::Location;
use std::rc::Rc;

/// An arrival of a thread: the block's rank, the thread, and the line.
type Arrival = ((u32, u32), &'static Location<'static>);

/// The knowledge at an mbarrier. An arrival also passes on what precedes it in earlier phases.
#[derive(Default)]
struct Phase {
    /// The knowledge of the threads that have arrived, including in the current phase.
    coming: Knowledge,
    arrivals: Vec<Arrival>,
    /// At the end of the last completed phase.
    complete: Knowledge,
    complete_arrivals: Vec<Arrival>,
    /// The accesses before the arrivals, and before the arrivals of the last completed phase.
    arriving: Gathered,
    arrived: Option<Rc<Seen>>,
    /// Completed phases since recording began, and the index of their clock if copies complete in
    /// them.
    ended: u32,
    clock: Option<usize>,
}

/// The current phase of an mbarrier on which copies complete.
pub(super) struct RunningPhase {
    /// The index of the clock of the mbarrier's phases.
    pub clock: usize,
    /// Counted from 1.
    pub number: u32,
}

/// The mbarriers of a block, by address.
#[derive(Default)]
pub(crate) struct Phases(HashMap<u32, Phase>);

impl BlockContext {
    /// The running thread, of any block of the cluster, passes on its knowledge at an mbarrier of
    /// this block: it arrives, or issues a copy that completes there.
    pub(crate) fn hand_on(&self, mbarrier: u32, arrival: Option<&'static Location<'static>>) {
        let Some(arriving) = running() else { return };
        if arriving.clock.is_on() {
            arriving.release(&mut self.phases.borrow_mut().0.entry(mbarrier).or_default().arriving);
        }
        if self.cluster().has_clocks() {
            let mut phases = self.phases.borrow_mut();
            let phase = phases.0.entry(mbarrier).or_default();
            phase.coming.join(&arriving.thread().known.borrow());
            if let Some(location) = arrival {
                phase.arrivals.push(((arriving.rank, arriving.running.get()), location));
            }
        }
    }

    /// Passes on, at an mbarrier of this block, the knowledge from when a deferred arrival was
    /// issued.
    pub(crate) fn hand_on_later(&self, mbarrier: u32, known: &Knowledge, before: &Gathered) {
        if let Some(seen) = &before.seen {
            self.phases.borrow_mut().0.entry(mbarrier).or_default().arriving.join(seen);
        }
        if self.cluster().has_clocks() {
            self.phases.borrow_mut().0.entry(mbarrier).or_default().coming.join(known);
        }
    }

    /// Changes the knowledge that threads waiting for the current phase receive.
    pub(crate) fn with_phase(&self, mbarrier: u32, change: impl FnOnce(&mut Knowledge)) {
        change(&mut self.phases.borrow_mut().0.entry(mbarrier).or_default().coming);
    }

    /// Records that a phase of an mbarrier of this block is complete.
    pub(crate) fn end_phase(&self, mbarrier: u32) {
        if let Some(phase) = self.phases.borrow_mut().0.get_mut(&mbarrier) {
            phase.ended += 1;
            if let Some(clock) = phase.clock {
                phase.coming.learn(clock, phase.ended);
            }
            phase.complete.clone_from(&phase.coming);
            phase.arrived.clone_from(&phase.arriving.seen);
            phase.complete_arrivals = std::mem::take(&mut phase.arrivals);
        }
    }

    /// Forgets an mbarrier that is replaced or invalidated.
    pub(crate) fn forget_phase(&self, mbarrier: u32) {
        if let Some(phase) = self.phases.borrow_mut().0.get_mut(&mbarrier) {
            *phase = Phase { ended: phase.ended, clock: phase.clock, ..Phase::default() };
        }
    }

    /// The current phase of an mbarrier of this block on which a copy completes.
    pub(super) fn phase_that_runs(&self, mbarrier: u32) -> RunningPhase {
        let mut phases = self.phases.borrow_mut();
        let phase = phases.0.entry(mbarrier).or_default();
        let clock = *phase
            .clock
            .get_or_insert_with(|| self.cluster().number_of(Clock::Phases { rank: self.rank, mbarrier }));
        RunningPhase { clock, number: phase.ended + 1 }
    }

    /// The running thread of this block has waited for a phase of an mbarrier of this block.
    pub(crate) fn see_phase(&self, mbarrier: u32) {
        if let Some(phase) = self.phases.borrow().0.get(&mbarrier) {
            self.tell(&phase.complete);
            self.take_on(phase.arrived.as_ref());
            self.thread().seen_mbarrier.set(Some(mbarrier));
        }
    }

    /// For the last phase that the running thread of this block has waited for: an arrival of a
    /// thread without this knowledge.
    pub(crate) fn arrival_seen(
        &self,
        of: impl Fn(u32, u32) -> bool,
    ) -> Option<(Dim3, &'static Location<'static>)> {
        let phases = self.phases.borrow();
        let phase = phases.0.get(&self.thread().seen_mbarrier.get()?)?;
        let mut arrivals = phase.complete_arrivals.iter().rev();
        let ((_, thread), location) = arrivals.find(|((rank, thread), _)| of(*rank, *thread))?;
        Some((self.block_dim.index_of((*thread).into()), location))
    }
}

impl Phases {
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}
