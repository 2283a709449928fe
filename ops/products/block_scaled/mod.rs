//! Products of 8-bit floats with scales for blocks (1 x 128 elements of A and 128 x 128 or 1 x 128
//! of B), for rows, or for whole matrices.

#[cfg(any(not(target_arch = "nvptx64"), target_feature = "sm_90a"))]
pub mod kernel;
#[cfg(any(not(target_arch = "nvptx64"), target_feature = "sm_90a"))]
pub mod sink;

#[cfg(not(target_arch = "nvptx64"))]
pub(crate) mod call;
#[cfg(not(target_arch = "nvptx64"))]
mod cases;
#[cfg(not(target_arch = "nvptx64"))]
pub(crate) mod oracle;

#[cfg(not(target_arch = "nvptx64"))]
pub use call::TILES;
#[cfg(not(target_arch = "nvptx64"))]
pub use host::*;

#[cfg(not(target_arch = "nvptx64"))]
mod host {
    use super::{call, cases, oracle};
    use crate::builder::option;
    use crate::operand::{self, RowGroups};
    use moye_runtime::number::{F8E4M3, F8E5M2};
    use moye_runtime::operation::{Array, Declaration, Dtype, OperandOf, Role, TypedCall, Value, runs};
    use moye_runtime::{Element, Error, Matrix, MatrixMut, Result, Stream};

    const FLOATS: &[Dtype] = &[Dtype::E4m3, Dtype::E5m2];

    /// A product of 8-bit floats with the scales of their blocks.
    pub static BLOCK_SCALED: Declaration = Declaration {
        name: call::NAME,
        summary: "a b^T of 8-bit floats, each times the scale of its block, summed in float32",
        operands: &[
            OperandOf::new(
                Role::Input,
                "a",
                "float8_e4m3fn or float8_e5m2: (m, k), or (groups, rows, k) for padded groups",
            )
            .of(FLOATS),
            OperandOf::new(
                Role::Input,
                "b",
                "float8_e4m3fn or float8_e5m2: (n, k), or (groups, n, k) with ends",
            )
            .of(FLOATS),
            OperandOf::new(
                Role::Input,
                "scale_a",
                "float32: one for 1 x 128 elements of a; an extent may be 1",
            )
            .of(&[Dtype::F32])
            .finite(oracle::SUM_OF_BLOCK),
            OperandOf::new(
                Role::Input,
                "scale_b",
                "float32: one for 128 x 128 elements of b, or for 1 x 128; an extent may be 1",
            )
            .of(&[Dtype::F32]),
            OperandOf::new(
                Role::Optional,
                "ends",
                "int32: the end of each group's rows; of padded groups the number of its rows",
            )
            .of(&[Dtype::I32])
            .dense(),
            OperandOf::new(Role::Result, "out", "the product; rows of no group are kept").of(call::RESULTS),
            OperandOf::new(
                Role::OptionalResult,
                "out_scales",
                "float32: of a result in float8_e4m3fn, one for 1 x 128 elements",
            )
            .of(&[Dtype::F32]),
        ],
        options: &[
            option(
                "dtype",
                "the type of the result: bfloat16, float16, float32, or float8_e4m3fn with out_scales",
                Value::Dtype(Dtype::Bf16),
            ),
            option(
                "tile",
                "a block's tile of the result, by default the one of the least estimated time",
                Value::Choice("auto", call::TILES),
            ),
        ],
        results: call::results,
        // SAFETY: the contract of `Declaration::run`.
        run: |stream, call| unsafe { call::run(stream, call) },
        explain: |stream, call| call::explain(stream, call).map(Into::into),
        reference: oracle::block_scaled,
        tolerance: oracle::tolerance,
        cases: cases::CASES,
        bench: cases::BENCH,
    };

    /// An element of operands: e4m3 or e5m2.
    pub trait Float8: Element {}
    impl Float8 for F8E4M3 {}
    impl Float8 for F8E5M2 {}

    /// A product of 8-bit floats with scales: `c = (scale_a a) (scale_b b)^T`, summed in f32.
    ///
    /// ```
    /// use moye::half::bf16;
    /// use moye::number::F8E4M3;
    /// use moye::{Device, Matrix, MatrixMut};
    /// use moye_products::block_scaled::BlockScaled;
    ///
    /// let device = Device::sim();
    /// let of = |values: [f32; 2]| device.upload(&values.map(F8E4M3::from_f32));
    /// let (a, b) = (of([1.0, 2.0])?, of([3.0, 4.0])?);
    /// let (scale_a, scale_b) = (device.upload(&[2.0f32])?, device.upload(&[0.5f32])?);
    /// let mut c = device.alloc_uninit::<bf16>(1)?;
    /// let matrix = |of| Matrix::row_major(of, 1, 1);
    /// BlockScaled::new(Matrix::row_major(&a, 1, 2)?, Matrix::row_major(&b, 1, 2)?)
    ///     .scales(matrix(&scale_a)?, matrix(&scale_b)?)
    ///     .run(&device, &mut MatrixMut::row_major(&mut c, 1, 1)?)?;
    /// assert_eq!(c.download()?, [bf16::from_f32(11.0)]);
    /// # Ok::<(), moye::Error>(())
    /// ```
    #[derive(Clone, Debug)]
    #[must_use = "nothing is computed before `run`"]
    pub struct BlockScaled<'a, A: Float8 = F8E4M3, B: Float8 = F8E4M3> {
        a: Matrix<'a, A>,
        b: Matrix<'a, B>,
        scales: Option<[Matrix<'a, f32>; 2]>,
        groups: Option<RowGroups<'a>>,
    }

    impl<'a, A: Float8, B: Float8> BlockScaled<'a, A, B> {
        /// The product of `a`, (m, k), and the transpose of `b`, (n, k).
        pub fn new(a: Matrix<'a, A>, b: Matrix<'a, B>) -> Self {
            Self { a, b, scales: None, groups: None }
        }

        /// The scales: of `a` one for 128 elements of a row, (m, ceil(k / 128)), of `b` one for 128
        /// x 128 elements, (ceil(n / 128), ceil(k / 128)), or for 128 elements of a row, (n, ceil(k
        /// / 128)). An extent of 1 means the same scale for all: a scale for each row of `a` is (m,
        /// 1), one for all of it (1, 1).
        pub fn scales(self, a: Matrix<'a, f32>, b: Matrix<'a, f32>) -> Self {
            Self { scales: Some([a, b]), ..self }
        }

        /// By group: `b` and its scales contain all groups, stacked, and `ends` is a row with the
        /// end of each group's rows of `a`, in nondecreasing order.
        pub fn groups(self, ends: Matrix<'a, i32>) -> Self {
            Self { groups: Some(RowGroups { ends, is_padded: false }), ..self }
        }

        /// By padded (masked) group: `a`, (groups * rows, k), and its scales have the same number
        /// of rows for each group, and `counts` is a row with the number of rows that a group uses,
        /// from its first. One row of scales of `a` is that of all its rows. `b` and its scales are
        /// stacked as for [`groups`](Self::groups), and the results have the rows of `a`. Rows that
        /// no group uses are not written.
        #[doc(alias = "masked")]
        pub fn padded_groups(self, counts: Matrix<'a, i32>) -> Self {
            Self { groups: Some(RowGroups { ends: counts, is_padded: true }), ..self }
        }

        runs! {
            /// Computes it on the default stream of a device, to bf16, f16 or f32: on the simulator
            /// and on sm_90a.
            fn run, run_on, explain<O: Element>(self, stream, c: &mut MatrixMut<'_, O>) {
                let dtype = Array::of_mut(call::NAME, c)?.dtype;
                let call = self.call(stream, dtype)?;
                let of_c = self.result("c", c)?;
                call.with(Some((c.device(), of_c)))?.with(None)?
            }
        }

        runs! {
            /// Computes it on the default stream of a device to e4m3, with a scale for each 1 x
            /// 128 elements of `c`, (m, ceil(n / 128)): their greatest magnitude divided by 448,
            /// or 1 if that is below 1e-30.
            fn run_quantized, run_quantized_on, explain_quantized(
                self, stream, c: &mut MatrixMut<'_, F8E4M3>, scales: &mut MatrixMut<'_, f32>
            ) {
                let call = self.call(stream, Dtype::E4m3)?;
                let (of_c, of_scales) = (self.result("c", c)?, self.result("scales", scales)?);
                call.with(Some((c.device(), of_c)))?.with(Some((scales.device(), of_scales)))?
            }
        }

        /// A call with its inputs.
        fn call<'s>(&self, stream: &'s Stream, dtype: Dtype) -> Result<TypedCall<'s>> {
            let Some([scale_a, scale_b]) = &self.scales else {
                let detail = "there are no scales; set them with `scales`".to_owned();
                return Err(Error::ShapeMismatch { operation: call::NAME, detail });
            };
            let call = TypedCall::new(&BLOCK_SCALED, stream).option("dtype", Value::Dtype(dtype))?;
            let Some(groups) = &self.groups else {
                return call.read(&self.a)?.read(&self.b)?.read(scale_a)?.read(scale_b)?.with(None);
            };
            let a = groups.rows(call::NAME, "a", &self.a)?;
            let b = operand::stacked(call::NAME, "b", &self.b, groups.count())?;
            let of_a = match groups.is_padded && scale_a.rows() == 1 {
                true => operand::stacked(call::NAME, "scale_a", scale_a, 1)?,
                false => groups.rows(call::NAME, "scale_a", scale_a)?,
            };
            let of_b = operand::stacked(call::NAME, "scale_b", scale_b, groups.count())?;
            let call = call.with(Some((self.a.device(), a)))?.with(Some((self.b.device(), b)))?;
            let call = call.with(Some((scale_a.device(), of_a)))?.with(Some((scale_b.device(), of_b)))?;
            call.read_row(&groups.ends)
        }

        /// A result, which has the rows of `a`.
        fn result<O: Element>(&self, name: &str, c: &mut MatrixMut<'_, O>) -> Result<Array> {
            match &self.groups {
                Some(groups) => groups.results(call::NAME, name, c, self.a.rows()),
                None => Array::of_mut(call::NAME, c),
            }
        }
    }
}
