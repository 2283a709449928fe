//! The mainloop of 8-bit floats with scales: partial accumulators of the tensor cores are
//! multiplied by the scales of their K tile and added in f32.
//!
//! Tensor cores keep about 14 bits of an accumulator of 8-bit products, so that a long sum loses
//! bits; and scales of blocks along K vary over K. One loop solves both: the products of one K tile
//! accumulate in the tensor cores, and an FMA adds them to the accumulators, times the scales of
//! the row and of the column. While one warpgroup does that, the other's products run.
//!
//! Partial accumulators take registers beside the accumulators. A tile therefore has several parts
//! along N, each as wide as one instruction, whose partial accumulators share the same registers:
//!
//! ```text
//! stage       A, BLK_M x 128              B, part 0      B, part 1
//! warpgroup   wait, 4 wgmma (part 0), wait, c[0] += s p, 4 wgmma (part 1), wait, release, c[1] += s p
//! ```
//!
//! A warp copies the scales of its 16 rows by `cp.async` to its own places in shared memory, some K
//! tiles ahead: the scales of consecutive K tiles may be far apart, and TMA would require that they
//! are aligned.

use super::filled::{Fill, FillProducer, WarpsOf};
use super::mainloop::{Accumulators, Mainloop, StagesOf, WARPGROUP, WarpSpecialised};
use super::promoted_scales::{BlockScales, Columns, SCALED_N, ScalesOfB};
use super::spans::{RowSpans, at_row};
use super::tiles::{WorkTile, Worker};
use super::tma::{LoadA, LoadB};
use crate::algorithm::clear;
use crate::arch::{
    CpAsyncSize, FULL_WARP, Fma as _, cp_async, cp_async_commit, cp_async_wait, lane_id, opaque, sync_warp,
    thread_idx,
};
use crate::atom::mma::{accumulator_column, accumulator_row};
use crate::atom::tma::TmaTensor;
use crate::atom::wgmma::{
    DescriptorTensor, DescriptorsOf, ScaleOut, WgmmaAtom, warpgroup_arrive, warpgroup_commit_batch,
    warpgroup_fence_operand, warpgroup_gemm, warpgroup_wait,
};
use crate::atom::{AccumulatorOf, OfA, OfB, StaticTiledMma, TilingError};
use crate::layout::{IntTuple, Layout, make_col_major};
use crate::memory::{Element, SharedArray};
use crate::pipeline::{Consumer, Filling, PipelineStorage, Staged};
use crate::tensor::{Fragment, SharedTensor, StaticLayout};
use core::marker::PhantomData;

/// Elements along K with one scale: a K tile.
pub const SCALED_K: u32 = 128;

/// The operands of the mainloop.
pub struct Scaled<
    T: Element,
    LA: StaticLayout,
    LB: StaticLayout,
    S,
    const CLUSTER: u32,
    const R: usize,
    B = BlockScales,
> {
    /// A, (M, K, 1).
    pub a: TmaTensor<LoadA<T, LA, R>, R>,
    /// B, (N, K, batch).
    pub b: TmaTensor<LoadB<T, LB, R, CLUSTER>, R>,
    /// The scales of A.
    pub scale_a: BlockScales,
    /// The scales of B.
    pub scale_b: B,
    /// Rows of B.
    pub columns: u32,
    /// The rows of each tile.
    pub spans: S,
}

impl<T, LA, LB, S, const CLUSTER: u32, const R: usize, B> Clone for Scaled<T, LA, LB, S, CLUSTER, R, B>
where
    T: Element,
    LA: StaticLayout,
    LB: StaticLayout,
    S: Copy,
    B: Copy,
{
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}
impl<T, LA, LB, S, const CLUSTER: u32, const R: usize, B> Copy for Scaled<T, LA, LB, S, CLUSTER, R, B>
where
    T: Element,
    LA: StaticLayout,
    LB: StaticLayout,
    S: Copy,
    B: Copy,
{
}

/// A block's tile of C, `(BLK_M, PARTS * N)`, given stages of A `(BLK_M, BLK_K, PIPE)` and parts of
/// B `(N, BLK_K, PARTS * PIPE)`.
pub struct TileOfParts<LA, LB>(PhantomData<(LA, LB)>);
/// One part of the tile, `(BLK_M, N)`.
pub struct PartOf<LA, LB>(PhantomData<(LA, LB)>);

macro_rules! marker {
    ($($name:ident)+) => { $(
        impl<LA, LB> Clone for $name<LA, LB> {
            fn clone(&self) -> Self {
                *self
            }
        }
        impl<LA, LB> Copy for $name<LA, LB> {}
    )+ };
}
marker!(TileOfParts PartOf);

impl<LA: StaticLayout, LB: StaticLayout> StaticLayout for TileOfParts<LA, LB> {
    const LAYOUT: Layout = {
        let n = LB::LAYOUT.extent(0) * parts::<LA, LB>() as i64;
        make_col_major(IntTuple::flat(&[LA::LAYOUT.extent(0), n]))
    };
}
impl<LA: StaticLayout, LB: StaticLayout> StaticLayout for PartOf<LA, LB> {
    const LAYOUT: Layout = make_col_major(IntTuple::flat(&[LA::LAYOUT.extent(0), LB::LAYOUT.extent(0)]));
}

/// The scales of a tile's rows for the next K tiles: (BLK_M, AHEAD).
pub struct RowScalesAhead<LA>(PhantomData<LA>);

impl<LA> Clone for RowScalesAhead<LA> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<LA> Copy for RowScalesAhead<LA> {}

impl<LA: StaticLayout> StaticLayout for RowScalesAhead<LA> {
    const LAYOUT: Layout = make_col_major(IntTuple::flat(&[LA::LAYOUT.extent(0), ahead::<LA>() as i64]));
}

/// K tiles whose row scales are in flight or in use: products of 64 rows take less time for each,
/// and larger tiles leave little shared memory.
const fn ahead<LA: StaticLayout>() -> u32 {
    if LA::LAYOUT.extent(0) == 64 { 8 } else { 3 }
}

/// The number of parts of a tile along N.
const fn parts<LA: StaticLayout, LB: StaticLayout>() -> u32 {
    (LB::LAYOUT.extent(2) / LA::LAYOUT.extent(2)) as u32
}

/// The mainloop: elements `T`, stages of A `(BLK_M, 128, PIPE)`, parts of B
/// `(N, 128, PARTS * PIPE)`, `N` the columns of the instruction of `M`, rows from `S`, scales of B
/// from `B`.
pub struct Promoted<
    T,
    LA,
    LB,
    M,
    S,
    const STAGES: u32,
    const CLUSTER: u32 = 1,
    const R: usize = 3,
    B = BlockScales,
> where
    T: Element,
    LA: StaticLayout,
    LB: StaticLayout,
    M: StaticTiledMma<Atom: WgmmaAtom>,
{
    consumer: Consumer<STAGES, CLUSTER>,
    /// (1, MMA_M, MMA_K, PIPE)
    tCrA: DescriptorTensor<DescriptorsOf<LA, M, OfA>>,
    /// (1, 1, MMA_K, PARTS * PIPE)
    tCrB: DescriptorTensor<DescriptorsOf<LB, M, OfB>>,
    operands: Scaled<T, LA, LB, S, CLUSTER, R, B>,
    /// (BLK_M, AHEAD)
    scales: SharedTensor<f32, RowScalesAhead<LA>>,
    /// The first row of this warp in a tile.
    of_warp: u32,
}

/// The stages match the mainloop, or it does not compile.
const fn check<LA: StaticLayout, LB: StaticLayout, M: StaticTiledMma<Atom: WgmmaAtom>>(stages: u32) {
    let (a, b) = (LA::LAYOUT, LB::LAYOUT);
    let n = <M::Atom as WgmmaAtom>::SHAPE_MNK[1];
    let whole = a.rank() == 3
        && b.rank() == 3
        && a.extent(0) * 2 == M::THREADS as i64
        && a.extent(1) == SCALED_K as i64
        && b.extent(1) == SCALED_K as i64
        && a.extent(2) == stages as i64
        && b.extent(2) % stages as i64 == 0
        && b.extent(0) == n
        && SCALED_N as i64 % n == 0;
    if !whole {
        TilingError::of("Promoted")
            .str("stages of A are ")
            .layout(&a)
            .str(" and parts of B ")
            .layout(&b)
            .str(": they are (BLK_M, 128, PIPE) and (N, 128, parts * PIPE), of 64 rows of A for each warpgroup, with PIPE = ")
            .int(stages as i64)
            .str(" and N = ")
            .int(n)
            .str(", the instruction's, which divides 128")
            .raise();
    }
}

impl<T, LA, LB, M, S, const STAGES: u32, const CLUSTER: u32, const R: usize, B> Mainloop
    for Promoted<T, LA, LB, M, S, STAGES, CLUSTER, R, B>
where
    T: Element,
    LA: StaticLayout,
    LB: StaticLayout,
    S: RowSpans,
    B: ScalesOfB,
    M: StaticTiledMma<Atom: WgmmaAtom<OperandA = u64, D = f32>>,
{
    type Mma = M;
    type TileC = TileOfParts<LA, LB>;
    type Accumulator = f32;
    type Storage = (
        (SharedArray<T, LA>, SharedArray<T, LB>, PipelineStorage<STAGES, WarpsOf<M>, CLUSTER>),
        SharedArray<f32, RowScalesAhead<LA>>,
    );
    type Operands = Scaled<T, LA, LB, S, CLUSTER, R, B>;

    const THREADS: u32 = M::THREADS + WARPGROUP;
    const TILE: (u32, u32, u32) = {
        check::<LA, LB, M>(STAGES);
        let tile = TileOfParts::<LA, LB>::LAYOUT;
        (tile.extent(0) as u32, tile.extent(1) as u32, SCALED_K)
    };
    const CLUSTER: u32 = CLUSTER;

    #[inline(always)]
    fn worker() -> Worker {
        Worker::cluster(CLUSTER)
    }

    #[inline(always)]
    unsafe fn start(operands: Self::Operands, stages: StagesOf<Self>, thread: u32, warpgroup: u32) -> Self {
        // (BLK_M, BLK_K, PIPE), (N, BLK_K, PARTS * PIPE)
        let ((sA, sB, pipeline), scales) = stages;
        let warpgroup = if M::THREADS == WARPGROUP { 0 } else { warpgroup };
        // Descriptors are in uniform registers: they are computed from the warpgroup's index, which
        // is uniform.
        let mma = M::get_slice(WARPGROUP * warpgroup);
        Self {
            consumer: pipeline.consumer(),
            tCrA: mma.descriptors_a(&mma.partition_a(sA)),
            tCrB: mma.descriptors_b(&mma.partition_b(sB)),
            operands,
            scales,
            of_warp: 64 * warpgroup + thread % WARPGROUP / 32 * 16,
        }
    }

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn issue(&mut self, tile: &WorkTile, tCrC: &mut Accumulators<Self>) {
        let count = const { parts::<LA, LB>() };
        let values = const { <M::Atom as WgmmaAtom>::C.extent(1) as usize };
        // SAFETY: all threads of the warpgroups are here. A stage is read when it is full, and
        // released when its products are complete. Scales are read inside their extents.
        unsafe {
            let (first, left) = self.operands.spans.of_tile(tile, Self::TILE.0);
            let mut k = tile.k;
            clear(tCrC);
            if left <= self.of_warp / 64 * 64 {
                while k < tile.k_end {
                    let full = self.consumer.wait();
                    self.consumer.release(full);
                    k += 1;
                }
                return;
            }
            // Each lane has read the last scales of the tile before.
            sync_warp(FULL_WARP);
            for slot in 0..const { ahead::<LA>() - 1 } {
                self.copy_rows(tile, first, tile.k + slot, slot);
            }
            // One fragment for all parts: `ptxas` then adds a part's partial accumulators before it
            // issues the next part's products, which would otherwise take further registers.
            let mut partial = Fragment::<f32, AccumulatorOf<PartOf<LA, LB>, M>>::uninit(); // (MMA, MMA_M, 1)
            while k < tile.k_end {
                let full = self.consumer.wait();
                let tCrA = full.of(self.tCrA); // (1, MMA_M, MMA_K)
                let (mut full, mut rows) = (Some(full), [0.0; 2]);
                for part in 0..count {
                    let stage = full.as_ref().map_or(0, |full| full.index());
                    let tCrB = self.tCrB.stage(count * stage + part); // (1, 1, MMA_K)
                    warpgroup_arrive();
                    warpgroup_gemm(M::default(), &tCrA, &tCrB, &mut partial, ScaleOut::Zero);
                    warpgroup_commit_batch();
                    // While the products run.
                    if part == 0 {
                        rows = self.of_rows(tile, first, k);
                    }
                    let of_part = self.of_part(tile, k, part);
                    warpgroup_wait::<0>();
                    warpgroup_fence_operand(M::default(), &mut partial);
                    if part + 1 == count
                        && let Some(full) = full.take()
                    {
                        self.consumer.release(full);
                    }
                    for i in 0..values {
                        let at = part as usize * values + i;
                        let scale = rows[i / 2 % 2] * B::of(&of_part, i);
                        tCrC[at] = partial[i].fma(scale, tCrC[at]);
                    }
                }
                k += 1;
            }
        }
    }

    #[inline(always)]
    unsafe fn complete(&mut self, _: &mut Accumulators<Self>) {}
}

impl<T, LA, LB, M, S, const STAGES: u32, const CLUSTER: u32, const R: usize, B>
    Promoted<T, LA, LB, M, S, STAGES, CLUSTER, R, B>
where
    T: Element,
    LA: StaticLayout,
    LB: StaticLayout,
    S: RowSpans,
    B: ScalesOfB,
    M: StaticTiledMma<Atom: WgmmaAtom>,
{
    /// The scales of the thread's two rows of the tile that starts at row `first`; starts to copy
    /// those of a later K tile.
    ///
    /// # Safety
    /// Same contract as [`copy_rows`](Self::copy_rows), which was called for the K tiles before
    /// that later one, in order.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn of_rows(&self, tile: &WorkTile, first: u32, k: u32) -> [f32; 2] {
        let ahead = const { ahead::<LA>() };
        let slot = (k - tile.k) % ahead;
        if ahead == 8 {
            cp_async_wait::<6>();
        } else {
            cp_async_wait::<1>();
        }
        // The copies of all lanes; and each lane has read the scales that are replaced.
        sync_warp(FULL_WARP);
        let row = self.of_warp + accumulator_row(lane_id());
        // SAFETY: the copies of this K tile have arrived; those of the one before, whose place is
        // taken, have been read.
        unsafe {
            self.copy_rows(tile, first, k + ahead - 1, (slot + ahead - 1) % ahead);
            [self.scales.get((row, slot)), self.scales.get((row + 8, slot))]
        }
    }

    /// Starts to copy the scales of the warp's rows for a K tile of the tile that starts at row
    /// `first`, if there is such a K tile. Rows past the end of the group use its last row's scale.
    ///
    /// # Safety
    /// The scales are readable, and each lane has read those in the slot.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn copy_rows(&self, tile: &WorkTile, first: u32, k: u32, slot: u32) {
        let (lane, last) = (lane_id(), self.operands.spans.end(tile.batch) - 1);
        // SAFETY: the row is one of A's, which has a scale for each K tile; the place is free.
        unsafe {
            if lane < 16 && k < tile.k_end {
                let row = (opaque(first) + self.of_warp + lane).min(last);
                let from = self.operands.scale_a.address(tile.batch, row, k);
                cp_async(CpAsyncSize::B4, self.scales.address_of((self.of_warp + lane, slot)), from, 4);
            }
        }
        cp_async_commit();
    }

    /// The scales of a part's columns.
    ///
    /// # Safety
    /// The scales are readable.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn of_part(&self, tile: &WorkTile, k: u32, part: u32) -> B::Part {
        let width = const { LB::LAYOUT.extent(0) as u32 };
        let columns = Columns {
            first: (opaque(tile.n) * const { parts::<LA, LB>() } + part) * width,
            end: self.operands.columns,
            eights: width / 8,
            lane: accumulator_column(thread_idx().x % 32),
        };
        // SAFETY: a column has a scale for each K tile.
        unsafe { self.operands.scale_b.part(columns, tile.batch, k) }
    }
}

impl<T, LA, LB, S, const STAGES: u32, const CLUSTER: u32, const R: usize, B> Fill<STAGES, CLUSTER>
    for Scaled<T, LA, LB, S, CLUSTER, R, B>
where
    T: Element,
    LA: StaticLayout,
    LB: StaticLayout,
    S: RowSpans,
    B: ScalesOfB,
{
    type Operands = Self;
    type A = T;
    type B = T;
    type StagesA = LA;
    type StagesB = LB;
    /// A from the tile's first row on.
    type Tile = TmaTensor<LoadA<T, LA, R>, R>;

    const BYTES: u32 = LoadA::<T, LA, R>::BYTES + parts::<LA, LB>() * LoadB::<T, LB, R, CLUSTER>::BYTES;

    #[inline(always)]
    fn new(operands: Self) -> Self {
        operands
    }

    #[inline(always)]
    unsafe fn tile(&mut self, tile: &WorkTile) -> Self::Tile {
        // SAFETY: the spans' memory is readable.
        let (first, _) = unsafe { self.spans.of_tile(tile, const { LA::LAYOUT.extent(0) as u32 }) };
        self.a.offset(at_row(first))
    }

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn load(
        &self,
        gA: &Self::Tile,
        tile: &WorkTile,
        k: u32,
        (sA, sB): (SharedTensor<T, LA>, SharedTensor<T, LB>),
        filling: &Filling,
    ) {
        let count = const { parts::<LA, LB>() };
        let (load_a, load_b) = (LoadA::<T, LA, R>::get_slice(), LoadB::<T, LB, R, CLUSTER>::get_slice());
        let mut numbers = [0; R];
        numbers[1] = k;
        // SAFETY: the stage is free and expects the bytes; the kernel's contract covers the maps.
        unsafe {
            load_a.copy(gA.at(numbers), filling.of(sA), filling); // (BLK_M, BLK_K)
            numbers[R - 1] = tile.batch;
            for part in 0..count {
                numbers[0] = count * tile.n + part;
                let gB = load_b.partition_s(self.b.at(numbers));
                let sB = sB.stage(count * filling.index() + part); // (N, BLK_K)
                load_b.copy(gB, load_b.partition_d(sB), filling);
            }
        }
    }
}

impl<T, LA, LB, M, S, const STAGES: u32, const CLUSTER: u32, const R: usize, B> WarpSpecialised
    for Promoted<T, LA, LB, M, S, STAGES, CLUSTER, R, B>
where
    T: Element,
    LA: StaticLayout,
    LB: StaticLayout,
    S: RowSpans,
    B: ScalesOfB,
    M: StaticTiledMma<Atom: WgmmaAtom<OperandA = u64, D = f32>>,
{
    type Producer = FillProducer<Scaled<T, LA, LB, S, CLUSTER, R, B>, STAGES, CLUSTER>;

    #[inline(always)]
    unsafe fn skip(&mut self, tile: &WorkTile) {
        // SAFETY: the other team has issued this tile's products, and a barrier separates the two.
        unsafe { self.consumer.skip(tile.k_tiles()) };
    }
}
