//! The gradients of softmax and of log-softmax along an axis, from the result and its gradient.
//!
//! `dx = scale y (dy - sum(y dy))`, and for `y` that are logarithms
//! `dx = scale (dy - exp(y) sum(dy))`. Elements are f32, f16 or bf16, computed in f32.

pub mod kernel;

#[cfg(not(target_arch = "nvptx64"))]
mod call;
#[cfg(not(target_arch = "nvptx64"))]
mod cases;
#[cfg(not(target_arch = "nvptx64"))]
mod oracle;

#[cfg(not(target_arch = "nvptx64"))]
pub use host::*;

#[cfg(not(target_arch = "nvptx64"))]
mod host {
    use super::kernel::SoftmaxBackwardKernels;
    use super::{call, cases, oracle};
    use crate::rows::expect;
    use moye::operation::{Declaration, OperandOf, OptionOf, Role, TypedCall, Value};
    use moye::{Matrix, MatrixMut};

    /// The gradient of softmax.
    pub static SOFTMAX_BACKWARD: Declaration = Declaration {
        name: "softmax_backward",
        summary: "the gradient of softmax: scale * y * (dy - sum(y * dy)) along an axis",
        operands: &[
            OperandOf::new(Role::Input, "y", "the result of the forward pass, of any shape and strides"),
            OperandOf::new(Role::Input, "dy", "its gradient, of the shape and type of y"),
            OperandOf::new(Role::Result, "out", "the gradient of x, of the shape and type of y"),
        ],
        options: &[
            OptionOf { name: "axis", about: "the axis of the forward pass", default: Value::Int(-1) },
            OptionOf { name: "scale", about: "the factor of x", default: Value::Float(1.0) },
        ],
        results: |inputs, _| {
            let y = inputs[0].clone().expect("checked: y is not optional");
            expect("softmax_backward", "dy", &inputs[1], &y)?;
            Ok(vec![y])
        },
        // SAFETY: the same contract.
        run: |stream, call| unsafe { call::run("softmax_backward", stream, call, false) },
        explain: |stream, call| call::explain("softmax_backward", stream, call),
        reference: |inputs, options| oracle::backward(inputs, options, false),
        tolerance: oracle::tolerance,
        cases: cases::CASES,
        bench: cases::BENCH,
    };

    /// The gradient of log-softmax.
    pub static LOG_SOFTMAX_BACKWARD: Declaration = Declaration {
        name: "log_softmax_backward",
        summary: "the gradient of log-softmax: scale * (dy - exp(y) * sum(dy)) along an axis",
        // SAFETY: the same contract.
        run: |stream, call| unsafe { call::run("log_softmax_backward", stream, call, true) },
        explain: |stream, call| call::explain("log_softmax_backward", stream, call),
        reference: |inputs, options| oracle::backward(inputs, options, true),
        ..SOFTMAX_BACKWARD
    };

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

        /// The factor of `x` in the forward pass.
        #[must_use]
        pub fn scale(self, scale: f32) -> Self {
            Self { scale, ..self }
        }

        /// `y` is the logarithm of softmax.
        #[must_use]
        pub fn log(self) -> Self {
            Self { log: true, ..self }
        }

        crate::runs! {
            /// Computes it on the default stream of a device.
            ///
            /// # Errors
            /// [`moye::Error::ShapeMismatch`] if a matrix has another shape,
            /// [`moye::Error::Unsupported`] if rows are longer than the kernels take, and the
            /// errors of [`moye::Device::launch`].
            fn run, run_on(self, stream, dx: &mut MatrixMut<'_, T>) {
                let declaration = if self.log { &LOG_SOFTMAX_BACKWARD } else { &SOFTMAX_BACKWARD };
                let call =
                    TypedCall::new(declaration, stream).option("scale", Value::Float(self.scale.into()))?;
                call.read(&self.y)?.read(&self.dy)?.write(dx)?
            }
        }
    }
}
