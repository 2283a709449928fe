//! The gradients of RMSNorm and LayerNorm along the last axis: of x, weight and bias, from x and
//! the gradient of the result.
//!
//! `x` is the input of the norm: the sum with the residual, if the forward pass added one. `dsum`,
//! the gradient of that sum from elsewhere, is added to `dx`. Means and deviations are recomputed.
//! The gradients of weight and bias are sums over all rows, in f32: partial sums of a block's rows,
//! or of slices of rows, and then their sum, both in an order that the plan determines, so that two
//! runs return the same bits. Elements are f32, f16 or bf16.
//!
//! A NaN or an infinite element of a row makes the row's gradients NaN, and those of weight and
//! bias in all columns that it reaches, as in PyTorch.

mod call;
mod cases;
pub mod kernel;
mod oracle;

use crate::prelude::*;
use kernel::{ColumnsKernels, NormBackwardKernels, SumKernels};

/// The kernels of an element type.
pub trait Kernels: NormBackwardKernels + ColumnsKernels + SumKernels {}

impl<T: NormBackwardKernels + ColumnsKernels + SumKernels> Kernels for T {}

const X: OperandOf = OperandOf::new(Role::Input, "x", "what was normed, of any shape and strides");
const DY: OperandOf =
    OperandOf::new(Role::Input, "dy", "the gradient of the result, of the shape and type of x");
const WEIGHT: OperandOf =
    OperandOf::new(Role::Optional, "weight", "that of the forward pass, of the type of x");
const DSUM: OperandOf =
    OperandOf::new(Role::Optional, "dsum", "added to the gradient of x, of its shape and type");
const DX: OperandOf = OperandOf::new(
    Role::Result,
    "out",
    "the gradient of x, of its shape and type; x or dy itself without dweight and dbias",
);
const DWEIGHT: OperandOf =
    OperandOf::new(Role::OptionalResult, "dweight", "the gradient of weight, of the type of x");
const DBIAS: OperandOf =
    OperandOf::new(Role::OptionalResult, "dbias", "the gradient of bias, of the type of x");

declare! {
    /// The gradients of RMSNorm.
    pub static RMS_NORM_BACKWARD(false) = {
        name: "rms_norm_backward",
        summary: "the gradients of RMSNorm along the last axis",
        operands: &[X, DY, WEIGHT, DSUM, DX, DWEIGHT],
        options: &[option("eps", "that of the forward pass", Value::Float(1e-6))],
        cases: cases::CASES,
        bench: cases::BENCH,
    };

    /// The gradients of LayerNorm.
    pub static LAYER_NORM_BACKWARD(true) = {
        name: "layer_norm_backward",
        summary: "the gradients of LayerNorm along the last axis",
        operands: &[X, DY, WEIGHT, DSUM, DX, DWEIGHT, DBIAS],
        options: &[option("eps", "that of the forward pass", Value::Float(1e-5))],
        ..RMS_NORM_BACKWARD
    };
}

/// The gradients of RMSNorm or LayerNorm of the rows of a matrix.
///
/// ```
/// use moye::{Device, Matrix, MatrixMut};
/// use moye_rows::norm_backward::NormBackward;
///
/// let device = Device::sim();
/// let (x, dy) = (device.upload(&[3.0f32, -3.0])?, device.upload(&[6.0f32, 0.0])?);
/// let (mut dx, mut dw) = (device.alloc_uninit::<f32>(2)?, device.alloc_uninit::<f32>(2)?);
/// let (x, dy) = (Matrix::row_major(&x, 1, 2)?, Matrix::row_major(&dy, 1, 2)?);
/// let mut dx_of = MatrixMut::row_major(&mut dx, 1, 2)?;
/// let mut dw_of = MatrixMut::row_major(&mut dw, 1, 2)?;
/// let (backward, stream) = (NormBackward::rms(x, dy).eps(0.0), device.default_stream());
/// // SAFETY: no other stream uses the matrices.
/// unsafe { backward.run_on(&stream, &mut dx_of, Some(&mut dw_of), None)? };
/// assert_eq!((dx.download()?, dw.download()?), (vec![1.0, 1.0], vec![6.0, 0.0]));
/// # Ok::<(), moye::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct NormBackward<'a, T: Kernels> {
    x: Matrix<'a, T>,
    dy: Matrix<'a, T>,
    weight: Option<Matrix<'a, T>>,
    dsum: Option<Matrix<'a, T>>,
    eps: f32,
    center: bool,
}

impl<'a, T: Kernels> NormBackward<'a, T> {
    /// The gradients of RMSNorm of each row of `x`, from the gradient of the result.
    pub fn rms(x: Matrix<'a, T>, dy: Matrix<'a, T>) -> Self {
        Self { x, dy, weight: None, dsum: None, eps: 1e-6, center: false }
    }

    /// The gradients of LayerNorm of each row of `x`, from the gradient of the result.
    pub fn layer(x: Matrix<'a, T>, dy: Matrix<'a, T>) -> Self {
        Self { eps: 1e-5, center: true, ..Self::rms(x, dy) }
    }

    setters! {
        /// The forward pass's weight: a matrix of one row.
        weight: Matrix<'a, T> as Some;
        /// A matrix of the shape of `x` that is added to its gradient.
        dsum: Matrix<'a, T> as Some;
        /// The forward pass's `eps`: by default 1e-6 for RMSNorm, 1e-5 for LayerNorm.
        eps: f32;
    }

    runs! {
        /// Computes the gradient of `x` on the default stream of a device.
        fn run, run_on, explain(
            self, stream, dx: &mut MatrixMut<'_, T>;
            /// Writes the gradients of weight and bias too, matrices of one row. RMSNorm has no
            /// bias.
            dweight: Option<&mut MatrixMut<'_, T>>, dbias: Option<&mut MatrixMut<'_, T>>
        ) {
            let declaration = if self.center { &LAYER_NORM_BACKWARD } else { &RMS_NORM_BACKWARD };
            let call = TypedCall::new(declaration, stream)
                .option("eps", Value::Float(self.eps.into()))?
                .read(&self.x)?
                .read(&self.dy)?
                .read_row(self.weight.as_ref())?
                .read(self.dsum.as_ref())?
                .write(dx)?
                .write_row(dweight)?;
            match dbias {
                dbias if self.center => call.write_row(dbias)?,
                None => call,
                Some(_) => {
                    let detail = "RMSNorm has no bias; leave dbias out, or use NormBackward::layer";
                    return unsupported(declaration.name, detail.to_owned());
                }
            }
        }
    }
}
