//! The first half of an MLP as one product: gate and up projection, and a function of both in the
//! epilogue, `silu(x gate^T) * (x up^T)`.
//!
//! A thread holds the accumulators of both projections for each of its elements, so that a [`Join`]
//! computes the result in registers: [`SwiGlu`] in the shipped kernels. The same kernels take a
//! custom `Join`. On Hopper the kernel is that of [experts](crate::moe::gated), with all rows as
//! one group.

pub mod multistage;

#[cfg(not(target_arch = "nvptx64"))]
mod call;
#[cfg(not(target_arch = "nvptx64"))]
mod cases;
#[cfg(not(target_arch = "nvptx64"))]
mod oracle;

pub use crate::moe::{Join, SwiGlu};
#[cfg(not(target_arch = "nvptx64"))]
pub use host::*;

#[cfg(not(target_arch = "nvptx64"))]
mod host {
    use super::{call, cases, oracle};
    use crate::builder::option;
    use moye_runtime::operation::{Declaration, Dtype, OperandOf, Role, TypedCall, Value, runs};
    use moye_runtime::{Element, Matrix, MatrixMut};

    const ELEMENTS: &[Dtype] = &[Dtype::Bf16, Dtype::F16];

    /// A gated product.
    pub static LINEAR_GATED: Declaration = Declaration {
        name: call::NAME,
        summary: "silu(x gate^T) * (x up^T), gate and up projection in one kernel",
        operands: &[
            OperandOf::new(Role::Input, "x", "float16 or bfloat16: (m, k)").of(ELEMENTS),
            OperandOf::new(
                Role::Input,
                "gate_up",
                "(2 * n, k), of the type of x: the rows of the gate, then those of up",
            )
            .of(ELEMENTS),
            OperandOf::new(Role::Result, "out", "(m, n), of the type of x").of(ELEMENTS),
        ],
        options: &[option(
            "tile",
            "a block's tile of the result, by default the one of the least estimated time; mma ones on any GPU from \
             sm_80 on, the others on sm_90a",
            Value::Choice("auto", call::TILES),
        )],
        results: |inputs, _| call::results(inputs),
        // SAFETY: the contract of `Declaration::run`.
        run: |stream, call| unsafe { call::run(stream, call) },
        explain: |stream, call| call::explain(stream, call).map(Into::into),
        reference: oracle::gated,
        tolerance: oracle::tolerance,
        cases: cases::CASES,
        bench: cases::BENCH,
    };

    /// A gated product, `silu(x gate^T) * (x up^T)`.
    ///
    /// ```
    /// use moye::half::bf16;
    /// use moye::{Device, Matrix, MatrixMut};
    /// use moye_products::gated::LinearGated;
    ///
    /// let device = Device::sim();
    /// let x = device.upload(&[4.0, 4.0].map(bf16::from_f32))?;
    /// // A row of the gate, and one of up.
    /// let gate_up = device.upload(&[5.0, 0.0, 0.5, 0.25].map(bf16::from_f32))?;
    /// let mut y = device.alloc_uninit::<bf16>(1)?;
    /// LinearGated::new(Matrix::row_major(&x, 1, 2)?, Matrix::row_major(&gate_up, 2, 2)?)
    ///     .run(&device, &mut MatrixMut::row_major(&mut y, 1, 1)?)?;
    /// assert_eq!(y.download()?[0].to_f32(), 60.0); // silu(20) * 3
    /// # Ok::<(), moye::Error>(())
    /// ```
    #[derive(Clone, Debug)]
    #[must_use = "nothing is computed before `run`"]
    pub struct LinearGated<'a, T: Element> {
        x: Matrix<'a, T>,
        gate_up: Matrix<'a, T>,
    }

    impl<'a, T: Element> LinearGated<'a, T> {
        /// The product of `x`, (m, k), and of `gate_up`, (2 * n, k): the rows of the gate, then as
        /// many of the up projection.
        pub fn new(x: Matrix<'a, T>, gate_up: Matrix<'a, T>) -> Self {
            Self { x, gate_up }
        }

        runs! {
            /// Computes it on the default stream of a device, of f16 or bf16.
            fn run, run_on, explain(self, stream, y: &mut MatrixMut<'_, T>) {
                TypedCall::new(&LINEAR_GATED, stream).read(&self.x)?.read(&self.gate_up)?.write(y)?
            }
        }
    }
}
