//! Which tile a block takes: neighbours in time are neighbours in the matrix.

use super::config::MmaConfig;
use crate::tensor::StaticLayout;

/// Blocks in a row of tiles before the next row begins. Blocks that run at the same time then share rows of A and columns
/// of B, which the L2 cache keeps for them.
const GROUP: u32 = 8;

/// The tile `(m, n)` of block `block`: the tiles go through groups of 8 columns along N, within a group along N first.
#[inline(always)]
pub fn tile_of<G: MmaConfig>(block: u32, m: u32, n: u32) -> (u32, u32) {
    let (tiles_m, tiles_n) = (
        m.div_ceil(const { G::TileC::LAYOUT.extent(0) as u32 }),
        n.div_ceil(const { G::TileC::LAYOUT.extent(1) as u32 }),
    );
    let per_group = GROUP * tiles_m;
    let (group, place) = (block / per_group, block % per_group);
    // The last group may have fewer columns.
    let first = group * GROUP;
    let columns = if tiles_n - first < GROUP { tiles_n - first } else { GROUP };
    (place / columns, first + place % columns)
}
