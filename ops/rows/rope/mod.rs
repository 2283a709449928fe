//! Rotary position embedding: pairs of elements are rotated by the angle of their token's position.
//!
//! Pair `i` of `rotary / 2` has the angle `position * base^(-2 i / rotary)`, computed as a fraction
//! of a turn in float64, or the cosines and sines that are given. Pairs are element `i` of each
//! half of the rotated elements, or adjacent ones; the other elements of a head stay as they are.
//! The result may be `x`. Queries and keys in one array, as a product of both has them, are the
//! heads of one call.

pub mod kernel;

#[cfg(not(target_arch = "nvptx64"))]
mod call;
#[cfg(not(target_arch = "nvptx64"))]
mod cases;
#[cfg(not(target_arch = "nvptx64"))]
mod oracle;

#[cfg(not(target_arch = "nvptx64"))]
pub use host::*;

#[cfg(not(target_arch = "nvptx64"))]
mod host {
    use super::kernel::RopeKernels;
    use super::{call, cases, oracle};
    use moye::operation::{Array, Declaration, Dtype, OperandOf, OptionOf, Role, TypedCall, Value};
    use moye::{Device, Error, Matrix, MatrixMut, Result, Stream};

    const fn option(name: &'static str, about: &'static str, default: Value) -> OptionOf {
        OptionOf { name, about, default }
    }

    /// Float types of cosines and sines, a list that differs from that of x.
    const TABLES: &[Dtype] = &[Dtype::F32, Dtype::F16, Dtype::Bf16];

    /// Rotary position embedding.
    pub static ROPE: Declaration = Declaration {
        name: "rope",
        summary: "pairs of elements, rotated by the angle of their token's position",
        operands: &[
            OperandOf::new(Role::Input, "x", "float32, float16 or bfloat16, (..., tokens, heads, elements)"),
            OperandOf::new(Role::Optional, "positions", "int32 or int64, (tokens) or (..., tokens)")
                .of(Dtype::INTEGERS),
            OperandOf::new(
                Role::Optional,
                "cos",
                "(positions, rotary / 2), float32 or of the type of x; positions beyond give NaN",
            )
            .of(TABLES),
            OperandOf::new(Role::Optional, "sin", "as cos").of(TABLES),
            OperandOf::new(Role::Result, "out", "the result, of the shape and type of x"),
        ],
        options: &[
            option("base", "angles fall with base^(-2 i / rotary)", Value::Float(10_000.0)),
            option("rotary", "the number of rotated elements of a head, 0 for all", Value::Int(0)),
            option("interleaved", "whether pairs are adjacent elements", Value::Bool(false)),
            option("inverse", "whether to rotate back, as the backward pass does", Value::Bool(false)),
            option("axis", "the axis of tokens: -3, or -2 of (..., heads, tokens, elements)", Value::Int(-3)),
        ],
        results: call::results,
        run: call::run,
        explain: |_, call| call::explain(call),
        reference: oracle::rope,
        tolerance: oracle::tolerance,
        cases: cases::CASES,
        bench: cases::BENCH,
    };

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
        options: [(&'static str, Value); 4],
        positions: Option<Matrix<'a, i32>>,
        tables: [Option<Matrix<'a, f32>>; 2],
    }

    impl<'a> Rope<'a> {
        /// Rotations of heads of `elements` elements, by the number of the token and base 10,000.
        pub fn new(elements: usize) -> Self {
            let options = [
                ("base", Value::Float(10_000.0)),
                ("rotary", Value::Int(0)),
                ("interleaved", Value::Bool(false)),
                ("inverse", Value::Bool(false)),
            ];
            Self { elements, options, positions: None, tables: [None, None] }
        }

        fn with(mut self, option: usize, value: Value) -> Self {
            self.options[option].1 = value;
            self
        }

        /// Angles fall with `base^(-2 i / rotary)`.
        #[must_use]
        pub fn base(self, base: f64) -> Self {
            self.with(0, Value::Float(base))
        }

        /// The positions of the tokens, on the device: a matrix of one row.
        #[must_use]
        pub fn positions(self, positions: Matrix<'a, i32>) -> Self {
            Self { positions: Some(positions), ..self }
        }

        /// Cosines and sines instead of a base: a row for each position, a column for each pair.
        /// Positions beyond give NaN.
        #[must_use]
        pub fn tables(self, cos: Matrix<'a, f32>, sin: Matrix<'a, f32>) -> Self {
            Self { tables: [Some(cos), Some(sin)], ..self }
        }

        /// The number of rotated elements of a head.
        #[must_use]
        pub fn rotary(self, elements: usize) -> Self {
            self.with(1, Value::Int(elements as i64))
        }

        /// Pairs are adjacent elements.
        #[must_use]
        pub fn interleaved(self) -> Self {
            self.with(2, Value::Bool(true))
        }

        /// Rotates back.
        #[must_use]
        pub fn inverse(self) -> Self {
            self.with(3, Value::Bool(true))
        }

        /// Rotates `x`, a row of heads for each token, on the default stream of a device.
        ///
        /// # Errors
        /// [`moye::Error::ShapeMismatch`] if a row has not whole heads, and the errors of
        /// [`Device::launch`].
        pub fn run<T: RopeKernels>(&self, device: &Device, x: &mut MatrixMut<'_, T>) -> Result<()> {
            // SAFETY: the default stream runs its work in order.
            unsafe { self.run_on(&device.default_stream(), x) }
        }

        /// Rotates `x` on a stream.
        ///
        /// # Errors
        /// As for [`Rope::run`].
        ///
        /// # Safety
        /// Until the work is complete, no other stream reads or writes the elements of `x`.
        pub unsafe fn run_on<T: RopeKernels>(&self, stream: &Stream, x: &mut MatrixMut<'_, T>) -> Result<()> {
            let name = ROPE.name;
            let device = x.device().clone();
            let mut x = Array::of_mut(name, x)?;
            let (columns, element) = (x.shape[1], x.strides[1]);
            if self.elements == 0 || !columns.is_multiple_of(self.elements) {
                let detail =
                    format!("a row has {columns} elements, and a head {}; give whole heads", self.elements);
                return Err(Error::ShapeMismatch { operation: name, detail });
            }
            x.shape = vec![x.shape[0], columns / self.elements, self.elements];
            x.strides = vec![x.strides[0], self.elements as i64 * element, element];
            let mut call = TypedCall::new(&ROPE, stream);
            for (name, value) in self.options {
                call = call.option(name, value)?;
            }
            let [cos, sin] = &self.tables;
            call = call.with(Some((&device, x.clone())))?.read_row(self.positions.as_ref())?;
            call = call.read(cos.as_ref())?.read(sin.as_ref())?.with(Some((&device, x)))?;
            // SAFETY: the arrays are on the stream's device until the work is complete.
            unsafe { call.run() }
        }
    }
}
