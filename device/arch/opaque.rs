//! A value that the compiler knows nothing of.

/// The same value, of which the compiler takes for possible that it is another each time: what is computed from it stays where it
/// is written, and does not take registers ahead of a loop.
///
/// No instruction stands for it.
#[inline(always)]
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
