//! The mainloop of Ampere: all threads copy tiles into a ring of stages by `cp.async`, and multiply
//! them by `mma.sync`.
//!
//! While one K tile is multiplied, the copies of the next `PIPE - 1` are in flight. Within a tile
//! the fragments of step `k + 1` are loaded while step `k` is multiplied. One barrier for each tile
//! orders both: it is after the last read of a stage, and before the copies that overwrite it.

use super::mainloop::{Accumulators, Mainloop, StagesOf, TileOf};
use super::sink::Batches;
use super::tiles::WorkTile;
use crate::algorithm::{AddsInPlace, GlobalToShared, SharedToRegisters};
use crate::arch::{Fma, cp_async_commit, cp_async_wait, cp_async_wait_all, sync_threads};
use crate::atom::mma::MmaAtom;
use crate::atom::{PartitionD, StaticTiledCopy, StaticTiledMma, TilingError};
use crate::layout::Layout;
use crate::memory::{Element, Global, SharedArray};
use crate::tensor::{
    All, AllButLast, Along, Fragment, GlobalTensor, SharedTensor, StaticLayout, Strides, WholeTiles,
};

/// The tiles and copies of a block: the parameters of [`Multistage`], as a type.
pub trait MultistageConfig: 'static {
    /// The elements of A and B.
    type Element: Element;
    /// The static part of A's strides along (M, K).
    type StridesA: Strides;
    /// The static part of B's strides along (N, K).
    type StridesB: Strides;
    /// Stages of A in shared memory, (BLK_M, BLK_K, PIPE).
    type SmemA: StaticLayout;
    /// Stages of B in shared memory, (BLK_N, BLK_K, PIPE).
    type SmemB: StaticLayout;
    /// A from global to shared memory: of an atom of `cp.async` that fills with zeros.
    type LoadA: GlobalToShared<Self::StridesA, Element = Self::Element>
        + GlobalToShared<WholeTiles<Self::StridesA>, Element = Self::Element>;
    /// B from global to shared memory.
    type LoadB: GlobalToShared<Self::StridesB, Element = Self::Element>
        + GlobalToShared<WholeTiles<Self::StridesB>, Element = Self::Element>;
    /// A from shared memory to fragments.
    type ReadA: SharedToRegisters<Element = Self::Element>;
    /// B from shared memory to fragments.
    type ReadB: SharedToRegisters<Element = Self::Element>;
    /// The product.
    type Mma: StaticTiledMma;
}

/// The mainloop of a [`MultistageConfig`].
///
/// Its operands are the matrices of A, (M, K), and of B, (N, K); out of bounds elements are zero.
pub struct Multistage<C: MultistageConfig> {
    a: Batches<Global<C::Element>, C::StridesA>,
    b: Batches<Global<C::Element>, C::StridesB>,
    sA: SharedTensor<C::Element, C::SmemA>,
    sB: SharedTensor<C::Element, C::SmemB>,
    thread: u32,
}

/// A layout whose tile and stages are those of a stage.
type StageA<C> = AllButLast<<C as MultistageConfig>::SmemA>;
type StageB<C> = AllButLast<<C as MultistageConfig>::SmemB>;
/// A thread's part of an operand's tiles along K.
type TilesAlongK<C, S, L> = GlobalTensor<Global<<C as MultistageConfig>::Element>, S, L, Along<1>>;
/// A thread's parts of the stages of A and B.
type StagesOfThread<C> = (
    StageOfThread<C, <C as MultistageConfig>::SmemA, <C as MultistageConfig>::LoadA>,
    StageOfThread<C, <C as MultistageConfig>::SmemB, <C as MultistageConfig>::LoadB>,
);
type StageOfThread<C, L, Load> = SharedTensor<<C as MultistageConfig>::Element, PartitionD<L, Load>>;

/// The tiles and the threads agree, or the mainloop does not compile. Returns (BLK_M, BLK_N,
/// BLK_K).
const fn tile<C: MultistageConfig>() -> (u32, u32, u32) {
    let (a, b) = (C::SmemA::LAYOUT, C::SmemB::LAYOUT);
    if a.rank() != 3 || b.rank() != 3 || a.extent(1) != b.extent(1) || a.extent(2) != b.extent(2) {
        stages_differ(
            "stages are (BLK_M, BLK_K, PIPE) and (BLK_N, BLK_K, PIPE), of the same BLK_K and PIPE",
            &a,
            &b,
        );
    }
    if a.extent(2) < 3 || a.extent(2) > 6 {
        stages_differ("the mainloop has 3 to 6 stages", &a, &b);
    }
    if steps::<C>() < 2 {
        stages_differ("a tile has two steps of the tiled MMA along K, or more", &a, &b);
    }
    let threads = C::Mma::MMA.threads();
    let copies = [
        C::LoadA::COPY.threads(),
        C::LoadB::COPY.threads(),
        C::ReadA::COPY.threads(),
        C::ReadB::COPY.threads(),
    ];
    let mut i = 0;
    while i < copies.len() {
        if copies[i] != threads {
            TilingError::of("Multistage")
                .str("copy ")
                .int(i as i64)
                .str(" of LoadA, LoadB, ReadA, ReadB has ")
                .int(copies[i])
                .str(" threads, and the product has ")
                .int(threads)
                .raise();
        }
        i += 1;
    }
    (a.extent(0) as u32, b.extent(0) as u32, a.extent(1) as u32)
}

#[track_caller]
const fn stages_differ(why: &str, a: &Layout, b: &Layout) -> ! {
    TilingError::of("Multistage")
        .str("stages of A are ")
        .layout(a)
        .str(" and those of B ")
        .layout(b)
        .str(": ")
        .str(why)
        .raise()
}

/// Tiles in shared memory.
const fn stages<C: MultistageConfig>() -> u32 {
    C::SmemA::LAYOUT.extent(2) as u32
}

/// Steps along K of a tile.
const fn steps<C: MultistageConfig>() -> u32 {
    C::Mma::MMA.partition_a(<StageA<C> as StaticLayout>::LAYOUT).extent(2) as u32
}

/// Waits until at most `pending` tiles are on their way, and for all threads of the block.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
fn wait(pending: u32) {
    match pending {
        0 => cp_async_wait::<0>(),
        1 => cp_async_wait::<1>(),
        2 => cp_async_wait::<2>(),
        3 => cp_async_wait::<3>(),
        _ => cp_async_wait::<4>(),
    }
    sync_threads();
}

impl<C: MultistageConfig> Mainloop for Multistage<C>
where
    C::Mma: StaticTiledMma<Atom: MmaAtom<C: Element + Fma> + AddsInPlace>,
{
    type Mma = C::Mma;
    type TileC = TileOf<C::SmemA, C::SmemB>;
    type Accumulator = <<C::Mma as StaticTiledMma>::Atom as MmaAtom>::C;
    type Storage = (SharedArray<C::Element, C::SmemA>, SharedArray<C::Element, C::SmemB>);
    type Operands = (Batches<Global<C::Element>, C::StridesA>, Batches<Global<C::Element>, C::StridesB>);

    const THREADS: u32 = C::Mma::THREADS;
    const TILE: (u32, u32, u32) = tile::<C>();

    #[inline(always)]
    unsafe fn start((a, b): Self::Operands, (sA, sB): StagesOf<Self>, thread: u32, _: u32) -> Self {
        Self { a, b, sA, sB, thread }
    }

    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn issue(&mut self, tile: &WorkTile, tCrC: &mut Accumulators<Self>) {
        let (blk_m, blk_n, blk_k) = const { Self::TILE };
        let gA = self.a.at(tile.batch).local_tile::<StageA<C>, _>((tile.m, All)); // (BLK_M, BLK_K, k)
        let gB = self.b.at(tile.batch).local_tile::<StageB<C>, _>((tile.n, All)); // (BLK_N, BLK_K, k)
        let (load_a, load_b) = (C::LoadA::get_slice(self.thread), C::LoadB::get_slice(self.thread));
        let stages = (load_a.partition_d(self.sA), load_b.partition_d(self.sB)); // (CPY, CPY_M, CPY_K, PIPE)
        let ((m, k), (n, _)) = (self.a.shape(), self.b.shape());
        let whole = (tile.m + 1) * blk_m <= m && (tile.n + 1) * blk_n <= n && tile.k_end * blk_k <= k;
        // SAFETY: the caller's contract. Where all of the tile is inside, nothing has to be
        // checked.
        unsafe {
            if whole {
                let (tAgA, tBgB) = (load_a.partition_s(gA.whole()), load_b.partition_s(gB.whole())); // (CPY, CPY_M, CPY_K, k)
                self.multiply(tile, tCrC, (&tAgA, &tBgB), &stages);
            } else {
                let (tAgA, tBgB) = (load_a.partition_s(gA), load_b.partition_s(gB)); // (CPY, CPY_M, CPY_K, k)
                self.multiply(tile, tCrC, (&tAgA, &tBgB), &stages);
            }
        }
    }

    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn complete(&mut self, _: &mut Accumulators<Self>) {
        // The next tile overwrites the stages.
        cp_async_wait_all();
        sync_threads();
    }
}

impl<C: MultistageConfig> Multistage<C>
where
    C::Mma: StaticTiledMma<Atom: MmaAtom<C: Element + Fma> + AddsInPlace>,
{
    /// Copies tile `k` of A and of B to a stage.
    ///
    /// # Safety
    /// As [`Mainloop::issue`]; no thread reads the stage.
    #[inline]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn load<SA: Strides, LA: StaticLayout, SB: Strides, LB: StaticLayout>(
        (tAgA, tBgB): (&TilesAlongK<C, SA, LA>, &TilesAlongK<C, SB, LB>), // (CPY, CPY_M, CPY_K, k)
        (tAsA, tBsB): &StagesOfThread<C>,                                 // (CPY, CPY_M, CPY_K, PIPE)
        k: u32,
        stage: u32,
    ) where
        C::LoadA: GlobalToShared<SA, Element = C::Element>,
        C::LoadB: GlobalToShared<SB, Element = C::Element>,
    {
        // SAFETY: the caller's contract.
        unsafe {
            C::LoadA::fill(&tAgA.tile(k), &mut tAsA.at((.., .., .., stage)));
            C::LoadB::fill(&tBgB.tile(k), &mut tBsB.at((.., .., .., stage)));
        }
    }

    /// Multiplies a tile's tiles along K, of which `tAgA` and `tBgB` are the thread's parts.
    ///
    /// # Safety
    /// As [`Mainloop::issue`].
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn multiply<SA: Strides, LA: StaticLayout, SB: Strides, LB: StaticLayout, L: StaticLayout>(
        &self,
        tile: &WorkTile,
        tCrC: &mut Fragment<<<C::Mma as StaticTiledMma>::Atom as MmaAtom>::C, L>,
        (tAgA, tBgB): (&TilesAlongK<C, SA, LA>, &TilesAlongK<C, SB, LB>), // (CPY, CPY_M, CPY_K, k)
        stages_of_thread: &StagesOfThread<C>,                             // (CPY, CPY_M, CPY_K, PIPE)
    ) where
        C::LoadA: GlobalToShared<SA, Element = C::Element>,
        C::LoadB: GlobalToShared<SB, Element = C::Element>,
    {
        let mma = C::Mma::get_slice(self.thread);
        let (read_a, read_b) = (C::ReadA::get_slice(self.thread), C::ReadB::get_slice(self.thread));
        let (tXsA, tXsB) = (read_a.partition_s(self.sA), read_b.partition_s(self.sB)); // (CPY, CPY_M, CPY_K, PIPE)
        let mut tCrA = mma.fragment_a(&mma.partition_a(self.sA)); // (MMA, MMA_M, MMA_K)
        let mut tCrB = mma.fragment_b(&mma.partition_b(self.sB)); // (MMA, MMA_N, MMA_K)
        let (stages, steps) = const { (stages::<C>(), steps::<C>()) };
        // The fragments of a step, from the stage that holds its tile.
        macro_rules! read {
            ($stage:expr, $step:expr) => {{
                let (stage, step): (u32, u32) = ($stage, $step);
                let (mut tXrA, mut tXrB) = (read_a.retile_d(&mut tCrA), read_b.retile_d(&mut tCrB)); // (CPY, CPY_M, CPY_K)
                C::ReadA::read(&tXsA.at((.., .., step, stage)), &mut tXrA.at_mut((.., .., step)));
                C::ReadB::read(&tXsB.at((.., .., step, stage)), &mut tXrB.at_mut((.., .., step)));
            }};
        }
        for i in 0..Fragment::<<<C::Mma as StaticTiledMma>::Atom as MmaAtom>::C, L>::SIZE {
            tCrC[i] = Fma::ZERO;
        }
        for stage in 0..stages - 1 {
            if tile.k + stage < tile.k_end {
                // SAFETY: the stage is free; the caller's contract.
                unsafe { Self::load((tAgA, tBgB), stages_of_thread, tile.k + stage, stage) };
            }
            cp_async_commit();
        }
        wait(stages - 2);
        let (mut reading, mut writing) = (0, stages - 1);
        // SAFETY: the stage that is read has arrived for all threads, after a barrier, and all
        // threads have read the stage that is written.
        unsafe {
            read!(reading, 0);
            let mut k = tile.k;
            while k < tile.k_end {
                for step in 0..steps {
                    let next = (step + 1) % steps;
                    if next == 0 && k + 1 < tile.k_end {
                        reading = if reading + 1 == stages { 0 } else { reading + 1 };
                    }
                    // After the last step this reads fragments once more that no product takes.
                    read!(reading, next);
                    mma.gemm(&mut *tCrC, tCrA.at((.., .., step)), tCrB.at((.., .., step)));
                    if step == 0 {
                        // All threads have read the previous tile, whose stage is written next, and
                        // the next tile has arrived.
                        wait(stages - 3);
                        if k + stages - 1 < tile.k_end {
                            Self::load((tAgA, tBgB), stages_of_thread, k + stages - 1, writing);
                        }
                        cp_async_commit();
                        writing = if writing + 1 == stages { 0 } else { writing + 1 };
                    }
                }
                k += 1;
            }
        }
    }
}
