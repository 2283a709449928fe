//! Approximate functions of the special function unit (`ex2.approx`, `rcp.approx` and similar) and
//! the exact square root.
//!
//! Each documents the error bound of the GPU's results ("Floating Point Instructions" in NVIDIA's
//! "PTX ISA"); the simulator rounds the exact value to the nearest. Both flush subnormal operands
//! and results to zero (`ftz`).

macro_rules! special {
    ($(#[$doc:meta])* $name:ident, $ptx:literal, |$x:ident| $simulated:expr) => {
        $(#[$doc])*
        #[inline(always)]
        #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
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
                moye_sim::intrinsics::count_instruction($ptx);
                let $x = flushed($x);
                flushed($simulated)
            }
        }
    };
}
special! {
    /// `2^x`, within 2 units in the last place.
    ///
    /// ```
    /// use moye_device::arch::ex2_approx_f32;
    /// assert_eq!(ex2_approx_f32(-3.0), 0.125);
    /// ```
    ex2_approx_f32, "ex2.approx.ftz.f32", |x| moye_sim::intrinsics::exp2_f32(x)
}
special! {
    /// `1 / x`, within 1 unit in the last place.
    rcp_approx_f32, "rcp.approx.ftz.f32", |x| 1.0 / x
}
special! {
    /// The square root, within 2^-23 of its value.
    sqrt_approx_f32, "sqrt.approx.ftz.f32", |x| moye_sim::intrinsics::sqrt_f32(x)
}
special! {
    /// `1 / sqrt(x)`, within 2^-22.9 of its value.
    rsqrt_approx_f32, "rsqrt.approx.ftz.f32", |x| moye_sim::intrinsics::rsqrt_f32(x)
}
special! {
    /// The logarithm to base 2, within 2^-22 of its value; between 1/2 and 2 within 2^-22
    /// absolutely.
    lg2_approx_f32, "lg2.approx.ftz.f32", |x| moye_sim::intrinsics::log2_f32(x)
}

/// The hyperbolic tangent, within 2^-11 of its value (`tanh.approx.f32`, from sm_75 on). Subnormals
/// are kept.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
#[must_use]
pub fn tanh_approx_f32(x: f32) -> f32 {
    super::target::needs!("tanh.approx.f32", 75 7.0);
    #[cfg(target_arch = "nvptx64")]
    {
        let d: f32;
        // SAFETY: arithmetic on registers.
        unsafe {
            core::arch::asm!(
                "tanh.approx.f32 {d}, {a};",
                d = lateout(reg32) d, a = in(reg32) x, options(pure, nomem, nostack)
            )
        };
        d
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        moye_sim::intrinsics::count_instruction("tanh.approx.f32");
        moye_sim::intrinsics::tanh_f32(x)
    }
}

/// The square root, rounded to the nearest (`sqrt.rn.f32`): the same bits on every machine.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
#[must_use]
pub fn sqrt_rn_f32(x: f32) -> f32 {
    #[cfg(target_arch = "nvptx64")]
    {
        let d: f32;
        // SAFETY: arithmetic on registers.
        unsafe {
            core::arch::asm!(
                "sqrt.rn.f32 {d}, {a};",
                d = lateout(reg32) d, a = in(reg32) x, options(pure, nomem, nostack)
            )
        };
        d
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        moye_sim::intrinsics::count_instruction("sqrt.rn.f32");
        moye_sim::intrinsics::sqrt_f32(x)
    }
}

/// For a subnormal value, zero of the same sign.
#[cfg(not(target_arch = "nvptx64"))]
fn flushed(x: f32) -> f32 {
    if x.is_subnormal() { 0.0f32.copysign(x) } else { x }
}
