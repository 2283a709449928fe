//! Reductions along an axis, along several, or of a whole array: sum, mean, norm, max, min, log-sum-exp, variance,
//! argmax and argmin. The result has no such axes.
//!
//! Elements are f32, f16 or bf16, computed in f32; indices are i64. As in PyTorch the maximum of
//! NaN is NaN, and argmax finds the first one; of equal elements it finds the first. Long rows are
//! reduced in slices, whose states a second launch combines in order: the same bits in every run.

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
    use super::call::{self, Kind};
    use super::kernel::ReduceKernels;
    use super::{cases, oracle};
    use moye::operation::{
        Array, ArrayType, Axes, Declaration, Dtype, OperandOf, OptionOf, Role, TypedCall, Value,
    };
    use moye::{Element, Matrix, MatrixMut};

    const X: OperandOf =
        OperandOf::new(Role::Input, "x", "float32, float16 or bfloat16, of any shape and strides");
    const VALUE: &[OperandOf] = &[
        X,
        OperandOf::new(Role::Result, "out", "the result, of the type of x and its shape without the axes"),
    ];
    const INDEX: &[OperandOf] = &[
        X,
        OperandOf::new(Role::Result, "out", "the index, int64, of the shape of x without the axis")
            .of(&[Dtype::I64]),
    ];
    const AXIS: OptionOf = OptionOf {
        name: "axis",
        about: "the axes that are reduced, one or several; by default the whole array is",
        default: Value::Axes(Axes::ALL),
    };
    const CORRECTION: OptionOf = OptionOf {
        name: "correction",
        about: "subtracted from the number of elements before the division; 0 for a population",
        default: Value::Int(1),
    };

    macro_rules! declare {
        ($(
            $name:ident = $text:literal, $kind:ident, $operands:ident, $options:expr, $summary:literal;
        )+) => { $(
            #[doc = concat!($summary, ".")]
            pub static $name: Declaration = Declaration {
                name: $text,
                summary: $summary,
                operands: $operands,
                options: $options,
                results: |inputs, options| call::results($text, Kind::$kind, inputs, options),
                // SAFETY: the contract of `Declaration::run`.
                run: |stream, call| unsafe { call::run($text, Kind::$kind, stream, call) },
                explain: |stream, call| call::explain($text, Kind::$kind, stream, call),
                reference: |inputs, options| oracle::reduce(Kind::$kind, inputs, options),
                tolerance: oracle::tolerance,
                cases: cases::CASES,
                bench: cases::BENCH,
            };
        )+ };
    }
    declare! {
        SUM = "sum", Sum, VALUE, &[AXIS],
            "The sum along an axis, or of a whole array";
        MEAN = "mean", Mean, VALUE, &[AXIS],
            "The mean along an axis, or of a whole array";
        NORM = "norm", Norm, VALUE, &[AXIS],
            "The root of the sum of squares along an axis, or of a whole array";
        MAX = "max", Max, VALUE, &[AXIS],
            "The maximum along an axis, or of a whole array; NaN if an element is";
        MIN = "min", Min, VALUE, &[AXIS],
            "The minimum along an axis, or of a whole array; NaN if an element is";
        LOG_SUM_EXP = "logsumexp", LogSumExp, VALUE, &[AXIS],
            "The logarithm of the sum of exponentials along an axis, or of a whole array";
        VAR = "var", Var, VALUE, &[AXIS, CORRECTION],
            "The variance along an axis, or of a whole array";
        ARG_MAX = "argmax", ArgMax, INDEX, &[AXIS],
            "The index of the first maximum, or NaN, along an axis or of a whole row-major array";
        ARG_MIN = "argmin", ArgMin, INDEX, &[AXIS],
            "The index of the first minimum, or NaN, along an axis or of a whole row-major array";
    }

    /// A reduction of the columns or rows of a matrix, or of all of it.
    ///
    /// ```
    /// use moye::{Device, Matrix, MatrixMut};
    /// use moye_rows::reduce::{ARG_MAX, Reduce, SUM};
    ///
    /// let device = Device::sim();
    /// let x = device.upload(&[1.0f32, 5.0, 2.0, 4.0, 3.0, 6.0])?;
    /// let x = Matrix::row_major(&x, 2, 3)?;
    /// let mut sum = device.alloc_uninit::<f32>(2)?;
    /// Reduce::new(&SUM, x.clone()).axis(1).run(&device, &mut MatrixMut::row_major(&mut sum, 2,
    /// 1)?)?; assert_eq!(sum.download()?, [8.0, 13.0]); let mut at =
    /// device.alloc_uninit::<i64>(3)?; Reduce::new(&ARG_MAX, x).axis(0).run(&device, &mut
    /// MatrixMut::row_major(&mut at, 1, 3)?)?; assert_eq!(at.download()?, [1, 0, 1]);
    /// # Ok::<(), moye::Error>(())
    /// ```
    #[derive(Clone)]
    pub struct Reduce<'a, T: ReduceKernels> {
        declaration: &'static Declaration,
        x: Matrix<'a, T>,
        axis: Option<u32>,
        correction: Option<u32>,
    }

    impl<'a, T: ReduceKernels> Reduce<'a, T> {
        /// A reduction of all elements of `x`: [`SUM`] or another one of this module.
        pub fn new(declaration: &'static Declaration, x: Matrix<'a, T>) -> Self {
            Self { declaration, x, axis: None, correction: None }
        }

        /// Along an axis: 0 for the result of each column, 1 for that of each row.
        #[must_use]
        pub fn axis(self, axis: u32) -> Self {
            Self { axis: Some(axis), ..self }
        }

        /// The correction of [`VAR`], 1 by default; the others have none.
        #[must_use]
        pub fn correction(self, correction: u32) -> Self {
            Self { correction: Some(correction), ..self }
        }

        crate::runs! {
            /// Computes it on the default stream of a device. `y` has one row, one column, or both
            /// in place of what is reduced; its elements are those of `x`, or i64 for indices.
            ///
            /// # Errors
            /// [`moye::Error::ShapeMismatch`] if `y` has another shape or type,
            /// [`moye::Error::Unsupported`] for an axis above 1 or a correction of another
            /// reduction than [`VAR`], and the errors of [`moye::Device::launch`].
            fn run, run_on<U: Element>(self, stream, y: &mut MatrixMut<'_, U>) {
                let mut call = TypedCall::new(self.declaration, stream);
                for (name, value) in [("axis", self.axis), ("correction", self.correction)] {
                    if let Some(value) = value {
                        call = call.option(name, Value::Int(value.into()))?;
                    }
                }
                call = call.read(&self.x)?.write(y)?;
                for mode in [1, 0] {
                    if self.axis.is_none_or(|axis| axis == mode as u32) {
                        call = call.drop_mode(mode);
                    }
                }
                call
            }
        }
    }
}
