//! The number of modes of a tensor in global memory, 1 to 5, and its coordinates.
//!
//! A coordinate is its first two components, `[i32; 2]`, and [`More`], which tensors of one or two
//! modes do not read: code for it is behind a constant condition, so that a matrix has no further
//! cost. Modes past the last have extent 1.

use super::strides::Strides;
use core::fmt::Debug;

/// The most modes of a tensor in global memory.
pub const MAX_RANK: usize = 5;

/// The components of a coordinate past the first two.
pub(super) type More = [i32; MAX_RANK - 2];

/// The rank of a tensor in global memory, as a type: 2 for a matrix.
#[derive(Clone, Copy, Debug)]
pub struct Rank<const R: usize>;

/// The number of modes of a tensor in global memory: [`Rank`] of 1 to 5.
///
/// [`Strides::Rank`](super::Strides::Rank) is the rank of a tensor.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a rank of a tensor in global memory",
    note = "its rank is 1 to 5: `Rank<1>` to `Rank<5>`"
)]
pub trait TensorRank: Copy + Debug + 'static {
    /// The number of modes.
    const RANK: usize;

    /// Extents, or a coordinate, as an author writes it: `(u32, u32)` for two modes.
    type Shape: Copy + Debug;

    /// The rank with one more mode.
    #[doc(hidden)]
    type Next: TensorRank;

    /// All components, `past` for those past the last mode: 1 for extents, 0 for a coordinate.
    #[doc(hidden)]
    fn numbers(shape: Self::Shape, past: i32) -> [i32; MAX_RANK];

    #[doc(hidden)]
    fn shape(numbers: [i32; MAX_RANK]) -> Self::Shape;
}

/// A coordinate in a tensor in global memory, or its extents: a tuple of one to five `u32`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a coordinate of a tensor in global memory",
    label = "not a tuple of one to five `u32`",
    note = "a tuple has one `u32` for each mode: `(row, column)` of a matrix"
)]
pub trait TensorCoordinate: Copy + Debug {
    /// The rank of its tensor.
    type Rank: TensorRank<Shape = Self>;
}

macro_rules! ranks {
    ($($rank:literal, $next:literal: $($number:ty = $axis:tt),*;)+) => { $(
        impl TensorCoordinate for ($($number,)*) {
            type Rank = Rank<$rank>;
        }

        #[allow(unused_variables, unused_mut, clippy::unused_unit, reason = "a tensor without modes")]
        impl TensorRank for Rank<$rank> {
            const RANK: usize = $rank;
            type Shape = ($($number,)*);
            type Next = Rank<$next>;

            #[inline(always)]
            fn numbers(shape: Self::Shape, past: i32) -> [i32; MAX_RANK] {
                let mut numbers = [past; MAX_RANK];
                $(numbers[$axis] = shape.$axis as i32;)*
                numbers
            }

            #[inline(always)]
            fn shape(numbers: [i32; MAX_RANK]) -> Self::Shape {
                ($(numbers[$axis] as u32,)*)
            }
        }
    )+ };
}
ranks! {
    0, 1: ;
    1, 2: u32 = 0;
    2, 3: u32 = 0, u32 = 1;
    3, 4: u32 = 0, u32 = 1, u32 = 2;
    4, 5: u32 = 0, u32 = 1, u32 = 2, u32 = 3;
    5, 5: u32 = 0, u32 = 1, u32 = 2, u32 = 3, u32 = 4;
}

/// Components of a coordinate, `$value` each: `by_axis!(AXIS => Offsets::<L, AXIS>::TABLE[i])` for
/// all, `by_axis!(more R::RANK, AXIS => ...)` for those past the first two, which are 0 past the
/// rank.
macro_rules! by_axis {
    (more $rank:expr, $axis:ident => $value:expr) => {
        [
            by_axis!(@from $rank, 2, $axis => $value),
            by_axis!(@from $rank, 3, $axis => $value),
            by_axis!(@from $rank, 4, $axis => $value),
        ]
    };
    ($axis:ident => $value:expr) => {
        [
            by_axis!(@at 0, $axis => $value),
            by_axis!(@at 1, $axis => $value),
            by_axis!(@at 2, $axis => $value),
            by_axis!(@at 3, $axis => $value),
            by_axis!(@at 4, $axis => $value),
        ]
    };
    (@from $rank:expr, $number:literal, $axis:ident => $value:expr) => {
        if const { $rank > $number } { by_axis!(@at $number, $axis => $value) } else { 0 }
    };
    (@at $number:literal, $axis:ident => $value:expr) => {{
        const $axis: usize = $number;
        $value
    }};
}
pub(super) use by_axis;

/// The offset in elements of the components past the first two.
#[inline(always)]
pub(super) fn more_along<S: Strides>(by: More, strides: S) -> i64 {
    let mut offset = by[0] as i64 * strides.along(2);
    if const { S::Rank::RANK > 3 } {
        offset += by[1] as i64 * strides.along(3);
    }
    if const { S::Rank::RANK > 4 } {
        offset += by[2] as i64 * strides.along(4);
    }
    offset
}

/// Whether `at` is below `end` in each mode except `unit`.
#[inline(always)]
pub(super) fn others_below(at: [i32; MAX_RANK], end: [i32; MAX_RANK], unit: usize) -> bool {
    let mut below = unit == 0 || at[0] < end[0];
    below &= unit == 1 || at[1] < end[1];
    below &= unit == 2 || at[2] < end[2];
    below &= unit == 3 || at[3] < end[3];
    below &= unit == 4 || at[4] < end[4];
    below
}

/// All components of a coordinate.
#[inline(always)]
pub(super) const fn all([a, b]: [i32; 2], [c, d, e]: More) -> [i32; MAX_RANK] {
    [a, b, c, d, e]
}
