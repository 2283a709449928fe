//! `dp4a` and `dp2a`: a dot product of one thread.
#![allow(non_camel_case_types)]

use super::{AddsInPlace, MmaAtom};
use crate::arch::mma::fragments::{SM61_1x1, SM61_1x2, SM61_1x4, SM61_Thread};
use crate::arch::{dp2a_lo_s32_s32, dp4a_s32_s32};
use crate::layout::Layout;

/// `dp4a.s32.s32`: four products of signed bytes, by one thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SM61_DP4A;

/// `dp2a.lo.s32.s32`: two products of signed 16-bit integers (A) with signed bytes (B), by one
/// thread.
///
/// The instruction has no form for two 16-bit operands, so B's elements are bytes: the lower two of
/// its register.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SM61_DP2A;

macro_rules! dot {
    ($atom:ident, $text:literal, $function:ident, $k:literal, $layout:ident, $a:ty, $b:ty) => {
        impl AddsInPlace for $atom {}

        impl MmaAtom for $atom {
            const NAME: &'static str = stringify!($atom);
            const MOYE_NAME: Option<&'static str> = None;
            const ARCH: u32 = 61;
            const OLDEST_ARCH: u32 = 61;
            const PTX_VERSION: (u32, u32) = (5, 0);
            const INSTRUCTION: &'static str = $text;
            const SHAPE_MNK: [i64; 3] = [1, 1, $k];
            const THR_ID: Layout = SM61_Thread;
            const A: Layout = $layout;
            const B: Layout = $layout;
            const C: Layout = SM61_1x1;
            const D: Layout = SM61_1x1;
            type A = $a;
            type B = $b;
            type C = i32;
            type D = i32;
            type RegistersA = [u32; 1];
            type RegistersB = [u32; 1];
            type RegistersC = [i32; 1];
            type RegistersD = [i32; 1];

            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            unsafe fn fma(d: &mut [i32; 1], a: [u32; 1], b: [u32; 1], c: [i32; 1]) {
                *d = [$function(a[0], b[0], c[0])];
            }

            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            unsafe fn accumulate(d: &mut [i32; 1], a: [u32; 1], b: [u32; 1]) {
                *d = [$function(a[0], b[0], d[0])];
            }
        }
    };
}
dot!(SM61_DP4A, "dp4a.s32.s32", dp4a_s32_s32, 4, SM61_1x4, i8, i8);
dot!(SM61_DP2A, "dp2a.lo.s32.s32", dp2a_lo_s32_s32, 2, SM61_1x2, i16, i8);
