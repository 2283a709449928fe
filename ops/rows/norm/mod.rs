//! RMSNorm along the last axis: `h = x + residual`, `y = h / sqrt(mean(h^2) + eps) * weight`.
//!
//! Elements are f32, f16 or bf16, computed in f32. The sum `h` is kept in `sum`, if a call has it.

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
    use super::kernel::RmsNormKernels;
    use super::{call, cases, oracle};
    use moye::operation::{Array, Call, Declaration, OperandOf, OptionOf, Options, Role, Value};
    use moye::{Device, Matrix, MatrixMut, Result, Stream};

    /// RMSNorm along the last axis.
    pub static RMS_NORM: Declaration = Declaration {
        name: "rms_norm",
        summary: "x, with the residual added, divided by the root of the mean of its squares along the last axis",
        operands: &[
            OperandOf::new(Role::Input, "x", "float32, float16 or bfloat16, of any shape and strides"),
            OperandOf::new(Role::Optional, "weight", "a factor for each column, of the type of x"),
            OperandOf::new(Role::Optional, "residual", "added to x first, of its shape and type"),
            OperandOf::new(Role::Result, "out", "the result, of the shape and type of x"),
            OperandOf::new(Role::OptionalResult, "sum", "x + residual, of the shape and type of x"),
        ],
        options: &[OptionOf {
            name: "eps",
            about: "added to the mean of the squares",
            default: Value::Float(1e-6),
        }],
        results: call::results,
        run: call::run,
        explain: call::explain,
        reference: oracle::rms_norm,
        tolerance: oracle::tolerance,
        cases: cases::CASES,
        bench: cases::BENCH,
    };

    /// RMSNorm of the rows of a matrix.
    ///
    /// ```
    /// use moye::{Device, Matrix, MatrixMut};
    /// use moye_rows::norm::RmsNorm;
    ///
    /// let device = Device::sim();
    /// let x = device.upload(&[3.0f32, -3.0, 0.5, 0.5])?;
    /// let mut y = device.alloc_uninit::<f32>(4)?;
    /// let norm = RmsNorm::new(Matrix::row_major(&x, 2, 2)?).eps(0.0);
    /// norm.run(&device, &mut MatrixMut::row_major(&mut y, 2, 2)?)?;
    /// assert_eq!(y.download()?, [1.0, -1.0, 1.0, 1.0]);
    /// # Ok::<(), moye::Error>(())
    /// ```
    #[derive(Clone, Debug)]
    pub struct RmsNorm<'a, T: RmsNormKernels> {
        x: Matrix<'a, T>,
        weight: Option<Matrix<'a, T>>,
        residual: Option<Matrix<'a, T>>,
        eps: f32,
    }

    impl<'a, T: RmsNormKernels> RmsNorm<'a, T> {
        /// RMSNorm of each row of `x`.
        pub fn new(x: Matrix<'a, T>) -> Self {
            Self { x, weight: None, residual: None, eps: 1e-6 }
        }

        /// A factor for each column: a matrix of one row.
        #[must_use]
        pub fn weight(self, weight: Matrix<'a, T>) -> Self {
            Self { weight: Some(weight), ..self }
        }

        /// A matrix of the shape of `x` that is added to it first.
        #[must_use]
        pub fn residual(self, residual: Matrix<'a, T>) -> Self {
            Self { residual: Some(residual), ..self }
        }

        /// What is added to the mean of the squares, 1e-6 by default.
        #[must_use]
        pub fn eps(self, eps: f32) -> Self {
            Self { eps, ..self }
        }

        /// Computes it on the default stream of a device.
        ///
        /// # Errors
        /// [`moye::Error::ShapeMismatch`] if a matrix has another shape,
        /// [`moye::Error::Unsupported`] if rows are longer than the kernels take, and the errors of
        /// [`Device::launch`].
        pub fn run(&self, device: &Device, y: &mut MatrixMut<'_, T>) -> Result<()> {
            // SAFETY: the default stream runs its work in order.
            unsafe { self.run_on(&device.default_stream(), y, None) }
        }

        /// Computes it on a stream, and writes `x + residual` to `sum`.
        ///
        /// # Errors
        /// As for [`RmsNorm::run`].
        ///
        /// # Safety
        /// Until the work is complete, no other stream writes the elements of what is read, or
        /// reads or writes those of `y` and `sum`.
        pub unsafe fn run_on(
            &self,
            stream: &Stream,
            y: &mut MatrixMut<'_, T>,
            sum: Option<&mut MatrixMut<'_, T>>,
        ) -> Result<()> {
            let mut options = Options::of(&RMS_NORM);
            options.set("rms_norm", "eps", Value::Float(self.eps.into()))?;
            let array = |matrix: &Matrix<'a, T>| Array::of("rms_norm", matrix);
            let weight = self.weight.as_ref().map(|weight| {
                let mut row = array(weight)?;
                if row.shape[0] == 1 {
                    row.shape.remove(0);
                    row.strides.remove(0);
                }
                Ok::<_, moye::Error>(row)
            });
            let mut devices = vec![self.x.device(), y.device()];
            devices.extend([&self.weight, &self.residual].into_iter().flatten().map(Matrix::device));
            devices.extend(sum.as_ref().map(|sum| sum.device()));
            crate::check_devices("rms_norm", stream, &devices)?;
            let operands = [
                Some(array(&self.x)?),
                weight.transpose()?,
                self.residual.as_ref().map(array).transpose()?,
                Some(Array::of_mut("rms_norm", y)?),
                sum.map(|sum| Array::of_mut("rms_norm", sum)).transpose()?,
            ];
            let call = Call { operands: &operands, options: &options };
            RMS_NORM.check(&call)?;
            // SAFETY: the matrices are in their buffers, on the stream's device; the caller answers
            // for other streams.
            unsafe { (RMS_NORM.run)(stream, &call) }
        }
    }
}
