//! Copies of operands to and from a workspace, by a kernel for their strides: contiguous lines as
//! bytes, transposes of 4-byte elements by vectors, everything else by tiles.

use super::repack::{Extents, Strided, grid_blocks, repack};
use crate::PTX;
use crate::kernels::repack::{Lines, Transposed, runs_of};
use crate::kernels::{repack_lines, repack_transposed_u32};
use moye_device::memory::{Global, GlobalMut};
use moye_runtime::{Grid, MAX_BLOCKS, Result, Stream};

/// The limit of batches, which are blocks along the grid's y.
const MAX_Y: u32 = MAX_BLOCKS[1];
/// Bytes of a vector.
const VECTOR: u64 = 16;
/// The longest line that is copied by vectors, in bytes.
const LONGEST: u64 = (1 << 32) - 4096;
/// Lines of elements of more than 2 bytes that are shorter than this, in bytes, are copied by
/// tiles, because the kernel of lines assigns whole warps to each line.
const SHORT: u64 = 512;
/// The maximum number of runs of all lines.
const MOST_RUNS: u64 = (1 << 32) - 8;

/// The end of a written row.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum RowEnd {
    /// At the last element.
    Element,
    /// At a multiple of 16 bytes, padded with zeros, because kernels read whole vectors. Rows of a
    /// workspace have room for the padding.
    Vector,
}

impl RowEnd {
    /// The written length of a row of `k` elements of this many bytes, in elements.
    fn of(self, k: u32, bytes: u64) -> u32 {
        match self {
            Self::Element => k,
            Self::Vector => k.next_multiple_of((VECTOR / bytes).max(1) as u32),
        }
    }
}

/// A copy of `rows x k` elements of each batch. It is fastest if K is the destination's contiguous
/// mode.
#[derive(Clone, Copy, Debug)]
pub struct Rearrangement {
    /// The source.
    pub from: Strided,
    /// The destination.
    pub to: Strided,
    /// Bytes of an element.
    pub bytes: u64,
    /// Rows of a batch.
    pub rows: u32,
    /// Columns of a batch.
    pub k: u32,
    /// The number of batches.
    pub batches: u32,
}

impl Rearrangement {
    /// Launches the copy.
    ///
    /// # Errors
    /// Same as [`repack`].
    ///
    /// # Safety
    /// Source and destination are in valid memory, including the padding that `end` implies, and do
    /// not overlap.
    pub unsafe fn launch(self, operation: &'static str, stream: &Stream, end: RowEnd) -> Result<()> {
        let Self { bytes, rows, k, batches, .. } = self;
        let written = end.of(k, bytes);
        let mut first = 0;
        while first < batches {
            let count = (batches - first).min(MAX_Y);
            let at = |side: Strided| {
                let address = side.address.wrapping_add((i64::from(first) * side.batch) as u64 * bytes);
                Strided { address, ..side }
            };
            let part = Self { from: at(self.from), to: at(self.to), batches: count, ..self };
            // SAFETY: the caller guarantees both matrices, of which these are batches.
            unsafe {
                match part.lines(end) {
                    Some(lines) => launch_lines(operation, stream, lines, Lines::NONE)?,
                    None => {
                        let extents = Extents { rows, k, written, batches: count };
                        repack(operation, stream, bytes, part.from, part.to, extents)?;
                    }
                }
            }
            first += count;
        }
        Ok(())
    }

    /// Whether lines of this stride, and batches, start at multiples of 16 bytes.
    fn in_vectors(&self, side: Strided, stride: i64, batches: u32) -> bool {
        let vectors = |stride: i64| (stride as u64).wrapping_mul(self.bytes).is_multiple_of(VECTOR);
        side.address.is_multiple_of(VECTOR) && vectors(stride) && (batches == 1 || vectors(side.batch))
    }

    /// The copy as a transpose of 4-byte elements by 16-byte vectors. `None` if it is another copy,
    /// or if rows do not start at multiples of 16 bytes.
    fn transposed(&self) -> Option<Transposed> {
        // In these names the source is column-contiguous and the destination row-contiguous.
        let Self { from, to, bytes, rows: k, k: rows, batches } = *self;
        let transposes = bytes == 4 && from.row == 1 && to.k == 1 && batches <= MAX_Y;
        let aligned = self.in_vectors(from, from.k, batches) && self.in_vectors(to, to.row, batches);
        (transposes && aligned).then(|| Transposed {
            src: Global::from_address(from.address),
            dst: GlobalMut::from_address(to.address),
            src_row: from.k,
            dst_k: to.row,
            src_batch: from.batch,
            dst_batch: to.batch,
            rows,
            k,
            written: RowEnd::Vector.of(rows, bytes),
            batches,
        })
    }

    /// The copy as bytes of lines that are contiguous in source and destination. A source line may
    /// start anywhere: a written vector combines bytes of two read vectors. `None` if lines are not
    /// contiguous, too short or too many, or if destination lines start within a vector.
    fn lines(&self, end: RowEnd) -> Option<Lines> {
        let Self { from, to, bytes, rows, k, batches } = *self;
        let line = u64::from(k) * bytes;
        let counted = line <= LONGEST && u64::from(rows) * u64::from(runs_of(line as u32)) <= MOST_RUNS;
        let aligned = self.in_vectors(to, to.row, 2);
        let long = bytes <= 2 || line >= SHORT;
        let distance = |stride: i64| stride * bytes as i64;
        (from.k == 1 && to.k == 1 && aligned && counted && long).then(|| Lines {
            src: Global::from_address(from.address),
            dst: GlobalMut::from_address(to.address),
            src_line: distance(from.row),
            dst_line: distance(to.row),
            src_batch: distance(from.batch),
            dst_batch: distance(to.batch),
            lines: rows,
            bytes: line as u32,
            written: (u64::from(end.of(k, bytes)) * bytes) as u32,
            batches,
        })
    }
}

/// Copies the operands of a product to the workspace, padded to 16-byte vectors, in one launch for
/// both if possible. With different numbers of batches many blocks of one launch would be idle.
///
/// # Errors
/// Same as [`repack`].
///
/// # Safety
/// Same contract as [`Rearrangement::launch`], for both.
pub unsafe fn rearrange_operands(
    operation: &'static str,
    stream: &Stream,
    operands: [Option<Rearrangement>; 2],
) -> Result<()> {
    let (first, second) = match operands {
        [Some(first), second] => (first, second),
        [None, Some(second)] => (second, None),
        [None, None] => return Ok(()),
    };
    let both = match (first.transposed(), second.map(|second| second.transposed())) {
        (Some(first), None) => Some((first, Transposed::NONE)),
        (Some(first), Some(Some(second))) if first.batches == second.batches => Some((first, second)),
        _ => None,
    };
    if let Some((first, second)) = both {
        let tiles = grid_blocks(operation, "tiles to transpose", first.tiles() + second.tiles())?;
        let grid = Grid::new((tiles, first.batches), 256).dependent();
        // SAFETY: the caller guarantees the operands' memory; `transposed` has checked the kernel's
        // requirements.
        return unsafe { PTX.launch(stream, &repack_transposed_u32, grid, (first, second)) };
    }
    if let Some(second) = second
        && first.batches == second.batches
        && first.batches <= MAX_Y
        && let (Some(first), Some(second)) = (first.lines(RowEnd::Vector), second.lines(RowEnd::Vector))
    {
        // SAFETY: the caller guarantees that both copies' memory is valid, including the padding,
        // and does not overlap.
        return unsafe { launch_lines(operation, stream, first, second) };
    }
    for operand in [Some(first), second].into_iter().flatten() {
        // SAFETY: the caller guarantees that source and destination are valid, including the
        // padding, and do not overlap.
        unsafe { operand.launch(operation, stream, RowEnd::Vector)? };
    }
    Ok(())
}

/// Copies the lines of one matrix, or of two with equal numbers of batches, at most [`MAX_Y`].
///
/// # Safety
/// Same contract as [`Rearrangement::launch`], for both.
unsafe fn launch_lines(operation: &'static str, stream: &Stream, first: Lines, second: Lines) -> Result<()> {
    let blocks = grid_blocks(operation, "runs of bytes to rearrange", first.blocks() + second.blocks())?;
    let grid = Grid::new((blocks, first.batches), 256).dependent();
    // SAFETY: the caller guarantees that source and destination of both are valid, including the
    // padding, and do not overlap. `lines` has checked the alignment.
    unsafe { PTX.launch(stream, &repack_lines, grid, (first, second)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_byte_elements_are_transposed_by_vectors_where_vectors_start_on_both_sides() {
        // 100 rows of 7 columns with stride 8; the rows are contiguous in the destination.
        let from = Strided { address: 256, row: 1, k: 8, batch: 804 };
        let to = Strided { address: 512, row: 128, k: 1, batch: 7 * 128 };
        let copy = Rearrangement { from, to, bytes: 4, rows: 7, k: 100, batches: 2 };
        let got = copy.transposed().unwrap();
        assert_eq!((got.rows, got.k, got.written, got.batches), (100, 7, 100, 2));
        assert_eq!((got.src_row, got.dst_k, got.src_batch, got.dst_batch), (8, 128, 804, 896));
        let of = |from, to, batches| Rearrangement { from, to, batches, ..copy }.transposed();
        assert!(of(Strided { address: 260, ..from }, to, 2).is_none(), "vectors start elsewhere");
        assert!(of(Strided { k: 7, ..from }, to, 2).is_none(), "rows of 28 bytes");
        let odd = Strided { batch: 802, ..from };
        assert!(of(odd, to, 2).is_none(), "the second batch starts within a vector");
        assert!(of(odd, to, 1).is_some(), "there is no second batch");
        assert!(of(Strided { row: 2, ..from }, to, 2).is_none(), "every other column");
        assert!(of(from, Strided { k: 2, ..to }, 2).is_none(), "every other row");
        assert!(Rearrangement { bytes: 8, ..copy }.transposed().is_none(), "elements of 8 bytes");
        let many = of(Strided { batch: 0, ..from }, to, MAX_Y + 1);
        assert!(many.is_none(), "more batches than a grid has along y");
    }

    #[test]
    fn lines_are_copied_by_vectors_where_written_lines_start_at_vectors_and_can_be_counted() {
        let from = Strided { address: 257, row: 1001, k: 1, batch: 0 };
        let to = Strided { address: 512, row: 1024, ..from };
        let copy = Rearrangement { from, to, bytes: 2, rows: 7, k: 1001, batches: 1 };
        let by_lines = |copy: Rearrangement| copy.lines(RowEnd::Vector).is_some();
        assert!(by_lines(copy), "lines that are read start anywhere");
        let of = |from, to| by_lines(Rearrangement { from, to, ..copy });
        assert!(!of(Strided { k: 2, ..from }, to), "every other element");
        assert!(!of(from, Strided { k: 2, ..to }), "every other element");
        assert!(!of(from, Strided { address: 520, ..to }), "8 bytes into a vector");
        assert!(!of(from, Strided { row: 1028, ..to }), "lines of 2056 bytes");
        assert!(!of(from, Strided { batch: 7 * 1024 + 4, ..to }), "the same for batches");
        let of = |bytes, rows, k| by_lines(Rearrangement { bytes, rows, k, ..copy });
        assert!(of(1, 7, 3) && of(2, 7, 3) && of(4, 7, 128), "short lines of small elements");
        assert!(!of(4, 7, 127), "short lines of larger elements");
        assert!(of(4, 1, 1_073_740_800) && !of(4, 1, 1_073_740_801), "4,294,963,200 bytes and 4 more");
        assert!(of(1, 4_294_967_288, 1) && !of(1, 4_294_967_289, 1), "a run each");
        assert!(of(1, 2_147_483_644, 2064) && !of(1, 2_147_483_645, 2064), "two runs each");
    }
}
