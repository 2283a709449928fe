//! The operation: its declaration and its typed builder.

mod call;
mod oracle;

use crate::kernel::SiluKernels;
use moye::operation::{Case, OperandOf, Role, TypedCall, declare, runs};
use moye::{Matrix, MatrixMut};

declare! {
    /// The declaration: the Python function, the test and the measurement are derived from it.
    pub static SILU = {
        name: "silu",
        summary: "x times its sigmoid",
        operands: &[
            OperandOf::new(Role::Input, "x", "float32, float16 or bfloat16, of any shape and strides"),
            OperandOf::new(Role::Result, "out", "the result, of the shape and type of x"),
        ],
        options: &[],
        cases: &[Case::new(&[Some(&[3, 1000])]), Case::new(&[Some(&[0, 3])]), Case::new(&[Some(&[])])],
        bench: &[Case::new(&[Some(&[16_384, 4096])])],
    };
}

/// The operation on a matrix of a Rust type.
#[derive(Clone, Debug)]
pub struct Silu<'a, T: SiluKernels> {
    x: Matrix<'a, T>,
}

impl<'a, T: SiluKernels> Silu<'a, T> {
    /// The operation on each element of `x`.
    pub fn new(x: Matrix<'a, T>) -> Self {
        Self { x }
    }

    runs! {
        /// Computes it on the default stream of a device.
        fn run, run_on, explain(self, stream, y: &mut MatrixMut<'_, T>) {
            TypedCall::new(&SILU, stream).read(&self.x)?.write(y)?
        }
    }
}
