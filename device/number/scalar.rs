//! The traits of number types in matrix instructions.

use crate::memory::Element;
use core::fmt::Debug;
use half::{bf16, f16};

/// A type that a matrix instruction multiplies or accumulates.
pub trait Number: Copy + PartialEq + Debug + Send + Sync + 'static {
    /// The name in tables: `f16`, `tf32`, `s4`, ...
    const NAME: &'static str;

    /// The bits of a value. Values are packed in a register without gaps, the first in the lowest
    /// bits.
    const WIDTH: usize;

    /// The register type that holds a value (or several, or a part of one): `f32`, `f64`, `i32`, or
    /// `u32` for packed bits.
    type Register: Element;
}

/// A [`Number`] of at most 64 bits, with conversions of its value.
pub trait Scalar: Number {
    /// The value with these bits; bits above [`Number::WIDTH`] are ignored.
    fn from_low_bits(bits: u64) -> Self;

    /// The value's bits.
    fn low_bits(self) -> u64;

    /// The exact value.
    fn to_f64(self) -> f64;

    /// The nearest value, ties to even. If `value` is too large: infinity if the type has one,
    /// otherwise the largest value of its sign.
    fn nearest(value: f64) -> Self;
}

/// A value of f64 as f32, rounded to odd: the last bit records whether anything was lost, so that a
/// further rounding to a type of at most 22 bits of precision equals a direct rounding.
#[expect(clippy::cast_possible_truncation, reason = "the rounding is what this function is for")]
#[inline(always)]
pub(super) fn to_odd_f32(value: f64) -> f32 {
    let nearest = value as f32;
    let back = f64::from(nearest);
    if back == value || !nearest.is_finite() || value.is_nan() {
        return nearest;
    }
    let bits = nearest.to_bits();
    if bits & 1 == 1 {
        return nearest;
    }
    // The nearest value is even and not exact: the odd neighbour on the value's side is the result.
    let away_from_zero = back.abs() < value.abs();
    f32::from_bits(if away_from_zero { bits + 1 } else { bits - 1 })
}

macro_rules! number {
    ($($t:ty: $name:literal, $bits:literal, $register:ty;)*) => { $(
        impl Number for $t {
            const NAME: &'static str = $name;
            const WIDTH: usize = $bits;
            type Register = $register;
        }
    )* };
}
pub(super) use number;

number! {
    f16: "f16", 16, u32;
    bf16: "bf16", 16, u32;
    f32: "f32", 32, f32;
    f64: "f64", 64, f64;
    i8: "s8", 8, u32;
    u8: "u8", 8, u32;
    i16: "s16", 16, u32;
    i32: "s32", 32, i32;
    u32: "u32", 32, u32;
    i64: "s64", 64, i64;
    u64: "u64", 64, u64;
}

macro_rules! half {
    ($($t:ty: |$bits:ident| $value:expr;)*) => { $(
        impl Scalar for $t {
            #[inline(always)]
            fn from_low_bits(bits: u64) -> Self {
                Self::from_bits(bits as u16)
            }
            #[inline(always)]
            fn low_bits(self) -> u64 {
                u64::from(self.to_bits())
            }
            #[inline(always)]
            fn to_f64(self) -> f64 {
                let $bits = self.to_bits();
                $value
            }
            #[inline(always)]
            fn nearest(value: f64) -> Self {
                Self::from_f32(to_odd_f32(value))
            }
        }
    )* };
}
half! {
    f16: |bits| f16_to_f64(bits);
    bf16: |bits| f64::from(f32::from_bits(u32::from(bits) << 16));
}

/// The value of an f16's bits. The simulator decodes each operand of a tensor core with it; the
/// crate `half` takes several calls.
#[inline(always)]
fn f16_to_f64(bits: u16) -> f64 {
    // The exponent's bias is 15 instead of 1023; subnormal values stay subnormal until they are
    // scaled.
    const SCALE: f64 = f64::from_bits((1023 + 1023 - 15) << 52);
    let magnitude = bits & 0x7FFF;
    let value = match magnitude {
        0x7C00 => f64::INFINITY,
        0x7C01.. => f64::NAN,
        _ => f64::from_bits(u64::from(magnitude) << 42) * SCALE,
    };
    if bits == magnitude { value } else { -value }
}

impl Scalar for f32 {
    #[inline(always)]
    fn from_low_bits(bits: u64) -> Self {
        Self::from_bits(bits as u32)
    }
    #[inline(always)]
    fn low_bits(self) -> u64 {
        u64::from(self.to_bits())
    }
    #[inline(always)]
    fn to_f64(self) -> f64 {
        f64::from(self)
    }
    #[inline(always)]
    fn nearest(value: f64) -> Self {
        value as Self
    }
}

impl Scalar for f64 {
    #[inline(always)]
    fn from_low_bits(bits: u64) -> Self {
        Self::from_bits(bits)
    }
    #[inline(always)]
    fn low_bits(self) -> u64 {
        self.to_bits()
    }
    #[inline(always)]
    fn to_f64(self) -> f64 {
        self
    }
    #[inline(always)]
    fn nearest(value: f64) -> Self {
        value
    }
}

macro_rules! integer {
    ($($t:ty as $unsigned:ty),*) => { $(
        impl Scalar for $t {
            #[inline(always)]
            fn from_low_bits(bits: u64) -> Self {
                bits as $unsigned as Self
            }
            #[inline(always)]
            fn low_bits(self) -> u64 {
                u64::from(self as $unsigned)
            }
            #[inline(always)]
            fn to_f64(self) -> f64 {
                f64::from(self)
            }
            #[inline(always)]
            fn nearest(value: f64) -> Self {
                round_ties_even(value) as Self
            }
        }
    )* };
}
integer!(i8 as u8, u8 as u8, i16 as u16, i32 as u32);

/// The nearest integer, ties to even, of a value below 2^52 in magnitude; larger values are already
/// integers.
pub(super) fn round_ties_even(value: f64) -> f64 {
    const WHOLE: f64 = 4_503_599_627_370_496.0; // 2^52
    if value.is_nan() || value.abs() >= WHOLE {
        return value;
    }
    // Adding 2^52 leaves no bits for a fraction, and the addition rounds to nearest, ties to even.
    if value < 0.0 { (value - WHOLE) + WHOLE } else { (value + WHOLE) - WHOLE }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_half_is_the_nearest_even_where_two_roundings_would_not_be() {
        // A tie of f16, and a value so little above it that f32 cannot distinguish them.
        let tie = 1.0 + f64::powi(2.0, -11);
        let above = tie + f64::powi(2.0, -40);
        assert_eq!(f16::nearest(tie).to_f64(), 1.0, "a tie goes to the even neighbour");
        assert_eq!(f16::nearest(above).to_f64(), 1.0 + f64::powi(2.0, -10), "above the tie is above");
        assert_eq!(f16::nearest(-above).to_f64(), -1.0 - f64::powi(2.0, -10));
        assert_eq!(f16::nearest(1e9).to_f64(), f64::INFINITY);
        assert!(f16::nearest(f64::NAN).to_f64().is_nan());
    }

    #[test]
    fn the_value_of_each_16_bit_float_is_that_of_the_crate_half() {
        for bits in 0..=u16::MAX {
            let (of_f16, of_bf16) = (f16::from_bits(bits), bf16::from_bits(bits));
            for (got, want) in [
                (Scalar::to_f64(of_f16), f64::from(of_f16.to_f32())),
                (Scalar::to_f64(of_bf16), f64::from(of_bf16.to_f32())),
            ] {
                let same = if want.is_nan() { got.is_nan() } else { got.to_bits() == want.to_bits() };
                assert!(same, "{got:e} of {bits:#x}, and {want:e}");
            }
        }
    }

    #[test]
    fn every_16_bit_float_is_its_own_nearest() {
        for bits in 0..=u16::MAX {
            let value = f16::from_bits(bits);
            if !value.is_nan() {
                assert_eq!(f16::nearest(value.to_f64()).to_bits(), bits);
            }
            let value = bf16::from_bits(bits);
            if !value.is_nan() {
                assert_eq!(bf16::nearest(value.to_f64()).to_bits(), bits);
            }
        }
    }

    #[test]
    fn integers_round_ties_to_even_and_saturate() {
        for (value, expected) in [(2.5, 2), (3.5, 4), (-2.5, -2), (-0.6, -1), (1e9, 127), (-1e9, -128)] {
            assert_eq!(i8::nearest(value), expected, "{value}");
        }
        assert_eq!(i32::from_low_bits(i8::from_low_bits(0xff).low_bits()), 255, "bits, not values");
        assert_eq!(i8::from_low_bits(0xff), -1);
    }
}
