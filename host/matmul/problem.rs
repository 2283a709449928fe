//! The caller's request for a product, and the checked problem that it becomes.

use super::element::{Major, Operand, Output, Precision};
use super::operand::View;
use super::plan::Forced;
use crate::device::Device;
use crate::kernels::mma::Activation;
use crate::matrix::{Matrix, MatrixMut, Shape, check_device};
use crate::memory::BufferSlice;
use crate::{Error, Result};
use moye_device::arch::Fma;
use moye_device::memory::Element;

/// The operation's name in errors.
pub(super) const OPERATION: &str = "matmul";

/// The largest extent: one more tile still fits into 31 bits.
pub(super) const MAX_EXTENT: usize = i32::MAX as usize - 256;

/// Alignment of the rows of workspaces and of an aligned C, in bytes.
pub(super) const ROW_ALIGN: u64 = 16;

/// Limit of batches times slices, which are blocks along the grid's y.
pub(super) const MAX_Y: u32 = crate::MAX_BLOCKS[1];

/// The caller's request.
pub(super) struct Request<'r, 'a, T: Operand, U: Element> {
    pub a: &'r Matrix<'a, T>,
    pub b: &'r Matrix<'a, T>,
    pub alpha: T::Scalar,
    pub beta: T::Scalar,
    pub bias: Option<&'r (BufferSlice<'a, U>, BiasAlong)>,
    /// The strides of A's rows and of B's columns.
    pub scales: [Option<&'r BufferSlice<'a, T::Scalar>>; 2],
    pub activation: Activation,
    pub precision: Precision,
    pub batch: Batch,
    pub forced: Forced,
    /// The tuning's entry. It is ignored if no kernel has its tile.
    pub measured: Option<Forced>,
}

impl<T: Operand, U: Element> Request<'_, '_, T, U> {
    /// Whether all its buffers, and those of `c`, are on a device.
    pub fn is_on(&self, device: &Device, c: &MatrixMut<'_, U>) -> bool {
        let [scale_a, scale_b] = self.scales;
        let scales = scale_a.into_iter().chain(scale_b).all(|scale| scale.device() == device);
        let bias = self.bias.is_none_or(|(bias, _)| bias.device() == device);
        [self.a.device(), self.b.device(), c.device()].into_iter().all(|of| of == device) && scales && bias
    }
}

/// The problem as the kernels see it: C is row-major, or written through a workspace that is.
pub(super) struct Problem<T: Operand> {
    /// M, N, K.
    pub extents: [u32; 3],
    pub batches: u32,
    /// A as (M, K), B as (N, K).
    pub operands: [View; 2],
    pub c: View,
    /// Address (0: none) and strides along M and N.
    pub bias: (u64, i64, i64),
    /// The scales of A and of B.
    pub scales: [ScaleOf; 2],
    pub alpha: T::Scalar,
    pub beta: T::Scalar,
    pub activation: Activation,
    /// Whether C has no contiguous mode, so that it is computed in a workspace and rearranged.
    pub scattered: bool,
}

/// The scales of an operand: address (0: none), and strides along M or N and between batches.
pub(super) type ScaleOf = (u64, i64, i64);

/// The mode along which a bias has one element each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BiasAlong {
    Rows,
    Columns,
}

/// A batch of products with constant strides between the matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Batch {
    pub count: usize,
    pub strides: [usize; 3],
}

impl<T: Operand> Problem<T> {
    /// Checks everything; `None` if the result has no elements.
    pub fn of<U: Output<T>>(
        request: &Request<'_, '_, T, U>,
        device: &Device,
        c: &mut MatrixMut<'_, U>,
    ) -> Result<Option<Self>> {
        let (a, b) = (request.a, request.b);
        super::check_shapes(a.shape(), b.shape(), c.shape())?;
        for (argument, of) in [a.device(), b.device(), c.device()].into_iter().enumerate() {
            check_device(OPERATION, argument, of, device)?;
        }
        let [m, n, k] = [("M", a.rows()), ("N", b.cols()), ("K", a.cols())].map(|(what, value)| {
            if value > MAX_EXTENT {
                let limit = MAX_EXTENT as u64;
                return Err(Error::MatrixTooLarge { operation: OPERATION, what, value, limit });
            }
            Ok(value as u32)
        });
        let (m, n, k) = (m?, n?, k?);
        let Batch { count, strides } = request.batch;
        batches_fit("a", a.shape(), a.data().len(), count, strides[0])?;
        batches_fit("b", b.shape(), b.data().len(), count, strides[1])?;
        batches_fit("c", c.shape(), c.data_mut().len(), count, strides[2])?;
        batches_of_c_are_apart(c.shape(), count, strides[2])?;
        let bias = bias_of(request, device, m, n)?;
        let scales = [
            scale_of::<T>(request.scales[0], device, ("a", "row", 4), m, count)?,
            scale_of::<T>(request.scales[1], device, ("b", "column", 5), n, count)?,
        ];
        let Ok(batches) = u32::try_from(count) else {
            let limit = u64::from(u32::MAX);
            return Err(Error::MatrixTooLarge { operation: OPERATION, what: "batches", value: count, limit });
        };
        if m == 0 || n == 0 || batches == 0 {
            return Ok(None);
        }
        // Matrices without elements may have any stride.
        let stride =
            |stride: usize, shape: Shape| if count > 1 && shape.cosize() > 0 { stride as i64 } else { 0 };
        let straight = Self {
            extents: [m, n, k],
            batches,
            operands: [
                View::new(
                    a.data().address(),
                    a.data().len(),
                    a.shape(),
                    (stride(strides[0], a.shape()), batches),
                    T::BYTES,
                ),
                View::new(
                    b.data().address(),
                    b.data().len(),
                    b.shape().t(),
                    (stride(strides[1], b.shape()), batches),
                    T::BYTES,
                ),
            ],
            c: View::new(
                c.data_mut().address(),
                c.data_mut().len(),
                c.shape(),
                (stride(strides[2], c.shape()), batches),
                U::BYTES,
            ),
            bias,
            scales,
            alpha: request.alpha,
            beta: request.beta,
            activation: request.activation,
            scattered: false,
        };
        Ok(Some(straight.turned()))
    }

    /// The same problem with C row-major, if it has a contiguous mode. If that mode is M, the
    /// transposed product `c^T = b^T * a^T` is computed: the same elements with M and N swapped.
    fn turned(self) -> Self {
        let Self { extents: [m, n, k], operands: [a, b], c, bias: (bias, bias_m, bias_n), .. } = self;
        let [scale_a, scale_b] = self.scales;
        let (along_m, along_n) = (c.mn == 1 || m <= 1, c.k == 1 || n <= 1);
        let turned = Self {
            extents: [n, m, k],
            operands: [b, a],
            c: View { mn: c.k, k: c.mn, ..c },
            bias: (bias, bias_n, bias_m),
            scales: [scale_b, scale_a],
            ..self
        };
        match (along_m, along_n) {
            // A single row or column: choose the other mode.
            (true, true) if n == 1 && m > 1 => turned,
            (_, true) => self,
            (true, false) => turned,
            // The mode with the smaller stride is written faster.
            (false, false) if c.mn < c.k => Self { scattered: true, ..turned },
            (false, false) => Self { scattered: true, ..self },
        }
    }

    /// The same problem with K = 0 if `alpha` is 0. As in BLAS, A, B and their scales are not read
    /// then, so that NaN and infinities in them do not reach C. With K = 0 the kernel of the
    /// epilogue does not read `alpha`. The plan is made before, so that `alpha` does not decide
    /// whether a named kernel is accepted.
    pub fn without_a_product_times_zero(self) -> Self {
        let [m, n, k] = self.extents;
        let k = if self.alpha == T::Scalar::ZERO { 0 } else { k };
        Self { extents: [m, n, k], ..self }
    }

    /// Whether the epilogue does more than multiply by a factor.
    pub fn needs_more(&self) -> bool {
        self.beta != T::Scalar::ZERO || self.bias.0 != 0 || self.activation != Activation::None
    }

    /// Whether rows of C start at multiples of 16 bytes.
    pub fn c_is_aligned(&self) -> bool {
        !self.scattered
            && View { end: u64::MAX, ..self.c }
                .leading(Major::K, self.extents[0], self.extents[1], ROW_ALIGN)
                .is_some()
    }
}

/// Checks that all batches of a matrix are inside its slice.
fn batches_fit(name: &str, shape: Shape, len: usize, count: usize, stride: usize) -> Result<()> {
    if count <= 1 || shape.cosize() == 0 {
        return Ok(());
    }
    let needed = (count as u128 - 1).saturating_mul(stride as u128).saturating_add(shape.cosize());
    if needed <= len as u128 {
        return Ok(());
    }
    let detail = format!(
        "{count} batches of {name}, {stride} elements apart, need {needed} elements, but it has {len}; use fewer batches, \
         or make the matrix from the whole buffer"
    );
    Err(Error::ShapeMismatch { operation: OPERATION, detail })
}

/// Checks that no two batches of C share an element: they follow each other, or are interleaved
/// with rows or columns, so that each stride exceeds the extent that all smaller strides cover.
fn batches_of_c_are_apart(shape: Shape, count: usize, stride: usize) -> Result<()> {
    let Shape { rows, cols, row_stride, col_stride } = shape;
    if count <= 1 || shape.cosize() <= stride as u128 {
        return Ok(());
    }
    let mut modes = [(row_stride, rows), (col_stride, cols), (stride, count)];
    modes.sort_unstable();
    let mut reach = 0;
    let nested = modes.into_iter().filter(|&(_, extent)| extent > 1).all(|(stride, extent)| {
        let apart = stride as u128 > reach;
        reach += (extent as u128 - 1) * stride as u128;
        apart
    });
    if nested {
        return Ok(());
    }
    let detail = format!(
        "batches of c are {stride} elements apart, its rows {row_stride} and its columns {col_stride}, and each batch reaches over {}: they \
         may not overlap; let batches follow each other, or lie between rows or columns that leave room for all {count}",
        shape.cosize()
    );
    Err(Error::ShapeMismatch { operation: OPERATION, detail })
}

/// The address and the strides of the bias.
fn bias_of<T: Operand, U: Element>(
    request: &Request<'_, '_, T, U>,
    device: &Device,
    m: u32,
    n: u32,
) -> Result<(u64, i64, i64)> {
    let Some((bias, along)) = request.bias else { return Ok((0, 0, 0)) };
    check_device(OPERATION, 3, bias.device(), device)?;
    let (what, extent, strides) = match along {
        BiasAlong::Rows => ("rows", m, (1, 0)),
        BiasAlong::Columns => ("columns", n, (0, 1)),
    };
    if bias.len() != extent as usize {
        let detail = format!("the bias has {} elements, and c has {extent} {what}", bias.len());
        return Err(Error::ShapeMismatch { operation: OPERATION, detail });
    }
    Ok((bias.address(), strides.0, strides.1))
}

/// The scales of an operand with this many rows or columns and batches.
fn scale_of<T: Operand>(
    scale: Option<&BufferSlice<'_, T::Scalar>>,
    device: &Device,
    (name, each, argument): (&str, &str, usize),
    extent: u32,
    batches: usize,
) -> Result<ScaleOf> {
    let Some(scale) = scale else { return Ok((0, 0, 0)) };
    check_device(OPERATION, argument, scale.device(), device)?;
    let (len, extent) = (scale.len(), extent as usize);
    let (along, batch) = match len {
        1 => (0, 0),
        len if len == extent => (1, 0),
        len if Some(len) == extent.checked_mul(batches) => (1, extent as i64),
        _ => {
            let of_batches = if batches > 1 {
                format!(", or one for each {each} of each of {batches} batches")
            } else {
                String::new()
            };
            let detail = format!(
                "the scale of {name} has {len} elements, and {name} has {extent} {each}s; give one element for all, or one for each \
                 {each}{of_batches}"
            );
            return Err(Error::ShapeMismatch { operation: OPERATION, detail });
        }
    };
    Ok((scale.address(), along, batch))
}

/// A number of blocks along x.
pub(super) fn blocks(what: &'static str, count: u64) -> Result<u32> {
    let limit = u64::from(crate::MAX_BLOCKS[0]);
    if count > limit {
        return Err(Error::MatrixTooLarge { operation: OPERATION, what, value: count as usize, limit });
    }
    Ok(count as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn batches_of_c_that_are_taken_share_no_element() {
        let mut taken = 0;
        let strides = [1, 2, 3, 4, 6, 7, 12];
        for (rows, cols, count) in [(1, 1, 3), (2, 3, 2), (3, 2, 3), (1, 4, 2), (3, 1, 2), (2, 2, 1)] {
            for (row_stride, col_stride) in strides.into_iter().flat_map(|row| strides.map(|col| (row, col)))
            {
                let shape = Shape { rows, cols, row_stride, col_stride };
                if shape.check_distinct().is_err() {
                    continue;
                }
                for stride in 0..14 {
                    if batches_of_c_are_apart(shape, count, stride).is_err() {
                        continue;
                    }
                    taken += 1;
                    let places = (0..rows * cols * count).map(|i| {
                        i % rows * row_stride + i / rows % cols * col_stride + i / (rows * cols) * stride
                    });
                    let distinct = places.collect::<HashSet<_>>().len();
                    assert_eq!(distinct, rows * cols * count, "{shape:?}, {count} batches {stride} apart");
                }
            }
        }
        assert!(taken > 1000, "{taken} were taken");
        let rows_of_10 = Shape { rows: 4, cols: 5, row_stride: 10, col_stride: 1 };
        assert!(batches_of_c_are_apart(rows_of_10, 2, 5).is_ok(), "between the rows");
        assert!(batches_of_c_are_apart(rows_of_10, 3, 5).is_err(), "one more than there is room for");
        assert!(batches_of_c_are_apart(rows_of_10, 2, 1).is_err(), "as far apart as its columns");
    }
}
