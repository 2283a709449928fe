//! From a call to launches.

use super::kernel::SoftmaxKernels;
use crate::of_floats;
use crate::rows::{Operand, RowArray, RowKernel, RowLaunch, RowsOf};
use moye::operation::{Array, ArrayType, Call};
use moye::{Error, Result, Stream};
use std::marker::PhantomData;

/// Softmax of elements `T`.
struct Softmax<T>(PhantomData<T>);

/// The scalars of a launch.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Scalars {
    /// The bits of the factor of x.
    scale: u32,
    /// Whether the result is the logarithm.
    log: bool,
    /// Rows of a matrix.
    period: u32,
    /// The last element of the first row that takes part; all if it is `i32::MAX`.
    diagonal: i32,
}

impl<T: SoftmaxKernels> RowKernel<4> for Softmax<T> {
    const NAME: &'static str = "softmax";
    type Scalars = Scalars;

    fn name(instance: usize) -> &'static str {
        T::KERNELS[instance].name()
    }

    unsafe fn launch(on: &RowLaunch<'_>, [x, mask, bias, y]: [RowArray; 4], of: Scalars) -> Result<()> {
        let arguments = (
            x.read(),
            mask.read(),
            bias.read(),
            y.write(),
            on.rows,
            on.columns,
            of.period,
            x.stride,
            mask.stride,
            bias.stride,
            y.stride,
            of.diagonal,
            f32::from_bits(of.scale),
            of.log,
        );
        // SAFETY: the arrays hold the rows.
        unsafe { on.launch(T::KERNELS, arguments) }
    }
}

/// Element type and shape of the result; mask and bias are broadcast to it.
pub fn results(name: &'static str, inputs: &[Option<ArrayType>]) -> Result<Vec<ArrayType>> {
    let x = inputs[0].clone().expect("checked: x is not optional");
    for (of, input) in ["mask", "bias"].iter().zip(&inputs[1..]) {
        let Some(input) = input else { continue };
        let mut modes = input.shape.iter().rev().zip(x.shape.iter().rev());
        if input.shape.len() > x.shape.len() || modes.any(|(&own, &of_x)| own != of_x && own != 1) {
            let detail = format!(
                "{of} has shape {:?}, which is not broadcast to {:?}; its last modes are those of x, or 1",
                input.shape, x.shape
            );
            return Err(Error::ShapeMismatch { operation: name, detail });
        }
        if *of == "bias" && input.dtype != x.dtype {
            let detail = format!("bias has elements of {}, and x of {}; convert it", input.dtype, x.dtype);
            return Err(Error::Unsupported { operation: name, detail });
        }
    }
    Ok(vec![x])
}

/// How far elements of the first row take part, if they do not all.
pub fn diagonal(shape: &[usize], options: &moye::operation::Options) -> Option<i64> {
    let [rows, columns] =
        [2, 1].map(|mode| shape.len().checked_sub(mode).map_or(1, |mode| shape[mode] as i64));
    options.bool("causal").then(|| (columns - rows).saturating_add(options.int("offset")))
}

fn rows(name: &'static str, call: &Call<'_>, log: bool) -> Result<(RowsOf<4>, Scalars)> {
    let (x, [mask, bias, y]) = (call.operand(0), [1, 2, 3].map(|index| call.operands[index].as_ref()));
    let axis = x.axis(name, call.options.int("axis"))?;
    let diagonal = diagonal(&x.shape, call.options);
    if diagonal.is_some() && axis + 1 != x.shape.len() {
        let detail = format!("axis is {axis} of an array of shape {:?}; causal takes the last one", x.shape);
        return Err(Error::Unsupported { operation: name, detail });
    }
    let of = [Operand::Rows(Some(x)), Operand::Repeated(mask), Operand::Repeated(bias), Operand::Rows(y)];
    let is_whole = diagonal.is_none() && [mask, bias].iter().all(|array: &Option<&Array>| array.is_none());
    let rows = if is_whole { RowsOf::new(name, of, axis)? } else { RowsOf::repeated(name, of, axis)? };
    let most = i64::from(i32::MAX) - 1;
    let scalars = Scalars {
        scale: (call.options.float("scale") as f32).to_bits(),
        log,
        period: rows.period,
        diagonal: diagonal.map_or(i32::MAX, |diagonal| diagonal.clamp(-most, most) as i32),
    };
    Ok((rows, scalars))
}

/// Computes softmax, or its logarithm.
///
/// # Safety
/// Same contract as [`moye::operation::Declaration::run`].
pub unsafe fn run(name: &'static str, stream: &Stream, call: &Call<'_>, log: bool) -> Result<()> {
    let (rows, scalars) = rows(name, call, log)?;
    // SAFETY: the call's arrays are on the stream's device until the work is complete.
    of_floats!(name, rows.dtype, T => unsafe { rows.run::<Softmax<T>>(name, stream, |_| scalars) })
}

/// The kernel that computes a call.
pub fn explain(name: &'static str, stream: &Stream, call: &Call<'_>) -> Result<&'static str> {
    let (rows, _) = rows(name, call, false)?;
    of_floats!(name, rows.dtype, T => rows.explain::<Softmax<T>>(name, stream))
}
