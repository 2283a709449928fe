//! Multiplies accumulators by the scales of their row of A and their column of B, in registers.

use super::config::{ATOM_M, ArgumentsOf, Sums as _, WgmmaConfig};
use super::epilogue::Part;
use crate::mma::{Convertible as _, Scalar as _, Scales};
use moye_device::arch::Fma as _;
use moye_device::arch::wgmma::Accumulators;
use moye_device::memory::{Element, GlobalPointer as _};

/// A thread's scales, except scales that differ by column: few registers, loaded while the last
/// instructions of a tile run.
#[derive(Clone, Copy)]
pub struct Factors<S> {
    /// For the thread's two rows in each of its warpgroup's one or two instructions; 1 if A has no
    /// scales.
    rows: [[S; 2]; 2],
    /// The scale of all columns, if it is the same; otherwise 1.
    columns: S,
}

/// Whether each column has its own scale.
#[inline(always)]
fn by_column<S: Element>(scales: &Scales<S>) -> bool {
    scales.b.address() != 0 && scales.b_n != 0
}

/// The scales of a thread in its warpgroup's part of a tile; `None` for configurations without
/// scales.
///
/// # Safety
/// The scales are readable; `thread` is the number in the warpgroup.
#[inline(always)]
pub unsafe fn load_factors<G: WgmmaConfig>(
    arguments: &ArgumentsOf<G>,
    part: Part,
    thread: u32,
) -> Option<Factors<G::Scalar>> {
    if !const { G::SCALED } {
        return None;
    }
    let scales = &arguments.scales;
    let row = part.first.0 + 16 * (thread / 32) + thread % 32 / 4;
    let of_a = scales.a.offset(i64::from(part.batch) * scales.batch_a);
    let of_b = scales.b.offset(i64::from(part.batch) * scales.batch_b);
    // SAFETY: the caller's contract. Rows out of bounds of C are skipped; their results are not
    // stored.
    unsafe {
        let of_row = |row: u32| match scales.a.address() {
            0 => G::Scalar::ONE,
            _ => of_a.offset(i64::from(row) * scales.a_m).read_if(row < arguments.m),
        };
        let one_for_all = scales.b.address() != 0 && !by_column(scales);
        let of_instruction = |m: u32| [of_row(row + m * ATOM_M), of_row(row + m * ATOM_M + 8)];
        Some(Factors {
            rows: [
                of_instruction(0),
                if const { G::MMA_M > 1 } { of_instruction(1) } else { [G::Scalar::ONE; 2] },
            ],
            columns: if one_for_all { of_b.read_if(true) } else { G::Scalar::ONE },
        })
    }
}

/// Multiplies the accumulators of a warpgroup's part of a tile by their [`Scales`], if there are
/// `factors`.
///
/// Each split of K is scaled separately, so that the reduction needs no scales.
///
/// # Safety
/// All threads of the consumer warpgroup call it, each with its number and the factors that it has
/// [loaded](load_factors) for the same part. The scales are readable, and no instruction that
/// writes the accumulators is in flight.
#[inline(always)]
pub unsafe fn scale<G: WgmmaConfig>(
    sums: &mut G::Sums,
    arguments: &ArgumentsOf<G>,
    factors: Option<Factors<G::Scalar>>,
    part: Part,
    thread: u32,
) {
    let Some(factors) = factors else { return };
    let scales = &arguments.scales;
    if scales.a.address() == 0 && scales.b.address() == 0 {
        return;
    }
    sums.each_mut(
        #[inline(always)]
        |m, sums| {
            let sums = sums.as_mut_slice();
            // SAFETY: the caller's contract.
            unsafe {
                scale_rows::<G>(sums, arguments, (factors.rows[m as usize], factors.columns), part, thread)
            };
        },
    );
}

/// [`scale`] for one of a warpgroup's instructions, by the scales of its two rows and of all
/// columns.
///
/// # Safety
/// As for [`scale`].
#[inline(always)]
unsafe fn scale_rows<G: WgmmaConfig>(
    sums: &mut [G::Sum],
    arguments: &ArgumentsOf<G>,
    (rows, columns): ([G::Scalar; 2], G::Scalar),
    part: Part,
    thread: u32,
) {
    let scales = &arguments.scales;
    let times = |sum: &mut G::Sum, factor: G::Scalar| {
        *sum = G::Sum::narrow(factor.fma(sum.widen(), G::Scalar::ZERO));
    };
    // Four registers for every eight columns: two neighbours of the row, and two of the row eight
    // below.
    if by_column(scales) {
        let column = part.first.1 + 2 * (thread % 4);
        let of_b = scales.b.offset(i64::from(part.batch) * scales.batch_b);
        let of_column = |column: u32| {
            let at = of_b.offset(i64::from(column) * scales.b_n);
            // SAFETY: the caller's contract. Columns out of bounds of C are skipped; their results
            // are not stored.
            unsafe { at.read_if(column < arguments.n) }
        };
        let mut at = 0;
        while at < sums.len() {
            let first = column + 2 * at as u32;
            let pair = [of_column(first), of_column(first + 1)];
            let mut i = 0;
            while i < 4 {
                times(&mut sums[at + i], rows[i / 2]);
                times(&mut sums[at + i], pair[i % 2]);
                i += 1;
            }
            at += 4;
        }
    } else {
        let both = rows.map(|row| row.fma(columns, G::Scalar::ZERO));
        let mut at = 0;
        while at < sums.len() {
            times(&mut sums[at], both[at / 2 % 2]);
            at += 1;
        }
    }
}
