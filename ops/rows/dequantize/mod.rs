//! Dequantisation of int8, e4m3 and e5m2 with the scales of `quantize`. The shape of the scales
//! says which elements share a scale.

mod call;
mod cases;
pub mod kernel;
mod oracle;

use crate::prelude::*;
use crate::tiles::SCALES;
use call::NAME;
use kernel::DequantizeKernels;

declare! {
    /// Dequantisation.
    pub static DEQUANTIZE = {
        name: NAME,
        summary: "elements of 8 bits times the scales of their tiles",
        operands: &[
            OperandOf::new(Role::Input, "q", "int8, float8_e4m3fn or float8_e5m2, of any shape and strides")
                .of(Dtype::BYTES),
            SCALES,
            OperandOf::new(Role::Result, "out", "the products, of the shape of q"),
        ],
        options: &[TO_FLOATS],
        cases: cases::CASES,
        bench: cases::BENCH,
    };
}

/// Dequantisation of a matrix.
///
/// ```
/// use moye::{Device, Matrix, MatrixMut};
/// use moye_rows::dequantize::Dequantize;
///
/// let device = Device::sim();
/// let (q, scales) = (device.upload(&[1i8, -2, 3, 4])?, device.upload(&[0.5f32, 2.0])?);
/// let mut y = device.alloc_uninit::<f32>(4)?;
/// let (q, scales) = (Matrix::row_major(&q, 2, 2)?, Matrix::row_major(&scales, 2, 1)?);
/// Dequantize::new(q, scales, 1).run(&device, &mut MatrixMut::row_major(&mut y, 2, 2)?)?;
/// assert_eq!(y.download()?, [0.5, -1.0, 6.0, 8.0]);
/// # Ok::<(), moye::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Dequantize<'a, Q: Element> {
    q: Matrix<'a, Q>,
    scales: Matrix<'a, f32>,
    modes: usize,
}

impl<'a, Q: Element> Dequantize<'a, Q> {
    /// Dequantisation of i8, e4m3 or e5m2 with scales of `modes` modes: 0 for a matrix of one
    /// scale of all elements, 1 for a column with a scale a row, 2 for a matrix with one for
    /// each 128 elements of a row or 128 x 128 elements.
    pub fn new(q: Matrix<'a, Q>, scales: Matrix<'a, f32>, modes: usize) -> Self {
        Self { q, scales, modes }
    }

    runs! {
        /// Computes it on the default stream of a device, to f32, f16 or bf16.
        fn run, run_on, explain<T: DequantizeKernels>(self, stream, y: &mut MatrixMut<'_, T>) {
            let dtype = Dtype::of::<T>().unwrap_or(Dtype::I8);
            let mut call = TypedCall::new(&DEQUANTIZE, stream).option("dtype", Value::Dtype(dtype))?;
            call = call.read(&self.q)?.read(&self.scales)?;
            for mode in (self.modes..2).rev() {
                call = call.drop_mode(mode);
            }
            call.write(y)?
        }
    }
}
