//! Clusters: a block's index in its cluster, the cluster's barrier, and its shared memory.
//!
//! Without clusters, every block is a cluster of one.

use crate::Dim3;
use crate::block::{SHARED_BASE, current};
use crate::fault::Access;
use crate::intrinsics::index::asked;
use crate::pod::{Pod, poison, to_bits};
use crate::race::{Kind, Noted};
use std::panic::Location;

/// The extents of a cluster, in blocks: `%cluster_nctaid`.
#[track_caller]
pub fn cluster_dim() -> Dim3 {
    asked().cluster().dim
}

/// The block's index in its cluster: `%cluster_ctaid`.
#[track_caller]
pub fn cluster_block_idx() -> Dim3 {
    let block = asked();
    block.cluster().dim.index_of(block.rank.into())
}

/// The block's rank in its cluster, `x` fastest: `%cluster_ctarank`.
#[track_caller]
pub fn cluster_rank() -> u32 {
    asked().rank
}

/// The blocks of a cluster: `%cluster_nctarank`.
#[track_caller]
pub fn cluster_size() -> u32 {
    asked().cluster().blocks().len() as u32
}

/// Arrives at the cluster's barrier: `barrier.cluster.arrive`.
#[track_caller]
pub fn cluster_arrive() {
    let block = current();
    block.profile_event("barrier.cluster.arrive", Location::caller());
    block.arrive_at_cluster(true);
}

/// Arrives at the cluster's barrier without passing on the thread's knowledge:
/// `barrier.cluster.arrive.relaxed`.
#[track_caller]
pub fn cluster_arrive_relaxed() {
    let block = current();
    block.profile_event("barrier.cluster.arrive.relaxed", Location::caller());
    block.arrive_at_cluster(false);
}

/// Waits until all threads of the cluster that have not returned have arrived at its barrier:
/// `barrier.cluster.wait`.
#[track_caller]
pub fn cluster_wait() {
    let block = current();
    block.profile_event("barrier.cluster.wait", Location::caller());
    block.wait_for_cluster();
}

/// The address in the cluster's shared memory of the shared address `address` in block `rank`:
/// `mapa.shared::cluster.u32`.
#[track_caller]
pub fn map_shared(address: u32, rank: u32) -> u32 {
    let block = current();
    block.or_raise(block.peer_of_rank(Access::Read, address, rank));
    block.cluster_address(address, rank)
}

/// Loads a `T` from the cluster's shared memory: `ld.shared::cluster`.
#[track_caller]
pub fn load_shared_cluster<T: Pod>(address: u32) -> T {
    let block = current();
    block.step();
    let location = Location::caller();
    block.profile_event("ld.shared::cluster", location);
    let Some((peer, address)) = block.or_raise(block.peer(Access::Read, address)) else { return poison() };
    let offset = address.wrapping_sub(SHARED_BASE) as usize;
    if let Some(value) = peer.load_shared(offset) {
        peer.note_shared(Noted::new(Access::Read, Kind::Read, location), offset, size_of::<T>());
        return value;
    }
    if !std::thread::panicking() {
        let kind = peer.shared_fault_kind(Access::Read, address, size_of::<T>());
        block.raise_or_park(peer, Access::Read, address, size_of::<T>(), location, kind);
    }
    poison()
}

/// Stores a `T` to the cluster's shared memory: `st.shared::cluster`.
#[track_caller]
pub fn store_shared_cluster<T: Pod>(address: u32, value: T) {
    let block = current();
    block.step();
    let location = Location::caller();
    block.profile_event("st.shared::cluster", location);
    let Some((peer, address)) = block.or_raise(block.peer(Access::Write, address)) else { return };
    let offset = address.wrapping_sub(SHARED_BASE) as usize;
    let changed = if block.clock.is_on() { peer.changed_shared(offset, value) } else { 0 };
    if peer.store_shared(offset, value) {
        let noted = Noted { changed, ..Noted::new(Access::Write, Kind::Write, location) };
        peer.note_shared(noted, offset, size_of::<T>());
    } else if !std::thread::panicking() {
        let kind = peer.shared_fault_kind(Access::Write, address, size_of::<T>());
        block.raise_or_park(peer, Access::Write, address, size_of::<T>(), location, kind);
    }
}

/// Stores a `T` of 4, 8 or 16 bytes to the cluster's shared memory asynchronously, and completes as
/// many bytes on an mbarrier: `st.async.weak.shared::cluster.mbarrier::complete_tx::bytes`. Both
/// addresses are in one block.
///
/// As with a bulk copy, the value is written when a thread looks at the mbarrier, and only a thread
/// that knows that the phase is over may read it. The store is in the generic proxy: a bulk copy or
/// `wgmma` that reads the value needs a [`fence_proxy_async`] first.
///
/// [`fence_proxy_async`]: super::fence_proxy_async
#[track_caller]
pub fn store_async<T: Pod>(address: u32, value: T, mbarrier: u32) {
    const { assert!(matches!(size_of::<T>(), 4 | 8 | 16), "st.async stores 4, 8 or 16 bytes") };
    let block = current();
    block.step();
    block.profile_event("st.async", Location::caller());
    let stored = block.store_async(to_bits(value), size_of::<T>(), address, mbarrier, Location::caller());
    block.or_raise(stored);
}
