//! What sm_90 and sm_90a add: `stmatrix`, bulk copies and tensor copies, `wgmma`.

use crate::{Smem, THREADS, fill, own_part};
use moye_device::arch::wgmma::{
    Accumulators, wgmma_commit_group, wgmma_fence, wgmma_fence_registers, wgmma_wait_group,
};
use moye_device::arch::{
    Word, block_idx, bulk_commit_group, bulk_load, bulk_store, bulk_wait_group, fence_mbarrier_init,
    fence_proxy_async_shared, mbarrier_arrive, mbarrier_arrive_expect_tx, mbarrier_init,
    mbarrier_wait_parity, shared_base, stmatrix_x4, sync_cluster, sync_threads, tensor_load, thread_idx,
};
use moye_device::atom::wgmma::{SM90_64x64x16_F32BF16BF16_SS, SharedOperand, WgmmaAtom};
use moye_device::kernel;
use moye_device::layout::{ComposedLayout, IntTuple, Major, SwizzleBytes, shared_memory_atom};
use moye_device::memory::{Global, GlobalMut, SharedArray, TensorMap};

/// Bytes of a bulk copy, and of the box of a tensor copy.
pub const COPY_BYTES: u32 = 4096;
/// Where the mbarrier is: behind what copies fill.
const BARRIER: u32 = 32 * 1024 - 16;

type Product = SM90_64x64x16_F32BF16BF16_SS<false, false>;

/// A tile of 64 rows of 16 elements without a swizzle, K-major.
const TILE: ComposedLayout =
    shared_memory_atom(Major::K, SwizzleBytes::None, 16).tile_to_shape(IntTuple::flat(&[64, 16]));

/// One thread issues `load`; all wait for its bytes.
///
/// # Safety
/// The load brings [`COPY_BYTES`] bytes to shared memory, and all threads are here.
#[inline(always)]
unsafe fn loaded(barrier: u32, load: impl FnOnce()) {
    // SAFETY: the caller's contract.
    unsafe {
        if thread_idx().x == 0 {
            mbarrier_init(barrier, 1);
            fence_mbarrier_init();
        }
        sync_threads();
        if thread_idx().x == 0 {
            mbarrier_arrive_expect_tx(barrier, COPY_BYTES);
            load();
        }
        mbarrier_wait_parity(barrier, 0);
    }
}

profiled! {
    HOPPER:
    /// `stmatrix` of rows of 16 bytes.
    stmatrix_rows(_x, y, t, s) {
        stmatrix_x4(s + 16 * t, [t; 4]);
        sync_threads();
        u32::store_global(y, u32::load_shared(s + 4 * t))
    }
    /// `stmatrix` of rows of 128 bytes: eight rows in four banks.
    stmatrix_column(_x, y, t, s) {
        stmatrix_x4(s + 128 * t, [t; 4]);
        sync_threads();
        u32::store_global(y, u32::load_shared(s + 128 * t))
    }
    /// A bulk copy to shared memory.
    bulk_copy(x, y, t, s) {
        loaded(s + BARRIER, || bulk_load(s, x, COPY_BYTES, s + BARRIER, None, None));
        u32::store_global(y, u32::load_shared(s + 4 * t))
    }
    /// A bulk copy from shared memory.
    bulk_copy_back(_x, y, t, s) {
        fill(t);
        fence_proxy_async_shared();
        sync_threads();
        if t == 0 {
            bulk_store(own_part(y, t) + 32768, s, COPY_BYTES, None);
            bulk_commit_group();
            bulk_wait_group::<0>();
        }
        u32::store_global(y, t)
    }
    /// A product of a warpgroup.
    warpgroup_product(_x, y, t, s) {
        let (a, b) = const { (SharedOperand::a::<Product>(TILE), SharedOperand::b::<Product>(TILE)) };
        fill(t);
        fence_proxy_async_shared();
        sync_threads();
        let mut sums = <Product as WgmmaAtom>::Accumulators::ZERO;
        wgmma_fence();
        Product::mma(&mut sums, a.descriptor(s, 0, 0), b.descriptor(s + 2048, 0, 0), false);
        wgmma_commit_group();
        wgmma_wait_group::<0>();
        wgmma_fence_registers(&mut sums);
        u32::store_global(y, (sums.as_slice()[0] + sums.as_slice()[31]).to_bits())
    }
    /// All threads arrive at an mbarrier and wait for its phase, twice. The barrier of the block
    /// ends each phase before the waits, so that none of them polls.
    mbarrier_of_all(_x, y, t, s) {
        if t == 0 {
            mbarrier_init(s + BARRIER, THREADS);
        }
        sync_threads();
        let mut value = t;
        for parity in 0..2 {
            u32::store_shared(s + 512 * parity + 4 * t, value);
            mbarrier_arrive(s + BARRIER);
            sync_threads();
            mbarrier_wait_parity(s + BARRIER, parity);
            value = u32::load_shared(s + 512 * parity + 4 * (t ^ 32));
        }
        u32::store_global(y, value)
    }
}

profiled! {
    CLUSTERS:
    /// Two barriers of the cluster.
    cluster_barriers(_x, y, t, s) {
        u32::store_shared(s + 4 * t, t);
        sync_cluster();
        let value = u32::load_shared(s + 4 * (t ^ 32));
        sync_cluster();
        u32::store_global(y, value)
    }
}

/// A tensor copy of a box of 32 rows of 32 words, each block from the row of its number times 32
/// on.
///
/// # Safety
/// `map` leads to a tensor of two dimensions with such boxes, and the grid has
/// [`BLOCKS`](crate::BLOCKS) blocks of [`THREADS`] threads.
#[kernel(threads = THREADS, shared = SharedArray<u32, Smem>)]
pub unsafe fn tensor_copy(map: TensorMap, y: GlobalMut<u32>) {
    let (t, s) = (thread_idx().x, shared_base());
    let start = [0, 32 * block_idx().x as i32];
    // SAFETY: the box is as large as said, and `y` has a word for each thread.
    unsafe {
        loaded(s + BARRIER, || tensor_load(s, map.pointer(), start, s + BARRIER, None, None));
        y.write(i64::from(block_idx().x * THREADS + t), u32::load_shared(s + 4 * t));
    }
}
