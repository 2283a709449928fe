//! Barriers of a block and of a warp.

use super::simulator_assert;

/// Waits until every thread of the block has arrived (`bar.sync 0`, CUDA's `__syncthreads`).
/// Earlier writes of all of them to shared or global memory are then visible to all of them.
///
/// Every thread of the block must reach it; otherwise the simulator faults.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn sync_threads() {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: the barrier accesses no memory that Rust manages.
    unsafe {
        core::arch::nvptx::_syncthreads()
    }
    #[cfg(not(target_arch = "nvptx64"))]
    moye_sim::intrinsics::sync_threads();
}

/// Waits until every lane of `mask` is here (`bar.warp.sync`, CUDA's `__syncwarp`), and makes their
/// memory accesses visible to each other. The calling lane must be in `mask`, and each lane in it
/// must call with the same mask.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn sync_warp(mask: u32) {
    #[cfg(target_arch = "nvptx64")]
    {
        unsafe extern "C" {
            #[link_name = "llvm.nvvm.bar.warp.sync"]
            fn bar_warp_sync(mask: i32);
        }
        // SAFETY: a convergent intrinsic that takes a lane mask.
        unsafe { bar_warp_sync(mask as i32) }
    }
    #[cfg(not(target_arch = "nvptx64"))]
    moye_sim::intrinsics::sync_warp(mask);
}

/// Waits at the block's barrier `id`, 0 to 15, until `threads` threads have arrived, waiting or not
/// (`bar.sync id, threads`). [`sync_threads`] uses `id` 0 and all threads.
///
/// Earlier writes of the arriving threads are then visible to the waiting threads.
///
/// All lanes of the warp must call it together with the same arguments. `threads` is a multiple of
/// 32, and all threads that use the barrier at the same time must pass the same value. Otherwise
/// the block hangs, or threads continue too early; the simulator faults.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn sync_barrier(id: u32, threads: u32) {
    #[cfg(target_arch = "nvptx64")]
    {
        unsafe extern "C" {
            #[link_name = "llvm.nvvm.barrier.cta.sync.aligned.count"]
            fn barrier_sync(id: i32, threads: i32);
        }
        // SAFETY: a convergent intrinsic that accesses no memory that Rust manages.
        unsafe { barrier_sync(id as i32, threads as i32) }
    }
    #[cfg(not(target_arch = "nvptx64"))]
    moye_sim::intrinsics::barrier_sync(id, threads);
}

/// Arrives at the block's barrier `id` as one of `threads`, without waiting
/// (`bar.arrive id, threads`), under the conditions of [`sync_barrier`].
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn arrive_barrier(id: u32, threads: u32) {
    #[cfg(target_arch = "nvptx64")]
    {
        unsafe extern "C" {
            #[link_name = "llvm.nvvm.barrier.cta.arrive.aligned.count"]
            fn barrier_arrive(id: i32, threads: i32);
        }
        // SAFETY: a convergent intrinsic that accesses no memory that Rust manages.
        unsafe { barrier_arrive(id as i32, threads as i32) }
    }
    #[cfg(not(target_arch = "nvptx64"))]
    moye_sim::intrinsics::barrier_arrive(id, threads);
}

/// One of the block's barriers with the number of threads that arrive at it: see
/// [`named_barriers!`](crate::named_barriers).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamedBarrier {
    id: u32,
    threads: u32,
}

impl NamedBarrier {
    /// Barrier `id`, 1 to 15, of `threads` threads, whole warps.
    #[inline(always)]
    #[must_use]
    pub const fn new(id: u32, threads: u32) -> Self {
        Self { id, threads }
    }

    /// The barrier's number.
    #[inline(always)]
    #[must_use]
    pub const fn id(self) -> u32 {
        self.id
    }

    /// Waits until all of its threads have arrived. All lanes of the warp must call it together.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn sync(self) {
        sync_barrier(self.id, self.threads);
    }

    /// Arrives without waiting. All lanes of the warp must call it together.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn arrive(self) {
        arrive_barrier(self.id, self.threads);
    }
}

/// Checks that barrier `index` of `count` of a name exists; otherwise the simulator faults.
#[doc(hidden)]
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn check_barrier(index: u32, count: u32) {
    simulator_assert!(index < count, "a barrier {index} of {count} named barriers: the first is 0");
}
