//! Copies and transposes of matrices, by the fastest kernel for the layouts of source and
//! destination.

#[cfg(feature = "matmul-common")]
pub(crate) mod rearrange;
pub(crate) mod repack;

use self::repack::{Extents, Strided, blocks, repack};
use crate::device::Device;
use crate::launch::Grid;
use crate::matrix::{Matrix, MatrixMut, Shape, check_device};
use crate::stream::Stream;
use crate::{Error, Result};
use moye_device::kernel::Kernel;
use moye_device::memory::{Element, Global, GlobalMut};
use moye_kernels::{
    copy_lines, copy_long_lines, transpose_u8, transpose_u16, transpose_u32, transpose_u64, transpose_u128,
    transpose_words_u8, transpose_words_u16,
};

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
/// As for [`copy`].
///
/// # Safety
/// The call returns while the elements are copied, and its borrows end with it. Until the copy is
/// complete, no other stream (the default one included) may write the elements of `src`, or read or
/// write those of `dst`. This holds for launches and for safe calls, such as [`copy`].
/// [`Stream::synchronize`] waits for the copy, and so does every transfer.
pub unsafe fn copy_on<T: Element>(
    stream: &Stream,
    src: &Matrix<'_, T>,
    dst: &mut MatrixMut<'_, T>,
) -> Result<()> {
    let operation = "copy";
    let (from, to) = (src.shape(), dst.shape());
    if (from.rows, from.cols) != (to.rows, to.cols) {
        let detail = format!(
            "src is {}x{} and dst is {}x{}; their shapes must be equal",
            from.rows, from.cols, to.rows, to.cols
        );
        return Err(Error::ShapeMismatch { operation, detail });
    }
    check_device(operation, 0, src.device(), stream.device())?;
    check_device(operation, 1, dst.device(), stream.device())?;
    let extents = extents(operation, from)?;
    let from = Side::new(src.data().address(), from);
    let to = Side::new(dst.data_mut().address(), to);
    // SAFETY: both matrices are inside their buffers (`Matrix::new`), and have these extents and
    // strides. `dst` is borrowed mutably, shares no element with `src`, and has no element twice.
    // The caller orders other streams.
    unsafe { moved::<T>(operation, stream, from, to, extents) }
}

/// Writes the transpose of `src` to `dst`, an `m x n` matrix to an `n x m` one with any strides, on
/// the default stream of a device.
///
/// For a transposed view without a copy, see [`Matrix::t`].
///
/// # Errors
/// As for [`copy`].
pub fn transpose<T: Element>(device: &Device, src: &Matrix<'_, T>, dst: &mut MatrixMut<'_, T>) -> Result<()> {
    // SAFETY: the default stream runs its work in order, as in `matmul`.
    unsafe { transpose_on(&device.default_stream(), src, dst) }
}

/// [`transpose`] on a stream.
///
/// # Errors
/// As for [`copy`].
///
/// # Safety
/// As for [`copy_on`].
pub unsafe fn transpose_on<T: Element>(
    stream: &Stream,
    src: &Matrix<'_, T>,
    dst: &mut MatrixMut<'_, T>,
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
    let extents = extents(operation, from)?;
    let from = Side::new(src.data().address(), from);
    // The destination in the source's order of modes.
    let to = Side::new(dst.data_mut().address(), to.t());
    // SAFETY: as in `copy_on`.
    unsafe { moved::<T>(operation, stream, from, to, extents) }
}

/// The source or the destination: its address, and its strides in elements, with the modes in the
/// same order for both.
#[derive(Clone, Copy, Debug)]
struct Side {
    address: u64,
    strides: [i64; 2],
}

impl Side {
    fn new(address: u64, shape: Shape) -> Self {
        Self { address, strides: shape.strides().into() }
    }

    fn exchanged(self) -> Self {
        Self { strides: [self.strides[1], self.strides[0]], ..self }
    }

    /// The same matrix from element `by` of the first mode on.
    fn from(self, by: u32, bytes: u64) -> Self {
        let moved = (i64::from(by) * self.strides[0]) as u64;
        Self { address: self.address.wrapping_add(moved.wrapping_mul(bytes)), ..self }
    }
}

/// The extents in the kernels' type: one more tile still fits into 31 bits.
fn extents(operation: &'static str, shape: Shape) -> Result<[u32; 2]> {
    const LIMIT: usize = i32::MAX as usize - 256;
    for (what, value) in [("rows", shape.rows), ("columns", shape.cols)] {
        if value > LIMIT {
            return Err(Error::MatrixTooLarge { operation, what, value, limit: LIMIT as u64 });
        }
    }
    Ok([shape.rows as u32, shape.cols as u32])
}

/// The 16-byte vectors of a line if the lines of both sides, along the first mode, are aligned to
/// 16 bytes; otherwise 0.
fn words<T: Element>(from: Side, to: Side, extents: [u32; 2]) -> u32 {
    let bytes = T::BYTES as u64;
    let lines = [from, to].iter().all(|side| {
        let between = (side.strides[1] as u64).wrapping_mul(bytes);
        let start = side.address;
        side.strides[0] == 1 && start.is_multiple_of(16) && (extents[1] <= 1 || between.is_multiple_of(16))
    });
    if lines { (u64::from(extents[0]) * bytes / 16) as u32 } else { 0 }
}

/// Copies elements by the fastest kernel for the layouts of both sides.
///
/// # Safety
/// Both sides are accessible with these extents and strides, and do not overlap, until the work has
/// completed.
unsafe fn moved<T: Element>(
    operation: &'static str,
    stream: &Stream,
    from: Side,
    to: Side,
    extents: [u32; 2],
) -> Result<()> {
    let [rows, columns] = extents;
    if rows == 0 || columns == 0 {
        return Ok(());
    }
    // The destination's mode with the smaller stride becomes the first, but never a mode with a
    // single element.
    if rows == 1 || columns > 1 && to.strides[1] < to.strides[0] {
        // SAFETY: the same elements with the modes swapped; the caller guarantees access.
        return unsafe {
            oriented::<T>(operation, stream, from.exchanged(), to.exchanged(), [columns, rows])
        };
    }
    // SAFETY: both sides are accessible and do not overlap until the work has completed.
    unsafe { oriented::<T>(operation, stream, from, to, extents) }
}

/// [`moved`], with the destination's contiguous mode first.
///
/// # Safety
/// As for [`moved`].
unsafe fn oriented<T: Element>(
    operation: &'static str,
    stream: &Stream,
    from: Side,
    to: Side,
    [m, n]: [u32; 2],
) -> Result<()> {
    let bytes = T::BYTES as u64;
    let words = words::<T>(from, to, [m, n]);
    if words > 0 {
        let per_word = 16 / T::BYTES as i64;
        let (mut m_words, mut lines) = (words, n);
        let mut leading = [from.strides[1], to.strides[1]].map(|stride| stride / per_word);
        let rest = m - (words as i64 * per_word) as u32;
        // Contiguous lines are one line, cut as the kernel prefers.
        let all = u64::from(words) * u64::from(n);
        if rest == 0
            && (n == 1 || leading == [i64::from(words); 2])
            && all.is_multiple_of(LINE)
            && all / LINE <= MAX_LINES
        {
            (m_words, lines, leading) = (LINE as u32, (all / LINE) as u32, [LINE as i64; 2]);
        }
        // The number of lines of a tile.
        let (kernel, at_once) = if m_words >= LONG { (&copy_long_lines, 1) } else { (&copy_lines, 8) };
        let blocks = blocks(operation, m_words.div_ceil(256), lines.div_ceil(at_once))?;
        let pointers = (Global::from_address(from.address), GlobalMut::from_address(to.address));
        // SAFETY: the caller guarantees access; starts and leading dimensions are multiples of 16
        // bytes.
        unsafe {
            let arguments = (pointers.0, pointers.1, m_words, lines, leading[0], leading[1]);
            stream.launch(kernel, Grid::new(blocks, 256).dependent(), arguments)?;
        }
        if rest == 0 {
            return Ok(());
        }
        let done = m - rest;
        // SAFETY: the caller guarantees access to the last rows too.
        return unsafe {
            tiles::<T>(operation, stream, from.from(done, bytes), to.from(done, bytes), [rest, n])
        };
    }
    // SAFETY: both sides are accessible and do not overlap.
    unsafe { tiles::<T>(operation, stream, from, to, [m, n]) }
}

/// 16-byte vectors of the pieces of one long line.
const LINE: u64 = 4096;
/// Vectors of a long line: from this number on, at most an eighth of its blocks' threads are idle.
const LONG: u32 = 2048;
/// The largest number of lines of a launch.
const MAX_LINES: u64 = i32::MAX as u64 - 256;

/// Copies element by element, tile by tile.
///
/// # Safety
/// As for [`moved`].
unsafe fn tiles<T: Element>(
    operation: &'static str,
    stream: &Stream,
    from: Side,
    to: Side,
    [m, n]: [u32; 2],
) -> Result<()> {
    if from.strides[1] != 1 || to.strides[0] != 1 {
        // `repack` is fastest if its K is the destination's contiguous mode.
        let strided =
            |Side { address, strides }| Strided { address, row: strides[1], k: strides[0], batch: 0 };
        let extents = Extents { rows: n, k: m, written: m, batches: 1 };
        // SAFETY: both sides are accessible and do not overlap.
        return unsafe { repack(operation, stream, T::BYTES as u64, strided(from), strided(to), extents) };
    }
    let transpose = Transpose { operation, stream, from, to, extents: [n, m] };
    // SAFETY: the caller guarantees access to elements of this size, of any type.
    unsafe {
        match T::BYTES {
            1 if in_words(1, from, to, [m, n]) => transpose.by(&transpose_words_u8, [128, 128]),
            2 if in_words(2, from, to, [m, n]) => transpose.by(&transpose_words_u16, [64, 128]),
            1 => transpose.by(&transpose_u8, [64, 64]),
            2 => transpose.by(&transpose_u16, [64, 64]),
            4 => transpose.by(&transpose_u32, [64, 64]),
            8 => transpose.by(&transpose_u64, [64, 64]),
            _ => transpose.by(&transpose_u128, [32, 32]),
        }
    }
}

/// Whether the lines of both sides consist of 4-byte words, for elements of this many bytes.
fn in_words(bytes: usize, from: Side, to: Side, [m, n]: [u32; 2]) -> bool {
    let whole = |elements: i64| (elements as u64).wrapping_mul(bytes as u64).is_multiple_of(4);
    let lines = [m.into(), n.into(), from.strides[0], to.strides[1]].into_iter().all(whole);
    lines && from.address.is_multiple_of(4) && to.address.is_multiple_of(4)
}

/// A transpose with unit strides on both sides: the extents are the source's, the contiguous mode
/// first.
struct Transpose<'a> {
    operation: &'static str,
    stream: &'a Stream,
    from: Side,
    to: Side,
    extents: [u32; 2],
}

impl Transpose<'_> {
    /// Launches a kernel with this tile.
    ///
    /// # Safety
    /// As for [`moved`]; lines of both sides consist of words `W`.
    unsafe fn by<W: Element>(
        &self,
        kernel: &Kernel<(Global<W>, GlobalMut<W>, u32, u32, i64, i64)>,
        tile: [u32; 2],
    ) -> Result<()> {
        let Self { operation, stream, from, to, extents: [m, n] } = *self;
        let blocks = blocks(operation, m.div_ceil(tile[0]), n.div_ceil(tile[1]))?;
        let (src, dst) = (Global::from_address(from.address), GlobalMut::from_address(to.address));
        let arguments = (src, dst, m, n, from.strides[0], to.strides[1]);
        // SAFETY: both sides are accessible lines of words `W`.
        unsafe { stream.launch(kernel, Grid::new(blocks, 256).dependent(), arguments) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(address: u64, strides: [i64; 2]) -> Side {
        Side { address, strides }
    }

    #[test]
    fn lines_of_both_sides_are_words_where_all_start_at_multiples_of_16_bytes() {
        let aligned = side(256, [1, 8]);
        assert_eq!(words::<f32>(aligned, aligned, [7, 5]), 1, "the rest of a line is no word");
        assert_eq!(words::<f32>(aligned, aligned, [8, 5]), 2);
        assert_eq!(words::<f32>(aligned, side(256, [1, 7]), [7, 5]), 0, "the second line starts at byte 28");
        assert_eq!(words::<f32>(aligned, side(256, [1, 7]), [7, 1]), 1, "there is no second line");
        assert_eq!(words::<f32>(side(260, [1, 8]), aligned, [8, 5]), 0, "an odd start");
        assert_eq!(words::<f32>(side(256, [2, 8]), aligned, [4, 5]), 0, "every other element");
        assert_eq!(words::<u128>(side(256, [1, 3]), aligned, [3, 5]), 3);
    }

    #[test]
    fn small_elements_are_transposed_by_words_where_lines_of_both_sides_are_such() {
        let (from, to) = (side(256, [96, 1]), side(512, [1, 64]));
        assert!(in_words(1, from, to, [64, 96]));
        assert!(in_words(2, from, to, [64, 96]));
        assert!(!in_words(1, from, to, [62, 96]), "rows of the destination end within a word");
        assert!(in_words(2, from, to, [62, 96]));
        assert!(!in_words(2, from, to, [64, 95]), "rows of the source do");
        assert!(!in_words(1, side(258, [96, 1]), to, [64, 96]), "the source begins within a word");
        assert!(!in_words(2, from, side(514, [1, 64]), [64, 96]), "the destination does");
        assert!(!in_words(1, side(256, [98, 1]), to, [64, 96]), "the source's second row does");
        assert!(!in_words(2, from, side(512, [1, 65]), [64, 96]), "the destination's second row does");
    }
}
