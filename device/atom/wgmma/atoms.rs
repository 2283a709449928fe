//! The table as types.
#![allow(non_camel_case_types)]

use super::atom::major;
use super::{OperandA, WgmmaAtom};
use crate::arch::wgmma::{self, fragments};
use crate::atom::{Atom, AtomTraits, ByDescriptors, Operands, number};
use crate::layout::{Layout, Major};
use crate::number::{B1, F8E4M3, F8E5M2, Number, Tf32};
use half::{bf16, f16};

macro_rules! atom {
    (
        $name:ident, $function:ident, $text:literal $ptx:literal, $n:literal, $k:literal, $d:ident $count:literal, $a:ident, $b:ident,
        $operand:ty, $layout:expr, <$($generic:ident),*>, $major_a:expr, $major_b:expr
    ) => {
        #[doc = concat!("`wgmma.mma_async.sync.aligned.", $text, "`.")]
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name<$(const $generic: bool = false),*>;

        impl<$(const $generic: bool),*> WgmmaAtom for $name<$($generic),*> {
            const NAME: &'static str = stringify!($name);
            const INSTRUCTION: &'static str = concat!("wgmma.mma_async.sync.aligned.", $text);
            const PTX_VERSION: (u32, u32) = (8, ($ptx * 10.0 + 0.5) as u32 - 80);
            const SHAPE_MNK: [i64; 3] = [64, $n, $k];
            const THR_ID: Layout = fragments::SM90_Warpgroup;
            const A: Layout = $layout;
            const B: Layout = fragments::shared_operand($n, $k);
            const C: Layout = fragments::accumulators($n);
            const MAJOR_A: Major = major($major_a);
            const MAJOR_B: Major = major($major_b);
            type A = $a;
            type B = $b;
            type D = $d;
            type Accumulators = [<$d as Number>::Register; $count];
            type OperandA = $operand;

            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            unsafe fn mma(d: &mut Self::Accumulators, a: $operand, b: u64, adds: bool) {
                // SAFETY: the whole warpgroup executes it, with descriptors of shared memory.
                unsafe { wgmma::$function::<$($generic),*>(d, a, b, adds) };
            }
        }

        impl<$(const $generic: bool),*> Operands for $name<$($generic),*> {
            type FormA = <$operand as OperandA>::Form;
            type FormB = ByDescriptors;
            type Accumulator = $d;
        }

        impl<$(const $generic: bool),*> Atom for $name<$($generic),*> {
            const TRAITS: AtomTraits = AtomTraits {
                name: stringify!($name),
                shape_mnk: [64, $n, $k],
                thr_id: fragments::SM90_Warpgroup,
                layouts: [
                    $layout,
                    fragments::shared_operand($n, $k),
                    fragments::accumulators($n),
                    fragments::accumulators($n),
                ],
                numbers: [number::<$a>(), number::<$b>(), number::<$d>(), number::<$d>()],
            };
        }
    };
}

macro_rules! both {
    (majors $rest:tt) => { both!(@ $rest <MN_A, MN_B, NEGATE_A, NEGATE_B>, MN_A, MN_B; <MN_B, NEGATE_A, NEGATE_B>, false, MN_B); };
    (scaled $rest:tt) => { both!(@ $rest <NEGATE_A, NEGATE_B>, false, false; <NEGATE_A, NEGATE_B>, false, false); };
    (plain $rest:tt) => { both!(@ $rest <>, false, false; <>, false, false); };
    (
        @ {
            $ss:ident $ss_function:ident; $rs:ident $rs_function:ident; $text:literal $ptx:literal; $n:literal $k:literal;
            $d:ident $count:literal $a:ident $b:ident
        }
        <$($ss_generic:ident),*>, $ss_a:expr, $ss_b:expr; <$($rs_generic:ident),*>, $rs_a:expr, $rs_b:expr
    ) => {
        atom!(
            $ss, $ss_function, $text $ptx, $n, $k, $d $count, $a, $b,
            u64, fragments::shared_operand(64, $k), <$($ss_generic),*>, $ss_a, $ss_b
        );
        atom!(
            $rs, $rs_function, $text $ptx, $n, $k, $d $count, $a, $b,
            [u32; 4], fragments::registers_a(<$a as Number>::WIDTH as i64), <$($rs_generic),*>, $rs_a, $rs_b
        );
    };
}

macro_rules! atoms {
    ($(wgmma {
        $kind:ident; $ss:ident $ss_function:ident; $rs:ident $rs_function:ident; $text:literal; needs $ptx:literal;
        [$m:literal, $n:literal, $k:literal]; $sum:ident; d $d:ident $count:literal $list:literal $indices:tt; a $a:ident; b $b:ident
    })*) => { $(
        both!($kind { $ss $ss_function; $rs $rs_function; $text $ptx; $n $k; $d $count $a $b });
    )* };
}
crate::for_each_wgmma!(atoms);
