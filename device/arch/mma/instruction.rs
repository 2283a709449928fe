//! The table as functions: each instruction and its emulation.

#[cfg(target_arch = "nvptx64")]
use super::super::target::needs;
#[cfg(not(target_arch = "nvptx64"))]
use super::{Registers, fragments};
#[cfg(not(target_arch = "nvptx64"))]
use crate::number::Scalar;
use crate::number::{B1, F8E4M3, F8E5M2, Number, S4, Tf32, U4};
use half::{bf16, f16};
#[cfg(not(target_arch = "nvptx64"))]
use moye_sim::intrinsics::{MMA_WORDS, Mma, MmaOperand, MmaResult, MmaSum, MmaTables};

/// `mma.sync` as inline assembly, from the registers of A, B and C to those of D.
///
/// The results may share registers with the operands (`lateout`): the instruction reads before it
/// writes. It is never `pure`, although it is a function of its operands: the optimiser would move
/// it into the branch that uses the result, which not all lanes may enter (docs/decisions/0004).
#[cfg(target_arch = "nvptx64")]
macro_rules! assembly {
    (f64 2 1 1 2, $($rest:tt)*) => { assembly!(@reg64 [d0 d1] [a0] [b0] [c0 c1], f64, $($rest)*) };
    ($t:ident 2 1 1 2, $($rest:tt)*) => { assembly!(@reg32 [d0 d1] [a0] [b0] [c0 c1], $t, $($rest)*) };
    ($t:ident 2 2 1 2, $($rest:tt)*) => { assembly!(@reg32 [d0 d1] [a0 a1] [b0] [c0 c1], $t, $($rest)*) };
    ($t:ident 2 4 2 2, $($rest:tt)*) => { assembly!(@reg32 [d0 d1] [a0 a1 a2 a3] [b0 b1] [c0 c1], $t, $($rest)*) };
    ($t:ident 4 2 1 4, $($rest:tt)*) => {
        assembly!(@reg32 [d0 d1 d2 d3] [a0 a1] [b0] [c0 c1 c2 c3], $t, $($rest)*)
    };
    ($t:ident 4 2 2 4, $($rest:tt)*) => {
        assembly!(@reg32 [d0 d1 d2 d3] [a0 a1] [b0 b1] [c0 c1 c2 c3], $t, $($rest)*)
    };
    ($t:ident 4 4 2 4, $($rest:tt)*) => {
        assembly!(@reg32 [d0 d1 d2 d3] [a0 a1 a2 a3] [b0 b1] [c0 c1 c2 c3], $t, $($rest)*)
    };
    ($t:ident 8 2 2 4, $($rest:tt)*) => {
        assembly!(@reg32 [d0 d1 d2 d3 d4 d5 d6 d7] [a0 a1] [b0 b1] [c0 c1 c2 c3], $t, $($rest)*)
    };
    ($t:ident 8 2 2 8, $($rest:tt)*) => {
        assembly!(@reg32 [d0 d1 d2 d3 d4 d5 d6 d7] [a0 a1] [b0 b1] [c0 c1 c2 c3 c4 c5 c6 c7], $t, $($rest)*)
    };
    (
        @$class:ident [$d0:ident $($d:ident)*] [$a0:ident $($a:ident)*] [$b0:ident $($b:ident)*] [$c0:ident $($c:ident)*],
        $t:ident, $text:literal, $in_a:ident, $in_b:ident, $in_c:ident
    ) => {{
        let [$a0, $($a),*] = $in_a;
        let [$b0, $($b),*] = $in_b;
        let [$c0, $($c),*] = $in_c;
        let $d0: <$t as Number>::Register;
        $(let $d: <$t as Number>::Register;)*
        // SAFETY: arithmetic on registers; the caller vouches for the other lanes.
        unsafe {
            core::arch::asm!(
                concat!(
                    "mma.sync.aligned.", $text,
                    " {{{", stringify!($d0), "}", $(", {", stringify!($d), "}",)*
                    "}}, {{{", stringify!($a0), "}", $(", {", stringify!($a), "}",)*
                    "}}, {{{", stringify!($b0), "}", $(", {", stringify!($b), "}",)*
                    "}}, {{{", stringify!($c0), "}", $(", {", stringify!($c), "}",)* "}};"
                ),
                $d0 = lateout($class) $d0, $($d = lateout($class) $d,)*
                $a0 = in($class) $a0, $($a = in($class) $a,)*
                $b0 = in($class) $b0, $($b = in($class) $b,)*
                $c0 = in($class) $c0, $($c = in($class) $c,)*
                options(nomem, nostack)
            )
        };
        [$d0, $($d),*]
    }};
}

/// The instruction in the simulator.
#[cfg(not(target_arch = "nvptx64"))]
macro_rules! emulation {
    (
        $text:literal, $shape:tt, $sum:ident, $lanes:ident,
        $d:ident $d_layout:ident, $a:ident $a_layout:ident, $b:ident $b_layout:ident, $c:ident $c_layout:ident,
        $in_a:ident, $in_b:ident, $in_c:ident
    ) => {{
        static INSTRUCTION: Mma = Mma {
            operation: concat!("mma.sync.aligned.", $text),
            shape: $shape,
            threads: fragments::$lanes.size() as usize,
            lane: |thread| fragments::$lanes.at(thread as i64) as usize,
        a: emulation!(@operand $a $a_layout),
        b: emulation!(@operand $b $b_layout),
        c: emulation!(@operand $c $c_layout),
            d: MmaResult {
                bits: <$d as Number>::WIDTH,
                values: fragments::$d_layout.extent(1) as usize,
                place: |thread, value| fragments::$d_layout.at_coord([thread as i64, value as i64]) as usize,
                encode: |value| <$d as Scalar>::nearest(value).low_bits(),
            },
            sum: MmaSum::$sum,
            tables: MmaTables::new(),
        };
        let d = INSTRUCTION.run(words($in_a), words($in_b), words($in_c));
        Registers::from_words(|word| d[word])
    }};
    (@operand $t:ident $layout:ident) => {
        MmaOperand {
            bits: <$t as Number>::WIDTH,
            values: fragments::$layout.extent(1) as usize,
            place: |thread, value| fragments::$layout.at_coord([thread as i64, value as i64]) as usize,
            decode: |bits| <$t as Scalar>::from_low_bits(bits).to_f64(),
        }
    };
}

macro_rules! instructions {
    (
        $(sync {
            $atom:ident; $function:ident; $text:literal; moye($($moye:literal)?); arch $arch:literal;
            needs $sm:literal $ptx:literal; $shape:tt; $sum:ident; $lanes:ident;
            d $d:ident $d_count:tt $d_layout:ident; a $a:ident $a_count:tt $a_layout:ident;
            b $b:ident $b_count:tt $b_layout:ident; c $c:ident $c_count:tt $c_layout:ident
        })*
        $(same $same:tt)*
        $(own $own:tt)*
    ) => { $(
        #[doc = concat!("`mma.sync.aligned.", $text, "`: the registers of D, for those of A, B and C.")]
        ///
        #[doc = concat!(
            "Layouts: D [`", stringify!($d_layout), "`](fragments::", stringify!($d_layout),
            "), A [`", stringify!($a_layout), "`](fragments::", stringify!($a_layout),
            "), B [`", stringify!($b_layout), "`](fragments::", stringify!($b_layout),
            "), C [`", stringify!($c_layout), "`](fragments::", stringify!($c_layout),
            "). Needs sm_", stringify!($sm), " and PTX ", stringify!($ptx), "."
        )]
        ///
        /// # Safety
        /// All 32 lanes of the warp execute this call together.
        #[inline(always)]
        #[must_use]
        #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
        pub unsafe fn $function(
            a: [<$a as Number>::Register; $a_count],
            b: [<$b as Number>::Register; $b_count],
            c: [<$c as Number>::Register; $c_count],
        ) -> [<$d as Number>::Register; $d_count] {
            #[cfg(target_arch = "nvptx64")]
            {
                needs!(concat!("mma.sync.aligned.", $text, " (the atom ", stringify!($atom), ")"), $sm $ptx);
                assembly!($d $d_count $a_count $b_count $c_count, $text, a, b, c)
            }
            #[cfg(not(target_arch = "nvptx64"))]
            {
                emulation!($text, $shape, $sum, $lanes, $d $d_layout, $a $a_layout, $b $b_layout, $c $c_layout, a, b, c)
            }
        }
    )* };
}

/// The registers' bits, padded with zeros.
#[cfg(not(target_arch = "nvptx64"))]
fn words<R: Registers>(registers: R) -> [u32; MMA_WORDS] {
    core::array::from_fn(|index| if index < R::WORDS { registers.word(index) } else { 0 })
}

crate::for_each_mma!(instructions);
