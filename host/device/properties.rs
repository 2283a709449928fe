//! The properties of a device.

use super::Arch;

/// The largest grid along x, y and z, on every architecture from sm_30 on.
pub const MAX_BLOCKS: [u32; 3] = [i32::MAX as u32, 65535, 65535];

/// The largest block along x, y and z, on every architecture from sm_30 on.
pub const MAX_THREADS: [u32; 3] = [1024, 1024, 64];

/// The maximum number of threads of a block.
pub const MAX_THREADS_PER_BLOCK: u32 = 1024;

/// The maximum number of blocks of a cluster, on every architecture with clusters (sm_90 on).
pub const MAX_BLOCKS_PER_CLUSTER: u32 = 8;

/// Shared memory of a block without an opt-in, in bytes.
pub const STATIC_SHARED_BYTES: usize = 48 * 1024;

/// The fixed properties of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Properties {
    /// The driver's name of the device; `simulator` for the simulator.
    pub name: String,
    /// The architecture; for the simulator, the one whose limits it has.
    pub arch: Arch,
    /// SMs; for the simulator, the number of blocks of 1024 threads that it runs at the same time,
    /// which depends on the host's cores. On the simulator, products are planned for the 132 SMs of
    /// an H200.
    pub multiprocessors: u32,
    /// Shared memory of a block with an opt-in, in bytes. This crate's launches opt in.
    pub shared_bytes_per_block: usize,
    /// Total memory in bytes; `None` for the simulator, which uses the host's.
    pub memory_bytes: Option<usize>,
}
