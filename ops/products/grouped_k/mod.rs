//! Products along the rows of groups: gradients of the weights of experts.

#[cfg(any(not(target_arch = "nvptx64"), target_feature = "sm_90a"))]
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
    use super::{call, cases, oracle};
    use crate::operand;
    use moye_runtime::operation::{Declaration, Dtype, OperandOf, Role, TypedCall, runs};
    use moye_runtime::{Element, Matrix, MatrixMut};

    const ELEMENTS: &[Dtype] = &[Dtype::Bf16, Dtype::F16];

    /// Products along the rows of groups.
    pub static GROUPED_K: Declaration = Declaration {
        name: call::NAME,
        summary: "for each group, the transpose of its rows of a times its rows of b",
        operands: &[
            OperandOf::new(Role::Input, "a", "float16 or bfloat16: (rows, m)").of(ELEMENTS),
            OperandOf::new(Role::Input, "b", "(rows, n), of the type of a").of(ELEMENTS),
            OperandOf::new(Role::Input, "ends", "int32: the end of each group's rows")
                .of(&[Dtype::I32])
                .dense(),
            OperandOf::new(
                Role::Result,
                "out",
                "(groups, m, n), of the type of a: zeros for a group without rows",
            )
            .of(ELEMENTS),
        ],
        options: &[],
        results: |inputs, _| call::results(inputs),
        // SAFETY: the contract of `Declaration::run`.
        run: |stream, call| unsafe { call::run(stream, call) },
        explain: |stream, call| call::explain(stream, call).map(Into::into),
        reference: oracle::grouped_k,
        tolerance: oracle::tolerance,
        cases: cases::CASES,
        bench: cases::BENCH,
    };

    /// Products along the rows of groups, such as the gradients of experts' weights.
    ///
    /// ```
    /// use moye::half::bf16;
    /// use moye::{Device, Matrix, MatrixMut};
    /// use moye_products::grouped_k::GroupedK;
    ///
    /// let device = Device::sim();
    /// let of = |values: &[f32]| device.upload(&Vec::from_iter(values.iter().map(|&x| bf16::from_f32(x))));
    /// // Three rows of two elements and of one; the first is a group, the others are another.
    /// let (a, b) = (of(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])?, of(&[1.0, 1.0, -1.0])?);
    /// let ends = device.upload(&[1, 3])?;
    /// let mut c = device.alloc_uninit::<bf16>(4)?;
    /// GroupedK::new(
    ///     Matrix::row_major(&a, 3, 2)?,
    ///     Matrix::row_major(&b, 3, 1)?,
    ///     Matrix::row_major(&ends, 1, 2)?,
    /// )
    /// .run(&device, &mut MatrixMut::row_major(&mut c, 4, 1)?)?;
    /// assert_eq!(c.download()?, [1.0, 2.0, -2.0, -2.0].map(bf16::from_f32));
    /// # Ok::<(), moye::Error>(())
    /// ```
    #[derive(Clone, Debug)]
    #[must_use = "nothing is computed before `run`"]
    pub struct GroupedK<'a, T: Element> {
        a: Matrix<'a, T>,
        b: Matrix<'a, T>,
        ends: Matrix<'a, i32>,
    }

    impl<'a, T: Element> GroupedK<'a, T> {
        /// The transposes of a group's rows of `a`, (rows, m), times its rows of `b`, (rows, n).
        /// `ends` is a row with the end of each group's rows, in nondecreasing order.
        ///
        /// The ends are read on the device when the product runs.
        pub fn new(a: Matrix<'a, T>, b: Matrix<'a, T>, ends: Matrix<'a, i32>) -> Self {
            Self { a, b, ends }
        }

        runs! {
            /// Computes it on the default stream of a device, of f16 or bf16, to matrices that are
            /// one below the other in `c`, (groups * m, n): on the simulator and on sm_90a.
            fn run, run_on, explain(self, stream, c: &mut MatrixMut<'_, T>) {
                let results = operand::stacked_results(call::NAME, "c", c, self.ends.cols(), self.a.cols())?;
                let call =
                    TypedCall::new(&GROUPED_K, stream).read(&self.a)?.read(&self.b)?.read_row(&self.ends)?;
                call.with(Some((c.device(), results)))?
            }
        }
    }
}
