//! Softmax and log-softmax along an axis: `y = exp(scale x - max) / sum` and its logarithm.
//!
//! Elements are f32, f16 or bf16, computed in f32. As in PyTorch a row with NaN or plus infinity is
//! NaN, and so is a row of minus infinity alone.

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
    use super::kernel::SoftmaxKernels;
    use super::{call, cases, oracle};
    use moye::operation::{Declaration, OperandOf, OptionOf, Role, TypedCall, Value};
    use moye::{Device, Matrix, MatrixMut, Result, Stream};

    const OPERANDS: &[OperandOf] = &[
        OperandOf::new(Role::Input, "x", "float32, float16 or bfloat16, of any shape and strides"),
        OperandOf::new(Role::Result, "out", "the result, of the shape and type of x"),
    ];
    const OPTIONS: &[OptionOf] = &[
        OptionOf {
            name: "axis",
            about: "the axis along which the results sum to 1",
            default: Value::Int(-1),
        },
        OptionOf { name: "scale", about: "a factor of x", default: Value::Float(1.0) },
    ];

    /// Softmax along an axis.
    pub static SOFTMAX: Declaration = Declaration {
        name: "softmax",
        summary: "exp(scale * x) along an axis, divided by its sum",
        operands: OPERANDS,
        options: OPTIONS,
        results: |inputs, _| Ok(vec![inputs[0].clone().expect("checked: x is not optional")]),
        // SAFETY: the same contract.
        run: |stream, call| unsafe { call::run("softmax", stream, call, false) },
        explain: |stream, call| call::explain("softmax", stream, call),
        reference: |inputs, options| oracle::softmax(inputs, options, false),
        tolerance: oracle::tolerance,
        cases: cases::CASES,
        bench: cases::BENCH,
    };

    /// The logarithm of softmax along an axis.
    pub static LOG_SOFTMAX: Declaration = Declaration {
        name: "log_softmax",
        summary: "the logarithm of softmax: scale * x less the logarithm of the sum of its exponentials",
        // SAFETY: the same contract.
        run: |stream, call| unsafe { call::run("log_softmax", stream, call, true) },
        explain: |stream, call| call::explain("log_softmax", stream, call),
        reference: |inputs, options| oracle::softmax(inputs, options, true),
        ..SOFTMAX
    };

    /// Softmax of the rows of a matrix.
    ///
    /// ```
    /// use moye::{Device, Matrix, MatrixMut};
    /// use moye_rows::softmax::Softmax;
    ///
    /// let device = Device::sim();
    /// let x = device.upload(&[0.0f32, 0.0, 1.0, 1.0])?;
    /// let mut y = device.alloc_uninit::<f32>(4)?;
    /// Softmax::new(Matrix::row_major(&x, 2, 2)?).run(&device, &mut MatrixMut::row_major(&mut y, 2, 2)?)?;
    /// assert_eq!(y.download()?, [0.5; 4]);
    /// # Ok::<(), moye::Error>(())
    /// ```
    #[derive(Clone, Debug)]
    pub struct Softmax<'a, T: SoftmaxKernels> {
        x: Matrix<'a, T>,
        scale: f32,
        log: bool,
    }

    impl<'a, T: SoftmaxKernels> Softmax<'a, T> {
        /// Softmax of each row of `x`.
        pub fn new(x: Matrix<'a, T>) -> Self {
            Self { x, scale: 1.0, log: false }
        }

        /// A factor of `x`.
        #[must_use]
        pub fn scale(self, scale: f32) -> Self {
            Self { scale, ..self }
        }

        /// The logarithm of softmax.
        #[must_use]
        pub fn log(self) -> Self {
            Self { log: true, ..self }
        }

        /// Computes it on the default stream of a device.
        ///
        /// # Errors
        /// [`moye::Error::ShapeMismatch`] if `y` has another shape, [`moye::Error::Unsupported`] if
        /// rows are longer than the kernels take, and the errors of [`Device::launch`].
        pub fn run(&self, device: &Device, y: &mut MatrixMut<'_, T>) -> Result<()> {
            // SAFETY: the default stream runs its work in order.
            unsafe { self.run_on(&device.default_stream(), y) }
        }

        /// Computes it on a stream.
        ///
        /// # Errors
        /// As for [`Softmax::run`].
        ///
        /// # Safety
        /// Until the work is complete, no other stream writes the elements of `x`, or reads or
        /// writes those of `y`.
        pub unsafe fn run_on(&self, stream: &Stream, y: &mut MatrixMut<'_, T>) -> Result<()> {
            let declaration = if self.log { &LOG_SOFTMAX } else { &SOFTMAX };
            let call =
                TypedCall::new(declaration, stream).option("scale", Value::Float(self.scale.into()))?;
            // SAFETY: the arrays are on the stream's device until the work is complete.
            unsafe { call.read(&self.x)?.write(y)?.run() }
        }
    }
}
