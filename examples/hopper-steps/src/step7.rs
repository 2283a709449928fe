//! Step 7: step 6 from parts. A scheduler, a mainloop and a sink of `moye_device::collective` build
//! the same kernel, for any extents.

use crate::step3::{Mma, STAGES};
use crate::step6::CLUSTER;
use crate::tile::Smem;
use crate::tiles::BAND;
use moye_device::collective::{self, Mainloop, Persistent, StorageOf, ThroughTma, TmaWarpSpecialised};
use moye_device::prelude::*;

/// Tiles of 128 x 256 in four stages, by two warpgroups, B by multicast.
pub type Loop = TmaWarpSpecialised<bf16, Smem<128, 4>, Smem<256, 4>, Mma, STAGES, CLUSTER>;
/// C through shared memory.
pub type Store = ThroughTma<bf16>;
/// The copy of A.
pub type LoadA = collective::LoadA<bf16, Smem<128, 4>>;
/// The copy of B: each block loads half of it for both.
pub type LoadB = collective::LoadB<bf16, Smem<256, 4>, 2, CLUSTER>;
/// The store of C.
pub type StoreC = collective::StoreC<bf16>;

/// A grid of any number of blocks, in clusters of two.
///
/// # Safety
/// The maps are of matrices (M, K), (N, K) and (M, N) in device memory.
#[kernel(threads = Loop::THREADS, min_blocks = 1, shared = StorageOf<Loop, Store>)]
pub unsafe fn step7(a: TmaMap<LoadA>, b: TmaMap<LoadB>, c: TmaMap<StoreC>, m: u32, n: u32, k: u32) {
    let scheduler = Persistent::new(Loop::tiles((m, n, k), 1), Loop::worker(), BAND / CLUSTER);
    let operands = (a.tensor(), b.tensor());
    let store = Store::new(c.tensor());
    collective::gemm_warp_specialised::<Loop, _, _, _>(operands, scheduler, (), store);
}
