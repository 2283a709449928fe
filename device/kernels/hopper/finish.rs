//! The epilogue in registers, for a C that is not read: `activation(alpha * sum + bias)`.
//!
//! The results are then stored like plain accumulators (`store.rs`, `pieces.rs`), and TMA stores
//! overlap the next tile's product. Threads hold the accumulators as `wgmma` leaves them: of every
//! eight columns two neighbours of one row, and of the row eight below. So a bias along rows is two
//! numbers for a thread, and a bias along columns one pair for every eight columns, shared by eight
//! lanes of a warp.
//!
//! Each condition is tested once for all accumulators. Registers have constant names, so the code
//! for each accumulator is written out, and short code matters.

use super::config::{AccumulatorsOf, ArgumentsOf, WgmmaConfig};
use super::epilogue::{Part, is_wide};
use crate::mma::{Activation, Convertible, Scalar as _};
use moye_device::arch::Fma as _;
use moye_device::arch::wgmma::Accumulators as _;
use moye_device::collective::{Coordinate, Epilogue};
use moye_device::memory::{Global, GlobalPointer as _};

/// Replaces an instruction's accumulators by the results for `beta` = 0.
///
/// # Safety
/// All threads of the warpgroup, or whole warps of it, call it, each with its number in it; the
/// bias is readable, and no instruction that writes the accumulators is in flight.
#[inline(always)]
pub(super) unsafe fn finish<G: WgmmaConfig>(
    sums: &mut AccumulatorsOf<G>,
    arguments: &ArgumentsOf<G>,
    part: Part,
    thread: u32,
) {
    let values = sums.as_mut_slice();
    // With alpha = 1 a sum of -0 keeps its sign.
    if arguments.alpha != G::Scalar::ONE {
        let mut i = 0;
        while i < values.len() {
            values[i] = G::Sum::narrow(arguments.alpha.fma(values[i].widen(), G::Scalar::ZERO));
            i += 1;
        }
    }
    let (warp, lane) = (thread / 32, thread % 32);
    let place = (part.first.0 + 16 * warp + lane / 4, part.first.1 + 2 * (lane % 4));
    if arguments.bias.address() != 0 {
        // SAFETY: the caller's contract; the element types match.
        unsafe {
            if is_wide(arguments) {
                add_bias::<G, G::Scalar>(values, arguments.bias.cast(), arguments, place);
            } else {
                add_bias::<G, G::Output>(values, arguments.bias, arguments, place);
            }
        }
    }
    match arguments.activation {
        RELU => in_pairs::<G>(values, |pair| pair.map(G::Scalar::relu)),
        GELU => in_pairs::<G>(values, G::Scalar::gelu_of_two),
        SILU => in_pairs::<G>(values, G::Scalar::silu_of_two),
        _ => {}
    }
}

/// Applies an epilogue to the accumulators of one instruction; elements out of bounds of C are left
/// as they are.
///
/// # Safety
/// As [`finish`]; the epilogue may read what it points to.
#[inline(always)]
pub(super) unsafe fn apply<G: WgmmaConfig, E: Epilogue<G::Scalar>>(
    sums: &mut AccumulatorsOf<G>,
    epilogue: E,
    arguments: &ArgumentsOf<G>,
    part: Part,
    thread: u32,
) {
    let values = sums.as_mut_slice();
    let (warp, lane) = (thread / 32, thread % 32);
    let (first_row, first_column) = (part.first.0 + 16 * warp + lane / 4, part.first.1 + 2 * (lane % 4));
    let mut i = 0;
    while i < values.len() {
        let (row, column) =
            (first_row + 8 * (i as u32 / 2 % 2), first_column + 8 * (i as u32 / 4) + i as u32 % 2);
        if row < arguments.m && column < arguments.n {
            // SAFETY: C has the element; the caller's contract.
            let at = Coordinate { row, column, batch: part.batch };
            values[i] = G::Sum::narrow(unsafe { epilogue.element(values[i].widen(), at) });
        }
        i += 1;
    }
}

const RELU: u32 = Activation::Relu as u32;
const GELU: u32 = Activation::Gelu as u32;
const SILU: u32 = Activation::Silu as u32;

/// Applies a function to pairs of neighbours in a row.
#[inline(always)]
fn in_pairs<G: WgmmaConfig>(values: &mut [G::Sum], function: impl Fn([G::Scalar; 2]) -> [G::Scalar; 2]) {
    let mut i = 0;
    while i < values.len() {
        let [first, second] = function([values[i].widen(), values[i + 1].widen()]);
        (values[i], values[i + 1]) = (G::Sum::narrow(first), G::Sum::narrow(second));
        i += 2;
    }
}

/// Adds the bias to a thread's elements, the first of which has this row and column of C.
///
/// # Safety
/// The bias has elements of `O`, and is readable.
#[inline(always)]
unsafe fn add_bias<G: WgmmaConfig, O: Convertible<G::Scalar>>(
    values: &mut [G::Sum],
    bias: Global<O>,
    arguments: &ArgumentsOf<G>,
    (row, column): (u32, u32),
) {
    let add = |value: &mut G::Sum, bias: G::Scalar| {
        *value = G::Sum::narrow(G::Scalar::ONE.fma(bias, value.widen()));
    };
    // SAFETY: the caller's contract. Elements out of bounds of C are skipped; their results are not
    // stored.
    unsafe {
        if arguments.bias_n == 0 {
            let of = |row: u32| {
                let at = bias.offset(i64::from(row) * arguments.bias_m);
                at.read_if(row < arguments.m).widen()
            };
            let rows = [of(row), of(row + 8)];
            let mut i = 0;
            while i < values.len() {
                add(&mut values[i], rows[i / 2 % 2]);
                i += 1;
            }
        } else {
            let of = |column: u32| {
                let at = bias.offset(i64::from(column) * arguments.bias_n);
                at.read_if(column < arguments.n).widen()
            };
            let mut i = 0;
            while i < values.len() {
                let column = column + 2 * i as u32;
                let pair = [of(column), of(column + 1)];
                let mut j = 0;
                while j < 4 {
                    add(&mut values[i + j], pair[j % 2]);
                    j += 1;
                }
                i += 4;
            }
        }
    }
}
