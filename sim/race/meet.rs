//! Threads pass on their knowledge: at barriers, at fences, and when they wait for the previous
//! launch.

use super::clock::{Gathered, Seen, ThreadClock};
use crate::block::{BlockContext, WARP_SIZE};
use std::rc::Rc;

/// The knowledge of a thread at a fence.
#[derive(Clone)]
pub(crate) struct Snapshot {
    /// The thread's index in the block.
    thread: u32,
    own: u32,
    whole: u32,
    warp: u32,
    block: u32,
    others: Option<Rc<Seen>>,
}

impl BlockContext {
    /// Whether a thread knows that the previous launch has ended.
    pub(super) fn knows_prior(&self, thread: u32) -> bool {
        let others = self.threads[thread as usize].clock.others.borrow();
        others.as_ref().is_some_and(|seen| seen.prior)
    }

    /// The running thread waits for the previous launch.
    pub(crate) fn wait_for_prior(&self) {
        if let Some(concurrent) = &self.concurrent {
            concurrent.chain.wait();
            self.clock.waited.set(true);
            self.take_on(Some(&Rc::new(Seen { prior: true, ..Seen::default() })));
        }
    }

    /// The running thread allows the next launch to begin.
    pub(crate) fn launch_dependents(&self) {
        if !self.knows_prior(self.running.get()) {
            self.clock.allows_early.set(true);
        }
    }

    /// All threads of the block have returned.
    pub(crate) fn end_overlap(&self) {
        if let Some(concurrent) = &self.concurrent
            && self.clock.waited.get()
            && !self.clock.allows_early.get()
        {
            concurrent.chain.wait_first();
        }
    }

    /// Adds to the thread's own knowledge, in addition to its block's.
    pub(super) fn learn(&self, clock: &ThreadClock, seen: &Rc<Seen>) {
        let mut others = clock.others.borrow_mut();
        match &*others {
            None => *others = Some(seen.clone()),
            Some(own) if Rc::ptr_eq(own, seen) => {}
            Some(own) => {
                let mut memo = self.clock.joined.borrow_mut();
                if let Some((a, b, joined)) = &*memo
                    && Rc::ptr_eq(a, own)
                    && Rc::ptr_eq(b, seen)
                {
                    *others = Some(joined.clone());
                    return;
                }
                let mut joined = Seen::clone(own);
                joined.join(seen);
                let joined = Rc::new(joined);
                *memo = Some((own.clone(), seen.clone(), joined.clone()));
                *others = Some(joined);
            }
        }
    }

    /// Adds the knowledge of a thread of this block to `into`.
    fn gather(&self, into: &mut Gathered, thread: u32) {
        let clock = &self.threads[thread as usize].clock;
        if let Some(others) = &*clock.others.borrow() {
            into.join(others);
        }
        let number = self.number_in_cluster(thread);
        let is_cluster = self.cluster().blocks().len() > 1;
        let (first, block) = (self.number_in_cluster(0), self.clock.block.get());
        let seen = into.change();
        seen.learn(number, clock.own.get());
        if clock.whole.get() > 0 {
            seen.learn(self.whole_number(number / WARP_SIZE), clock.whole.get());
            let whole = &self.clock.whole[(thread / WARP_SIZE) as usize];
            whole.set((whole.get().0, true));
        }
        if clock.warp.get() > 0 {
            let warp = number / WARP_SIZE * WARP_SIZE;
            seen.learn_all(warp..warp + WARP_SIZE, clock.warp.get());
        }
        if is_cluster && block > 0 {
            seen.learn_all(first..first + self.count(), block);
        }
    }

    /// The running thread passes on its clock.
    pub(crate) fn release(&self, into: &mut Gathered) {
        if self.clock.is_on() {
            self.gather(into, self.running.get());
            self.thread().clock.tick();
        }
    }

    /// The running thread receives the gathered knowledge.
    pub(crate) fn take_on(&self, gathered: Option<&Rc<Seen>>) {
        if self.clock.is_on()
            && let Some(seen) = gathered
        {
            self.learn(&self.thread().clock, seen);
        }
    }

    /// The current knowledge of a thread of this block.
    pub(super) fn snapshot(&self, thread: u32) -> Snapshot {
        let clock = &self.threads[thread as usize].clock;
        let whole = &self.clock.whole[(thread / WARP_SIZE) as usize];
        whole.set((whole.get().0, true));
        Snapshot {
            thread,
            own: clock.own.get(),
            whole: clock.whole.get(),
            warp: clock.warp.get(),
            block: self.clock.block.get(),
            others: clock.others.borrow().clone(),
        }
    }

    /// The full knowledge in a snapshot of a thread of this block.
    pub(super) fn whole(&self, snapshot: &Snapshot) -> Rc<Seen> {
        let mut seen = snapshot.others.as_deref().cloned().unwrap_or_default();
        let (number, first) = (self.number_in_cluster(snapshot.thread), self.number_in_cluster(0));
        seen.learn_all(first..first + self.count(), snapshot.block);
        let warp = number / WARP_SIZE * WARP_SIZE;
        seen.learn_all(warp..warp + WARP_SIZE, snapshot.warp);
        seen.learn(number, snapshot.own);
        if snapshot.whole > 0 {
            seen.learn(self.whole_number(warp / WARP_SIZE), snapshot.whole);
        }
        Rc::new(seen)
    }

    /// All threads of the block have met.
    pub(crate) fn meet_as_block(&self) {
        if !self.clock.is_on() {
            return;
        }
        let own = self.threads.iter().map(|thread| thread.clock.own.get());
        let whole = self.clock.whole.iter().map(|whole| whole.get().0);
        let epoch = own.chain(whole).max().unwrap_or(0);
        self.clock.block.set(epoch);
        self.clock.whole.iter().for_each(|whole| whole.set((epoch + 1, false)));
        let is_alone = self.cluster().blocks().len() == 1;
        let mut all = Gathered::default();
        for thread in &self.threads {
            thread.clock.own.set(epoch + 1);
            if let Some(others) = thread.clock.others.take()
                && !(is_alone && others.foreign.is_none() && !others.prior)
            {
                all.join(&others);
            }
        }
        if let Some(seen) = all.seen {
            for thread in &self.threads {
                thread.clock.others.replace(Some(seen.clone()));
            }
        }
    }

    /// Threads of the block have met. `told` is the knowledge of threads that arrived without
    /// waiting.
    pub(crate) fn meet_as_some(&self, threads: &[u32], told: Gathered) {
        if !self.clock.is_on() {
            return;
        }
        let mut all = told;
        let mut epoch = 0;
        for &thread in threads {
            self.gather(&mut all, thread);
            epoch = epoch.max(self.threads[thread as usize].clock.own.get());
        }
        let Some(seen) = all.seen else { return };
        for &thread in threads {
            let clock = &self.threads[thread as usize].clock;
            // It holds all of the thread's knowledge.
            clock.others.replace(Some(seen.clone()));
            clock.own.set(epoch + 1);
        }
    }

    /// Lanes of a warp of the block have met.
    pub(crate) fn meet_as_warp(&self, warp: u32, lanes: u32) {
        if !self.clock.is_on() {
            return;
        }
        let first = warp * WARP_SIZE;
        let there = WARP_SIZE.min(self.count() - first);
        let threads = || (0..there).filter(|lane| lanes >> lane & 1 != 0).map(|lane| first + lane);
        if threads().count() as u32 != there {
            return self.meet_as_some(&threads().collect::<Vec<_>>(), Gathered::default());
        }
        let clocks = || threads().map(|thread| &self.threads[thread as usize].clock);
        let epoch = clocks().map(|clock| clock.own.get()).max().unwrap_or(0);
        let mut all = Gathered::default();
        for clock in clocks() {
            clock.warp.set(epoch);
            clock.own.set(epoch + 1);
            if let Some(others) = &*clock.others.borrow() {
                all.join(others);
            }
        }
        if let Some(seen) = all.seen {
            for clock in clocks() {
                clock.others.replace(Some(seen.clone()));
            }
        }
    }

    /// The running thread has seen that a condition of the simulator holds. Any thread of the
    /// cluster may have caused it.
    pub(crate) fn meet_by_condition(&self) {
        if !self.clock.is_on() {
            return;
        }
        let mut all = Gathered::default();
        for block in self.cluster().blocks() {
            for thread in 0..block.count() {
                block.gather(&mut all, thread);
                block.threads[thread as usize].clock.tick();
            }
        }
        self.take_on(all.seen.as_ref());
    }
}
