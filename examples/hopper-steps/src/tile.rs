//! How tiles lie in shared memory, in every step.

use moye_device::layout::{ComposedLayout, IntTuple, Major, SwizzleBytes, shared_memory_atom};
use moye_device::memory::SharedStorage;

/// What a stage has of K: a row of 128 bytes, which is swizzled as a whole.
pub const BLK_K: u32 = 64;

/// A tile (`rows`, 64) of 16-bit numbers in rows of 128 bytes, whose pieces of 16 are exchanged by the row's number modulo 8: as
/// `wgmma` reads it and TMA writes it.
pub const fn rows_of_128_bytes(rows: u32) -> ComposedLayout {
    shared_memory_atom(Major::K, SwizzleBytes::B128, 16)
        .tile_to_shape(IntTuple::flat(&[rows as i64, BLK_K as i64]))
}

/// Bytes of shared memory that TMA and `wgmma` are told the address of: that is all that a kernel has of them.
pub struct Bytes<const COUNT: u32>;

impl<const COUNT: u32> SharedStorage for Bytes<COUNT> {
    const BYTES: usize = COUNT as usize;
    /// What the swizzle repeats after.
    const ALIGN: usize = 1024;
    type Tensors = u32;

    #[inline(always)]
    unsafe fn at(base: u32) -> u32 {
        base
    }
}
