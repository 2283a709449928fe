//! Functions of the special function unit that `core` lacks.

/// `2^x`: `ex2`.
#[inline]
pub fn exp2_f32(x: f32) -> f32 {
    x.exp2()
}

/// The square root, rounded to nearest: `sqrt.rn.f32`, which `sqrt.approx` approximates.
#[inline]
pub fn sqrt_f32(x: f32) -> f32 {
    x.sqrt()
}

/// `1 / sqrt(x)`, rounded to nearest; `rsqrt.approx` approximates it.
#[inline]
pub fn rsqrt_f32(x: f32) -> f32 {
    (1.0 / f64::from(x).sqrt()) as f32
}

/// The logarithm to base 2; `lg2.approx` approximates it.
#[inline]
pub fn log2_f32(x: f32) -> f32 {
    f64::from(x).log2() as f32
}

/// The hyperbolic tangent; `tanh.approx` approximates it.
#[inline]
pub fn tanh_f32(x: f32) -> f32 {
    f64::from(x).tanh() as f32
}
