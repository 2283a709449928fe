//! Quantisation to 4 bits in groups of 32, 64 or 128 elements of a row, two elements a byte, the
//! first in the low half; and dequantisation.
//!
//! `quantize_int4` has a scale a group, a seventh of the greatest magnitude: an element is
//! `round(x / scale) + 8`, from 1 to 15. `quantize_uint4` has a scale and a minimum: an element is
//! `round((x - minimum) / scale)`, from 0 to 15. Scales and minima are f32 or f16, and elements are
//! computed with the stored values. Elements of a group whose scale is below 1e-30, and NaN,
//! become 0, or with a minimum the minimum; NaN does not change the scale. The scale of a group
//! with an infinite element is infinite, and so is a scale or a minimum that f16 cannot hold.

mod call;
mod cases;
pub mod kernel;
mod oracle;

use crate::prelude::*;
use call::Kind;
use kernel::{DequantizeKernels, QuantizeKernels};

const SCALES: &[Dtype] = &[Dtype::F32, Dtype::F16];
const OF_FINITE: OperandOf =
    X.finite("the scale of a group with an infinity is infinite, and its elements are lost");
const Q: OperandOf =
    OperandOf::new(Role::Result, "q", "uint8, two elements of a row in a byte").of(&[Dtype::U8]);
const OF_GROUPS: OperandOf =
    OperandOf::new(Role::Result, "scales", "float32 or float16, one of each group of a row").of(SCALES);
const MINIMA: OperandOf =
    OperandOf::new(Role::Result, "minima", "of the shape and type of scales").of(SCALES);
const GROUP: OptionOf = option("group", "elements of a row with a scale: 32, 64 or 128", Value::Int(32));

declare! {
    /// Quantisation to 4 bits with a scale a group.
    pub static QUANTIZE_INT4(Kind::Scales) = {
        name: "quantize_int4",
        summary: "x in 4 bits from -7 to 7, plus 8, with a scale a group",
        operands: &[OF_FINITE, Q, OF_GROUPS],
        options: &[
            GROUP,
            option("scale_dtype", "the type of scales and minima: float32 or float16", Value::Dtype(Dtype::F16)),
        ],
        cases: cases::CASES,
        bench: cases::BENCH,
    };

    /// Quantisation to 4 bits with a scale and a minimum a group.
    pub static QUANTIZE_UINT4(Kind::Minima) = {
        name: "quantize_uint4",
        summary: "x in 4 bits from 0 to 15, with a scale and a minimum a group",
        operands: &[OF_FINITE, Q, OF_GROUPS, MINIMA],
        ..QUANTIZE_INT4
    };

    /// Dequantisation of either.
    pub static DEQUANTIZE_INT4(Kind::Back) = {
        name: "dequantize_int4",
        summary: "elements of 4 bits, less 8, times the scale of their group; or times it plus the minimum",
        operands: &[
            OperandOf { role: Role::Input, ..Q },
            OperandOf { role: Role::Input, ..OF_GROUPS },
            OperandOf { role: Role::Optional, ..MINIMA },
            OperandOf::new(Role::Result, "out", "the floats, twice as many in a row as bytes"),
        ],
        options: &[GROUP, TO_FLOATS],
        cases: cases::BACK,
        bench: cases::BENCH_BACK,
    };
}

/// Quantisation of the rows of a matrix to 4 bits.
///
/// ```
/// use moye::{Device, Matrix, MatrixMut};
/// use moye_rows::int4::{DequantizeInt4, QuantizeInt4};
///
/// let device = Device::sim();
/// let x = device.upload(&[0.0f32, 1.0, 2.0, 15.0])?;
/// let mut q = device.alloc_uninit::<u8>(2)?;
/// let mut scales = device.alloc_uninit::<f32>(1)?;
/// let mut minima = device.alloc_uninit::<f32>(1)?;
/// QuantizeInt4::new(Matrix::row_major(&x, 1, 4)?, 32).run(
///     &device,
///     &mut MatrixMut::row_major(&mut q, 1, 2)?,
///     &mut MatrixMut::row_major(&mut scales, 1, 1)?,
///     Some(&mut MatrixMut::row_major(&mut minima, 1, 1)?),
/// )?;
/// assert_eq!(q.download()?, [0x10, 0xf2]);
/// let mut y = device.alloc_uninit::<f32>(4)?;
/// let (q, scales) = (Matrix::row_major(&q, 1, 2)?, Matrix::row_major(&scales, 1, 1)?);
/// DequantizeInt4::new(q, scales, 32)
///     .minima(Matrix::row_major(&minima, 1, 1)?)
///     .run(&device, &mut MatrixMut::row_major(&mut y, 1, 4)?)?;
/// assert_eq!(y.download()?, x.download()?);
/// # Ok::<(), moye::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct QuantizeInt4<'a, T: QuantizeKernels> {
    x: Matrix<'a, T>,
    group: i64,
}

impl<'a, T: QuantizeKernels> QuantizeInt4<'a, T> {
    /// Quantisation of groups of 32, 64 or 128 elements of the rows of `x`, which have an even
    /// number of elements.
    pub fn new(x: Matrix<'a, T>, group: u32) -> Self {
        Self { x, group: group.into() }
    }

    runs! {
        /// Computes it on the default stream of a device: bytes and, in f32 or f16, scales,
        /// with minima if they are given.
        fn run, run_on, explain<S: Element>(
            self, stream, q: &mut MatrixMut<'_, u8>, scales: &mut MatrixMut<'_, S>,
            minima: Option<&mut MatrixMut<'_, S>>
        ) {
            let declaration = if minima.is_some() { &QUANTIZE_UINT4 } else { &QUANTIZE_INT4 };
            let dtype = Dtype::of::<S>().unwrap_or(Dtype::I8);
            let call = TypedCall::new(declaration, stream)
                .option("group", Value::Int(self.group))?
                .option("scale_dtype", Value::Dtype(dtype))?
                .read(&self.x)?
                .write(q)?
                .write(scales)?;
            if minima.is_some() { call.write(minima)? } else { call }
        }
    }
}

/// Dequantisation of the rows of a matrix of 4-bit elements, two a byte.
#[derive(Clone, Debug)]
pub struct DequantizeInt4<'a, S: Element> {
    q: Matrix<'a, u8>,
    scales: Matrix<'a, S>,
    minima: Option<Matrix<'a, S>>,
    group: i64,
}

impl<'a, S: Element> DequantizeInt4<'a, S> {
    /// Dequantisation of groups of 32, 64 or 128 elements with scales of f32 or f16.
    pub fn new(q: Matrix<'a, u8>, scales: Matrix<'a, S>, group: u32) -> Self {
        Self { q, scales, minima: None, group: group.into() }
    }

    setters! {
        /// The minima of the groups.
        minima: Matrix<'a, S> as Some;
    }

    runs! {
        /// Computes it on the default stream of a device, to f32, f16 or bf16.
        fn run, run_on, explain<T: DequantizeKernels>(self, stream, y: &mut MatrixMut<'_, T>) {
            let dtype = Dtype::of::<T>().unwrap_or(Dtype::I8);
            TypedCall::new(&DEQUANTIZE_INT4, stream)
                .option("group", Value::Int(self.group))?
                .option("dtype", Value::Dtype(dtype))?
                .read(&self.q)?
                .read(&self.scales)?
                .read(self.minima.as_ref())?
                .write(y)?
        }
    }
}
