//! Builds the launches of a call.

use super::kernel::{CrossEntropyKernels, LossKernels, Strides, THREADS};
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
        let ld = strides(&[x, targets, dloss, loss, lse, dx]);
        // SAFETY: the arrays hold the rows, and an element for each.
        of_floats!(NAME, on.dtype, T => unsafe { on.launch(<T as CrossEntropyKernels>::KERNELS, (
            x.read(), targets.read(), dloss.read(), loss.write(), lse.write(), dx.write(), m, n, ld,
            wide, ignore, smoothing, scale,
        )) })
    }
}

/// The strides of a launch.
fn strides([x, targets, dloss, loss, lse, dx]: &[RowArray; 6]) -> Strides {
    Strides {
        x: x.stride,
        dx: dx.stride,
        targets: targets.stride.row,
        dloss: dloss.stride.row,
        loss: loss.stride.row,
        lse: lse.stride.row,
    }
}

/// Losses of rows that no thread keeps.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Losses {
    of: CrossEntropy,
    arrays: [RowArray; 6],
    dtype: Dtype,
    rows: u32,
    columns: u32,
}

impl Losses {
    /// The fewest elements of a row: shorter ones are held by one block.
    const COLUMNS: u32 = 16_385;

    /// Whether the rows of a call without a gradient are faster so.
    fn holds(rows: &RowsOf<6>, card: &Rates) -> bool {
        let Some([x, .., dx]) = rows.launches.first() else { return false };
        // Fewer rows are shared by the blocks of a cluster.
        let are_many = rows.rows >= card.multiprocessors && rows.columns >= Self::COLUMNS;
        dx.address == 0 && x.stride.element == 1 && are_many
    }
}

impl Launch for Losses {
    fn ptx() -> &'static Ptx {
        &crate::PTX
    }

    unsafe fn launch(&self, to: To<'_>) -> Result<()> {
        let Self { of: CrossEntropy { wide, ignore, factors }, arrays, dtype, rows, columns } = *self;
        let ([x, targets, _, loss, lse, _], ld) = (arrays, strides(&arrays));
        let (grid, smoothing) = (Grid::new(rows, THREADS).dependent(), f32::from_bits(factors[0]));
        // SAFETY: the arrays hold the rows, and an element for each.
        of_floats!(NAME, dtype, T => unsafe { to.launch(&<T as LossKernels>::KERNELS[0], grid, (
            x.read::<T>(), targets.read(), loss.write(), lse.write(), columns, ld, wide, ignore, smoothing,
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
    if Losses::holds(&rows, &on.card()) {
        return rows.launches.iter().try_for_each(|&arrays| {
            let launch = Losses { of, arrays, dtype: rows.dtype, rows: rows.rows, columns: rows.columns };
            // SAFETY: the call's arrays are on the stream's device until the work is complete.
            unsafe { on.launch(&launch) }
        });
    }
    // SAFETY: the call's arrays are on the stream's device until the work is complete.
    unsafe { rows.launch(NAME, on, |_| of) }
}
