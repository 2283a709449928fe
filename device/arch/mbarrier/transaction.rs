//! Transaction bytes of copies, for which a phase also waits.

use crate::arch::target::needs;

/// Increases the bytes that this phase expects from bulk copies or asynchronous stores by `bytes`,
/// and arrives; returns the state of the arrival's phase (`mbarrier.arrive.expect_tx`).
///
/// # Safety
/// `address` is the address of an mbarrier of the block that
/// [`mbarrier_init`](super::mbarrier_init) has initialised. A phase waits for less than 2^20 bytes.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn mbarrier_arrive_expect_tx(address: u32, bytes: u32) -> u64 {
    needs!("mbarrier.arrive.expect_tx", 90 8.0);
    #[cfg(target_arch = "nvptx64")]
    {
        let state: u64;
        // SAFETY: an initialised mbarrier, whose phase waits for less than 2^20 bytes.
        unsafe {
            core::arch::asm!(
                "mbarrier.arrive.expect_tx.shared::cta.b64 {state}, [{address}], {bytes};",
                state = out(reg64) state, address = in(reg32) address, bytes = in(reg32) bytes, options(nostack)
            )
        };
        state
    }
    #[cfg(not(target_arch = "nvptx64"))]
    moye_sim::intrinsics::mbarrier_arrive_expect_tx(address, bytes)
}

/// Increases the bytes that this phase expects from bulk copies or asynchronous stores by `bytes`,
/// without an arrival (`mbarrier.expect_tx`).
///
/// # Safety
/// Same contract as [`mbarrier_arrive_expect_tx`]; the phase cannot complete before.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn mbarrier_expect_tx(address: u32, bytes: u32) {
    needs!("mbarrier.expect_tx", 90 8.0);
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: an initialised mbarrier, whose phase cannot complete before.
    unsafe {
        core::arch::asm!(
            "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [{address}], {bytes};",
            address = in(reg32) address, bytes = in(reg32) bytes, options(nostack)
        )
    }
    #[cfg(not(target_arch = "nvptx64"))]
    moye_sim::intrinsics::mbarrier_expect_tx(address, bytes);
}
