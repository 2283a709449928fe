//! Complex f64, by four or three real instructions.
#![allow(non_camel_case_types)]

use super::atoms::SM80_8x8x4_F64F64F64F64_TN as Real;
use super::{AddsInPlace, MmaAtom};
use crate::arch::mma::mma_m8n8k4_f64_f64_f64_f64 as real;
use crate::layout::Layout;
use crate::number::{Complex64, GaussComplex};

/// A complex f64 product by four real ones.
///
/// A register pair holds a number, the real part first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SM80_8x8x4_C64C64C64C64_TN;

/// A complex f64 product by three real ones, after Gauss: the accumulators hold the sums of
/// [`GaussComplex`], whose conversion to [`Complex64`] is the result. It saves a quarter of the
/// work and loses some accuracy: the imaginary part is a difference of larger numbers.
///
/// Three registers hold an accumulator: t0, t1, t2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SM80_8x8x4_GC64C64C64GC64_TN;

macro_rules! complex {
    ($atom:ident, $count:literal, $accumulator:ty, $registers:literal, |$a:ident, $b:ident, $c:ident| $product:block) => {
        impl AddsInPlace for $atom {}

        impl MmaAtom for $atom {
            const NAME: &'static str = stringify!($atom);
            const MOYE_NAME: Option<&'static str> = None;
            const ARCH: u32 = Real::ARCH;
            const OLDEST_ARCH: u32 = Real::OLDEST_ARCH;
            const PTX_VERSION: (u32, u32) = Real::PTX_VERSION;
            const INSTRUCTION: &'static str = Real::INSTRUCTION;
            const INSTRUCTION_COUNT: usize = $count;
            const SHAPE_MNK: [i64; 3] = Real::SHAPE_MNK;
            const THR_ID: Layout = Real::THR_ID;
            const A: Layout = <Real as MmaAtom>::A;
            const B: Layout = <Real as MmaAtom>::B;
            const C: Layout = <Real as MmaAtom>::C;
            const D: Layout = <Real as MmaAtom>::D;
            type A = Complex64;
            type B = Complex64;
            type C = $accumulator;
            type D = $accumulator;
            type RegistersA = [f64; 2];
            type RegistersB = [f64; 2];
            type RegistersC = [f64; $registers];
            type RegistersD = [f64; $registers];

            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            unsafe fn fma(d: &mut [f64; $registers], $a: [f64; 2], $b: [f64; 2], $c: [f64; $registers]) {
                // SAFETY: all lanes of the warp execute this.
                *d = unsafe { $product };
            }

            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            unsafe fn accumulate(d: &mut [f64; $registers], a: [f64; 2], b: [f64; 2]) {
                // SAFETY: all lanes of the warp execute this.
                unsafe { Self::fma(d, a, b, *d) };
            }
        }
    };
}

complex!(SM80_8x8x4_C64C64C64C64_TN, 4, Complex64, 4, |a, b, c| {
    let ([a_re, a_im], [b_re, b_im], [re0, im0, re1, im1]) = (a, b, c);
    let re = real([a_re], [b_re], [re0, re1]);
    let im = real([a_im], [b_re], [im0, im1]);
    let [re0, re1] = real([-a_im], [b_im], re);
    let [im0, im1] = real([a_re], [b_im], im);
    [re0, im0, re1, im1]
});

complex!(SM80_8x8x4_GC64C64C64GC64_TN, 3, GaussComplex, 6, |a, b, c| {
    let ([a_re, a_im], [b_re, b_im], [c0, c1, c2, c3, c4, c5]) = (a, b, c);
    let t0 = real([a_re], [b_re], [c0, c3]);
    let t1 = real([a_im], [b_im], [c1, c4]);
    let t2 = real([a_re + a_im], [b_re + b_im], [c2, c5]);
    [t0[0], t1[0], t2[0], t0[1], t1[1], t2[1]]
});
