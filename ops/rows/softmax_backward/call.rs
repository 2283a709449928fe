//! From a call to launches.

use super::kernel::SoftmaxBackwardKernels;
use crate::of_floats;
use crate::plan::{self, Shape};
use crate::rows::{Operand, RowArray, RowKernel, RowLaunch, RowsOf};
use moye::operation::Call;
use moye::{Result, Stream};
use std::marker::PhantomData;

/// The gradient of softmax of elements `T`.
struct SoftmaxBackward<T>(PhantomData<T>);

impl<T: SoftmaxBackwardKernels> RowKernel<3> for SoftmaxBackward<T> {
    const NAME: &'static str = "softmax_backward";
    const SHAPES: &'static [Shape] = plan::SHAPES_OF_TWO;
    /// `scale`, and whether `y` is the logarithm.
    type Scalars = (u32, bool);

    fn name(instance: usize) -> &'static str {
        T::KERNELS[instance].name()
    }

    unsafe fn launch(
        on: &RowLaunch<'_>,
        [y, dy, dx]: [RowArray; 3],
        (scale, log): (u32, bool),
    ) -> Result<()> {
        let (m, n, scale) = (on.rows, on.columns, f32::from_bits(scale));
        let arguments = (y.read(), dy.read(), dx.write(), m, n, y.stride, dy.stride, dx.stride, scale, log);
        // SAFETY: the arrays hold the rows.
        unsafe { on.launch(T::KERNELS, arguments) }
    }
}

fn rows(name: &'static str, call: &Call<'_>) -> Result<RowsOf<3>> {
    let axis = call.operand(0).axis(name, call.options.int("axis"))?;
    RowsOf::new(name, [0, 1, 2].map(|index| Operand::Rows(call.operands[index].as_ref())), axis)
}

/// Computes the gradient of softmax, or of its logarithm.
///
/// # Safety
/// Same contract as [`moye::operation::Declaration::run`].
pub unsafe fn run(name: &'static str, stream: &Stream, call: &Call<'_>, log: bool) -> Result<()> {
    let rows = rows(name, call)?;
    let scalars = ((call.options.float("scale") as f32).to_bits(), log);
    // SAFETY: the call's arrays are on the stream's device until the work is complete.
    of_floats!(name, rows.dtype, T => unsafe { rows.run::<SoftmaxBackward<T>>(name, stream, |_| scalars) })
}

/// The kernel that computes a call.
pub fn explain(name: &'static str, stream: &Stream, call: &Call<'_>) -> Result<&'static str> {
    let rows = rows(name, call)?;
    of_floats!(name, rows.dtype, T => rows.explain::<SoftmaxBackward<T>>(name, stream))
}
