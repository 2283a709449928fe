//! Hopper's mainloop with stages from anywhere: the `wgmma` consumers and their producer are here,
//! and a [`Fill`] issues the loads of a stage.
//!
//! One thread of a producer warpgroup fills a ring of stages. Consumer warpgroups wait for a full
//! stage, issue its products, and release the previous stage: once only the products of the new
//! stage are in flight, it has been read.

use super::mainloop::{Accumulators, Mainloop, StageProducer, StagesOf, TileOf, WARPGROUP, WarpSpecialised};
use super::tiles::{WorkTile, Worker};
use crate::arch::{cluster_arrive_relaxed, cluster_wait, sync_threads, thread_idx};
use crate::atom::wgmma::{
    DescriptorTensor, DescriptorsOf, ScaleOut, WgmmaAtom, warpgroup_arrive, warpgroup_commit_batch,
    warpgroup_fence_operand, warpgroup_gemm, warpgroup_wait,
};
use crate::atom::{OfA, OfB, StaticTiledMma, TilingError};
use crate::memory::{Element, SharedArray};
use crate::pipeline::{Consumer, Filling, Full, Pipeline, PipelineStorage, Producer, Readers};
use crate::tensor::{SharedTensor, StaticLayout};
use core::marker::PhantomData;

/// The warps of a tiled MMA, all of which read each stage.
#[derive(Clone, Copy, Debug)]
pub struct WarpsOf<M>(PhantomData<fn() -> M>);

impl<M: StaticTiledMma> Readers for WarpsOf<M> {
    const WARPS: u32 = M::THREADS / 32;
}

/// How the stages of both operands are filled, `(BLK_M, BLK_K, PIPE)` and `(BLK_N, BLK_K, PIPE)`
/// with `PIPE` = `STAGES`, by one thread of each block of a cluster of `CLUSTER` blocks.
///
/// [`TmaWarpSpecialised`](super::TmaWarpSpecialised) loads tiles of two tensors. A custom `Fill`
/// loads rows of groups, matrices of a list, or anything else that copies complete on the stage's
/// mbarrier.
pub trait Fill<const STAGES: u32, const CLUSTER: u32>: Copy {
    /// The operands of the mainloop.
    type Operands: Copy;
    /// The elements of A.
    type A: Element;
    /// The elements of B.
    type B: Element;
    /// The stages of A.
    type StagesA: StaticLayout;
    /// The stages of B.
    type StagesB: StaticLayout;
    /// State shared by all K tiles of a tile of C.
    type Tile;

    /// Bytes of a stage, from all blocks of the cluster.
    const BYTES: u32;

    /// The loads of `operands`.
    fn new(operands: Self::Operands) -> Self;

    /// Prepares the loads of a tile, in the thread that issues them.
    ///
    /// # Safety
    /// The memory of the operands is readable.
    unsafe fn tile(&mut self, tile: &WorkTile) -> Self::Tile;

    /// Issues the loads of K tile `k` of a tile.
    ///
    /// # Safety
    /// The memory of the operands is readable, and the stage is free.
    unsafe fn load(
        &self,
        of: &Self::Tile,
        tile: &WorkTile,
        k: u32,
        stages: (SharedTensor<Self::A, Self::StagesA>, SharedTensor<Self::B, Self::StagesB>),
        filling: &Filling,
    );

    /// The number of rows of C from the tile's first row on: warpgroups of [`Filled`] without rows
    /// skip the tile's products, and their accumulators are undefined. The sink must store only
    /// these rows, like [`ToSpans`](super::ToSpans) and [`BoxesToSpans`](super::BoxesToSpans).
    ///
    /// # Safety
    /// The memory that it reads is readable.
    #[inline(always)]
    unsafe fn rows(&self, _tile: &WorkTile) -> u32 {
        u32::MAX
    }
}

/// The thread that fills stages by `F`.
pub struct FillProducer<F: Fill<STAGES, CLUSTER>, const STAGES: u32, const CLUSTER: u32> {
    producer: Producer<STAGES, CLUSTER>,
    fill: F,
    stages: (SharedTensor<F::A, F::StagesA>, SharedTensor<F::B, F::StagesB>),
}

/// The stages of `F` and their pipeline, read by the warps `R`.
type Ring<F, R, const STAGES: u32, const CLUSTER: u32> = (
    SharedTensor<<F as Fill<STAGES, CLUSTER>>::A, <F as Fill<STAGES, CLUSTER>>::StagesA>,
    SharedTensor<<F as Fill<STAGES, CLUSTER>>::B, <F as Fill<STAGES, CLUSTER>>::StagesB>,
    Pipeline<STAGES, R, CLUSTER>,
);

impl<F, R, const STAGES: u32, const CLUSTER: u32> StageProducer<F::Operands, Ring<F, R, STAGES, CLUSTER>>
    for FillProducer<F, STAGES, CLUSTER>
where
    F: Fill<STAGES, CLUSTER>,
    R: Readers,
{
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn init(_: F::Operands, (_, _, pipeline): &Ring<F, R, STAGES, CLUSTER>) {
        if thread_idx().x == 0 {
            // SAFETY: one thread, and a barrier of the block or of the cluster follows.
            unsafe { pipeline.init() };
        }
        if CLUSTER > 1 {
            // Only the mbarriers were written, which have their own fence.
            cluster_arrive_relaxed();
            cluster_wait();
        } else {
            sync_threads();
        }
    }

    #[inline(always)]
    unsafe fn new(operands: F::Operands, (sA, sB, pipeline): Ring<F, R, STAGES, CLUSTER>) -> Self {
        Self { producer: pipeline.producer(), fill: F::new(operands), stages: (sA, sB) }
    }

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn load(&mut self, tile: &WorkTile) {
        let Self { producer, fill, stages } = self;
        // SAFETY: the memory of the operands is readable; each stage is free.
        unsafe {
            let of = fill.tile(tile);
            let mut k = tile.k;
            while k < tile.k_end {
                let filling = producer.acquire(F::BYTES);
                fill.load(&of, tile, k, *stages, &filling);
                k += 1;
            }
        }
    }

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn finish(self) {
        if CLUSTER > 1 {
            // The other blocks arrive at this block's barriers until they have read their last
            // stages.
            self.producer.drain();
        }
    }
}

/// The same for a mainloop that has other memory beside the stages.
impl<F, R, O, const STAGES: u32, const CLUSTER: u32>
    StageProducer<F::Operands, (Ring<F, R, STAGES, CLUSTER>, O)> for FillProducer<F, STAGES, CLUSTER>
where
    F: Fill<STAGES, CLUSTER>,
    R: Readers,
    Self: StageProducer<F::Operands, Ring<F, R, STAGES, CLUSTER>>,
{
    #[inline(always)]
    unsafe fn init(operands: F::Operands, (ring, _): &(Ring<F, R, STAGES, CLUSTER>, O)) {
        // SAFETY: one thread, as the trait says, and a barrier follows.
        unsafe { <Self as StageProducer<_, Ring<F, R, STAGES, CLUSTER>>>::init(operands, ring) }
    }

    #[inline(always)]
    unsafe fn new(operands: F::Operands, (ring, _): (Ring<F, R, STAGES, CLUSTER>, O)) -> Self {
        // SAFETY: one thread constructs it, from the mainloop's stages.
        unsafe { <Self as StageProducer<_, _>>::new(operands, ring) }
    }

    #[inline(always)]
    unsafe fn load(&mut self, tile: &WorkTile) {
        // SAFETY: the tiles are those of the consumers, in the same order.
        unsafe { StageProducer::<_, Ring<F, R, STAGES, CLUSTER>>::load(self, tile) }
    }

    #[inline(always)]
    unsafe fn finish(self) {
        // SAFETY: the last tile is filled.
        unsafe { StageProducer::<_, Ring<F, R, STAGES, CLUSTER>>::finish(self) }
    }
}

/// The mainloop: stages that `F` fills, multiplied by `M` with both operands in shared memory.
///
/// ```
/// # #![allow(non_snake_case)]
/// use half::bf16;
/// use moye_device::atom::tma::TmaTensor;
/// use moye_device::collective::{Fill, LoadA, LoadB, WorkTile};
/// use moye_device::pipeline::Filling;
/// use moye_device::tensor::{SharedTensor, StaticLayout};
///
/// /// Tiles of A at half their index along M: two adjacent tiles of C have the same rows of A.
/// #[derive(Clone, Copy)]
/// struct Halved<A: StaticLayout, B: StaticLayout> {
///     a: TmaTensor<LoadA<bf16, A>, 2>,
///     b: TmaTensor<LoadB<bf16, B>, 2>,
/// }
///
/// impl<A, B, const STAGES: u32> Fill<STAGES, 1> for Halved<A, B>
/// where
///     A: StaticLayout,
///     B: StaticLayout,
/// {
///     type Operands = Self;
///     type A = bf16;
///     type B = bf16;
///     type StagesA = A;
///     type StagesB = B;
///     type Tile = ();
///     const BYTES: u32 = LoadA::<bf16, A>::BYTES + LoadB::<bf16, B>::BYTES;
///
///     fn new(operands: Self) -> Self {
///         operands
///     }
///
///     unsafe fn tile(&mut self, _: &WorkTile) {}
///
///     unsafe fn load(
///         &self,
///         (): &(),
///         tile: &WorkTile,
///         k: u32,
///         stages: (SharedTensor<bf16, A>, SharedTensor<bf16, B>),
///         filling: &Filling,
///     ) {
///         let (sA, sB) = filling.of(stages); // (BLK_M, BLK_K), (BLK_N, BLK_K)
///         // SAFETY: the stage is free and expects the bytes of both tiles.
///         unsafe {
///             LoadA::<bf16, A>::get_slice().copy(self.a.at((tile.m / 2, k)), sA, filling);
///             LoadB::<bf16, B>::get_slice().copy(self.b.at((tile.n, k)), sB, filling);
///         }
///     }
/// }
/// ```
pub struct Filled<
    F: Fill<STAGES, CLUSTER>,
    M: StaticTiledMma<Atom: WgmmaAtom>,
    const STAGES: u32,
    const CLUSTER: u32 = 1,
> {
    fill: F,
    /// The first row of this warpgroup's first instruction in the tile.
    row: u32,
    consumer: Consumer<STAGES, CLUSTER>,
    /// (1, MMA_M, MMA_K, PIPE)
    tCrA: DescriptorTensor<DescriptorsOf<F::StagesA, M, OfA>>,
    /// (1, MMA_N, MMA_K, PIPE)
    tCrB: DescriptorTensor<DescriptorsOf<F::StagesB, M, OfB>>,
    /// The last stage that was issued and is not released yet.
    before: Option<Full>,
}

/// The stages of both operands match the pipeline's, or the mainloop does not compile.
const fn check<LA: StaticLayout, LB: StaticLayout, M: StaticTiledMma>(stages: u32) {
    let (a, b) = (LA::LAYOUT, LB::LAYOUT);
    if a.rank() != 3
        || b.rank() != 3
        || a.extent(1) != b.extent(1)
        || a.extent(2) != b.extent(2)
        || a.extent(2) != stages as i64
    {
        TilingError::of("Filled, TmaWarpSpecialised")
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
        TilingError::of("Filled, TmaWarpSpecialised")
            .str("the tiled MMA has ")
            .int(M::THREADS as i64)
            .str(" threads; wgmma is executed by warpgroups of 128")
            .raise();
    }
}

impl<F, M, const STAGES: u32, const CLUSTER: u32> Mainloop for Filled<F, M, STAGES, CLUSTER>
where
    F: Fill<STAGES, CLUSTER>,
    M: StaticTiledMma<Atom: WgmmaAtom<OperandA = u64, D: Element>>,
{
    type Mma = M;
    type TileC = TileOf<F::StagesA, F::StagesB>;
    type Accumulator = <M::Atom as WgmmaAtom>::D;
    type Storage = (
        SharedArray<F::A, F::StagesA>,
        SharedArray<F::B, F::StagesB>,
        PipelineStorage<STAGES, WarpsOf<M>, CLUSTER>,
    );
    type Operands = F::Operands;

    const THREADS: u32 = M::THREADS + WARPGROUP;
    const TILE: (u32, u32, u32) = {
        check::<F::StagesA, F::StagesB, M>(STAGES);
        let (a, b) = (F::StagesA::LAYOUT, F::StagesB::LAYOUT);
        (a.extent(0) as u32, b.extent(0) as u32, a.extent(1) as u32)
    };
    const CLUSTER: u32 = CLUSTER;

    #[inline(always)]
    fn worker() -> Worker {
        Worker::cluster(CLUSTER)
    }

    #[inline(always)]
    unsafe fn start(operands: F::Operands, stages: StagesOf<Self>, _thread: u32, warpgroup: u32) -> Self {
        let (sA, sB, pipeline) = stages; // (BLK_M, BLK_K, PIPE), (BLK_N, BLK_K, PIPE)
        // Descriptors are in uniform registers: they are computed from the warpgroup's index, which
        // is uniform.
        let warpgroup = if M::THREADS == WARPGROUP { 0 } else { warpgroup };
        let mma = M::get_slice(WARPGROUP * warpgroup);
        Self {
            fill: F::new(operands),
            row: 64 * warpgroup,
            consumer: pipeline.consumer(),
            tCrA: mma.descriptors_a(&mma.partition_a(sA)),
            tCrB: mma.descriptors_b(&mma.partition_b(sB)),
            before: None,
        }
    }

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn issue(&mut self, tile: &WorkTile, tCrC: &mut Accumulators<Self>) {
        // SAFETY: all threads of the warpgroups are here. A stage is read when it is full, and
        // released when only the products of the next stage are in flight.
        unsafe {
            let mut k = tile.k;
            if self.fill.rows(tile) <= self.row {
                // Writing the accumulators would make ptxas insert a wait after each `wgmma`.
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

impl<F, M, const STAGES: u32, const CLUSTER: u32> WarpSpecialised for Filled<F, M, STAGES, CLUSTER>
where
    F: Fill<STAGES, CLUSTER>,
    M: StaticTiledMma<Atom: WgmmaAtom<OperandA = u64, D: Element>>,
{
    type Producer = FillProducer<F, STAGES, CLUSTER>;

    #[inline(always)]
    unsafe fn skip(&mut self, tile: &WorkTile) {
        // SAFETY: the other team has issued this tile's products, and a barrier separates the two.
        unsafe { self.consumer.skip(tile.k_tiles()) };
    }
}
