//! Products of 8-bit floats with the scales of their blocks, of lists of matrices anywhere in
//! memory, and along the rows of groups. [`block_scaled`](crate::block_scaled) has those by group.

#[cfg(any(not(target_arch = "nvptx64"), target_feature = "sm_90a"))]
pub mod list;
#[cfg(any(not(target_arch = "nvptx64"), target_feature = "sm_90a"))]
pub mod promoted;
#[cfg(any(not(target_arch = "nvptx64"), target_feature = "sm_90a"))]
pub mod rows;

#[cfg(not(target_arch = "nvptx64"))]
mod along;
#[cfg(not(target_arch = "nvptx64"))]
mod cases;
#[cfg(not(target_arch = "nvptx64"))]
mod kernels;
#[cfg(not(target_arch = "nvptx64"))]
mod listed;
#[cfg(not(target_arch = "nvptx64"))]
mod oracle;
#[cfg(not(target_arch = "nvptx64"))]
mod paired;

#[cfg(not(target_arch = "nvptx64"))]
pub use host::*;
#[cfg(not(target_arch = "nvptx64"))]
pub use listed::{BlockScaledList, ScaledProduct};

#[cfg(not(target_arch = "nvptx64"))]
mod host {
    use super::kernels::RESULTS;
    use super::{along, cases, oracle, paired};
    use crate::block_scaled::Float8;
    use crate::builder::option;
    use crate::operand;
    use moye_runtime::number::F8E4M3;
    use moye_runtime::operation::{Declaration, Dtype, OperandOf, OptionOf, Role, TypedCall, Value, runs};
    use moye_runtime::{Element, Error, Matrix, MatrixMut};

    /// The names in messages.
    pub(super) const NAME_PAIRS: &str = "block_scaled_pairs";
    /// See [`NAME_PAIRS`].
    pub(super) const NAME_K: &str = "block_scaled_k";

    const FLOATS: &[Dtype] = &[Dtype::E4m3, Dtype::E5m2];
    const DTYPE: OptionOf = option(
        "dtype",
        "the type of the results: bfloat16 or float32, or float16 if all operands are float8_e4m3fn",
        Value::Dtype(Dtype::Bf16),
    );

    const fn bytes(role: Role, name: &'static str) -> OperandOf {
        OperandOf::new(role, name, "float8_e4m3fn or float8_e5m2: (m, k) or (n, k) of its product").of(FLOATS)
    }

    const fn scales(role: Role, name: &'static str, about: &'static str) -> OperandOf {
        OperandOf::new(role, name, about).of(&[Dtype::F32]).finite(crate::block_scaled::oracle::SUM_OF_BLOCK)
    }

    const fn of_a(role: Role, name: &'static str) -> OperandOf {
        scales(role, name, "float32: one for 1 x 128 elements; an extent may be 1")
    }

    const fn of_b(role: Role, name: &'static str) -> OperandOf {
        scales(role, name, "float32: one for 128 x 128 elements; an extent may be 1")
    }

    const fn product(role: Role, name: &'static str) -> OperandOf {
        OperandOf::new(role, name, "(m, n), the result of its product").of(RESULTS)
    }

    /// Up to four products of 8-bit floats with scales. [`BlockScaledList`](super::BlockScaledList)
    /// has any number.
    pub static BLOCK_SCALED_PAIRS: Declaration = Declaration {
        name: NAME_PAIRS,
        summary: "a0 b0^T, a1 b1^T and so on of 8-bit floats, each times the scale of its block: up to four products \
                  of different shapes anywhere in memory, in one launch",
        operands: &[
            bytes(Role::Input, "a0"),
            bytes(Role::Input, "b0"),
            of_a(Role::Input, "scale_a0"),
            of_b(Role::Input, "scale_b0"),
            bytes(Role::Optional, "a1"),
            bytes(Role::Optional, "b1"),
            of_a(Role::Optional, "scale_a1"),
            of_b(Role::Optional, "scale_b1"),
            bytes(Role::Optional, "a2"),
            bytes(Role::Optional, "b2"),
            of_a(Role::Optional, "scale_a2"),
            of_b(Role::Optional, "scale_b2"),
            bytes(Role::Optional, "a3"),
            bytes(Role::Optional, "b3"),
            of_a(Role::Optional, "scale_a3"),
            of_b(Role::Optional, "scale_b3"),
            product(Role::Result, "out0"),
            product(Role::OptionalResult, "out1"),
            product(Role::OptionalResult, "out2"),
            product(Role::OptionalResult, "out3"),
        ],
        options: &[DTYPE],
        results: paired::results,
        // SAFETY: the contract of `Declaration::run`, here and below.
        run: |stream, call| unsafe { paired::run(stream, call) },
        explain: |stream, call| paired::explain(stream, call).map(Into::into),
        reference: oracle::pairs,
        tolerance: oracle::tolerance,
        cases: cases::PAIRS,
        bench: cases::BENCH_PAIRS,
    };

    /// Products of 8-bit floats with scales along the rows of groups.
    pub static BLOCK_SCALED_K: Declaration = Declaration {
        name: NAME_K,
        summary: "for each group, the transpose of its rows of a times its rows of b, of 8-bit floats, each times the \
                  scale of its block",
        operands: &[
            OperandOf::new(Role::Input, "a", "float8_e4m3fn or float8_e5m2: (rows, m)").of(FLOATS),
            OperandOf::new(Role::Input, "b", "float8_e4m3fn or float8_e5m2: (rows, n)").of(FLOATS),
            scales(
                Role::Input,
                "scale_a",
                "float32: one for 128 rows of a column of a, wherever groups begin; an extent may be 1",
            ),
            scales(
                Role::Input,
                "scale_b",
                "float32: one for 128 rows of a column of b, or for 128 x 128 elements; an extent may be 1",
            ),
            OperandOf::new(Role::Input, "ends", "int32: the end of each group's rows")
                .of(&[Dtype::I32])
                .dense(),
            OperandOf::new(Role::Result, "out", "(groups, m, n): zeros for a group without rows").of(RESULTS),
        ],
        options: &[DTYPE],
        results: along::results,
        run: |stream, call| unsafe { along::run(stream, call) },
        explain: |stream, call| along::explain(stream, call).map(Into::into),
        reference: oracle::along_rows,
        tolerance: oracle::tolerance,
        cases: cases::ALONG,
        bench: cases::BENCH_ALONG,
    };

    /// Products of 8-bit floats with scales along the rows of groups, as the gradients of experts'
    /// weights are.
    ///
    /// ```
    /// use moye::number::F8E4M3;
    /// use moye::{Device, Matrix, MatrixMut};
    /// use moye_products::block_scaled_groups::BlockScaledK;
    ///
    /// let device = Device::sim();
    /// let of = |values: &[f32]| device.upload(&Vec::from_iter(values.iter().map(|&x| F8E4M3::from_f32(x))));
    /// // Three rows of two elements and of one; the first is a group, the others are another.
    /// let (a, b) = (of(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])?, of(&[1.0, 1.0, -1.0])?);
    /// let (scale_a, scale_b) = (device.upload(&[0.5f32, 2.0])?, device.upload(&[1.0f32])?);
    /// let ends = device.upload(&[1, 3])?;
    /// let mut c = device.alloc_uninit::<f32>(4)?;
    /// BlockScaledK::new(
    ///     Matrix::row_major(&a, 3, 2)?,
    ///     Matrix::row_major(&b, 3, 1)?,
    ///     Matrix::row_major(&ends, 1, 2)?,
    /// )
    /// .scales(Matrix::row_major(&scale_a, 1, 2)?, Matrix::row_major(&scale_b, 1, 1)?)
    /// .run(&device, &mut MatrixMut::row_major(&mut c, 4, 1)?)?;
    /// assert_eq!(c.download()?, [0.5, 4.0, -1.0, -4.0]);
    /// # Ok::<(), moye::Error>(())
    /// ```
    #[derive(Clone, Debug)]
    #[must_use = "nothing is computed before `run`"]
    pub struct BlockScaledK<'a, A: Float8 = F8E4M3, B: Float8 = F8E4M3> {
        a: Matrix<'a, A>,
        b: Matrix<'a, B>,
        scales: Option<[Matrix<'a, f32>; 2]>,
        ends: Matrix<'a, i32>,
    }

    impl<'a, A: Float8, B: Float8> BlockScaledK<'a, A, B> {
        /// The transposes of a group's rows of `a`, (rows, m), times its rows of `b`, (rows, n).
        /// `ends` is a row with the end of each group's rows, in nondecreasing order.
        pub fn new(a: Matrix<'a, A>, b: Matrix<'a, B>, ends: Matrix<'a, i32>) -> Self {
            Self { a, b, scales: None, ends }
        }

        /// The scales: one for 128 rows of a column, wherever groups begin, (ceil(rows / 128), m),
        /// and for `b` (ceil(rows / 128), n) or (ceil(rows / 128), ceil(n / 128)). An extent of 1
        /// means the same scale for all.
        pub fn scales(self, a: Matrix<'a, f32>, b: Matrix<'a, f32>) -> Self {
            Self { scales: Some([a, b]), ..self }
        }

        runs! {
            /// Computes it on the default stream of a device, to bf16 or f32, or to f16 of e4m3,
            /// and to matrices that are one below the other in `c`, (groups * m, n): on the
            /// simulator and on sm_90a.
            fn run, run_on, explain<O: Element>(self, stream, c: &mut MatrixMut<'_, O>) {
                let Some([scale_a, scale_b]) = &self.scales else {
                    let detail = "there are no scales; set them with `scales`".to_owned();
                    return Err(Error::ShapeMismatch { operation: NAME_K, detail });
                };
                let results = operand::stacked_results(NAME_K, "c", c, self.ends.cols(), self.a.cols())?;
                let dtype = Value::Dtype(results.dtype);
                let call = TypedCall::new(&BLOCK_SCALED_K, stream).option("dtype", dtype)?;
                let call = call.read(&self.a)?.read(&self.b)?.read(scale_a)?.read(scale_b)?;
                call.read_row(&self.ends)?.with(Some((c.device(), results)))?
            }
        }
    }
}
#[cfg(not(target_arch = "nvptx64"))]
use host::{NAME_K, NAME_PAIRS};
