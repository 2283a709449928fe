//! The trait of mainloops, which compute the accumulators of a tile of C from its K tiles.

use super::tiles::{Tiles, WorkTile, Worker};
use crate::atom::{AccumulatorOf, StaticTiledMma};
use crate::layout::{IntTuple, Layout, make_col_major};
use crate::memory::{Element, SharedStorage};
use crate::tensor::{Fragment, StaticLayout};
use core::marker::PhantomData;

/// Threads of a warpgroup.
pub const WARPGROUP: u32 = 128;

/// A block's tile of C, `(BLK_M, BLK_N)`, given the stages of A and of B in shared memory, `(BLK_M,
/// BLK_K, PIPE)` and `(BLK_N, BLK_K, PIPE)`.
pub struct TileOf<A, B>(PhantomData<(A, B)>);

impl<A, B> Clone for TileOf<A, B> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<A, B> Copy for TileOf<A, B> {}

impl<A: StaticLayout, B: StaticLayout> StaticLayout for TileOf<A, B> {
    const LAYOUT: Layout = make_col_major(IntTuple::flat(&[A::LAYOUT.extent(0), B::LAYOUT.extent(0)]));
}

/// A thread's accumulators of a mainloop's tile: `(MMA, MMA_M, MMA_N)`.
pub type Accumulators<M> =
    Fragment<<M as Mainloop>::Accumulator, AccumulatorOf<<M as Mainloop>::TileC, <M as Mainloop>::Mma>>;

/// The tensors of a mainloop in shared memory.
pub type StagesOf<M> = <<M as Mainloop>::Storage as SharedStorage>::Tensors;

/// A mainloop, as a consumer thread holds it: operands, stages in shared memory, and its position
/// in them.
///
/// The mainloops of this crate are [`Multistage`](super::Multistage) and
/// [`TmaWarpSpecialised`](super::TmaWarpSpecialised). A custom mainloop implements this trait, and
/// [`WarpSpecialised`] if separate warps fill its stages. If only the loads differ, [`Fill`] is
/// enough.
///
/// [`Fill`]: super::Fill
pub trait Mainloop: Sized {
    /// The tiled MMA.
    type Mma: StaticTiledMma;
    /// A block's tile of C, (BLK_M, BLK_N).
    type TileC: StaticLayout;
    /// The accumulators' type.
    type Accumulator: Element;
    /// The block's shared memory.
    type Storage: SharedStorage;
    /// A and B in global memory, from the kernel's parameters.
    type Operands: Copy;

    /// Threads of the body: all threads of a block, or its consumers if the kernel has a separate
    /// producer.
    const THREADS: u32;
    /// A block's extents along (M, N, K).
    const TILE: (u32, u32, u32);
    /// Teams that alternate tiles: 2 for [`PingPong`](super::PingPong), otherwise 1.
    const TEAMS: u32 = 1;
    /// Blocks of a cluster, with tiles of C adjacent along M.
    const CLUSTER: u32 = 1;
    /// Blocks that run on an SM at the same time, as the kernel's `min_blocks` says.
    const BLOCKS_OF_SM: u32 = 1;

    /// The tiles of products of extents (M, N, K); with clusters, tiles of a cluster.
    #[inline(always)]
    #[must_use]
    fn tiles(extents: (u32, u32, u32), batches: u32) -> Tiles {
        let (m, n, k) = Self::TILE;
        Tiles::new(extents, (m * Self::CLUSTER, n, k), batches)
    }

    /// The worker of the grid to which this block belongs.
    #[inline(always)]
    #[must_use]
    fn worker() -> Worker {
        Worker::block()
    }

    /// The mainloop of thread `thread` of [`Mma`](Self::Mma); `warpgroup` is the index of its
    /// warpgroup, uniform across the warp also for the compiler.
    ///
    /// # Safety
    /// All threads of the tiled MMA call it once. The stages are the block's,
    /// [initialised](StageProducer::init) if the mainloop requires that, and the operands satisfy
    /// the mainloop's contract.
    unsafe fn start(operands: Self::Operands, stages: StagesOf<Self>, thread: u32, warpgroup: u32) -> Self;

    /// Issues the products of a tile's K tiles `[tile.k, tile.k_end)`. The previous accumulators
    /// are ignored. A mainloop may leave those of rows that C does not have undefined: the kernel's
    /// sink then stores only the rows of C.
    ///
    /// # Safety
    /// All threads of the tiled MMA call it with the same tile, and [`complete`](Self::complete)
    /// before they read the accumulators.
    unsafe fn issue(&mut self, tile: &WorkTile, accumulators: &mut Accumulators<Self>);

    /// Waits until the products that were issued are complete. The mainloop may keep the tile's
    /// last stage, until [`release`](Self::release).
    ///
    /// # Safety
    /// All threads of the tiled MMA call it, after [`issue`](Self::issue).
    unsafe fn complete(&mut self, accumulators: &mut Accumulators<Self>);

    /// Releases the tile's last stage, if the mainloop has kept it.
    ///
    /// # Safety
    /// All threads of the tiled MMA call it, after [`complete`](Self::complete), and nothing that
    /// they have started refers to the stage.
    #[inline(always)]
    unsafe fn release(&mut self) {}
}

/// The thread that fills the stages `S` of a mainloop with operands `O`.
///
/// [`FillProducer`](super::FillProducer) fills a ring of stages of A and B by any
/// [`Fill`](super::Fill).
pub trait StageProducer<O, S>: Sized {
    /// Prepares the stages, and accesses no other memory: earlier kernels may still run. Operands
    /// are passed only for their extents.
    ///
    /// # Safety
    /// All threads of the block, and of all blocks of a cluster, call it before any other function
    /// of the mainloop.
    unsafe fn init(operands: O, stages: &S);

    /// Constructs the producer.
    ///
    /// # Safety
    /// One thread of the block calls it. Operands and stages are as for [`Mainloop::start`].
    unsafe fn new(operands: O, stages: S) -> Self;

    /// Fills the stages of a tile's K tiles `[tile.k, tile.k_end)`.
    ///
    /// # Safety
    /// The producer's tiles are those of the consumers, in the same order.
    unsafe fn load(&mut self, tile: &WorkTile);

    /// Ends the producer, once nothing refers to its block's shared memory any more.
    ///
    /// # Safety
    /// After the last tile.
    unsafe fn finish(self);

    /// Ends the producer's warpgroup, for a mainloop whose consumers wait for the cluster: its
    /// warps wait as well.
    ///
    /// # Safety
    /// All threads of the warpgroup call it once, after [`finish`](Self::finish).
    #[inline(always)]
    unsafe fn leave() {}
}

/// A mainloop whose stages are filled by a producer warp, while consumer warpgroups multiply.
pub trait WarpSpecialised: Mainloop {
    /// The thread that fills stages.
    type Producer: StageProducer<Self::Operands, StagesOf<Self>>;

    /// Skips a tile that another consumer warpgroup computes.
    ///
    /// # Safety
    /// Before this thread's next [`issue`](Mainloop::issue), the other warpgroup has issued the
    /// tile's products, and a barrier separates the two.
    unsafe fn skip(&mut self, tile: &WorkTile);
}
