//! The block's dynamic shared memory.

#[cfg(target_arch = "nvptx64")]
core::arch::global_asm!(".extern .shared .align 1024 .b8 moye_shared[];");

/// The 32-bit start address of the block's shared memory, aligned to 1,024 bytes.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn shared_base() -> u32 {
    #[cfg(target_arch = "nvptx64")]
    {
        let address: u32;
        // SAFETY: takes the address of a symbol that this file declares.
        unsafe {
            core::arch::asm!("mov.u32 {}, moye_shared;", out(reg32) address, options(pure, nomem, nostack))
        };
        address
    }
    #[cfg(not(target_arch = "nvptx64"))]
    moye_sim::intrinsics::shared_base()
}
