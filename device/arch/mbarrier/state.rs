//! Phases identified by a state that an arrival returns (sm_80, PTX 7.0), and arrivals of
//! `cp.async`.

use crate::arch::target::needs;

/// Initialises an mbarrier whose phases expect `count` arrivals each, 1 to 2^20 - 1
/// (`mbarrier.init`).
///
/// # Safety
/// `address` is a multiple of 8 in the block's shared memory; its 8 bytes have no other use.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn mbarrier_init(address: u32, count: u32) {
    needs!("mbarrier.init", 80 7.0);
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: 8 aligned bytes of shared memory without another use.
    unsafe {
        core::arch::asm!(
            "mbarrier.init.shared.b64 [{address}], {count};",
            address = in(reg32) address, count = in(reg32) count, options(nostack)
        )
    }
    #[cfg(not(target_arch = "nvptx64"))]
    moye_sim::intrinsics::mbarrier_init(address, count);
}

/// Invalidates an mbarrier, so that its memory may be reused (`mbarrier.inval`).
///
/// # Safety
/// Same contract as [`mbarrier_arrive`]; no thread uses the mbarrier concurrently or afterwards.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn mbarrier_inval(address: u32) {
    needs!("mbarrier.inval", 80 7.0);
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: an initialised mbarrier that no thread uses any more.
    unsafe {
        core::arch::asm!("mbarrier.inval.shared.b64 [{}];", in(reg32) address, options(nostack))
    }
    #[cfg(not(target_arch = "nvptx64"))]
    moye_sim::intrinsics::mbarrier_inval(address);
}

/// Arrives and returns the state of the arrival's phase (`mbarrier.arrive`).
///
/// # Safety
/// `address` is the address of an mbarrier that [`mbarrier_init`] has initialised.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn mbarrier_arrive(address: u32) -> u64 {
    needs!("mbarrier.arrive", 80 7.0);
    #[cfg(target_arch = "nvptx64")]
    {
        let state: u64;
        // SAFETY: an initialised mbarrier.
        unsafe {
            core::arch::asm!(
                "mbarrier.arrive.shared.b64 {state}, [{address}];",
                state = out(reg64) state, address = in(reg32) address, options(nostack)
            )
        };
        state
    }
    #[cfg(not(target_arch = "nvptx64"))]
    moye_sim::intrinsics::mbarrier_arrive(address)
}

/// Whether the phase of `state` is complete; writes before its arrivals are then visible
/// (`mbarrier.test_wait`).
///
/// # Safety
/// Same contract as [`mbarrier_arrive`], which returned the state in this phase or the previous
/// one.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn mbarrier_test_wait(address: u32, state: u64) -> bool {
    needs!("mbarrier.test_wait", 80 7.0);
    #[cfg(target_arch = "nvptx64")]
    {
        let done: u32;
        // SAFETY: an initialised mbarrier, and a state of its current or previous phase.
        unsafe {
            core::arch::asm!(
                "{{ .reg .pred p; mbarrier.test_wait.shared.b64 p, [{address}], {state}; selp.b32 {done}, 1, 0, p; }}",
                done = out(reg32) done, address = in(reg32) address, state = in(reg64) state, options(nostack)
            )
        };
        done != 0
    }
    #[cfg(not(target_arch = "nvptx64"))]
    moye_sim::intrinsics::mbarrier_test_wait(address, state)
}

/// Waits until the phase of `state` is complete.
///
/// # Safety
/// Same contract as [`mbarrier_test_wait`].
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn mbarrier_wait(address: u32, state: u64) {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: same contract as `mbarrier_test_wait`.
    while !unsafe { mbarrier_test_wait(address, state) } {}
    #[cfg(not(target_arch = "nvptx64"))]
    moye_sim::intrinsics::mbarrier_wait(address, state);
}

/// Makes the thread arrive when all its `cp.async` copies so far are complete. The phase expects
/// this arrival in addition to the arrivals of the initialisation (`cp.async.mbarrier.arrive`).
///
/// # Safety
/// Same contract as [`mbarrier_arrive`]; the current phase cannot end before the call.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn cp_async_mbarrier_arrive(address: u32) {
    needs!("cp.async.mbarrier.arrive", 80 7.0);
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: an initialised mbarrier, whose phase cannot end before.
    unsafe {
        core::arch::asm!("cp.async.mbarrier.arrive.shared.b64 [{}];", in(reg32) address, options(nostack))
    }
    #[cfg(not(target_arch = "nvptx64"))]
    moye_sim::intrinsics::cp_async_mbarrier_arrive(address, false);
}

/// [`cp_async_mbarrier_arrive`] as one of the arrivals of the initialised count (`.noinc`).
///
/// # Safety
/// Same contract as [`mbarrier_arrive`].
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn cp_async_mbarrier_arrive_noinc(address: u32) {
    needs!("cp.async.mbarrier.arrive.noinc", 80 7.0);
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: an initialised mbarrier, which counts this arrival.
    unsafe {
        core::arch::asm!("cp.async.mbarrier.arrive.noinc.shared.b64 [{}];", in(reg32) address, options(nostack))
    }
    #[cfg(not(target_arch = "nvptx64"))]
    moye_sim::intrinsics::cp_async_mbarrier_arrive(address, true);
}
