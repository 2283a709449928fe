//! What threads know about completed asynchronous operations: vector clocks.
//!
//! An asynchronous operation reads or writes shared memory until a thread waits for it. The next
//! thread that uses these bytes must know of that wait: it has waited itself, or has synchronised
//! (by an mbarrier's phase, a barrier, a warp operation) with a thread that has. It is not enough
//! that the wait *happened* to be earlier in this run. So each thread has a [`Knowledge`], which
//! synchronisation passes on.

use super::context::BlockContext;
use std::rc::Rc;

/// For each [`Clock`](super::clock::Clock) of a cluster, by its index, the number of its steps
/// known to be over.
///
/// Threads that have met share one allocation, which is immutable.
#[derive(Clone, Debug, Default)]
pub(crate) struct Knowledge(Option<Rc<[u32]>>);

impl Knowledge {
    fn counts(&self) -> &[u32] {
        self.0.as_deref().unwrap_or(&[])
    }

    /// The steps of a clock known to be over.
    pub(crate) fn of(&self, clock: usize) -> u32 {
        self.counts().get(clock).copied().unwrap_or(0)
    }

    /// Whether it includes all of `other`.
    fn covers(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (_, None) => true,
            (Some(own), Some(others)) if Rc::ptr_eq(own, others) => true,
            (_, Some(others)) => others.iter().enumerate().all(|(clock, &count)| count <= self.of(clock)),
        }
    }

    /// Adds the knowledge of `other`.
    pub(crate) fn join(&mut self, other: &Self) {
        if self.covers(other) {
            return;
        }
        if other.covers(self) {
            self.clone_from(other);
            return;
        }
        let clocks = self.counts().len().max(other.counts().len());
        self.0 = Some((0..clocks).map(|clock| self.of(clock).max(other.of(clock))).collect());
    }

    /// Adds `count` completed steps of a clock.
    pub(crate) fn learn(&mut self, clock: usize, count: u32) {
        if self.of(clock) >= count {
            return;
        }
        let clocks = self.counts().len().max(clock + 1);
        self.0 = Some((0..clocks).map(|at| if at == clock { count } else { self.of(at) }).collect());
    }
}

impl BlockContext {
    /// The knowledge of the running thread of this block.
    pub(crate) fn known(&self) -> Knowledge {
        self.thread().known.borrow().clone()
    }

    /// Adds knowledge to the running thread's.
    pub(crate) fn tell(&self, known: &Knowledge) {
        self.thread().known.borrow_mut().join(known);
    }

    /// Threads of this block meet: each receives the knowledge of all.
    pub(crate) fn meet(&self, threads: impl Iterator<Item = u32> + Clone) {
        if !self.cluster().has_clocks() {
            return;
        }
        let mut all = Knowledge::default();
        for thread in threads.clone() {
            all.join(&self.threads[thread as usize].known.borrow());
        }
        for thread in threads {
            self.threads[thread as usize].known.replace(all.clone());
        }
    }

    /// The running thread orders itself through memory: by an atomic operation or a fence. The
    /// threads that it synchronises with are unknown, so all threads of the cluster that ever did
    /// so are assumed: no correct program is refused.
    pub(crate) fn order_by_memory(&self) {
        if self.cluster().has_clocks() {
            let mut all = self.cluster().known.borrow_mut();
            all.join(&self.thread().known.borrow());
            self.tell(&all);
        }
    }

    /// Adds the knowledge of all threads of the cluster to the running thread's.
    pub(crate) fn order_by_condition(&self) {
        self.meet_by_condition();
        if self.cluster().has_clocks() {
            let blocks = self.cluster().blocks().iter();
            let mut all = Knowledge::default();
            blocks.flat_map(|block| &block.threads).for_each(|thread| all.join(&thread.known.borrow()));
            self.tell(&all);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn knows(counts: &[u32]) -> Knowledge {
        let mut known = Knowledge::default();
        counts.iter().enumerate().for_each(|(clock, &count)| known.learn(clock, count));
        known
    }

    #[test]
    fn a_join_knows_the_most_of_each_clock() {
        let mut known = knows(&[3, 1]);
        known.join(&knows(&[1, 2, 5]));
        assert_eq!([0, 1, 2, 3].map(|clock| known.of(clock)), [3, 2, 5, 0]);
        known.learn(1, 1);
        assert_eq!(known.of(1), 2, "what is known stays known");
        known.join(&Knowledge::default());
        assert!(known.covers(&knows(&[3, 2, 5])) && !knows(&[3, 2]).covers(&known));
    }

    #[test]
    fn who_learns_nothing_new_keeps_the_allocation() {
        let (mut known, less) = (knows(&[3, 4]), knows(&[3]));
        let before = known.clone();
        known.join(&less);
        known.learn(1, 4);
        assert!(Rc::ptr_eq(known.0.as_ref().unwrap(), before.0.as_ref().unwrap()));
        let mut other = less;
        other.join(&known);
        assert!(Rc::ptr_eq(known.0.as_ref().unwrap(), other.0.as_ref().unwrap()), "it takes the greater one");
    }
}
