//! The mainloop of Hopper: TMA fills stages, `wgmma` reads them.
//!
//! One thread of a producer warpgroup issues TMA loads of the tiles of A and B along K into a ring
//! of stages. Consumer warpgroups wait for a full stage, issue its products, and release the
//! previous stage: once only the products of the new stage are in flight, it has been read.
//!
//! In a cluster of blocks, whose tiles are adjacent along M and need the same columns of B, each
//! block loads its share of B's tile by multicast.

use super::mainloop::{Accumulators, Mainloop, StagesOf, TileOf, WARPGROUP, WarpSpecialised};
use super::tiles::{WorkTile, Worker};
use crate::algorithm::clear;
use crate::arch::{sync_cluster, sync_threads, thread_idx};
use crate::atom::tma::{TmaCopy, TmaTensor};
use crate::atom::wgmma::{
    DescriptorTensor, DescriptorsOf, ScaleOut, WgmmaAtom, warpgroup_arrive, warpgroup_commit_batch,
    warpgroup_fence_operand, warpgroup_gemm, warpgroup_wait,
};
use crate::atom::{OfA, OfB, StaticTiledMma, TilingError};
use crate::memory::{Element, SharedArray};
use crate::pipeline::{Consumer, Full, PipelineStorage, Producer, Readers};
use crate::tensor::{OneStage, SharedTensor, StaticLayout};
use core::marker::PhantomData;

/// The copy of a stage of A for `L`, from a tensor of `R` modes, (M, K) or (M, K, batch).
pub type LoadA<T, L, const R: usize = 2> = TmaCopy<T, OneStage<L>, R>;
/// The copy of a stage of B for `L`, from a tensor of `R` modes, (N, K) or (N, K, batch); each
/// block of a cluster loads a share.
pub type LoadB<T, L, const R: usize = 2, const CLUSTER: u32 = 1> = TmaCopy<T, OneStage<L>, R, CLUSTER>;

/// The rows of A that a tile of C needs, in the tensor of a tensor map of `R` modes.
///
/// For a tensor of coordinates, the tile's index along M and its batch determine them. Implement
/// this for tiles that begin at any row, such as those of groups of rows.
pub trait RowsOfA<C, const R: usize>: Copy {
    /// The tensor that starts at the first row of a tile of `block` rows, and at the first element
    /// along K.
    ///
    /// # Safety
    /// The memory that it reads is readable.
    unsafe fn rows_of(&self, tile: &WorkTile, block: u32) -> TmaTensor<C, R>;

    /// The number of rows of C from the tile's first row on: warpgroups without rows skip the
    /// tile's products, and their accumulators are zeros.
    ///
    /// # Safety
    /// The memory that it reads is readable.
    #[inline(always)]
    unsafe fn rows(&self, _tile: &WorkTile, _block: u32) -> u32 {
        u32::MAX
    }
}

impl<T: Element, L: StaticLayout, const R: usize> RowsOfA<TmaCopy<T, L, R>, R>
    for TmaTensor<TmaCopy<T, L, R>, R>
{
    #[inline(always)]
    unsafe fn rows_of(&self, tile: &WorkTile, _block: u32) -> Self {
        self.at(numbers(tile.m, 0, tile.batch))
    }
}

/// The warps of a tiled MMA, all of which read each stage.
#[derive(Clone, Copy, Debug)]
pub struct WarpsOf<M>(PhantomData<fn() -> M>);

impl<M: StaticTiledMma> Readers for WarpsOf<M> {
    const WARPS: u32 = M::THREADS / 32;
}

/// The mainloop: elements `T`, stages of A and B in shared memory `LA` and `LB`,
/// `(BLK_M, BLK_K, PIPE)` and `(BLK_N, BLK_K, PIPE)` with `PIPE` = `STAGES`, multiplied by `M` with
/// both operands in shared memory.
///
/// Its [`Operands`](Mainloop::Operands) are the tensors of coordinates of the tensor maps of A and
/// B, by [`LoadA`] and [`LoadB`], or for A any [`RowsOfA`]. Out of bounds elements are loaded as
/// zeros.
pub struct TmaWarpSpecialised<
    T,
    LA,
    LB,
    M,
    const STAGES: u32,
    const CLUSTER: u32 = 1,
    const R: usize = 2,
    A = TmaTensor<LoadA<T, LA, R>, R>,
> where
    T: Element,
    LA: StaticLayout,
    LB: StaticLayout,
    M: StaticTiledMma<Atom: WgmmaAtom>,
{
    a: A,
    /// The first row of this warpgroup's first instruction in the tile.
    row: u32,
    consumer: Consumer<STAGES, CLUSTER>,
    /// (1, MMA_M, MMA_K, PIPE)
    tCrA: DescriptorTensor<DescriptorsOf<LA, M, OfA>>,
    /// (1, MMA_N, MMA_K, PIPE)
    tCrB: DescriptorTensor<DescriptorsOf<LB, M, OfB>>,
    /// The last stage that was issued and is not released yet.
    before: Option<Full>,
    elements: PhantomData<T>,
}

/// The thread that issues the TMA loads.
pub struct TmaProducer<T: Element, LA, LB, const STAGES: u32, const CLUSTER: u32, const R: usize, A> {
    producer: Producer<STAGES, CLUSTER>,
    a: A,
    b: TmaTensor<LoadB<T, LB, R, CLUSTER>, R>,
    sA: SharedTensor<T, LA>,
    sB: SharedTensor<T, LB>,
}

/// The stages of both operands match the pipeline's, or the mainloop does not compile.
const fn check<LA: StaticLayout, LB: StaticLayout, M: StaticTiledMma>(stages: u32, rank: usize) {
    let (a, b) = (LA::LAYOUT, LB::LAYOUT);
    if a.rank() != 3
        || b.rank() != 3
        || a.extent(1) != b.extent(1)
        || a.extent(2) != b.extent(2)
        || a.extent(2) != stages as i64
    {
        TilingError::of("TmaWarpSpecialised")
            .str("stages of A are ")
            .layout(&a)
            .str(" and those of B ")
            .layout(&b)
            .str(": they are (BLK_M, BLK_K, PIPE) and (BLK_N, BLK_K, PIPE), of the same BLK_K and with PIPE = ")
            .int(stages as i64)
            .str(", the pipeline's stages")
            .raise();
    }
    if M::THREADS % WARPGROUP != 0 {
        TilingError::of("TmaWarpSpecialised")
            .str("the tiled MMA has ")
            .int(M::THREADS as i64)
            .str(" threads; wgmma is executed by warpgroups of 128")
            .raise();
    }
    if rank != 2 && rank != 3 {
        TilingError::of("TmaWarpSpecialised")
            .str("tensors of A and B have 2 modes, or 3 with a batch, and these have ")
            .int(rank as i64)
            .raise();
    }
}

/// The tile's coordinates in a tensor (MN, K) or (MN, K, batch).
#[inline(always)]
const fn numbers<const R: usize>(mn: u32, k: u32, batch: u32) -> [u32; R] {
    let mut numbers = [0; R];
    (numbers[0], numbers[1]) = (mn, k);
    if R > 2 {
        numbers[R - 1] = batch;
    }
    numbers
}

impl<T, LA, LB, M, const STAGES: u32, const CLUSTER: u32, const R: usize, A> Mainloop
    for TmaWarpSpecialised<T, LA, LB, M, STAGES, CLUSTER, R, A>
where
    A: RowsOfA<LoadA<T, LA, R>, R>,
    T: Element,
    LA: StaticLayout,
    LB: StaticLayout,
    M: StaticTiledMma<Atom: WgmmaAtom<OperandA = u64, D: Element>>,
{
    type Mma = M;
    type TileC = TileOf<LA, LB>;
    type Accumulator = <M::Atom as WgmmaAtom>::D;
    type Storage = (SharedArray<T, LA>, SharedArray<T, LB>, PipelineStorage<STAGES, WarpsOf<M>, CLUSTER>);
    type Operands = (A, TmaTensor<LoadB<T, LB, R, CLUSTER>, R>);

    const THREADS: u32 = M::THREADS + WARPGROUP;
    const TILE: (u32, u32, u32) = {
        check::<LA, LB, M>(STAGES, R);
        (LA::LAYOUT.extent(0) as u32, LB::LAYOUT.extent(0) as u32, LA::LAYOUT.extent(1) as u32)
    };
    const CLUSTER: u32 = CLUSTER;

    #[inline(always)]
    fn worker() -> Worker {
        Worker::cluster(CLUSTER)
    }

    #[inline(always)]
    unsafe fn start((a, _): Self::Operands, stages: StagesOf<Self>, _thread: u32, warpgroup: u32) -> Self {
        let (sA, sB, pipeline) = stages; // (BLK_M, BLK_K, PIPE), (BLK_N, BLK_K, PIPE)
        // Descriptors are in uniform registers: they are computed from the warpgroup's index, which
        // is uniform.
        let mma = M::get_slice(if M::THREADS == WARPGROUP { 0 } else { WARPGROUP * warpgroup });
        Self {
            a,
            row: if M::THREADS == WARPGROUP { 0 } else { 64 * warpgroup },
            consumer: pipeline.consumer(),
            tCrA: mma.descriptors_a(&mma.partition_a(sA)),
            tCrB: mma.descriptors_b(&mma.partition_b(sB)),
            before: None,
            elements: PhantomData,
        }
    }

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn issue(&mut self, tile: &WorkTile, tCrC: &mut Accumulators<Self>) {
        // SAFETY: all threads of the warpgroups are here. A stage is read when it is full, and
        // released when only the products of the next stage are in flight.
        unsafe {
            let mut k = tile.k;
            if self.a.rows(tile, Self::TILE.0) <= self.row {
                clear(tCrC);
                while k < tile.k_end {
                    let full = self.consumer.wait();
                    if let Some(before) = self.before.replace(full) {
                        self.consumer.release(before);
                    }
                    k += 1;
                }
                return;
            }
            while k < tile.k_end {
                let full = self.consumer.wait();
                let (tCrA, tCrB) = full.of((self.tCrA, self.tCrB));
                warpgroup_arrive();
                warpgroup_gemm(M::default(), &tCrA, &tCrB, tCrC, ScaleOut::One.unless(k == tile.k));
                warpgroup_commit_batch();
                warpgroup_wait::<1>();
                if let Some(before) = self.before.replace(full) {
                    self.consumer.release(before);
                }
                k += 1;
            }
        }
    }

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn complete(&mut self, tCrC: &mut Accumulators<Self>) {
        warpgroup_wait::<0>();
        warpgroup_fence_operand(M::default(), tCrC);
    }

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn release(&mut self) {
        if let Some(before) = self.before.take() {
            self.consumer.release(before);
        }
    }
}

impl<T, LA, LB, M, const STAGES: u32, const CLUSTER: u32, const R: usize, A> WarpSpecialised
    for TmaWarpSpecialised<T, LA, LB, M, STAGES, CLUSTER, R, A>
where
    A: RowsOfA<LoadA<T, LA, R>, R>,
    T: Element,
    LA: StaticLayout,
    LB: StaticLayout,
    M: StaticTiledMma<Atom: WgmmaAtom<OperandA = u64, D: Element>>,
{
    type Producer = TmaProducer<T, LA, LB, STAGES, CLUSTER, R, A>;

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn init(_: Self::Operands, (_, _, pipeline): &StagesOf<Self>) {
        if thread_idx().x == 0 {
            // SAFETY: one thread, and a barrier of the block or of the cluster follows.
            unsafe { pipeline.init() };
        }
        if CLUSTER > 1 {
            sync_cluster();
        } else {
            sync_threads();
        }
    }

    #[inline(always)]
    unsafe fn producer((a, b): Self::Operands, (sA, sB, pipeline): StagesOf<Self>) -> Self::Producer {
        TmaProducer { producer: pipeline.producer(), a, b, sA, sB }
    }

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn load(producer: &mut Self::Producer, tile: &WorkTile) {
        let TmaProducer { producer, a, b, sA, sB } = producer;
        let (load_a, load_b) = (LoadA::<T, LA, R>::get_slice(), LoadB::<T, LB, R, CLUSTER>::get_slice());
        // SAFETY: memory of the operands is readable.
        let gA = unsafe { a.rows_of(tile, const { LA::LAYOUT.extent(0) as u32 }) };
        let mut k = tile.k;
        while k < tile.k_end {
            let gB = load_b.partition_s(b.at(numbers(tile.n, k, tile.batch)));
            let filling =
                producer.acquire(const { LoadA::<T, LA, R>::BYTES + LoadB::<T, LB, R, CLUSTER>::BYTES });
            let (sA, sB) = filling.of((*sA, *sB)); // (BLK_M, BLK_K), (BLK_N, BLK_K)
            // SAFETY: the stage is free and expects the bytes; the contract of `producer` covers
            // the maps.
            unsafe {
                load_a.copy(gA.at(numbers(0, k, 0)), sA, &filling);
                load_b.copy(gB, load_b.partition_d(sB), &filling);
            }
            k += 1;
        }
    }

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn finish(producer: Self::Producer) {
        if CLUSTER > 1 {
            // The other blocks arrive at this block's barriers until they have read their last
            // stages.
            producer.producer.drain();
        }
    }

    #[inline(always)]
    unsafe fn skip(&mut self, tile: &WorkTile) {
        // SAFETY: the other team has issued this tile's products, and a barrier separates the two.
        unsafe { self.consumer.skip(tile.k_tiles()) };
    }
}
