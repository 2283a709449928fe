//! The gradients of softmax and of log-softmax along an axis, from the result and its gradient.
//!
//! `dx = scale y (dy - sum(y dy))`, and for `y` that are logarithms
//! `dx = scale (dy - exp(y) sum(dy))`. Elements are f32, f16 or bf16, computed in f32.

mod call;
mod cases;
pub mod kernel;
mod oracle;

use crate::prelude::*;
use kernel::SoftmaxBackwardKernels;

declare! {
    /// The gradient of softmax.
    pub static SOFTMAX_BACKWARD(false) = {
        name: "softmax_backward",
        summary: "the gradient of softmax: scale * y * (dy - sum(y * dy)) along an axis",
        operands: &[
            OperandOf::new(Role::Input, "y", "the result of the forward pass, of any shape and strides"),
            OperandOf::new(Role::Input, "dy", "its gradient, of the shape and type of y"),
            OperandOf::new(Role::Result, "out", "the gradient of x, of the shape and type of y"),
        ],
        options: &[
            option("axis", "the axis of the forward pass", Value::Int(-1)),
            option("scale", "the factor of x", Value::Float(1.0)),
        ],
        cases: cases::CASES,
        bench: cases::BENCH,
    };

    /// The gradient of log-softmax.
    pub static LOG_SOFTMAX_BACKWARD(true) = {
        name: "log_softmax_backward",
        summary: "the gradient of log-softmax: scale * (dy - exp(y) * sum(dy)) along an axis",
        ..SOFTMAX_BACKWARD
    };
}

/// The gradient of softmax of the rows of a matrix.
///
/// ```
/// use moye::{Device, Matrix, MatrixMut};
/// use moye_rows::softmax_backward::SoftmaxBackward;
///
/// let device = Device::sim();
/// let (y, dy) = (device.upload(&[0.5f32, 0.5])?, device.upload(&[1.0f32, 0.0])?);
/// let mut dx = device.alloc_uninit::<f32>(2)?;
/// let (y, dy) = (Matrix::row_major(&y, 1, 2)?, Matrix::row_major(&dy, 1, 2)?);
/// SoftmaxBackward::new(y, dy).run(&device, &mut MatrixMut::row_major(&mut dx, 1, 2)?)?;
/// assert_eq!(dx.download()?, [0.25, -0.25]);
/// # Ok::<(), moye::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct SoftmaxBackward<'a, T: SoftmaxBackwardKernels> {
    y: Matrix<'a, T>,
    dy: Matrix<'a, T>,
    scale: f32,
    log: bool,
}

impl<'a, T: SoftmaxBackwardKernels> SoftmaxBackward<'a, T> {
    /// The gradient from the forward pass's result `y` and its gradient `dy`.
    pub fn new(y: Matrix<'a, T>, dy: Matrix<'a, T>) -> Self {
        Self { y, dy, scale: 1.0, log: false }
    }

    setters! {
        /// The factor of `x` in the forward pass.
        scale: f32;
    }

    /// `y` is the logarithm of softmax.
    #[must_use]
    pub fn log(self) -> Self {
        Self { log: true, ..self }
    }

    runs! {
        /// Computes it on the default stream of a device.
        fn run, run_on, explain(self, stream, dx: &mut MatrixMut<'_, T>) {
            TypedCall::new(if self.log { &LOG_SOFTMAX_BACKWARD } else { &SOFTMAX_BACKWARD }, stream)
                .option("scale", Value::Float(self.scale.into()))?
                .read(&self.y)?
                .read(&self.dy)?
                .write(dx)?
        }
    }
}
