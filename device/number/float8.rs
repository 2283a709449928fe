//! The 8-bit floats of the Open Compute Project, as in NVIDIA's tensor cores of sm_89 and later.

use super::scalar::{Number, Scalar, number};
use crate::memory::Element;
use half::f16;

/// An 8-bit float with 4 bits of exponent and 3 of fraction: up to 448, no infinities, NaN if all
/// bits except the sign are set.
#[derive(Clone, Copy, Debug, Default)]
#[repr(transparent)]
pub struct F8E4M3(u8);

/// An 8-bit float with 5 bits of exponent and 2 of fraction: the upper half of an f16, up to
/// 57,344, with infinities and NaNs.
#[derive(Clone, Copy, Debug, Default)]
#[repr(transparent)]
pub struct F8E5M2(u8);

number! {
    F8E4M3: "e4m3", 8, u32;
    F8E5M2: "e5m2", 8, u32;
}

macro_rules! float8 {
    ($t:ident, $name:literal, $largest:literal, $nan:literal, $ptx:literal) => {
        // SAFETY: 8 plain bits; all patterns are valid.
        unsafe impl Element for $t {
            const NAME: &'static str = $name;
            type Bits = u8;
        }

        impl $t {
            /// The largest finite value.
            pub const MAX: Self = Self($largest);

            /// NaN, as conversions return it.
            pub const NAN: Self = Self($nan);

            /// The value with these bits.
            pub const fn from_bits(bits: u8) -> Self {
                Self(bits)
            }

            /// The bits.
            pub const fn to_bits(self) -> u8 {
                self.0
            }

            #[doc = concat!("The nearest number, ties to even, at most ", stringify!($t), "::MAX in magnitude, also for infinities:")]
            #[doc = concat!("PTX's `", $ptx, "`.")]
            pub fn from_f32(value: f32) -> Self {
                if value.is_nan() {
                    return Self::NAN;
                }
                let sign = ((value.to_bits() >> 24) & 0x80) as u8;
                Self(sign | nearest(f64::from(value.abs()), |bits| Self(bits).to_f32(), $largest))
            }

            /// Whether it is NaN.
            pub fn is_nan(self) -> bool {
                self.to_f32().is_nan()
            }
        }

        impl PartialEq for $t {
            fn eq(&self, other: &Self) -> bool {
                self.to_f32() == other.to_f32()
            }
        }
    };
}
float8!(F8E4M3, "e4m3", 0x7e, 0x7f, "cvt.rn.satfinite.e4m3x2.f32");
float8!(F8E5M2, "e5m2", 0x7b, 0x7f, "cvt.rn.satfinite.e5m2x2.f32");

/// The bits, up to `largest`, of the value nearest to a magnitude, ties to even. `value_of`
/// increases with the bits.
fn nearest(magnitude: f64, value_of: impl Fn(u8) -> f32, largest: u8) -> u8 {
    let value_of = |bits| f64::from(value_of(bits));
    // The last value that is not above the magnitude, by bisection.
    let (mut low, mut high) = (0, largest + 1);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if value_of(middle) <= magnitude {
            low = middle;
        } else {
            high = middle;
        }
    }
    if low == largest {
        return largest;
    }
    let (below, above) = (magnitude - value_of(low), value_of(low + 1) - magnitude);
    // A tie goes to the even neighbour, whose last bit is 0.
    if above < below || (above == below && low & 1 == 1) { low + 1 } else { low }
}

impl F8E4M3 {
    /// The value.
    ///
    /// ```
    /// use moye_device::number::F8E4M3;
    /// assert_eq!(F8E4M3::MAX.to_f32(), 448.0);
    /// assert_eq!(F8E4M3::from_f32(1e9), F8E4M3::MAX, "there is no infinity");
    /// assert_eq!(F8E4M3::from_f32(0.3).to_f32(), 0.3125);
    /// ```
    #[inline]
    pub fn to_f32(self) -> f32 {
        let (exponent, fraction) = (i32::from(self.0 >> 3 & 15), self.0 & 7);
        if self.0 & 0x7f == 0x7f {
            return f32::NAN;
        }
        // Subnormal values have the exponent of the lowest normal ones and no leading one.
        let significand = f32::from(if exponent == 0 { fraction } else { fraction | 8 });
        // The scale is a power of two, 2^(exponent - 7 - 3), built from bits.
        let scale = f32::from_bits(((exponent.max(1) - 10 + 127) as u32) << 23);
        let magnitude = significand * scale;
        if self.0 & 0x80 == 0 { magnitude } else { -magnitude }
    }
}

impl F8E5M2 {
    /// The value.
    ///
    /// ```
    /// use moye_device::number::F8E5M2;
    /// assert_eq!(F8E5M2::MAX.to_f32(), 57344.0);
    /// assert_eq!(F8E5M2::from_bits(0x7c).to_f32(), f32::INFINITY);
    /// ```
    pub fn to_f32(self) -> f32 {
        f16::from_bits(u16::from(self.0) << 8).to_f32()
    }
}

macro_rules! scalar {
    ($($t:ident: $beyond:literal, $infinity:expr;)*) => { $(
        impl Scalar for $t {
            fn from_low_bits(bits: u64) -> Self {
                Self(bits as u8)
            }
            fn low_bits(self) -> u64 {
                u64::from(self.0)
            }
            fn to_f64(self) -> f64 {
                f64::from(self.to_f32())
            }
            fn nearest(value: f64) -> Self {
                if value.is_nan() {
                    return Self::NAN;
                }
                let sign = if value.is_sign_negative() { 0x80 } else { 0 };
                if value.abs() >= $beyond {
                    return Self(sign | $infinity);
                }
                Self(sign | nearest(value.abs(), |bits| Self(bits).to_f32(), Self::MAX.0))
            }
        }
    )* };
}
scalar! {
    F8E4M3: 448.0, Self::MAX.0;
    // From the midpoint between the largest value and the next power of two on, it is infinity.
    F8E5M2: 61440.0, 0x7c;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_its_own_nearest() {
        for bits in 0..=u8::MAX {
            let (a, b) = (F8E4M3(bits), F8E5M2(bits));
            if !a.is_nan() {
                assert_eq!(F8E4M3::from_f32(a.to_f32()).0, bits, "e4m3 {bits:#x} is {}", a.to_f32());
                assert_eq!(F8E4M3::nearest(a.to_f64()).0, bits);
            }
            if b.to_f32().is_finite() {
                assert_eq!(F8E5M2::from_f32(b.to_f32()).0, bits, "e5m2 {bits:#x} is {}", b.to_f32());
                assert_eq!(F8E5M2::nearest(b.to_f64()).0, bits);
            }
        }
    }

    #[test]
    fn the_values_are_those_of_the_formats() {
        for (bits, value) in [
            (0x00, 0.0),
            (0x01, f32::powi(2.0, -9)),
            (0x08, f32::powi(2.0, -6)),
            (0x38, 1.0),
            (0x3c, 1.5),
            (0xb8, -1.0),
        ] {
            assert_eq!(F8E4M3(bits).to_f32(), value, "e4m3 {bits:#x}");
        }
        for (bits, value) in
            [(0x01, f32::powi(2.0, -16)), (0x3c, 1.0), (0x3e, 1.5), (0xfc, f32::NEG_INFINITY)]
        {
            assert_eq!(F8E5M2(bits).to_f32(), value, "e5m2 {bits:#x}");
        }
        assert!(F8E4M3(0xff).is_nan() && F8E5M2(0x7d).is_nan());
    }

    #[test]
    fn ties_go_to_even_and_too_large_values_saturate() {
        for (value, expected) in [(17.0, 16.0), (19.0, 20.0), (-1e30, -448.0), (f32::INFINITY, 448.0)] {
            assert_eq!(F8E4M3::from_f32(value).to_f32(), expected, "{value}");
        }
        assert_eq!(
            F8E5M2::from_f32(f32::INFINITY).to_f32(),
            57344.0,
            "as the instruction does with satfinite"
        );
        assert_eq!(F8E5M2::nearest(61440.0).to_f32(), f32::INFINITY);
        assert!(F8E4M3::from_f32(f32::NAN).is_nan() && F8E5M2::from_f32(f32::NAN).is_nan());
    }
}
