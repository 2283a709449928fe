//! Matrices copied and transposed.

use crate::device::Device;
use crate::launch::Grid;
use crate::matrix::{Matrix, MatrixMut, Shape, check_device, kernel_extent};
use crate::stream::Stream;
use crate::{Error, Result};
use moye_device::kernels;
use moye_device::memory::{Global, GlobalMut};

/// The extent of the tile that a block moves.
const TILE: u32 = 32;

/// Threads of a block.
const THREADS: u32 = 256;

/// Copies `src` to `dst`, of the same shape and any strides, on the default stream of a device.
///
/// # Errors
/// [`Error::ShapeMismatch`] where the shapes differ, [`Error::MatrixTooLarge`] where an extent is over 2,147,483,647
/// (2^31 - 1) or both are over 2,097,120 (65,535 tiles of 32), and those of [`Device::launch`].
pub fn copy(device: &Device, src: &Matrix<'_, f32>, dst: &mut MatrixMut<'_, f32>) -> Result<()> {
    // SAFETY: the default stream has its work in order, as in `matmul`.
    unsafe { copy_on(&device.default_stream(), src, dst) }
}

/// As [`copy`], on a stream.
///
/// # Errors
/// As for [`copy`].
///
/// # Safety
/// The call returns while the elements are copied, and its borrows end with it. Until the work has ended, no other stream
/// (the default one counts) may write the elements of `src`, or read or write those of `dst`, be it in a launch or in a
/// call that is safe in itself, such as [`copy`]. [`Stream::synchronize`] waits for it, and so does every transfer.
pub unsafe fn copy_on(stream: &Stream, src: &Matrix<'_, f32>, dst: &mut MatrixMut<'_, f32>) -> Result<()> {
    let operation = "copy";
    let (from, to) = (src.shape(), dst.shape());
    if (from.rows, from.cols) != (to.rows, to.cols) {
        let detail = format!(
            "src is {}x{} and dst is {}x{}; they must be alike",
            from.rows, from.cols, to.rows, to.cols
        );
        return Err(Error::ShapeMismatch { operation, detail });
    }
    check_device(operation, 0, src.device(), stream.device())?;
    check_device(operation, 1, dst.device(), stream.device())?;
    // Neighbouring threads take neighbours along M, so M is the axis along which the elements written lie closer.
    let exchange = to.col_stride < to.row_stride;
    let Some((grid, m, n, exchanged)) = plan(operation, from, exchange)? else { return Ok(()) };
    let oriented = |shape: Shape| if exchanged { shape.t().strides() } else { shape.strides() };
    let ((src_m, src_n), (dst_m, dst_n)) = (oriented(from), oriented(to));
    let (src, dst) =
        (Global::from_address(src.data().address()), GlobalMut::from_address(dst.data_mut().address()));
    // SAFETY: both matrices lie within their buffers (`Matrix::new`), the extents and strides passed are theirs, and
    // `dst`, borrowed mutably, shares no element with `src` and holds none twice. The caller answers for what other streams
    // do.
    unsafe { stream.launch(&kernels::copy_async, grid, (src, dst, m, n, src_m, src_n, dst_m, dst_n)) }
}

/// Writes the transposed `src` to `dst`: an `m x n` matrix to an `n x m` one, of any strides, on the default stream of a
/// device.
///
/// To have a transposed matrix without moving anything, see [`Matrix::t`].
///
/// # Errors
/// As for [`copy`].
pub fn transpose(device: &Device, src: &Matrix<'_, f32>, dst: &mut MatrixMut<'_, f32>) -> Result<()> {
    // SAFETY: the default stream has its work in order, as in `matmul`.
    unsafe { transpose_on(&device.default_stream(), src, dst) }
}

/// As [`transpose`], on a stream.
///
/// # Errors
/// As for [`copy`].
///
/// # Safety
/// As for [`copy_on`].
pub unsafe fn transpose_on(
    stream: &Stream,
    src: &Matrix<'_, f32>,
    dst: &mut MatrixMut<'_, f32>,
) -> Result<()> {
    let operation = "transpose";
    let (from, to) = (src.shape(), dst.shape());
    if (from.rows, from.cols) != (to.cols, to.rows) {
        let detail = format!(
            "src is {}x{}, so dst must be {}x{}, not {}x{}",
            from.rows, from.cols, from.cols, from.rows, to.rows, to.cols
        );
        return Err(Error::ShapeMismatch { operation, detail });
    }
    check_device(operation, 0, src.device(), stream.device())?;
    check_device(operation, 1, dst.device(), stream.device())?;
    // The kernel is fastest where the first stride of each matrix is 1.
    let exchange = from.col_stride < from.row_stride;
    let Some((grid, m, n, exchanged)) = plan(operation, from, exchange)? else { return Ok(()) };
    let oriented = |shape: Shape| if exchanged { shape.t().strides() } else { shape.strides() };
    let ((src_m, src_n), (dst_n, dst_m)) = (oriented(from), oriented(to));
    let (src, dst) =
        (Global::from_address(src.data().address()), GlobalMut::from_address(dst.data_mut().address()));
    // SAFETY: as in `copy_on`.
    unsafe { stream.launch(&kernels::transpose, grid, (src, dst, m, n, src_m, src_n, dst_n, dst_m)) }
}

/// The grid for a source of this shape, its extents, and whether its axes are exchanged: as `exchange` wishes, or the
/// other way round where only that fits into a grid. `None` where there is no element.
fn plan(operation: &'static str, shape: Shape, exchange: bool) -> Result<Option<(Grid, u32, u32, bool)>> {
    let extent = |what, value| kernel_extent(operation, what, value);
    let (rows, cols) = (extent("rows", shape.rows)?, extent("columns", shape.cols)?);
    if rows == 0 || cols == 0 {
        return Ok(None);
    }
    let max_tiles = crate::MAX_BLOCKS[1];
    for exchanged in [exchange, !exchange] {
        let (m, n) = if exchanged { (cols, rows) } else { (rows, cols) };
        if n.div_ceil(TILE) <= max_tiles {
            return Ok(Some((Grid::new((m.div_ceil(TILE), n.div_ceil(TILE)), THREADS), m, n, exchanged)));
        }
    }
    let limit = u64::from(max_tiles) * u64::from(TILE);
    let (what, value) = ("the smaller of rows and columns", rows.min(cols) as usize);
    Err(Error::MatrixTooLarge { operation, what, value, limit })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(rows: usize, cols: usize) -> Shape {
        Shape { rows, cols, row_stride: cols, col_stride: 1 }
    }

    #[test]
    fn a_grid_that_is_too_wide_is_turned() {
        let wide = 65536 * 32;
        let (grid, m, n, exchanged) = plan("copy", shape(3, wide), false).unwrap().unwrap();
        assert_eq!((grid.blocks.x, grid.blocks.y, m, n, exchanged), (65536, 1, wide as u32, 3, true));
        let error = plan("copy", shape(wide, wide), false).unwrap_err().to_string();
        assert!(error.contains("2097152") && error.contains("2097120"), "{error}");
        assert!(plan("copy", shape(0, 5), false).unwrap().is_none(), "nothing to do");
    }
}
