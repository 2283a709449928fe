//! From a call to launches.

use super::kernel::SoftmaxKernels;
use crate::of_floats;
use crate::rows::{Operand, RowArray, RowKernel, RowLaunch, RowsOf};
use moye::operation::Call;
use moye::{Result, Stream};
use std::marker::PhantomData;

/// Softmax of elements `T`.
struct Softmax<T>(PhantomData<T>);

impl<T: SoftmaxKernels> RowKernel<2> for Softmax<T> {
    const NAME: &'static str = "softmax";
    /// `scale`, and whether the result is the logarithm.
    type Scalars = (u32, bool);

    fn name(instance: usize) -> &'static str {
        T::KERNELS[instance].name()
    }

    unsafe fn launch(on: &RowLaunch<'_>, [x, y]: [RowArray; 2], (scale, log): (u32, bool)) -> Result<()> {
        let (m, n, scale) = (on.rows, on.columns, f32::from_bits(scale));
        let arguments = (x.read(), y.write(), m, n, x.stride, y.stride, scale, log);
        // SAFETY: the arrays hold the rows.
        unsafe { on.launch(T::KERNELS, arguments) }
    }
}

fn rows(name: &'static str, call: &Call<'_>) -> Result<RowsOf<2>> {
    let x = call.operand(0);
    let axis = x.axis(name, call.options.int("axis"))?;
    RowsOf::new(name, [Operand::Rows(Some(x)), Operand::Rows(call.operands[1].as_ref())], axis)
}

/// Computes softmax, or its logarithm.
///
/// # Safety
/// Same contract as [`moye::operation::Declaration::run`].
pub unsafe fn run(name: &'static str, stream: &Stream, call: &Call<'_>, log: bool) -> Result<()> {
    let rows = rows(name, call)?;
    let scalars = ((call.options.float("scale") as f32).to_bits(), log);
    // SAFETY: the call's arrays are on the stream's device until the work is complete.
    of_floats!(name, rows.dtype, T => unsafe { rows.run::<Softmax<T>>(name, stream, |_| scalars) })
}

/// The kernel that computes a call.
pub fn explain(name: &'static str, stream: &Stream, call: &Call<'_>) -> Result<&'static str> {
    let rows = rows(name, call)?;
    of_floats!(name, rows.dtype, T => rows.explain::<Softmax<T>>(name, stream))
}
