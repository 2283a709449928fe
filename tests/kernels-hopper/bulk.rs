//! Bulk copies and tensor copies within one block.

use half::{bf16, f16};
use moye_device::arch::*;
use moye_device::kernel;
use moye_device::memory::{Global, GlobalMut, Shared, SharedArray, TensorMap};
use moye_device::static_layout;

/// Words of shared memory that a copy may fill: 64 KiB.
pub const WORDS: i64 = 16 * 1024;

static_layout! {
    /// A tile, and room for an mbarrier behind it.
    pub Tile = moye_device::layout!({ WORDS + 2 });
}

/// What kernels with a tile have.
pub type TileStorage = SharedArray<u32, Tile>;

const THREADS: u32 = 128;

/// The tile, and the address of the mbarrier.
#[inline(always)]
fn storage() -> (Shared<u32>, u32) {
    let tile = Shared::from_address(shared_base());
    (tile, tile.offset(WORDS as i32).address())
}

/// Calls `f` with the numbers below `words` that are the thread's.
#[inline(always)]
fn for_each(words: u32, f: impl Fn(u32)) {
    let mut at = thread_idx().x;
    while at < words {
        f(at);
        at += THREADS;
    }
}

/// One thread issues `load`; then all write the tile to `output`, word by word as it lies in shared
/// memory.
#[inline(always)]
unsafe fn loaded(bytes: u32, output: GlobalMut<u32>, load: impl Fn(u32, u32)) {
    let (tile, barrier) = storage();
    // SAFETY: the kernels declare `TileStorage`, and `output` has as many bytes as are loaded.
    unsafe {
        if thread_idx().x == 0 {
            mbarrier_init(barrier, 1);
            fence_mbarrier_init();
        }
        sync_threads();
        if thread_idx().x == 0 {
            mbarrier_arrive_expect_tx(barrier, bytes);
            load(tile.address(), barrier);
        }
        mbarrier_wait_parity(barrier, 0);
        for_each(bytes / 4, |at| output.write(at.into(), tile.read(at as i32)));
    }
}

/// All threads write `source` into the tile, word by word as it is to lie in shared memory; then
/// one thread issues `store`.
#[inline(always)]
unsafe fn stored(bytes: u32, source: Global<u32>, store: impl Fn(u32)) {
    let (tile, _) = storage();
    // SAFETY: the kernels declare `TileStorage`, and `source` has as many bytes as are stored.
    unsafe {
        for_each(bytes / 4, |at| tile.write(at as i32, source.read(at.into())));
        fence_proxy_async_shared();
        sync_threads();
        if thread_idx().x == 0 {
            store(tile.address());
            bulk_commit_group();
            bulk_wait_group::<0>();
        }
    }
}

macro_rules! tensors {
    ($($rank:literal $load:ident $store:ident $add:ident $prefetch:ident: $($c:ident)*;)*) => { $(
        #[kernel(threads = 128, shared = TileStorage)]
        pub unsafe fn $load(map: TensorMap, bytes: u32, output: GlobalMut<u32>, $($c: i32),*) {
            // SAFETY: the kernel's own contract.
            unsafe {
                loaded(bytes, output, |tile, barrier| {
                    tensor_load::<$rank>(tile, map.pointer(), [$($c),*], barrier, None, None)
                })
            }
        }

        #[kernel(threads = 128, shared = TileStorage)]
        pub unsafe fn $store(map: TensorMap, bytes: u32, source: Global<u32>, $($c: i32),*) {
            // SAFETY: the kernel's own contract.
            unsafe { stored(bytes, source, |tile| tensor_store::<$rank>(map.pointer(), [$($c),*], tile, None)) }
        }

        #[kernel(threads = 128, shared = TileStorage)]
        pub unsafe fn $add(map: TensorMap, bytes: u32, source: Global<u32>, $($c: i32),*) {
            // SAFETY: the kernel's own contract.
            unsafe { stored(bytes, source, |tile| tensor_reduce_add::<$rank>(map.pointer(), [$($c),*], tile, None)) }
        }

        #[kernel(threads = 32)]
        pub unsafe fn $prefetch(map: TensorMap, $($c: i32),*) {
            // SAFETY: the kernel's own contract.
            unsafe { tensor_prefetch::<$rank>(map.pointer(), [$($c),*]) };
        }
    )* };
}
tensors! {
    1 load_1d store_1d add_1d prefetch_1d: c0;
    2 load_2d store_2d add_2d prefetch_2d: c0 c1;
    3 load_3d store_3d add_3d prefetch_3d: c0 c1 c2;
    4 load_4d store_4d add_4d prefetch_4d: c0 c1 c2 c3;
    5 load_5d store_5d add_5d prefetch_5d: c0 c1 c2 c3 c4;
}

/// `words` words of `image` into shared memory by threads, a box of `bytes` bytes over them, and
/// the words back: what is not the box's is as it was.
#[kernel(threads = 128, shared = TileStorage)]
pub unsafe fn load_2d_over(map: TensorMap, bytes: u32, image: GlobalMut<u32>, words: u32, c0: i32, c1: i32) {
    let (tile, barrier) = storage();
    // SAFETY: the kernel's own contract.
    unsafe {
        if thread_idx().x == 0 {
            mbarrier_init(barrier, 1);
            fence_mbarrier_init();
        }
        for_each(words, |at| tile.write(at as i32, image.read(at.into())));
        fence_proxy_async_shared();
        sync_threads();
        if thread_idx().x == 0 {
            mbarrier_arrive_expect_tx(barrier, bytes);
            tensor_load(tile.address(), map.pointer(), [c0, c1], barrier, None, None);
        }
        mbarrier_wait_parity(barrier, 0);
        for_each(words, |at| image.write(at.into(), tile.read(at as i32)));
    }
}

/// As `load_2d`, with a policy for L2 and a fetch of the map before.
#[kernel(threads = 128, shared = TileStorage)]
pub unsafe fn load_2d_policy(map: TensorMap, bytes: u32, output: GlobalMut<u32>, c0: i32, c1: i32) {
    // SAFETY: the kernel's own contract.
    unsafe {
        prefetch_tensor_map(map.pointer());
        loaded(bytes, output, |tile, barrier| {
            tensor_load(tile, map.pointer(), [c0, c1], barrier, None, Some(CachePolicy::new(L2Evict::First)))
        })
    }
}

/// As `store_2d`, with a policy for L2.
#[kernel(threads = 128, shared = TileStorage)]
pub unsafe fn store_2d_policy(map: TensorMap, bytes: u32, source: Global<u32>, c0: i32, c1: i32) {
    // SAFETY: the kernel's own contract.
    unsafe {
        stored(bytes, source, |tile| {
            tensor_store(map.pointer(), [c0, c1], tile, Some(CachePolicy::new(L2Evict::First)))
        })
    }
}

/// `bytes` bytes into shared memory and from there to `output`, by threads.
#[kernel(threads = 128, shared = TileStorage)]
pub unsafe fn load_bytes(source: Global<u32>, bytes: u32, output: GlobalMut<u32>) {
    // SAFETY: the kernel's own contract.
    unsafe {
        bulk_prefetch(source.address(), bytes);
        loaded(bytes, output, |tile, barrier| bulk_load(tile, source.address(), bytes, barrier, None, None))
    }
}

/// As `load_bytes`, with a policy, and with what is to come told apart from the arrival.
#[kernel(threads = 128, shared = TileStorage)]
pub unsafe fn load_bytes_policy(source: Global<u32>, bytes: u32, output: GlobalMut<u32>) {
    let (tile, barrier) = storage();
    // SAFETY: the kernel's own contract.
    unsafe {
        if thread_idx().x == 0 {
            mbarrier_init(barrier, 1);
            fence_mbarrier_init();
            mbarrier_expect_tx(barrier, bytes);
            let policy = CachePolicy::new(L2Evict::Last);
            bulk_load(tile.address(), source.address(), bytes, barrier, None, Some(policy));
            mbarrier_arrive(barrier);
        }
        sync_threads();
        mbarrier_wait_parity(barrier, 0);
        for_each(bytes / 4, |at| output.write(at.into(), tile.read(at as i32)));
    }
}

/// Words of `source` into shared memory by threads, and from there to `output`; waits only until
/// they are read.
#[kernel(threads = 128, shared = TileStorage)]
pub unsafe fn store_bytes(source: Global<u32>, bytes: u32, output: GlobalMut<u32>) {
    let (tile, _) = storage();
    // SAFETY: the kernel's own contract.
    unsafe {
        for_each(bytes / 4, |at| tile.write(at as i32, source.read(at.into())));
        fence_proxy_async();
        sync_threads();
        if thread_idx().x == 0 {
            bulk_store(output.address(), tile.address(), bytes, None);
            bulk_commit_group();
            bulk_wait_group_read::<0>();
        }
        sync_threads();
        // The tile is free again.
        for_each(bytes / 4, |at| tile.write(at as i32, 0));
    }
}

/// As `store_bytes`, with a policy for L2, and waits until they are written.
#[kernel(threads = 128, shared = TileStorage)]
pub unsafe fn store_bytes_policy(source: Global<u32>, bytes: u32, output: GlobalMut<u32>) {
    // SAFETY: the kernel's own contract.
    unsafe {
        stored(bytes, source, |tile| {
            bulk_store(output.address(), tile, bytes, Some(CachePolicy::new(L2Evict::First)));
        })
    }
}

/// Words of `source`, doubled, to `output` by threads, from there into shared memory by a bulk
/// copy, and plus 1 back again: the fence is between what threads have written to global memory and
/// the copy that reads it.
#[kernel(threads = 128, shared = TileStorage)]
pub unsafe fn through_global(source: Global<u32>, bytes: u32, output: GlobalMut<u32>) {
    let (tile, barrier) = storage();
    // SAFETY: the kernel's own contract; what the copy reads is written again behind the wait for
    // it.
    unsafe {
        for_each(bytes / 4, |at| output.write(at.into(), 2 * source.read(at.into())));
        fence_proxy_async_global();
        if thread_idx().x == 0 {
            mbarrier_init(barrier, 1);
            fence_mbarrier_init();
        }
        sync_threads();
        if thread_idx().x == 0 {
            mbarrier_arrive_expect_tx(barrier, bytes);
            bulk_load(tile.address(), output.address(), bytes, barrier, None, None);
        }
        mbarrier_wait_parity(barrier, 0);
        for_each(bytes / 4, |at| output.write(at.into(), tile.read(at as i32) + 1));
    }
}

macro_rules! additions {
    ($($name:ident $t:ty;)*) => { $(
        #[kernel(threads = 128, shared = TileStorage)]
        pub unsafe fn $name(source: Global<u32>, bytes: u32, output: GlobalMut<u32>) {
            // SAFETY: the kernel's own contract.
            unsafe {
                stored(bytes, source, |tile| <$t>::bulk_reduce_add(output.address(), tile, bytes));
            }
        }
    )* };
}
additions! {
    add_bytes_u32 u32;
    add_bytes_i32 i32;
    add_bytes_u64 u64;
    add_bytes_f32 f32;
    add_bytes_f64 f64;
    add_bytes_f16 f16;
    add_bytes_bf16 bf16;
}
