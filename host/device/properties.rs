//! The properties of a device.

use crate::arch::Arch;

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
