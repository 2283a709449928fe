//! Histograms of a whole array: `histc` counts floats in bins of equal width from `low` to `high`,
//! as `torch.histc` does, `bincount` the integers 0 to `bins - 1`.
//!
//! The last bin includes `high`; values out of range and NaN are not counted. Counts are
//! int64, and the same in every run. The bin of a value is computed in f32. Unlike PyTorch, `histc`
//! does not find the range of the elements, and `bincount` ignores negative integers.

mod call;
mod cases;
pub mod kernel;
mod oracle;

use crate::prelude::*;
use kernel::HistogramKernels;

const COUNTS: OperandOf =
    OperandOf::new(Role::Result, "out", "int64, the number of elements of each bin").of(&[Dtype::I64]);
const BINS: OptionOf = option("bins", "the number of bins", Value::Int(100));

declare! {
    /// Counts of floats in bins of equal width.
    pub static HISTC(false) = {
        name: "histc",
        summary: "the number of elements in each of some bins of equal width",
        operands: &[X, COUNTS],
        options: &[
            BINS,
            option("low", "the least value that is counted", Value::Float(0.0)),
            option("high", "the greatest value that is counted", Value::Float(1.0)),
        ],
        cases: cases::CASES,
        bench: cases::BENCH,
    };

    /// Counts of integers.
    pub static BINCOUNT(true) = {
        name: "bincount",
        summary: "how often each integer from 0 on is there",
        operands: &[
            OperandOf::new(Role::Input, "x", "int32 or int64, of any shape and strides").of(Dtype::INTEGERS),
            COUNTS,
        ],
        options: &[BINS],
        cases: cases::INTEGERS,
        bench: cases::BENCH_INTEGERS,
    };
}

/// The histogram of a matrix.
///
/// ```
/// use moye::{Device, Matrix, MatrixMut};
/// use moye_rows::histogram::Histogram;
///
/// let device = Device::sim();
/// let x = device.upload(&[0.0f32, 0.4, 0.5, 1.0, 7.0, f32::NAN])?;
/// let mut counts = device.alloc_uninit::<i64>(2)?;
/// let of = Histogram::of_range(Matrix::row_major(&x, 2, 3)?, 0.0, 1.0);
/// of.run(&device, &mut MatrixMut::row_major(&mut counts, 1, 2)?)?;
/// assert_eq!(counts.download()?, [2, 2]);
/// # Ok::<(), moye::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Histogram<'a, T: HistogramKernels> {
    x: Matrix<'a, T>,
    range: Option<[f32; 2]>,
}

impl<'a, T: HistogramKernels> Histogram<'a, T> {
    /// Bins of equal width from `low` to `high`, of floats.
    pub fn of_range(x: Matrix<'a, T>, low: f32, high: f32) -> Self {
        Self { x, range: Some([low, high]) }
    }

    /// A bin for each integer from 0 on.
    pub fn of_integers(x: Matrix<'a, T>) -> Self {
        Self { x, range: None }
    }

    runs! {
        /// Computes it on the default stream of a device: a row with a count for each bin.
        fn run, run_on, explain(self, stream, counts: &mut MatrixMut<'_, i64>) {
            let declaration = if self.range.is_some() { &HISTC } else { &BINCOUNT };
            let bins = Array::of_mut(declaration.name, counts)?.shape[1];
            let mut call = TypedCall::new(declaration, stream).option("bins", Value::Int(bins as i64))?;
            if let Some([low, high]) = self.range {
                call = call
                    .option("low", Value::Float(low.into()))?
                    .option("high", Value::Float(high.into()))?;
            }
            call.read(&self.x)?.write_row(counts)?
        }
    }
}
