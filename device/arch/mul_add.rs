//! `d = a * b + c` for operands of different types: the operation of `UniversalFma`.

use super::Fma;
use crate::number::{Complex64, F8E4M3, F8E5M2, Number, Tf32};
use half::{bf16, f16};

/// A type that accumulates products of an `A` and a `B` onto a `C`.
///
/// Operands are first widened exactly to the result's type, and the sum is rounded once (for
/// complex numbers each part twice); integers wrap. `C` is the result's type:
///
/// | result | products of |
/// | --- | --- |
/// | f32, f64, f16, bf16, i32, u32, i64, u64, [`Complex64`] | two of the same type |
/// | f32 | f16, bf16 and f32, any two of them; [`Tf32`] twice; [`F8E4M3`] and [`F8E5M2`], any two of them |
/// | f64 | f32 and f64, any two of them |
/// | i32 | i8, u8 and i16, any two of them |
/// | u32 | u8 twice |
/// | i64 | i32 twice |
/// | u64 | u32 twice |
///
/// The constants are for the multiply-add only: operands are widened by a `cvt`, or shifts and
/// similar instructions, that every architecture has.
pub trait MulAdd<A, B, C>: Number {
    /// The instruction's name in PTX: `fma.rn.f32`. For integers, the compiler's choice for these
    /// operands: `mad.lo.s32`, or a `mul.wide` followed by an `add`.
    const INSTRUCTION: &'static str;
    /// The number of instructions: 1, except for complex numbers.
    const INSTRUCTION_COUNT: usize = 1;
    /// The oldest architecture that has it, 53 for sm_53; 0 if all have it.
    const OLDEST_ARCH: u32;
    /// The oldest PTX version that has it, major and minor.
    const PTX_VERSION: (u32, u32);

    /// `a * b + c`.
    fn mul_add(a: A, b: B, c: C) -> Self;
}

/// The constants of a multiply-add in type `$t`, with its instruction or another.
macro_rules! needs {
    ($t:ty $(, $instruction:literal)?) => {
        const INSTRUCTION: &'static str = needs!(@ $t $(, $instruction)?);
        const OLDEST_ARCH: u32 = <$t as Fma>::OLDEST_ARCH;
        const PTX_VERSION: (u32, u32) = <$t as Fma>::PTX_VERSION;
    };
    (@ $t:ty) => { <$t as Fma>::INSTRUCTION };
    (@ $t:ty, $instruction:literal) => { $instruction };
}

macro_rules! same {
    ($($t:ty),*) => { $(
        impl MulAdd<$t, $t, $t> for $t {
            needs!($t);

            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            fn mul_add(a: $t, b: $t, c: $t) -> $t {
                a.fma(b, c)
            }
        }
    )* };
}
same!(f32, f64, f16, bf16, i32, u32, i64, u64);

macro_rules! widened {
    ($($wide:ident { $($a:ident = $widen_a:path, $b:ident = $widen_b:path $(, $ptx:literal)?;)+ })*) => { $( $(
        impl MulAdd<$a, $b, $wide> for $wide {
            needs!($wide $(, $ptx)?);

            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            fn mul_add(a: $a, b: $b, c: $wide) -> $wide {
                $widen_a(a).fma($widen_b(b), c)
            }
        }
    )+ )* };
}
widened! {
    f32 {
        f16 = super::f16_to_f32, f16 = super::f16_to_f32;
        f16 = super::f16_to_f32, bf16 = super::bf16_to_f32;
        bf16 = super::bf16_to_f32, f16 = super::f16_to_f32;
        bf16 = super::bf16_to_f32, bf16 = super::bf16_to_f32;
        f16 = super::f16_to_f32, f32 = f32::from;
        f32 = f32::from, f16 = super::f16_to_f32;
        bf16 = super::bf16_to_f32, f32 = f32::from;
        f32 = f32::from, bf16 = super::bf16_to_f32;
        Tf32 = Tf32::to_f32, Tf32 = Tf32::to_f32;
        F8E4M3 = F8E4M3::to_f32, F8E4M3 = F8E4M3::to_f32;
        F8E4M3 = F8E4M3::to_f32, F8E5M2 = e5m2_to_f32;
        F8E5M2 = e5m2_to_f32, F8E4M3 = F8E4M3::to_f32;
        F8E5M2 = e5m2_to_f32, F8E5M2 = e5m2_to_f32;
    }
    f64 {
        f32 = f64::from, f32 = f64::from;
        f32 = f64::from, f64 = f64::from;
        f64 = f64::from, f32 = f64::from;
    }
    i32 {
        i8 = i32::from, i8 = i32::from;
        i8 = i32::from, u8 = i32::from;
        i8 = i32::from, i16 = i32::from;
        u8 = i32::from, i8 = i32::from;
        u8 = i32::from, u8 = i32::from;
        u8 = i32::from, i16 = i32::from;
        i16 = i32::from, i8 = i32::from;
        i16 = i32::from, u8 = i32::from;
        i16 = i32::from, i16 = i32::from, "mul.wide.s16";
    }
    u32 {
        u8 = u32::from, u8 = u32::from;
    }
    i64 {
        i32 = i64::from, i32 = i64::from, "mul.wide.s32";
    }
    u64 {
        u32 = u64::from, u32 = u64::from, "mul.wide.u32";
    }
}

/// The upper half of an f16, widened by the instruction of f16.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
fn e5m2_to_f32(value: F8E5M2) -> f32 {
    super::f16_to_f32(f16::from_bits(u16::from(value.to_bits()) << 8))
}

impl MulAdd<Complex64, Complex64, Complex64> for Complex64 {
    needs!(f64);
    const INSTRUCTION_COUNT: usize = 4;

    /// Four fused multiply-adds, each rounded once: first one part of `a`, then the other.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn mul_add(a: Complex64, b: Complex64, c: Complex64) -> Complex64 {
        let (re, im) = (a.re.fma(b.re, c.re), a.re.fma(b.im, c.im));
        Complex64::new((-a.im).fma(b.im, re), a.im.fma(b.re, im))
    }
}
