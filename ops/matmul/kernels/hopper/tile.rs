//! The start of a tile of a kernel with one tile for each block (`parts.rs`), and the block's slice
//! of K.

use super::config::{ArgumentsOf, WgmmaConfig};
use moye_device::arch::{Fma as _, cluster_rank};
use moye_device::atom::wgmma::WgmmaAtom;
use moye_device::collective::WorkTile;
use moye_device::layout::Major;
use moye_device::memory::Element as _;

/// The first row and column of a tile. A tile that would cross C's edge is moved inside, if
/// possible, because TMA is slowest for out of bounds rows (136 x 4096 x 4096 with tiles of 128 x
/// 128 took 25.4 us on an H200; 256 x 4096 x 4096 took 17.1). The overlap with its neighbour is
/// then written twice, with the same values; so C must not be read.
#[inline(always)]
pub(super) fn first_of<G: WgmmaConfig>(arguments: &ArgumentsOf<G>, tile: &WorkTile) -> (u32, u32) {
    let moves = arguments.beta == G::Sum::ZERO;
    // Boxes must start at multiples of 16 bytes along the contiguous mode. For rows of C that is
    // only faster.
    let word = const { 16 / G::Operand::BYTES as u32 };
    let step_m = if matches!(G::Atom::MAJOR_A, Major::Mn) { word } else { 1 };
    (
        inside(tile.m * G::BLK_M, arguments.m, G::BLK_M, if moves { step_m } else { 0 }),
        inside(tile.n * G::BLK_N, arguments.n, G::BLK_N, if moves { word } else { 0 }),
    )
}

/// The block's stages of a tile's K: first and end.
#[inline(always)]
pub(super) fn stages_of<G: WgmmaConfig>(tile: &WorkTile) -> (u32, u32) {
    if G::PARTS == 1 {
        return (tile.k, tile.k_end);
    }
    let (first, stages) = part_of(tile.k_tiles(), G::PARTS, cluster_rank());
    (tile.k + first, tile.k + first + stages)
}

/// The first row of a tile of `block` rows that starts at `start`: moved back to end at `end`, if
/// there are enough rows and `step` divides `end` (0: never moved).
#[inline(always)]
const fn inside(start: u32, end: u32, block: u32, step: u32) -> u32 {
    if step > 0 && end >= block && start + block > end && end.is_multiple_of(step) {
        end - block
    } else {
        start
    }
}

/// The first stage of a block's slice of K, and its number of stages: even slices, with one stage
/// more for the first blocks.
#[inline(always)]
const fn part_of(stages: u32, parts: u32, part: u32) -> (u32, u32) {
    let (least, more) = (stages / parts, stages % parts);
    let first = part * least + if part < more { part } else { more };
    (first, least + if part < more { 1 } else { 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tile_that_would_pass_the_edge_is_moved_inside_if_that_is_possible() {
        for ((start, end, block, step), first) in [
            ((64, 128, 64, 1), 64),
            ((64, 127, 64, 1), 63),
            ((128, 136, 128, 8), 8),
            ((128, 137, 128, 8), 128),
            ((128, 137, 128, 1), 9),
            ((0, 63, 64, 1), 0),
            ((64, 65, 64, 0), 64),
        ] {
            assert_eq!(
                inside(start, end, block, step),
                first,
                "from {start} of {end}, {block} rows, by {step}"
            );
        }
    }
}
