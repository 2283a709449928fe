//! The place of a lane in the accumulators of `mma` and `wgmma`, for code that computes rows and
//! columns itself.
//!
//! [`coordinates`](crate::atom::ThrMma::coordinates) returns the row and column of every element of
//! a fragment, for any atom.

/// The first row of `lane`, from 0 to 31, in its warp's accumulators of 16 rows, also for `wgmma`.
///
/// ```
/// use moye_device::atom::mma::{MmaAtom, SM80_16x8x16_F32F16F16F32_TN as Atom};
/// use moye_device::atom::mma::{accumulator_column, accumulator_row};
///
/// for lane in 0..32 {
///     let first = Atom::C.at_coord([lane, 0]); // m + 16 n
///     assert_eq!(i64::from(accumulator_row(lane as u32)), first % 16);
///     assert_eq!(i64::from(accumulator_column(lane as u32)), first / 16);
/// }
/// ```
#[inline(always)]
#[must_use]
pub const fn accumulator_row(lane: u32) -> u32 {
    lane / 4
}

/// The first column of `lane`, or of a thread of any warp, in its warp's accumulators: it holds
/// this column and the next of every eight.
#[inline(always)]
#[must_use]
pub const fn accumulator_column(lane: u32) -> u32 {
    lane % 4 * 2
}
