//! The descriptor of a product: the request of [`Matmul`]'s caller, checked.

use super::builder::Matmul;
use super::element::{Operand, Output, Precision};
use super::operand::View;
use crate::kernels::mma::Activation;
use moye_device::arch::Fma;
use moye_device::layout::Major;
use moye_device::memory::Element;
use moye_runtime::operation::{Shape, same_device};
use moye_runtime::{BufferSlice, Device, Error, Matrix, MatrixMut, Result};

/// The operation's name in errors.
pub(super) const OPERATION: &str = "matmul";

/// The largest extent: one more tile still fits into 31 bits.
const MAX_EXTENT: usize = i32::MAX as usize - 256;

/// Alignment of the rows of workspaces and of an aligned C, in bytes.
pub(super) const ROW_ALIGN: u64 = 16;

/// The kernels that the caller allows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Preference {
    /// The tile of C.
    pub tile: Option<(u32, u32)>,
    /// The number of split-K slices.
    pub slices: Option<u32>,
    /// The kernel, by name.
    pub kernel: Option<&'static str>,
}

/// The mode along which a bias has its elements.
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

/// A bias in memory; the address is 0 without one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Bias {
    pub address: u64,
    /// The strides along M and N.
    pub m: i64,
    pub n: i64,
}

/// The scales of an operand in memory; the address is 0 without them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct OperandScale {
    pub address: u64,
    /// The stride along M or N.
    pub along: i64,
    /// The stride between batches.
    pub batch: i64,
}

impl OperandScale {
    /// The scales from batch `first` on; an element has `bytes` bytes.
    pub fn at_batch(self, first: u32, bytes: usize) -> Self {
        // If the operand has no scales, the address stays 0.
        let batch = if self.address == 0 { 0 } else { self.batch };
        let offset = (i64::from(first) * batch) as u64 * bytes as u64;
        Self { address: self.address.wrapping_add(offset), batch, ..self }
    }
}

/// The epilogue, `activation(alpha * scale_a * scale_b * sum + beta * c + bias)`, with factors `S`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Epilogue<S> {
    pub alpha: S,
    pub beta: S,
    pub bias: Bias,
    /// The scales of A and of B.
    pub scales: [OperandScale; 2],
    pub activation: Activation,
}

/// A product with factors `S` in the kernels' form: C is row-major, or written through a row-major
/// workspace.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Descriptor<S> {
    /// M, N, K.
    pub extents: [u32; 3],
    pub batches: u32,
    /// A as (M, K), B as (N, K).
    pub operands: [View; 2],
    pub c: View,
    /// Whether C has no contiguous mode, so that it is computed in a workspace and rearranged.
    pub scattered: bool,
    pub precision: Precision,
    pub epilogue: Epilogue<S>,
    pub preference: Preference,
}

impl<S: Fma + PartialEq> Descriptor<S> {
    /// Checks the request; `None` if the result has no elements.
    pub fn of<T: Operand<Scalar = S>, U: Output<T>>(
        product: &Matmul<'_, T, U>,
        device: &Device,
        c: &mut MatrixMut<'_, U>,
    ) -> Result<Option<Self>> {
        let (a, b, activation) = (&product.a, &product.b, product.activation);
        if product.preference.slices == Some(0) {
            let detail = "0 split-K slices: there is at least 1".to_owned();
            return Err(Error::Unsupported { operation: OPERATION, detail });
        }
        if !T::SMOOTH && !matches!(activation, Activation::None | Activation::Relu) {
            let detail = format!(
                "{activation:?} is not defined for integers; use `relu`, or convert the result to floats first"
            );
            return Err(Error::Unsupported { operation: OPERATION, detail });
        }
        check_shapes(a.shape(), b.shape(), c.shape())?;
        for (argument, of) in [a.device(), b.device(), c.device()].into_iter().enumerate() {
            same_device(OPERATION, argument, of, device)?;
        }
        let extent = |what, value| {
            if value > MAX_EXTENT {
                let limit = MAX_EXTENT as u64;
                return Err(Error::MatrixTooLarge { operation: OPERATION, what, value, limit });
            }
            Ok(value as u32)
        };
        let (m, n, k) = (extent("M", a.rows())?, extent("N", b.cols())?, extent("K", a.cols())?);
        let Batch { count, strides } = product.batch;
        batches_fit("a", a.shape(), a.data().len(), count, strides[0])?;
        batches_fit("b", b.shape(), b.data().len(), count, strides[1])?;
        batches_fit("c", c.shape(), c.data_mut().len(), count, strides[2])?;
        batches_of_c_are_apart(c.shape(), count, strides[2])?;
        let bias = bias_of(product, device, m, n)?;
        let [scale_a, scale_b] = product.scales.each_ref().map(Option::as_ref);
        let scales = [
            scale_of::<T>(scale_a, device, Scaled { name: "a", each: "row", argument: 4 }, m, count)?,
            scale_of::<T>(scale_b, device, Scaled { name: "b", each: "column", argument: 5 }, n, count)?,
        ];
        let Ok(batches) = u32::try_from(count) else {
            let limit = u64::from(u32::MAX);
            return Err(Error::MatrixTooLarge { operation: OPERATION, what: "batches", value: count, limit });
        };
        if m == 0 || n == 0 || batches == 0 {
            return Ok(None);
        }
        // Matrices without elements may have any stride.
        let batch =
            |i: usize, shape: Shape| if count > 1 && shape.cosize() > 0 { strides[i] as i64 } else { 0 };
        let operand = |i: usize, of: &Matrix<'_, T>, shape: Shape| {
            View::new(of.data().address(), of.data().len(), shape, batch(i, of.shape()), batches, T::BYTES)
        };
        let (shape, to) = (c.shape(), c.data_mut());
        let straight = Self {
            extents: [m, n, k],
            batches,
            operands: [operand(0, a, a.shape()), operand(1, b, b.shape().t())],
            c: View::new(to.address(), to.len(), shape, batch(2, shape), batches, U::BYTES),
            scattered: false,
            precision: product.precision,
            epilogue: Epilogue { alpha: product.alpha, beta: product.beta, bias, scales, activation },
            preference: product.preference,
        };
        Ok(Some(straight.with_row_major_c()))
    }

    /// The same product with C row-major, if it has a contiguous mode. If that mode is M, the
    /// transposed product `c^T = b^T * a^T` is computed: the same elements with M and N swapped.
    fn with_row_major_c(self) -> Self {
        let Self { extents: [m, n, k], operands: [a, b], c, epilogue, .. } = self;
        let (Bias { address, m: bias_m, n: bias_n }, [scale_a, scale_b]) = (epilogue.bias, epilogue.scales);
        let transposed = Self {
            extents: [n, m, k],
            operands: [b, a],
            c: c.exchanged(),
            epilogue: Epilogue {
                bias: Bias { address, m: bias_n, n: bias_m },
                scales: [scale_b, scale_a],
                ..epilogue
            },
            ..self
        };
        match (c.mn == 1 || m <= 1, c.k == 1 || n <= 1) {
            // For a single row or column, choose the other mode.
            (true, true) if n == 1 && m > 1 => transposed,
            (_, true) => self,
            (true, false) => transposed,
            // The mode with the smaller stride is written faster.
            (false, false) if c.mn < c.k => Self { scattered: true, ..transposed },
            (false, false) => Self { scattered: true, ..self },
        }
    }

    /// The same product with K = 0 if `alpha` is 0. As in BLAS, A, B and their scales are then not
    /// read, so that their NaN and infinities do not reach C. With K = 0 the epilogue's kernel does
    /// not read `alpha`. The product is planned before this, so that `alpha` does not decide
    /// whether a named kernel is accepted.
    pub fn without_a_product_times_zero(self) -> Self {
        let [m, n, k] = self.extents;
        let k = if self.epilogue.alpha == S::ZERO { 0 } else { k };
        Self { extents: [m, n, k], ..self }
    }

    /// Whether rows of C start at multiples of 16 bytes.
    pub fn c_is_aligned(&self) -> bool {
        let c = View { end: u64::MAX, ..self.c };
        !self.scattered && c.leading(Major::K, self.extents[0], self.extents[1], ROW_ALIGN).is_some()
    }

    /// Whether the epilogue is only a factor and C's rows are aligned: FMA kernels write nothing
    /// else.
    pub fn is_written_by_sgemm(&self) -> bool {
        let Epilogue { beta, bias, activation, .. } = self.epilogue;
        beta == S::ZERO && bias.address == 0 && activation == Activation::None && self.c_is_aligned()
    }
}

/// Checks that the shapes are (M, K), (K, N) and (M, N).
fn check_shapes(a: Shape, b: Shape, c: Shape) -> Result<()> {
    if a.cols != b.rows {
        let detail = format!(
            "a is {}x{} and b is {}x{}; a must have as many columns as b has rows",
            a.rows, a.cols, b.rows, b.cols
        );
        return Err(Error::ShapeMismatch { operation: OPERATION, detail });
    }
    if (c.rows, c.cols) != (a.rows, b.cols) {
        let detail = format!(
            "the product of {}x{} and {}x{} is {}x{}, but c is {}x{}",
            a.rows, a.cols, b.rows, b.cols, a.rows, b.cols, c.rows, c.cols
        );
        return Err(Error::ShapeMismatch { operation: OPERATION, detail });
    }
    Ok(())
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
         may not overlap; let batches follow each other, or interleave them with rows or columns that leave room for all {count}",
        shape.cosize()
    );
    Err(Error::ShapeMismatch { operation: OPERATION, detail })
}

/// The address and the strides of the bias.
fn bias_of<T: Operand, U: Element>(
    product: &Matmul<'_, T, U>,
    device: &Device,
    m: u32,
    n: u32,
) -> Result<Bias> {
    let Some((bias, along)) = &product.bias else { return Ok(Bias::default()) };
    same_device(OPERATION, 3, bias.device(), device)?;
    let address = bias.address();
    let (what, extent, view) = match along {
        BiasAlong::Rows => ("rows", m, Bias { address, m: 1, n: 0 }),
        BiasAlong::Columns => ("columns", n, Bias { address, m: 0, n: 1 }),
    };
    if bias.len() != extent as usize {
        let detail = format!("the bias has {} elements, and c has {extent} {what}", bias.len());
        return Err(Error::ShapeMismatch { operation: OPERATION, detail });
    }
    Ok(view)
}

/// An operand, for errors about its scales.
struct Scaled {
    name: &'static str,
    /// The unit that has one scale: "row" or "column".
    each: &'static str,
    /// The number of the scales among the arguments.
    argument: usize,
}

/// The scales of an operand with this many rows or columns and batches.
fn scale_of<T: Operand>(
    scale: Option<&BufferSlice<'_, T::Scalar>>,
    device: &Device,
    Scaled { name, each, argument }: Scaled,
    extent: u32,
    batches: usize,
) -> Result<OperandScale> {
    let Some(scale) = scale else { return Ok(OperandScale::default()) };
    same_device(OPERATION, argument, scale.device(), device)?;
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
    Ok(OperandScale { address: scale.address(), along, batch })
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
