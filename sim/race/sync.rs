//! Fences and atomic operations: how they pass clocks on.
//!
//! All atomic operations are relaxed. A fence and a later atomic operation release the accesses
//! before the fence. An atomic operation that reads a released value, and a later fence, acquire
//! them. Fences and atomic operations have a scope: a release or an acquisition reaches only the
//! threads of the narrower scope.

use super::clock::{Gathered, Seen, join_foreign};
use super::meet::Snapshot;
use crate::block::BlockContext;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

/// The threads that a fence orders, or for which an atomic operation is atomic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Scope {
    /// The threads of the block.
    Block,
    /// The threads of the cluster.
    Cluster,
    /// All threads of the GPU.
    Gpu,
}

/// The scopes, narrowest first.
const SCOPES: [Scope; 3] = [Scope::Block, Scope::Cluster, Scope::Gpu];

/// The knowledge that a thread releases, and that its next fence acquires, by scope.
#[derive(Default)]
pub(crate) struct Handover {
    /// Its knowledge at its last fence of this scope or a wider one.
    released: RefCell<[Option<Snapshot>; 3]>,
    /// The knowledge that threads of the same block, of the same cluster, and of the GPU had
    /// released at the addresses of its later atomic operations.
    acquired: RefCell<[Option<Rc<Seen>>; 3]>,
}

impl Handover {
    pub(crate) fn clear(&self) {
        self.released.take();
        self.acquired.take();
    }

    /// The thread's next fence of the scope acquires this.
    fn acquire(&self, scope: Scope, seen: &Rc<Seen>) {
        match &mut self.acquired.borrow_mut()[scope as usize] {
            own @ None => *own = Some(seen.clone()),
            Some(own) if Rc::ptr_eq(own, seen) => {}
            Some(own) => Rc::make_mut(own).join(seen),
        }
    }
}

/// An address: the rank of a block and a shared address, or an address in global memory. Also the
/// rank of the block whose threads released there, or [`CLUSTER`].
type Key = (u32, u64, u32);

/// The knowledge that the threads of a cluster have released by atomic operations, by address.
#[derive(Default)]
pub(crate) struct SyncAddresses {
    any: Cell<bool>,
    released: RefCell<HashMap<Key, Gathered>>,
}

/// The rank that stands for global memory.
pub(crate) const GLOBAL: u32 = u32::MAX;
/// The rank that stands for all blocks of the cluster.
const CLUSTER: u32 = u32::MAX;

impl SyncAddresses {
    pub(crate) fn clear(&self) {
        if self.any.replace(false) {
            self.released.borrow_mut().clear();
        }
    }
}

impl BlockContext {
    /// A fence of the running thread.
    pub(crate) fn order_by_fence(&self, scope: Scope) {
        if !self.clock.is_on() {
            return;
        }
        let thread = self.thread();
        for acquired in &mut thread.handover.acquired.borrow_mut()[..=scope as usize] {
            if let Some(acquired) = acquired.take() {
                self.learn(&thread.clock, &acquired);
            }
        }
        let snapshot = self.snapshot(self.running.get());
        thread.handover.released.borrow_mut()[..=scope as usize].fill(Some(snapshot));
        thread.clock.tick();
    }

    /// A proxy fence of the running thread for global memory.
    pub(crate) fn order_proxies(&self) {
        if !self.clock.is_on() {
            return;
        }
        let known = self.whole(&self.snapshot(self.running.get()));
        let epochs: Arc<[u32]> = known.threads.as_slice().into();
        self.races().fence_proxies(self.cluster().number.get(), &epochs, known.foreign.as_deref());
        self.thread().clock.tick();
    }

    /// An atomic operation of the running thread, `act`, on global memory, or on the shared memory
    /// of the block of this rank.
    pub(crate) fn order_by_atomic<R>(
        &self,
        scope: Scope,
        rank: u32,
        address: u64,
        act: impl FnOnce() -> R,
    ) -> R {
        if !self.clock.is_on() {
            return act();
        }
        let handover = &self.thread().handover;
        let addresses = &self.cluster().sync_addresses;
        let is_alone = self.cluster().blocks().len() == 1;
        // The scopes within the cluster, with the knowledge released there.
        let within = SCOPES.into_iter().filter(|&of| of <= scope).filter_map(|of| match of {
            Scope::Block => Some((of, (rank, address, self.rank))),
            Scope::Cluster if !is_alone => Some((of, (rank, address, CLUSTER))),
            _ => None,
        });
        let released = handover.released.borrow();
        for (of, key) in within.clone() {
            if let Some(released) = &released[of as usize] {
                addresses.any.set(true);
                let known = self.whole(released);
                addresses.released.borrow_mut().entry(key).or_default().join(&known);
            }
        }
        let races = self.races();
        let result = if rank != GLOBAL || scope != Scope::Gpu {
            act()
        } else if let Some(gpu) = &released[Scope::Gpu as usize] {
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
            for (of, key) in within {
                if let Some(seen) = all.get(&key).and_then(|gathered| gathered.seen.as_ref()) {
                    handover.acquire(of, seen);
                }
            }
        }
        result
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
        self.thread().handover.acquire(Scope::Gpu, &Rc::new(seen));
    }
}
