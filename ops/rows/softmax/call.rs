//! Builds the launches of a call.

use super::kernel::SoftmaxKernels;
use crate::prelude::*;

/// The scalars of a launch.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Softmax {
    /// The bits of the factor of x.
    scale: u32,
    /// Whether to compute the logarithm.
    log: bool,
    /// Rows of a matrix.
    period: u32,
    /// The last visible element of the first row; `i32::MAX` if all are visible.
    diagonal: i32,
}

impl RowKernel<4> for Softmax {
    plans!(SoftmaxKernels);

    fn variant(&self) -> u32 {
        u32::from(self.log) | u32::from(self.diagonal != i32::MAX) << 1
    }

    unsafe fn launch(&self, on: &RowLaunch<'_>, [x, mask, bias, y]: [RowArray; 4]) -> Result<()> {
        let Self { log, period, diagonal, .. } = *self;
        let (m, n, scale) = (on.rows, on.columns, f32::from_bits(self.scale));
        // SAFETY: the arrays hold the rows.
        of_floats!("softmax", on.dtype, T => unsafe { on.launch(T::KERNELS, (
            x.read(), mask.read(), bias.read(), y.write(), m, n, period,
            x.stride, mask.stride, bias.stride, y.stride, diagonal, scale, log,
        )) })
    }
}

/// Element type and shape of the result; mask and bias are broadcast to it.
pub fn results(
    name: &'static str,
    _: bool,
    inputs: &[Option<ArrayType>],
    _: &Options,
) -> Result<Vec<ArrayType>> {
    let x = given(inputs, 0);
    for (of, input) in ["mask", "bias"].iter().zip(&inputs[1..]) {
        let Some(input) = input else { continue };
        let mut modes = input.shape.iter().rev().zip(x.shape.iter().rev());
        if input.shape.len() > x.shape.len() || modes.any(|(&own, &of_x)| own != of_x && own != 1) {
            let detail = format!(
                "{of} has shape {:?}, which is not broadcast to {:?}; its last modes are those of x, or 1",
                input.shape, x.shape
            );
            return mismatch(name, detail);
        }
        if *of == "bias" && input.dtype != x.dtype {
            let detail = format!("bias has elements of {}, and x of {}; convert it", input.dtype, x.dtype);
            return unsupported(name, detail);
        }
    }
    Ok(vec![x.clone()])
}

/// The last visible element of the first row, if the call is causal.
pub fn diagonal(shape: &[usize], options: &Options) -> Option<i64> {
    let [rows, columns] =
        [2, 1].map(|mode| shape.len().checked_sub(mode).map_or(1, |mode| shape[mode] as i64));
    options.bool("causal").then(|| (columns - rows).saturating_add(options.int("offset")))
}

/// Computes softmax, or its logarithm.
///
/// # Safety
/// Same contract as [`moye_runtime::operation::Declaration::run`].
pub unsafe fn compute(name: &'static str, log: bool, on: &On<'_>, call: &Call<'_>) -> Result<()> {
    let (x, [mask, bias, y]) = (call.operand(0), [1, 2, 3].map(|index| call.operands[index].as_ref()));
    let axis = x.axis(name, call.options.int("axis"))?;
    let diagonal = diagonal(&x.shape, call.options);
    if diagonal.is_some() && axis + 1 != x.shape.len() {
        let detail = format!("axis is {axis} of an array of shape {:?}; causal takes the last one", x.shape);
        return unsupported(name, detail);
    }
    let of = [Operand::Rows(Some(x)), Operand::Repeated(mask), Operand::Repeated(bias), Operand::Rows(y)];
    let is_whole = diagonal.is_none() && mask.is_none() && bias.is_none();
    let rows = if is_whole { RowsOf::new(name, of, axis)? } else { RowsOf::repeated(name, of, axis)? };
    let most = i64::from(i32::MAX) - 1;
    let softmax = Softmax {
        scale: bits(call.options, "scale"),
        log,
        period: rows.period,
        diagonal: diagonal.map_or(i32::MAX, |diagonal| diagonal.clamp(-most, most) as i32),
    };
    // SAFETY: the call's arrays are on the stream's device until the work is complete.
    unsafe { rows.launch(name, on, |_| softmax) }
}
