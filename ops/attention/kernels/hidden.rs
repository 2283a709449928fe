//! NaN and infinite values in rows of V that a mask hides: `0 * NaN` must not reach a result. This
//! is for the kernels with score options; the others recompute such rows, see `recompute`.
//!
//! Tensor cores multiply every row. A tile of results is computed as if V were finite. If one of
//! its results is not finite, the kernel computes the tile again. In tiles of keys with hidden
//! scores it then multiplies each row of V that has a non-finite value separately, for the queries
//! that see its key, and clears the row before the product of the other rows.

use super::config::{Half, MmaConfig};
use super::rows::offset;
use super::softmax::at;
use moye_device::arch::{FULL_WARP, Fma, ballot, lane_id, opaque, shuffle};
use moye_device::atom::mma::accumulator_column;
use moye_device::memory::Shared;
use moye_device::tensor::{Fragment, StaticLayout};

/// The rows of V in block `block` of 32 rows that have a non-finite value, one bit per row; the
/// result is the same in all lanes of the warp.
///
/// # Safety
/// The tile at `values` has arrived; all lanes of the warp execute this call together.
#[inline(always)]
unsafe fn not_finite<C: MmaConfig>(values: Shared<C::Element>, block: u32) -> u32 {
    let row = block * 32 + lane_id();
    let exponent = u32::from(C::Element::EXPONENT);
    let mut bad = false;
    // `opaque` hides the trip count: the compiler must not unroll a loop that seldom runs.
    for column in 0..opaque(C::DV as u32 / 2) {
        let word = word_at::<C>(values, row, 2 * column).read(0);
        bad |= word & exponent == exponent || word >> 16 & exponent == exponent;
    }
    ballot(FULL_WARP, bad)
}

/// The word with the elements of the even column `column` and the next.
#[inline(always)]
fn word_at<C: MmaConfig>(values: Shared<C::Element>, row: u32, column: u32) -> Shared<u32> {
    Shared::from_address(values.address() + offset(C::KEYS as u32, C::DV as u32, row, column))
}

/// Adds the products of the rows of V that have a non-finite value, for the queries whose
/// probability is not 0.
///
/// # Safety
/// The tile at `values` has arrived, and is not written meanwhile; both fragments are initialised;
/// all lanes of the warp execute this call together.
#[inline(always)]
pub unsafe fn multiply_not_finite<C: MmaConfig, P: StaticLayout, O: StaticLayout, const ROWS: usize>(
    values: Shared<C::Element>,
    probabilities: &Fragment<f32, P>,
    results: &mut Fragment<f32, O>,
) {
    let lane = lane_id();
    for block in 0..opaque(C::KEYS as u32 / 32) {
        let mut bad = not_finite::<C>(values, block);
        while bad != 0 {
            let key = block * 32 + bad.trailing_zeros();
            bad &= bad - 1;
            // The key's column in the fragment of P, and the lane of the quad that holds it.
            let (column, owner) = (key / 8 * 2 + key % 2, (lane & !3) | (key % 8 / 2));
            for row in 0..ROWS {
                let mut p = 0.0;
                for c in 0..const { P::LAYOUT.size() as usize / ROWS } {
                    if c as u32 == column {
                        p = probabilities[at(ROWS, row, c)];
                    }
                }
                let p = shuffle(FULL_WARP, p, owner);
                for pair in 0..const { O::LAYOUT.size() as usize / ROWS / 2 } {
                    let word = word_at::<C>(values, key, pair as u32 * 8 + accumulator_column(lane)).read(0);
                    let v = C::Element::unpack(word);
                    for i in 0..2 {
                        let index = at(ROWS, row, 2 * pair + i);
                        let result = results[index];
                        results[index] = if p == 0.0 { result } else { p.fma(v[i], result) };
                    }
                }
            }
        }
    }
}

/// Clears the rows of V that have a non-finite value.
///
/// # Safety
/// The tile at `values` has arrived, and no other warp touches it meanwhile; all lanes of the warp
/// execute this call together.
#[inline(always)]
pub unsafe fn clear_not_finite<C: MmaConfig>(values: Shared<C::Element>) {
    for block in 0..opaque(C::KEYS as u32 / 32) {
        let bad = not_finite::<C>(values, block);
        if bad >> lane_id() & 1 != 0 {
            for column in 0..opaque(C::DV as u32 / 2) {
                // Each lane clears one row.
                word_at::<C>(values, block * 32 + lane_id(), 2 * column).write(0, 0);
            }
        }
    }
}
