//! RMSNorm and LayerNorm along the last axis, of `h = x + residual`.
//!
//! RMSNorm is `y = h / sqrt(mean(h^2) + eps) * weight`, LayerNorm
//! `y = (h - mean(h)) / sqrt(variance(h) + eps) * weight + bias`. Elements are f32, f16 or bf16,
//! computed in f32; the variance is computed from the deviations from the mean, which are exact to
//! the last bits however large the mean is. The sum `h` is kept in `sum`, if a call has it. The
//! result has the type of `x`, or another one of these. A NaN or an infinite element makes its
//! whole row NaN, except that RMSNorm of a row with an infinite element returns 0 for the finite
//! ones, as in PyTorch.
//!
//! The quantised forms write int8, e4m3 or e5m2 and a scale a row, with the rules of `quantize`,
//! from the f32 values of the row.

mod call;
mod cases;
pub mod kernel;
mod oracle;

use crate::prelude::*;
use call::Kind;
use kernel::NormKernels;

const WEIGHT: OperandOf =
    OperandOf::new(Role::Optional, "weight", "a factor for each column, of the type of x");
const BIAS: OperandOf = OperandOf::new(Role::Optional, "bias", "added to each column, of the type of x");
const RESIDUAL: OperandOf =
    OperandOf::new(Role::Optional, "residual", "added to x first, of its shape and type");
const OUT: OperandOf = OperandOf::new(Role::Result, "out", "the result, of the shape of x");
const SUM: OperandOf =
    OperandOf::new(Role::OptionalResult, "sum", "x + residual, of the shape and type of x");
const Q: OperandOf =
    OperandOf::new(Role::Result, "q", "the result in 8 bits, of the shape of x").of(Dtype::BYTES);
const SCALES: OperandOf =
    OperandOf::new(Role::Result, "scales", "float32, one of each row").of(&[Dtype::F32]);
const EPS: OptionOf = option("eps", "added to the mean of the squares", Value::Float(1e-6));
const EPS_OF_LAYER: OptionOf = option("eps", "added to the variance", Value::Float(1e-5));
const DTYPE: OptionOf =
    option("dtype", "the type of q: int8, float8_e4m3fn or float8_e5m2", Value::Dtype(Dtype::E4m3));
const TYPE: OptionOf = option(
    "dtype",
    "the type of the result: that of x, float32, float16 or bfloat16",
    Value::Choice("same", call::TYPES),
);

declare! {
    /// RMSNorm along the last axis.
    pub static RMS_NORM(Kind { center: false, quantized: false }) = {
        name: "rms_norm",
        summary: "x, with the residual added, divided by the root of the mean of its squares along the last axis",
        operands: &[X, WEIGHT, RESIDUAL, OUT, SUM],
        options: &[EPS, TYPE],
        cases: cases::RMS_NORM,
        bench: cases::BENCH_RMS_NORM,
    };

    /// RMSNorm along the last axis in 8 bits, with a scale a row.
    pub static RMS_NORM_QUANTIZED(Kind { center: false, quantized: true }) = {
        name: "rms_norm_quantized",
        summary: "rms_norm in 8 bits, with a scale that makes the magnitude of a row the greatest value of the type",
        operands: &[X, WEIGHT, RESIDUAL, Q, SCALES, SUM],
        options: &[EPS, DTYPE],
        cases: cases::RMS_NORM_QUANTIZED,
        bench: cases::BENCH_QUANTIZED,
    };

    /// LayerNorm along the last axis.
    pub static LAYER_NORM(Kind { center: true, quantized: false }) = {
        name: "layer_norm",
        summary: "x, with the residual added, less its mean along the last axis, divided by its standard deviation",
        operands: &[X, WEIGHT, BIAS, RESIDUAL, OUT, SUM],
        options: &[EPS_OF_LAYER, TYPE],
        cases: cases::LAYER_NORM,
        bench: cases::BENCH_LAYER_NORM,
    };

    /// LayerNorm along the last axis in 8 bits, with a scale a row.
    pub static LAYER_NORM_QUANTIZED(Kind { center: true, quantized: true }) = {
        name: "layer_norm_quantized",
        summary: "layer_norm in 8 bits, with a scale that makes the magnitude of a row the greatest value of the type",
        operands: &[X, WEIGHT, BIAS, RESIDUAL, Q, SCALES, SUM],
        options: &[EPS_OF_LAYER, DTYPE],
        cases: cases::LAYER_NORM_QUANTIZED,
        bench: cases::BENCH_LAYER_NORM_QUANTIZED,
    };
}

/// RMSNorm or LayerNorm of the rows of a matrix.
///
/// ```
/// use moye::{Device, Element, Error, Matrix, MatrixMut};
/// use moye_rows::norm::Norm;
///
/// let device = Device::sim();
/// let x = device.upload(&[3.0f32, -3.0, 2.5, 0.5])?;
/// let mut y = device.alloc_uninit::<f32>(4)?;
/// let x = Matrix::row_major(&x, 2, 2)?;
/// Norm::rms(x.clone()).eps(0.0).run(&device, &mut MatrixMut::row_major(&mut y, 2, 2)?)?;
/// assert_eq!(y.download()?[..2], [1.0, -1.0]);
/// Norm::layer(x).eps(0.0).run(&device, &mut MatrixMut::row_major(&mut y, 2, 2)?)?;
/// assert_eq!(y.download()?, [1.0, -1.0, 1.0, -1.0]);
/// # Ok::<(), moye::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Norm<'a, T: NormKernels> {
    x: Matrix<'a, T>,
    weight: Option<Matrix<'a, T>>,
    bias: Option<Matrix<'a, T>>,
    residual: Option<Matrix<'a, T>>,
    eps: f32,
    center: bool,
}

impl<'a, T: NormKernels> Norm<'a, T> {
    /// RMSNorm of each row of `x`.
    pub fn rms(x: Matrix<'a, T>) -> Self {
        Self { x, weight: None, bias: None, residual: None, eps: 1e-6, center: false }
    }

    /// LayerNorm of each row of `x`.
    pub fn layer(x: Matrix<'a, T>) -> Self {
        Self { eps: 1e-5, center: true, ..Self::rms(x) }
    }

    setters! {
        /// A factor for each column: a matrix of one row.
        weight: Matrix<'a, T> as Some;
        /// Added to each column by LayerNorm: a matrix of one row. RMSNorm refuses it.
        bias: Matrix<'a, T> as Some;
        /// A matrix of the shape of `x` that is added to it first.
        residual: Matrix<'a, T> as Some;
        /// Epsilon, added to the mean of the squares or the variance: by default 1e-6 for
        /// RMSNorm, 1e-5 for LayerNorm.
        eps: f32;
    }

    runs! {
        /// Computes it on the default stream of a device, to f32, f16 or bf16.
        fn run, run_on, explain<U: NormKernels>(
            self, stream, y: &mut MatrixMut<'_, U>;
            /// Writes `x + residual` to `sum`.
            sum: Option<&mut MatrixMut<'_, T>>
        ) {
            let declaration = if self.center { &LAYER_NORM } else { &RMS_NORM };
            let dtype = Array::of_mut(declaration.name, y)?.dtype;
            self.call(declaration, stream)?.choose("dtype", dtype.name())?.write(y)?.write(sum)?
        }
    }

    runs! {
        /// Computes it on the default stream of a device in 8 bits, i8, e4m3 or e5m2, with a
        /// column of scales.
        fn run_quantized, run_quantized_on, explain_quantized<Q: Element>(
            self, stream, q: &mut MatrixMut<'_, Q>, scales: &mut MatrixMut<'_, f32>;
            /// Writes `x + residual` to `sum`.
            sum: Option<&mut MatrixMut<'_, T>>
        ) {
            let declaration = if self.center { &LAYER_NORM_QUANTIZED } else { &RMS_NORM_QUANTIZED };
            let dtype = Array::of_mut(declaration.name, q)?.dtype;
            let call = self.call(declaration, stream)?.option("dtype", Value::Dtype(dtype))?;
            call.write(q)?.write(scales)?.drop_mode(1).write(sum)?
        }
    }

    /// A call with its inputs.
    fn call<'s>(&self, declaration: &'static Declaration, stream: &'s Stream) -> Result<TypedCall<'s>> {
        let mut call = TypedCall::new(declaration, stream)
            .option("eps", Value::Float(self.eps.into()))?
            .read(&self.x)?
            .read_row(self.weight.as_ref())?;
        if self.center {
            call = call.read_row(self.bias.as_ref())?;
        } else if self.bias.is_some() {
            let detail = "it has no bias; leave it out, or use Norm::layer".to_owned();
            return unsupported(declaration.name, detail);
        }
        call.read(self.residual.as_ref())
    }
}
