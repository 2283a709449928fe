//! Quantisation to int8, e4m3 or e5m2 with a scale for the array, for each row, for each 128
//! elements of a row or for each 128 x 128 elements of the last two axes; and dequantisation.
//!
//! A scale is the greatest magnitude of its elements divided by the greatest value of the type
//! (127, 448 or 57,344), and 1 if that magnitude is below 1e-30. Elements are multiplied by its
//! inverse in f32, rounded to nearest, ties to even, and saturated. NaN remains NaN in e4m3 and
//! e5m2, becomes 0 in int8, and does not change the scale. `transposed`, if given, receives the
//! transposes of the last two axes.

mod call;
mod cases;
pub mod kernel;
mod oracle;

use crate::prelude::*;
use crate::tiles::SCALES;
use call::NAME;
use kernel::QuantizeKernels;

declare! {
    /// Quantisation to 8 bits.
    pub static QUANTIZE = {
        name: NAME,
        summary: "x in 8 bits, with a scale that makes a tile's magnitude the greatest value of the type",
        operands: &[
            X,
            OperandOf::new(Role::Result, "q", "the elements of 8 bits, of the shape of x").of(Dtype::BYTES),
            OperandOf { role: Role::Result, ..SCALES },
            OperandOf::new(Role::OptionalResult, "transposed", "q with its last two axes exchanged")
                .of(Dtype::BYTES),
        ],
        options: &[
            option("dtype", "the type: int8, float8_e4m3fn or float8_e5m2", Value::Dtype(Dtype::E4m3)),
            option("tile_rows", "rows with a scale: 1, 128, or 0 for one scale of all", Value::Int(1)),
            option("tile_columns", "elements of a row with a scale: 128, or 0 for the whole row", Value::Int(0)),
        ],
        cases: cases::CASES,
        bench: cases::BENCH,
    };
}

/// The elements that have a scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// All: a matrix of one scale.
    Tensor,
    /// A row: a column of scales.
    Row,
    /// 128 elements of a row: a matrix of scales.
    Block,
    /// 128 x 128 elements: a matrix of scales.
    Tile,
}

/// Quantisation of a matrix.
///
/// ```
/// use moye::number::F8E4M3;
/// use moye::{Device, Matrix, MatrixMut};
/// use moye_rows::quantize::{Quantize, Scale};
///
/// let device = Device::sim();
/// let x = device.upload(&[448.0f32, -7.0, 1.0, 0.5])?;
/// let mut q = device.alloc_uninit::<F8E4M3>(4)?;
/// let mut scales = device.alloc_uninit::<f32>(2)?;
/// Quantize::new(Matrix::row_major(&x, 2, 2)?, Scale::Row).run(
///     &device,
///     &mut MatrixMut::row_major(&mut q, 2, 2)?,
///     &mut MatrixMut::row_major(&mut scales, 2, 1)?,
/// )?;
/// assert_eq!(scales.download()?, [1.0, 1.0 / 448.0]);
/// let q: Vec<_> = q.download()?.into_iter().map(F8E4M3::to_f32).collect();
/// assert_eq!(q, [448.0, -7.0, 448.0, 224.0]);
/// # Ok::<(), moye::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Quantize<'a, T: QuantizeKernels> {
    x: Matrix<'a, T>,
    scale: Scale,
}

impl<'a, T: QuantizeKernels> Quantize<'a, T> {
    /// Quantisation of `x` with such scales.
    pub fn new(x: Matrix<'a, T>, scale: Scale) -> Self {
        Self { x, scale }
    }

    runs! {
        /// Computes it on the default stream of a device, to i8, e4m3 or e5m2.
        fn run, run_on, explain<Q: Element>(
            self, stream, q: &mut MatrixMut<'_, Q>, scales: &mut MatrixMut<'_, f32>;
            /// Writes the transpose of `q` too.
            transposed: Option<&mut MatrixMut<'_, Q>>
        ) {
            let dtype = Array::of_mut(NAME, q)?.dtype;
            let (rows, columns, modes) = match self.scale {
                Scale::Tensor => (0, 0, 0),
                Scale::Row => (1, 0, 1),
                Scale::Block => (1, 128, 2),
                Scale::Tile => (128, 128, 2),
            };
            let mut call = TypedCall::new(&QUANTIZE, stream)
                .option("dtype", Value::Dtype(dtype))?
                .option("tile_rows", Value::Int(rows))?
                .option("tile_columns", Value::Int(columns))?
                .read(&self.x)?
                .write(q)?
                .write(scales)?;
            for mode in (modes..2).rev() {
                call = call.drop_mode(mode);
            }
            call.write(transposed)?
        }
    }
}
