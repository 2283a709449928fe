//! Cumulative sums along an axis, inclusive or exclusive.
//!
//! Elements are f32, f16 or bf16, summed in f32 in an order that depends only on the shape. A row
//! that is long beside the card has a block for each chunk.

mod call;
mod cases;
pub mod kernel;
mod oracle;

use crate::prelude::*;
use call::NAME;
use kernel::CumsumKernels;

declare! {
    /// Cumulative sums along an axis.
    pub static CUMSUM = {
        name: NAME,
        summary: "the sum of each element and those before it along an axis",
        operands: &[X, OperandOf::new(Role::Result, "out", "the sums, of the shape and type of x")],
        options: &[
            option("axis", "the axis along which elements are summed", Value::Int(-1)),
            option("exclusive", "sums are without the element itself: the first is 0", Value::Bool(false)),
        ],
        cases: cases::CASES,
        bench: cases::BENCH,
    };
}

/// Cumulative sums of the rows of a matrix.
///
/// ```
/// use moye::{Device, Matrix, MatrixMut};
/// use moye_rows::cumsum::Cumsum;
///
/// let device = Device::sim();
/// let x = device.upload(&[1.0f32, 2.0, 3.0, 4.0])?;
/// let mut y = device.alloc_uninit::<f32>(4)?;
/// let mut of_y = MatrixMut::row_major(&mut y, 2, 2)?;
/// Cumsum::new(Matrix::row_major(&x, 2, 2)?).run(&device, &mut of_y)?;
/// assert_eq!(y.download()?, [1.0, 3.0, 3.0, 7.0]);
/// # Ok::<(), moye::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Cumsum<'a, T: CumsumKernels> {
    x: Matrix<'a, T>,
    exclusive: bool,
}

impl<'a, T: CumsumKernels> Cumsum<'a, T> {
    /// Inclusive sums of each row of `x`.
    pub fn new(x: Matrix<'a, T>) -> Self {
        Self { x, exclusive: false }
    }

    /// Sums without the element itself.
    #[must_use]
    pub fn exclusive(self) -> Self {
        Self { exclusive: true, ..self }
    }

    runs! {
        /// Computes it on the default stream of a device.
        fn run, run_on, explain(self, stream, y: &mut MatrixMut<'_, T>) {
            let call = TypedCall::new(&CUMSUM, stream).option("exclusive", Value::Bool(self.exclusive))?;
            call.read(&self.x)?.write(y)?
        }
    }
}
