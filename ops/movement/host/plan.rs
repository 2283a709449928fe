//! The plan of a copy or a transpose, by the layouts of both sides: whole lines in vectors of 16
//! bytes, and other elements by tiles.

use super::repack::{self, Extents, Strided, blocks, repack};
use crate::PTX;
use crate::kernels::{
    copy_lines, copy_long_lines, transpose_u8, transpose_u16, transpose_u32, transpose_u64, transpose_u128,
    transpose_words_u8, transpose_words_u16,
};
use moye_device::kernel::Kernel;
use moye_device::memory::{Global, GlobalMut};
use moye_runtime::operation::{Launcher, Operation};
use moye_runtime::{Error, Grid, Ptx, Rates, Result, Stream};
use std::hash::{Hash, Hasher};

/// 16-byte vectors of a line into which lines without gaps are cut.
const LINE: u64 = 4096;
/// Vectors of a long line: from this number on at most an eighth of its blocks' threads are idle.
const LONG: u32 = 2048;
/// The largest number of lines of a launch.
const MAX_LINES: u64 = i32::MAX as u64 - 256;

/// A copy, or a transpose: the same elements in another order of modes.
pub(super) struct Movement<const TRANSPOSED: bool>;

/// One side: the address of the first element, in a problem modulo 16, and the strides in elements.
/// Both sides have their modes in the same order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Side {
    pub address: u64,
    pub strides: [i64; 2],
}

/// The addresses of source and destination.
pub(super) type Addresses = (u64, u64);

/// The properties that determine the kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Problem {
    /// Bytes of an element.
    bytes: usize,
    extents: [u32; 2],
    from: Side,
    to: Side,
}

/// A hash of a few words: with the addresses it is the key of a repeated call.
impl Hash for Problem {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let ([m, n], [first, second]) = (self.extents, self.from.strides);
        state.write_u64(u64::from(m) << 32 | u64::from(n));
        state.write_i64(first ^ second.rotate_left(32));
    }
}

impl Problem {
    /// The problem of a movement, and the addresses of both sides. `None` if there is no element.
    ///
    /// # Errors
    /// [`Error::MatrixTooLarge`] if an extent exceeds what the kernels count.
    pub fn of(
        operation: &'static str,
        bytes: usize,
        [rows, cols]: [usize; 2],
        [from, to]: [Side; 2],
    ) -> Result<Option<(Self, Addresses)>> {
        // One more tile still fits into 31 bits.
        const LIMIT: usize = i32::MAX as usize - 256;
        for (what, value) in [("rows", rows), ("columns", cols)] {
            if value > LIMIT {
                return Err(Error::MatrixTooLarge { operation, what, value, limit: LIMIT as u64 });
            }
        }
        if rows == 0 || cols == 0 {
            return Ok(None);
        }
        // The destination's mode with the smaller stride becomes the first, but never a mode with a
        // single element.
        let swaps = rows == 1 || cols > 1 && to.strides[1] < to.strides[0];
        let ordered = |[first, second]: [i64; 2]| if swaps { [second, first] } else { [first, second] };
        let side = |of: Side| Side { address: of.address % 16, strides: ordered(of.strides) };
        let extents = if swaps { [cols as u32, rows as u32] } else { [rows as u32, cols as u32] };
        let problem = Self { bytes, extents, from: side(from), to: side(to) };
        Ok(Some((problem, (from.address, to.address))))
    }

    /// The problem with the addresses of a call.
    const fn at(self, (from, to): Addresses) -> Self {
        let (of_from, of_to) = (self.from.strides, self.to.strides);
        let (from, to) = (Side { address: from, strides: of_from }, Side { address: to, strides: of_to });
        Self { from, to, ..self }
    }

    /// The elements of each line from index `by` on.
    fn rest(self, by: u32) -> Self {
        let [m, n] = self.extents;
        let from = |side: Side| {
            let moved = (i64::from(by) * side.strides[0]) as u64;
            Side { address: side.address.wrapping_add(moved.wrapping_mul(self.bytes as u64)), ..side }
        };
        Self { extents: [m - by, n], from: from(self.from), to: from(self.to), ..self }
    }

    /// The 16-byte vectors of a line on both sides, which is along the first mode and aligned to 16
    /// bytes; 0 if there are none.
    fn vectors(&self) -> u32 {
        let (bytes, [m, n]) = (self.bytes as u64, self.extents);
        let lines = [self.from, self.to].iter().all(|side| {
            let between = (side.strides[1] as u64).wrapping_mul(bytes);
            let start = side.address;
            side.strides[0] == 1 && start.is_multiple_of(16) && (n <= 1 || between.is_multiple_of(16))
        });
        if lines { (u64::from(m) * bytes / 16) as u32 } else { 0 }
    }

    /// Whether lines of both sides of a transpose consist of 4-byte words.
    fn is_in_words(&self) -> bool {
        let (Self { from, to, .. }, [m, n]) = (self, self.extents);
        let whole = |elements: i64| (elements as u64).wrapping_mul(self.bytes as u64).is_multiple_of(4);
        let lines = [m.into(), n.into(), from.strides[0], to.strides[1]].into_iter().all(whole);
        lines && from.address.is_multiple_of(4) && to.address.is_multiple_of(4)
    }
}

/// The kernels of a problem.
#[derive(Clone, Copy)]
pub(super) struct Plan {
    /// Lines in vectors of 16 bytes.
    vectors: Option<Vectors>,
    /// Elements of each line that the vectors have.
    done: u32,
    /// The kernel of the other elements, if there are any.
    tiles: Option<Tiles>,
}

/// Lines of vectors.
#[derive(Clone, Copy)]
struct Vectors {
    of_line: u32,
    lines: u32,
    leading: [i64; 2],
}

/// A kernel that moves elements tile by tile.
#[derive(Clone, Copy)]
enum Tiles {
    /// Any strides. The name of the kernel.
    Repack(&'static str),
    /// Lines of the source are along the second mode, and those of the destination along the first.
    Transpose(Transpose),
}

/// A kernel of [`Tiles::Transpose`].
#[derive(Clone, Copy)]
struct Transpose {
    name: &'static str,
    tile: [u32; 2],
    launch: unsafe fn(&Stream, Grid, &Problem) -> Result<()>,
}

/// A kernel that transposes elements, or words of several, with this tile.
macro_rules! transpose {
    ($kernel:ident: $word:ty, $tile:expr) => {
        Transpose {
            name: $kernel.name(),
            tile: $tile,
            launch: |stream, grid, &Problem { extents: [m, n], from, to, .. }| {
                let src = Global::<$word>::from_address(from.address);
                let dst = GlobalMut::<$word>::from_address(to.address);
                let arguments = (src, dst, n, m, from.strides[0], to.strides[1]);
                // SAFETY: both sides are accessible, and their lines consist of such words.
                unsafe { PTX.launch(stream, &$kernel, grid, arguments) }
            },
        }
    };
}

impl Plan {
    fn of(problem: &Problem) -> Self {
        let (of_line, per_vector) = (problem.vectors(), (16 / problem.bytes) as u32);
        let done = of_line * per_vector;
        let is_whole = done == problem.extents[0];
        let vectors = (of_line > 0).then(|| Vectors::of(problem, of_line, is_whole));
        Self { vectors, done, tiles: (!is_whole).then(|| Tiles::of(&problem.rest(done))) }
    }

    /// Launches the kernels.
    ///
    /// # Safety
    /// Both sides are accessible with these extents and strides, and do not overlap, until the work
    /// has completed.
    unsafe fn launch(&self, operation: &'static str, stream: &Stream, problem: &Problem) -> Result<()> {
        if let Some(vectors) = &self.vectors {
            // SAFETY: the caller guarantees the whole vectors, and `Problem::vectors` has checked
            // that starts and leading dimensions are multiples of 16 bytes.
            unsafe { vectors.launch(operation, stream, problem)? };
        }
        match &self.tiles {
            // SAFETY: the caller guarantees the rest of each line.
            Some(tiles) => unsafe { tiles.launch(operation, stream, &problem.rest(self.done)) },
            None => Ok(()),
        }
    }
}

/// A kernel that copies lines of vectors.
struct OfLines {
    kernel: &'static Kernel<(Global<u128>, GlobalMut<u128>, u32, u32, i64, i64)>,
    /// The lines of its tile.
    of_tile: u32,
}

impl Vectors {
    fn of(problem: &Problem, of_line: u32, is_whole: bool) -> Self {
        let (per_vector, lines) = ((16 / problem.bytes) as i64, problem.extents[1]);
        let leading = [problem.from, problem.to].map(|side| side.strides[1] / per_vector);
        // Lines without gaps between them are one line, cut as the kernel prefers.
        let all = u64::from(of_line) * u64::from(lines);
        let is_one = is_whole && (lines == 1 || leading == [i64::from(of_line); 2]);
        if is_one && all.is_multiple_of(LINE) && all / LINE <= MAX_LINES {
            let (of_line, lines) = (LINE as u32, (all / LINE) as u32);
            return Self { of_line, lines, leading: [LINE as i64; 2] };
        }
        Self { of_line, lines, leading }
    }

    fn kernel(&self) -> OfLines {
        if self.of_line >= LONG {
            OfLines { kernel: &copy_long_lines, of_tile: 1 }
        } else {
            OfLines { kernel: &copy_lines, of_tile: 8 }
        }
    }

    /// Copies the vectors.
    ///
    /// # Safety
    /// Same contract as [`Plan::launch`]; starts and leading dimensions are multiples of 16 bytes.
    unsafe fn launch(&self, operation: &'static str, stream: &Stream, problem: &Problem) -> Result<()> {
        let (Self { of_line, lines, leading }, OfLines { kernel, of_tile }) = (*self, self.kernel());
        let blocks = blocks(operation, of_line.div_ceil(256), lines.div_ceil(of_tile))?;
        let src = Global::from_address(problem.from.address);
        let dst = GlobalMut::from_address(problem.to.address);
        let arguments = (src, dst, of_line, lines, leading[0], leading[1]);
        // SAFETY: both sides have these vectors, which are accessible and aligned.
        unsafe { PTX.launch(stream, kernel, Grid::new(blocks, 256).dependent(), arguments) }
    }
}

impl Tiles {
    fn of(problem: &Problem) -> Self {
        if problem.from.strides[1] != 1 || problem.to.strides[0] != 1 {
            return Self::Repack(repack::kernel(problem.bytes as u64));
        }
        Self::Transpose(match problem.bytes {
            1 if problem.is_in_words() => transpose!(transpose_words_u8: u32, [128, 128]),
            2 if problem.is_in_words() => transpose!(transpose_words_u16: u32, [64, 128]),
            1 => transpose!(transpose_u8: u8, [64, 64]),
            2 => transpose!(transpose_u16: u16, [64, 64]),
            4 => transpose!(transpose_u32: u32, [64, 64]),
            8 => transpose!(transpose_u64: u64, [64, 64]),
            _ => transpose!(transpose_u128: u128, [32, 32]),
        })
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Repack(name) | Self::Transpose(Transpose { name, .. }) => name,
        }
    }

    /// Moves the elements.
    ///
    /// # Safety
    /// Same contract as [`Plan::launch`].
    unsafe fn launch(&self, operation: &'static str, stream: &Stream, problem: &Problem) -> Result<()> {
        let &Problem { bytes, extents: [m, n], from, to } = problem;
        match self {
            Self::Repack(_) => {
                // `repack` is fastest if its K is the destination's contiguous mode.
                let strided =
                    |Side { address, strides: [k, row] }: Side| Strided { address, row, k, batch: 0 };
                let extents = Extents { rows: n, k: m, written: m, batches: 1 };
                // SAFETY: both sides are accessible and do not overlap.
                unsafe { repack(operation, stream, bytes as u64, strided(from), strided(to), extents) }
            }
            Self::Transpose(Transpose { tile, launch, .. }) => {
                let blocks = blocks(operation, n.div_ceil(tile[0]), m.div_ceil(tile[1]))?;
                // SAFETY: both sides are accessible and do not overlap; `Tiles::of` has checked
                // that their lines consist of the kernel's words.
                unsafe { launch(stream, Grid::new(blocks, 256).dependent(), problem) }
            }
        }
    }
}

impl<const TRANSPOSED: bool> Operation for Movement<TRANSPOSED> {
    type Problem = Problem;
    type Plan = Plan;
    type Call = Addresses;

    const NAME: &'static str = if TRANSPOSED { "transpose" } else { "copy" };

    fn ptx() -> &'static Ptx {
        &PTX
    }

    fn candidates(problem: &Problem, _: &Rates) -> Vec<Plan> {
        vec![Plan::of(problem)]
    }

    fn kernel(plan: &Plan) -> &'static str {
        let vectors = plan.vectors.map(|vectors| vectors.kernel().kernel.name());
        vectors.or(plan.tiles.map(|tiles| tiles.name())).unwrap_or_default()
    }

    unsafe fn launch(plan: &Plan, problem: &Problem, call: &Addresses, on: &Launcher<'_>) -> Result<()> {
        // SAFETY: the call has the addresses of the problem's sides, on the stream's device.
        unsafe { plan.launch(Self::NAME, on.stream(), &problem.at(*call)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(address: u64, strides: [i64; 2]) -> Side {
        Side { address, strides }
    }

    #[test]
    fn lines_of_both_sides_are_vectors_where_all_start_at_multiples_of_16_bytes() {
        let vectors = |bytes, from, to, extents| Problem { bytes, extents, from, to }.vectors();
        let aligned = side(256, [1, 8]);
        assert_eq!(vectors(4, aligned, aligned, [7, 5]), 1, "the rest of a line is shorter than a vector");
        assert_eq!(vectors(4, aligned, aligned, [8, 5]), 2);
        assert_eq!(vectors(4, aligned, side(256, [1, 7]), [7, 5]), 0, "the second line starts at byte 28");
        assert_eq!(vectors(4, aligned, side(256, [1, 7]), [7, 1]), 1, "one line");
        assert_eq!(vectors(4, side(260, [1, 8]), aligned, [8, 5]), 0, "an odd start");
        assert_eq!(vectors(4, side(256, [2, 8]), aligned, [4, 5]), 0, "every other element");
        assert_eq!(vectors(16, side(256, [1, 3]), aligned, [3, 5]), 3);
    }

    #[test]
    fn small_elements_are_transposed_by_words_where_lines_of_both_sides_consist_of_words() {
        let in_words = |bytes, from, to, extents| Problem { bytes, extents, from, to }.is_in_words();
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

    /// The names of the kernels: of the vectors, and of the other elements.
    fn kernels(bytes: usize, extents: [usize; 2], sides: [Side; 2]) -> [Option<&'static str>; 2] {
        let (problem, _) = Problem::of("copy", bytes, extents, sides).unwrap().unwrap();
        let plan = Plan::of(&problem);
        [plan.vectors.map(|vectors| vectors.kernel().kernel.name()), plan.tiles.map(|tiles| tiles.name())]
    }

    #[test]
    fn the_plan_has_the_kernels_of_both_sides_layouts() {
        let rows = |leading| side(256, [leading, 1]);
        let columns = |leading| side(256, [1, leading]);
        let copy = |bytes, extents, leading| kernels(bytes, extents, [rows(leading); 2]);
        assert_eq!(copy(4, [5, 1024], 1024), [Some("copy_lines"), None]);
        assert_eq!(copy(4, [5, 8192], 8192), [Some("copy_long_lines"), None]);
        assert_eq!(copy(4, [16, 1024], 1024), [Some("copy_long_lines"), None], "lines without gaps are one");
        assert_eq!(copy(4, [16, 1024], 1028), [Some("copy_lines"), None], "with gaps they are not");
        assert_eq!(copy(4, [5, 1023], 1024), [Some("copy_lines"), Some("repack_u32")]);
        assert_eq!(copy(1, [5, 7], 7), [None, Some("repack_u8")]);
        assert_eq!(kernels(8, [7, 5], [rows(5), columns(7)]), [None, Some("transpose_u64")]);
        assert_eq!(kernels(2, [7, 5], [columns(7), rows(5)]), [None, Some("transpose_u16")]);
        assert_eq!(kernels(2, [8, 6], [columns(8), rows(6)]), [None, Some("transpose_words_u16")]);
        assert_eq!(kernels(1, [8, 4], [columns(8), rows(4)]), [None, Some("transpose_words_u8")]);
    }

    #[test]
    fn problems_are_equal_where_plans_are_and_addresses_are_the_calls() {
        let of = |sides| Problem::of("copy", 4, [8, 6], sides).unwrap().unwrap();
        let (from, to) = (side(256, [6, 1]), side(512, [6, 1]));
        let (problem, call) = of([from, to]);
        let (same, elsewhere) = of([side(768, [6, 1]), to]);
        assert!(problem == same && call == (256, 512) && elsewhere == (768, 512));
        assert!(problem != of([side(260, [6, 1]), to]).0, "another alignment");
        let limit = Problem::of("copy", 4, [1 << 31, 1], [from, to]).unwrap_err().to_string();
        assert!(limit.contains("2147483648") && limit.contains("2147483391"), "{limit}");
        assert!(Problem::of("copy", 4, [0, 6], [from, to]).unwrap().is_none());
    }
}
