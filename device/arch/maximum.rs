//! The maximum that keeps what is not a number: `max.NaN.f32`.

/// The larger of two numbers, not a number where either is not; `+0` is larger than `-0`.
///
/// [`f32::max`] is the instruction without `.NaN`, which gives the other number where one is not a number.
///
/// ```
/// use moye_device::arch::max_nan_f32;
/// assert_eq!(max_nan_f32(-3.0, -0.0).to_bits(), (-0.0f32).to_bits());
/// assert_eq!(max_nan_f32(0.0, -0.0).to_bits(), 0);
/// assert!(max_nan_f32(f32::NAN, -0.0).is_nan());
/// ```
#[inline(always)]
#[must_use]
pub fn max_nan_f32(a: f32, b: f32) -> f32 {
    super::target::needs!("max.NaN.f32", 80 7.0);
    #[cfg(target_arch = "nvptx64")]
    {
        let d: f32;
        // SAFETY: arithmetic on registers.
        unsafe {
            core::arch::asm!(
                "max.NaN.f32 {d}, {a}, {b};",
                d = lateout(reg32) d, a = in(reg32) a, b = in(reg32) b, options(pure, nomem, nostack)
            )
        };
        d
    }
    #[cfg(not(target_arch = "nvptx64"))]
    if a.is_nan() || b.is_nan() {
        // The instruction's own, whichever operand it comes from.
        f32::from_bits(0x7fff_ffff)
    } else if a > b || a == b && a.is_sign_positive() {
        a
    } else {
        b
    }
}
