//! Tiles in shared memory and the copies that fill them, in every step.

use half::bf16;
use moye_device::atom::tma::TmaCopy;
use moye_device::layout::{
    ComposedLayout, IntTuple, Layout, Major, Swizzle, SwizzleBytes, shared_memory_atom,
};
use moye_device::memory::SharedStorage;
use moye_device::tensor::{AllButLast, StaticLayout};

/// What a stage has of K: a row of 128 bytes, which is swizzled as a whole.
pub const BLK_K: u32 = 64;

/// `STAGES` tiles of `ROWS` rows of 64 numbers, as `wgmma` reads them and TMA writes them: (ROWS,
/// BLK_K, STAGES).
#[derive(Clone, Copy)]
pub struct Smem<const ROWS: i64, const STAGES: i64>;

const fn tiles(rows: i64, stages: i64) -> ComposedLayout {
    shared_memory_atom(Major::K, SwizzleBytes::B128, 16).tile_to_shape(IntTuple::flat(&[
        rows,
        BLK_K as i64,
        stages,
    ]))
}

impl<const ROWS: i64, const STAGES: i64> StaticLayout for Smem<ROWS, STAGES> {
    const LAYOUT: Layout = tiles(ROWS, STAGES).layout;
    const SWIZZLE: Swizzle = tiles(ROWS, STAGES).swizzle;
}

/// The copy of one such tile by TMA, of a matrix; with a cluster each of its blocks loads a part of
/// the rows, for all.
pub type Load<const ROWS: i64, const CLUSTER: u32 = 1> = TmaCopy<bf16, AllButLast<Smem<ROWS, 1>>, 2, CLUSTER>;

/// An mbarrier: a kernel has no more than its address.
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
