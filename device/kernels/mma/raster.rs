//! Rasterisation: which tile a block computes. Blocks that run concurrently have adjacent tiles.

use super::config::Tiled;
use moye_device::tensor::StaticLayout;

/// Columns of C in a group. Consecutive blocks compute a group's tiles row by row, so that
/// concurrent blocks share rows of A and columns of B in the L2 cache: 132 multiprocessors with a
/// tile of 256 x 128 each cover a square of about 2048.
const WIDTH: u32 = 2048;

/// Tiles along N in a group of columns.
pub const fn columns_of_group<G: Tiled>() -> u32 {
    WIDTH / G::TileC::LAYOUT.extent(1) as u32
}

/// The tile `(m, n)` of block `block`: groups of columns along N, and within a group along N first.
#[inline(always)]
pub fn tile_of<G: Tiled>(block: u32, m: u32, n: u32) -> (u32, u32) {
    let (tiles_m, tiles_n) = (
        m.div_ceil(const { G::TileC::LAYOUT.extent(0) as u32 }),
        n.div_ceil(const { G::TileC::LAYOUT.extent(1) as u32 }),
    );
    let group_columns = const { columns_of_group::<G>() };
    let per_group = group_columns * tiles_m;
    let (group, place) = (block / per_group, block % per_group);
    // The last group may have fewer columns.
    let first = group * group_columns;
    let columns = if tiles_n - first < group_columns { tiles_n - first } else { group_columns };
    (place / columns, first + place % columns)
}
