//! Launches of one stream that overlap (programmatic dependent launch): which earlier launches may
//! still run.
//!
//! A dependent launch begins when each block of the previous launch has called
//! `griddepcontrol.launch_dependents` or ended. Its `griddepcontrol.wait` returns when the previous
//! launch has completed. An earlier launch has completed by then only if the launch between has
//! waited for it.

use crate::stream::Work;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// The launches of a chain that are tracked, each with its accesses; older ones count as completed.
const KEPT: usize = 8;

/// Earlier launches on the stream as a launch knows them, and the part that the next one inherits.
#[derive(Default)]
pub(crate) struct Chain {
    /// The launches that may run until this one waits, oldest first.
    early: Vec<Work>,
    /// The launches that may run after its `griddepcontrol.wait`.
    late: Vec<Work>,
    /// Whether a thread of this launch has waited.
    waited: AtomicBool,
    /// Whether a block of this launch allows the next launch only after its own
    /// `griddepcontrol.wait`.
    waits_first: AtomicBool,
}

impl Chain {
    /// The chain of a launch that overlaps `prior`; `has_ended` returns whether the host has waited
    /// for a launch.
    pub(crate) fn behind(prior: &Work, has_ended: impl Fn(&Work) -> bool) -> Self {
        let before = &prior.chain;
        let left = |waited: &AtomicBool| {
            let works = if waited.load(Relaxed) { &before.late } else { &before.early };
            works.iter().filter(|work| !has_ended(work)).cloned().collect::<Vec<_>>()
        };
        let mut early = left(&before.waits_first);
        early.push(prior.clone());
        early.drain(..early.len().saturating_sub(KEPT));
        Self { early, late: left(&before.waited), ..Self::default() }
    }

    /// Whether no other launch of the stream may run concurrently.
    pub(crate) fn is_empty(&self) -> bool {
        self.early.is_empty()
    }

    /// The launches that may run concurrently with a thread, each with whether it may still run
    /// after this launch's wait.
    pub(crate) fn beside(&self, has_waited: bool) -> impl Iterator<Item = (&Work, bool)> {
        let works = if has_waited { &self.late } else { &self.early };
        works.iter().map(|work| (work, self.late.iter().any(|late| late.is(work))))
    }

    /// A thread of the launch waits.
    pub(crate) fn wait(&self) {
        self.waited.store(true, Relaxed);
    }

    /// A block has ended that waited and did not allow the next launch before its wait.
    pub(crate) fn wait_first(&self) {
        self.waits_first.store(true, Relaxed);
    }
}
