//! Arrivals at the mbarriers of other blocks of the cluster.

use crate::arch::target::needs;

/// Arrives at an mbarrier of a block of the cluster, at an address from
/// [`map_shared`](crate::arch::map_shared) (`mbarrier.arrive.release.cluster.shared::cluster`).
///
/// # Safety
/// `address` is the address of an mbarrier in the cluster's shared memory that was initialised
/// before a barrier of the cluster, and its block has not exited.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn mbarrier_arrive_cluster(address: u32) {
    needs!("mbarrier.arrive.shared::cluster", 90 8.0);
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: an initialised mbarrier of a block that has not exited.
    unsafe {
        core::arch::asm!(
            "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [{}];", in(reg32) address, options(nostack)
        )
    }
    #[cfg(not(target_arch = "nvptx64"))]
    moye_sim::intrinsics::mbarrier_arrive_cluster(address, 0);
}

/// [`mbarrier_arrive_cluster`] with block scope (`mbarrier.arrive.shared::cluster`): it makes no
/// write of the thread visible to the other block. It signals that the thread has *read* data that
/// the other block may overwrite, or that other threads have read its writes there, followed by a
/// fence for TMA ([`fence_proxy_async_shared`](crate::arch::fence_proxy_async_shared)).
///
/// The form with cluster scope waits for all of the thread's accesses to memory (`MEMBAR.ALL.GPU`
/// in machine code), which made a product a quarter slower (seen on an H200).
///
/// # Safety
/// Same contract as [`mbarrier_arrive_cluster`].
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn mbarrier_arrive_cluster_relaxed(address: u32) {
    needs!("mbarrier.arrive.shared::cluster", 90 8.0);
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: an initialised mbarrier of a block that has not exited.
    unsafe {
        core::arch::asm!("mbarrier.arrive.shared::cluster.b64 _, [{}];", in(reg32) address, options(nostack))
    }
    #[cfg(not(target_arch = "nvptx64"))]
    moye_sim::intrinsics::mbarrier_arrive_cluster(address, 0);
}

/// [`mbarrier_arrive_cluster`], after increasing the bytes that the phase in that block expects
/// from bulk copies or asynchronous stores by `bytes`
/// (`mbarrier.arrive.expect_tx.release.cluster.shared::cluster`).
///
/// # Safety
/// Same contract as [`mbarrier_arrive_cluster`]. A phase waits for less than 2^20 bytes.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn mbarrier_arrive_expect_tx_cluster(address: u32, bytes: u32) {
    needs!("mbarrier.arrive.expect_tx.shared::cluster", 90 8.0);
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: an initialised mbarrier of a block that has not exited.
    unsafe {
        core::arch::asm!(
            "mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64 _, [{address}], {bytes};",
            address = in(reg32) address, bytes = in(reg32) bytes, options(nostack)
        )
    }
    #[cfg(not(target_arch = "nvptx64"))]
    moye_sim::intrinsics::mbarrier_arrive_cluster(address, bytes);
}
