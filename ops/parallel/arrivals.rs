//! Shards of A as they arrive: the tile order, and the wait for a tile's shard.

use crate::kernel::Extents;
use core::marker::PhantomData;
use moye_device::arch::{fence_proxy_async_global, opaque, wait_flag};
use moye_device::atom::tma::{TmaCopy, TmaTensor};
use moye_device::collective::{Bands, Groups, Mainloop, RowSpans, RowsOfA, TileScheduler, Tiles, WorkTile};
use moye_device::kernel::KernelParam;
use moye_device::memory::{Element, Global};
use moye_device::tensor::StaticLayout;

/// The stride between flags in bytes: one cache line each.
pub const FLAG_BYTES: u32 = 128;

/// The rows of A, by the rank that sends them.
#[repr(C)]
#[derive(Clone, Copy, Debug, KernelParam)]
pub struct Shards {
    /// The shard of each rank, in order: rows of A and of C.
    pub rows: Groups,
    /// For each rank the flag that its shard has arrived, [`FLAG_BYTES`] apart.
    pub flags: Global<u32>,
    /// Rows from the start of one gathered shard to the next: a multiple of a tile's rows, so that
    /// no tile reads rows of two shards.
    pub apart: u32,
    /// The value that a flag has reached when its shard has arrived.
    pub epoch: u32,
    /// This rank.
    pub rank: u32,
}

/// The tiles of a persistent grid over all shards: this rank's shard first, then those of the ranks
/// after it, in their order of arrival. Tiles of a shard are in bands of rows.
///
/// The `batch` of a [`WorkTile`] is its shard, and `m` counts tiles within the shard.
pub struct ShardTiles<M> {
    shards: Groups,
    rank: u32,
    extents: Extents,
    /// The worker's next tile, counted from the shard's first.
    next: u32,
    /// Shards that are finished.
    over: u32,
    mainloop: PhantomData<M>,
}

impl<M> Clone for ShardTiles<M> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}
impl<M> Copy for ShardTiles<M> {}

impl<M: Mainloop> ShardTiles<M> {
    /// The tiles of this block's worker.
    #[inline(always)]
    #[must_use]
    pub fn new(shards: &Shards, extents: Extents) -> Self {
        let next = M::worker().number;
        Self { shards: shards.rows, rank: shards.rank, extents, next, over: 0, mainloop: PhantomData }
    }
}

impl<M: Mainloop> TileScheduler for ShardTiles<M> {
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    fn next_tile(&mut self) -> Option<WorkTile> {
        // Recomputed, so that the compiler does not keep them in registers beside the accumulators.
        let (n, k) = (opaque(self.extents.n), opaque(self.extents.k));
        let (Tiles { n, k, .. }, worker) = (M::tiles((1, n, k), 1), M::worker());
        while self.over < self.shards.count {
            let shard = self.rank + self.over;
            let shard = if shard < self.shards.count { shard } else { shard - self.shards.count };
            // SAFETY: the kernel's contract: the shards' ends are readable.
            let (first, end) = unsafe { self.shards.of(shard) };
            let m = (end - first).div_ceil(const { M::TILE.0 * M::CLUSTER });
            let place = self.next;
            if place < m * n {
                self.next += worker.count;
                let bands = Bands::new(Tiles { m, n, k, batches: 1 }, opaque(self.extents.band));
                return Some(WorkTile { batch: shard, ..bands.work(worker, place, (0, k)) });
            }
            self.next -= m * n;
            self.over += 1;
        }
        None
    }
}

/// A as two tensors: this rank's shard in place, and the shards of others in memory that their
/// ranks write. The loading thread waits for a tile's shard.
#[derive(Debug)]
pub struct Arrivals<C> {
    own: TmaTensor<C, 2>,
    gathered: TmaTensor<C, 2>,
    shards: Shards,
}

impl<C> Clone for Arrivals<C> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}
impl<C> Copy for Arrivals<C> {}

impl<C> Arrivals<C> {
    /// The rows of `own`, this rank's shard, and of `gathered`, the memory of all shards.
    #[inline(always)]
    #[must_use]
    pub const fn new(own: TmaTensor<C, 2>, gathered: TmaTensor<C, 2>, shards: Shards) -> Self {
        Self { own, gathered, shards }
    }
}

impl<T: Element, L: StaticLayout> RowsOfA<TmaCopy<T, L, 2>, 2> for Arrivals<TmaCopy<T, L, 2>> {
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn rows_of(&self, tile: &WorkTile, block: u32) -> TmaTensor<TmaCopy<T, L, 2>, 2> {
        if tile.batch == self.shards.rank {
            return self.own.offset([tile.m * block, 0]);
        }
        let flag = self.shards.flags.address() + u64::from(tile.batch * FLAG_BYTES);
        // SAFETY: the kernel's contract: each rank has a flag.
        unsafe { wait_flag(flag, self.shards.epoch) };
        // A copy wrote the shard, and TMA reads it.
        fence_proxy_async_global();
        self.gathered.offset([tile.batch * self.shards.apart + tile.m * block, 0])
    }

    #[inline(always)]
    unsafe fn rows(&self, tile: &WorkTile, block: u32) -> u32 {
        // SAFETY: the shards' ends are readable.
        unsafe { self.shards.rows.of_tile(tile, block) }.1
    }
}
