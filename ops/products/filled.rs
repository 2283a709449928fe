//! Hopper mainloops with a custom producer: the `wgmma` consumers are here, and a [`Fill`] loads
//! the stages. With a [`FillScaled`], partial accumulators of 8-bit floats are multiplied by their
//! scales and added in f32.
#![allow(non_snake_case, reason = "CuTe's names")]

use moye_device::algorithm::clear;
use moye_device::arch::{opaque, sync_cluster, sync_threads, thread_idx};
use moye_device::atom::mma::{accumulator_column, accumulator_row};
use moye_device::atom::{OfA, OfB};
use moye_device::collective::*;
use moye_device::pipeline::{Filling, Full};
use moye_device::prelude::*;

/// How the stages of both operands are filled, (BLK_M, BLK_K, PIPE) and (BLK_N, BLK_K, PIPE) with
/// as many as `STAGES`: by one thread of each block of a cluster.
pub trait Fill<const STAGES: u32, const CLUSTER: u32>: Copy {
    /// The elements.
    type Element: Element;
    /// Stages of A.
    type StagesA: StaticLayout;
    /// Stages of B.
    type StagesB: StaticLayout;
    /// Bytes of a stage, from all blocks of the cluster.
    const BYTES: u32;

    /// State shared by all K tiles of a tile of C.
    type Tile;

    /// Prepares the loads of a tile, in the thread that issues them.
    ///
    /// # Safety
    /// Memory of the operands is readable.
    unsafe fn tile(&mut self, tile: &WorkTile) -> Self::Tile;

    /// Issues the loads of K tile `k` of a tile.
    ///
    /// # Safety
    /// Memory of the operands is readable, and the stage free.
    unsafe fn load(
        &self,
        of: &Self::Tile,
        tile: &WorkTile,
        k: u32,
        stages: (SharedTensor<Self::Element, Self::StagesA>, SharedTensor<Self::Element, Self::StagesB>),
        filling: &Filling,
    );

    /// The number of rows of C from the tile's first one on: warpgroups without rows skip the
    /// tile's products, and their accumulators are undefined.
    ///
    /// # Safety
    /// Memory that it reads is readable.
    #[inline(always)]
    unsafe fn rows(&self, _tile: &WorkTile) -> u32 {
        u32::MAX
    }
}

/// The mainloop: stages that `F` fills, multiplied by `M` with both operands in shared memory.
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
    /// The last issued stage, not released yet.
    before: Option<Full>,
}

/// The thread that fills stages.
pub struct FilledProducer<F: Fill<STAGES, CLUSTER>, const STAGES: u32, const CLUSTER: u32> {
    producer: Producer<STAGES, CLUSTER>,
    fill: F,
    stages: (SharedTensor<F::Element, F::StagesA>, SharedTensor<F::Element, F::StagesB>),
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
        SharedArray<F::Element, F::StagesA>,
        SharedArray<F::Element, F::StagesB>,
        PipelineStorage<STAGES, WarpsOf<M>, CLUSTER>,
    );
    type Operands = F;

    const THREADS: u32 = M::THREADS + WARPGROUP;
    const TILE: (u32, u32, u32) = {
        let (a, b) = (F::StagesA::LAYOUT, F::StagesB::LAYOUT);
        assert!(a.extent(1) == b.extent(1) && a.extent(2) == STAGES as i64 && b.extent(2) == STAGES as i64);
        (a.extent(0) as u32, b.extent(0) as u32, a.extent(1) as u32)
    };
    const CLUSTER: u32 = CLUSTER;

    #[inline(always)]
    fn worker() -> Worker {
        Worker::cluster(CLUSTER)
    }

    #[inline(always)]
    unsafe fn start(fill: F, (sA, sB, pipeline): StagesOf<Self>, _thread: u32, warpgroup: u32) -> Self {
        // Descriptors depend on the warpgroup's index, which is uniform.
        let mma = M::get_slice(WARPGROUP * warpgroup);
        Self {
            fill,
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
        // released when the products of the stage after it are the only ones that run.
        unsafe {
            let mut k = tile.k;
            if self.fill.rows(tile) <= self.row {
                // Nothing writes the accumulators: ptxas would serialise the products otherwise.
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
    type Producer = FilledProducer<F, STAGES, CLUSTER>;

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn init(_: F, (_, _, pipeline): &StagesOf<Self>) {
        if thread_idx().x == 0 {
            // SAFETY: one thread, and a barrier of the block, or of the cluster, follows.
            unsafe { pipeline.init() };
        }
        if CLUSTER > 1 {
            sync_cluster();
        } else {
            sync_threads();
        }
    }

    #[inline(always)]
    unsafe fn producer(fill: F, (sA, sB, pipeline): StagesOf<Self>) -> Self::Producer {
        FilledProducer { producer: pipeline.producer(), fill, stages: (sA, sB) }
    }

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn load(producer: &mut Self::Producer, tile: &WorkTile) {
        let FilledProducer { producer, fill, stages } = producer;
        // SAFETY: memory of the operands is readable; each stage is free.
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
    unsafe fn finish(producer: Self::Producer) {
        if CLUSTER > 1 {
            // The other blocks arrive at this one's barriers until they have read their last
            // stages.
            producer.producer.drain();
        }
    }

    #[inline(always)]
    unsafe fn skip(&mut self, tile: &WorkTile) {
        // SAFETY: the other team has issued this tile's products, and a barrier is between.
        unsafe { self.consumer.skip(tile.k_tiles()) };
    }
}

/// The scales of the matrices of a tile: of A for 1 x 128 elements, of B for 128 x 128.
#[derive(Clone, Copy, Debug)]
pub struct TileScales {
    /// The scales of A, and of B.
    pub of: [BlockScales; 2],
    /// Rows of A, and of B.
    pub rows: [u32; 2],
}

/// A [`Fill`] of 8-bit floats with scales, whose K tiles have 128 elements.
pub trait FillScaled<const STAGES: u32>: Fill<STAGES, 1> {
    /// The scales of a tile.
    ///
    /// # Safety
    /// Memory that it reads is readable.
    unsafe fn scales(&self, tile: &WorkTile) -> TileScales;
}

/// [`Filled`] with promotion like [`Promoted`]: the products of a K tile, times their scales, are
/// added in f32.
pub struct FilledPromoted<F: FillScaled<STAGES>, M: StaticTiledMma<Atom: WgmmaAtom>, const STAGES: u32> {
    filled: Filled<F, M, STAGES>,
    /// The first row of this thread in a tile.
    row: u32,
}

impl<F, M, const STAGES: u32> Mainloop for FilledPromoted<F, M, STAGES>
where
    F: FillScaled<STAGES>,
    M: StaticTiledMma<Atom: WgmmaAtom<OperandA = u64, D = f32>>,
{
    type Mma = M;
    type TileC = <Filled<F, M, STAGES> as Mainloop>::TileC;
    type Accumulator = f32;
    type Storage = <Filled<F, M, STAGES> as Mainloop>::Storage;
    type Operands = F;

    const THREADS: u32 = Filled::<F, M, STAGES>::THREADS;
    const TILE: (u32, u32, u32) = {
        let tile = Filled::<F, M, STAGES>::TILE;
        // One scale of B covers the columns of the tile, all of which an instruction computes.
        assert!(tile.1 == SCALED_K && tile.2 == SCALED_K && M::THREADS == 2 * tile.0);
        tile
    };

    #[inline(always)]
    unsafe fn start(fill: F, stages: StagesOf<Self>, thread: u32, warpgroup: u32) -> Self {
        let row = 64 * warpgroup + thread % WARPGROUP / 32 * 16 + accumulator_row(thread % 32);
        // SAFETY: the stages are the kernel's, and the thread and its warpgroup those of the MMA.
        Self { filled: unsafe { Filled::start(fill, stages, thread, warpgroup) }, row }
    }

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn issue(&mut self, tile: &WorkTile, tCrC: &mut Accumulators<Self>) {
        let Filled { fill, consumer, tCrA, tCrB, .. } = &mut self.filled;
        // SAFETY: all threads of the warpgroups are here. A stage is read when it is full, and
        // released when its products are complete. Scales are read inside their extents.
        unsafe {
            clear(tCrC);
            let mut k = tile.k;
            if fill.rows(tile) <= self.row / 64 * 64 {
                while k < tile.k_end {
                    let full = consumer.wait();
                    consumer.release(full);
                    k += 1;
                }
                return;
            }
            let TileScales { of: [of_a, of_b], rows: [rows, columns] } = fill.scales(tile);
            let mut partial = Accumulators::<Self>::uninit(); // (MMA, MMA_M, MMA_N)
            while k < tile.k_end {
                // Scales arrive while the products run.
                let row = opaque(self.row) + tile.m * Self::TILE.0;
                let of_row = |row: u32| of_a.read(0, row.min(rows - 1), k);
                let of_rows = [of_row(row), of_row(row + 8)];
                let part = Columns {
                    first: opaque(tile.n) * Self::TILE.1,
                    end: columns,
                    eights: Self::TILE.1 / 8,
                    lane: accumulator_column(thread_idx().x % 32),
                };
                let of_columns = of_b.part(part, 0, k);
                let full = consumer.wait();
                let (tCrA, tCrB) = full.of((*tCrA, *tCrB));
                warpgroup_arrive();
                warpgroup_gemm(M::default(), &tCrA, &tCrB, &mut partial, ScaleOut::Zero);
                warpgroup_commit_batch();
                warpgroup_wait::<0>();
                warpgroup_fence_operand(M::default(), &mut partial);
                consumer.release(full);
                for i in 0..Accumulators::<Self>::SIZE {
                    let scale = of_rows[i / 2 % 2] * of_columns;
                    tCrC[i] = partial[i].fma(scale, tCrC[i]);
                }
                k += 1;
            }
        }
    }

    #[inline(always)]
    unsafe fn complete(&mut self, _: &mut Accumulators<Self>) {}
}

impl<F, M, const STAGES: u32> WarpSpecialised for FilledPromoted<F, M, STAGES>
where
    F: FillScaled<STAGES>,
    M: StaticTiledMma<Atom: WgmmaAtom<OperandA = u64, D = f32>>,
{
    type Producer = FilledProducer<F, STAGES, 1>;

    #[inline(always)]
    unsafe fn init(fill: F, stages: &StagesOf<Self>) {
        // SAFETY: the stages and the fill are those of the mainloop inside, here and below.
        unsafe { Filled::<F, M, STAGES>::init(fill, stages) };
    }

    #[inline(always)]
    unsafe fn producer(fill: F, stages: StagesOf<Self>) -> Self::Producer {
        // SAFETY: as in `init`.
        unsafe { Filled::<F, M, STAGES>::producer(fill, stages) }
    }

    #[inline(always)]
    unsafe fn load(producer: &mut Self::Producer, tile: &WorkTile) {
        // SAFETY: as in `init`.
        unsafe { Filled::<F, M, STAGES>::load(producer, tile) };
    }

    #[inline(always)]
    unsafe fn finish(producer: Self::Producer) {
        // SAFETY: as in `init`.
        unsafe { Filled::<F, M, STAGES>::finish(producer) };
    }

    #[inline(always)]
    unsafe fn skip(&mut self, tile: &WorkTile) {
        // SAFETY: the other team has issued this tile's products, and a barrier is between.
        unsafe { self.filled.skip(tile) };
    }
}
