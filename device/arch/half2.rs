//! Pairs of 16-bit floats in one register, and arithmetic on both halves at once.

use half::{bf16, f16};

/// Two f16 in one register, the first in the lower half.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct F16x2(u32);

/// Two bf16 in one register, the first in the lower half.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct Bf16x2(u32);

macro_rules! pair {
    ($pair:ident of $t:ident) => {
        impl $pair {
            /// Both halves 0.
            pub const ZERO: Self = Self(0);

            /// The pair of two values.
            #[inline(always)]
            pub const fn new(low: $t, high: $t) -> Self {
                Self(low.to_bits() as u32 | (high.to_bits() as u32) << 16)
            }

            /// The same value twice.
            #[inline(always)]
            pub const fn splat(value: $t) -> Self {
                Self::new(value, value)
            }

            /// The pair with these bits.
            #[inline(always)]
            pub const fn from_bits(bits: u32) -> Self {
                Self(bits)
            }

            /// The bits.
            #[inline(always)]
            pub const fn to_bits(self) -> u32 {
                self.0
            }

            /// The value in the lower half.
            #[inline(always)]
            pub const fn low(self) -> $t {
                $t::from_bits(self.0 as u16)
            }

            /// The value in the upper half.
            #[inline(always)]
            pub const fn high(self) -> $t {
                $t::from_bits((self.0 >> 16) as u16)
            }
        }

        impl core::fmt::Debug for $pair {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                write!(f, concat!(stringify!($pair), "({:?}, {:?})"), self.low(), self.high())
            }
        }
    };
}
pair!(F16x2 of f16);
pair!(Bf16x2 of bf16);

/// One instruction of two or three pairs.
macro_rules! arithmetic {
    ($($(#[$doc:meta])* $pair:ident::$name:ident($($operand:ident),*), $ptx:literal $(needs $sm:literal $version:literal)?, $sim:ident;)*) => { $(
        impl $pair {
            $(#[$doc])*
            #[doc = concat!("(`", $ptx, "`)")]
            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            #[must_use]
            pub fn $name(self, $($operand: Self),*) -> Self {
                $(super::target::needs!($ptx, $sm $version);)?
                #[cfg(target_arch = "nvptx64")]
                {
                    let d: u32;
                    // SAFETY: arithmetic on registers.
                    unsafe {
                        core::arch::asm!(
                            concat!($ptx, " {d}, {a}" $(, ", {", stringify!($operand), "}")*, ";"),
                            d = out(reg32) d, a = in(reg32) self.0, $($operand = in(reg32) $operand.0,)*
                            options(pure, nomem, nostack)
                        )
                    };
                    Self(d)
                }
                #[cfg(not(target_arch = "nvptx64"))]
                {
                    use moye_sim::intrinsics::$sim as each;
                    Self::new(each(self.low(), $($operand.low()),*), each(self.high(), $($operand.high()),*))
                }
            }
        }
    )* };
}
arithmetic! {
    /// The sum in each half; also `+`.
    F16x2::add_rn(b), "add.rn.f16x2" needs 53 4.2, add_f16;
    /// The difference in each half; also `-`.
    F16x2::sub_rn(b), "sub.rn.f16x2" needs 53 4.2, sub_f16;
    /// The product in each half; also `*`.
    F16x2::mul_rn(b), "mul.rn.f16x2" needs 53 4.2, mul_f16;
    /// `self * b + c` in each half, rounded once.
    F16x2::fma(b, c), "fma.rn.f16x2" needs 53 4.2, fma_f16;
    /// `self * b + c` in each half, rounded once; 0 if that is negative.
    F16x2::fma_relu(b, c), "fma.rn.relu.f16x2" needs 80 7.0, fma_relu_f16;
    /// The smaller value in each half; if one is NaN, the other.
    F16x2::min(b), "min.f16x2" needs 80 7.0, min_f16;
    /// The larger value in each half; if one is NaN, the other.
    F16x2::max(b), "max.f16x2" needs 80 7.0, max_f16;
    /// `self * b + c` in each half, rounded once.
    Bf16x2::fma(b, c), "fma.rn.bf16x2" needs 80 7.0, fma_bf16;
    /// `self * b + c` in each half, rounded once; 0 if that is negative.
    Bf16x2::fma_relu(b, c), "fma.rn.relu.bf16x2" needs 80 7.0, fma_relu_bf16;
    /// The smaller value in each half; if one is NaN, the other.
    Bf16x2::min(b), "min.bf16x2" needs 80 7.0, min_bf16;
    /// The larger value in each half; if one is NaN, the other.
    Bf16x2::max(b), "max.bf16x2" needs 80 7.0, max_bf16;
}

macro_rules! operators {
    ($($pair:ident: $add:expr, $sub:expr, $mul:expr;)*) => { $(
        impl core::ops::Add for $pair {
            type Output = Self;

            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            fn add(self, other: Self) -> Self {
                $add(self, other)
            }
        }

        impl core::ops::Sub for $pair {
            type Output = Self;

            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            fn sub(self, other: Self) -> Self {
                $sub(self, other)
            }
        }

        impl core::ops::Mul for $pair {
            type Output = Self;

            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            fn mul(self, other: Self) -> Self {
                $mul(self, other)
            }
        }
    )* };
}
// PTX has these three for bf16x2 only from sm_90 on. The fused instruction rounds in the same way
// everywhere: `a * 1 + b`, and `a * b - 0`, whose -0 keeps the sign of a zero product.
operators! {
    F16x2: Self::add_rn, Self::sub_rn, Self::mul_rn;
    Bf16x2:
        |a: Self, b| a.fma(Self::splat(bf16::ONE), b),
        |a, b: Self| b.fma(Self::splat(bf16::NEG_ONE), a),
        |a: Self, b| a.fma(b, Self::splat(bf16::NEG_ZERO));
}
