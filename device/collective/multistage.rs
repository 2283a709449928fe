//! The mainloop of Ampere: all threads copy tiles to a ring of stages by `cp.async`, and multiply
//! them by `mma.sync` or by FMA.
//!
//! While one K tile is multiplied, the copies of the next `PIPE - 1` are in flight, which hides the
//! latency of global memory. Within a tile the fragments of step `k + 1` are loaded while step `k`
//! is multiplied. One barrier for each tile orders both: it follows the last read of a stage, and
//! precedes the copies that overwrite it.

use super::load::{Load, Loading as _, TilesAlongK};
use super::mainloop::{Accumulators, Mainloop, StagesOf, TileOf};
use super::sink::Batches;
use super::tiles::WorkTile;
use crate::algorithm::{AddsInPlace, SharedToRegisters};
use crate::arch::{Fma, cp_async_commit, cp_async_wait, cp_async_wait_all, opaque, sync_threads};
use crate::atom::mma::MmaAtom;
use crate::atom::{AccumulatorOf, StaticTiledCopy, StaticTiledMma, TilingError};
use crate::layout::Layout;
use crate::memory::{Element, Global, SharedArray};
use crate::tensor::{All, Fragment, Matrix, OneStage, Rank, SharedTensor, StaticLayout, Strides};

/// The tiles and copies of a block, as a type: the parameters of [`Multistage`].
pub trait MultistageConfig: 'static {
    /// The elements of A and B.
    type Element: Element;
    /// The static part of A's strides along (M, K).
    type StridesA: Strides<Rank = Rank<2>>;
    /// The static part of B's strides along (N, K).
    type StridesB: Strides<Rank = Rank<2>>;
    /// Stages of A in shared memory, (BLK_M, BLK_K, PIPE).
    type SmemA: StaticLayout;
    /// Stages of B in shared memory, (BLK_N, BLK_K, PIPE).
    type SmemB: StaticLayout;
    /// A from global to shared memory: a tiled copy by `cp.async` that fills with zeros, or
    /// [`TransposedLoad`](super::TransposedLoad).
    type LoadA: Load<Self::Element, Self::StridesA, Self::SmemA>;
    /// B from global to shared memory.
    type LoadB: Load<Self::Element, Self::StridesB, Self::SmemB>;
    /// A from shared memory to fragments.
    type ReadA: SharedToRegisters<Element = Self::Element>;
    /// B from shared memory to fragments.
    type ReadB: SharedToRegisters<Element = Self::Element>;
    /// The MMA.
    type Mma: StaticTiledMma<Atom: MmaAtom<C: Element + Fma> + AddsInPlace>;
}

/// The mainloop of a [`MultistageConfig`].
///
/// Its operands are the matrices of A, (M, K), and of B, (N, K); out of bounds elements are zero.
pub struct Multistage<C: MultistageConfig> {
    operands: (Batches<Global<C::Element>, C::StridesA>, Batches<Global<C::Element>, C::StridesB>),
    stages: (SharedTensor<C::Element, C::SmemA>, SharedTensor<C::Element, C::SmemB>),
    thread: u32,
}

/// A layout of one stage.
type StageA<C> = OneStage<<C as MultistageConfig>::SmemA>;
type StageB<C> = OneStage<<C as MultistageConfig>::SmemB>;
/// The type of the accumulators.
type Sum<C> = <<<C as MultistageConfig>::Mma as StaticTiledMma>::Atom as MmaAtom>::C;
/// The accumulators of a thread: (MMA, MMA_M, MMA_N).
type Sums<C> = Fragment<
    Sum<C>,
    AccumulatorOf<
        TileOf<<C as MultistageConfig>::SmemA, <C as MultistageConfig>::SmemB>,
        <C as MultistageConfig>::Mma,
    >,
>;

/// Checks that tiles and threads match, at compile time. Returns (BLK_M, BLK_N, BLK_K).
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
    let copies = [C::LoadA::THREADS, C::LoadB::THREADS, C::ReadA::COPY.threads(), C::ReadB::COPY.threads()];
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

/// The number of stages.
const fn stages<C: MultistageConfig>() -> u32 {
    C::SmemA::LAYOUT.extent(2) as u32
}

/// Steps along K of a tile.
const fn steps<C: MultistageConfig>() -> u32 {
    C::Mma::MMA.partition_a(<StageA<C> as StaticLayout>::LAYOUT).extent(2) as u32
}

/// The step in which a tile is loaded: `first` for `cp.async`; copies through registers are stored
/// after `eighths` eighths of the steps.
const fn load_step(eighths: Option<u32>, first: u32, steps: u32) -> u32 {
    match eighths {
        Some(eighths) => steps * eighths / 8,
        None => first,
    }
}

/// Waits until at most `pending` tiles are in flight, in all threads of the block.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
#[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
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

impl<C: MultistageConfig> Mainloop for Multistage<C> {
    type Mma = C::Mma;
    type TileC = TileOf<C::SmemA, C::SmemB>;
    type Accumulator = Sum<C>;
    type Storage = (SharedArray<C::Element, C::SmemA>, SharedArray<C::Element, C::SmemB>);
    type Operands = (Batches<Global<C::Element>, C::StridesA>, Batches<Global<C::Element>, C::StridesB>);

    const THREADS: u32 = C::Mma::THREADS;
    const TILE: (u32, u32, u32) = tile::<C>();

    #[inline(always)]
    unsafe fn start(operands: Self::Operands, stages: StagesOf<Self>, thread: u32, _: u32) -> Self {
        Self { operands, stages, thread }
    }

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn issue(&mut self, tile: &WorkTile, tCrC: &mut Accumulators<Self>) {
        let (blk_m, blk_n, blk_k) = const { Self::TILE };
        let (k, k_end) = (tile.k * blk_k, tile.k_end * blk_k);
        let a = self.operands.0.part(tile.batch, (tile.m * blk_m, k), k_end);
        let b = self.operands.1.part(tile.batch, (tile.n * blk_n, k), k_end);
        // SAFETY: all threads are here; operands are readable and stages the block's.
        unsafe { Self::multiply(a, b, self.stages, self.thread, false, tCrC) };
    }

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn complete(&mut self, _: &mut Accumulators<Self>) {
        // The next tile overwrites the stages.
        cp_async_wait_all();
        sync_threads();
    }
}

impl<C: MultistageConfig> Multistage<C> {
    /// The stage after `stage`.
    #[inline(always)]
    const fn after(stage: u32) -> u32 {
        if stage + 1 == const { stages::<C>() } { 0 } else { stage + 1 }
    }

    /// The loop, for a custom mainloop on the same stages: computes a tile of C from matrices A and
    /// B that start at the tile, over all of their K. Out of bounds elements are zeros.
    ///
    /// With `leaves_last` the last K tile of an in-bounds tile is not multiplied: it returns the
    /// stage in which that K tile has arrived for all threads. Otherwise it returns `None`, and the
    /// accumulators are complete.
    ///
    /// # Safety
    /// All threads of the tiled MMA call it with the same tile, `thread` is the caller's index, and
    /// no thread uses the stages. The matrices are readable. The stages are free again after
    /// `cp_async_wait_all` and a barrier.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    pub unsafe fn multiply(
        mA: Matrix<Global<C::Element>, C::StridesA>, // (M, K)
        mB: Matrix<Global<C::Element>, C::StridesB>, // (N, K)
        (sA, sB): StagesOf<Self>,                    // (BLK_M, BLK_K, PIPE), (BLK_N, BLK_K, PIPE)
        thread: u32,
        leaves_last: bool,
        tCrC: &mut Sums<C>,
    ) -> Option<u32> {
        let (blk_m, blk_n, blk_k) = const { tile::<C>() };
        // Opaque: if the compiler derives K from the tile's coordinates, the loop's conditions are
        // longer, and it is up to 5 % slower (record 15).
        let k = opaque(mA.shape().1);
        let (mA, mB) = (mA.first_columns(k), mB.first_columns(k)); // (M, K), (N, K)
        let (m, n) = (mA.shape().0, mB.shape().0);
        let gA: TilesAlongK<_, _, C::SmemA> = mA.local_tile::<StageA<C>, _>((0, All)); // (BLK_M, BLK_K, k)
        let gB: TilesAlongK<_, _, C::SmemB> = mB.local_tile::<StageB<C>, _>((0, All)); // (BLK_N, BLK_K, k)
        let mut load_a = C::LoadA::part(thread, gA, sA); // (CPY, CPY_M, CPY_K, k) to (CPY, CPY_M, CPY_K, PIPE)
        let mut load_b = C::LoadB::part(thread, gB, sB); // (CPY, CPY_N, CPY_K, k) to (CPY, CPY_N, CPY_K, PIPE)
        // If K is not a multiple of BLK_K, the partial tile is processed first: it has zeros past
        // the end of K, and the loop loads only whole tiles.
        let tiles = gA.tiles();
        let ragged = u32::from(!k.is_multiple_of(blk_k));
        // The K tile of iteration `turn`.
        let tile_of_turn = |turn: u32| if ragged != 0 && turn == 0 { tiles - 1 } else { turn - ragged };
        let inside = m >= blk_m && n >= blk_n;
        let mma = C::Mma::get_slice(thread);
        let mut tCrA = mma.fragment_a(&mma.partition_a(sA)); // (MMA, MMA_M, MMA_K)
        let mut tCrB = mma.fragment_b(&mma.partition_b(sB)); // (MMA, MMA_N, MMA_K)
        let (read_a, read_b) = (C::ReadA::get_slice(thread), C::ReadB::get_slice(thread));
        let (tXsA, tXsB) = (read_a.partition_s(sA), read_b.partition_s(sB)); // (CPY, CPY_M, CPY_K, PIPE)
        let (stages, steps) = const { (stages::<C>(), steps::<C>()) };
        // A local variable: through the reference, ptxas splits pairs of f16 accumulators.
        let mut sums = mma.accumulator::<TileOf<C::SmemA, C::SmemB>>(); // (MMA, MMA_M, MMA_N)
        // If all of the prologue's tiles are in bounds, loads through registers need no predicates.
        let begins_inside = inside && ragged == 0 && stages <= tiles;
        // Copies through registers load one tile ahead from the start.
        macro_rules! first_stages {
            ($load:ty, $part:ident, $start:ident) => {
                for stage in 0..stages - 1 {
                    let mut next = $part.clone();
                    next.$start(tile_of_turn(stage + 1), stage + 1);
                    $part.finish(stage);
                    $part = next;
                }
            };
            ($load:ty, $part:ident) => {
                if <$load>::THROUGH_REGISTERS && begins_inside {
                    first_stages!($load, $part, start_whole);
                } else if <$load>::THROUGH_REGISTERS {
                    first_stages!($load, $part, start);
                }
            };
        }
        macro_rules! first_tile {
            ($load:ty, $part:ident) => {
                if <$load>::THROUGH_REGISTERS && begins_inside {
                    $part.start_whole(0, 0);
                } else if <$load>::THROUGH_REGISTERS {
                    $part.start(tile_of_turn(0), 0);
                }
            };
        }
        // The fragments of a step, from the stage that holds its tile to the registers of step
        // `$to`.
        macro_rules! read {
            ($stage:expr, $step:expr => $to:expr) => {{
                let (stage, step): (u32, u32) = ($stage, $step);
                let (mut tXrA, mut tXrB) = (read_a.retile_d(&mut tCrA), read_b.retile_d(&mut tCrB)); // (CPY, CPY_M, CPY_K)
                // The larger operand first: otherwise `ptxas` issues the loads in bursts (record
                // 7).
                let first_a = const { tile::<C>().0 >= tile::<C>().1 };
                if first_a {
                    C::ReadA::read(&tXsA.at((.., .., step, stage)), &mut tXrA.at_mut((.., .., $to)));
                }
                C::ReadB::read(&tXsB.at((.., .., step, stage)), &mut tXrB.at_mut((.., .., $to)));
                if !first_a {
                    C::ReadA::read(&tXsA.at((.., .., step, stage)), &mut tXrA.at_mut((.., .., $to)));
                }
            }};
        }
        macro_rules! multiply {
            ($step:expr) => {
                mma.gemm(&mut sums, tCrA.at((.., .., $step)), tCrB.at((.., .., $step)))
            };
        }
        let (mut reading, mut writing) = (0, stages - 1);
        // The loads that run `PIPE - 1` iterations ahead. A copy through registers was loaded in
        // the previous iteration, and is stored before the next load.
        macro_rules! load_ahead {
            ($load:ty, $part:ident, $turn:expr, $start:ident) => {
                let ahead = $turn + stages - 1;
                if !<$load>::THROUGH_REGISTERS && ahead < tiles {
                    $part.$start(ahead - ragged, writing);
                }
                if <$load>::THROUGH_REGISTERS && ahead < tiles {
                    $part.finish(writing);
                }
                if <$load>::THROUGH_REGISTERS && ahead + 1 < tiles {
                    $part.$start(ahead + 1 - ragged, writing);
                }
            };
        }
        // The steps in which tiles of A and of B are loaded, and the later of the two.
        let (step_a, step_b, last) = const {
            let a = load_step(C::LoadA::EIGHTHS, 0, self::steps::<C>());
            let b = load_step(C::LoadB::EIGHTHS, 1, self::steps::<C>());
            (a, b, if a > b { a } else { b })
        };
        // An iteration for an in-bounds tile.
        macro_rules! iteration {
            ($turn:expr) => {
                for step in 0..steps {
                    let next_step = (step + 1) % steps;
                    if next_step == 0 && $turn + 1 < tiles {
                        reading = Self::after(reading);
                    }
                    // After the last step of the last iteration this loads once more, unused.
                    read!(reading, next_step => next_step);
                    multiply!(step);
                    if step == 0 {
                        // After the barrier all threads have read the previous tile, whose
                        // stage is written next, and the next tile has arrived, one iteration
                        // before it is read.
                        wait(stages - 3);
                    }
                    if step == step_a {
                        load_ahead!(C::LoadA, load_a, $turn, start_whole);
                    }
                    if step == step_b {
                        load_ahead!(C::LoadB, load_b, $turn, start_whole);
                    }
                    if step == 1 {
                        cp_async_commit();
                    }
                    if step == last {
                        writing = Self::after(writing);
                    }
                }
            };
        }
        // SAFETY: no thread has used the stages of the prologue. In the loop, the stage that is
        // read has arrived for all threads, after a barrier, and all threads have read the stage
        // that is written. Each part finishes its copy before it starts the next.
        unsafe {
            first_tile!(C::LoadA, load_a);
            first_tile!(C::LoadB, load_b);
            for stage in 0..stages - 1 {
                // Iterations past the last load tiles that are not multiplied.
                if !C::LoadA::THROUGH_REGISTERS {
                    load_a.start(tile_of_turn(stage), stage);
                }
                if !C::LoadB::THROUGH_REGISTERS {
                    load_b.start(tile_of_turn(stage), stage);
                }
                cp_async_commit();
            }
            first_stages!(C::LoadA, load_a);
            first_stages!(C::LoadB, load_b);
            wait(stages - 2);
            let leaves_last = leaves_last && inside && tiles > 0;
            if inside {
                // The fragments of a step are loaded during the product of the previous step.
                read!(reading, 0 => 0);
                let turns = tiles - u32::from(leaves_last);
                // `ptxas` schedules the two forms differently, and with copies through registers
                // one of them is up to 14 % slower (record 7).
                if const { C::LoadA::THROUGH_REGISTERS || C::LoadB::THROUGH_REGISTERS } {
                    let mut turn = 0;
                    while turn < turns {
                        iteration!(turn);
                        turn += 1;
                    }
                } else {
                    for turn in 0..turns {
                        iteration!(turn);
                    }
                }
            } else {
                // At an edge the predicates need the registers of a step. The number of steps is
                // known only at run time, so this stays a loop: its body is long and rarely runs.
                let with_something = (k % blk_k).div_ceil(const { C::Mma::MMA.tile_size(2) as u32 });
                for turn in 0..tiles {
                    let count = if ragged != 0 && turn == 0 { with_something } else { steps };
                    for step in 0..count {
                        read!(reading, step => 0);
                        multiply!(0);
                    }
                    wait(stages - 3);
                    load_ahead!(C::LoadA, load_a, turn, start);
                    load_ahead!(C::LoadB, load_b, turn, start);
                    cp_async_commit();
                    writing = Self::after(writing);
                    reading = Self::after(reading);
                }
            }
            *tCrC = sums;
            leaves_last.then_some(reading)
        }
    }
}
