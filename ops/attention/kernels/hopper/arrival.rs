//! The reduction of the splits of the keys in the block of a tile that arrives last, instead of by
//! a second kernel.

use super::super::combine::{Share, reduce_row};
use super::super::tile::{Tile, Varied};
use super::config::{HopperConfig, WARPGROUP};
use super::mainloop::Barrier;
use moye_device::arch::{AtomicAdd as _, FULL_WARP, Word, fence_gpu, shuffle};

/// Splits whose results a warp loads together in the block that arrives last.
const TOGETHER_LAST: usize = 8;

/// Reduces the splits of a tile's rows in the warpgroup that arrives last, if the call has
/// [counters](super::super::Arguments::counters). `word` is the address of a word in shared memory
/// that nothing else uses.
///
/// # Safety
/// All threads of the block's one consumer warpgroup execute this call together, after they have
/// stored the rows of their split. The counters have one for each tile, which is 0 before the
/// launch.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
#[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
pub unsafe fn combine_last<C: HopperConfig>(tile: &Tile<'_, C, Varied>, thread: u32, word: u32) {
    let Tile { arguments, work, .. } = *tile;
    if arguments.counters.address() == 0 {
        return;
    }
    let heads = arguments.heads / arguments.pack;
    let number = (work.batch * heads + work.head / arguments.pack) * arguments.row_tiles + work.row_tile;
    Barrier::Warpgroup.of(0).sync();
    if thread == 0 {
        let counter = arguments.counters.offset(number).address();
        // The barrier and the fence order the warpgroup's stores before the increment.
        fence_gpu();
        let is_last = u32::atomic_add_global(counter, 1) == arguments.splits - 1;
        fence_gpu();
        if is_last {
            u32::store_global(counter, 0);
        }
        u32::store_shared(word, is_last.into());
    }
    Barrier::Warpgroup.of(0).sync();
    if u32::load_shared(word) == 0 {
        return;
    }
    // A warp for each row.
    let mut row = shuffle(FULL_WARP, thread / 32, 0);
    while row < C::BLK_M
        && let Some(of_sequence) = tile.row(row)
    {
        let (query, warp) = (tile.query(of_sequence), Share { part: 0, parts: 1 });
        let dv = C::DV as u32;
        reduce_row::<_, C::T, TOGETHER_LAST>(arguments, dv, &tile.sequence, query, warp, false, |_, _| 0);
        row += WARPGROUP / 32;
    }
}
