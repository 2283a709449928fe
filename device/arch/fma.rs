//! Fused multiply-add: one rounding, on the GPU and in the simulator.

use crate::memory::Element;

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
