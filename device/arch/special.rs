//! Approximate functions of the special function unit: `ex2.approx`, `rcp.approx`.
//!
//! The GPU's results are off by 2 units in the last place at most ("Floating Point Instructions" in NVIDIA's "PTX ISA"); the
//! simulator rounds the exact value to the nearest. Subnormal operands and results count as zeros (`ftz`) in both.

macro_rules! special {
    ($(#[$doc:meta])* $name:ident, $ptx:literal, |$x:ident| $simulated:expr) => {
        $(#[$doc])*
        #[inline(always)]
        #[must_use]
        pub fn $name($x: f32) -> f32 {
            #[cfg(target_arch = "nvptx64")]
            {
                let d: f32;
                // SAFETY: arithmetic on registers.
                unsafe {
                    core::arch::asm!(
                        concat!($ptx, " {d}, {a};"),
                        d = lateout(reg32) d, a = in(reg32) $x, options(pure, nomem, nostack)
                    )
                };
                d
            }
            #[cfg(not(target_arch = "nvptx64"))]
            {
                let $x = flushed($x);
                flushed($simulated)
            }
        }
    };
}
special! {
    /// `2^x`.
    ///
    /// ```
    /// use moye_device::arch::ex2_approx_f32;
    /// assert_eq!(ex2_approx_f32(-3.0), 0.125);
    /// ```
    ex2_approx_f32, "ex2.approx.ftz.f32", |x| moye_sim::intrinsics::exp2_f32(x)
}
special! {
    /// `1 / x`.
    rcp_approx_f32, "rcp.approx.ftz.f32", |x| 1.0 / x
}

/// Zero, of the same sign, for a subnormal number.
#[cfg(not(target_arch = "nvptx64"))]
fn flushed(x: f32) -> f32 {
    if x.is_subnormal() { 0.0f32.copysign(x) } else { x }
}
