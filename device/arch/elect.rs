//! `elect.sync`: selects one lane of a warp.

use super::target::needs;

/// Whether this lane is the leader of `mask`: exactly one lane of the mask is, always the same one
/// (`elect.sync`). The calling lane must be in `mask`, and each lane in it must call with the same
/// mask.
///
/// For work of a single thread: `if elect(FULL_WARP) { ... }` tells the compiler that one lane
/// enters, which a comparison of the lane index does not.
#[inline(always)]
#[must_use]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn elect(mask: u32) -> bool {
    needs!("elect.sync", 90 8.0);
    #[cfg(target_arch = "nvptx64")]
    {
        #[allow(improper_ctypes, reason = "the pair is what the intrinsic returns")]
        unsafe extern "unadjusted" {
            #[link_name = "llvm.nvvm.elect.sync"]
            fn elect_sync(mask: i32) -> (i32, bool);
        }
        // SAFETY: a convergent intrinsic on registers.
        (unsafe { elect_sync(mask as i32) }).1
    }
    #[cfg(not(target_arch = "nvptx64"))]
    moye_sim::intrinsics::elect(mask)
}
