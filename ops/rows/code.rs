//! 8-bit elements: conversions from and to f32, of a type that is chosen at run time.

use half::f16;
use moye_device::arch::{Convert, f32_to_i8_saturating, prmt};

/// Below this maximum magnitude the scale is 1: the inverse of a smaller scale would be infinite.
pub const LEAST: f32 = 1e-30;

/// An 8-bit type: int8, e4m3 or e5m2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Code {
    /// int8, -127 to 127 with the group's scale.
    I8,
    /// e4m3, up to 448.
    E4m3,
    /// e5m2, up to 57,344.
    E5m2,
}

impl Code {
    /// The greatest value.
    pub const fn greatest(self) -> f32 {
        match self {
            Self::I8 => 127.0,
            Self::E4m3 => 448.0,
            Self::E5m2 => 57_344.0,
        }
    }
}

#[cfg(not(target_arch = "nvptx64"))]
impl Code {
    /// The code of an 8-bit element type.
    pub const fn of(dtype: moye_runtime::operation::Dtype) -> Self {
        match dtype {
            moye_runtime::operation::Dtype::I8 => Self::I8,
            moye_runtime::operation::Dtype::E4m3 => Self::E4m3,
            _ => Self::E5m2,
        }
    }

    /// The nearest element's value.
    pub fn nearest(self, x: f32) -> f64 {
        use moye_runtime::number::{F8E4M3, F8E5M2, Scalar as _};
        match self {
            // NaN is 0.
            Self::I8 => (x.round_ties_even() as i8).into(),
            Self::E4m3 => F8E4M3::from_f32(x).to_f64(),
            Self::E5m2 => F8E5M2::from_f32(x).to_f64(),
        }
    }
}

/// The scale that maps a magnitude to the greatest value of a type, and its inverse.
#[inline(always)]
#[must_use]
pub fn scale_of(code: u32, amax: f32) -> (f32, f32) {
    let limit = if code == Code::I8 as u32 {
        Code::I8.greatest()
    } else if code == Code::E4m3 as u32 {
        Code::E4m3.greatest()
    } else {
        Code::E5m2.greatest()
    };
    if amax < LEAST { (1.0, 1.0) } else { (amax / limit, limit / amax) }
}

/// The bits of an 8-bit float of `FRACTION` bits of fraction nearest to a value, ties to even, at
/// most `greatest` in magnitude: one instruction on sm_89 and later.
#[cfg(not(target_feature = "sm_90"))]
#[inline(always)]
fn float8<const FRACTION: u32>(value: f32, greatest: f32) -> u32 {
    let bias = (1 << (6 - FRACTION)) - 1;
    let sign = value.to_bits() >> 24 & 0x80;
    let magnitude = f32::from_bits(value.to_bits() & 0x7fff_ffff);
    let bits = (if magnitude > greatest { greatest } else { magnitude }).to_bits();
    let (cut, unit) = (23 - FRACTION, 127 - bias - FRACTION + 23 + 1);
    let code = if bits >> 23 > 127 - bias {
        ((bits + (1 << (cut - 1)) - 1 + (bits >> cut & 1)) >> cut) - ((127 - bias) << FRACTION)
    } else {
        // Adding a power of two rounds to the unit of subnormal values.
        let power = f32::from_bits(unit << 23);
        (f32::from_bits(bits) + power).to_bits() - power.to_bits()
    };
    if value.is_nan() { 0x7f } else { sign | code }
}

/// Four bytes, the first in the lowest: `f` of each value. Written out, as `map` of an array stays
/// a loop.
#[inline(always)]
fn bytes([a, b, c, d]: [f32; 4], f: impl Fn(f32) -> u32) -> u32 {
    f(a) & 0xff | (f(b) & 0xff) << 8 | (f(c) & 0xff) << 16 | f(d) << 24
}

/// Four values as bytes, the first in the lowest.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
#[must_use]
pub fn encode(code: u32, values: [f32; 4]) -> u32 {
    if code == Code::I8 as u32 {
        bytes(values, |x| f32_to_i8_saturating(x) as u32)
    } else if code == Code::E4m3 as u32 {
        #[cfg(target_feature = "sm_90")]
        let bits = moye_device::arch::f32x4_to_e4m3x4(values);
        #[cfg(not(target_feature = "sm_90"))]
        let bits = bytes(values, |x| float8::<3>(x, Code::E4m3.greatest()));
        bits
    } else {
        #[cfg(target_feature = "sm_90")]
        let bits = moye_device::arch::f32x4_to_e5m2x4(values);
        #[cfg(not(target_feature = "sm_90"))]
        let bits = bytes(values, |x| float8::<2>(x, Code::E5m2.greatest()));
        bits
    }
}

/// The values of four bytes, the first in the lowest.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
#[must_use]
pub fn decode(code: u32, word: u32) -> [f32; 4] {
    if code == Code::I8 as u32 {
        // Below the bits of 2^23, from which on consecutive f32 are 1 apart.
        let value =
            |byte: u32| f32::from_bits(prmt(word ^ 0x8080_8080, 0x4b00_0000, 0x7540 + byte)) - 8_388_736.0;
        [value(0), value(1), value(2), value(3)]
    } else if code == Code::E4m3 as u32 {
        #[cfg(target_feature = "sm_90")]
        {
            use moye_device::arch::e4m3x2_to_f16x2;
            let (low, high) = (e4m3x2_to_f16x2(word as u16), e4m3x2_to_f16x2((word >> 16) as u16));
            [low.low().convert(), low.high().convert(), high.low().convert(), high.high().convert()]
        }
        #[cfg(not(target_feature = "sm_90"))]
        {
            // As an f16 with the same bits of fraction it is 2^-8 of the value.
            let value = |shift: u32| {
                let byte = (word >> shift) as u16 & 0xff;
                let magnitude: f32 = f16::from_bits((byte & 0x7f) << 7).convert();
                let value = f32::from_bits((magnitude * 256.0).to_bits() | u32::from(byte & 0x80) << 24);
                if byte & 0x7f == 0x7f { f32::NAN } else { value }
            };
            [value(0), value(8), value(16), value(24)]
        }
    } else {
        let value = |shift: u32| -> f32 { f16::from_bits(((word >> shift) as u16) << 8).convert() };
        [value(0), value(8), value(16), value(24)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use moye_device::number::{F8E4M3, F8E5M2};

    #[test]
    fn software_conversions_are_those_of_the_formats() {
        for bits in (0..=u32::MAX).step_by(65_521) {
            let x = f32::from_bits(bits);
            assert_eq!(float8::<3>(x, 448.0), u32::from(F8E4M3::from_f32(x).to_bits()), "{x:e}");
            assert_eq!(float8::<2>(x, 57_344.0), u32::from(F8E5M2::from_f32(x).to_bits()), "{x:e}");
        }
        for byte in 0..=u8::MAX {
            let word = u32::from_le_bytes([byte.wrapping_add(1), 3, byte, 0]);
            let values = [
                (decode(Code::I8 as u32, word)[2], f32::from(byte as i8)),
                (decode(Code::E4m3 as u32, word)[2], F8E4M3::from_bits(byte).to_f32()),
                (decode(Code::E5m2 as u32, word)[2], F8E5M2::from_bits(byte).to_f32()),
            ];
            for (got, value) in values {
                assert!(got == value || got.is_nan() && value.is_nan(), "{byte:#x}: {got}, not {value}");
            }
        }
    }
}
