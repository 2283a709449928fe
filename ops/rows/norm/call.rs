//! From a call to launches.

use super::kernel::NormKernels;
use crate::of_floats;
use crate::rows::{Operand, RowArray, RowKernel, RowLaunch, RowsOf, expect, last_axis};
use moye::operation::{ArrayType, Call};
use moye::{Result, Stream};
use std::marker::PhantomData;

/// Norms of elements `T`.
struct Norm<T>(PhantomData<T>);

impl<T: NormKernels> RowKernel<6> for Norm<T> {
    const NAME: &'static str = "norm";
    /// `eps`, and whether the mean is taken off.
    type Scalars = (u32, bool);

    fn name(instance: usize) -> &'static str {
        T::KERNELS[instance].name()
    }

    unsafe fn launch(
        on: &RowLaunch<'_>,
        [x, weight, bias, residual, y, sum]: [RowArray; 6],
        (eps, center): (u32, bool),
    ) -> Result<()> {
        let arguments = (
            x.read(),
            weight.read(),
            bias.read(),
            residual.read(),
            y.write(),
            sum.write(),
            on.rows,
            on.columns,
            x.stride,
            weight.stride,
            bias.stride,
            residual.stride,
            y.stride,
            sum.stride,
            f32::from_bits(eps),
            center,
        );
        // SAFETY: the arrays hold the rows.
        unsafe { on.launch(T::KERNELS, arguments) }
    }
}

const fn name(center: bool) -> &'static str {
    if center { "layer_norm" } else { "rms_norm" }
}

/// Element types and shapes of `out` and `sum`. The inputs are x, weight, with `center` bias, and
/// residual.
pub fn results(inputs: &[Option<ArrayType>], center: bool) -> Result<Vec<ArrayType>> {
    let (x, columns) = last_axis(name(center), inputs)?;
    let names: &[_] = if center { &["weight", "bias", "residual"] } else { &["weight", "residual"] };
    for (of, input) in names.iter().zip(&inputs[1..]) {
        expect(name(center), of, input, if *of == "residual" { x } else { &columns })?;
    }
    Ok(vec![x.clone(), x.clone()])
}

/// The kernel's arrays: x, weight, bias, residual, out, sum.
fn rows(call: &Call<'_>, center: bool) -> Result<RowsOf<6>> {
    let (x, given) = (call.operand(0), |index: usize| call.operands[index].as_ref());
    let [weight, bias, residual, out, sum] = match center {
        true => [1, 2, 3, 4, 5].map(given),
        false => [given(1), None, given(2), given(3), given(4)],
    };
    let [weight, bias] = [weight, bias].map(Operand::Columns);
    let [residual, out, sum] = [residual, out, sum].map(Operand::Rows);
    let operands = [Operand::Rows(Some(x)), weight, bias, residual, out, sum];
    RowsOf::new(name(center), operands, x.axis(name(center), -1)?)
}

/// Computes LayerNorm, or without `center` RMSNorm.
///
/// # Safety
/// Same contract as [`moye::operation::Declaration::run`].
pub unsafe fn run(stream: &Stream, call: &Call<'_>, center: bool) -> Result<()> {
    let (name, rows) = (name(center), rows(call, center)?);
    let scalars = ((call.options.float("eps") as f32).to_bits(), center);
    // SAFETY: the call's arrays are on the stream's device until the work is complete.
    of_floats!(name, rows.dtype, T => unsafe { rows.run::<Norm<T>>(name, stream, |_| scalars) })
}

/// The kernel that computes a call.
pub fn explain(stream: &Stream, call: &Call<'_>, center: bool) -> Result<&'static str> {
    let (name, rows) = (name(center), rows(call, center)?);
    of_floats!(name, rows.dtype, T => rows.explain::<Norm<T>>(name, stream))
}
