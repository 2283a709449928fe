//! What a device has.

use super::Arch;

/// The most blocks along x, y and z that a grid can have, on every architecture from sm_30 on.
pub const MAX_BLOCKS: [u32; 3] = [i32::MAX as u32, 65535, 65535];

/// The most threads along x, y and z that a block can have, likewise.
pub const MAX_THREADS: [u32; 3] = [1024, 1024, 64];

/// The most threads that a block can have in all.
pub const MAX_THREADS_PER_BLOCK: u32 = 1024;

/// The most blocks of a cluster, on every architecture that has clusters (sm_90 on).
pub const MAX_BLOCKS_PER_CLUSTER: u32 = 8;

/// Shared memory that a block has without asking for more, in bytes.
pub const STATIC_SHARED_BYTES: usize = 48 * 1024;

/// A device's fixed properties.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Properties {
    /// The name, as the driver gives it; `simulator` for the simulator.
    pub name: String,
    /// The architecture; for the simulator, the one whose limits it keeps.
    pub arch: Arch,
    /// Multiprocessors (SMs); for the simulator, how many blocks of 1024 threads it runs at the
    /// same time, which the host's cores tell. The choice of a product's kernel does not depend on
    /// those: it is made for 132, as an H200 has.
    pub multiprocessors: u32,
    /// Shared memory that a block can have where the launch asks for it, in bytes. The launches of
    /// this crate do.
    pub shared_bytes_per_block: usize,
    /// Memory in all, in bytes; `None` for the simulator, which takes what the host has.
    pub memory_bytes: Option<usize>,
}
