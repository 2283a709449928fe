//! Clusters: blocks that run together, access each other's shared memory, and share a barrier.
//!
//! An address of the cluster's shared memory is a block's shared address with the block's rank,
//! plus one, in the highest byte; a byte of 0 is the running block itself, so that plain shared
//! addresses are also such addresses.

use super::clock::Clocks;
use super::context::{BlockContext, Limits, Traces};
use super::knowledge::Knowledge;
use crate::Dim3;
use crate::fault::{Access, FaultKind};
use crate::memory::Snapshot;
use crate::race::{Gathered, Seen, SyncAddresses};
use std::cell::{Cell, RefCell};
use std::panic::Location;
use std::rc::Rc;
use std::sync::Arc;

/// The most blocks of a cluster: 8 on every GPU that has clusters, 16 for kernels that opt in.
pub(crate) const MAX_CLUSTER: u32 = 16;

/// The bits of the rank in an address of the cluster's shared memory.
const RANK_SHIFT: u32 = 24;

/// Blocks that run together, on one OS thread.
pub(crate) struct Cluster {
    pub(crate) dim: Dim3,
    /// The grid's extents in clusters, and this cluster's index in it.
    clusters: Dim3,
    pub(crate) number: Cell<u32>,
    blocks: Vec<BlockContext>,
    /// The phase of the barrier, and the threads that have arrived in it and not exited.
    phase: Cell<u32>,
    arrived: Cell<u32>,
    /// The knowledge of the threads that have arrived, and of the threads of the last completed
    /// phase.
    coming: RefCell<Knowledge>,
    met: RefCell<Knowledge>,
    /// The same for accesses.
    arriving: RefCell<Gathered>,
    arrived_before: RefCell<Option<Rc<Seen>>>,
    /// The order that atomic operations establish.
    pub(crate) sync_addresses: SyncAddresses,
    /// The clocks of the cluster.
    pub(crate) clocks: RefCell<Clocks>,
    /// The knowledge of threads that have used atomic operations or fences.
    pub(crate) known: RefCell<Knowledge>,
}

impl Cluster {
    pub(crate) fn new(
        dim: Dim3,
        grid_dim: Dim3,
        block_dim: Dim3,
        shared_bytes: usize,
        global: &Arc<Snapshot>,
        traces: &Traces,
        limits: Limits,
    ) -> Self {
        let block = |rank| {
            let (global, traces) = (global.clone(), traces.clone());
            BlockContext::new(grid_dim, block_dim, rank, shared_bytes, global, traces, limits)
        };
        Self {
            dim,
            clusters: Dim3::new(grid_dim.x / dim.x, grid_dim.y / dim.y, grid_dim.z / dim.z),
            number: Cell::new(0),
            blocks: (0..dim.count() as u32).map(block).collect(),
            phase: Cell::new(0),
            arrived: Cell::new(0),
            coming: RefCell::default(),
            met: RefCell::default(),
            arriving: RefCell::default(),
            arrived_before: RefCell::default(),
            sync_addresses: SyncAddresses::default(),
            clocks: RefCell::default(),
            known: RefCell::default(),
        }
    }

    pub(crate) fn blocks(&self) -> &[BlockContext] {
        &self.blocks
    }

    /// Whether the grid has other clusters.
    pub(crate) fn is_one_of_several(&self) -> bool {
        self.clusters.count() > 1
    }

    /// Resets the contexts to a cluster that has not started; `index` is its index in the grid of
    /// clusters.
    pub(crate) fn start(&self, index: Dim3) {
        self.phase.set(0);
        self.arrived.set(0);
        self.clocks.borrow_mut().clear();
        for known in [&self.coming, &self.met, &self.known] {
            known.take();
        }
        self.arriving.take();
        self.arrived_before.take();
        self.sync_addresses.clear();
        let clusters = self.clusters;
        let number = index.x + clusters.x * (index.y + clusters.y * index.z);
        self.number.set(number);
        for (rank, block) in self.blocks.iter().enumerate() {
            block.start(self, self.block_index(number, rank as u32));
        }
    }

    /// The index in the grid of a block, by its cluster's number and its rank.
    pub(crate) fn block_index(&self, number: u32, rank: u32) -> Dim3 {
        let (index, within) = (self.clusters.index_of(number.into()), self.dim.index_of(rank.into()));
        Dim3::new(
            index.x * self.dim.x + within.x,
            index.y * self.dim.y + within.y,
            index.z * self.dim.z + within.z,
        )
    }

    /// Ends the barrier's phase if every thread of the cluster that has not returned has arrived.
    fn settle_barrier(&self) {
        let live: u32 = self.blocks.iter().map(|block| block.count() - block.exited_count.get()).sum();
        if self.arrived.get() > 0 && self.arrived.get() >= live {
            self.arrived.set(0);
            self.met.replace(self.coming.take());
            self.arrived_before.replace(self.arriving.take().seen);
            self.phase.set(self.phase.get().wrapping_add(1));
        }
    }
}

impl BlockContext {
    /// The address in the cluster's shared memory of `address` in block `rank`.
    pub(crate) fn cluster_address(&self, address: u32, rank: u32) -> u32 {
        address & ((1 << RANK_SHIFT) - 1) | (rank + 1) << RANK_SHIFT
    }

    /// The block of an address of the cluster's shared memory, and the address inside it.
    pub(crate) fn peer(&self, access: Access, address: u32) -> Result<(&Self, u32), FaultKind> {
        let Some(rank) = (address >> RANK_SHIFT).checked_sub(1) else { return Ok((self, address)) };
        self.peer_of_rank(access, address, rank).map(|peer| (peer, address & ((1 << RANK_SHIFT) - 1)))
    }

    /// The block of this rank.
    pub(crate) fn peer_of_rank(&self, access: Access, address: u32, rank: u32) -> Result<&Self, FaultKind> {
        let blocks = self.cluster().blocks();
        let Some(peer) = blocks.get(rank as usize) else {
            return Err(FaultKind::NoSuchPeer { access, address, rank, blocks: blocks.len() as u32 });
        };
        if rank != self.rank && peer.exited_count.get() == peer.count() {
            return Err(FaultKind::PeerEnded { access, rank });
        }
        Ok(peer)
    }

    /// The running thread arrives at the cluster's barrier; if `tells`, threads that wait there
    /// receive its knowledge.
    #[track_caller]
    pub(crate) fn arrive_at_cluster(&self, tells: bool) {
        if std::thread::panicking() {
            return;
        }
        let cluster = self.cluster();
        let thread = self.thread();
        if thread.cluster_arrival.get().is_some() {
            let reason =
                "the thread arrives again before it has waited\ncall `cluster_wait` between two arrivals"
                    .to_owned();
            let operation = "barrier.cluster.arrive";
            self.raise(Location::caller(), FaultKind::InvalidOperand { operation, reason });
        }
        thread.cluster_arrival.set(Some(cluster.phase.get()));
        cluster.arrived.set(cluster.arrived.get() + 1);
        if tells {
            cluster.coming.borrow_mut().join(&thread.known.borrow());
            self.release(&mut cluster.arriving.borrow_mut());
        }
        cluster.settle_barrier();
        self.condition_met.set(true);
    }

    /// The running thread waits for the end of the barrier phase at which it arrived.
    #[track_caller]
    pub(crate) fn wait_for_cluster(&self) {
        if std::thread::panicking() {
            return;
        }
        let Some(phase) = self.thread().cluster_arrival.take() else {
            let reason = "the thread waits and has not arrived since its last wait\ncall `cluster_arrive` before each wait".to_owned();
            let operation = "barrier.cluster.wait";
            self.raise(Location::caller(), FaultKind::InvalidOperand { operation, reason });
        };
        let cluster = self.cluster();
        let is_over = || {
            cluster.settle_barrier();
            cluster.phase.get() != phase
        };
        self.wait_until("the barrier of the cluster", is_over, Location::caller());
        self.tell(&cluster.met.borrow());
        self.take_on(cluster.arrived_before.borrow().as_ref());
        self.note_rendezvous(Location::caller());
    }

    /// Records that the running thread has exited: the barrier no longer expects it.
    pub(crate) fn leave_cluster_barrier(&self) {
        let cluster = self.cluster();
        if self.thread().cluster_arrival.take() == Some(cluster.phase.get()) && cluster.arrived.get() > 0 {
            cluster.arrived.set(cluster.arrived.get() - 1);
        }
        self.condition_met.set(true);
    }
}
