//! The grid of a launch.

use crate::{Error, Result};
use moye_device::kernel::LaunchBounds;
use moye_sim::Dim3;

/// The largest grid along x, y and z, on every architecture from sm_30 on.
pub const MAX_BLOCKS: [u32; 3] = [i32::MAX as u32, 65535, 65535];

/// The largest block along x, y and z, on every architecture from sm_30 on.
pub const MAX_THREADS: [u32; 3] = [1024, 1024, 64];

/// The maximum number of threads of a block.
pub const MAX_THREADS_PER_BLOCK: u32 = 1024;

/// The maximum number of blocks of a cluster, on every architecture with clusters (sm_90 on).
pub const MAX_BLOCKS_PER_CLUSTER: u32 = 8;

/// The number of blocks of a launch, and the threads of a block.
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
    /// Blocks of a cluster. They run at the same time and can access each other's shared memory
    /// (sm_90 and later).
    pub cluster: Dim3,
    /// Whether the kernel may start before its predecessor on the stream completes (PDL).
    pub dependent: bool,
}

impl Grid {
    /// A grid of `blocks` blocks of `threads` threads each; either is a number, a pair or a triple.
    pub fn new(blocks: impl Into<Dim3>, threads: impl Into<Dim3>) -> Self {
        Self { blocks: blocks.into(), threads: threads.into(), cluster: Dim3::new(1, 1, 1), dependent: false }
    }

    /// The same grid in clusters of at most 8 blocks; `cluster` must divide the extents of the
    /// grid.
    ///
    /// ```
    /// use moye::Grid;
    /// let grid = Grid::new((8, 4), 256).clusters((2, 1)); // 4 x 4 pairs of blocks
    /// assert_eq!(grid.cluster.x, 2);
    /// ```
    #[must_use]
    pub fn clusters(self, cluster: impl Into<Dim3>) -> Self {
        Self { cluster: cluster.into(), ..self }
    }

    /// The same grid with programmatic dependent launch (PDL): the kernel may start before its
    /// predecessor on the stream completes, on SMs that the predecessor's blocks leave. This
    /// applies to kernels compiled for sm_90 or later and has no effect on others.
    ///
    /// The kernel must execute `griddepcontrol.wait`
    /// ([`overlap_launches`](moye_device::arch::overlap_launches)) before it accesses memory that a
    /// previous kernel accesses. Launching a kernel that does not violates its contract.
    #[must_use]
    pub fn dependent(self) -> Self {
        Self { dependent: true, ..self }
    }

    /// Checks the extents against the limits of every device, and the threads against the kernel's
    /// launch bounds.
    pub(crate) fn check(&self, kernel: &'static str, bounds: LaunchBounds) -> Result<()> {
        let Self { blocks, threads, cluster, .. } = self;
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
        for (axis, blocks, cluster) in
            [("x", blocks.x, cluster.x), ("y", blocks.y, cluster.y), ("z", blocks.z, cluster.z)]
        {
            let size = self.cluster.count();
            if cluster == 0 || !blocks.is_multiple_of(cluster) || size > u128::from(MAX_BLOCKS_PER_CLUSTER) {
                return Err(Error::Cluster { kernel, axis, blocks, cluster: self.cluster.to_string() });
            }
        }
        // Each extent is at most 1024, so the product fits.
        let count = u64::from(threads.x) * u64::from(threads.y) * u64::from(threads.z);
        if let (true, Some(expected)) = (bounds.exact, bounds.threads)
            && count != u64::from(expected)
            && count <= u64::from(MAX_THREADS_PER_BLOCK)
        {
            return Err(Error::WrongThreads { kernel, threads: count, expected });
        }
        let limits = [
            (MAX_THREADS_PER_BLOCK, "every device allows"),
            (bounds.threads.unwrap_or(MAX_THREADS_PER_BLOCK), "the kernel's launch bounds allow"),
        ];
        match limits.into_iter().find(|(limit, _)| count > u64::from(*limit)) {
            None => Ok(()),
            Some((limit, reason)) => {
                Err(Error::TooManyThreads { kernel, threads: count, limit: limit.into(), reason })
            }
        }
    }
}
