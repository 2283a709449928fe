//! Fused multiply-add, rounded once as on the GPU.
//!
//! The standard library's `mul_add` rounds once too, but if the host's compile-time instruction set
//! lacks the instruction, it calls a library function, which on some hosts computes in integers.
//! These functions test the processor at run time.

macro_rules! fma {
    ($(#[$doc:meta])* $name:ident, $t:ty) => {
        $(#[$doc])*
        #[inline]
        pub fn $name(a: $t, b: $t, c: $t) -> $t {
            #[cfg(all(target_arch = "x86_64", not(target_feature = "fma")))]
            {
                #[target_feature(enable = "fma")]
                fn fused(a: $t, b: $t, c: $t) -> $t {
                    a.mul_add(b, c)
                }
                if is_x86_feature_detected!("fma") {
                    // SAFETY: the processor has the instruction.
                    return unsafe { fused(a, b, c) };
                }
            }
            a.mul_add(b, c)
        }
    };
}
fma! {
    /// `a * b + c`: `fma.rn.f32`.
    fma_f32, f32
}
fma! {
    /// `a * b + c`: `fma.rn.f64`.
    fma_f64, f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_product_is_not_rounded_before_the_sum() {
        // (1 + e)^2 = 1 + 2e + e^2, of which a rounded product keeps 1 + 2e.
        let a = 1.0 + f32::EPSILON;
        assert_eq!(fma_f32(a, a, -(a * a)), f32::EPSILON * f32::EPSILON);
        let a = 1.0 + f64::EPSILON;
        assert_eq!(fma_f64(a, a, -(a * a)), f64::EPSILON * f64::EPSILON);
    }
}
