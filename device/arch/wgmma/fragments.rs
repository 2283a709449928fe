//! Thread-value layouts of a warpgroup, like those of [`mma`](crate::arch::mma::fragments):
//! `(thread, value)` to the element's column-major index in the tile. The names are CuTe's if it
//! has one.
//!
//! A warp holds 16 rows: thread `t` is lane `t % 32` of warp `t / 32`, and lane `l` holds the rows
//! `l / 4` and `l / 4 + 8` of its warp. Along a row, four lanes share each 8 columns of D, two
//! each, or each 16 bytes of A in registers.

#![allow(non_upper_case_globals, reason = "CuTe's names")]

use crate::layout::{Layout, layout};

/// The threads of a warpgroup.
pub const SM90_Warpgroup: Layout = layout!(128:1);

/// `(T128, V(N / 2)) -> (M64, NN)`: the accumulators, CuTe's `CLayout_64xN`. `n` is a multiple
/// of 8.
///
/// The mode of the groups of eight columns exists for 8 columns too, with extent 1, so that code
/// generic over N may take mode (1, 2).
#[must_use]
pub const fn accumulators(n: i64) -> Layout {
    layout!(((4, 8, 4), (2, 2, n / 8)):((128, 1, 16), (64, 8, 512)))
}

/// `(T128, V4) -> (M64, K8)`: A of 32 bits in registers, CuTe's `ALayout_64x8`.
pub const SM90_64x8: Layout = layout!(((4, 8, 4), (2, 2)):((64, 1, 16), (8, 256)));
/// `(T128, V8) -> (M64, K16)`: A of 16 bits in registers, CuTe's `ALayout_64x16`.
pub const SM90_64x16: Layout = layout!(((4, 8, 4), (2, 2, 2)):((128, 1, 16), (64, 8, 512)));
/// `(T128, V16) -> (M64, K32)`: A of 8 bits in registers, CuTe's `ALayout_64x32`.
pub const SM90_64x32: Layout = layout!(((4, 8, 4), (4, 2, 2)):((256, 1, 16), (64, 8, 1024)));
/// `(T128, V128) -> (M64, K256)`: A of one bit in registers.
pub const SM90_64x256: Layout = layout!(((4, 8, 4), (32, 2, 2)):((2048, 1, 16), (64, 8, 8192)));

/// A in registers, with elements of `bits` bits: 32, 16, 8 or 1.
#[must_use]
pub const fn registers_a(bits: i64) -> Layout {
    match bits {
        32 => SM90_64x8,
        16 => SM90_64x16,
        8 => SM90_64x32,
        _ => SM90_64x256,
    }
}

/// `(T128, V(rows K)) -> (rows, K)`: an operand in shared memory, where every thread holds all
/// elements, CuTe's `ABLayout`.
#[must_use]
pub const fn shared_operand(rows: i64, k: i64) -> Layout {
    layout!((128, (rows, k)):(0, (1, rows)))
}
