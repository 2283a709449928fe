//! Swish, `x * sigmoid(x)`, of each element: f32, f16 or bf16, computed in f32.

mod call;
mod cases;
pub mod kernel;
mod oracle;

use crate::prelude::*;
use kernel::SwishKernels;

declare! {
    /// Swish of each element.
    pub static SWISH = {
        name: "swish",
        summary: "x times its sigmoid",
        operands: &[X, OUT],
        options: &[],
        cases: cases::CASES,
        bench: cases::BENCH,
    };
}

/// Swish of each element of a matrix.
#[derive(Clone, Debug)]
pub struct Swish<'a, T: SwishKernels> {
    x: Matrix<'a, T>,
}

impl<'a, T: SwishKernels> Swish<'a, T> {
    /// Swish of `x`.
    pub fn new(x: Matrix<'a, T>) -> Self {
        Self { x }
    }

    runs! {
        /// Computes it on the default stream of a device.
        fn run, run_on, explain(self, stream, y: &mut MatrixMut<'_, T>) {
            TypedCall::new(&SWISH, stream).read(&self.x)?.write(y)?
        }
    }
}
