//! Copies and transposes of matrices, by the fastest kernel for the layouts of source and
//! destination.
//!
//! [`plan`] has the operation, and [`declared`] its declarations. [`rearrange`] and [`repack`] move
//! the operands of products.

mod declared;
mod plan;
pub mod rearrange;
pub mod repack;

pub use self::declared::{COPY, TRANSPOSE};

use self::plan::{Addresses, Movement, Problem, Side};
use moye_device::memory::Element;
use moye_runtime::operation::{self, Operation, Shape, same_device};
use moye_runtime::{Device, Error, Matrix, MatrixMut, Result, Stream};

/// Copies `src` to `dst`, of the same shape and any strides, on the default stream of a device.
///
/// # Errors
/// [`Error::ShapeMismatch`] if the shapes differ, [`Error::MatrixTooLarge`] if an extent exceeds
/// 2,147,483,391 (2^31 - 257) or there are more than 2^31 - 1 tiles of 64 x 64, and the errors of
/// [`Device::launch`].
pub fn copy<T: Element>(device: &Device, src: &Matrix<'_, T>, dst: &mut MatrixMut<'_, T>) -> Result<()> {
    // SAFETY: the default stream runs its work in order, as in `matmul`.
    unsafe { copy_on(&device.default_stream(), src, dst) }
}

/// [`copy`] on a stream.
///
/// # Errors
/// Same as [`copy`].
///
/// # Safety
/// The call returns while the elements are copied, and its borrows end with it. Until the copy is
/// complete, no other stream (the default one included) may write the elements of `src`, or read or
/// write those of `dst`. This holds for launches and for safe calls, such as [`copy`].
/// [`Stream::synchronize`] waits for it, and so does every transfer.
pub unsafe fn copy_on<T: Element>(
    stream: &Stream,
    src: &Matrix<'_, T>,
    dst: &mut MatrixMut<'_, T>,
) -> Result<()> {
    // SAFETY: no other stream writes the elements of `src` or uses those of `dst`.
    unsafe { run::<T, false>(stream, src, dst) }
}

/// The name of the kernel of [`copy`]; `None` if there is no element. Another kernel copies the
/// last elements of each line if they do not fill a vector of 16 bytes.
///
/// # Errors
/// Same as [`copy`].
pub fn explain_copy<T: Element>(
    device: &Device,
    src: &Matrix<'_, T>,
    dst: &mut MatrixMut<'_, T>,
) -> Result<Option<&'static str>> {
    explain::<T, false>(device, src, dst)
}

/// Writes the transpose of `src` to `dst`, an `m x n` matrix to an `n x m` one with any strides, on
/// the default stream of a device.
///
/// For a transposed view without a copy, see [`Matrix::t`].
///
/// # Errors
/// Same as [`copy`].
pub fn transpose<T: Element>(device: &Device, src: &Matrix<'_, T>, dst: &mut MatrixMut<'_, T>) -> Result<()> {
    // SAFETY: the default stream runs its work in order, as in `matmul`.
    unsafe { transpose_on(&device.default_stream(), src, dst) }
}

/// [`transpose`] on a stream.
///
/// # Errors
/// Same as [`copy`].
///
/// # Safety
/// Same contract as [`copy_on`].
pub unsafe fn transpose_on<T: Element>(
    stream: &Stream,
    src: &Matrix<'_, T>,
    dst: &mut MatrixMut<'_, T>,
) -> Result<()> {
    // SAFETY: no other stream writes the elements of `src` or uses those of `dst`.
    unsafe { run::<T, true>(stream, src, dst) }
}

/// The name of the kernel of [`transpose`]: see [`explain_copy`].
///
/// # Errors
/// Same as [`copy`].
pub fn explain_transpose<T: Element>(
    device: &Device,
    src: &Matrix<'_, T>,
    dst: &mut MatrixMut<'_, T>,
) -> Result<Option<&'static str>> {
    explain::<T, true>(device, src, dst)
}

/// The checked problem of a call and its addresses; `None` if there is no element.
fn problem<T: Element, const TRANSPOSED: bool>(
    device: &Device,
    src: &Matrix<'_, T>,
    dst: &mut MatrixMut<'_, T>,
) -> Result<Option<(Problem, Addresses)>> {
    let operation = Movement::<TRANSPOSED>::NAME;
    let (from, to) = (src.shape(), dst.shape());
    // In the order of the source's modes.
    let to = if TRANSPOSED { to.t() } else { to };
    if (from.rows, from.cols) != (to.rows, to.cols) {
        let Shape { rows, cols, .. } = dst.shape();
        let (m, n) = (from.rows, from.cols);
        let detail = match TRANSPOSED {
            true => format!("src is {m}x{n}, so dst must be {n}x{m}, not {rows}x{cols}"),
            false => format!("src is {m}x{n} and dst is {rows}x{cols}; their shapes must be equal"),
        };
        return Err(Error::ShapeMismatch { operation, detail });
    }
    same_device(operation, 0, src.device(), device)?;
    same_device(operation, 1, dst.device(), device)?;
    let from_side = Side { address: src.data().address(), strides: from.strides().into() };
    let to_side = Side { address: dst.data_mut().address(), strides: to.strides().into() };
    Problem::of(operation, T::BYTES, [from.rows, from.cols], [from_side, to_side])
}

/// Moves the elements of a matrix.
///
/// # Safety
/// Same contract as [`copy_on`].
unsafe fn run<T: Element, const TRANSPOSED: bool>(
    stream: &Stream,
    src: &Matrix<'_, T>,
    dst: &mut MatrixMut<'_, T>,
) -> Result<()> {
    let problem = problem::<T, TRANSPOSED>(stream.device(), src, dst)?;
    let Some((problem, call)) = problem else { return Ok(()) };
    // SAFETY: both matrices are inside their buffers (`Matrix::new`), and have these extents and
    // strides. `dst` is borrowed mutably, shares no element with `src`, and has no element twice.
    // The caller orders other streams.
    unsafe { operation::run::<Movement<TRANSPOSED>>(stream, &problem, &call) }
}

/// The name of the kernel of [`run`].
fn explain<T: Element, const TRANSPOSED: bool>(
    device: &Device,
    src: &Matrix<'_, T>,
    dst: &mut MatrixMut<'_, T>,
) -> Result<Option<&'static str>> {
    let Some((problem, _)) = problem::<T, TRANSPOSED>(device, src, dst)? else { return Ok(None) };
    let plan = operation::plan::<Movement<TRANSPOSED>>(device, &problem)?;
    Ok(Some(Movement::<TRANSPOSED>::kernel(&plan)))
}
