//! Sums times the scales of their row of A and their column of B, in the registers that hold them.

use super::config::{AccumulatorsOf, ArgumentsOf, WgmmaConfig};
use super::epilogue::Part;
use crate::arch::Fma as _;
use crate::arch::wgmma::Accumulators;
use crate::kernels::mma::{Convertible as _, Scalar as _};
use crate::memory::GlobalPointer as _;

/// What a thread's sums are multiplied by, as far as that takes few registers: it is loaded while the last instructions of a tile run.
#[derive(Clone, Copy)]
pub struct Factors<S> {
    /// Of the thread's two rows.
    rows: [S; 2],
    /// Of all columns, where they have the same.
    columns: S,
}

/// The factors of a thread's rows in its warpgroup's part of a tile, and that of its columns where they share it; `None` of configurations that
/// have none.
///
/// # Safety
/// The scales may be read; `thread` is the number in the warpgroup.
#[inline(always)]
pub unsafe fn factors<G: WgmmaConfig>(
    arguments: &ArgumentsOf<G>,
    part: Part,
    thread: u32,
) -> Option<Factors<G::Scalar>> {
    if !const { G::SCALED } {
        return None;
    }
    const { assert!(!G::SCALED || G::MMA_M == 1, "rows of one instruction have factors") };
    let scales = &arguments.scales;
    let row = part.first.0 + 16 * (thread / 32) + thread % 32 / 4;
    let of_a = scales.a.offset(i64::from(part.batch) * scales.batch_a);
    let of_b = scales.b.offset(i64::from(part.batch) * scales.batch_b);
    // SAFETY: the caller's contract; rows that are not C's are not asked for, whose sums nobody writes.
    unsafe {
        let of_row = |row: u32| match scales.a.address() {
            0 => G::Scalar::ONE,
            _ => of_a.offset(i64::from(row) * scales.a_m).read_if(row < arguments.m),
        };
        Some(Factors {
            rows: [of_row(row), of_row(row + 8)],
            columns: match (scales.b.address(), scales.b_n) {
                (1.., 0) => of_b.read_if(true),
                _ => G::Scalar::ONE,
            },
        })
    }
}

/// Multiplies the sums of an instruction's part of a tile by what [`Scales`](crate::kernels::mma::Scales) has for them, of which `factors` are loaded.
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
    Factors { rows, columns }: Factors<G::Scalar>,
    part: Part,
    thread: u32,
) {
    let scales = &arguments.scales;
    let has_b = scales.b.address() != 0;
    if !has_b && scales.a.address() == 0 {
        return;
    }
    let sums = sums.as_mut_slice();
    let column = part.first.1 + 2 * (thread % 4);
    let of_b = scales.b.offset(i64::from(part.batch) * scales.batch_b);
    // SAFETY: the caller's contract; columns that are not C's are not asked for, whose sums nobody writes.
    unsafe {
        let of_column =
            |column: u32| of_b.offset(i64::from(column) * scales.b_n).read_if(column < arguments.n);
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
            let factors = rows.map(|row| row.fma(columns, G::Scalar::ZERO));
            let mut at = 0;
            while at < sums.len() {
                times(&mut sums[at], factors[at / 2 % 2]);
                at += 1;
            }
        }
    }
}
