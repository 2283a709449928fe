//! Which tiles a block has, one after the other.

/// Rows of C that a group of tiles has. Blocks go along a group's rows first, so that those that run at the same time share
/// rows of A and columns of B, which the L2 cache keeps for them.
const GROUP: u32 = 1024;

/// One tile of C, in one part of K of one batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// The tile's number along M.
    pub m: u32,
    /// The tile's number along N.
    pub n: u32,
    /// The batch.
    pub batch: u32,
    /// The part of K.
    pub split: u32,
}

/// The tiles of a block of a persistent grid: every so many of all.
#[derive(Clone, Copy, Debug)]
pub struct Schedule {
    next: u32,
    step: u32,
    tiles_m: u32,
    tiles_n: u32,
    /// Tiles of a group along M.
    group: u32,
    splits: u32,
    count: u32,
}

impl Schedule {
    /// The tiles of block `block` of `blocks`: of `(M, N)` extents in tiles of these extents, `splits` for each of `batches`. In
    /// all there are fewer than 2^31, and fewer than that blocks.
    #[inline(always)]
    #[must_use]
    pub fn new(
        (block, blocks): (u32, u32),
        (m, n): (u32, u32),
        (tile_m, tile_n): (u32, u32),
        (splits, batches): (u32, u32),
    ) -> Self {
        let (tiles_m, tiles_n) = (m.div_ceil(tile_m), n.div_ceil(tile_n));
        let count = tiles_m * tiles_n * splits * batches;
        Self { next: block, step: blocks, tiles_m, tiles_n, group: GROUP / tile_m, splits, count }
    }

    /// The block's next tile.
    #[inline(always)]
    pub fn take_next(&mut self) -> Option<Work> {
        if self.next >= self.count {
            return None;
        }
        let number = self.next;
        self.next += self.step;
        let tiles = self.tiles_m * self.tiles_n;
        let (part, tile) = (number / tiles, number % tiles);
        let per_group = self.group * self.tiles_n;
        let (group, place) = (tile / per_group, tile % per_group);
        let first = group * self.group;
        // The last group may have fewer rows.
        let rows = if self.tiles_m - first < self.group { self.tiles_m - first } else { self.group };
        Some(Work {
            m: first + place % rows,
            n: place / rows,
            batch: part / self.splits,
            split: part % self.splits,
        })
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn blocks_share_all_tiles_and_no_tile_twice() {
        for (m, n, blocks) in [(1, 1, 1), (128, 256, 7), (1000, 3000, 132), (4096, 4096, 132), (2049, 255, 5)]
        {
            for (splits, batches) in [(1, 1), (3, 1), (2, 4)] {
                let mut seen = HashSet::new();
                for block in 0..blocks {
                    let mut tiles = Schedule::new((block, blocks), (m, n), (128, 256), (splits, batches));
                    while let Some(Work { m: tm, n: tn, batch, split }) = tiles.take_next() {
                        assert!(tm * 128 < m && tn * 256 < n && batch < batches && split < splits);
                        assert!(seen.insert((tm, tn, batch, split)), "({tm}, {tn}) of ({m}, {n}) came twice");
                    }
                }
                let tiles = m.div_ceil(128) * n.div_ceil(256) * splits * batches;
                assert_eq!(seen.len() as u32, tiles, "of ({m}, {n}) in {splits} parts, {batches} times");
            }
        }
    }
}
