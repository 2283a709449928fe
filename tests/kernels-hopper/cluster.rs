//! Clusters. All kernels are launched in clusters of four blocks along x, but for the first.

use crate::barriers::SlotStorage;
use moye_device::arch::*;
use moye_device::kernel;
use moye_device::memory::{Global, GlobalMut, Shared, TensorMap};

/// Each block writes where it is: its number in the cluster and how many there are, its index and
/// their extents.
#[kernel(threads = 32)]
pub unsafe fn cluster_place(output: GlobalMut<u32>) {
    let (block, grid) = (block_idx(), grid_dim());
    let at = 8 * i64::from(block.x + grid.x * (block.y + grid.y * block.z));
    let (index, extents) = (cluster_block_idx(), cluster_dim());
    let told = [cluster_rank(), cluster_size(), index.x, index.y, index.z, extents.x, extents.y, extents.z];
    if thread_idx().x == 0 {
        for (i, value) in told.into_iter().enumerate() {
            // SAFETY: `output` has eight words for each block.
            unsafe { output.write(at + i as i64, value) };
        }
    }
}

/// Thread `i` of each block of 64 writes a word of `W` into the shared memory of the next block,
/// and another thread of that block reads it from there, by an address of the cluster.
#[inline(always)]
unsafe fn exchange<W: ClusterWord>(value: impl Fn(u32) -> W, write: impl Fn(u32, W)) {
    let (thread, rank, size) = (thread_idx().x, cluster_rank(), cluster_size());
    let bytes = size_of::<W>() as u32;
    // SAFETY: the kernels declare 64 words of 4 bytes at least, which the first threads use.
    unsafe {
        let count = 256 / bytes;
        sync_cluster();
        if thread < count {
            let slot = map_shared(shared_base() + bytes * thread, (rank + 1) % size);
            W::store_shared_cluster(slot, value(thread));
        }
        fence_cluster();
        sync_cluster();
        if thread < count {
            // The block's own memory, by its address in the cluster.
            let slot = map_shared(shared_base() + bytes * (count - 1 - thread), rank);
            write(thread, W::load_shared_cluster(slot));
        }
        sync_cluster();
    }
}

/// `output[64 * block + i]` becomes `1000 * previous rank + 63 - i`.
#[kernel(threads = 64, shared = SlotStorage)]
pub unsafe fn cluster_u32(output: GlobalMut<u32>) {
    let rank = cluster_rank();
    let at = i64::from(64 * block_idx().x);
    // SAFETY: `output` has 64 words for each block.
    unsafe {
        exchange(
            |thread| 1000 * rank + thread,
            |thread, value: u32| output.write(at + i64::from(thread), value),
        )
    };
}

/// The same in words of 128 bits, of which 16 fit.
#[kernel(threads = 64, shared = SlotStorage)]
pub unsafe fn cluster_u128(output: GlobalMut<u32>) {
    let rank = cluster_rank();
    let at = i64::from(64 * block_idx().x);
    // SAFETY: `output` has 64 words for each block.
    unsafe {
        exchange(
            |thread| Word128([rank, thread, 2 * thread, 3 * thread]),
            |thread, value: Word128| {
                for (i, word) in value.0.into_iter().enumerate() {
                    output.write(at + i64::from(4 * thread) + i as i64, word);
                }
            },
        );
    }
}

/// Every block's mbarrier waits for one arrival of each block of the cluster; what they wrote
/// before is there then.
#[kernel(threads = 64, shared = SlotStorage)]
pub unsafe fn cluster_mbarrier(output: GlobalMut<u32>, rounds: u32) {
    let (thread, rank, size) = (thread_idx().x, cluster_rank(), cluster_size());
    // SAFETY: the kernel declares its storage; `output` has a word for each block and each of its
    // peers in each round.
    unsafe {
        let slots = Shared::<u32>::from_address(shared_base());
        let barrier = slots.offset(64).address();
        if thread == 0 {
            mbarrier_init(barrier, size);
            fence_mbarrier_init();
        }
        sync_cluster();
        let mut round = 0;
        while round < rounds {
            if thread < size {
                let (slot, peer) = (slots.offset(rank as i32).address(), thread);
                u32::store_shared_cluster(map_shared(slot, peer), 100 * round + 10 * rank + peer);
                mbarrier_arrive_cluster(map_shared(barrier, peer));
            }
            mbarrier_wait_parity(barrier, round % 2);
            if thread < size {
                let at = (round * grid_dim().x + block_idx().x) * size + thread;
                output.write(i64::from(at), slots.read(thread as i32));
            }
            // No block writes the next round's before all have read this one's.
            sync_cluster();
            round += 1;
        }
    }
}

/// Each block loads a quarter of 256 bytes and sends it to all four.
#[inline(always)]
unsafe fn quarters(
    source: Global<u32>,
    output: GlobalMut<u32>,
    policy: impl FnOnce() -> Option<CachePolicy>,
) {
    let (thread, rank) = (thread_idx().x, cluster_rank());
    // SAFETY: `source` has 64 words, `output` has 64 for each block.
    unsafe {
        let slots = Shared::<u32>::from_address(shared_base());
        let barrier = slots.offset(64).address();
        if thread == 0 {
            mbarrier_init(barrier, 1);
            fence_mbarrier_init();
        }
        // Between the mbarrier's making and an arrival, also of the same thread, racecheck wants a
        // barrier.
        sync_threads();
        if thread == 0 {
            mbarrier_arrive_expect_tx(barrier, 256);
        }
        sync_cluster();
        if thread == 0 {
            let part = slots.offset(16 * rank as i32).address();
            let from = source.address() + u64::from(64 * rank);
            bulk_load(part, from, 64, barrier, Some(0b1111), policy());
        }
        mbarrier_wait_parity(barrier, 0);
        output.write(i64::from(64 * block_idx().x + thread), slots.read(thread as i32));
        sync_cluster();
    }
}

/// Each block loads a quarter of 256 bytes and sends it to all four.
#[kernel(threads = 64, shared = SlotStorage)]
pub unsafe fn multicast_bytes(source: Global<u32>, output: GlobalMut<u32>) {
    // SAFETY: the kernel's own contract.
    unsafe { quarters(source, output, || None) }
}

/// The same with a policy for L2.
#[kernel(threads = 64, shared = SlotStorage)]
pub unsafe fn multicast_bytes_policy(source: Global<u32>, output: GlobalMut<u32>) {
    // SAFETY: the kernel's own contract.
    unsafe { quarters(source, output, || Some(CachePolicy::new(L2Evict::Last))) }
}

/// The same with boxes of a tensor of one dimension; a block tells the next one's mbarrier what is
/// to come.
#[kernel(threads = 64, shared = SlotStorage)]
pub unsafe fn multicast_tensor(map: TensorMap, output: GlobalMut<u32>) {
    let (thread, rank, size) = (thread_idx().x, cluster_rank(), cluster_size());
    // SAFETY: the map's boxes have 32 words, of which two fit; `output` has 64 words for each
    // block.
    unsafe {
        let slots = Shared::<u32>::from_address(shared_base());
        let barrier = slots.offset(64).address();
        if thread == 0 {
            mbarrier_init(barrier, 1);
            fence_mbarrier_init();
        }
        sync_cluster();
        if thread == 0 {
            mbarrier_arrive_expect_tx_cluster(map_shared(barrier, (rank + 1) % size), 256);
        }
        sync_cluster();
        if thread == 0 && rank < 2 {
            let part = slots.offset(32 * rank as i32).address();
            let policy = CachePolicy::new(L2Evict::Last);
            tensor_load(part, map.pointer(), [32 * rank as i32], barrier, Some(0b1111), Some(policy));
        }
        mbarrier_wait_parity(barrier, 0);
        output.write(i64::from(64 * block_idx().x + thread), slots.read(thread as i32));
        sync_cluster();
    }
}

/// Each block sends half of its storage to the upper half of the next.
#[kernel(threads = 64, shared = SlotStorage)]
pub unsafe fn copy_to_cluster(output: GlobalMut<u32>) {
    let (thread, rank, size) = (thread_idx().x, cluster_rank(), cluster_size());
    // SAFETY: the kernel declares its storage; `output` has 32 words for each block.
    unsafe {
        let slots = Shared::<u32>::from_address(shared_base());
        let barrier = slots.offset(64).address();
        if thread == 0 {
            mbarrier_init(barrier, 1);
            fence_mbarrier_init();
        }
        // As in `quarters`.
        sync_threads();
        if thread == 0 {
            mbarrier_arrive_expect_tx(barrier, 128);
        }
        if thread < 32 {
            slots.write(thread as i32, 100 * rank + thread);
        }
        fence_proxy_async();
        sync_cluster();
        if thread == 0 {
            let next = (rank + 1) % size;
            let target = map_shared(slots.offset(32).address(), next);
            bulk_copy_to_cluster(target, slots.address(), 128, map_shared(barrier, next));
        }
        mbarrier_wait_parity(barrier, 0);
        if thread < 32 {
            output.write(i64::from(32 * block_idx().x + thread), slots.read(32 + thread as i32));
        }
        sync_cluster();
    }
}

/// In each of `rounds`, 64 threads send 256 bytes in words of `W` to the next block by asynchronous
/// stores; another thread of that block reads each word after the phase of the mbarrier that counts
/// the bytes.
#[inline(always)]
unsafe fn send<W: AsyncWord + ClusterWord>(
    rounds: u32,
    value: impl Fn(u32, u32) -> W,
    write: impl Fn(u32, u32, W),
) {
    let (thread, rank, size) = (thread_idx().x, cluster_rank(), cluster_size());
    let (bytes, next) = (size_of::<W>() as u32, (rank + 1) % size);
    let count = 256 / bytes;
    // SAFETY: the kernels declare 64 words of 4 bytes and room for an mbarrier behind them.
    unsafe {
        let (slots, barrier) = (shared_base(), shared_base() + 256);
        if thread == 0 {
            mbarrier_init(barrier, 1);
            fence_mbarrier_init();
        }
        sync_cluster();
        let mut round = 0;
        while round < rounds {
            if thread == 0 {
                mbarrier_arrive_expect_tx(barrier, 256);
            }
            if thread < count {
                let slot = map_shared(slots + bytes * thread, next);
                W::store_async(slot, value(round, thread), map_shared(barrier, next));
            }
            mbarrier_wait_parity_cluster(barrier, round % 2);
            if thread < count {
                let slot = map_shared(slots + bytes * (count - 1 - thread), rank);
                write(round, thread, W::load_shared_cluster(slot));
            }
            // No block sends the next round's before all have read this one's.
            sync_cluster();
            round += 1;
        }
    }
}

/// Kernels that [`send`] words of a type: `output[64 * (blocks * round + block) + i]` is of the
/// thread that read it, its 32-bit words one after another.
macro_rules! senders {
    ($($(#[$doc:meta])* $name:ident: $word:ty, |$stamp:ident| $value:expr, |$got:ident| $words:expr;)*) => { $(
        $(#[$doc])*
        #[kernel(threads = 64, shared = SlotStorage)]
        pub unsafe fn $name(output: GlobalMut<u32>, rounds: u32) {
            let rank = cluster_rank();
            // SAFETY: `output` has 64 words for each block in each round.
            unsafe {
                send(
                    rounds,
                    |round, thread| {
                        let $stamp = 10_000 * round + 1000 * rank + thread;
                        let word: $word = $value;
                        word
                    },
                    |round, thread, $got: $word| {
                        let words = $words;
                        let first = 64 * (grid_dim().x * round + block_idx().x) + words.len() as u32 * thread;
                        for (i, word) in words.into_iter().enumerate() {
                            output.write(i64::from(first) + i as i64, word);
                        }
                    },
                );
            }
        }
    )* };
}
senders! {
    /// A word is `10000 * round + 1000 * sender's rank + thread`.
    store_async_u32: u32, |stamp| stamp, |got| [got];
    /// That as a float.
    store_async_f32: f32, |stamp| stamp as f32, |got| [got as u32];
    /// And three times as much above it.
    store_async_u64: u64, |stamp| u64::from(3 * stamp) << 32 | u64::from(stamp), |got| [got as u32, (got >> 32) as u32];
    /// The same in two registers.
    store_async_u32x2: Word64x2, |stamp| Word64x2([stamp, 3 * stamp]), |got| got.0;
    /// And five and seven times as much.
    store_async_u128: Word128, |stamp| Word128([stamp, 3 * stamp, 5 * stamp, 7 * stamp]), |got| got.0;
}
