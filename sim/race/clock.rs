//! The clocks of threads: which accesses of others came before.
//!
//! A thread's clock is, for each other thread, the last epoch of it that has ended before. It is
//! held in parts, the largest of which counts: one number for all threads of the block, one for
//! those of the warp, and, where something else than a whole block or warp has met, a number for
//! each thread of the cluster.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

/// What is known of threads of other clusters: for each, the epochs of its threads.
pub(crate) type Foreign = Vec<(u32, Arc<[u32]>)>;

/// Epochs that are known to have ended.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    /// By the number of a thread in the cluster, and behind all threads by the number of a warp, of
    /// the instructions that read for the whole warp; empty if of none.
    pub(crate) threads: Vec<u32>,
    /// The clocks of other clusters.
    pub(crate) foreign: Option<Arc<Foreign>>,
    /// Whether the thread knows that the launch before has ended.
    pub(crate) prior: bool,
}

/// The larger of each two numbers.
fn join_epochs(into: &mut Vec<u32>, other: &[u32]) {
    if into.len() < other.len() {
        into.resize(other.len(), 0);
    }
    for (into, other) in into.iter_mut().zip(other) {
        *into = (*into).max(*other);
    }
}

/// What either of two knows of other clusters.
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

/// Adds what is known of a cluster.
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
    /// Adds what `other` knows.
    pub(crate) fn join(&mut self, other: &Self) {
        join_epochs(&mut self.threads, &other.threads);
        if let Some(foreign) = &other.foreign {
            join_foreign(&mut self.foreign, foreign);
        }
        self.prior |= other.prior;
    }

    /// The last epoch of a thread of the cluster that is known to have ended.
    pub(crate) fn of(&self, thread: u32) -> u32 {
        self.threads.get(thread as usize).copied().unwrap_or(0)
    }

    /// The last epoch of a thread of another cluster that is known to have ended.
    pub(crate) fn of_foreign(&self, cluster: u32, thread: u32) -> u32 {
        let Some(foreign) = &self.foreign else { return 0 };
        let known = foreign.iter().find(|(other, _)| *other == cluster);
        known.and_then(|(_, epochs)| epochs.get(thread as usize).copied()).unwrap_or(0)
    }

    /// Adds that an epoch of a thread has ended.
    pub(crate) fn learn(&mut self, thread: u32, epoch: u32) {
        self.learn_all(thread..thread + 1, epoch);
    }

    /// Adds that an epoch of each of these threads has ended.
    pub(crate) fn learn_all(&mut self, threads: std::ops::Range<u32>, epoch: u32) {
        if self.threads.len() < threads.end as usize {
            self.threads.resize(threads.end as usize, 0);
        }
        for known in &mut self.threads[threads.start as usize..threads.end as usize] {
            *known = (*known).max(epoch);
        }
    }
}

/// A thread's clock, but for what the whole block knows.
#[derive(Debug)]
pub(crate) struct ThreadClock {
    /// The epoch of its accesses, from 1.
    pub(crate) own: Cell<u32>,
    /// The last epoch that has ended of all lanes of its warp.
    pub(crate) warp: Cell<u32>,
    /// The last epoch of its warp's instructions in which it took part in one.
    pub(crate) whole: Cell<u32>,
    /// What else it knows.
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

    /// Begins an epoch: what comes now is not handed on by what was before.
    pub(crate) fn tick(&self) {
        self.own.set(self.own.get() + 1);
    }
}

/// What threads that came to a meeting know, all together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gathered {
    pub(crate) seen: Option<Rc<Seen>>,
    /// What the last of them knew besides, as the next one often knows the same.
    last: Option<Rc<Seen>>,
}

impl Gathered {
    /// Adds what is known elsewhere.
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

    /// What is known, to be added to.
    pub(crate) fn change(&mut self) -> &mut Seen {
        Rc::make_mut(self.seen.get_or_insert_default())
    }
}
