//! Conversions between floats, and from floats to integers, as `cvt` rounds them.
//!
//! A NaN becomes the canonical NaN of the result's format (all bits below the sign set), as in PTX.

use half::{bf16, f16};

/// The rounding of a value between two representable values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// To the nearest; ties to the value whose last bit is 0: `.rn`.
    NearestEven,
    /// To the nearest; ties to the value of larger magnitude: `.rna`.
    NearestAway,
    /// To the value of smaller magnitude: `.rz`.
    Zero,
}

/// A binary float format with subnormals, infinities and NaNs.
#[derive(Clone, Copy, Debug)]
struct Format {
    exponent_bits: u32,
    mantissa_bits: u32,
}

const F16: Format = Format { exponent_bits: 5, mantissa_bits: 10 };
const BF16: Format = Format { exponent_bits: 8, mantissa_bits: 7 };
const TF32: Format = Format { exponent_bits: 8, mantissa_bits: 10 };

impl Format {
    /// The bits of `value`, rounded once.
    fn round(self, value: f64, rounding: Rounding) -> u32 {
        let Self { exponent_bits, mantissa_bits } = self;
        let infinity = ((1 << exponent_bits) - 1) << mantissa_bits;
        if value.is_nan() {
            return (1 << (exponent_bits + mantissa_bits)) - 1;
        }
        let sign = u32::from(value.is_sign_negative()) << (exponent_bits + mantissa_bits);
        let magnitude = value.abs();
        if magnitude == f64::INFINITY {
            return sign | infinity;
        }
        let bias = (1 << (exponent_bits - 1)) - 1;
        let (mantissa, least) = (mantissa_bits as i32, 1 - bias);
        // The weight of the last bit. The exponent of a subnormal f64 is too low here; `max`
        // corrects it.
        let exponent = (magnitude.to_bits() >> 52) as i32 - 1023;
        let ulp = exponent.max(least) - mantissa;
        // A power of two scales exactly: the factor is within 2^150, the product within
        // 2^(mantissa + 1).
        let scaled = magnitude * f64::exp2(f64::from(-ulp));
        let rounded = match rounding {
            Rounding::NearestEven => scaled.round_ties_even(),
            Rounding::NearestAway => scaled.round(),
            Rounding::Zero => scaled.trunc(),
        };
        if ulp + mantissa > bias {
            let largest = rounding == Rounding::Zero;
            return sign | if largest { infinity - 1 } else { infinity };
        }
        // The leading bit of `rounded` adds one to the exponent field; a carry adds another, up to
        // infinity.
        let field = (ulp + mantissa - least) as u32;
        sign | ((field << mantissa_bits) + rounded as u32)
    }
}

/// The effect of `.relu`: a negative value becomes 0, a NaN stays NaN.
fn relu(value: f64) -> f64 {
    if value <= 0.0 { 0.0 } else { value }
}

macro_rules! narrow {
    ($($(#[$doc:meta])* $name:ident $relu:ident $format:ident -> $t:ident;)*) => { $(
        $(#[$doc])*
        pub fn $name(value: f32) -> $t {
            $t::from_bits($format.round(value.into(), Rounding::NearestEven) as u16)
        }

        #[doc = concat!("[`", stringify!($name), "`], with 0 for what is negative: `.relu`.")]
        pub fn $relu(value: f32) -> $t {
            $t::from_bits($format.round(relu(value.into()), Rounding::NearestEven) as u16)
        }
    )* };
}
narrow! {
    /// The nearest f16: `cvt.rn.f16.f32`.
    cvt_rn_f16 cvt_rn_relu_f16 F16 -> f16;
    /// The nearest bf16: `cvt.rn.bf16.f32`.
    cvt_rn_bf16 cvt_rn_relu_bf16 BF16 -> bf16;
}

/// The bits of `value` rounded to tf32, the 13 low bits 0: `cvt.{rn,rna,rz}{.relu}.tf32.f32`.
///
/// `.rna` truncates the payload of a NaN as it truncates a mantissa, so that a NaN with a payload
/// only in these bits becomes an infinity (observed on an H200). The other forms return the NaN of
/// all ones.
pub fn cvt_tf32(value: f32, rounding: Rounding, with_relu: bool) -> u32 {
    if value.is_nan() && rounding == Rounding::NearestAway {
        return value.to_bits() & !0x1FFF;
    }
    let value = if with_relu { relu(value.into()) } else { value.into() };
    if value.is_nan() { f32_canonical_nan() } else { TF32.round(value, rounding) << 13 }
}

/// The bits of the NaN that f32 instructions return.
fn f32_canonical_nan() -> u32 {
    0x7FFF_FFFF
}

/// The same value as an f32: `cvt.f32.f16`.
pub fn cvt_f32_f16(value: f16) -> f32 {
    if value.is_nan() { f32::from_bits(f32_canonical_nan()) } else { value.to_f32() }
}

macro_rules! integers {
    ($($(#[$doc:meta])* $name:ident $t:ty;)*) => { $(
        $(#[$doc])*
        pub fn $name(value: f32) -> $t {
            // The cast saturates, and maps NaN to 0.
            value.round_ties_even() as $t
        }
    )* };
}
integers! {
    /// The nearest integer within range, 0 for NaN: `cvt.rni.sat.s8.f32`.
    cvt_rni_sat_s8 i8;
    /// The nearest integer within range, 0 for NaN: `cvt.rni.sat.u8.f32`.
    cvt_rni_sat_u8 u8;
    /// The nearest integer within range, 0 for NaN: `cvt.rni.sat.s32.f32`.
    cvt_rni_sat_s32 i32;
    /// The nearest integer within range, 0 for NaN: `cvt.rni.sat.u32.f32`.
    cvt_rni_sat_u32 u32;
}

/// `a * b + c` rounded to odd in f64, so that rounding the result to a format of up to 25 bits of
/// mantissa rounds the exact value. The product is exact: both factors have at most 26 bits.
fn fused(a: f64, b: f64, c: f64) -> f64 {
    let product = a * b;
    let sum = product + c;
    if !sum.is_finite() {
        return sum;
    }
    // Knuth's two-sum: the exact error of the addition.
    let back = sum - product;
    let lost = (product - (sum - back)) + (c - back);
    let bits = sum.to_bits();
    if lost == 0.0 || bits & 1 == 1 {
        sum
    } else if (lost > 0.0) == (sum > 0.0) {
        f64::from_bits(bits + 1)
    } else {
        f64::from_bits(bits - 1)
    }
}

macro_rules! arithmetic {
    ($($t:ident $format:ident: $fma:ident $fma_relu:ident $min:ident $max:ident;)*) => { $(
        #[doc = concat!("`a * b + c`, rounded once: `fma.rn.", stringify!($t), "`.")]
        pub fn $fma(a: $t, b: $t, c: $t) -> $t {
            let sum = fused(a.to_f64(), b.to_f64(), c.to_f64());
            $t::from_bits($format.round(sum, Rounding::NearestEven) as u16)
        }

        #[doc = concat!("`a * b + c`, rounded once, 0 where that is negative: `fma.rn.relu.", stringify!($t), "`.")]
        pub fn $fma_relu(a: $t, b: $t, c: $t) -> $t {
            let sum = relu(fused(a.to_f64(), b.to_f64(), c.to_f64()));
            $t::from_bits($format.round(sum, Rounding::NearestEven) as u16)
        }

        #[doc = concat!("The smaller, the other where one is NaN; -0 is below 0: `min.", stringify!($t), "`.")]
        pub fn $min(a: $t, b: $t) -> $t {
            match (a.is_nan(), b.is_nan()) {
                (true, true) => $t::from_bits(0x7FFF),
                (true, false) => b,
                (false, true) => a,
                _ if a == b => if a.is_sign_negative() { a } else { b },
                _ => if a < b { a } else { b },
            }
        }

        #[doc = concat!("The larger, the other where one is NaN; -0 is below 0: `max.", stringify!($t), "`.")]
        pub fn $max(a: $t, b: $t) -> $t {
            match (a.is_nan(), b.is_nan()) {
                (true, true) => $t::from_bits(0x7FFF),
                (true, false) => b,
                (false, true) => a,
                _ if a == b => if a.is_sign_negative() { b } else { a },
                _ => if a > b { a } else { b },
            }
        }
    )* };
}
arithmetic! {
    f16 F16: fma_f16 fma_relu_f16 min_f16 max_f16;
    bf16 BF16: fma_bf16 fma_relu_bf16 min_bf16 max_bf16;
}

/// `a + b`: `add.rn.f16`.
pub fn add_f16(a: f16, b: f16) -> f16 {
    fma_f16(a, f16::ONE, b)
}

/// `a - b`: `sub.rn.f16`.
pub fn sub_f16(a: f16, b: f16) -> f16 {
    fma_f16(b, f16::NEG_ONE, a)
}

/// `a * b`: `mul.rn.f16`. Adding -0 changes no product, not even 0.
pub fn mul_f16(a: f16, b: f16) -> f16 {
    fma_f16(a, b, f16::NEG_ZERO)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every pattern of the upper 16 bits of an f32, with lower halves at and around every rounding
    /// boundary.
    fn samples() -> impl Iterator<Item = f32> {
        let low = [0, 1, 0x0FFF, 0x1000, 0x1001, 0x1FFF, 0x2000, 0x3000, 0x7FFF, 0x8000, 0x8001, 0xFFFF];
        (0..=u16::MAX).flat_map(move |high| low.map(|low| f32::from_bits(u32::from(high) << 16 | low)))
    }

    #[test]
    fn f16_and_bf16_are_rounded_as_the_crate_half_rounds_them() {
        for value in samples() {
            if value.is_nan() {
                assert_eq!(cvt_rn_f16(value).to_bits(), 0x7FFF, "{:#x}", value.to_bits());
                assert_eq!(cvt_rn_relu_bf16(value).to_bits(), 0x7FFF, "{:#x}", value.to_bits());
                continue;
            }
            let bits = value.to_bits();
            assert_eq!(cvt_rn_f16(value).to_bits(), f16::from_f32(value).to_bits(), "{value:e} ({bits:#x})");
            assert_eq!(
                cvt_rn_bf16(value).to_bits(),
                bf16::from_f32(value).to_bits(),
                "{value:e} ({bits:#x})"
            );
            let positive = if value > 0.0 { value } else { 0.0 };
            assert_eq!(cvt_rn_relu_f16(value).to_bits(), f16::from_f32(positive).to_bits(), "relu {value:e}");
            assert_eq!(
                cvt_rn_relu_bf16(value).to_bits(),
                bf16::from_f32(positive).to_bits(),
                "relu {value:e}"
            );
        }
    }

    #[test]
    fn tf32_is_f32_with_13_bits_rounded_off() {
        for value in samples().filter(|value| !value.is_nan()) {
            let bits = value.to_bits();
            let kept = bits & !0x1FFF;
            assert_eq!(cvt_tf32(value, Rounding::Zero, false), kept, "{value:e} cut off");
            // In units of the last kept bit, a carry into the exponent is the next value.
            let away = if value.is_infinite() { bits } else { (bits + 0x1000) & !0x1FFF };
            assert_eq!(cvt_tf32(value, Rounding::NearestAway, false), away, "{value:e} ties away");
            let tie = bits & 0x1FFF == 0x1000;
            let even = if tie && away & 0x2000 != 0 { kept } else { away };
            assert_eq!(cvt_tf32(value, Rounding::NearestEven, false), even, "{value:e} ties to even");
        }
        assert_eq!(cvt_tf32(f32::NAN, Rounding::NearestEven, true), 0x7FFF_FFFF);
        assert_eq!(cvt_tf32(f32::from_bits(0xFF80_0FFF), Rounding::NearestAway, false), 0xFF80_0000);
        assert_eq!(cvt_tf32(-1.0, Rounding::NearestAway, true), 0);
    }

    #[test]
    fn integers_are_the_nearest_within_range() {
        for (value, s8, u8_) in [(2.5, 2, 2), (-0.5, 0, 0), (3.5, 4, 4), (-200.0, -128, 0), (300.0, 127, 255)]
        {
            assert_eq!((cvt_rni_sat_s8(value), cvt_rni_sat_u8(value)), (s8, u8_), "{value}");
        }
        assert_eq!((cvt_rni_sat_s32(f32::NAN), cvt_rni_sat_u32(f32::INFINITY)), (0, u32::MAX));
        assert_eq!(cvt_rni_sat_s32(-3e9), i32::MIN);
    }

    #[test]
    fn a_fused_sum_is_rounded_once() {
        let bf16_of = |a: f64, b: f64, c: f64| BF16.round(fused(a, b, c), Rounding::NearestEven);
        let half_way = 1.0 + f64::exp2(-8.0);
        assert_eq!(bf16_of(half_way, 1.0, 0.0), 0x3F80, "a tie goes to even");
        assert_eq!(bf16_of(half_way, 1.0, f64::exp2(-130.0)), 0x3F81, "a tail far below breaks it upwards");
        assert_eq!(bf16_of(half_way, 1.0, -f64::exp2(-130.0)), 0x3F80, "or downwards");
        assert_eq!(bf16_of(-half_way, 1.0, -f64::exp2(-130.0)), 0xBF81, "the same below 0");
        assert_eq!(fma_relu_f16(f16::from_f32(-2.0), f16::from_f32(3.0), f16::ONE).to_bits(), 0);
        assert!(fma_f16(f16::INFINITY, f16::ZERO, f16::ONE).is_nan());
        assert_eq!(
            mul_f16(f16::NEG_ONE, f16::ZERO).to_bits(),
            0x8000,
            "the sign of a product that is 0 stays"
        );
    }

    #[test]
    fn sums_and_products_of_f16_are_the_nearest_to_the_exact_ones() {
        // In f64 the sum and the product of two f16 are exact, and so is their fixed-point value.
        let values = || (0..=u16::MAX).step_by(397).map(f16::from_bits).filter(|v| v.is_finite());
        for a in values() {
            for b in values() {
                let nearest = |exact: f64| F16.round(exact, Rounding::NearestEven) as u16;
                assert_eq!(add_f16(a, b).to_bits(), nearest(a.to_f64() + b.to_f64()), "{a} + {b}");
                assert_eq!(sub_f16(a, b).to_bits(), nearest(a.to_f64() - b.to_f64()), "{a} - {b}");
                assert_eq!(mul_f16(a, b).to_bits(), nearest(a.to_f64() * b.to_f64()), "{a} * {b}");
            }
        }
    }
}
