//! The table as types.
#![allow(non_camel_case_types)]

use super::atom::{AddsInPlace, MmaAtom, name, version};
use crate::arch::mma::{self, fragments};
use crate::layout::Layout;
use crate::number::{B1, F8E4M3, F8E5M2, Number, S4, Tf32, U4};
use half::{bf16, f16};

/// The instruction that accumulates to an instruction's result: the same one, unless the types of C
/// and D differ.
macro_rules! further {
    (mma_m8n8k4_row_col_f32_f16_f16_f16) => {
        mma::mma_m8n8k4_row_col_f32_f16_f16_f32
    };
    (mma_m8n8k4_col_row_f32_f16_f16_f16) => {
        mma::mma_m8n8k4_col_row_f32_f16_f16_f32
    };
    (mma_m8n8k4_col_col_f32_f16_f16_f16) => {
        mma::mma_m8n8k4_col_col_f32_f16_f16_f32
    };
    (mma_m8n8k4_row_row_f32_f16_f16_f16) => {
        mma::mma_m8n8k4_row_row_f32_f16_f16_f32
    };
    ($function:ident) => {
        mma::$function
    };
}

/// In-place accumulation by an atom's instruction: for all atoms whose types of C and D are equal.
macro_rules! in_place {
    ($atom:ident mma_m8n8k4_row_col_f32_f16_f16_f16) => {};
    ($atom:ident mma_m8n8k4_col_row_f32_f16_f16_f16) => {};
    ($atom:ident mma_m8n8k4_col_col_f32_f16_f16_f16) => {};
    ($atom:ident mma_m8n8k4_row_row_f32_f16_f16_f16) => {};
    ($atom:ident $function:ident) => {
        impl AddsInPlace for $atom {}
    };
}

macro_rules! atoms {
    (
        $(sync {
            $atom:ident; $function:ident; $text:literal; moye($($moye:literal)?); arch $arch:literal;
            needs $sm:literal $ptx:literal; $shape:tt; $sum:ident; $lanes:ident;
            d $d:ident $d_count:tt $d_layout:ident; a $a:ident $a_count:tt $a_layout:ident;
            b $b:ident $b_count:tt $b_layout:ident; c $c:ident $c_count:tt $c_layout:ident
        })*
        $(same { $second:ident; $first:ident; arch $second_arch:literal })*
        $(own $own:tt)*
    ) => {
        $(
            #[doc = concat!("`mma.sync.aligned.", $text, "`, as an [`MmaAtom`].")]
            $(
                ///
                #[doc = concat!("In MoYe: `", $moye, "`.")]
                #[doc(alias = $moye)]
            )?
            #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
            pub struct $atom;

            impl MmaAtom for $atom {
                const NAME: &'static str = stringify!($atom);
                const MOYE_NAME: Option<&'static str> = name(concat!($($moye)?));
                const ARCH: u32 = $arch;
                const OLDEST_ARCH: u32 = $sm;
                const PTX_VERSION: (u32, u32) = version(($ptx * 10.0 + 0.5) as u32);
                const INSTRUCTION: &'static str = concat!("mma.sync.aligned.", $text);
                const SHAPE_MNK: [i64; 3] = $shape;
                const THR_ID: Layout = fragments::$lanes;
                const A: Layout = fragments::$a_layout;
                const B: Layout = fragments::$b_layout;
                const C: Layout = fragments::$c_layout;
                const D: Layout = fragments::$d_layout;
                type A = $a;
                type B = $b;
                type C = $c;
                type D = $d;
                type RegistersA = [<$a as Number>::Register; $a_count];
                type RegistersB = [<$b as Number>::Register; $b_count];
                type RegistersC = [<$c as Number>::Register; $c_count];
                type RegistersD = [<$d as Number>::Register; $d_count];

                #[inline(always)]
                #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
                unsafe fn fma(
                    d: &mut Self::RegistersD,
                    a: Self::RegistersA,
                    b: Self::RegistersB,
                    c: Self::RegistersC,
                ) {
                    // SAFETY: all lanes of the warp execute this, on an architecture that has it.
                    *d = unsafe { mma::$function(a, b, c) };
                }

                #[inline(always)]
                #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
                unsafe fn accumulate(d: &mut Self::RegistersD, a: Self::RegistersA, b: Self::RegistersB) {
                    // SAFETY: all lanes of the warp execute this, on an architecture that has it.
                    *d = unsafe { further!($function)(a, b, *d) };
                }
            }
            in_place!($atom $function);
        )*
        $(
            #[doc = concat!("The same instruction as [`", stringify!($first), "`], by its older name.")]
            #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
            pub struct $second;

            impl MmaAtom for $second {
                const NAME: &'static str = stringify!($second);
                const MOYE_NAME: Option<&'static str> = $first::MOYE_NAME;
                const ARCH: u32 = $second_arch;
                const OLDEST_ARCH: u32 = $first::OLDEST_ARCH;
                const PTX_VERSION: (u32, u32) = $first::PTX_VERSION;
                const INSTRUCTION: &'static str = $first::INSTRUCTION;
                const SHAPE_MNK: [i64; 3] = $first::SHAPE_MNK;
                const THR_ID: Layout = $first::THR_ID;
                const A: Layout = <$first as MmaAtom>::A;
                const B: Layout = <$first as MmaAtom>::B;
                const C: Layout = <$first as MmaAtom>::C;
                const D: Layout = <$first as MmaAtom>::D;
                type A = <$first as MmaAtom>::A;
                type B = <$first as MmaAtom>::B;
                type C = <$first as MmaAtom>::C;
                type D = <$first as MmaAtom>::D;
                type RegistersA = <$first as MmaAtom>::RegistersA;
                type RegistersB = <$first as MmaAtom>::RegistersB;
                type RegistersC = <$first as MmaAtom>::RegistersC;
                type RegistersD = <$first as MmaAtom>::RegistersD;

                #[inline(always)]
                #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
                unsafe fn fma(
                    d: &mut Self::RegistersD,
                    a: Self::RegistersA,
                    b: Self::RegistersB,
                    c: Self::RegistersC,
                ) {
                    // SAFETY: all lanes of the warp execute this, on an architecture that has it.
                    unsafe { $first::fma(d, a, b, c) };
                }

                #[inline(always)]
                #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
                unsafe fn accumulate(d: &mut Self::RegistersD, a: Self::RegistersA, b: Self::RegistersB) {
                    // SAFETY: all lanes of the warp execute this, on an architecture that has it.
                    unsafe { $first::accumulate(d, a, b) };
                }
            }
            impl AddsInPlace for $second {}
        )*
    };
}
crate::for_each_mma!(atoms);
