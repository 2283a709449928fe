//! The gradients of RMSNorm and LayerNorm along the last axis: of x, weight and bias, from x and
//! the gradient of the result.
//!
//! `x` is what was normed: the sum with the residual, where the forward pass added one. `dsum`, the
//! gradient of that sum from elsewhere, is added to `dx`. The means and deviations are computed
//! again. The gradients of weight and bias are sums over all rows, in f32: sums of slices of rows,
//! then the sum of these, both in an order that shape and card decide, so that two runs give the
//! same bits. Elements are f32, f16 or bf16.

pub mod kernel;

#[cfg(not(target_arch = "nvptx64"))]
mod call;
#[cfg(not(target_arch = "nvptx64"))]
mod cases;
#[cfg(not(target_arch = "nvptx64"))]
mod oracle;

#[cfg(not(target_arch = "nvptx64"))]
pub use call::Kernels;
#[cfg(not(target_arch = "nvptx64"))]
pub use host::*;

#[cfg(not(target_arch = "nvptx64"))]
mod host {
    use super::call::Kernels;
    use super::{call, cases, oracle};
    use moye::operation::{Declaration, OperandOf, OptionOf, Role, TypedCall, Value};
    use moye::{Device, Error, Matrix, MatrixMut, Result, Stream};

    const X: OperandOf = OperandOf::new(Role::Input, "x", "what was normed, of any shape and strides");
    const DY: OperandOf =
        OperandOf::new(Role::Input, "dy", "the gradient of the result, of the shape and type of x");
    const WEIGHT: OperandOf =
        OperandOf::new(Role::Optional, "weight", "that of the forward pass, of the type of x");
    const DSUM: OperandOf =
        OperandOf::new(Role::Optional, "dsum", "added to the gradient of x, of its shape and type");
    const DX: OperandOf = OperandOf::new(Role::Result, "out", "the gradient of x, of its shape and type");
    const DWEIGHT: OperandOf =
        OperandOf::new(Role::OptionalResult, "dweight", "the gradient of weight, of the type of x");
    const DBIAS: OperandOf =
        OperandOf::new(Role::OptionalResult, "dbias", "the gradient of bias, of the type of x");

    /// The gradients of RMSNorm.
    pub static RMS_NORM_BACKWARD: Declaration = Declaration {
        name: "rms_norm_backward",
        summary: "the gradients of RMSNorm along the last axis",
        operands: &[X, DY, WEIGHT, DSUM, DX, DWEIGHT],
        options: &[OptionOf { name: "eps", about: "that of the forward pass", default: Value::Float(1e-6) }],
        results: |inputs, _| call::results(inputs, false),
        // SAFETY: the same contract.
        run: |stream, call| unsafe { call::run(stream, call, false) },
        explain: |stream, call| call::explain(stream, call, false),
        reference: |inputs, options| oracle::backward(inputs, options, false),
        tolerance: oracle::tolerance,
        cases: cases::CASES,
        bench: cases::BENCH,
    };

    /// The gradients of LayerNorm.
    pub static LAYER_NORM_BACKWARD: Declaration = Declaration {
        name: "layer_norm_backward",
        summary: "the gradients of LayerNorm along the last axis",
        operands: &[X, DY, WEIGHT, DSUM, DX, DWEIGHT, DBIAS],
        options: &[OptionOf { name: "eps", about: "that of the forward pass", default: Value::Float(1e-5) }],
        results: |inputs, _| call::results(inputs, true),
        // SAFETY: the same contract.
        run: |stream, call| unsafe { call::run(stream, call, true) },
        explain: |stream, call| call::explain(stream, call, true),
        reference: |inputs, options| oracle::backward(inputs, options, true),
        tolerance: oracle::tolerance,
        cases: cases::CASES,
        bench: cases::BENCH,
    };

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
        /// The gradients of RMSNorm of each row of `x`, from that of the result.
        pub fn rms(x: Matrix<'a, T>, dy: Matrix<'a, T>) -> Self {
            Self { x, dy, weight: None, dsum: None, eps: 1e-6, center: false }
        }

        /// The gradients of LayerNorm of each row of `x`, from that of the result.
        pub fn layer(x: Matrix<'a, T>, dy: Matrix<'a, T>) -> Self {
            Self { eps: 1e-5, center: true, ..Self::rms(x, dy) }
        }

        /// The forward pass's weight: a matrix of one row.
        #[must_use]
        pub fn weight(self, weight: Matrix<'a, T>) -> Self {
            Self { weight: Some(weight), ..self }
        }

        /// A matrix of the shape of `x` that is added to its gradient.
        #[must_use]
        pub fn dsum(self, dsum: Matrix<'a, T>) -> Self {
            Self { dsum: Some(dsum), ..self }
        }

        /// The forward pass's `eps`: by default 1e-6 for RMSNorm, 1e-5 for LayerNorm.
        #[must_use]
        pub fn eps(self, eps: f32) -> Self {
            Self { eps, ..self }
        }

        /// Computes the gradient of `x` on the default stream of a device.
        ///
        /// # Errors
        /// [`moye::Error::ShapeMismatch`] if a matrix has another shape,
        /// [`moye::Error::Unsupported`] if rows are longer than the kernels take, and the errors of
        /// [`Device::launch`].
        pub fn run(&self, device: &Device, dx: &mut MatrixMut<'_, T>) -> Result<()> {
            // SAFETY: the default stream runs its work in order.
            unsafe { self.run_on(&device.default_stream(), dx, None, None) }
        }

        /// Computes the gradients of `x`, weight and bias, the last two matrices of one row, on a
        /// stream.
        ///
        /// # Errors
        /// As for [`NormBackward::run`], and [`moye::Error::Unsupported`] if RMSNorm has `dbias`.
        ///
        /// # Safety
        /// Until the work is complete, no other stream writes the elements of what is read, or
        /// reads or writes those of what is written.
        pub unsafe fn run_on(
            &self,
            stream: &Stream,
            dx: &mut MatrixMut<'_, T>,
            dweight: Option<&mut MatrixMut<'_, T>>,
            dbias: Option<&mut MatrixMut<'_, T>>,
        ) -> Result<()> {
            let declaration = if self.center { &LAYER_NORM_BACKWARD } else { &RMS_NORM_BACKWARD };
            let mut call = TypedCall::new(declaration, stream)
                .option("eps", Value::Float(self.eps.into()))?
                .read(&self.x)?
                .read(&self.dy)?
                .read_row(self.weight.as_ref())?
                .read(self.dsum.as_ref())?
                .write(dx)?
                .write_row(dweight)?;
            if self.center {
                call = call.write_row(dbias)?;
            } else if dbias.is_some() {
                let detail = "RMSNorm has no bias; leave dbias out, or use NormBackward::layer".to_owned();
                return Err(Error::Unsupported { operation: declaration.name, detail });
            }
            // SAFETY: the arrays are on the stream's device until the work is complete.
            unsafe { call.run() }
        }
    }
}
