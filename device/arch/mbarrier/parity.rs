//! Phases identified by their parity.

use crate::arch::target::needs;

macro_rules! waits {
    ($($(#[$doc:meta])* $name:ident $instruction:literal $space:literal needs $sm:literal $ptx:literal;)*) => { $(
        $(#[$doc])*
        ///
        /// # Safety
        /// `address` is the address of an mbarrier of the block that
        /// [`mbarrier_init`](super::mbarrier_init) has initialised, and the phase is the current or
        /// the previous one.
        #[inline(always)]
        #[must_use]
        #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
        pub unsafe fn $name(address: u32, parity: u32) -> bool {
            needs!($instruction, $sm $ptx);
            #[cfg(target_arch = "nvptx64")]
            {
                let done: u32;
                // SAFETY: an initialised mbarrier, and its current or previous phase.
                unsafe {
                    core::arch::asm!(
                        concat!(
                            "{{ .reg .pred p; ", $instruction, $space,
                            ".b64 p, [{address}], {parity}; selp.b32 {done}, 1, 0, p; }}"
                        ),
                        done = out(reg32) done, address = in(reg32) address, parity = in(reg32) parity,
                        options(nostack)
                    )
                };
                done != 0
            }
            #[cfg(not(target_arch = "nvptx64"))]
            moye_sim::intrinsics::mbarrier_test_wait_parity(address, parity)
        }
    )* };
}
waits! {
    /// Whether the phase of this parity is complete; writes before its arrivals are then visible
    /// (`mbarrier.test_wait.parity`).
    mbarrier_test_wait_parity "mbarrier.test_wait.parity" ".shared" needs 80 7.1;
    /// [`mbarrier_test_wait_parity`], which may suspend the thread for a while before it returns
    /// false (`mbarrier.try_wait.parity`).
    mbarrier_try_wait_parity "mbarrier.try_wait.parity" ".shared::cta" needs 90 7.8;
    /// [`mbarrier_try_wait_parity`] with acquire semantics for other blocks of the cluster: their
    /// writes before their arrivals are visible too (`mbarrier.try_wait.parity.acquire.cluster`).
    mbarrier_try_wait_parity_cluster "mbarrier.try_wait.parity.acquire.cluster" ".shared::cta" needs 90 8.0;
}

/// Waits until the phase of this parity is complete: [`mbarrier_try_wait_parity`] in a loop.
///
/// # Safety
/// Same contract as [`mbarrier_try_wait_parity`].
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn mbarrier_wait_parity(address: u32, parity: u32) {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: same contract as `mbarrier_try_wait_parity`.
    while !unsafe { mbarrier_try_wait_parity(address, parity) } {}
    #[cfg(not(target_arch = "nvptx64"))]
    moye_sim::intrinsics::mbarrier_wait_parity(address, parity);
}

/// [`mbarrier_wait_parity`] for writes of other blocks of the cluster, for example by
/// [`AsyncWord`](crate::arch::AsyncWord): [`mbarrier_try_wait_parity_cluster`] in a loop.
///
/// # Safety
/// Same contract as [`mbarrier_try_wait_parity_cluster`].
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn mbarrier_wait_parity_cluster(address: u32, parity: u32) {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: same contract as `mbarrier_try_wait_parity_cluster`.
    while !unsafe { mbarrier_try_wait_parity_cluster(address, parity) } {}
    #[cfg(not(target_arch = "nvptx64"))]
    moye_sim::intrinsics::mbarrier_wait_parity(address, parity);
}
