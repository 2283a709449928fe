//! The maximum that propagates NaN, and the magnitude: `max.NaN.f32`, `abs.f32`.

/// The larger of two values; NaN if either is NaN; `+0` is larger than `-0`.
///
/// [`f32::max`] is the instruction without `.NaN`: if one operand is NaN, it returns the other.
///
/// ```
/// use moye_device::arch::max_nan_f32;
/// assert_eq!(max_nan_f32(-3.0, -0.0).to_bits(), (-0.0f32).to_bits());
/// assert_eq!(max_nan_f32(0.0, -0.0).to_bits(), 0);
/// assert!(max_nan_f32(f32::NAN, -0.0).is_nan());
/// ```
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
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
        // The canonical NaN of the instruction.
        f32::from_bits(0x7fff_ffff)
    } else if a > b || a == b && a.is_sign_positive() {
        a
    } else {
        b
    }
}

/// The magnitude of a value.
///
/// `ptxas` folds it into a modifier of the instruction that uses it. [`f32::abs`] of a register
/// that LLVM holds as an integer becomes a separate `and` instead.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
#[must_use]
pub fn abs_f32(x: f32) -> f32 {
    #[cfg(target_arch = "nvptx64")]
    {
        let d: f32;
        // SAFETY: arithmetic on registers.
        unsafe {
            core::arch::asm!(
                "abs.f32 {d}, {a};", d = lateout(reg32) d, a = in(reg32) x, options(pure, nomem, nostack)
            )
        };
        d
    }
    #[cfg(not(target_arch = "nvptx64"))]
    x.abs()
}

/// The largest of three integers: one instruction on sm_90 (`VIMNMX3`), two on older GPUs.
///
/// ```
/// use moye_device::arch::max3_i32;
/// assert_eq!(max3_i32(-3, 7, 2), 7);
/// ```
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
#[must_use]
pub fn max3_i32(a: i32, b: i32, c: i32) -> i32 {
    #[cfg(target_arch = "nvptx64")]
    {
        let d: i32;
        // SAFETY: arithmetic on registers.
        unsafe {
            core::arch::asm!(
                "{{ .reg .s32 t; max.s32 t, {a}, {b}; max.s32 {d}, t, {c}; }}",
                d = lateout(reg32) d, a = in(reg32) a, b = in(reg32) b, c = in(reg32) c,
                options(pure, nomem, nostack)
            )
        };
        d
    }
    #[cfg(not(target_arch = "nvptx64"))]
    a.max(b).max(c)
}
