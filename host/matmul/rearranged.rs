//! The workspace of a product: its contents, its layout, and the copies to and from it.

use super::element::{Major, Operand};
use super::hopper;
use super::operand::{LINE, View};
use super::plan::Plan;
use super::problem::{MAX_Y, OPERATION, Problem, ROW_ALIGN, blocks};
use crate::kernels::movement::repack::{Lines, Transposed, runs_of};
use crate::kernels::{repack_lines, repack_transposed_u32};
use crate::launch::Grid;
use crate::movement::repack::{Extents, Strided, repack};
use crate::stream::Stream;
use crate::{Error, Result};
use moye_device::memory::{Element, Global, GlobalMut};

/// Alignment of the workspace's regions, in bytes.
const PART_ALIGN: u64 = 256;

/// The start of each region of the workspace, in bytes.
#[derive(Default)]
pub(super) struct Layout {
    pub packed: [Option<u64>; 2],
    pub sums: Option<u64>,
    pub pieces: Option<u64>,
    pub c: Option<u64>,
    pub bytes: u64,
}

impl Layout {
    /// The layout that a plan for a problem needs, with results `U`.
    pub fn of<T: Operand, U: Element>(problem: &Problem<T>, plan: &Plan<T>) -> Result<Self> {
        let [m, n, k] = problem.extents;
        let mut layout = Self::default();
        if k > 0 {
            for (i, extent) in [m, n].into_iter().enumerate() {
                if plan.leading[i].is_none() {
                    let view = problem.operands[i];
                    let batches = if view.batch == 0 { 1 } else { problem.batches };
                    let (along, across) = lines(plan.majors[i], extent, k);
                    let row = packed_row_of(along, view.bytes) * view.bytes;
                    layout.packed[i] =
                        Some(layout.take(u128::from(across) * u128::from(row) * u128::from(batches))?);
                }
            }
            if plan.apart {
                let [rows, columns] = plan.whole_words([m, n]);
                let row = row_of(columns, size_of::<T::Scalar>() as u64) * size_of::<T::Scalar>() as u64;
                let parts = u128::from(plan.splits) * u128::from(problem.batches);
                layout.sums = Some(layout.take(u128::from(rows) * u128::from(row) * parts)?);
            }
            if plan.cut.tiles > 0 {
                let (cluster, [tile_m, tile_n, _]) =
                    (plan.variant.kernel.clusters().blocks(), plan.variant.tile);
                let pieces = plan.cut.tiles * plan.cut.most_pieces(plan.stages(k));
                let bytes = hopper::bytes_of_pieces(pieces, cluster, (tile_m, tile_n));
                layout.pieces = Some(layout.take(bytes.into())?);
            }
        }
        if problem.scattered {
            let row = row_of(n, U::BYTES as u64) * U::BYTES as u64;
            layout.c = Some(layout.take(u128::from(m) * u128::from(row) * u128::from(problem.batches))?);
        }
        Ok(layout)
    }

    fn take(&mut self, bytes: u128) -> Result<u64> {
        let start = self.bytes;
        let end = u128::from(start) + bytes.next_multiple_of(u128::from(PART_ALIGN));
        self.bytes = u64::try_from(end).ok().filter(|&end| end <= i64::MAX as u64).ok_or_else(|| {
            let detail =
                format!("the workspace needs {end} bytes, more than can be addressed; split the matrices");
            Error::Unsupported { operation: OPERATION, detail }
        })?;
        Ok(start)
    }
}

/// Elements of a row in a workspace.
pub(super) fn row_of(extent: u32, bytes: u64) -> u64 {
    u64::from(extent).next_multiple_of(ROW_ALIGN / bytes.min(ROW_ALIGN))
}

/// Elements of a row of a rearranged operand: it starts at a line of the L2 cache, so that whole
/// lines are read.
pub(super) fn packed_row_of(extent: u32, bytes: u64) -> u64 {
    u64::from(extent).next_multiple_of((LINE / bytes).max(1))
}

/// The length of an operand's contiguous lines, and their number.
pub(super) fn lines(major: Major, extent: u32, k: u32) -> (u32, u32) {
    match major {
        Major::K => (k, extent),
        Major::Mn => (extent, k),
    }
}

/// The end of a written row.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Ends {
    /// At the last element.
    Elements,
    /// At a multiple of 16 bytes, padded with zeros: kernels read whole vectors. Rows of a
    /// workspace have room for the padding.
    Words,
}

impl Ends {
    /// The written length of a row of `k` elements of this many bytes, in elements.
    fn of(self, k: u32, bytes: u64) -> u32 {
        match self {
            Self::Elements => k,
            // Extents leave room for it, see `MAX_EXTENT`.
            Self::Words => k.next_multiple_of((WORD / bytes).max(1) as u32),
        }
    }
}

/// A copy of a matrix, in the form that [`rearrange`] takes.
#[derive(Clone, Copy)]
pub(super) struct Move {
    pub from: View,
    pub to: View,
    pub extents: (u32, u32),
    pub batches: u32,
}

impl Move {
    /// The copy as a transpose of 4-byte elements by 16-byte vectors. `None` if it is no such
    /// transpose, or if rows do not start at multiples of 16 bytes.
    fn transposed(&self) -> Option<Transposed> {
        let Self { from, to, extents: (k, rows), batches } = *self;
        let in_words = |view: &View, line: i64| {
            let words = |stride: i64| (stride as u64).wrapping_mul(view.bytes).is_multiple_of(WORD);
            view.address.is_multiple_of(WORD) && words(line) && (batches == 1 || words(view.batch))
        };
        // In these names the source is column-contiguous and the destination row-contiguous.
        let transposes = from.bytes == 4 && from.mn == 1 && to.k == 1;
        (transposes && batches <= MAX_Y && in_words(&from, from.k) && in_words(&to, to.mn)).then(|| {
            Transposed {
                src: Global::from_address(from.address),
                dst: GlobalMut::from_address(to.address),
                src_row: from.k,
                dst_k: to.mn,
                src_batch: from.batch,
                dst_batch: to.batch,
                rows,
                k,
                written: Ends::Words.of(rows, from.bytes),
                batches,
            }
        })
    }

    /// The contiguous lines of the copy. `None` if there are none, see [`lie_in_lines`].
    fn lines(&self, ends: Ends) -> Option<Lines> {
        let Self { from, to, extents: (rows, k), batches } = *self;
        let bytes = |elements: u32| (u64::from(elements) * from.bytes) as u32;
        let distance = |stride: i64| stride * from.bytes as i64;
        lie_in_lines(&from, &to, (rows, k)).then(|| Lines {
            src: Global::from_address(from.address),
            dst: GlobalMut::from_address(to.address),
            src_line: distance(from.mn),
            dst_line: distance(to.mn),
            src_batch: distance(from.batch),
            dst_batch: distance(to.batch),
            lines: rows,
            bytes: bytes(k),
            written: bytes(ends.of(k, from.bytes)),
            batches,
        })
    }
}

/// Copies the operands to the workspace, in one launch for both if possible.
///
/// # Safety
/// Source and destination are in valid memory, the 16-byte padding of written rows included, and do
/// not overlap.
pub(super) unsafe fn rearrange_operands(stream: &Stream, moves: [Option<Move>; 2]) -> Result<()> {
    let (first, second) = match moves {
        [Some(first), second] => (first, second),
        [None, Some(second)] => (second, None),
        [None, None] => return Ok(()),
    };
    let both = match (first.transposed(), second.map(|second| second.transposed())) {
        (Some(first), None) => Some((first, Transposed::NONE)),
        // With other numbers of batches many blocks would be idle.
        (Some(first), Some(Some(second))) if first.batches == second.batches => Some((first, second)),
        _ => None,
    };
    if let Some((first, second)) = both {
        let tiles = blocks("tiles to transpose", first.tiles() + second.tiles())?;
        let grid = Grid::new((tiles, first.batches), 256).dependent();
        // SAFETY: the caller's contract; `transposed` has checked the kernel's requirements.
        return unsafe { stream.launch(&repack_transposed_u32, grid, (first, second)) };
    }
    // With other numbers of batches many blocks would be idle.
    if let Some(second) = second
        && first.batches == second.batches
        && first.batches <= MAX_Y
        && let (Some(first), Some(second)) = (first.lines(Ends::Words), second.lines(Ends::Words))
    {
        // SAFETY: the caller's contract.
        return unsafe { rearrange_lines(stream, first, second) };
    }
    for Move { from, to, extents, batches } in [Some(first), second].into_iter().flatten() {
        // SAFETY: the caller's contract.
        unsafe { rearrange(stream, from, to, extents, Ends::Words, batches)? };
    }
    Ok(())
}

/// Copies `(rows, k)` elements of each batch, with any strides.
///
/// # Safety
/// Source and destination are in valid memory, the padding that `ends` names included, and do not
/// overlap.
pub(super) unsafe fn rearrange(
    stream: &Stream,
    from: View,
    to: View,
    (rows, k): (u32, u32),
    ends: Ends,
    batches: u32,
) -> Result<()> {
    let written = ends.of(k, from.bytes);
    let strided = |View { address, mn, k, batch, .. }| Strided { address, row: mn, k, batch };
    let mut first = 0;
    while first < batches {
        let count = (batches - first).min(MAX_Y);
        let at = |view: View| {
            let address = view.address.wrapping_add((i64::from(first) * view.batch) as u64 * view.bytes);
            View { address, ..view }
        };
        let (from, to) = (at(from), at(to));
        let lines = Move { from, to, extents: (rows, k), batches: count }.lines(ends);
        let extents = Extents { rows, k, written, batches: count };
        // SAFETY: the caller's contract, for these batches.
        unsafe {
            match from.bytes {
                _ if let Some(lines) = lines => rearrange_lines(stream, lines, Lines::NONE),
                bytes => repack(OPERATION, stream, bytes, strided(from), strided(to), extents),
            }?
        }
        first += count;
    }
    Ok(())
}

/// Bytes of a vector of the line copies.
const WORD: u64 = 16;
/// The longest line that is copied by vectors, in bytes.
const LONGEST: u64 = (1 << 32) - 4096;
/// Lines of elements of more than 2 bytes that are shorter than this, in bytes, are copied by
/// tiles.
const SHORT: u64 = 512;
/// The largest number of runs of all lines.
const MOST_RUNS: u64 = (1 << 32) - 8;

/// Whether `k` elements are contiguous on both sides, so that lines are copied as bytes in whole
/// vectors: lines of a workspace start at multiples of 128 bytes.
fn lie_in_lines(from: &View, to: &View, (lines, k): (u32, u32)) -> bool {
    let line = u64::from(k) * from.bytes;
    let counted = line <= LONGEST && u64::from(lines) * u64::from(runs_of(line as u32)) <= MOST_RUNS;
    let words = |stride: i64| (stride as u64).wrapping_mul(to.bytes).is_multiple_of(WORD);
    let aligned = to.address.is_multiple_of(WORD) && words(to.mn) && words(to.batch);
    // Each line has its own warps: short lines of larger elements are copied by tiles.
    let long = from.bytes <= 2 || line >= SHORT;
    from.k == 1 && to.k == 1 && aligned && counted && long
}

/// Copies one matrix that [has contiguous lines](lie_in_lines), or two with equal numbers of
/// batches, at most [`MAX_Y`]. Lines need not be aligned: a word that is written has bytes of two
/// words that are read.
///
/// # Safety
/// As for [`rearrange`], for both.
unsafe fn rearrange_lines(stream: &Stream, first: Lines, second: Lines) -> Result<()> {
    let blocks = blocks("runs of bytes to rearrange", first.blocks() + second.blocks())?;
    let grid = Grid::new((blocks, first.batches), 256).dependent();
    // SAFETY: the caller's contract.
    unsafe { stream.launch(&repack_lines, grid, (first, second)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_transposed_by_words_where_words_begin_on_both_sides() {
        // 100 rows of 7 columns with stride 8; the rows are contiguous in the destination.
        let from = View { address: 256, mn: 1, k: 8, batch: 804, bytes: 4, batches: 2, end: u64::MAX };
        let to = View { address: 512, mn: 128, k: 1, batch: 7 * 128, ..from };
        let transposed =
            |from: View, to: View, batches: u32| Move { from, to, extents: (7, 100), batches }.transposed();
        let to_words = transposed(from, to, 2).unwrap();
        assert_eq!((to_words.rows, to_words.k, to_words.written, to_words.batches), (100, 7, 100, 2));
        assert_eq!(
            (to_words.src_row, to_words.dst_k, to_words.src_batch, to_words.dst_batch),
            (8, 128, 804, 896)
        );
        assert!(transposed(View { address: 260, ..from }, to, 2).is_none(), "words begin elsewhere");
        assert!(transposed(View { k: 7, ..from }, to, 2).is_none(), "rows of 28 bytes");
        assert!(
            transposed(View { batch: 802, ..from }, to, 2).is_none(),
            "the second batch begins within a word"
        );
        assert!(transposed(View { batch: 802, ..from }, to, 1).is_some(), "there is no second one");
        assert!(transposed(View { mn: 2, ..from }, to, 2).is_none(), "every other column");
        assert!(transposed(from, View { k: 2, ..to }, 2).is_none(), "every other row");
        assert!(
            transposed(View { bytes: 8, ..from }, View { bytes: 8, ..to }, 2).is_none(),
            "numbers of 8 bytes"
        );
        assert!(
            transposed(View { batch: 0, ..from }, to, MAX_Y + 1).is_none(),
            "more than a grid has along y"
        );
    }

    #[test]
    fn lines_are_copied_by_words_where_those_that_are_written_begin_with_one_and_can_be_counted() {
        let from = View { address: 257, mn: 1001, k: 1, batch: 0, bytes: 2, batches: 1, end: u64::MAX };
        let to = View { address: 512, mn: 1024, ..from };
        let lies = |from: &View, to: &View| lie_in_lines(from, to, (7, 1001));
        assert!(lies(&from, &to), "wherever lines begin that are read");
        assert!(!lies(&View { k: 2, ..from }, &to), "every other element");
        assert!(!lies(&from, &View { k: 2, ..to }));
        assert!(!lies(&from, &View { address: 520, ..to }), "8 bytes behind a word's begin");
        assert!(!lies(&from, &View { mn: 1028, ..to }), "lines of 2056 bytes");
        assert!(!lies(&from, &View { batch: 7 * 1024 + 4, ..to }), "the same for batches");
        let of = |bytes: u64, lines: u32, k: u32| {
            lie_in_lines(&View { bytes, ..from }, &View { bytes, ..to }, (lines, k))
        };
        assert!(
            of(1, 7, 3) && of(2, 7, 3) && of(4, 7, 128) && !of(4, 7, 127),
            "short lines of larger elements"
        );
        assert!(of(4, 1, 1_073_740_800) && !of(4, 1, 1_073_740_801), "4,294,963,200 bytes and 4 more");
        assert!(of(1, 4_294_967_288, 1) && !of(1, 4_294_967_289, 1), "a run each");
        assert!(of(1, 2_147_483_644, 2064) && !of(1, 2_147_483_645, 2064), "two runs each");
    }
}
