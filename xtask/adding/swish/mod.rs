//! Swish, `x * sigmoid(x)`, of the elements of rows: f32, f16 or bf16, computed in f32.

pub mod kernel;

#[cfg(not(target_arch = "nvptx64"))]
mod call;
#[cfg(not(target_arch = "nvptx64"))]
mod cases;
#[cfg(not(target_arch = "nvptx64"))]
mod oracle;

#[cfg(not(target_arch = "nvptx64"))]
pub use host::{SWISH, swish};

#[cfg(not(target_arch = "nvptx64"))]
mod host {
    use super::kernel::SwishKernels;
    use super::{call, cases, oracle};
    use moye::operation::{Declaration, OperandOf, Role, TypedCall};
    use moye::{Device, Matrix, MatrixMut, Result};

    /// Swish.
    pub static SWISH: Declaration = Declaration {
        name: "swish",
        summary: "x times its sigmoid",
        operands: &[
            OperandOf::new(Role::Input, "x", "float32, float16 or bfloat16, of any shape and strides"),
            OperandOf::new(Role::Result, "out", "the result, of the shape and type of x"),
        ],
        options: &[],
        results: |inputs, _| Ok(inputs.iter().flatten().cloned().collect()),
        // SAFETY: the arrays of a call are on the stream's device until the work is complete.
        run: |stream, call| unsafe { call::run(stream, call) },
        explain: |_, call| call::explain(call),
        reference: |inputs, _| oracle::swish(inputs),
        tolerance: oracle::tolerance,
        cases: cases::CASES,
        bench: cases::BENCH,
    };

    /// Writes swish of `x` to `y`, of the same shape, on the default stream of a device.
    ///
    /// # Errors
    /// [`moye::Error::ShapeMismatch`] if the shapes differ, and the errors of a launch.
    pub fn swish<T: SwishKernels>(
        device: &Device,
        x: &Matrix<'_, T>,
        y: &mut MatrixMut<'_, T>,
    ) -> Result<()> {
        let stream = device.default_stream();
        // SAFETY: the default stream runs its work in order.
        unsafe { TypedCall::new(&SWISH, &stream).read(x)?.write(y)?.run() }
    }
}
