//! Waits for flags that streams set, on this GPU or another.

use super::target::needs;

/// Waits until the word at `address` has reached `value`, modulo 2^32 (`ld.acquire.sys.global.u32`
/// in a loop).
///
/// A stream must raise the word by `cuStreamWriteValue32`, on this GPU or on another one with
/// access to its memory: this thread's later accesses then see the stream's earlier writes. A flag
/// that other blocks of the same grid raise could deadlock on a block that has not started.
///
/// # Safety
/// `address` is the address of an aligned word in global memory.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn wait_flag(address: u64, value: u32) {
    needs!("ld.acquire.sys", 70 6.0);
    #[cfg(target_arch = "nvptx64")]
    loop {
        let found: u32;
        // SAFETY: an aligned word of accessible memory.
        unsafe {
            core::arch::asm!(
                "ld.acquire.sys.global.u32 {found}, [{address}];",
                found = out(reg32) found, address = in(reg64) address, options(nostack)
            )
        };
        if found.wrapping_sub(value) as i32 >= 0 {
            return;
        }
    }
    #[cfg(not(target_arch = "nvptx64"))]
    moye_sim::intrinsics::wait_flag(address, value)
}
