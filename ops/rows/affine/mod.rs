//! Sums of multiples, casts and constants: `out = alpha x + beta y + constant`, by one kernel.
//!
//! Elements are f32, f16 or bf16 of any strides, computed in f32 and rounded to the type of the
//! result; the operands of a sum are broadcast as in PyTorch.

mod call;
mod cases;
pub mod kernel;
mod oracle;

use crate::prelude::*;
use call::Kind;

#[cfg(any(feature = "append", feature = "rope"))]
pub(crate) use call::copy;

const LIKE: &[OperandOf] = &[X, OperandOf::new(Role::Result, "out", "the result, of the shape of x")];

declare! {
    /// `x + alpha y`.
    pub static ADD(Kind::Add) = {
        name: "add",
        summary: "x + alpha * y",
        operands: &[
            X,
            OperandOf::new(Role::Input, "y", "of the type of x, broadcast with it"),
            OperandOf::new(Role::Result, "out", "the result, of the type of x and of the shape of both"),
        ],
        options: &[option("alpha", "a factor of y", Value::Float(1.0))],
        cases: cases::SUMS,
        bench: cases::BENCH,
    };

    /// `alpha x + beta y`.
    pub static AXPBY(Kind::Axpby) = {
        name: "axpby",
        summary: "alpha * x + beta * y; y is not read where beta is 0",
        options: &[
            option("alpha", "a factor of x", Value::Float(1.0)),
            option("beta", "a factor of y", Value::Float(1.0)),
        ],
        cases: cases::AXPBY,
        ..ADD
    };

    /// x as another type.
    pub static CAST(Kind::Cast) = {
        name: "cast",
        summary: "x as another type, rounded to nearest even",
        operands: LIKE,
        options: &[TO_FLOATS],
        cases: cases::CASTS,
        bench: cases::BENCH_OF_ONE,
    };

    /// A constant in the shape and type of x.
    pub static FULL_LIKE(Kind::Constant) = {
        name: "full_like",
        summary: "a constant in the shape and type of x, which is not read",
        operands: LIKE,
        options: &[option("value", "the constant", Value::Float(0.0))],
        cases: cases::CONSTANTS,
        bench: cases::BENCH_OF_ONE,
    };
}

const NAME: &str = "affine";

/// `alpha x + beta y + constant` of matrices, as any of the element types.
///
/// ```
/// use moye::half::bf16;
/// use moye::{Device, Matrix, MatrixMut};
/// use moye_rows::affine::Affine;
///
/// let device = Device::sim();
/// let (x, y) = (device.upload(&[1.0f32, 2.0, 3.0, 4.0])?, device.upload(&[10.0f32, 20.0])?);
/// let x = Matrix::row_major(&x, 2, 2)?;
/// let mut out = device.alloc_uninit::<f32>(4)?;
/// // A row is broadcast.
/// let sum = Affine::new(x.clone()).add(0.5, Matrix::row_major(&y, 1, 2)?);
/// sum.run(&device, &mut MatrixMut::row_major(&mut out, 2, 2)?)?;
/// assert_eq!(out.download()?, [6.0, 12.0, 8.0, 14.0]);
/// // A cast.
/// let mut cast = device.alloc_uninit::<bf16>(4)?;
/// Affine::new(x).run(&device, &mut MatrixMut::row_major(&mut cast, 2, 2)?)?;
/// assert_eq!(cast.download()?[3], bf16::from_f32(4.0));
/// # Ok::<(), moye::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Affine<'a, T: Element> {
    inputs: [Option<Matrix<'a, T>>; 2],
    alpha: f32,
    beta: f32,
    constant: Option<f32>,
}

impl Affine<'_, f32> {
    /// A constant: it fills the result.
    pub fn constant(value: f32) -> Self {
        Self { inputs: [None, None], alpha: 1.0, beta: 1.0, constant: Some(value) }
    }
}

impl<'a, T: Element> Affine<'a, T> {
    /// `x`, broadcast to the shape of the result.
    pub fn new(x: Matrix<'a, T>) -> Self {
        Self { inputs: [Some(x), None], alpha: 1.0, beta: 1.0, constant: None }
    }

    /// A factor of `x`.
    #[must_use]
    pub fn scale(self, alpha: f32) -> Self {
        Self { alpha, ..self }
    }

    /// Adds `beta y`, broadcast to the shape of the result.
    #[must_use]
    pub fn add(self, beta: f32, y: Matrix<'a, T>) -> Self {
        let [x, _] = self.inputs;
        Self { inputs: [x, Some(y)], beta, ..self }
    }

    /// Adds a constant.
    #[must_use]
    pub fn add_constant(self, constant: f32) -> Self {
        Self { constant: Some(constant), ..self }
    }

    /// Computes it on the default stream of a device.
    ///
    /// # Errors
    /// [`moye_runtime::Error::ShapeMismatch`] if an input is not broadcast to the shape of `out`,
    /// [`moye_runtime::Error::Unsupported`] for other elements than f32, f16 and bf16, and the
    /// errors of [`Device::launch`].
    pub fn run<U: Element>(&self, device: &Device, out: &mut MatrixMut<'_, U>) -> Result<()> {
        // SAFETY: the default stream runs its work in order.
        unsafe { self.run_on(&device.default_stream(), out) }
    }

    /// Computes it on a stream.
    ///
    /// # Errors
    /// Same as [`Affine::run`].
    ///
    /// # Safety
    /// Until the work is complete, no other stream writes the elements of the inputs, or reads
    /// or writes those of `out`.
    pub unsafe fn run_on<U: Element>(&self, stream: &Stream, out: &mut MatrixMut<'_, U>) -> Result<()> {
        let devices = self.inputs.iter().flatten().map(Matrix::device).chain([out.device()]);
        for (argument, device) in devices.enumerate() {
            check_device(NAME, stream, argument, device)?;
        }
        // SAFETY: the matrices are in their buffers, on the stream's device, and the result is
        // borrowed alone; the caller answers for other streams.
        unsafe { self.compute(&On::stream(stream), out) }
    }

    /// The name of the kernel, "none" without elements. Nothing is computed.
    ///
    /// # Errors
    /// Same as [`Affine::run`].
    pub fn explain<U: Element>(&self, device: &Device, out: &mut MatrixMut<'_, U>) -> Result<&'static str> {
        // SAFETY: nothing is launched.
        On::name(&device.default_stream(), |on| unsafe { self.compute(on, out) })
    }

    /// # Safety
    /// If kernels are launched, same contract as [`Affine::run_on`], and all matrices are on the
    /// stream's device.
    unsafe fn compute<U: Element>(&self, on: &On<'_>, out: &mut MatrixMut<'_, U>) -> Result<()> {
        let [x, y] = self.inputs.each_ref().map(|input| input.as_ref().map(|x| Array::of(NAME, x)));
        let (x, y) = (x.transpose()?, y.transpose()?);
        let factor = |factor: f32, of: &Option<Array>| of.as_ref().map(|_| f64::from(factor));
        let scalars = [factor(self.alpha, &x), factor(self.beta, &y), self.constant.map(f64::from)];
        let out = Array::of_mut(NAME, out)?;
        // SAFETY: the matrices are in their buffers, on the stream's device, and the result is
        // borrowed alone; the caller answers for other streams.
        unsafe { call::affine(NAME, on, [x.as_ref(), y.as_ref()], &out, scalars) }
    }
}
