//! Products by group: each group's rows times the group's matrix.

#[cfg(any(not(target_arch = "nvptx64"), target_feature = "sm_90a"))]
pub mod kernel;

#[cfg(any(not(target_arch = "nvptx64"), target_feature = "sm_90a"))]
pub mod list;

#[cfg(not(target_arch = "nvptx64"))]
pub(crate) mod call;
#[cfg(not(target_arch = "nvptx64"))]
pub(crate) mod cases;
#[cfg(not(target_arch = "nvptx64"))]
mod oracle;

#[cfg(not(target_arch = "nvptx64"))]
pub(crate) mod listed;
#[cfg(not(target_arch = "nvptx64"))]
pub(crate) mod pairs;

#[cfg(not(target_arch = "nvptx64"))]
pub use host::*;
#[cfg(not(target_arch = "nvptx64"))]
pub use listed::GroupedList;

#[cfg(not(target_arch = "nvptx64"))]
mod host {
    use super::{call, cases, oracle, pairs};
    use crate::builder::option;
    use crate::operand::{self, RowGroups};
    use moye_runtime::operation::{Declaration, Dtype, OperandOf, Role, TypedCall, Value, runs};
    use moye_runtime::{Element, Matrix, MatrixMut};

    const ELEMENTS: &[Dtype] = &[Dtype::Bf16, Dtype::F16];

    /// Products by group.
    pub static GROUPED: Declaration = Declaration {
        name: call::NAME,
        summary: "for each group, its rows of a times the transpose of its matrix of b",
        operands: &[
            OperandOf::new(
                Role::Input,
                "a",
                "float16 or bfloat16: (m, k), or (groups, rows, k) for padded groups",
            )
            .of(ELEMENTS),
            OperandOf::new(Role::Input, "b", "(groups, n, k), of the type of a").of(ELEMENTS),
            OperandOf::new(
                Role::Input,
                "ends",
                "int32: the end of each group's rows; of padded groups the number of its rows",
            )
            .of(&[Dtype::I32])
            .dense(),
            OperandOf::new(Role::Result, "out", "the products, of the type of a; rows of no group are kept")
                .of(ELEMENTS),
        ],
        options: &[option(
            "tile",
            "a block's tile of the result, by default the one of the least estimated time",
            Value::Choice("auto", call::TILES),
        )],
        results: |inputs, _| call::results(inputs),
        // SAFETY: the contract of `Declaration::run`.
        run: |stream, call| unsafe { call::run(stream, call) },
        explain: |stream, call| call::explain(stream, call).map(Into::into),
        reference: oracle::grouped,
        tolerance: oracle::tolerance,
        cases: cases::CASES,
        bench: cases::BENCH,
    };

    const fn pair(role: Role, name: &'static str) -> OperandOf {
        OperandOf::new(role, name, "float16 or bfloat16, as all: (m, k) of its product").of(ELEMENTS)
    }

    const fn other(role: Role, name: &'static str) -> OperandOf {
        OperandOf::new(role, name, "(n, k) of its product").of(ELEMENTS)
    }

    const fn product(role: Role, name: &'static str) -> OperandOf {
        OperandOf::new(role, name, "(m, n), the result of its product").of(ELEMENTS)
    }

    /// Up to four products of matrices of different shapes. [`GroupedList`](super::GroupedList) has
    /// any number.
    pub static GROUPED_PAIRS: Declaration = Declaration {
        name: pairs::NAME,
        summary: "a0 b0^T, a1 b1^T and so on, up to four products of different shapes anywhere in memory, in one launch",
        operands: &[
            pair(Role::Input, "a0"),
            other(Role::Input, "b0"),
            pair(Role::Optional, "a1"),
            other(Role::Optional, "b1"),
            pair(Role::Optional, "a2"),
            other(Role::Optional, "b2"),
            pair(Role::Optional, "a3"),
            other(Role::Optional, "b3"),
            product(Role::Result, "out0"),
            product(Role::OptionalResult, "out1"),
            product(Role::OptionalResult, "out2"),
            product(Role::OptionalResult, "out3"),
        ],
        options: &[],
        results: |inputs, _| pairs::results(inputs),
        // SAFETY: the contract of `Declaration::run`.
        run: |stream, call| unsafe { pairs::run(stream, call) },
        explain: |stream, call| pairs::explain(stream, call).map(Into::into),
        reference: oracle::pairs,
        tolerance: oracle::tolerance,
        cases: cases::PAIRS,
        bench: cases::BENCH_PAIRS,
    };

    /// Products by group: rows of `a` that follow each other times a matrix of their group.
    ///
    /// ```
    /// use moye::half::bf16;
    /// use moye::{Device, Matrix, MatrixMut};
    /// use moye_products::grouped::GroupedMatmul;
    ///
    /// let device = Device::sim();
    /// let of = |values: &[f32]| device.upload(&Vec::from_iter(values.iter().map(|&x| bf16::from_f32(x))));
    /// // Three rows of two elements, and for each of two groups a matrix of one row.
    /// let (a, b) = (of(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])?, of(&[1.0, 1.0, 0.0, -1.0])?);
    /// let ends = device.upload(&[1, 3])?;
    /// let mut c = device.alloc_uninit::<bf16>(3)?;
    /// GroupedMatmul::new(
    ///     Matrix::row_major(&a, 3, 2)?,
    ///     Matrix::row_major(&b, 2, 2)?,
    ///     Matrix::row_major(&ends, 1, 2)?,
    /// )
    /// .run(&device, &mut MatrixMut::row_major(&mut c, 3, 1)?)?;
    /// assert_eq!(c.download()?, [3.0, -4.0, -6.0].map(bf16::from_f32));
    /// # Ok::<(), moye::Error>(())
    /// ```
    #[derive(Clone, Debug)]
    #[must_use = "nothing is computed before `run`"]
    pub struct GroupedMatmul<'a, T: Element> {
        a: Matrix<'a, T>,
        b: Matrix<'a, T>,
        groups: RowGroups<'a>,
    }

    impl<'a, T: Element> GroupedMatmul<'a, T> {
        /// The rows of `a`, (m, k), times the transposes of the groups' matrices, stacked in `b`,
        /// (groups * n, k). `ends` is a row with the end of each group's rows, in nondecreasing
        /// order; a group without rows ends where the previous one does.
        ///
        /// The ends are read on the device when the product runs. Rows past the last end are
        /// not written.
        pub fn new(a: Matrix<'a, T>, b: Matrix<'a, T>, ends: Matrix<'a, i32>) -> Self {
            Self { a, b, groups: RowGroups { ends, is_padded: false } }
        }

        /// Padded (masked) groups: `a`, (groups * rows, k), has the same number of rows for each
        /// group, and `counts` is a row with the number of rows that a group uses, from its first.
        /// `b` contains the groups' matrices as in [`new`](Self::new), and the result is (groups *
        /// rows, n).
        ///
        /// The counts are read on the device when the product runs. The other rows of the result
        /// are not written.
        ///
        /// ```
        /// use moye::half::bf16;
        /// use moye::{Device, Matrix, MatrixMut};
        /// use moye_products::grouped::GroupedMatmul;
        ///
        /// let device = Device::sim();
        /// let of = |values: &[f32]| {
        ///     device.upload(&Vec::from_iter(values.iter().map(|&x| bf16::from_f32(x))))
        /// };
        /// // Two groups of two rows of two elements; the first group uses one row.
        /// let a = of(&[1.0, 2.0, 0.0, 0.0, 3.0, 4.0, 5.0, 6.0])?;
        /// let b = of(&[1.0, 1.0, 0.0, -1.0])?;
        /// let counts = device.upload(&[1, 2])?;
        /// let mut c = of(&[7.0; 4])?;
        /// GroupedMatmul::padded(
        ///     Matrix::row_major(&a, 4, 2)?,
        ///     Matrix::row_major(&b, 2, 2)?,
        ///     Matrix::row_major(&counts, 1, 2)?,
        /// )
        /// .run(&device, &mut MatrixMut::row_major(&mut c, 4, 1)?)?;
        /// assert_eq!(c.download()?, [3.0, 7.0, -4.0, -6.0].map(bf16::from_f32));
        /// # Ok::<(), moye::Error>(())
        /// ```
        #[doc(alias = "masked")]
        pub fn padded(a: Matrix<'a, T>, b: Matrix<'a, T>, counts: Matrix<'a, i32>) -> Self {
            Self { a, b, groups: RowGroups { ends: counts, is_padded: true } }
        }

        runs! {
            /// Computes it on the default stream of a device, of f16 or bf16: on the simulator and
            /// on sm_90a.
            fn run, run_on, explain(self, stream, c: &mut MatrixMut<'_, T>) {
                let Self { a, b, groups } = self;
                let of_b = operand::stacked(call::NAME, "b", b, groups.count())?;
                let of_a = groups.rows(call::NAME, "a", a)?;
                let of_c = groups.results(call::NAME, "c", c, a.rows())?;
                let call = TypedCall::new(&GROUPED, stream).with(Some((a.device(), of_a)))?;
                let call = call.with(Some((b.device(), of_b)))?.read_row(&groups.ends)?;
                call.with(Some((c.device(), of_c)))?
            }
        }
    }
}
