//! Kernels with one mistake each. They run only on the simulator and are not compiled to PTX: on a
//! GPU most of them would write anywhere, hang, or have no visible effect.
#![allow(clippy::missing_safety_doc, reason = "there is no safe way to launch them")]

use moye_device::arch::*;
use moye_device::kernel;
use moye_device::memory::{GlobalMut, Shared, SharedArray};
use moye_device::static_layout;

static_layout! {
    /// 64 words, and room after them for an mbarrier.
    pub Words = moye_device::layout!({ 66 });
}

/// The shared memory of every kernel.
pub type Storage = SharedArray<u32, Words>;

fn tile() -> Shared<u32> {
    Shared::from_address(shared_base())
}

fn mbarrier() -> u32 {
    tile().offset(64).address()
}

/// Whether this thread makes the mistake: one of the second block.
fn chosen() -> bool {
    block_idx().x == 1 && thread_idx().x == 3
}

/// Kernels of 64 threads with a buffer of 64 words.
macro_rules! kernels {
    ($($name:ident($x:ident) $body:block)*) => { $(
        #[kernel(threads = 64, shared = Storage)]
        #[allow(unused_unsafe, reason = "some do wrong by safe functions alone")]
        pub unsafe fn $name($x: GlobalMut<u32>) {
            // SAFETY: the contract is violated on purpose; the simulator checks every access.
            unsafe { $body }
        }
    )* };
}

kernels! {
    writes_out_of_bounds(x) {
        if chosen() {
            x.write(-1, 7);
        }
    }
    adds_out_of_bounds(x) {
        if chosen() {
            u32::atomic_add_global(x.offset(65).address(), 7);
        }
    }
    leaves_before_the_barrier(_x) {
        if !chosen() {
            sync_threads();
        }
    }
    counts_a_barrier_in_two_ways(_x) {
        sync_barrier(1, if thread_idx().x < 32 { 64 } else { 32 });
    }
    recurses(x) {
        if chosen() {
            x.write(0, deeper(0));
        }
    }
    multiplies_without_a_lane(x) {
        tile().write(thread_idx().x as i32, 7);
        sync_threads();
        if !chosen() {
            x.write(0, ldmatrix_x1(tile().address())[0]);
        }
    }
    has_lanes_in_two_operations(x) {
        if lane_id() < 16 {
            sync_warp(FULL_WARP);
        } else {
            x.write(0, u32::from(vote_any(FULL_WARP, true)));
        }
    }
    has_lanes_that_never_come(_x) {
        if thread_idx().x == 0 {
            mbarrier_init(mbarrier(), 1);
        }
        sync_threads();
        if lane_id() < 16 {
            sync_warp(FULL_WARP);
        } else {
            mbarrier_wait_parity(mbarrier(), 0);
        }
    }
    shuffles_from_a_lane_that_takes_no_part(x) {
        if lane_id() < 8 {
            x.write(0, shuffle_down(0xFF, 7_u32, 1));
        }
    }
    waits_for_what_never_happens(_x) {
        if chosen() {
            mbarrier_init(mbarrier(), 1);
            mbarrier_wait_parity(mbarrier(), 0);
        }
    }
    leaves_a_store_behind(x) {
        if chosen() {
            tile().write(0, 7);
            stores(x, true);
        }
    }
    leaves_a_load_behind(x) {
        if chosen() {
            loads(x);
        }
    }
    writes_what_is_being_stored(x) {
        if chosen() {
            stores(x, true);
            tile().write(1, 8);
        }
    }
    stores_without_a_fence(x) {
        if chosen() {
            stores(x, false);
        }
    }
    reads_of_a_block_that_has_ended(x) {
        tile().write(0, 7);
        sync_cluster();
        if chosen() {
            // Long after the other block has returned.
            for _ in 0..100_000 {
                tile().read(0);
            }
            x.write(0, u32::load_shared_cluster(map_shared(tile().address(), 0)));
        }
    }
    reads_a_store_that_is_on_its_way(x) {
        if thread_idx().x == 0 {
            mbarrier_init(mbarrier(), 1);
            fence_mbarrier_init();
            mbarrier_arrive_expect_tx(mbarrier(), 4);
        }
        sync_cluster();
        if thread_idx().x == 0 {
            let other = 1 - cluster_rank();
            u32::store_async(map_shared(tile().address(), other), 7, map_shared(mbarrier(), other));
        }
        sync_cluster();
        if chosen() {
            x.write(0, tile().read(0));
        }
        sync_cluster();
        mbarrier_wait_parity(mbarrier(), 0);
        sync_cluster();
    }
    reads_of_a_block_that_is_not_there(x) {
        if chosen() {
            x.write(0, u32::load_shared_cluster(map_shared(tile().address(), 2)));
        }
    }
}

/// Bytes of a bulk copy.
const BYTES: u32 = 16;

/// Issues a store of the tile's first words, without a wait.
unsafe fn stores(x: GlobalMut<u32>, fence: bool) {
    // SAFETY: the words are in both.
    unsafe {
        (0..4).for_each(|at| tile().write(at, 7));
        if fence {
            fence_proxy_async_shared();
        }
        bulk_store(x.address(), tile().address(), BYTES, None);
    }
    bulk_commit_group();
}

/// Issues a load of the tile's first words, without a wait.
unsafe fn loads(x: GlobalMut<u32>) {
    // SAFETY: the words are in both, and the mbarrier after those of the tile.
    unsafe {
        mbarrier_init(mbarrier(), 1);
        fence_mbarrier_init();
        mbarrier_arrive_expect_tx(mbarrier(), BYTES);
        bulk_load(tile().address(), x.address(), BYTES, mbarrier(), None, None);
    }
}

/// Calls itself until the stack overflows.
#[inline(never)]
fn deeper(depth: u32) -> u32 {
    let here = std::hint::black_box([depth; 16]);
    if std::hint::black_box(depth) == u32::MAX { depth } else { 1 + deeper(depth + 1) + here[15] }
}
