//! The tiles in shared memory, and the copies that fill them, of every step.

use moye_device::prelude::*;

/// A stage's extent along K: a row of 128 bytes, which is swizzled as a whole.
pub const BLK_K: u32 = 64;

swizzled_layout! {
    /// `STAGES` tiles of `ROWS` rows of 64 elements, in the layout of `wgmma` and TMA: (ROWS,
    /// BLK_K, STAGES).
    pub Smem<const ROWS: i64, const STAGES: i64> =
        shared_memory_atom(Major::K, SwizzleBytes::B128, 16).tile_to_shape(tuple!((ROWS, 64, STAGES)));
}

/// The TMA copy of one such tile of a matrix; in a cluster each block loads a part of the rows for
/// all blocks.
pub type Load<const ROWS: i64, const CLUSTER: u32 = 1> = TmaCopy<bf16, OneStage<Smem<ROWS, 1>>, 2, CLUSTER>;

/// An mbarrier, of which a kernel has only the address.
pub struct Mbarrier;

impl SharedStorage for Mbarrier {
    const BYTES: usize = 8;
    const ALIGN: usize = 8;
    type Tensors = u32;

    #[inline(always)]
    unsafe fn at(base: u32) -> u32 {
        base
    }
}
