//! Fused multiply-add: one rounding, on the GPU and in the simulator.
//!
//! For floats it is a single instruction. For integers, product and sum wrap, and the compiler
//! emits one `mad.lo` for both, or, if the operands were widened from half the bits, a `mul.wide`
//! and an `add`.

use super::half2::{Bf16x2, F16x2};
use crate::memory::Element;
use half::{bf16, f16};

/// Types with a multiply-add.
pub trait Fma: Element {
    /// The value 0.
    const ZERO: Self;
    /// The instruction's name in PTX: `fma.rn.f32`. For integers the compiler's choice for operands
    /// of this width.
    const INSTRUCTION: &'static str;
    /// The oldest architecture that has it, 53 for sm_53; 0 if all have it.
    const OLDEST_ARCH: u32;
    /// The oldest PTX version that has it, major and minor.
    const PTX_VERSION: (u32, u32);

    /// `self * b + c`: for floats rounded once (`fma.rn`), for integers a wrapping product and sum
    /// (`mad.lo`).
    #[must_use]
    fn fma(self, b: Self, c: Self) -> Self;
}

macro_rules! float {
    ($t:ty, $class:ident, $ptx:literal since $sm:literal $version:expr, $sim:ident) => {
        impl Fma for $t {
            const ZERO: Self = 0.0;
            const INSTRUCTION: &'static str = $ptx;
            const OLDEST_ARCH: u32 = $sm;
            const PTX_VERSION: (u32, u32) = $version;

            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
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
float!(f32, reg32, "fma.rn.f32" since 20 (2, 0), fma_f32);
float!(f64, reg64, "fma.rn.f64" since 13 (1, 4), fma_f64);

macro_rules! half {
    ($t:ident, $ptx:literal needs $sm:literal $version:literal $pair:expr, $sim:ident) => {
        impl Fma for $t {
            const ZERO: Self = $t::ZERO;
            const INSTRUCTION: &'static str = $ptx;
            const OLDEST_ARCH: u32 = $sm;
            const PTX_VERSION: (u32, u32) = $pair;

            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            fn fma(self, b: Self, c: Self) -> Self {
                super::target::needs!($ptx, $sm $version);
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
half!(f16, "fma.rn.f16" needs 53 4.2 (4, 2), fma_f16);
half!(bf16, "fma.rn.bf16" needs 80 7.0 (7, 0), fma_bf16);

macro_rules! pair {
    ($($t:ident = $ptx:literal of $half:ident),*) => { $(
        impl Fma for $t {
            const ZERO: Self = $t::ZERO;
            const INSTRUCTION: &'static str = $ptx;
            const OLDEST_ARCH: u32 = <$half as Fma>::OLDEST_ARCH;
            const PTX_VERSION: (u32, u32) = <$half as Fma>::PTX_VERSION;

            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            fn fma(self, b: Self, c: Self) -> Self {
                $t::fma(self, b, c)
            }
        }
    )* };
}
pair!(F16x2 = "fma.rn.f16x2" of f16, Bf16x2 = "fma.rn.bf16x2" of bf16);

macro_rules! integer {
    ($($t:ty = $ptx:literal),*) => { $(
        impl Fma for $t {
            const ZERO: Self = 0;
            // The lower bits do not depend on the sign: LLVM uses the signed form.
            const INSTRUCTION: &'static str = $ptx;
            const OLDEST_ARCH: u32 = 0;
            const PTX_VERSION: (u32, u32) = (1, 0);

            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            fn fma(self, b: Self, c: Self) -> Self {
                self.wrapping_mul(b).wrapping_add(c)
            }
        }
    )* };
}
integer!(i32 = "mad.lo.s32", u32 = "mad.lo.s32", i64 = "mad.lo.s64", u64 = "mad.lo.s64");
