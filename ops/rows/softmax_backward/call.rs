//! Builds the launches of a call.

use super::kernel::SoftmaxBackwardKernels;
use crate::prelude::*;

/// The bits of the factor of x, and whether y is the logarithm.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct SoftmaxBackward(u32, bool);

impl RowKernel<3> for SoftmaxBackward {
    const SHAPES: &'static [RowInstance] = plan::SHAPES_OF_TWO;

    plans!(SoftmaxBackwardKernels);

    fn variant(&self) -> u32 {
        self.1.into()
    }

    unsafe fn launch(&self, on: &RowLaunch<'_>, [y, dy, dx]: [RowArray; 3]) -> Result<()> {
        let (m, n, scale, log) = (on.rows, on.columns, f32::from_bits(self.0), self.1);
        // SAFETY: the arrays hold the rows.
        of_floats!("softmax_backward", on.dtype, T => unsafe {
            let arguments = (y.read(), dy.read(), dx.write(), m, n, y.stride, dy.stride, dx.stride, scale, log);
            on.launch(T::KERNELS, arguments)
        })
    }
}

/// Element type and shape of the gradient: as y and dy.
pub fn results(
    name: &'static str,
    _: bool,
    inputs: &[Option<ArrayType>],
    _: &Options,
) -> Result<Vec<ArrayType>> {
    let y = given(inputs, 0);
    expect(name, "dy", &inputs[1], y)?;
    Ok(vec![y.clone()])
}

/// Computes the gradient of softmax, or of its logarithm.
///
/// # Safety
/// Same contract as [`moye_runtime::operation::Declaration::run`].
pub unsafe fn compute(name: &'static str, log: bool, on: &On<'_>, call: &Call<'_>) -> Result<()> {
    let axis = call.operand(0).axis(name, call.options.int("axis"))?;
    let rows = RowsOf::new(name, [0, 1, 2].map(|index| Operand::Rows(call.operands[index].as_ref())), axis)?;
    let of = SoftmaxBackward(bits(call.options, "scale"), log);
    // SAFETY: the call's arrays are on the stream's device until the work is complete.
    unsafe { rows.launch(name, on, |_| of) }
}
