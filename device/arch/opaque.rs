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

/// The same value, once `read` is in its register: an instruction that takes it comes behind the load that brings `read`, which it might
/// pass otherwise.
///
/// Three instructions: what they add is the count of set bits of `read`, 32 at most, without its last six bits.
#[inline(always)]
#[must_use]
pub fn behind(value: u32, read: u32) -> u32 {
    #[cfg(target_arch = "nvptx64")]
    {
        let mut value = value;
        // SAFETY: it adds 0.
        unsafe {
            core::arch::asm!(
                "{{ .reg .b32 bits; popc.b32 bits, {read}; shr.u32 bits, bits, 6; add.u32 {value}, {value}, bits; }}",
                value = inout(reg32) value, read = in(reg32) read, options(nostack, preserves_flags)
            )
        };
        value
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        let _ = read;
        value
    }
}
