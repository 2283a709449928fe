//! The clocks of threads: which accesses of other threads are ordered before theirs.
//!
//! A thread's clock has, for each other thread, the last epoch known to have ended. It has several
//! parts, the largest of which counts: one value for all threads of the block, one for the threads
//! of the warp, and, after a meeting of threads other than a whole block or warp, one for each
//! thread of the cluster.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

/// The known epochs of other clusters: for each cluster, those of its threads.
pub(crate) type Foreign = Vec<(u32, Arc<[u32]>)>;

/// Epochs known to have ended.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    /// By a thread's index in the cluster. After all threads, by the index of a warp, for the
    /// instructions that read for the whole warp; empty if no epoch is known.
    pub(crate) threads: Vec<u32>,
    /// The clocks of other clusters.
    pub(crate) foreign: Option<Arc<Foreign>>,
    /// Whether the thread knows that the previous launch has ended.
    pub(crate) prior: bool,
}

/// The elementwise maximum.
fn join_epochs(into: &mut Vec<u32>, other: &[u32]) {
    if into.len() < other.len() {
        into.resize(other.len(), 0);
    }
    for (into, other) in into.iter_mut().zip(other) {
        *into = (*into).max(*other);
    }
}

/// The union of two threads' knowledge of other clusters.
pub(crate) fn join_foreign(into: &mut Option<Arc<Foreign>>, other: &Arc<Foreign>) {
    let Some(own) = into else {
        *into = Some(other.clone());
        return;
    };
    if Arc::ptr_eq(own, other) {
        return;
    }
    let own = Arc::make_mut(own);
    for (cluster, epochs) in other.iter() {
        add_foreign(own, *cluster, epochs);
    }
}

/// Adds the known epochs of a cluster.
pub(crate) fn add_foreign(into: &mut Foreign, cluster: u32, epochs: &Arc<[u32]>) {
    match into.iter_mut().find(|(other, _)| *other == cluster) {
        None => into.push((cluster, epochs.clone())),
        Some((_, own)) if Arc::ptr_eq(own, epochs) => {}
        Some((_, own)) => {
            let mut joined = own.to_vec();
            join_epochs(&mut joined, epochs);
            *own = joined.into();
        }
    }
}

impl Seen {
    /// Adds the epochs that `other` knows.
    pub(crate) fn join(&mut self, other: &Self) {
        join_epochs(&mut self.threads, &other.threads);
        if let Some(foreign) = &other.foreign {
            join_foreign(&mut self.foreign, foreign);
        }
        self.prior |= other.prior;
    }

    /// The last epoch of a thread of the cluster known to have ended.
    pub(crate) fn of(&self, thread: u32) -> u32 {
        self.threads.get(thread as usize).copied().unwrap_or(0)
    }

    /// The last epoch of a thread of another cluster known to have ended.
    pub(crate) fn of_foreign(&self, cluster: u32, thread: u32) -> u32 {
        let Some(foreign) = &self.foreign else { return 0 };
        let known = foreign.iter().find(|(other, _)| *other == cluster);
        known.and_then(|(_, epochs)| epochs.get(thread as usize).copied()).unwrap_or(0)
    }

    /// Adds an ended epoch of a thread.
    pub(crate) fn learn(&mut self, thread: u32, epoch: u32) {
        self.learn_all(thread..thread + 1, epoch);
    }

    /// Adds an ended epoch of each of these threads.
    pub(crate) fn learn_all(&mut self, threads: std::ops::Range<u32>, epoch: u32) {
        if self.threads.len() < threads.end as usize {
            self.threads.resize(threads.end as usize, 0);
        }
        for known in &mut self.threads[threads.start as usize..threads.end as usize] {
            *known = (*known).max(epoch);
        }
    }
}

/// A thread's clock, without the value that the whole block shares.
#[derive(Debug)]
pub(crate) struct ThreadClock {
    /// The epoch of its accesses, from 1.
    pub(crate) own: Cell<u32>,
    /// The last epoch that has ended for all lanes of its warp.
    pub(crate) warp: Cell<u32>,
    /// The epoch of its warp's instructions at the last one in which it took part.
    pub(crate) whole: Cell<u32>,
    /// Further known epochs.
    pub(crate) others: RefCell<Option<Rc<Seen>>>,
}

impl Default for ThreadClock {
    fn default() -> Self {
        Self { own: Cell::new(1), warp: Cell::new(0), whole: Cell::new(0), others: RefCell::default() }
    }
}

impl ThreadClock {
    pub(crate) fn clear(&self) {
        self.own.set(1);
        self.warp.set(0);
        self.whole.set(0);
        self.others.take();
    }

    /// Begins an epoch: earlier synchronisation does not pass on later accesses.
    pub(crate) fn tick(&self) {
        self.own.set(self.own.get() + 1);
    }
}

/// The joined knowledge of threads that have arrived at a meeting.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gathered {
    pub(crate) seen: Option<Rc<Seen>>,
    /// The further knowledge of the last thread: the next thread often has the same.
    last: Option<Rc<Seen>>,
}

impl Gathered {
    /// Adds knowledge from another meeting.
    pub(crate) fn join(&mut self, other: &Rc<Seen>) {
        if self.last.as_ref().is_some_and(|last| Rc::ptr_eq(last, other)) {
            return;
        }
        self.last = Some(other.clone());
        match &mut self.seen {
            None => self.seen = Some(other.clone()),
            Some(seen) if Rc::ptr_eq(seen, other) => {}
            Some(seen) => Rc::make_mut(seen).join(other),
        }
    }

    /// The knowledge, for changes.
    pub(crate) fn change(&mut self) -> &mut Seen {
        Rc::make_mut(self.seen.get_or_insert_default())
    }
}
