//! Barriers of a block and of a warp.

/// Waits until every thread of the block is here (`bar.sync 0`, CUDA's `__syncthreads`). What any of them wrote to
/// shared or global memory before is then visible to all of them.
///
/// Every thread of the block must reach it; in the simulator, one that does not is a fault.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn sync_threads() {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: the barrier touches no memory of Rust's.
    unsafe {
        core::arch::nvptx::_syncthreads()
    }
    #[cfg(not(target_arch = "nvptx64"))]
    moye_sim::intrinsics::sync_threads();
}

/// Waits until every lane of `mask` is here (`bar.warp.sync`, CUDA's `__syncwarp`), and makes their memory accesses
/// visible to each other. The calling lane must be in `mask`, and each named lane must call with the same mask.
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
