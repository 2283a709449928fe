//! From a call to launches.

use super::kernel::CrossEntropyKernels;
use crate::of_floats;
use crate::plan::{self, Shape};
use crate::rows::{Operand, RowArray, RowKernel, RowLaunch, RowsOf, expect};
use moye::operation::{Array, ArrayType, Call, Dtype, Options};
use moye::{Error, Result, Stream};
use std::marker::PhantomData;

const NAME: &str = "cross_entropy";

/// Cross-entropy of logits `T`.
struct CrossEntropy<T>(PhantomData<T>);

impl<T: CrossEntropyKernels> RowKernel<5> for CrossEntropy<T> {
    const NAME: &'static str = NAME;
    const SHAPES: &'static [Shape] = plan::SHAPES_OF_LOSSES;
    /// Whether targets have 64 bits, the one that is ignored, the smoothing and the gradient's
    /// factor.
    type Scalars = (bool, i64, u32, u32);

    fn name(instance: usize) -> &'static str {
        T::KERNELS[instance].name()
    }

    unsafe fn launch(
        on: &RowLaunch<'_>,
        [x, targets, loss, lse, dx]: [RowArray; 5],
        (wide, ignore, smoothing, scale): (bool, i64, u32, u32),
    ) -> Result<()> {
        let arguments = (
            x.read(),
            targets.read(),
            loss.write(),
            lse.write(),
            dx.write(),
            on.rows,
            on.columns,
            x.stride,
            targets.stride.row,
            loss.stride.row,
            lse.stride.row,
            dx.stride,
            wide,
            ignore,
            f32::from_bits(smoothing),
            f32::from_bits(scale),
        );
        // SAFETY: the arrays hold the rows, and an element for each.
        unsafe { on.launch(T::KERNELS, arguments) }
    }
}

/// The mode of the classes.
fn axis(logits: &ArrayType, options: &Options) -> Result<usize> {
    Array::row_major(logits, 0).axis(NAME, options.int("axis"))
}

/// Element types and shapes of the loss, the logarithms and the gradient.
pub fn results(inputs: &[Option<ArrayType>], options: &Options) -> Result<Vec<ArrayType>> {
    let logits = inputs[0].clone().expect("checked: logits are not optional");
    let targets = inputs[1].clone().expect("checked: targets are not optional");
    let mut shape = logits.shape.clone();
    if shape.remove(axis(&logits, options)?) == 0 {
        let detail = format!("logits have shape {:?}, and must have at least one class", logits.shape);
        return Err(Error::ShapeMismatch { operation: NAME, detail });
    }
    expect(NAME, "targets", &inputs[1], &ArrayType { dtype: targets.dtype, shape: shape.clone() })?;
    let smoothing = options.float("label_smoothing");
    if !(0.0..=1.0).contains(&smoothing) {
        let detail = format!("label_smoothing is {smoothing}, and must be from 0 to 1");
        return Err(Error::Unsupported { operation: NAME, detail });
    }
    let of_rows = ArrayType { dtype: Dtype::F32, shape };
    Ok(vec![of_rows.clone(), of_rows, logits])
}

/// The kernel's arrays: logits, targets, loss, lse, gradient.
fn rows(call: &Call<'_>) -> Result<RowsOf<5>> {
    let [targets, loss, lse] = [1, 2, 3].map(|index: usize| Operand::Each(call.operands[index].as_ref()));
    let [x, dx] = [0, 4].map(|index: usize| Operand::Rows(call.operands[index].as_ref()));
    RowsOf::new(NAME, [x, targets, loss, lse, dx], axis(&call.operand(0).ty(), call.options)?)
}

/// Computes a call.
///
/// # Safety
/// Same contract as [`moye::operation::Declaration::run`].
pub unsafe fn run(stream: &Stream, call: &Call<'_>) -> Result<()> {
    let rows = rows(call)?;
    let bits = |name| (call.options.float(name) as f32).to_bits();
    let wide = call.operand(1).dtype == Dtype::I64;
    let scalars = (wide, call.options.int("ignore_index"), bits("label_smoothing"), bits("grad_scale"));
    // SAFETY: the call's arrays are on the stream's device until the work is complete.
    of_floats!(NAME, rows.dtype, T => unsafe { rows.run::<CrossEntropy<T>>(NAME, stream, |_| scalars) })
}

/// The kernel that computes a call.
pub fn explain(stream: &Stream, call: &Call<'_>) -> Result<&'static str> {
    let rows = rows(call)?;
    of_floats!(NAME, rows.dtype, T => rows.explain::<CrossEntropy<T>>(NAME, stream))
}
