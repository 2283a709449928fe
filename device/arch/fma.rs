//! Fused multiply-add: one rounding, on the GPU and in the simulator.

use super::half2::{Bf16x2, F16x2};
use crate::memory::Element;
use half::{bf16, f16};

/// Types with a fused multiply-add instruction.
pub trait Fma: Element {
    /// The value 0.
    const ZERO: Self;

    /// `self * b + c`, rounded once (`fma.rn`); wrapping for integers (`mad.lo`).
    #[must_use]
    fn fma(self, b: Self, c: Self) -> Self;
}

macro_rules! float {
    ($t:ty, $class:ident, $ptx:literal, $sim:ident) => {
        impl Fma for $t {
            const ZERO: Self = 0.0;

            #[inline(always)]
            fn fma(self, b: Self, c: Self) -> Self {
                #[cfg(target_arch = "nvptx64")]
                {
                    let d: $t;
                    // SAFETY: arithmetic on registers.
                    unsafe {
                        core::arch::asm!(
                            concat!($ptx, " {d}, {a}, {b}, {c};"),
                            d = out($class) d, a = in($class) self, b = in($class) b, c = in($class) c,
                            options(pure, nomem, nostack)
                        )
                    };
                    d
                }
                #[cfg(not(target_arch = "nvptx64"))]
                moye_sim::intrinsics::$sim(self, b, c)
            }
        }
    };
}
float!(f32, reg32, "fma.rn.f32", fma_f32);
float!(f64, reg64, "fma.rn.f64", fma_f64);

macro_rules! half {
    ($t:ident, $ptx:literal $(needs $sm:literal $version:literal)?, $sim:ident) => {
        impl Fma for $t {
            const ZERO: Self = $t::ZERO;

            #[inline(always)]
            fn fma(self, b: Self, c: Self) -> Self {
                $(super::target::needs!($ptx, $sm $version);)?
                #[cfg(target_arch = "nvptx64")]
                {
                    let d: u16;
                    // SAFETY: arithmetic on registers.
                    unsafe {
                        core::arch::asm!(
                            concat!($ptx, " {d}, {a}, {b}, {c};"),
                            d = out(reg16) d, a = in(reg16) self.to_bits(), b = in(reg16) b.to_bits(),
                            c = in(reg16) c.to_bits(),
                            options(pure, nomem, nostack)
                        )
                    };
                    $t::from_bits(d)
                }
                #[cfg(not(target_arch = "nvptx64"))]
                moye_sim::intrinsics::$sim(self, b, c)
            }
        }
    };
}
half!(f16, "fma.rn.f16" needs 53 4.2, fma_f16);
half!(bf16, "fma.rn.bf16" needs 80 7.0, fma_bf16);

macro_rules! pair {
    ($($t:ident),*) => { $(
        impl Fma for $t {
            const ZERO: Self = $t::ZERO;

            #[inline(always)]
            fn fma(self, b: Self, c: Self) -> Self {
                $t::fma(self, b, c)
            }
        }
    )* };
}
pair!(F16x2, Bf16x2);

macro_rules! integer {
    ($($t:ty),*) => { $(
        impl Fma for $t {
            const ZERO: Self = 0;

            #[inline(always)]
            fn fma(self, b: Self, c: Self) -> Self {
                self.wrapping_mul(b).wrapping_add(c)
            }
        }
    )* };
}
integer!(i32, u32, i64, u64);
