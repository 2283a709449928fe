//! Functions of the special function unit that `core` lacks.

/// `2^x`: `ex2`.
#[inline]
pub fn exp2_f32(x: f32) -> f32 {
    x.exp2()
}
