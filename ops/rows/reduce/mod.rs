//! Reductions along an axis, along several, or of a whole array: sum, mean, norm, max, min,
//! log-sum-exp, variance, argmax and argmin. The result lacks these axes. As in NumPy, argmax and
//! argmin take one axis, or the whole array.
//!
//! Elements are f32, f16 or bf16, computed in f32; indices are i64. As in PyTorch, a NaN makes the
//! maximum NaN, and argmax returns the first NaN, else the first of equal elements. Long rows are
//! reduced in slices, whose states a second launch combines in order, so that every run returns the
//! same bits. Axes that no single stride joins are reduced in the same way.

mod call;
mod cases;
pub mod kernel;
mod oracle;

use crate::prelude::*;
use call::Kind;
use kernel::ReduceKernels;

const INDEX: OperandOf =
    OperandOf::new(Role::Result, "out", "the index, int64, of the shape of x without the axis")
        .of(&[Dtype::I64]);
const AXIS: OptionOf = option(
    "axis",
    "the axes that are reduced, one or several; by default the whole array is",
    Value::Axes(Axes::ALL),
);

declare! {
    /// The sum along axes.
    pub static SUM(Kind::Sum) = {
        name: "sum",
        summary: "The sum along axes, or of a whole array",
        operands: &[
            X,
            OperandOf::new(Role::Result, "out", "the result, of the type of x and its shape without the axes"),
        ],
        options: &[AXIS],
        cases: cases::CASES,
        bench: cases::BENCH,
    };
    /// The mean along axes.
    pub static MEAN(Kind::Mean) = {
        name: "mean", summary: "The mean along axes, or of a whole array", ..SUM
    };
    /// The root of the sum of squares along axes.
    pub static NORM(Kind::Norm) = {
        name: "norm", summary: "The root of the sum of squares along axes, or of a whole array", ..SUM
    };
    /// The maximum along axes; NaN if an element is.
    pub static MAX(Kind::Max) = {
        name: "max", summary: "The maximum along axes, or of a whole array; NaN if an element is", ..SUM
    };
    /// The minimum along axes; NaN if an element is.
    pub static MIN(Kind::Min) = {
        name: "min", summary: "The minimum along axes, or of a whole array; NaN if an element is", ..SUM
    };
    /// The logarithm of the sum of exponentials along axes.
    pub static LOG_SUM_EXP(Kind::LogSumExp) = {
        name: "logsumexp",
        summary: "The logarithm of the sum of exponentials along axes, or of a whole array",
        ..SUM
    };
    /// The variance along axes.
    pub static VAR(Kind::Var) = {
        name: "var",
        summary: "The variance along axes, or of a whole array",
        options: &[
            AXIS,
            option("correction", "subtracted from the number of elements before the division; 0 for a population",
                Value::Int(1)),
        ],
        ..SUM
    };
    /// The index of the first maximum, or NaN, along an axis.
    pub static ARG_MAX(Kind::ArgMax) = {
        name: "argmax",
        summary: "The index of the first maximum, or NaN, along an axis or of a whole row-major array",
        operands: &[X, INDEX],
        cases: cases::OF_INDICES,
        ..SUM
    };
    /// The index of the first minimum, or NaN, along an axis.
    pub static ARG_MIN(Kind::ArgMin) = {
        name: "argmin",
        summary: "The index of the first minimum, or NaN, along an axis or of a whole row-major array",
        ..ARG_MAX
    };
}

/// A reduction of the columns or rows of a matrix, of all of it, or along axes of an array.
///
/// ```
/// use moye::{Device, Matrix, MatrixMut};
/// use moye_rows::reduce::{ARG_MAX, Reduce, SUM};
///
/// let device = Device::sim();
/// let x = device.upload(&[1.0f32, 5.0, 2.0, 4.0, 3.0, 4.0, 7.0, 8.0])?;
/// let x = Matrix::row_major(&x, 2, 4)?;
/// let mut sum = device.alloc_uninit::<f32>(2)?;
/// let mut y = MatrixMut::row_major(&mut sum, 2, 1)?;
/// Reduce::new(&SUM, x.clone()).axis(1).run(&device, &mut y)?;
/// // The elements as an array of 2 x 2 x 2.
/// Reduce::new(&SUM, x.clone()).modes(&[2, 2, 2]).axes(&[0, 2]).run(&device, &mut y)?;
/// assert_eq!(sum.download()?, [13.0, 21.0]);
/// let mut at = device.alloc_uninit::<i64>(4)?;
/// Reduce::new(&ARG_MAX, x).axis(0).run(&device, &mut MatrixMut::row_major(&mut at, 1, 4)?)?;
/// assert_eq!(at.download()?, [1, 0, 1, 1]);
/// # Ok::<(), moye::Error>(())
/// ```
#[derive(Clone)]
pub struct Reduce<'a, T: ReduceKernels> {
    declaration: &'static Declaration,
    x: Matrix<'a, T>,
    modes: Option<Vec<usize>>,
    axes: Option<Vec<i64>>,
    correction: Option<u32>,
}

impl<'a, T: ReduceKernels> Reduce<'a, T> {
    /// A reduction of all elements of `x`: [`SUM`] or another one of this module.
    pub fn new(declaration: &'static Declaration, x: Matrix<'a, T>) -> Self {
        Self { declaration, x, modes: None, axes: None, correction: None }
    }

    /// The elements of `x`, which is row-major without gaps, as an array of these extents.
    #[must_use]
    pub fn modes(self, extents: &[usize]) -> Self {
        Self { modes: Some(extents.to_vec()), ..self }
    }

    /// Along an axis: of a matrix 0 for the result of each column, 1 for that of each row.
    #[must_use]
    pub fn axis(self, axis: u32) -> Self {
        self.axes(&[axis.into()])
    }

    /// Along several axes, which count from the end if they are negative. An index has one.
    #[must_use]
    pub fn axes(self, axes: &[i64]) -> Self {
        Self { axes: Some(axes.to_vec()), ..self }
    }

    setters! {
        /// The correction of [`VAR`], 1 by default; the others have none.
        correction: u32 as Some;
    }

    /// The elements of a row-major matrix as an array of these extents.
    fn as_modes(&self, matrix: &Array, extents: &[usize]) -> Result<Array> {
        let is_same = extents.iter().product::<usize>() == matrix.elements();
        if is_same && matrix.is_dense() {
            let ty = ArrayType { dtype: matrix.dtype, shape: extents.to_vec() };
            return Ok(Array::row_major(&ty, matrix.address));
        }
        let detail = format!(
            "a matrix of shape {:?} and strides {:?} is no array of shape {extents:?}; it must be row-major \
             without gaps, from a multiple of 16 bytes on, and have as many elements",
            matrix.shape, matrix.strides
        );
        mismatch(self.declaration.name, detail)
    }

    runs! {
        /// Computes it on the default stream of a device. `y` has extent 1 along reduced
        /// axes, or with [`modes`](Self::modes) the result's elements row by row. It has the
        /// element type of `x`, or i64 for indices.
        fn run, run_on, explain<U: Element>(self, stream, y: &mut MatrixMut<'_, U>) {
            let name = self.declaration.name;
            let mut call = TypedCall::new(self.declaration, stream);
            if let Some(correction) = self.correction {
                call = call.option("correction", Value::Int(correction.into()))?;
            }
            let axes = self.axes.as_deref().map_or(Ok(Axes::ALL), |axes| Axes::of(name, axes))?;
            call = call.option("axis", Value::Axes(axes))?;
            if let Some(extents) = &self.modes {
                let x = self.as_modes(&Array::of(name, &self.x)?, extents)?;
                let reduced = x.axes(name, axes)?.unwrap_or_else(|| (0..extents.len()).collect());
                let kept = (0..extents.len()).filter(|mode| !reduced.contains(mode));
                let kept: Vec<usize> = kept.map(|mode| extents[mode]).collect();
                let of_y = self.as_modes(&Array::of_mut(name, y)?, &kept)?;
                call.with(Some((self.x.device(), x)))?.with(Some((y.device(), of_y)))?
            } else {
                call = call.read(&self.x)?.write(y)?;
                for mode in [1, 0] {
                    let is_reduced = |axis: &i64| axis.rem_euclid(2) == mode as i64;
                    if axes.list().is_none_or(|axes| axes.iter().any(is_reduced)) {
                        call = call.drop_mode(mode);
                    }
                }
                call
            }
        }
    }
}
