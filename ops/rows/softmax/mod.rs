//! Softmax and log-softmax along an axis: `y = exp(z - max) / sum` of `z = scale x + bias`, and its
//! logarithm.
//!
//! Elements that a mask or causality hides have probability 0, whatever they are. Causal is the
//! mask of attention: element `j` of row `i` of a matrix of `m` rows of `n` elements takes part if
//! `j <= i + n - m + offset`.
//!
//! Elements are f32, f16 or bf16, computed in f32. As in PyTorch, a row with NaN or plus infinity
//! is NaN, and so is a row of only minus infinity.

mod call;
mod cases;
pub mod kernel;
mod oracle;

use crate::prelude::*;
use kernel::SoftmaxKernels;

declare! {
    /// Softmax along an axis.
    pub static SOFTMAX(false) = {
        name: "softmax",
        summary: "exp(scale * x) along an axis, divided by its sum",
        operands: &[
            X,
            OperandOf::new(Role::Optional, "mask", "uint8, broadcast to x: where it is 0, x takes no part")
                .of(&[Dtype::U8]),
            OperandOf::new(Role::Optional, "bias", "added to scale * x, of the type of x, broadcast to it"),
            OUT,
        ],
        options: &[
            option("axis", "the axis along which the results sum to 1", Value::Int(-1)),
            option("scale", "a factor of x", Value::Float(1.0)),
            option("causal", "rows of a matrix end at its diagonal, which ends in its last element",
                Value::Bool(false)),
            option("offset", "elements that causal rows have after the diagonal", Value::Int(0)),
        ],
        cases: cases::CASES,
        bench: cases::BENCH,
    };

    /// The logarithm of softmax along an axis.
    pub static LOG_SOFTMAX(true) = {
        name: "log_softmax",
        summary: "the logarithm of softmax: scale * x less the logarithm of the sum of its exponentials",
        ..SOFTMAX
    };
}

/// Softmax of the rows of a matrix.
///
/// ```
/// use moye::{Device, Matrix, MatrixMut};
/// use moye_rows::softmax::Softmax;
///
/// let device = Device::sim();
/// let x = device.upload(&[0.0f32, 0.0, 1.0, 1.0])?;
/// let mut y = device.alloc_uninit::<f32>(4)?;
/// let mut of_y = MatrixMut::row_major(&mut y, 2, 2)?;
/// let softmax = Softmax::new(Matrix::row_major(&x, 2, 2)?);
/// assert_eq!(softmax.explain(&device, &mut of_y)?, "softmax_f32_anywarp");
/// softmax.run(&device, &mut of_y)?;
/// assert_eq!(y.download()?, [0.5; 4]);
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

    setters! {
        /// A factor of `x`.
        scale: f32;
        /// Hides the elements of `x` where it is 0: a matrix of the shape of `x`, or of one row.
        mask: Matrix<'a, u8> as Some;
        /// Added to the scaled `x`: a matrix of the shape of `x`, or of one row.
        bias: Matrix<'a, T> as Some;
        /// Rows end this many elements after the diagonal, which ends in the last element of `x`.
        causal: i64 as Some;
    }

    /// The logarithm of softmax.
    #[must_use]
    pub fn log(self) -> Self {
        Self { log: true, ..self }
    }

    runs! {
        /// Computes it on the default stream of a device.
        fn run, run_on, explain(self, stream, y: &mut MatrixMut<'_, T>) {
            TypedCall::new(if self.log { &LOG_SOFTMAX } else { &SOFTMAX }, stream)
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
