//! Rotary position embedding: pairs of elements are rotated by the angle of their token's position.
//!
//! Pair `i` of `rotary / 2` has the angle `position * base^(-2 i / rotary)`, computed as a fraction
//! of a turn in float64, or the given cosines and sines. Pairs are element `i` of each half of the
//! rotated elements, or adjacent ones; the other elements of a head stay as they are. The result
//! may be `x`. Queries and keys in one array, such as the result of one product, are heads of one
//! call; in two arrays they take a call each.

mod call;
mod cases;
pub mod kernel;
mod oracle;

use crate::prelude::*;
use kernel::RopeKernels;

/// Float types of cosines and sines, a list that differs from that of x.
const TABLES: &[Dtype] = &[Dtype::F32, Dtype::F16, Dtype::Bf16];

declare! {
    /// Rotary position embedding.
    pub static ROPE = {
        name: "rope",
        summary: "pairs of elements, rotated by the angle of their token's position",
        operands: &[
            OperandOf::new(Role::Input, "x", "float32, float16 or bfloat16, (..., tokens, heads, elements)"),
            OperandOf::new(Role::Optional, "positions", "int32 or int64, (tokens) or (..., tokens)")
                .of(Dtype::INTEGERS),
            OperandOf::new(Role::Optional, "cos",
                "(positions, rotary / 2), float32 or of the type of x; positions beyond give NaN")
                .of(TABLES),
            OperandOf::new(Role::Optional, "sin", "as cos").of(TABLES),
            OUT,
        ],
        options: &[
            option("base", "angles fall with base^(-2 i / rotary)", Value::Float(10_000.0)),
            option("rotary", "the number of rotated elements of a head, 0 for all", Value::Int(0)),
            option("interleaved", "whether pairs are adjacent elements", Value::Bool(false)),
            option("inverse", "whether to rotate back, as the backward pass does", Value::Bool(false)),
            option("axis", "the axis of tokens: -3, or -2 of (..., heads, tokens, elements)", Value::Int(-3)),
        ],
        cases: cases::CASES,
        bench: cases::BENCH,
    };
}

/// Rotates the heads of tokens in place.
///
/// ```
/// use moye::{Device, MatrixMut};
/// use moye_rows::rope::Rope;
///
/// let device = Device::sim();
/// // Two tokens of two heads of two elements: one pair a head.
/// let mut q = device.upload(&[1.0f32, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 1.0])?;
/// Rope::new(2).run(&device, &mut MatrixMut::row_major(&mut q, 2, 4)?)?;
/// let (cos, sin) = (1f32.cos(), 1f32.sin());
/// let wanted = [1.0, 0.0, 0.0, 1.0, cos, sin, -sin, cos];
/// assert!(q.download()?.iter().zip(wanted).all(|(q, wanted)| (q - wanted).abs() < 1e-6));
/// # Ok::<(), moye::Error>(())
/// ```

#[derive(Clone, Debug)]
pub struct Rope<'a> {
    elements: usize,
    base: f64,
    rotary: usize,
    interleaved: bool,
    inverse: bool,
    positions: Option<Matrix<'a, i32>>,
    tables: [Option<Matrix<'a, f32>>; 2],
}

impl<'a> Rope<'a> {
    /// Rotations of heads of `elements` elements, by the index of the token and base 10,000.
    pub fn new(elements: usize) -> Self {
        let (base, rotary, interleaved, inverse) = (10_000.0, 0, false, false);
        Self { elements, base, rotary, interleaved, inverse, positions: None, tables: [None, None] }
    }

    setters! {
        /// Angles fall with `base^(-2 i / rotary)`.
        base: f64;
        /// The number of rotated elements of a head.
        rotary: usize;
        /// The positions of the tokens, on the device: a matrix of one row.
        positions: Matrix<'a, i32> as Some;
    }

    /// Cosines and sines instead of a base: a row for each position, a column for each pair.
    /// Positions past the last row yield NaN.
    #[must_use]
    pub fn tables(self, cos: Matrix<'a, f32>, sin: Matrix<'a, f32>) -> Self {
        Self { tables: [Some(cos), Some(sin)], ..self }
    }

    /// Pairs are adjacent elements.
    #[must_use]
    pub fn interleaved(self) -> Self {
        Self { interleaved: true, ..self }
    }

    /// Rotates back.
    #[must_use]
    pub fn inverse(self) -> Self {
        Self { inverse: true, ..self }
    }

    runs! {
        /// Rotates `x`, a row of heads for each token, on the default stream of a device.
        fn run, run_on, explain<T: RopeKernels>(self, stream, x: &mut MatrixMut<'_, T>) {
            let device = x.device().clone();
            let mut x = Array::of_mut(ROPE.name, x)?;
            let (columns, element) = (x.shape[1], x.strides[1]);
            if self.elements == 0 || !columns.is_multiple_of(self.elements) {
                let detail =
                    format!("a row has {columns} elements, and a head {}; give whole heads", self.elements);
                return mismatch(ROPE.name, detail);
            }
            x.shape = vec![x.shape[0], columns / self.elements, self.elements];
            x.strides = vec![x.strides[0], self.elements as i64 * element, element];
            TypedCall::new(&ROPE, stream)
                .option("base", Value::Float(self.base))?
                .option("rotary", Value::Int(self.rotary as i64))?
                .option("interleaved", Value::Bool(self.interleaved))?
                .option("inverse", Value::Bool(self.inverse))?
                .with(Some((&device, x.clone())))?
                .read_row(self.positions.as_ref())?
                .read(self.tables[0].as_ref())?
                .read(self.tables[1].as_ref())?
                .with(Some((&device, x)))?
        }
    }
}
