//! Which tiles a block of the persistent Hopper kernels computes.

use super::super::arguments::Arguments;
#[cfg(not(target_arch = "nvptx64"))]
use super::super::arguments::Window;
#[cfg(not(target_arch = "nvptx64"))]
use super::super::sequence::{Span, Visible};
use moye_device::arch::{block_idx, grid_dim, opaque};
use moye_device::collective::{TileScheduler, WorkTile};
use moye_device::memory::Element;

/// The tiles of one block.
///
/// The tiles are ordered by sections of `section` heads, whose keys and values fit in L2. In a
/// section the last row tiles of all heads come first, since they are the longest under a causal
/// mask. Blocks take tiles round-robin in this order, every other round backwards, so that their
/// total lengths are nearly equal.
#[derive(Clone, Copy, Debug)]
pub struct Tiles {
    turn: u32,
    block: u32,
    blocks: u32,
    row_tiles: u32,
    /// Heads of all sequences.
    heads_of_all: u32,
    heads: u32,
    section: u32,
    /// Whether the products of these fields are recomputed for each tile: they take no registers
    /// between two tiles.
    recomputes: bool,
}

impl Tiles {
    /// The tiles of this block. A kernel with few registers `recomputes` for each tile what follows
    /// from the arguments.
    #[inline(always)]
    #[must_use]
    pub fn new<T: Element>(arguments: &Arguments<T>, section: u32, recomputes: bool) -> Self {
        Self { recomputes, ..Self::of_block(arguments, section, block_idx().x, grid_dim().x) }
    }

    /// The tiles of block `block` of `blocks`.
    #[inline(always)]
    #[must_use]
    pub fn of_block<T: Element>(arguments: &Arguments<T>, section: u32, block: u32, blocks: u32) -> Self {
        Self {
            turn: 0,
            block,
            blocks,
            row_tiles: arguments.row_tiles,
            heads_of_all: arguments.heads * arguments.batches,
            heads: arguments.heads,
            section,
            recomputes: false,
        }
    }
}

/// Quotient and remainder, without a branch for a divisor of 0, which does not occur.
#[inline(always)]
fn divided(value: u32, by: u32) -> (u32, u32) {
    let by = by.max(1);
    (value / by, value % by)
}

impl TileScheduler for Tiles {
    #[inline(always)]
    fn next_tile(&mut self) -> Option<WorkTile> {
        let of = |value| if self.recomputes { opaque(value) } else { value };
        let (row_tiles, section) = (of(self.row_tiles), of(self.section));
        let place = if self.turn.is_multiple_of(2) { self.block } else { self.blocks - 1 - self.block };
        let index = self.turn * self.blocks + place;
        // In the last round the block may have no tile.
        if index >= row_tiles * self.heads_of_all {
            return None;
        }
        self.turn += 1;
        let (number, within) = divided(index, section * row_tiles);
        let first = number * section;
        // The last section may have fewer heads.
        let heads = section.min(self.heads_of_all - first);
        let (row, head) = divided(within, heads);
        let head = first + head;
        let m = row_tiles - 1 - row;
        let (batch, n) = divided(head, self.heads);
        Some(WorkTile { m, n, batch, k: 0, k_end: 1, number: head * row_tiles + m })
    }
}

/// The number of heads per section that balances the blocks' work best, for tiles of `rows` rows
/// and `keys` keys, with `d` elements in a key or a value on average.
///
/// A section's keys and values fit in `l2` bytes. Up to 32 heads may exceed that: several blocks
/// then read the same ones at a time. Among sections that are nearly as balanced this returns the
/// smallest, whose blocks share the most keys.
#[cfg(not(target_arch = "nvptx64"))]
#[must_use]
pub fn even_section<T: Element>(
    arguments: &Arguments<T>,
    blocks: u32,
    (rows, keys): (u32, u32),
    d: u32,
    l2: u64,
) -> u32 {
    const CANDIDATES: u32 = 24;
    /// If all tiles have the same length, consecutive row tiles of a head share its keys.
    const OF_EQUAL: u32 = 1;
    let heads = arguments.heads * arguments.batches;
    let bytes = u64::from(arguments.k_length) * u64::from(2 * d) * size_of::<T>() as u64;
    let fits = u64::from(arguments.group) * l2 / bytes.max(1);
    let most = u32::try_from(fits).unwrap_or(u32::MAX).max(32).min(heads);
    if arguments.window == Window::ALL {
        return OF_EQUAL;
    }
    let visible = Visible::new(arguments.q_length, arguments.k_length, arguments.window);
    let step = most.div_ceil(CANDIDATES).max(1);
    let mut best = (u64::MAX, 1);
    for section in [1, 2, 4].into_iter().chain((step..=most).step_by(step as usize)).chain([most]) {
        let mut largest = 0;
        for block in 0..blocks {
            let mut tiles = Tiles::of_block(arguments, section, block, blocks);
            let sum = core::iter::from_fn(|| tiles.next_tile())
                .map(|tile| {
                    let first = tile.m * rows;
                    let last = (first + rows).min(arguments.q_length) - 1;
                    let Span { begin, end } = visible.range(first, last).by_some;
                    // The fixed cost of a tile is about one step.
                    1 + u64::from((end - begin).max(0) as u32 / keys)
                })
                .sum::<u64>();
            largest = largest.max(sum);
        }
        // A small gain is not worth less reuse.
        if section <= most && largest < best.0 - best.0 / 200 {
            best = (largest, section);
        }
    }
    best.1
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;

    #[test]
    fn every_tile_is_one_blocks_whatever_the_section() {
        for (batches, heads, q_length, section, blocks) in
            [(1, 1, 1, 1, 1), (3, 6, 100, 4, 7), (2, 4, 1000, 8, 132), (2, 5, 640, 3, 9)]
        {
            let mut arguments = Arguments::<f32> { batches, heads, q_length, ..Arguments::none() };
            let all = arguments.grid(64);
            let mut seen = std::vec::Vec::new();
            for block in 0..blocks {
                let mut tiles = Tiles::of_block(&arguments, section, block, blocks);
                while let Some(tile) = tiles.next_tile() {
                    assert!(tile.m < arguments.row_tiles && tile.n < heads && tile.batch < batches);
                    assert_eq!((tile.k, tile.k_end), (0, 1), "all keys");
                    assert_eq!(tile.number, (tile.batch * heads + tile.n) * arguments.row_tiles + tile.m);
                    seen.push(tile.number);
                }
            }
            seen.sort_unstable();
            assert!(seen.into_iter().eq(0..all));
        }
    }
}
