//! Asynchronous copies: `cp.async`, and bulk copies in both directions.

use crate::{THREADS, barrier_if, load, raced, store};
use moye_device::arch::*;

raced! {
    KERNELS, THREADS, 1;
    /// Words that `cp.async` of other threads has brought are read with no barrier.
    copied_tile_without_barrier(t, s, data, right) {
        cp_async(CpAsyncSize::B4, s + 4 * t, data + 4 * u64::from(t), 4); // copied_tile_without_barrier
        cp_async_wait_all();
        barrier_if(right);
        load(s + 4 * ((t + 32) % 64)) // copied_tile_without_barrier
    }
    /// A stage is filled again while the other warp reads it.
    stage_copied_over(t, s, data, right) {
        store(s + 4 * t, t);
        sync_threads();
        let value = load(s + 4 * ((t + 32) % 64)); // stage_copied_over
        barrier_if(right);
        cp_async(CpAsyncSize::B4, s + 4 * t, data + 4 * u64::from(t), 4); // stage_copied_over
        cp_async_wait_all();
        value
    }
    /// The thread's own copy of the second group is read behind a wait for the first.
    one_group_too_few(t, s, data, right) {
        for group in 0..2 {
            cp_async(CpAsyncSize::B4, s + 256 * group + 4 * t, data + 4 * u64::from(t), 4);
            cp_async_commit();
        }
        if right { cp_async_wait::<0>() } else { cp_async_wait::<1>() }
        load(s + 256 + 4 * t) // one_group_too_few
    }
    /// The second warp does not wait for the bytes of a bulk copy.
    bulk_copy_not_awaited(t, s, data, right) {
        make_mbarrier(s);
        if t == 0 {
            mbarrier_arrive_expect_tx(s + MBARRIER, BYTES);
            bulk_load(s, own(data), BYTES, s + MBARRIER, None, None);
        }
        sync_threads();
        if right || t < 32 {
            mbarrier_wait_parity(s + MBARRIER, 0);
        }
        load(s + 4 * t) // bulk_copy_not_awaited
    }
    /// A bulk copy goes over words that the other warp still reads.
    bulk_copy_over_what_is_read(t, s, data, right) {
        make_mbarrier(s);
        store(s + 4 * t, t);
        sync_threads();
        let value = load(s + 4 * (63 - t)); // bulk_copy_over_what_is_read
        fence_proxy_async_shared();
        barrier_if(right);
        if t == 0 {
            mbarrier_arrive_expect_tx(s + MBARRIER, BYTES);
            bulk_load(s, own(data), BYTES, s + MBARRIER, None, None); // bulk_copy_over_what_is_read
        }
        mbarrier_wait_parity(s + MBARRIER, 0);
        value + load(s + 4 * t)
    }
    /// Threads write what a bulk store reads, with no fence between the proxies.
    bulk_store_without_fence(t, s, data, right) {
        store(s + 4 * t, t);
        if right {
            fence_proxy_async_shared();
        }
        sync_threads();
        if t == 0 {
            bulk_store(own(data), s, BYTES, None); // bulk_store_without_fence
            bulk_commit_group();
            bulk_wait_group::<0>();
        }
        t
    }
    /// The source of a bulk store is written before it was read.
    bulk_source_overwritten(t, s, data, right) {
        store(s + 4 * t, t);
        fence_proxy_async_shared();
        sync_threads();
        if t == 0 {
            bulk_store(own(data), s, BYTES, None);
            bulk_commit_group();
            if right {
                bulk_wait_group_read::<0>();
            }
        }
        sync_threads();
        store(s + 4 * t, 0); // bulk_source_overwritten
        if t == 0 {
            bulk_wait_group::<0>();
        }
        t
    }
    /// What a bulk store has brought is read when its source was read, not when it was written.
    bulk_store_read_back_too_early(t, s, data, right) {
        store(s + 4 * t, t);
        fence_proxy_async_shared();
        sync_threads();
        if t == 0 {
            bulk_store(own(data), s, BYTES, None); // bulk_store_read_back_too_early
            bulk_commit_group();
            if right { bulk_wait_group::<0>() } else { bulk_wait_group_read::<0>() }
        }
        sync_threads();
        if t >= 32 { u32::load_global(own(data) + 4 * u64::from(t)) } else { t } // bulk_store_read_back_too_early
    }
    /// A bulk copy of what threads have just written to global memory, with no fence between the
    /// proxies.
    bulk_copy_of_a_result(t, s, data, right) {
        make_mbarrier(s);
        u32::store_global(own(data) + 4 * u64::from(t), t);
        if right {
            fence_proxy_async_global();
        }
        sync_threads();
        if t == 0 {
            mbarrier_arrive_expect_tx(s + MBARRIER, BYTES);
            bulk_load(s, own(data), BYTES, s + MBARRIER, None, None); // bulk_copy_of_a_result
        }
        mbarrier_wait_parity(s + MBARRIER, 0);
        load(s + 4 * t)
    }
    /// A thread returns while its bulk store still reads shared memory.
    bulk_store_left_behind(t, s, data, right) {
        store(s + 4 * t, t);
        fence_proxy_async_shared();
        sync_threads();
        if t == 0 {
            bulk_store(own(data), s, BYTES, None);
            bulk_commit_group();
            if right {
                bulk_wait_group_read::<0>();
            }
        }
        t
    }
}

/// Bytes of a copy: a word of each thread.
const BYTES: u32 = 256;
/// Where the mbarrier lies.
const MBARRIER: u32 = 2048;

/// A block's own words of the data.
fn own(data: u64) -> u64 {
    data + u64::from(BYTES * block_idx().x)
}

/// The first thread makes the mbarrier.
///
/// # Safety
/// All threads of the block come here, once.
unsafe fn make_mbarrier(s: u32) {
    // SAFETY: the mbarrier lies within the block's shared memory.
    unsafe {
        if thread_idx().x == 0 {
            mbarrier_init(s + MBARRIER, 1);
            fence_mbarrier_init();
        }
        sync_threads();
    }
}
