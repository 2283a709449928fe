//! Threads of two blocks of a cluster, in their shared memory.

use crate::{THREADS, load, raced, store};
use moye_device::arch::*;

raced! {
    KERNELS, THREADS, 2;
    /// The other block's words are read behind a barrier of the block alone.
    peer_read_without_barrier(t, s, _data, right) {
        store(s + 4 * t, t); // peer_read_without_barrier
        if right { sync_cluster() } else { sync_threads() }
        let value = load_peer(s + 4 * t); // peer_read_without_barrier
        sync_cluster();
        value
    }
    /// Words are written over while the other block still reads them.
    peer_written_while_read(t, s, _data, right) {
        store(s + 4 * t, t);
        sync_cluster();
        let value = load_peer(s + 4 * t); // peer_written_while_read
        if right { sync_cluster() } else { sync_threads() }
        store(s + 4 * t, 0); // peer_written_while_read
        sync_cluster();
        value + load(s + 4 * t)
    }
    /// A relaxed arrival hands nothing on.
    relaxed_arrival(t, s, _data, right) {
        store(s + 4 * t, t); // relaxed_arrival
        if right { cluster_arrive() } else { cluster_arrive_relaxed() }
        cluster_wait();
        let value = load_peer(s + 4 * t); // relaxed_arrival
        sync_cluster();
        value
    }
    /// Both blocks write one word of the first.
    blocks_write_one_shared_word(t, s, _data, right) {
        sync_cluster();
        if t == 0 {
            let at = s + if right { 4 * cluster_rank() } else { 0 };
            u32::store_shared_cluster(map_shared(at, 0), 1 + cluster_rank()); // blocks_write_one_shared_word
        }
        sync_cluster();
        t
    }
}

/// A word of the other block.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
unsafe fn load_peer(address: u32) -> u32 {
    // SAFETY: the caller's contract: within the block's shared memory.
    unsafe { u32::load_shared_cluster(map_shared(address, 1 - cluster_rank())) }
}
