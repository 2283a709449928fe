//! Products `x W^T` of few rows of x, 1 to 16 tokens: each element of W is read once.

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
    use moye_runtime::operation::{Declaration, OperandOf, Role, TypedCall, runs};
    use moye_runtime::{Element, Matrix, MatrixMut};

    /// Products of few rows.
    pub static LINEAR_FEW: Declaration = Declaration {
        name: call::NAME,
        summary: "x times the transpose of w for few rows of x, 1 to 16: each element of w is read once",
        operands: &[
            OperandOf::new(Role::Input, "x", "float32, float16 or bfloat16: (m, k)"),
            OperandOf::new(Role::Input, "w", "(n, k), of the type of x"),
            OperandOf::new(Role::Optional, "residual", "(m, n), of the type of x, added to the product"),
            OperandOf::new(Role::Result, "out", "(m, n), of the type of x"),
        ],
        options: &[],
        results: |inputs, _| call::results(inputs),
        // SAFETY: the contract of `Declaration::run`.
        run: |stream, call| unsafe { call::run(stream, call) },
        explain: |stream, call| call::explain(stream, call).map(Into::into),
        reference: oracle::few,
        tolerance: oracle::tolerance,
        cases: cases::CASES,
        bench: cases::BENCH,
    };

    /// A product of few rows, `y = x w^T`, summed in f32. More than 16 rows read `w` again for
    /// each 16.
    ///
    /// ```
    /// use moye::{Device, Matrix, MatrixMut};
    /// use moye_products::few::LinearFew;
    ///
    /// let device = Device::sim();
    /// let (x, w) = (device.upload(&[1.0f32, 2.0])?, device.upload(&[3.0f32, 4.0, 5.0, 6.0])?);
    /// let mut y = device.upload(&[100.0f32; 2])?;
    /// LinearFew::new(Matrix::row_major(&x, 1, 2)?, Matrix::row_major(&w, 2, 2)?)
    ///     .run(&device, &mut MatrixMut::row_major(&mut y, 1, 2)?)?;
    /// assert_eq!(y.download()?, [11.0, 17.0]);
    /// # Ok::<(), moye::Error>(())
    /// ```
    #[derive(Clone, Debug)]
    #[must_use = "nothing is computed before `run`"]
    pub struct LinearFew<'a, T: Element> {
        x: Matrix<'a, T>,
        w: Matrix<'a, T>,
        residual: Option<Matrix<'a, T>>,
    }

    impl<'a, T: Element> LinearFew<'a, T> {
        /// The product of `x`, (m, k), and the transpose of `w`, (n, k).
        pub fn new(x: Matrix<'a, T>, w: Matrix<'a, T>) -> Self {
            Self { x, w, residual: None }
        }

        /// Adds a matrix, (m, n).
        pub fn residual(self, residual: Matrix<'a, T>) -> Self {
            Self { residual: Some(residual), ..self }
        }

        runs! {
            /// Computes it on the default stream of a device, of f32, f16 or bf16.
            fn run, run_on, explain(self, stream, y: &mut MatrixMut<'_, T>) {
                let call = TypedCall::new(&LINEAR_FEW, stream).read(&self.x)?.read(&self.w)?;
                call.read(self.residual.as_ref())?.write(y)?
            }
        }
    }
}
