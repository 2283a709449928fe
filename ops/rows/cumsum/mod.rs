//! Cumulative sums along an axis, inclusive or exclusive.
//!
//! Elements are f32, f16 or bf16, summed in f32 in an order that depends on the shape alone. A row
//! that is long beside the card has a block for each chunk.

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
    use super::call::NAME;
    use super::kernel::CumsumKernels;
    use super::{call, cases, oracle};
    use moye::operation::{Declaration, OperandOf, OptionOf, Role, TypedCall, Value};
    use moye::{Matrix, MatrixMut};

    /// Cumulative sums along an axis.
    pub static CUMSUM: Declaration = Declaration {
        name: NAME,
        summary: "the sum of each element and those before it along an axis",
        operands: &[
            OperandOf::new(Role::Input, "x", "float32, float16 or bfloat16, of any shape and strides"),
            OperandOf::new(Role::Result, "out", "the sums, of the shape and type of x"),
        ],
        options: &[
            OptionOf {
                name: "axis",
                about: "the axis along which elements are summed",
                default: Value::Int(-1),
            },
            OptionOf {
                name: "exclusive",
                about: "sums are without the element itself: the first is 0",
                default: Value::Bool(false),
            },
        ],
        results: |inputs, _| Ok(vec![inputs[0].clone().expect("checked: x is not optional")]),
        run: call::run,
        explain: call::explain,
        reference: oracle::cumsum,
        tolerance: oracle::tolerance,
        cases: cases::CASES,
        bench: cases::BENCH,
    };

    /// Cumulative sums of the rows of a matrix.
    ///
    /// ```
    /// use moye::{Device, Matrix, MatrixMut};
    /// use moye_rows::cumsum::Cumsum;
    ///
    /// let device = Device::sim();
    /// let x = device.upload(&[1.0f32, 2.0, 3.0, 4.0])?;
    /// let mut y = device.alloc_uninit::<f32>(4)?;
    /// Cumsum::new(Matrix::row_major(&x, 2, 2)?).run(&device, &mut MatrixMut::row_major(&mut y, 2,
    /// 2)?)?; assert_eq!(y.download()?, [1.0, 3.0, 3.0, 7.0]);
    /// # Ok::<(), moye::Error>(())
    /// ```
    #[derive(Clone, Debug)]
    pub struct Cumsum<'a, T: CumsumKernels> {
        x: Matrix<'a, T>,
        exclusive: bool,
    }

    impl<'a, T: CumsumKernels> Cumsum<'a, T> {
        /// Inclusive sums of each row of `x`.
        pub fn new(x: Matrix<'a, T>) -> Self {
            Self { x, exclusive: false }
        }

        /// Sums without the element itself.
        #[must_use]
        pub fn exclusive(self) -> Self {
            Self { exclusive: true, ..self }
        }

        crate::runs! {
            /// Computes it on the default stream of a device.
            ///
            /// # Errors
            /// [`moye::Error::ShapeMismatch`] if `y` has another shape, and the errors of
            /// [`moye::Device::launch`].
            fn run, run_on(self, stream, y: &mut MatrixMut<'_, T>) {
                let call = TypedCall::new(&CUMSUM, stream).option("exclusive", Value::Bool(self.exclusive))?;
                call.read(&self.x)?.write(y)?
            }
        }
    }
}
