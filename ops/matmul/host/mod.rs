//! Matrix multiplication, in three stages.
//!
//! - **Descriptor**: the caller's request. [`builder`] collects it for the element types of
//!   [`element`]; [`descriptor`] checks it and converts it to the kernels' form, with matrices as
//!   [`operand`] views.
//! - **Plan**: the kernel, the operands to rearrange, the split along K, the workspace. [`plan`]
//!   takes the kernel from the table of [`measured`] shapes, or compares the [`variants`], a table
//!   of measured rates, by their estimated [`cost`]. [`last_wave`] divides tiles along K.
//! - **Launch**: [`launch`] is the [`Operation`](moye_runtime::operation::Operation): it launches a
//!   plan in a [`workspace`], with tensor maps if the kernel loads by [`tma`].

mod builder;
#[cfg(feature = "candle")]
pub mod candle;
mod cases;
mod cost;
mod declared;
mod descriptor;
mod element;
mod last_wave;
mod launch;
mod measured;
mod operand;
mod plan;
#[cfg(test)]
mod plan_tests;
mod reference;
mod tma;
mod variants;
mod workspace;

pub use builder::Matmul;
pub use declared::{MATMUL, explain_matmul};
pub use element::{Factor, Float8, Operand, Output, Precision};
pub use plan::Explanation;

use moye_runtime::{Device, Matrix, MatrixMut, Result, Stream};

/// Computes `c = a * b` on a device, on the default stream: [`Matmul`] with its defaults.
///
/// The matrices may have any strides, so any of them may be transposed. If `a` has no columns (K =
/// 0), `c` becomes 0.
///
/// ```
/// use moye::{Device, Matrix, MatrixMut, matmul};
/// let device = Device::sim();
/// let a = device.upload(&[1.0f32, 2.0, 3.0, 4.0])?;
/// let b = device.upload(&[5.0f32, 6.0])?;
/// let mut c = device.alloc_uninit::<f32>(2)?;
/// matmul(
///     &device,
///     &Matrix::row_major(&a, 2, 2)?, // 1 2 / 3 4
///     &Matrix::row_major(&b, 2, 1)?, // 5 / 6
///     &mut MatrixMut::row_major(&mut c, 2, 1)?,
/// )?;
/// assert_eq!(c.download()?, [17.0, 39.0]);
/// # Ok::<(), moye::Error>(())
/// ```
///
/// # Errors
/// Same as [`Matmul::run`].
pub fn matmul<T: Operand, U: Output<T>>(
    device: &Device,
    a: &Matrix<'_, T>,
    b: &Matrix<'_, T>,
    c: &mut MatrixMut<'_, U>,
) -> Result<()> {
    // SAFETY: the default stream runs its launches in order, a transfer waits for earlier launches
    // and delays later ones, and the memory of a dropped buffer is freed after them. A caller that
    // launches on another stream has promised that no other work, this call included, accesses that
    // launch's data before it has completed.
    unsafe { matmul_on(&device.default_stream(), a, b, c) }
}

/// [`matmul`] on a stream.
///
/// # Errors
/// Same as [`Matmul::run`].
///
/// # Safety
/// The call returns while the product is computed, and its borrows end with it. Until the product
/// is complete, no other stream (the default one included) may write the elements of `a` or `b`, or
/// read or write those of `c`. This holds for launches and for safe calls, such as [`matmul`].
/// [`Stream::synchronize`] waits for the product, and so does every transfer.
pub unsafe fn matmul_on<T: Operand, U: Output<T>>(
    stream: &Stream,
    a: &Matrix<'_, T>,
    b: &Matrix<'_, T>,
    c: &mut MatrixMut<'_, U>,
) -> Result<()> {
    // SAFETY: no other stream writes `a` or `b`, or uses `c`, until the product is complete.
    unsafe { Matmul::new(a.clone(), b.clone()).run_on(stream, c) }
}
