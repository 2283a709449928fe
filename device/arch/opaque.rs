//! A value that the compiler knows nothing of.

/// The same value, which the compiler must assume to differ each time: computations from it stay
/// where they are written, and take no registers ahead of a loop.
///
/// It has no instruction.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
#[must_use]
pub fn opaque(value: u32) -> u32 {
    #[cfg(target_arch = "nvptx64")]
    {
        let mut value = value;
        // SAFETY: a comment and no instruction; the register stays as it is.
        unsafe { core::arch::asm!("// {}", inout(reg32) value, options(nostack, preserves_flags)) };
        value
    }
    #[cfg(not(target_arch = "nvptx64"))]
    value
}
