//! tf32: the part of an f32 that tensor cores read.

use super::scalar::{Number, Scalar, number, to_odd_f32};
use crate::memory::Element;

/// A value of NVIDIA's tf32: sign, 8 bits of exponent, 10 bits of fraction, stored as an f32.
///
/// A tensor core reads the upper 19 bits and ignores the 13 below. So any f32 bits are a `Tf32`
/// with the value truncated towards zero; [`Tf32::from_f32`] rounds instead. Two are equal if their
/// values are equal.
#[derive(Clone, Copy, Debug, Default)]
#[repr(transparent)]
pub struct Tf32(u32);

/// The bits that a tensor core ignores.
const IGNORED: u32 = (1 << 13) - 1;

number! { Tf32: "tf32", 32, u32; }

// SAFETY: 32 plain bits; all patterns are valid.
unsafe impl Element for Tf32 {
    const NAME: &'static str = "tf32";
    type Bits = u32;
}

impl Tf32 {
    /// The value with these bits; the lower 13 are ignored.
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// The bits, including the ignored ones.
    pub const fn to_bits(self) -> u32 {
        self.0
    }

    /// The nearest tf32, ties away from zero: for finite values and infinities the result of PTX's
    /// `cvt.rna.tf32.f32`.
    ///
    /// A NaN stays NaN: its highest fraction bit is set. The instruction
    /// ([`f32_to_tf32`](crate::arch::f32_to_tf32)) drops the ignored bits, which turns a NaN
    /// without other fraction bits into an infinity.
    ///
    /// ```
    /// use moye_device::number::Tf32;
    /// let tie = 1.0 + 1.0 / 2048.0;
    /// assert_eq!(Tf32::from_f32(tie).to_f32(), 1.0 + 1.0 / 1024.0);
    /// assert_eq!(Tf32::from_bits(tie.to_bits()).to_f32(), 1.0, "bits are truncated");
    /// ```
    #[inline]
    pub const fn from_f32(value: f32) -> Self {
        if !value.is_finite() {
            // A NaN keeps a bit that is not ignored.
            return Self(if value.is_nan() { value.to_bits() | 1 << 22 } else { value.to_bits() });
        }
        // A carry out of the fraction correctly raises the exponent, up to infinity.
        Self((value.to_bits() + (1 << 12)) & !IGNORED)
    }

    /// The value.
    #[inline]
    pub const fn to_f32(self) -> f32 {
        f32::from_bits(self.0 & !IGNORED)
    }
}

impl PartialEq for Tf32 {
    fn eq(&self, other: &Self) -> bool {
        self.to_f32() == other.to_f32()
    }
}

impl Scalar for Tf32 {
    fn from_low_bits(bits: u64) -> Self {
        Self(bits as u32)
    }
    fn low_bits(self) -> u64 {
        u64::from(self.0)
    }
    fn to_f64(self) -> f64 {
        f64::from(self.to_f32())
    }
    fn nearest(value: f64) -> Self {
        let bits = to_odd_f32(value).to_bits();
        if !value.is_finite() {
            return Self::from_f32(f32::from_bits(bits));
        }
        let half = IGNORED >> 1;
        let odd = bits >> 13 & 1;
        Self((bits + half + odd) & !IGNORED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_is_away_from_zero_on_ties_and_to_even_for_nearest() {
        let ulp = f32::powi(2.0, -10);
        for (value, away, even) in [
            (1.0 + ulp / 2.0, 1.0 + ulp, 1.0),
            (-1.0 - ulp / 2.0, -1.0 - ulp, -1.0),
            (1.0 + 1.5 * ulp, 1.0 + 2.0 * ulp, 1.0 + 2.0 * ulp),
            (1.0 + 0.49 * ulp, 1.0, 1.0),
            (0.0, 0.0, 0.0),
        ] {
            assert_eq!(Tf32::from_f32(value).to_f32(), away, "{value}");
            assert_eq!(Tf32::nearest(f64::from(value)).to_f64(), f64::from(even), "{value}");
        }
    }

    #[test]
    fn what_is_not_finite_stays_what_it_is() {
        assert_eq!(Tf32::from_f32(f32::NEG_INFINITY).to_f32(), f32::NEG_INFINITY);
        assert_eq!(Tf32::from_f32(f32::MAX).to_f32(), f32::INFINITY, "beyond the largest tf32");
        assert!(Tf32::from_f32(f32::from_bits(0x7f80_0001)).to_f32().is_nan());
        assert!(Tf32::nearest(f64::NAN).to_f32().is_nan());
    }
}
