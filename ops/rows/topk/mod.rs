//! The `k` greatest elements along an axis in descending order, and their indices.
//!
//! Elements are f32, f16 or bf16, `k` is up to 128, indices are i64 or i32. NaN is greater than
//! every other value. Equal elements are in the order of their indices, in every run.

mod call;
mod cases;
pub mod kernel;
mod oracle;

use crate::prelude::*;
use call::NAME;
use kernel::TopKKernels;

declare! {
    /// The greatest elements along an axis.
    pub static TOPK = {
        name: NAME,
        summary: "the k greatest elements along an axis, the first of equal ones, and their indices",
        operands: &[
            X,
            OperandOf::new(Role::Result, "values", "the elements, of the type of x, k along the axis"),
            OperandOf::new(Role::Result, "indices",
                "their indices, int64 or int32, of the shape of the values")
                .of(Dtype::INTEGERS),
        ],
        options: &[
            option("k", "how many elements: 1 to 128", Value::Int(50)),
            option("axis", "the axis along which elements are compared", Value::Int(-1)),
            option("int32", "indices are int32 instead of int64", Value::Bool(false)),
        ],
        cases: cases::CASES,
        bench: cases::BENCH,
    };
}

/// The greatest elements of the rows of a matrix.
///
/// ```
/// use moye::{Device, Matrix, MatrixMut};
/// use moye_rows::topk::TopK;
///
/// let device = Device::sim();
/// let x = device.upload(&[1.0f32, 5.0, 2.0, 4.0, 3.0, 6.0, 6.0, 0.0])?;
/// let mut values = device.alloc_uninit::<f32>(4)?;
/// let mut indices = device.alloc_uninit::<i32>(4)?;
/// TopK::new(Matrix::row_major(&x, 2, 4)?, 2).run(
///     &device,
///     &mut MatrixMut::row_major(&mut values, 2, 2)?,
///     &mut MatrixMut::row_major(&mut indices, 2, 2)?,
/// )?;
/// assert_eq!(values.download()?, [5.0, 4.0, 6.0, 6.0]);
/// assert_eq!(indices.download()?, [1, 3, 1, 2]);
/// # Ok::<(), moye::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct TopK<'a, T: TopKKernels> {
    x: Matrix<'a, T>,
    k: usize,
}

impl<'a, T: TopKKernels> TopK<'a, T> {
    /// The `k` greatest elements of each row of `x`: 1 to 128, at most those of a row.
    pub fn new(x: Matrix<'a, T>, k: usize) -> Self {
        Self { x, k }
    }

    runs! {
        /// Computes it on the default stream of a device. Indices are i32 or i64.
        fn run, run_on, explain<I: Element>(
            self, stream, values: &mut MatrixMut<'_, T>, indices: &mut MatrixMut<'_, I>
        ) {
            let int32 = Array::of_mut(NAME, indices)?.dtype == Dtype::I32;
            TypedCall::new(&TOPK, stream)
                .option("k", Value::Int(self.k as i64))?
                .option("int32", Value::Bool(int32))?
                .read(&self.x)?
                .write(values)?
                .write(indices)?
        }
    }
}
