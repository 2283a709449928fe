//! Rows into a cache at slots: the keys or values of new tokens into a KV cache, contiguous or in
//! pages, like vLLM's `reshape_and_cache`.
//!
//! The elements are copied bit by bit: f32, f16 or bf16. Slots are i32 or i64, on the device. A row
//! whose slot is not in the cache, a negative one for example, is not written.

mod call;
mod cases;
pub mod kernel;
mod oracle;

use crate::prelude::*;
use call::NAME;

declare! {
    /// Rows into a cache at slots.
    pub static APPEND = {
        name: NAME,
        summary: "a cache with a row of x in each named slot, as append_paged_kv_cache of FlashInfer computes it",
        operands: &[
            OperandOf::new(Role::Input, "x",
                "(tokens, row...), float32, float16 or bfloat16: (tokens, heads, d)"),
            OperandOf::new(Role::Input, "slots",
                "(tokens), int32 or int64, distinct: page * slots of a page + slot in the page")
                .of(Dtype::INTEGERS),
            OperandOf::new(Role::Input, "cache", "(slots, row...) or (pages, slots, row...), of any strides"),
            OperandOf::new(Role::Result, "out",
                "the cache with the rows; where it is the cache itself only the rows are written"),
        ],
        options: &[],
        cases: cases::CASES,
        bench: cases::BENCH,
    };
}

/// Rows into a cache at slots.
///
/// ```
/// use moye::{Device, Matrix, MatrixMut};
/// use moye_rows::append::Append;
///
/// let device = Device::sim();
/// let x = device.upload(&[1.0f32, 2.0, 3.0, 4.0])?;
/// let slots = device.upload(&[2i32, 0])?;
/// let mut cache = device.upload(&[0.0f32; 6])?;
/// Append::new(Matrix::row_major(&x, 2, 2)?, Matrix::row_major(&slots, 1, 2)?)
///     .run(&device, &mut MatrixMut::row_major(&mut cache, 3, 2)?)?;
/// assert_eq!(cache.download()?, [3.0, 4.0, 0.0, 0.0, 1.0, 2.0]);
/// # Ok::<(), moye::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Append<'a, T: Element, I: Element> {
    x: Matrix<'a, T>,
    slots: Matrix<'a, I>,
}

impl<'a, T: Element, I: Element> Append<'a, T, I> {
    /// The rows of `x`, and a slot for each: a row of i32 or i64.
    pub fn new(x: Matrix<'a, T>, slots: Matrix<'a, I>) -> Self {
        Self { x, slots }
    }

    runs! {
        /// Writes them into a cache, a slot a row, on the default stream of a device.
        fn run, run_on, explain(self, stream, cache: &mut MatrixMut<'_, T>) {
            let same = Array::of_mut(NAME, cache)?;
            let call = TypedCall::new(&APPEND, stream).read(&self.x)?.read(&self.slots)?.drop_mode(0);
            call.with(Some((cache.device(), same)))?.write(cache)?
        }
    }
}
