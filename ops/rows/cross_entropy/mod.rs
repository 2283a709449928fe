//! Cross-entropy of logits and targets, a loss for each row, with the logarithms of the sums of
//! exponentials and the gradient if a call has them.
//!
//! `loss = lse(x) - (1 - label_smoothing) x[target] - label_smoothing mean(x)`. Logits are f32, f16
//! or bf16, computed in f32; losses and logarithms are f32. The gradient is the loss's times
//! `grad_scale` and, if a call has it, times `dloss` of the row. It may overwrite the logits: for
//! losses without a reduction it is the backward pass. A row whose target is `ignore_index` has
//! loss and gradient 0. A target outside the classes yields NaN in both; nothing is read or written
//! out of bounds. As in PyTorch, a row with NaN or plus infinity has loss NaN, and a row whose
//! target's logit is minus infinity has loss infinity.

mod call;
mod cases;
pub mod kernel;
mod oracle;

use crate::prelude::*;
use kernel::CrossEntropyKernels;

declare! {
    /// Cross-entropy along an axis.
    pub static CROSS_ENTROPY = {
        name: "cross_entropy",
        summary: "the cross-entropy of logits and targets, a loss for each row",
        operands: &[
            OperandOf::new(Role::Input, "logits", "float32, float16 or bfloat16, of any shape and strides"),
            OperandOf::new(Role::Input, "targets",
                "the class of each row, int32 or int64, of the shape of logits without the axis")
                .of(Dtype::INTEGERS),
            OperandOf::new(Role::Optional, "dloss",
                "the gradient of each row's loss, float32, of the shape of targets: a factor of dlogits")
                .of(&[Dtype::F32]),
            OperandOf::new(Role::Result, "out", "the loss of each row, float32, of the shape of targets")
                .of(&[Dtype::F32]),
            OperandOf::new(Role::OptionalResult, "lse",
                "the logarithm of each row's sum of exponentials, float32")
                .of(&[Dtype::F32]),
            OperandOf::new(Role::OptionalResult, "dlogits",
                "the gradient of the losses, of the shape and type of logits, or logits itself"),
        ],
        options: &[
            option("axis", "the axis of the classes", Value::Int(-1)),
            option("ignore_index", "the target of rows that have loss and gradient 0", Value::Int(-100)),
            option("label_smoothing", "the share of the target that all classes have, from 0 to 1",
                Value::Float(0.0)),
            option("grad_scale", "a factor of the gradient", Value::Float(1.0)),
        ],
        cases: cases::CASES,
        bench: cases::BENCH,
    };
}

/// Cross-entropy of the rows of a matrix; targets are i32 or i64, in a matrix of one row.
///
/// ```
/// use moye::{Device, Matrix, MatrixMut};
/// use moye_rows::cross_entropy::CrossEntropy;
///
/// let device = Device::sim();
/// let logits = device.upload(&[0.0f32, 0.0, 8.0, 8.0])?;
/// let targets = device.upload(&[1i64, -100])?;
/// let mut loss = device.alloc_uninit::<f32>(2)?;
/// CrossEntropy::new(Matrix::row_major(&logits, 2, 2)?, Matrix::row_major(&targets, 1, 2)?)
///     .run(&device, &mut MatrixMut::row_major(&mut loss, 1, 2)?)?;
/// let loss = loss.download()?;
/// assert!((loss[0] - 2f32.ln()).abs() < 1e-6 && loss[1] == 0.0);
/// # Ok::<(), moye::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct CrossEntropy<'a, T: CrossEntropyKernels, I: Element> {
    logits: Matrix<'a, T>,
    targets: Matrix<'a, I>,
    dloss: Option<Matrix<'a, f32>>,
    ignore_index: i64,
    label_smoothing: f32,
    grad_scale: f32,
}

impl<'a, T: CrossEntropyKernels, I: Element> CrossEntropy<'a, T, I> {
    /// The loss of each row of `logits`.
    pub fn new(logits: Matrix<'a, T>, targets: Matrix<'a, I>) -> Self {
        Self { logits, targets, dloss: None, ignore_index: -100, label_smoothing: 0.0, grad_scale: 1.0 }
    }

    setters! {
        /// The target of rows that have loss and gradient 0, -100 by default.
        ignore_index: i64;
        /// Label smoothing: the weight, from 0 to 1, that all classes share.
        label_smoothing: f32;
        /// A factor of the gradient.
        grad_scale: f32;
        /// The gradient of each row's loss, a matrix of one row: a factor of the row's gradient.
        dloss: Matrix<'a, f32> as Some;
    }

    runs! {
        /// Computes the losses, a matrix of one row, on the default stream of a device.
        fn run, run_on, explain(
            self, stream, loss: &mut MatrixMut<'_, f32>;
            /// Writes the logarithms of the sums of exponentials, a matrix of one row, and the
            /// gradient too.
            lse: Option<&mut MatrixMut<'_, f32>>, dlogits: Option<&mut MatrixMut<'_, T>>
        ) {
            TypedCall::new(&CROSS_ENTROPY, stream)
                .option("ignore_index", Value::Int(self.ignore_index))?
                .option("label_smoothing", Value::Float(self.label_smoothing.into()))?
                .option("grad_scale", Value::Float(self.grad_scale.into()))?
                .read(&self.logits)?
                .read_row(&self.targets)?
                .read_row(self.dloss.as_ref())?
                .write_row(loss)?
                .write_row(lse)?
                .write(dlogits)?
        }
    }
}
