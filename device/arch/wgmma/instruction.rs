//! The table as functions: each instruction and its emulation.

#[cfg(not(target_arch = "nvptx64"))]
use super::registers::words;
use crate::arch::target::needs;
use crate::number::Number;
#[cfg(not(target_arch = "nvptx64"))]
use crate::number::Scalar;
#[cfg(not(target_arch = "nvptx64"))]
use crate::number::{B1, F8E4M3, F8E5M2, Tf32};
#[cfg(not(target_arch = "nvptx64"))]
use half::bf16;
use half::f16;
#[cfg(not(target_arch = "nvptx64"))]
use moye_sim::intrinsics::{MmaSum, Wgmma, WgmmaA, WgmmaNumber, WgmmaResult};

/// The immediate operand of a sign: 1, or -1 if it is negated.
#[cfg(all(target_arch = "nvptx64", target_feature = "sm_90a"))]
const fn sign(negated: bool) -> i32 {
    if negated { -1 } else { 1 }
}

/// The instruction as inline assembly. Accumulators are `inout`: each stays in its register over a
/// whole loop (seen; docs/decisions/0004 on why it is never `pure`).
#[cfg(all(target_arch = "nvptx64", target_feature = "sm_90a"))]
macro_rules! assembly {
    (
        $text:literal, $list:literal [$($register:ident)*], $d:ident,
        $a:literal ($($a_operand:tt)*) $a_parameter:ident, $b:ident, $adds:ident, $tail:literal ($($operand:tt)*)
    ) => {
        // Destructured by one pattern: a hundred separate indices take the compiler longer.
        let [$($register),*] = $d;
        // SAFETY: the whole warpgroup executes it, with descriptors of shared memory.
        unsafe {
            core::arch::asm!(
                concat!(
                    "{{ .reg .pred p; setp.ne.b32 p, {adds}, 0; wgmma.mma_async.sync.aligned.", $text, " {{", $list, "}}, ",
                    $a, ", {b}, p", $tail, "; }}"
                ),
                $(inout(reg32) *$register,)*
                $($a_operand)*
                b = in(reg64) $b, adds = in(reg32) $adds as u32,
                $($operand)*
                options(nostack)
            )
        }
    };
}

/// On other GPUs no call compiles. Emitting the assembly of all functions would only take compile
/// time.
#[cfg(all(target_arch = "nvptx64", not(target_feature = "sm_90a")))]
macro_rules! assembly {
    (
        $text:literal, $list:literal $registers:tt, $d:ident,
        $a:literal $a_operand:tt $a_parameter:ident, $b:ident, $adds:ident, $tail:literal $operands:tt
    ) => {
        let _ = ($d, $a_parameter, $b, $adds);
    };
}

/// The instruction in the simulator.
#[cfg(not(target_arch = "nvptx64"))]
macro_rules! emulation {
    (
        $text:literal, $n:literal, $sum:ident, $d_type:ident, $a_type:ident, $b_type:ident,
        [$($major:expr),*], [$($negate:expr),*], $d:ident, $a:expr, $b:ident, $adds:ident
    ) => {{
        let instruction = Wgmma {
            operation: concat!("wgmma.mma_async.sync.aligned.", $text),
            n: $n,
            a: WgmmaNumber {
                bits: <$a_type as Number>::WIDTH,
                decode: |bits| <$a_type as Scalar>::from_low_bits(bits).to_f64(),
            },
            b: WgmmaNumber {
                bits: <$b_type as Number>::WIDTH,
                decode: |bits| <$b_type as Scalar>::from_low_bits(bits).to_f64(),
            },
            d: WgmmaResult {
                bits: <$d_type as Number>::WIDTH,
                decode: |bits| <$d_type as Scalar>::from_low_bits(bits).to_f64(),
                encode: |value| <$d_type as Scalar>::nearest(value).low_bits(),
            },
            sum: MmaSum::$sum,
            mn_major: [$($major),*],
            negate: [$($negate),*],
        };
        moye_sim::intrinsics::wgmma(&instruction, words($d), $a, $b, $adds);
    }};
}

/// One function. `generics` are the constants that a caller can choose.
macro_rules! instruction {
    (
        $kind:literal, $atom:ident, $function:ident, $text:literal $ptx:literal, $n:literal, $sum:ident,
        $d:ident $count:literal $list:literal $registers:tt, $a:ident, $b:ident,
        $a_parameter:ident $a_register:ty, $a_text:literal $a_operand:tt, $a_simulated:expr,
        <$($generic:ident),*> $tail:literal $tail_operands:tt, $majors:tt, $negates:tt
    ) => {
        #[doc = concat!("`wgmma.mma_async.sync.aligned.", $text, "`, ", $kind, ": `d = a b + d`, or `a b` without `adds`.")]
        ///
        /// `b` (and `a`, unless it is in registers) is a matrix descriptor. The constants, if there
        /// are any, say whether A and B are MN-major in shared memory, and whether they are
        /// negated.
        ///
        /// # Safety
        /// All lanes of all four warps of the warpgroup execute it with the same descriptors and
        /// `adds`, in the order that the [module](crate::arch::wgmma) describes. The descriptors
        /// are of matrices in the block's shared memory.
        #[inline(always)]
        #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
        pub unsafe fn $function<$(const $generic: bool),*>(
            d: &mut [<$d as Number>::Register; $count],
            $a_parameter: $a_register,
            b: u64,
            adds: bool,
        ) {
            needs!(concat!("wgmma.mma_async.sync.aligned.", $text, " (the atom ", stringify!($atom), ")"), sm_90a $ptx);
            #[cfg(target_arch = "nvptx64")]
            assembly!($text, $list $registers, d, $a_text $a_operand $a_parameter, b, adds, $tail $tail_operands);
            #[cfg(not(target_arch = "nvptx64"))]
            emulation!($text, $n, $sum, $d, $a, $b, $majors, $negates, d, $a_simulated($a_parameter), b, adds);
        }
    };
}

macro_rules! instructions {
    ($(wgmma {
        $kind:ident; $ss:ident $ss_function:ident; $rs:ident $rs_function:ident; $text:literal; needs $ptx:literal;
        [$m:literal, $n:literal, $k:literal]; $sum:ident; d $d:ident $count:literal $list:literal $registers:tt; a $a:ident; b $b:ident
    })*) => { $(
        both!($kind, $ss $ss_function, $rs $rs_function, $text $ptx, $n, $sum, $d $count $list $registers, $a, $b);
    )* };
}

/// The two functions of a row, with their constants.
macro_rules! both {
    (majors, $ss:ident $ss_function:ident, $rs:ident $rs_function:ident, $($rest:tt)*) => {
        both!(@ $ss $ss_function, $rs $rs_function, ($($rest)*),
            <MN_A, MN_B, NEGATE_A, NEGATE_B> ", {sign_a}, {sign_b}, {mn_a}, {mn_b}" (
                sign_a = const sign(NEGATE_A), sign_b = const sign(NEGATE_B), mn_a = const MN_A as i32, mn_b = const MN_B as i32,
            ), [MN_A, MN_B], [NEGATE_A, NEGATE_B];
            <MN_B, NEGATE_A, NEGATE_B> ", {sign_a}, {sign_b}, {mn_b}" (
                sign_a = const sign(NEGATE_A), sign_b = const sign(NEGATE_B), mn_b = const MN_B as i32,
            ), [false, MN_B], [NEGATE_A, NEGATE_B]
        );
    };
    (scaled, $ss:ident $ss_function:ident, $rs:ident $rs_function:ident, $($rest:tt)*) => {
        both!(@ $ss $ss_function, $rs $rs_function, ($($rest)*),
            <NEGATE_A, NEGATE_B> ", {sign_a}, {sign_b}" (
                sign_a = const sign(NEGATE_A), sign_b = const sign(NEGATE_B),
            ), [false, false], [NEGATE_A, NEGATE_B];
            <NEGATE_A, NEGATE_B> ", {sign_a}, {sign_b}" (
                sign_a = const sign(NEGATE_A), sign_b = const sign(NEGATE_B),
            ), [false, false], [NEGATE_A, NEGATE_B]
        );
    };
    (plain, $ss:ident $ss_function:ident, $rs:ident $rs_function:ident, $($rest:tt)*) => {
        both!(@ $ss $ss_function, $rs $rs_function, ($($rest)*),
            <> "" (), [false, false], [false, false]; <> "" (), [false, false], [false, false]
        );
    };
    (
        @ $ss:ident $ss_function:ident, $rs:ident $rs_function:ident,
        ($text:literal $ptx:literal, $n:literal, $sum:ident, $d:ident $count:literal $list:literal $registers:tt, $a:ident, $b:ident),
        <$($ss_generic:ident),*> $ss_tail:literal $ss_operands:tt, $ss_majors:tt, $ss_negates:tt;
        <$($rs_generic:ident),*> $rs_tail:literal $rs_operands:tt, $rs_majors:tt, $rs_negates:tt
    ) => {
        instruction!(
            "with A in shared memory", $ss, $ss_function, $text $ptx, $n, $sum, $d $count $list $registers, $a, $b,
            a u64, "{a}" (a = in(reg64) a,), WgmmaA::Shared,
            <$($ss_generic),*> $ss_tail $ss_operands, $ss_majors, $ss_negates
        );
        instruction!(
            "with A in registers", $rs, $rs_function, $text $ptx, $n, $sum, $d $count $list $registers, $a, $b,
            a [u32; 4], "{{{a0}, {a1}, {a2}, {a3}}}"
            (a0 = in(reg32) a[0], a1 = in(reg32) a[1], a2 = in(reg32) a[2], a3 = in(reg32) a[3],), WgmmaA::Registers,
            <$($rs_generic),*> $rs_tail $rs_operands, $rs_majors, $rs_negates
        );
    };
}

crate::for_each_wgmma!(instructions);
