//! The tile scheduler: a tile for each block. Concurrent blocks compute adjacent tiles.

use super::config::{ArgumentsOf, Tiled};
use moye_device::arch::block_idx;
use moye_device::collective::{TileScheduler, WorkTile};

/// Columns of C in a group. Consecutive blocks compute a group's tiles row by row, so that
/// concurrent blocks share rows of A and columns of B in the L2 cache: 132 SMs with a tile of 256 x
/// 128 each cover a square of about 2048.
const WIDTH: u32 = 2048;

/// One tile of C along x, and one slice of K of one batch along y. A [`WorkTile`]'s `batch` is
/// batch times slices of K, plus slice.
#[derive(Clone, Copy, Debug)]
pub struct Schedule(Option<WorkTile>);

impl Schedule {
    /// The tile of this block.
    #[inline(always)]
    pub fn new<G: Tiled>(arguments: &ArgumentsOf<G>) -> Self {
        let (number, batch) = (block_idx().x, block_idx().y);
        let (m, n) = tile_of::<G>(number, arguments.m, arguments.n);
        let (all, chunk) =
            (arguments.k.div_ceil(const { G::TILE.2 }), arguments.k_chunk.div_ceil(const { G::TILE.2 }));
        let k = batch % arguments.splits * chunk;
        Self(Some(WorkTile { m, n, batch, k, k_end: all.min(k + chunk), number }))
    }
}

impl TileScheduler for Schedule {
    #[inline(always)]
    fn next_tile(&mut self) -> Option<WorkTile> {
        self.0.take()
    }
}

/// The tile `(m, n)` of block `block`: groups of columns along N; within a group, N first.
#[inline(always)]
fn tile_of<G: Tiled>(block: u32, m: u32, n: u32) -> (u32, u32) {
    let (tiles_m, tiles_n) = (m.div_ceil(const { G::TILE.0 }), n.div_ceil(const { G::TILE.1 }));
    let group = const { WIDTH / G::TILE.1 };
    // Divisions are on the block's critical path: most products need only one.
    if tiles_n <= group {
        return (block / tiles_n, block % tiles_n);
    }
    let per_group = group * tiles_m;
    let (number, place) = (block / per_group, block % per_group);
    // The last group may have fewer columns.
    let first = number * group;
    let columns = if tiles_n - first < group { tiles_n - first } else { group };
    (place / columns, first + place % columns)
}
