//! Builds the launches of a call.

use super::kernel::{
    self, CumsumAcrossKernels, CumsumKernels, CumsumLongKernels, THREADS, THREADS_LONG, cumsum_clear,
};
use crate::prelude::*;

pub const NAME: &str = "cumsum";

/// Warps of a block.
const WARPS: u32 = THREADS / 32;
/// Blocks of an SM whose warps step over rows.
const BLOCKS: u32 = 3;
/// The fewest chunks of a row that has a block for each chunk.
const LONG: u32 = 4;

/// The threads that share a row.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Share {
    /// Warps of a block.
    Warps(u32),
    /// A block for each of some chunks, with words of the workspace between the launches.
    Long { chunks: u32, words: u32 },
    /// A lane of each warp of a block.
    Lane,
}

impl Share {
    /// Chosen by the strides, and by the number of blocks relative to the SMs.
    fn new(of: &Along<2>, card: &Rates) -> Self {
        let &Along { rows, groups, columns, arrays: [x, _], .. } = of;
        let bytes = of.dtype.bytes();
        let (chunks, all) = (columns.div_ceil(kernel::chunk(bytes)), rows * groups);
        // Up to a block of warps, as long as each has an element.
        let parts = columns.div_ceil(kernel::part(bytes)).clamp(1, WARPS).next_power_of_two();
        let (blocks, resident) = (all.div_ceil(WARPS / parts), BLOCKS * card.multiprocessors);
        // A last wave of few blocks would take as long as a full one.
        let idle = blocks.next_multiple_of(resident) - blocks;
        if columns > 1 && rows >= 16 && x.place.element != 1 && x.place.row == 1 {
            Self::Lane
        } else if chunks >= LONG && 4 * idle > blocks {
            Self::Long { chunks, words: all * kernel::words(chunks) }
        } else {
            Self::Warps(parts)
        }
    }
}

/// Cumulative sums of rows.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Cumsum {
    of: Along<2>,
    share: Share,
    /// The address of the words between the launches.
    states: u64,
    /// Whether rows are contiguous, with starts and a length of multiples of 16 bytes.
    aligned: bool,
    exclusive: bool,
}

impl Launch for Cumsum {
    fn ptx() -> &'static Ptx {
        &crate::PTX
    }

    unsafe fn launch(&self, to: To<'_>) -> Result<()> {
        let Along { dtype, rows, groups, columns: n, arrays: [x, y] } = self.of;
        let (of_x, of_y, aligned, exclusive) = (x.place, y.place, self.aligned, self.exclusive);
        let states = GlobalMut::from_address(self.states);
        // SAFETY: the arrays hold the rows, and the workspace the words of long rows.
        of_floats!(NAME, dtype, T => unsafe {
            match self.share {
                Share::Warps(parts) => {
                    let grid = Grid::new((rows.div_ceil(WARPS / parts), groups), THREADS).dependent();
                    let arguments = (x.read(), y.write(), rows, n, of_x, of_y, parts, aligned, exclusive);
                    to.launch(&<T as CumsumKernels>::KERNELS[0], grid, arguments)
                }
                Share::Long { chunks, words } => {
                    let grid = Grid::new(words.div_ceil(THREADS), THREADS).dependent();
                    to.prepare(&cumsum_clear, grid, (states, words))?;
                    let arguments = (x.read(), y.write(), states, n, of_x, of_y, aligned, exclusive);
                    let grid = Grid::new((chunks, rows, groups), THREADS_LONG).dependent();
                    to.launch(&<T as CumsumLongKernels>::KERNELS[0], grid, arguments)
                }
                Share::Lane => {
                    let arguments = (x.read(), y.write(), rows, n, of_x, of_y, exclusive);
                    let grid = Grid::new((rows.div_ceil(32), groups), THREADS).dependent();
                    to.launch(&<T as CumsumAcrossKernels>::KERNELS[0], grid, arguments)
                }
            }
        })
    }
}

/// Element type and shape of the sums: as x.
pub fn results(inputs: &[Option<ArrayType>], _: &Options) -> Result<Vec<ArrayType>> {
    Ok(vec![given(inputs, 0).clone()])
}

/// Computes a call.
///
/// # Safety
/// Same contract as [`moye_runtime::operation::Declaration::run`].
pub unsafe fn compute(on: &On<'_>, call: &Call<'_>) -> Result<()> {
    let (x, y) = (call.operand(0), call.operand(1));
    if x.elements() == 0 {
        return Ok(());
    }
    let of = Along::new(NAME, [Some(x), Some(y)], x.axis(NAME, call.options.int("axis"))?)?;
    let vector = 16 / x.dtype.bytes();
    let aligned =
        (of.columns as usize).is_multiple_of(vector) && of.arrays.iter().all(|x| x.is_of_vectors(vector));
    let share = Share::new(&of, &on.card());
    let bytes = if let Share::Long { words, .. } = share { 8 * words as usize } else { 0 };
    // Held until everything is launched.
    let work = on.workspace(bytes)?;
    let states = work.as_ref().map_or(0, Workspace::address);
    let cumsum = Cumsum { of, share, states, aligned, exclusive: call.options.bool("exclusive") };
    // SAFETY: the call's arrays are on the stream's device until the work is complete.
    unsafe { on.launch(&cumsum) }
}
