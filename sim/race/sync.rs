//! Fences and atomic operations: how they hand clocks on.
//!
//! All atomic operations are relaxed. A fence and an atomic operation behind it release what came before the fence; an
//! atomic operation that reads what was released, and a fence behind it, acquire that. A fence for the cluster does so
//! between threads of one cluster only.

use super::clock::{Gathered, Seen, join_foreign};
use super::meet::Released;
use crate::block::BlockContext;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

/// The threads that a fence orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FenceScope {
    /// Those of the cluster.
    Cluster,
    /// All of the GPU.
    Gpu,
}

/// What the threads of a cluster have released by atomic operations, by address: one in global memory, or the rank of a
/// block and a shared address.
#[derive(Default)]
pub(crate) struct SyncAddresses {
    any: Cell<bool>,
    released: RefCell<HashMap<(u32, u64), Gathered>>,
}

/// The rank that stands for global memory.
pub(crate) const GLOBAL: u32 = u32::MAX;

impl SyncAddresses {
    pub(crate) fn clear(&self) {
        if self.any.replace(false) {
            self.released.borrow_mut().clear();
        }
    }
}

impl BlockContext {
    /// A fence of the running thread.
    pub(crate) fn order_by_fence(&self, scope: FenceScope) {
        if !self.clock.is_on() {
            return;
        }
        let thread = self.thread();
        if let Some(acquired) = thread.acquired.take() {
            self.learn(&thread.clock, &acquired);
        }
        let clock = &thread.clock;
        let before = thread.released.take();
        // What was fenced for the whole GPU before stays so.
        let gpu = match (scope, before) {
            (FenceScope::Cluster, Some(before)) => before.gpu,
            _ => None,
        };
        let snapshot = self.snapshot(self.running.get());
        let gpu = if scope == FenceScope::Gpu { Some(snapshot.clone()) } else { gpu };
        thread.released.replace(Some(Released { cluster: snapshot, gpu }));
        clock.tick();
    }

    /// An atomic operation of the running thread, `act`, on global memory, or on the shared memory of the block of this
    /// rank.
    pub(crate) fn order_by_atomic<R>(&self, rank: u32, address: u64, act: impl FnOnce() -> R) -> R {
        if !self.clock.is_on() {
            return act();
        }
        let thread = self.thread();
        let addresses = &self.cluster().sync_addresses;
        let released = thread.released.borrow();
        if let Some(released) = &*released {
            addresses.any.set(true);
            let mut all = addresses.released.borrow_mut();
            all.entry((rank, address)).or_default().join(&self.whole(&released.cluster));
        }
        let races = self.races();
        let result = if rank != GLOBAL {
            act()
        } else if let Some(gpu) = released.as_ref().and_then(|released| released.gpu.as_ref()) {
            let known = self.whole(gpu);
            let mut releases = races.released();
            let epochs: Arc<[u32]> = known.threads.as_slice().into();
            releases.add(address, self.cluster().number.get(), &epochs, known.foreign.as_deref());
            let result = act();
            self.acquire_foreign(releases.at(address));
            result
        } else {
            let result = act();
            if races.has_releases() {
                self.acquire_foreign(races.released().at(address));
            }
            result
        };
        drop(released);
        if addresses.any.get() {
            let all = addresses.released.borrow();
            if let Some(seen) = all.get(&(rank, address)).and_then(|gathered| gathered.seen.clone()) {
                self.acquire(&seen);
            }
        }
        result
    }

    /// The running thread is to know this behind its next fence.
    fn acquire(&self, seen: &Rc<Seen>) {
        let mut acquired = self.thread().acquired.borrow_mut();
        match &mut *acquired {
            None => *acquired = Some(seen.clone()),
            Some(own) if Rc::ptr_eq(own, seen) => {}
            Some(own) => Rc::make_mut(own).join(seen),
        }
    }

    fn acquire_foreign(&self, released: Option<&super::clock::Foreign>) {
        let Some(released) = released else { return };
        let own = self.cluster().number.get();
        let mut seen = Seen::default();
        let mut foreign = Vec::new();
        for (cluster, epochs) in released {
            if *cluster == own {
                seen.threads = epochs.to_vec();
            } else {
                foreign.push((*cluster, epochs.clone()));
            }
        }
        if !foreign.is_empty() {
            join_foreign(&mut seen.foreign, &Arc::new(foreign));
        }
        self.acquire(&Rc::new(seen));
    }
}
