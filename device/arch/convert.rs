//! Conversions: floats to narrower floats and to integers, one `cvt` each.
//!
//! Subnormals are kept. A NaN stays a NaN, with one exception ([`f32_to_tf32`]); its bits are not
//! specified (GPUs and the simulator return the canonical NaN for results narrower than 32 bits).

use super::half2::{Bf16x2, F16x2};
use crate::memory::Storable;
#[cfg(not(target_arch = "nvptx64"))]
use crate::number::{F8E4M3, F8E5M2};
use half::{bf16, f16};

/// A conversion of a register, or of two to a pair.
macro_rules! convert {
    (
        $(#[$doc:meta])* $name:ident($($parameter:ident: $from:ty),+) -> $to:ty,
        $ptx:literal $(needs $sm:literal $version:literal)?,
        in $in_class:ident $($part:ident = $operand:expr),+; out $out_class:ident $register:ty |$bits:ident| $result:expr;
        sim $sim:expr
    ) => {
        $(#[$doc])*
        #[doc = concat!("(`", $ptx, "`)")]
        #[inline(always)]
        #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
        #[must_use]
        pub fn $name($($parameter: $from),+) -> $to {
            $(super::target::needs!($ptx, $sm $version);)?
            #[cfg(target_arch = "nvptx64")]
            {
                let $bits: $register;
                // SAFETY: arithmetic on registers.
                unsafe {
                    core::arch::asm!(
                        concat!($ptx, " {d}" $(, ", {", stringify!($part), "}")+, ";"),
                        d = out($out_class) $bits, $($part = in($in_class) $operand,)+
                        options(pure, nomem, nostack)
                    )
                };
                $result
            }
            #[cfg(not(target_arch = "nvptx64"))]
            {
                use moye_sim::intrinsics as sim;
                sim::count_instruction($ptx);
                $sim
            }
        }
    };
}

/// f32 to a 16-bit float.
macro_rules! narrow {
    ($(#[$doc:meta])* $name:ident -> $t:ident, $ptx:literal $(needs $sm:literal $version:literal)?, $sim:ident) => {
        convert! {
            $(#[$doc])*
            $name(value: f32) -> $t, $ptx $(needs $sm $version)?,
            in reg32 a = value; out reg16 u16 |bits| $t::from_bits(bits); sim sim::$sim(value)
        }
    };
}
narrow! {
    /// The nearest f16.
    f32_to_f16 -> f16, "cvt.rn.f16.f32", cvt_rn_f16
}
narrow! {
    /// The nearest bf16.
    f32_to_bf16 -> bf16, "cvt.rn.bf16.f32" needs 80 7.0, cvt_rn_bf16
}
narrow! {
    /// The nearest f16; 0 for negative values.
    f32_to_f16_relu -> f16, "cvt.rn.relu.f16.f32" needs 80 7.0, cvt_rn_relu_f16
}
narrow! {
    /// The nearest bf16; 0 for negative values.
    f32_to_bf16_relu -> bf16, "cvt.rn.relu.bf16.f32" needs 80 7.0, cvt_rn_relu_bf16
}

/// Two f32 to a pair of 16-bit floats. In PTX the upper half's operand comes first.
macro_rules! pack {
    ($(#[$doc:meta])* $name:ident -> $t:ident, $ptx:literal needs $sm:literal $version:literal, $sim:ident) => {
        convert! {
            $(#[$doc])*
            $name(low: f32, high: f32) -> $t, $ptx needs $sm $version,
            in reg32 a = high, b = low; out reg32 u32 |bits| $t::from_bits(bits);
            sim $t::new(sim::$sim(low), sim::$sim(high))
        }
    };
}
pack! {
    /// The nearest f16 of two values.
    f32x2_to_f16x2 -> F16x2, "cvt.rn.f16x2.f32" needs 80 7.0, cvt_rn_f16
}
pack! {
    /// The nearest bf16 of two values.
    f32x2_to_bf16x2 -> Bf16x2, "cvt.rn.bf16x2.f32" needs 80 7.0, cvt_rn_bf16
}
pack! {
    /// The nearest f16 of two values; 0 for negative values.
    f32x2_to_f16x2_relu -> F16x2, "cvt.rn.relu.f16x2.f32" needs 80 7.0, cvt_rn_relu_f16
}
pack! {
    /// The nearest bf16 of two values; 0 for negative values.
    f32x2_to_bf16x2_relu -> Bf16x2, "cvt.rn.relu.bf16x2.f32" needs 80 7.0, cvt_rn_relu_bf16
}

convert! {
    /// The nearest e4m3 of two values, `low` in the lower byte; saturating at 448, also for
    /// infinities.
    f32x2_to_e4m3x2(low: f32, high: f32) -> u16, "cvt.rn.satfinite.e4m3x2.f32" needs 89 7.8,
    in reg32 a = high, b = low; out reg16 u16 |bits| bits;
    sim u16::from_le_bytes([low, high].map(|value| F8E4M3::from_f32(value).to_bits()))
}
convert! {
    /// The nearest e5m2 of two values, `low` in the lower byte; saturating at 57,344, also for
    /// infinities.
    f32x2_to_e5m2x2(low: f32, high: f32) -> u16, "cvt.rn.satfinite.e5m2x2.f32" needs 89 7.8,
    in reg32 a = high, b = low; out reg16 u16 |bits| bits;
    sim u16::from_le_bytes([low, high].map(|value| F8E5M2::from_f32(value).to_bits()))
}

/// Four values, by two conversions whose halves `ptxas` merges without a further instruction.
macro_rules! pack4 {
    ($(#[$doc:meta])* $name:ident, $ptx:literal, $two:ident) => {
        $(#[$doc])*
        #[inline(always)]
        #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
        #[must_use]
        pub fn $name([a, b, c, d]: [f32; 4]) -> u32 {
            super::target::needs!($ptx, 89 7.8);
            #[cfg(target_arch = "nvptx64")]
            {
                let word: u32;
                // SAFETY: arithmetic on registers.
                unsafe {
                    core::arch::asm!(
                        concat!("{{ .reg .b16 low, high; ", $ptx, " low, {b}, {a}; "),
                        concat!($ptx, " high, {d}, {c}; mov.b32 {word}, {{low, high}}; }}"),
                        word = out(reg32) word, a = in(reg32) a, b = in(reg32) b, c = in(reg32) c, d = in(reg32) d,
                        options(pure, nomem, nostack)
                    )
                };
                word
            }
            #[cfg(not(target_arch = "nvptx64"))]
            {
                u32::from($two(a, b)) | u32::from($two(c, d)) << 16
            }
        }
    };
}
pack4! {
    /// The nearest e4m3 of four values, the first in the lowest byte; see [`f32x2_to_e4m3x2`].
    f32x4_to_e4m3x4, "cvt.rn.satfinite.e4m3x2.f32", f32x2_to_e4m3x2
}
pack4! {
    /// The nearest e5m2 of four values, the first in the lowest byte; see [`f32x2_to_e5m2x2`].
    f32x4_to_e5m2x4, "cvt.rn.satfinite.e5m2x2.f32", f32x2_to_e5m2x2
}

convert! {
    /// The values of two e4m3, the lower byte's first.
    e4m3x2_to_f16x2(pair: u16) -> F16x2, "cvt.rn.f16x2.e4m3x2" needs 89 7.8,
    in reg16 a = pair; out reg32 u32 |bits| F16x2::from_bits(bits);
    sim {
        let [low, high] = pair.to_le_bytes().map(|bits| f16::from_f32(F8E4M3::from_bits(bits).to_f32()));
        F16x2::new(low, high)
    }
}

/// f32 to tf32: an f32 whose 13 low bits are 0.
macro_rules! tf32 {
    ($(#[$doc:meta])* $name:ident, $ptx:literal needs $sm:literal $version:literal, $rounding:ident $relu:literal) => {
        convert! {
            $(#[$doc])*
            ///
            /// The result is the tf32 value as an f32, with 13 low bits of 0.
            $name(value: f32) -> f32, $ptx needs $sm $version,
            in reg32 a = value; out reg32 u32 |bits| f32::from_bits(bits);
            sim f32::from_bits(sim::cvt_tf32(value, sim::Rounding::$rounding, $relu))
        }
    };
}
tf32! {
    /// The nearest tf32 value, ties away from zero.
    ///
    /// A NaN's low bits are dropped like a number's: a NaN without other fraction bits, such as
    /// `0x7f801001`, becomes an infinity. [`Tf32::from_f32`](crate::number::Tf32::from_f32) keeps
    /// every NaN.
    f32_to_tf32, "cvt.rna.tf32.f32" needs 80 7.0, NearestAway false
}
tf32! {
    /// The nearest tf32 value, ties to even. From sm_90 on.
    f32_to_tf32_rn, "cvt.rn.tf32.f32" needs 90 7.8, NearestEven false
}
tf32! {
    /// The next tf32 value towards 0. From sm_90 on.
    f32_to_tf32_rz, "cvt.rz.tf32.f32" needs 90 7.8, Zero false
}
tf32! {
    /// The nearest tf32 value, ties to even; 0 for negative values. From sm_90 on.
    f32_to_tf32_rn_relu, "cvt.rn.relu.tf32.f32" needs 90 7.8, NearestEven true
}

convert! {
    /// The same value as an f32.
    f16_to_f32(value: f16) -> f32, "cvt.f32.f16",
    in reg16 a = value.to_bits(); out reg32 f32 |wide| wide; sim sim::cvt_f32_f16(value)
}

/// The same value as an f32: its bits are the upper half (`shl`, or `prmt`; `cvt.f32.bf16`, only
/// from sm_90 on, has the same result).
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
#[must_use]
pub fn bf16_to_f32(value: bf16) -> f32 {
    f32::from_bits((value.to_bits() as u32) << 16)
}

/// f32 to an integer, rounded to nearest even and saturated.
macro_rules! integer {
    ($(#[$doc:meta])* $name:ident -> $t:ty, $ptx:literal, $sim:ident) => {
        convert! {
            $(#[$doc])*
            $name(value: f32) -> $t, $ptx, in reg32 a = value; out reg32 u32 |bits| bits as $t; sim sim::$sim(value)
        }
    };
}
integer! {
    /// The nearest integer from -128 to 127, ties to even; 0 for NaN.
    f32_to_i8_saturating -> i8, "cvt.rni.sat.s8.f32", cvt_rni_sat_s8
}
integer! {
    /// The nearest integer from 0 to 255, ties to even; 0 for NaN.
    f32_to_u8_saturating -> u8, "cvt.rni.sat.u8.f32", cvt_rni_sat_u8
}
integer! {
    /// The nearest 32-bit integer, ties to even; saturating; 0 for NaN.
    f32_to_i32_saturating -> i32, "cvt.rni.sat.s32.f32", cvt_rni_sat_s32
}
integer! {
    /// The nearest unsigned 32-bit integer, ties to even; saturating; 0 for NaN.
    f32_to_u32_saturating -> u32, "cvt.rni.sat.u32.f32", cvt_rni_sat_u32
}

/// The nearest value of another number type, by one instruction, for epilogues that are generic
/// over their types. Integers saturate; ties go to even. Each type converts to itself.
#[diagnostic::on_unimplemented(
    message = "there is no conversion from `{Self}` to `{To}`",
    label = "a `{Self}` is not stored as `{To}`"
)]
pub trait Convert<To> {
    /// Whether one instruction, that of [`convert_pair`](Self::convert_pair), converts two values.
    const IN_PAIRS: bool = false;

    /// The nearest value of the other type.
    #[must_use]
    fn convert(self) -> To;

    /// Converts two values, by one instruction if there is one.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    #[must_use]
    fn convert_pair([low, high]: [Self; 2]) -> [To; 2]
    where
        Self: Sized,
    {
        [low.convert(), high.convert()]
    }
}

macro_rules! conversions {
    ($($from:ty => $to:ty: $function:expr $(, of two $pair:expr)?;)*) => { $(
        impl Convert<$to> for $from {
            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            fn convert(self) -> $to {
                $function(self)
            }

            $(const IN_PAIRS: bool = true;

            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            fn convert_pair([low, high]: [Self; 2]) -> [$to; 2] {
                let pair = $pair(low, high);
                [pair.low(), pair.high()]
            })?
        }
    )* };
}
conversions! {
    f32 => f16: f32_to_f16, of two f32x2_to_f16x2;
    f32 => bf16: f32_to_bf16, of two f32x2_to_bf16x2;
    f32 => i8: f32_to_i8_saturating;
    f32 => u8: f32_to_u8_saturating;
    f32 => i32: f32_to_i32_saturating;
    f32 => u32: f32_to_u32_saturating;
    u8 => f32: f32::from;
    f16 => f32: f16_to_f32;
    bf16 => f32: bf16_to_f32;
    F16x2 => [f32; 2]: |pair: F16x2| [f16_to_f32(pair.low()), f16_to_f32(pair.high())];
    Bf16x2 => [f32; 2]: |pair: Bf16x2| [bf16_to_f32(pair.low()), bf16_to_f32(pair.high())];
}

impl<T: Storable> Convert<T> for T {
    #[inline(always)]
    fn convert(self) -> T {
        self
    }
}
