//! Sums times the scales of their row of A and their column of B, in the registers that hold them.

use super::config::{AccumulatorsOf, ArgumentsOf, WgmmaConfig};
use super::epilogue::Part;
use crate::arch::Fma as _;
use crate::arch::wgmma::Accumulators;
use crate::kernels::mma::{Convertible as _, Scalar as _};
use crate::memory::GlobalPointer as _;

/// Multiplies the sums of an instruction's part of a tile by what [`Scales`](crate::kernels::mma::Scales) has for them.
///
/// Each part of K is multiplied by itself, so that whoever adds them up needs no scales.
///
/// # Safety
/// All threads of the consuming warpgroup, each with its number in it; the scales may be read, and no instruction that writes the
/// sums is on its way.
#[inline(always)]
pub unsafe fn scale<G: WgmmaConfig>(
    sums: &mut AccumulatorsOf<G>,
    arguments: &ArgumentsOf<G>,
    part: Part,
    thread: u32,
) {
    let scales = &arguments.scales;
    let (has_a, has_b) = (scales.a.address() != 0, scales.b.address() != 0);
    if !has_a && !has_b {
        return;
    }
    let sums = sums.as_mut_slice();
    let (warp, lane) = (thread / 32, thread % 32);
    let row = part.first.0 + 16 * warp + lane / 4;
    let column = part.first.1 + 2 * (lane % 4);
    let of_a = scales.a.offset(i64::from(part.batch) * scales.batch_a);
    let of_b = scales.b.offset(i64::from(part.batch) * scales.batch_b);
    // SAFETY: the caller's contract; rows and columns that are not C's are not asked for, whose sums nobody writes.
    unsafe {
        let of_row = |row: u32| match has_a {
            true => of_a.offset(i64::from(row) * scales.a_m).read_if(row < arguments.m),
            false => G::Scalar::ONE,
        };
        let of_column =
            |column: u32| of_b.offset(i64::from(column) * scales.b_n).read_if(column < arguments.n);
        let rows = [of_row(row), of_row(row + 8)];
        let times = |sum: &mut G::Sum, factor: G::Scalar| {
            *sum = G::Sum::narrow(factor.fma(sum.widen(), G::Scalar::ZERO));
        };
        // Four registers for every eight columns: two neighbours of the row, and two of the one eight below.
        if has_b && scales.b_n != 0 {
            let mut at = 0;
            while at < sums.len() {
                let first = column + 2 * at as u32;
                let factors = [of_column(first), of_column(first + 1)];
                let mut i = 0;
                while i < 4 {
                    times(&mut sums[at + i], rows[i / 2]);
                    times(&mut sums[at + i], factors[i % 2]);
                    i += 1;
                }
                at += 4;
            }
        } else {
            let all = if has_b { of_b.read_if(true) } else { G::Scalar::ONE };
            let factors = rows.map(|row| row.fma(all, G::Scalar::ZERO));
            let mut at = 0;
            while at < sums.len() {
                times(&mut sums[at], factors[at / 2 % 2]);
                at += 1;
            }
        }
    }
}
