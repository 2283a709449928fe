//! A matrix's extents and strides.

use crate::{Error, Result};

/// Rows and columns, and the distances in elements between two rows and between two columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// The number of rows.
    pub rows: usize,
    /// The number of columns.
    pub cols: usize,
    /// The distance of two rows.
    pub row_stride: usize,
    /// The distance of two columns.
    pub col_stride: usize,
}

impl Shape {
    /// Checks that the matrix is within `len` elements.
    ///
    /// # Errors
    /// [`Error::MatrixBounds`] if it is not.
    pub fn check_bounds(&self, len: usize) -> Result<()> {
        let needed = self.cosize();
        if needed <= len as u128 {
            return Ok(());
        }
        let Self { rows, cols, row_stride, col_stride } = *self;
        Err(Error::MatrixBounds { rows, cols, row_stride, col_stride, needed, len })
    }

    /// Checks that no two elements share an offset.
    ///
    /// # Errors
    /// [`Error::MatrixOverlap`] if two do.
    pub fn check_distinct(&self) -> Result<()> {
        let Self { rows, cols, row_stride, col_stride } = *self;
        let overlaps = match (rows, cols) {
            (0, _) | (_, 0) | (1, 1) => false,
            (_, 1) => row_stride == 0,
            (1, _) => col_stride == 0,
            _ if row_stride == 0 || col_stride == 0 => true,
            // i rows and j columns lead to the same offset if i * row_stride = j * col_stride; the
            // smallest such i and j are the strides divided by their greatest common divisor.
            _ => {
                let divisor = gcd(row_stride, col_stride);
                col_stride / divisor < rows && row_stride / divisor < cols
            }
        };
        if overlaps { Err(Error::MatrixOverlap { rows, cols, row_stride, col_stride }) } else { Ok(()) }
    }

    /// One more than the largest offset of an element, 0 for an empty matrix.
    pub fn cosize(&self) -> u128 {
        if self.rows == 0 || self.cols == 0 {
            return 0;
        }
        let offset = |extent: usize, stride: usize| (extent as u128 - 1) * stride as u128;
        // Each product is less than 2^128 - 2^65, and only one of a pair that large could overflow
        // the sum.
        offset(self.rows, self.row_stride)
            .saturating_add(offset(self.cols, self.col_stride))
            .saturating_add(1)
    }

    /// The transposed matrix over the same elements.
    pub const fn t(self) -> Self {
        Self { rows: self.cols, cols: self.rows, row_stride: self.col_stride, col_stride: self.row_stride }
    }

    /// The strides for kernels: 0 along a mode with at most one element, and 0 for an empty matrix.
    ///
    /// Nothing is read or written out of bounds, but threads there compute addresses too, so a
    /// stride that leads to no element, and may have any size, must not reach them.
    pub fn strides(&self) -> (i64, i64) {
        let empty = self.rows == 0 || self.cols == 0;
        // A stride that leads to an element is less than the buffer's length, which fits.
        let stride = |extent: usize, stride: usize| {
            if empty || extent == 1 { 0 } else { i64::try_from(stride).unwrap_or(0) }
        };
        (stride(self.rows, self.row_stride), stride(self.cols, self.col_stride))
    }
}

const fn gcd(mut a: usize, mut b: usize) -> usize {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn overlap_and_cosize_agree_with_a_walk_over_all_elements() {
        for rows in 0..5 {
            for cols in 0..5 {
                for row_stride in 0..8 {
                    for col_stride in 0..8 {
                        let shape = Shape { rows, cols, row_stride, col_stride };
                        let offsets: Vec<usize> = (0..rows)
                            .flat_map(|i| (0..cols).map(move |j| i * row_stride + j * col_stride))
                            .collect();
                        let distinct = offsets.iter().collect::<HashSet<_>>().len() == offsets.len();
                        assert_eq!(shape.check_distinct().is_ok(), distinct, "{shape:?}");
                        let cosize = offsets.iter().max().map_or(0, |last| last + 1);
                        assert_eq!(shape.cosize(), cosize as u128, "{shape:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn huge_extents_and_strides_are_refused_and_do_not_overflow() {
        let max = usize::MAX;
        let shape = Shape { rows: max, cols: max, row_stride: max, col_stride: max };
        assert!(shape.check_bounds(max).is_err());
        assert!(shape.check_distinct().is_err(), "equal strides meet");
        let one = Shape { rows: 1, cols: 1, row_stride: max, col_stride: max };
        assert!(one.check_bounds(1).is_ok(), "the strides of a single element are never taken");
        assert_eq!(one.strides(), (0, 0));
    }

    #[test]
    fn strides_that_lead_to_no_element_do_not_reach_kernels() {
        let passed = |rows, cols| Shape { rows, cols, row_stride: 1 << 61, col_stride: 3 }.strides();
        assert_eq!(passed(1, 5), (0, 3), "one row");
        assert_eq!(passed(5, 0), (0, 0), "no element, so the buffer bounds neither stride");
        assert_eq!(passed(2, 1), (1 << 61, 0), "one column");
    }
}
