//! Copies of 8 x 8 matrices of 16-bit elements by a warp: `ldmatrix`, `stmatrix`, `movmatrix`.

use super::atom::{CopyAtom, RegisterFile, SharedMemory};
use crate::arch;
use crate::layout::{Layout, layout};

/// Places of rows in shared memory: lane `i` addresses row `i`, and further lanes repeat the rows.
const ROWS_1: Layout = layout!(((8, 4), 128):((128, 0), 1));
const ROWS_2: Layout = layout!(((16, 2), 128):((128, 0), 1));
const ROWS_4: Layout = layout!((32, 128):(128, 1));

/// Places of registers: lane by lane within each matrix, 32 bits each.
const LANES_1: Layout = layout!((32, 32):(32, 1));
const LANES_2: Layout = layout!((32, (32, 2)):(32, (1, 1024)));
const LANES_4: Layout = layout!((32, (32, 4)):(32, (1, 1024)));

/// Places of registers of transposed matrices: lane `(i, j)` holds elements `(2 i, j)` and
/// `(2 i + 1, j)`.
const LANES_1_T: Layout = layout!(((4, 8), (16, 2)):((256, 16), (1, 128)));
const LANES_2_T: Layout = layout!(((4, 8), (16, 2, 2)):((256, 16), (1, 128, 1024)));
const LANES_4_T: Layout = layout!(((4, 8), (16, 2, 4)):((256, 16), (1, 128, 1024)));

macro_rules! load {
    ($($name:ident $moye:literal $count:literal $function:ident $ptx:literal: $src:ident -> $dst:ident, $doc:literal;)*) => { $(
        #[doc = concat!("`ldmatrix.", $ptx, "`: ", $doc)]
        ///
        #[doc = concat!("In MoYe: `", $moye, "`.")]
        #[doc(alias = $moye)]
        #[allow(non_camel_case_types)]
        #[derive(Clone, Copy, Debug, Default)]
        pub struct $name;

        impl CopyAtom for $name {
            const NAME: &'static str = stringify!($name);
            const ARCH: u32 = 75;
            const PTX: Option<&'static str> = Some(concat!("ldmatrix.sync.aligned.m8n8.", $ptx, ".shared.b16"));
            type Source = SharedMemory;
            type Destination = RegisterFile<$count>;
            const THR_ID: Layout = layout!(32);
            const SRC: Layout = $src;
            const DST: Layout = $dst;
            const REF: Layout = $dst;

            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            unsafe fn call(source: u32, (): ()) -> [u32; $count] {
                // SAFETY: all lanes are here; addresses are aligned and their bytes written.
                unsafe { arch::$function(source) }
            }
        }
    )* };
}
load! {
    SM75_U32x1_LDSM_N "LDSM_U32x1_N" 1 ldmatrix_x1 "x1": ROWS_1 -> LANES_1, "one matrix; lanes 0 to 7 name its rows.";
    SM75_U32x2_LDSM_N "LDSM_U32x2_N" 2 ldmatrix_x2 "x2": ROWS_2 -> LANES_2, "two matrices; lanes 0 to 15 name their rows.";
    SM75_U32x4_LDSM_N "LDSM_U32x4_N" 4 ldmatrix_x4 "x4": ROWS_4 -> LANES_4, "four matrices; every lane names a row.";
    SM75_U16x2_LDSM_T "LDSM_U16x2_T" 1 ldmatrix_x1_trans "x1.trans": ROWS_1 -> LANES_1_T, "one matrix, transposed.";
    SM75_U16x4_LDSM_T "LDSM_U16x4_T" 2 ldmatrix_x2_trans "x2.trans": ROWS_2 -> LANES_2_T, "two matrices, each transposed.";
    SM75_U16x8_LDSM_T "LDSM_U16x8_T" 4 ldmatrix_x4_trans "x4.trans": ROWS_4 -> LANES_4_T, "four matrices, each transposed.";
}

macro_rules! store {
    ($($name:ident $count:literal $function:ident $ptx:literal: $src:ident -> $dst:ident, $doc:literal;)*) => { $(
        #[doc = concat!("`stmatrix.", $ptx, "`: ", $doc)]
        #[allow(non_camel_case_types)]
        #[derive(Clone, Copy, Debug, Default)]
        pub struct $name;

        impl CopyAtom for $name {
            const NAME: &'static str = stringify!($name);
            const ARCH: u32 = 90;
            const PTX: Option<&'static str> = Some(concat!("stmatrix.sync.aligned.m8n8.", $ptx, ".shared.b16"));
            type Source = RegisterFile<$count>;
            type Destination = SharedMemory;
            const THR_ID: Layout = layout!(32);
            const SRC: Layout = $src;
            const DST: Layout = $dst;
            const REF: Layout = $src;

            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            unsafe fn call(source: [u32; $count], destination: u32) {
                // SAFETY: all lanes are here; no other thread accesses the aligned bytes.
                unsafe { arch::$function(destination, source) }
            }
        }
    )* };
}
store! {
    SM90_U32x1_STSM_N 1 stmatrix_x1 "x1": LANES_1 -> ROWS_1, "one matrix; lanes 0 to 7 name its rows.";
    SM90_U32x2_STSM_N 2 stmatrix_x2 "x2": LANES_2 -> ROWS_2, "two matrices; lanes 0 to 15 name their rows.";
    SM90_U32x4_STSM_N 4 stmatrix_x4 "x4": LANES_4 -> ROWS_4, "four matrices; every lane names a row.";
    SM90_U16x2_STSM_T 1 stmatrix_x1_trans "x1.trans": LANES_1_T -> ROWS_1, "one matrix, transposed.";
    SM90_U16x4_STSM_T 2 stmatrix_x2_trans "x2.trans": LANES_2_T -> ROWS_2, "two matrices, each transposed.";
    SM90_U16x8_STSM_T 4 stmatrix_x4_trans "x4.trans": LANES_4_T -> ROWS_4, "four matrices, each transposed.";
}

/// `movmatrix.trans`: a matrix transposed from registers to registers.
///
/// Its layouts are CuTe's, which list the bits of each thread but not the transpose.
#[allow(non_camel_case_types)]
#[derive(Clone, Copy, Debug, Default)]
pub struct SM75_U32x1_MOVM_T;

impl CopyAtom for SM75_U32x1_MOVM_T {
    const NAME: &'static str = "SM75_U32x1_MOVM_T";
    const ARCH: u32 = 75;
    const PTX: Option<&'static str> = Some("movmatrix.sync.aligned.m8n8.trans.b16");
    type Source = RegisterFile<1>;
    type Destination = RegisterFile<1>;
    const THR_ID: Layout = layout!(32);
    const SRC: Layout = LANES_1;
    const DST: Layout = LANES_1;
    const REF: Layout = LANES_1;

    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn call([source]: [u32; 1], (): ()) -> [u32; 1] {
        // SAFETY: all lanes of the warp are here.
        [unsafe { arch::movmatrix_trans(source) }]
    }
}
