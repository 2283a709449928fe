//! Fences between the two proxies of memory, and between threads of a cluster or of the GPU.
//!
//! In PTX, loads and stores of threads use the *generic proxy*, bulk copies, TMA and `wgmma` the
//! *async proxy*. Neither sees the other's writes without a fence between them, or, for copies, a
//! wait on their mbarrier. So each thread that fills shared memory for `wgmma` or a TMA store calls
//! [`fence_proxy_async_shared`]; then the threads synchronise at a barrier, and one of them issues
//! the operation.

use super::target::needs;
use crate::memory::TensorMapPointer;

macro_rules! fences {
    ($($(#[$doc:meta])* $name:ident $text:literal needs $sm:literal $ptx:literal, $simulated:expr;)*) => { $(
        $(#[$doc])*
        #[doc = concat!(" (`", $text, "`).")]
        #[inline(always)]
        #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
        pub fn $name() {
            needs!($text, $sm $ptx);
            #[cfg(target_arch = "nvptx64")]
            // SAFETY: only orders accesses.
            unsafe {
                core::arch::asm!(concat!($text, ";"), options(nostack))
            }
            #[cfg(not(target_arch = "nvptx64"))]
            $simulated
        }
    )* };
}
fences! {
    /// Orders the thread's accesses to all memory before those of bulk copies, TMA and `wgmma` that
    /// follow, and the reverse
    fence_proxy_async "fence.proxy.async" needs 90 8.0, moye_sim::intrinsics::fence_proxy_async();
    /// [`fence_proxy_async`] for the block's shared memory only
    fence_proxy_async_shared "fence.proxy.async.shared::cta" needs 90 8.0,
        moye_sim::intrinsics::fence_proxy_async_shared();
    /// [`fence_proxy_async`] for global memory only: between a write of a thread and the bulk copy
    /// or TMA load of the same launch that reads it
    fence_proxy_async_global "fence.proxy.async.global" needs 90 8.0,
        moye_sim::intrinsics::fence_proxy_async_global();
    /// Makes the mbarriers that the thread initialised visible to the cluster and to the async
    /// proxy; a barrier of the cluster must follow. In the simulator they are visible at once
    fence_mbarrier_init "fence.mbarrier_init.release.cluster" needs 90 8.0,
        moye_sim::intrinsics::count_instruction("fence.mbarrier_init.release.cluster");
    /// Orders the thread's accesses before the fence and after it, for all threads of the GPU
    fence_gpu "fence.acq_rel.gpu" needs 70 6.0, moye_sim::intrinsics::fence();
    /// Orders the thread's accesses before the fence and after it, for all threads of the cluster
    fence_cluster "fence.acq_rel.cluster" needs 90 7.8, moye_sim::intrinsics::fence_cluster();
    /// Orders the thread's accesses before the fence and after it, for the threads of the block
    /// only: it orders no accesses of different blocks
    fence_block "fence.acq_rel.cta" needs 70 6.0, moye_sim::intrinsics::fence_block();
}

/// Orders the thread's tensor copies by a map in global memory after the writes of the map that the
/// host, or an earlier kernel, has released (`fence.proxy.tensormap::generic.acquire.sys`). TMA
/// reads maps through a separate cache, so that the order of a stream does not suffice; one fence
/// of a block is enough for a map until the map is written again. Maps that are parameters of the
/// kernel need none.
///
/// The instruction is of PTX 8.3 (drivers of CUDA 12.3), to which `moye-build` raises the version
/// of modules that contain it.
///
/// # Safety
/// `map` points to a tensor map in global memory.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn fence_proxy_tensormap(map: TensorMapPointer) {
    needs!("fence.proxy.tensormap", 90 8.0);
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: `map` points to a tensor map.
    unsafe {
        core::arch::asm!(
            "fence.proxy.tensormap::generic.acquire.sys [{}], 128;",
            in(reg64) map.address(), options(nostack)
        )
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        let _ = map;
        moye_sim::intrinsics::count_instruction("fence.proxy.tensormap::generic.acquire.sys");
    }
}
