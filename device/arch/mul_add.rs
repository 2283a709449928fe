//! `d = a * b + c` for operands of different types: what `UniversalFma` is made of.

use super::Fma;
use crate::number::{Complex64, Number};
use half::{bf16, f16};

/// A type that sums products of an `A` and a `B` onto a `C`.
///
/// Operands are widened to the result's type first, as C++'s arithmetic does, and the sum is rounded once.
pub trait MulAdd<A, B, C>: Number {
    /// `a * b + c`.
    fn mul_add(a: A, b: B, c: C) -> Self;
}

macro_rules! same {
    ($($t:ty),*) => { $(
        impl MulAdd<$t, $t, $t> for $t {
            #[inline(always)]
            fn mul_add(a: $t, b: $t, c: $t) -> $t {
                a.fma(b, c)
            }
        }
    )* };
}
same!(f32, f64, f16, bf16, i32, u32, i64, u64);

macro_rules! widened {
    ($($narrow:ty as $wide:ty = $widen:path;)*) => { $(
        impl MulAdd<$narrow, $narrow, $wide> for $wide {
            #[inline(always)]
            fn mul_add(a: $narrow, b: $narrow, c: $wide) -> $wide {
                $widen(a).fma($widen(b), c)
            }
        }
    )* };
}
widened! {
    f16 as f32 = super::f16_to_f32;
    bf16 as f32 = super::bf16_to_f32;
    f32 as f64 = f64::from;
    i8 as i32 = i32::from;
    u8 as i32 = i32::from;
    i16 as i32 = i32::from;
}

impl MulAdd<Complex64, Complex64, Complex64> for Complex64 {
    /// Four fused multiply-adds, each rounded once: the parts of `a` one after the other.
    #[inline(always)]
    fn mul_add(a: Complex64, b: Complex64, c: Complex64) -> Complex64 {
        let (re, im) = (a.re.fma(b.re, c.re), a.re.fma(b.im, c.im));
        Complex64::new((-a.im).fma(b.im, re), a.im.fma(b.re, im))
    }
}
