//! `prmt`: selects bytes of two registers.

/// Four of the eight bytes of `a` (0 to 3, lowest first) and `b` (4 to 7): hexadecimal digit `i` of
/// `selector`, lowest first, is the index of result byte `i` (`prmt.b32`, CUDA's `__byte_perm`).
/// Digits are below 8: bit 3 would replicate a sign.
///
/// ```
/// use moye_device::arch::prmt;
/// assert_eq!(prmt(0x3322_1100, 0x7766_5544, 0x6420), 0x6644_2200);
/// ```
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
#[must_use]
pub fn prmt(a: u32, b: u32, selector: u32) -> u32 {
    #[cfg(target_arch = "nvptx64")]
    {
        let d: u32;
        // SAFETY: arithmetic on registers.
        unsafe {
            core::arch::asm!(
                "prmt.b32 {d}, {a}, {b}, {selector};",
                d = out(reg32) d, a = in(reg32) a, b = in(reg32) b, selector = in(reg32) selector,
                options(pure, nomem, nostack)
            )
        };
        d
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        super::simulator_assert!(
            selector & 0xffff_8888 == 0,
            "prmt: the selector is {selector:#x}, and has four digits below 8"
        );
        let bytes = (u64::from(b) << 32 | u64::from(a)).to_le_bytes();
        u32::from_le_bytes(core::array::from_fn(|i| bytes[(selector >> (4 * i) & 7) as usize]))
    }
}
