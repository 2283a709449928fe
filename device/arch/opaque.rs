//! A value that is opaque to the compiler.

/// Returns the value, which the compiler must assume to differ each time: computations from it are
/// not hoisted, and take no registers ahead of a loop.
///
/// It emits no instruction.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
#[must_use]
pub fn opaque(value: u32) -> u32 {
    #[cfg(target_arch = "nvptx64")]
    {
        let mut value = value;
        // SAFETY: a comment without an instruction; the register does not change.
        unsafe { core::arch::asm!("// {}", inout(reg32) value, options(nostack, preserves_flags)) };
        value
    }
    #[cfg(not(target_arch = "nvptx64"))]
    value
}
