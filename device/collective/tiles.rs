//! The division of a product: tiles of C, K tiles, and the workers that share them.

use crate::arch::{block_idx, cluster_rank, grid_dim};

/// The number of tiles of a product.
///
/// ```
/// use moye_device::collective::Tiles;
///
/// // 1000 x 700 x 300 by tiles of 128 x 256 x 64, one matrix.
/// let tiles = Tiles::new((1000, 700, 300), (128, 256, 64), 1);
/// assert_eq!((tiles.m, tiles.n, tiles.k, tiles.count()), (8, 3, 5, 24));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tiles {
    /// Tiles along M; with clusters, tiles of a cluster.
    pub m: u32,
    /// Tiles along N.
    pub n: u32,
    /// Tiles along K, at least one: a product with K = 0 has one tile of zeros.
    pub k: u32,
    /// Matrices of the batch.
    pub batches: u32,
}

impl Tiles {
    /// The tiles of `batches` products of extents (M, N, K), by tiles of extents `tile`. The last
    /// tile along a mode may cross the edge.
    #[inline(always)]
    #[must_use]
    pub const fn new((m, n, k): (u32, u32, u32), tile: (u32, u32, u32), batches: u32) -> Self {
        let along_k = k.div_ceil(tile.2);
        Self {
            m: m.div_ceil(tile.0),
            n: n.div_ceil(tile.1),
            k: if along_k == 0 { 1 } else { along_k },
            batches,
        }
    }

    /// Tiles of C, of all batches.
    #[inline(always)]
    #[must_use]
    pub const fn count(self) -> u32 {
        self.m * self.n * self.batches
    }
}

/// A tile of C that a block computes, and the tiles along K that it accumulates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkTile {
    /// The tile's index along M.
    pub m: u32,
    /// The tile's index along N.
    pub n: u32,
    /// The matrix of the batch.
    pub batch: u32,
    /// The first tile along K.
    pub k: u32,
    /// The end of the tiles along K; above `k`.
    pub k_end: u32,
    /// The index of the tile of C, in the scheduler's order: below [`Tiles::count`].
    pub number: u32,
}

impl WorkTile {
    /// The number of tiles along K that the block accumulates.
    #[inline(always)]
    #[must_use]
    pub const fn k_tiles(&self) -> u32 {
        self.k_end - self.k
    }
}

/// A worker: a block, or a cluster of blocks whose tiles are adjacent along M.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Worker {
    /// The worker's index.
    pub number: u32,
    /// The number of workers of the grid.
    pub count: u32,
    /// The block's rank in its cluster.
    pub rank: u32,
    /// Blocks of a cluster.
    pub cluster: u32,
}

impl Worker {
    /// This block as a worker of a one-dimensional grid.
    #[inline(always)]
    #[must_use]
    pub fn block() -> Self {
        Self { number: block_idx().x, count: grid_dim().x, rank: 0, cluster: 1 }
    }

    /// This block's cluster as a worker, in a one-dimensional grid of clusters of `blocks` blocks.
    #[inline(always)]
    #[must_use]
    pub fn cluster(blocks: u32) -> Self {
        Self {
            number: block_idx().x / blocks,
            count: grid_dim().x / blocks,
            rank: if blocks == 1 { 0 } else { cluster_rank() },
            cluster: blocks,
        }
    }
}

/// The order of the tiles of C: bands of several rows of tiles, each band column by column.
///
/// Concurrent workers then share rows of A and columns of B in the L2 cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bands {
    tiles: Tiles,
    rows: u32,
}

impl Bands {
    /// Bands of `rows` rows of tiles, at least one.
    #[inline(always)]
    #[must_use]
    pub const fn new(tiles: Tiles, rows: u32) -> Self {
        Self { tiles, rows: if rows == 0 { 1 } else { rows } }
    }

    /// The tiles.
    #[inline(always)]
    #[must_use]
    pub const fn tiles(&self) -> Tiles {
        self.tiles
    }

    /// Tile `number` of C with the tiles `[k, k_end)` along K, for this block of a worker.
    #[inline(always)]
    #[must_use]
    pub const fn work(&self, worker: Worker, number: u32, (k, k_end): (u32, u32)) -> WorkTile {
        let Tiles { m: tiles_m, n: tiles_n, batches, .. } = self.tiles;
        let (batch, tile) = match batches {
            1 => (0, number),
            _ => (number / (tiles_m * tiles_n), number % (tiles_m * tiles_n)),
        };
        let (band, place) = (tile / (self.rows * tiles_n), tile % (self.rows * tiles_n));
        let first = band * self.rows;
        // The last band may have fewer rows.
        let rows = if tiles_m - first < self.rows { tiles_m - first } else { self.rows };
        let m = (first + place % rows) * worker.cluster + worker.rank;
        WorkTile { m, n: place / rows, batch, k, k_end, number }
    }
}
