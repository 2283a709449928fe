//! Matrix multiplication.

mod problem;
mod select;

use crate::device::Device;
use crate::launch::Grid;
use crate::matrix::{Matrix, MatrixMut, Shape, check_device};
use crate::stream::Stream;
use crate::{Error, Result};
use problem::Problem;
use select::{THREADS, TILE};

/// Computes `c = a * b` on a device: launches the kernel that suits the matrices, on the default stream.
///
/// The matrices may have any strides, so any of them may be transposed. Where there is nothing to add up (`a` has no
/// columns), `c` becomes 0.
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
/// [`Error::ShapeMismatch`] where the shapes do not fit, [`Error::MatrixTooLarge`] where M, N or K is over 2,147,483,647
/// (2^31 - 1) or both M and N are over 8,388,480 (65,535 tiles of 128), and those of [`Device::launch`].
pub fn matmul(
    device: &Device,
    a: &Matrix<'_, f32>,
    b: &Matrix<'_, f32>,
    c: &mut MatrixMut<'_, f32>,
) -> Result<()> {
    // SAFETY: the default stream runs its launches one after the other, a transfer waits for those before it and holds up
    // those after it, and the memory of a dropped buffer is freed when they have ended. Whoever launches on another stream
    // has promised that nothing else, this call included, meets that launch's data before it has ended.
    unsafe { matmul_on(&device.default_stream(), a, b, c) }
}

/// As [`matmul`], on a stream.
///
/// # Errors
/// As for [`matmul`].
///
/// # Safety
/// The call returns while the product is computed, and its borrows end with it. Until the work has ended, no other stream
/// (the default one counts) may write the elements of `a` or `b`, or read or write those of `c`, be it in a launch or in a
/// call that is safe in itself, such as [`matmul`]. [`Stream::synchronize`] waits for it, and so does every transfer.
pub unsafe fn matmul_on(
    stream: &Stream,
    a: &Matrix<'_, f32>,
    b: &Matrix<'_, f32>,
    c: &mut MatrixMut<'_, f32>,
) -> Result<()> {
    check_shapes(a.shape(), b.shape(), c.shape())?;
    for (argument, device) in [a.device(), b.device(), c.device()].into_iter().enumerate() {
        check_device("matmul", argument, device, stream.device())?;
    }
    let problem = Problem::new(a, b, c, TILE)?;
    if problem.is_empty() {
        return Ok(());
    }
    let kernel = select::select(&problem);
    let grid = Grid::new((problem.m.div_ceil(TILE), problem.n.div_ceil(TILE)), THREADS);
    // SAFETY: the three matrices lie within their buffers (`Matrix::new`), the extents and strides passed are theirs,
    // and `c`, borrowed mutably, shares no element with the others and holds none twice. The caller answers for what other
    // streams do.
    unsafe { stream.launch(&kernel, grid, problem.parameters()) }
}

/// The name of the kernel that [`matmul`] launches for these matrices.
///
/// # Errors
/// As for [`matmul`], as far as they do not need the launch.
pub fn matmul_kernel(
    a: &Matrix<'_, f32>,
    b: &Matrix<'_, f32>,
    c: &mut MatrixMut<'_, f32>,
) -> Result<&'static str> {
    check_shapes(a.shape(), b.shape(), c.shape())?;
    Ok(select::select(&Problem::new(a, b, c, TILE)?).name())
}

/// Checks that the shapes are (M, K), (K, N) and (M, N).
fn check_shapes(a: Shape, b: Shape, c: Shape) -> Result<()> {
    let operation = "matmul";
    if a.cols != b.rows {
        let detail = format!(
            "a is {}x{} and b is {}x{}; a must have as many columns as b has rows",
            a.rows, a.cols, b.rows, b.cols
        );
        return Err(Error::ShapeMismatch { operation, detail });
    }
    if (c.rows, c.cols) != (a.rows, b.cols) {
        let detail = format!(
            "the product of {}x{} and {}x{} is {}x{}, but c is {}x{}",
            a.rows, a.cols, b.rows, b.cols, a.rows, b.cols, c.rows, c.cols
        );
        return Err(Error::ShapeMismatch { operation, detail });
    }
    Ok(())
}
