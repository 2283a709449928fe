//! Softmax and log-softmax along an axis: `y = exp(z - max) / sum` of `z = scale x + bias`, and its
//! logarithm.
//!
//! Elements that a mask or causality hides have probability 0, whatever they are. Causal is the
//! mask of attention: element `j` of row `i` of a matrix of `m` rows of `n` elements takes part if
//! `j <= i + n - m + offset`.
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
    use moye::operation::{Declaration, Dtype, OperandOf, OptionOf, Role, TypedCall, Value};
    use moye::{Matrix, MatrixMut};

    const OPERANDS: &[OperandOf] = &[
        OperandOf::new(Role::Input, "x", "float32, float16 or bfloat16, of any shape and strides"),
        OperandOf::new(Role::Optional, "mask", "uint8, broadcast to x: where it is 0, x takes no part")
            .of(&[Dtype::U8]),
        OperandOf::new(Role::Optional, "bias", "added to scale * x, of the type of x, broadcast to it"),
        OperandOf::new(Role::Result, "out", "the result, of the shape and type of x"),
    ];
    const OPTIONS: &[OptionOf] = &[
        OptionOf {
            name: "axis",
            about: "the axis along which the results sum to 1",
            default: Value::Int(-1),
        },
        OptionOf { name: "scale", about: "a factor of x", default: Value::Float(1.0) },
        OptionOf {
            name: "causal",
            about: "rows of a matrix end at its diagonal, which ends in its last element",
            default: Value::Bool(false),
        },
        OptionOf {
            name: "offset",
            about: "elements that causal rows have after the diagonal",
            default: Value::Int(0),
        },
    ];

    /// Softmax along an axis.
    pub static SOFTMAX: Declaration = Declaration {
        name: "softmax",
        summary: "exp(scale * x) along an axis, divided by its sum",
        operands: OPERANDS,
        options: OPTIONS,
        results: |inputs, _| call::results("softmax", inputs),
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
        results: |inputs, _| call::results("log_softmax", inputs),
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
    /// Softmax::new(Matrix::row_major(&x, 2, 2)?).run(&device, &mut MatrixMut::row_major(&mut y, 2,
    /// 2)?)?; assert_eq!(y.download()?, [0.5; 4]);
    /// # Ok::<(), moye::Error>(())
    /// ```
    #[derive(Clone, Debug)]
    pub struct Softmax<'a, T: SoftmaxKernels> {
        x: Matrix<'a, T>,
        mask: Option<Matrix<'a, u8>>,
        bias: Option<Matrix<'a, T>>,
        scale: f32,
        causal: Option<i64>,
        log: bool,
    }

    impl<'a, T: SoftmaxKernels> Softmax<'a, T> {
        /// Softmax of each row of `x`.
        pub fn new(x: Matrix<'a, T>) -> Self {
            Self { x, mask: None, bias: None, scale: 1.0, causal: None, log: false }
        }

        /// A factor of `x`.
        #[must_use]
        pub fn scale(self, scale: f32) -> Self {
            Self { scale, ..self }
        }

        /// Where `mask` is 0, `x` takes no part: a matrix of the shape of `x`, or of one row.
        #[must_use]
        pub fn mask(self, mask: Matrix<'a, u8>) -> Self {
            Self { mask: Some(mask), ..self }
        }

        /// Added to the scaled `x`: a matrix of the shape of `x`, or of one row.
        #[must_use]
        pub fn bias(self, bias: Matrix<'a, T>) -> Self {
            Self { bias: Some(bias), ..self }
        }

        /// Rows end `offset` elements after the diagonal, which ends in the last element of `x`.
        #[must_use]
        pub fn causal(self, offset: i64) -> Self {
            Self { causal: Some(offset), ..self }
        }

        /// The logarithm of softmax.
        #[must_use]
        pub fn log(self) -> Self {
            Self { log: true, ..self }
        }

        crate::runs! {
            /// Computes it on the default stream of a device.
            ///
            /// # Errors
            /// [`moye::Error::ShapeMismatch`] if `y` has another shape,
            /// [`moye::Error::Unsupported`] if rows are longer than the kernels take, and the
            /// errors of [`moye::Device::launch`].
            fn run, run_on(self, stream, y: &mut MatrixMut<'_, T>) {
                let declaration = if self.log { &LOG_SOFTMAX } else { &SOFTMAX };
                TypedCall::new(declaration, stream)
                .option("scale", Value::Float(self.scale.into()))?
                .option("causal", Value::Bool(self.causal.is_some()))?
                .option("offset", Value::Int(self.causal.unwrap_or(0)))?
                .read(&self.x)?
                .read(self.mask.as_ref())?
                .read(self.bias.as_ref())?
                .write(y)?
            }
        }
    }
}
