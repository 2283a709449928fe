//! Builds the launches of a call.

use super::kernel::{CrossEntropyKernels, Strides};
use crate::prelude::*;

const NAME: &str = "cross_entropy";

/// The scalars of a launch.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct CrossEntropy {
    /// Whether targets have 64 bits.
    wide: bool,
    /// The target that is ignored.
    ignore: i64,
    /// The bits of the smoothing, and of the gradient's factor.
    factors: [u32; 2],
}

impl RowKernel<6> for CrossEntropy {
    const SHAPES: &'static [RowInstance] = plan::SHAPES_OF_LOSSES;

    plans!(CrossEntropyKernels);

    unsafe fn launch(
        &self,
        on: &RowLaunch<'_>,
        [x, targets, dloss, loss, lse, dx]: [RowArray; 6],
    ) -> Result<()> {
        let Self { wide, ignore, factors } = *self;
        let (m, n, [smoothing, scale]) = (on.rows, on.columns, factors.map(f32::from_bits));
        let ld = Strides {
            x: x.stride,
            dx: dx.stride,
            targets: targets.stride.row,
            dloss: dloss.stride.row,
            loss: loss.stride.row,
            lse: lse.stride.row,
        };
        // SAFETY: the arrays hold the rows, and an element for each.
        of_floats!(NAME, on.dtype, T => unsafe { on.launch(T::KERNELS, (
            x.read(), targets.read(), dloss.read(), loss.write(), lse.write(), dx.write(), m, n, ld,
            wide, ignore, smoothing, scale,
        )) })
    }
}

/// The mode of the classes.
fn axis(logits: &ArrayType, options: &Options) -> Result<usize> {
    Array::row_major(logits, 0).axis(NAME, options.int("axis"))
}

/// Element types and shapes of the loss, the logarithms and the gradient.
pub fn results(inputs: &[Option<ArrayType>], options: &Options) -> Result<Vec<ArrayType>> {
    let (logits, targets) = (given(inputs, 0), given(inputs, 1));
    let mut shape = logits.shape.clone();
    if shape.remove(axis(logits, options)?) == 0 {
        let detail = format!("logits have shape {:?}, and must have at least one class", logits.shape);
        return mismatch(NAME, detail);
    }
    expect(NAME, "targets", &inputs[1], &ArrayType { dtype: targets.dtype, shape: shape.clone() })?;
    let smoothing = options.float("label_smoothing");
    if !(0.0..=1.0).contains(&smoothing) {
        return unsupported(NAME, format!("label_smoothing is {smoothing}, and must be from 0 to 1"));
    }
    let of_rows = ArrayType { dtype: Dtype::F32, shape };
    expect(NAME, "dloss", &inputs[2], &of_rows)?;
    Ok(vec![of_rows.clone(), of_rows, logits.clone()])
}

/// Computes a call.
///
/// # Safety
/// Same contract as [`moye_runtime::operation::Declaration::run`].
pub unsafe fn compute(on: &On<'_>, call: &Call<'_>) -> Result<()> {
    let of_row = |index: usize| Operand::Each(call.operands[index].as_ref());
    let [targets, dloss, loss, lse] = [1, 2, 3, 4].map(of_row);
    let [x, dx] = [0, 5].map(|index: usize| Operand::Rows(call.operands[index].as_ref()));
    let axis = axis(&call.operand(0).ty(), call.options)?;
    let rows = RowsOf::new(NAME, [x, targets, dloss, loss, lse, dx], axis)?;
    let of = CrossEntropy {
        wide: call.operand(1).dtype == Dtype::I64,
        ignore: call.options.int("ignore_index"),
        factors: ["label_smoothing", "grad_scale"].map(|name| bits(call.options, name)),
    };
    // SAFETY: the call's arrays are on the stream's device until the work is complete.
    unsafe { rows.launch(NAME, on, |_| of) }
}
