//! The extents of a launch.

use crate::device::{MAX_BLOCKS, MAX_THREADS, MAX_THREADS_PER_BLOCK};
use crate::{Error, Result};
use moye_sim::Dim3;

/// How many blocks a launch has, and how many threads a block.
///
/// ```
/// use moye::Grid;
/// let grid = Grid::new((8, 4), 256); // 8 x 4 blocks of 256 threads
/// assert_eq!((grid.blocks.y, grid.threads.x), (4, 256));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// Blocks of the grid.
    pub blocks: Dim3,
    /// Threads of a block.
    pub threads: Dim3,
}

impl Grid {
    /// A grid of `blocks` blocks with `threads` threads each; either is a number, a pair or a triple.
    pub fn new(blocks: impl Into<Dim3>, threads: impl Into<Dim3>) -> Self {
        Self { blocks: blocks.into(), threads: threads.into() }
    }

    /// Checks the extents against what every device takes, and the threads against a kernel's launch bounds.
    pub(super) fn check(&self, kernel: &'static str, bound: Option<u32>) -> Result<()> {
        let Self { blocks, threads } = self;
        for (extent, value, limit) in [
            ("blocks.x", blocks.x, MAX_BLOCKS[0]),
            ("blocks.y", blocks.y, MAX_BLOCKS[1]),
            ("blocks.z", blocks.z, MAX_BLOCKS[2]),
            ("threads.x", threads.x, MAX_THREADS[0]),
            ("threads.y", threads.y, MAX_THREADS[1]),
            ("threads.z", threads.z, MAX_THREADS[2]),
        ] {
            if value == 0 || value > limit {
                return Err(Error::LaunchExtent { kernel, extent, value, limit });
            }
        }
        // Each extent is at most 1024, so the product fits.
        let count = u64::from(threads.x) * u64::from(threads.y) * u64::from(threads.z);
        let limits = [
            (MAX_THREADS_PER_BLOCK, "every device allows"),
            (bound.unwrap_or(MAX_THREADS_PER_BLOCK), "the kernel's launch bounds allow"),
        ];
        match limits.into_iter().find(|(limit, _)| count > u64::from(*limit)) {
            None => Ok(()),
            Some((limit, reason)) => {
                Err(Error::TooManyThreads { kernel, threads: count, limit: limit.into(), reason })
            }
        }
    }
}
