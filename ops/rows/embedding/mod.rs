//! Rows of a table by indices, like `torch.nn.functional.embedding`.
//!
//! The elements are copied bit by bit: f32, f16 or bf16. Indices are i32 or i64, on the device. An
//! index outside the table, negative for example, yields a row of zeros and reads nothing: a table
//! that is split over devices yields zeros for the other devices' rows.

mod call;
mod cases;
pub mod kernel;
mod oracle;

use crate::prelude::*;

declare! {
    /// Rows of a table by indices.
    pub static EMBEDDING = {
        name: "embedding",
        summary: "the rows of a table that indices name, zeros for an index outside of it",
        operands: &[
            OperandOf::new(Role::Input, "indices", "int32 or int64, of any shape and strides")
                .of(Dtype::INTEGERS),
            OperandOf::new(Role::Input, "weight", "the table, float32, float16 or bfloat16"),
            OperandOf::new(Role::Result, "out", "a row for each index, of the type of weight"),
        ],
        options: &[],
        cases: cases::CASES,
        bench: cases::BENCH,
    };
}

/// The rows of a table that indices name.
///
/// ```
/// use moye::{Device, Matrix, MatrixMut};
/// use moye_rows::embedding::Embedding;
///
/// let device = Device::sim();
/// let table = device.upload(&[0.0f32, 0.5, 1.0, 1.5, 2.0, 2.5])?;
/// let indices = device.upload(&[2i64, 7, 0])?;
/// let mut out = device.alloc_uninit::<f32>(6)?;
/// let (table, indices) = (Matrix::row_major(&table, 3, 2)?, Matrix::row_major(&indices, 1, 3)?);
/// Embedding::new(table, indices).run(&device, &mut MatrixMut::row_major(&mut out, 3, 2)?)?;
/// assert_eq!(out.download()?, [2.0, 2.5, 0.0, 0.0, 0.0, 0.5]);
/// # Ok::<(), moye::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Embedding<'a, T: Element, I: Element> {
    table: Matrix<'a, T>,
    indices: Matrix<'a, I>,
}

impl<'a, T: Element, I: Element> Embedding<'a, T, I> {
    /// Rows of `table` by `indices`: a matrix of one row, of i32 or i64.
    pub fn new(table: Matrix<'a, T>, indices: Matrix<'a, I>) -> Self {
        Self { table, indices }
    }

    runs! {
        /// Computes it on the default stream of a device.
        fn run, run_on, explain(self, stream, out: &mut MatrixMut<'_, T>) {
            let call = TypedCall::new(&EMBEDDING, stream).read_row(&self.indices)?.read(&self.table)?;
            call.write(out)?
        }
    }
}
