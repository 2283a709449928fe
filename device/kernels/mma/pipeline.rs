//! The multistage mainloop on tensor cores: `cp.async` runs stages ahead of the product, `ldmatrix`
//! a step ahead.
//!
//! Shared memory holds `STAGES` tiles of A and B. While one is multiplied, the copies of the next
//! `STAGES - 1` are in flight, which hides the latency of global memory. Within a tile the
//! fragments of step `k + 1` are loaded while step `k` is multiplied. One barrier for each tile
//! orders both: it is after the last read of a stage and before the copy that overwrites it.
//!
//! Tiles in shared memory are swizzled, so that rows which `cp.async` writes and `ldmatrix` reads
//! are in different banks without padding.

use super::config::{ArgumentsOf, MmaConfig, Storage, Tiled};
use super::epilogue::Epilogue;
use super::load::{Load as _, Loading as _};
use super::raster::tile_of;
use super::rows::Place;
use moye_device::algorithm::{CopyDestination, CopySource, copy_tiled, gemm_tiled};
use moye_device::arch::{
    Fma, block_idx, cp_async_commit, cp_async_wait, cp_async_wait_all, overlap_launches, sync_threads,
    thread_idx,
};
use moye_device::atom::copy::CopyAtom;
use moye_device::atom::mma::{AddsInPlace, MmaAtom};
use moye_device::atom::{PartitionS, StaticTiledCopy, StaticTiledMma, TilingError};
use moye_device::memory::{Element as _, SharedStorage};
use moye_device::tensor::{All, AllButLast, Matrix, Part, RegistersMut, StaticLayout, Strides as _};

/// The part of an operand in shared memory for one step along K.
type PartOf<G, L, C> = Part<<G as Tiled>::Operand, AllButLast<PartitionS<L, C>>>;
/// The parameters of a configuration's epilogue.
pub type ParametersOf<G> = <<G as MmaConfig>::Epilogue as Epilogue<G>>::Parameters;
type SourceOf<C> = <<C as StaticTiledCopy>::Atom as CopyAtom>::Source;
type DestinationOf<C> = <<C as StaticTiledCopy>::Atom as CopyAtom>::Destination;

/// One block's tile of C, for its batch and its split of K.
///
/// # Safety
/// The matrices are inside their buffers, with the alignment that `G` promises. The kernel declares
/// `Storage<G>` and is launched with the threads of `G::Mma`: one block for each tile along x, and
/// for each split of each batch along y.
#[inline(always)]
pub unsafe fn matmul<G: MmaConfig>(arguments: ArgumentsOf<G>)
where
    G::Epilogue: Epilogue<G, Parameters = ()>,
    <G::Mma as StaticTiledMma>::Atom: MmaAtom<C = G::Sum> + AddsInPlace,
    G::Sum: Fma,
    PartOf<G, G::SmemA, G::CopyA>: CopySource<SourceOf<G::CopyA>>,
    PartOf<G, G::SmemB, G::CopyB>: CopySource<SourceOf<G::CopyB>>,
    for<'a> RegistersMut<'a, G::Operand>:
        CopyDestination<DestinationOf<G::CopyA>> + CopyDestination<DestinationOf<G::CopyB>>,
{
    matmul_with::<G>(arguments, &())
}

/// [`matmul`] with an epilogue that has its own parameters.
///
/// # Safety
/// As [`matmul`]; the parameters satisfy the epilogue's contract.
#[inline(always)]
pub unsafe fn matmul_with<G: MmaConfig>(arguments: ArgumentsOf<G>, parameters: &ParametersOf<G>)
where
    <G::Mma as StaticTiledMma>::Atom: MmaAtom<C = G::Sum> + AddsInPlace,
    G::Sum: Fma,
    PartOf<G, G::SmemA, G::CopyA>: CopySource<SourceOf<G::CopyA>>,
    PartOf<G, G::SmemB, G::CopyB>: CopySource<SourceOf<G::CopyB>>,
    for<'a> RegistersMut<'a, G::Operand>:
        CopyDestination<DestinationOf<G::CopyA>> + CopyDestination<DestinationOf<G::CopyB>>,
{
    let thread = thread_idx().x;
    let (m, n) = (arguments.m, arguments.n);
    let (tile_m, tile_n) = tile_of::<G>(block_idx().x, m, n);
    // Blocks at an edge compute the last whole tile if there is one, so that it overlaps the
    // neighbour's. Both write equal results to the overlap, which is correct unless C is read
    // before.
    let exact = arguments.beta != G::Scalar::ZERO;
    let (first_m, first_n) = (
        first::<G::TileC, 0>(tile_m, m, exact, const { granule::<G>(G::StridesA::UNIT, true) }),
        first::<G::TileC, 1>(tile_n, n, exact, const { granule::<G>(G::StridesB::UNIT, false) }),
    );
    let (m, n) = (m - first_m, n - first_n);
    let (batch, split) = (block_idx().y / arguments.splits, block_idx().y % arguments.splits);
    let (strides_a, strides_b) = (G::strides_a(arguments.lda), G::strides_b(arguments.ldb));
    let from_k = split * arguments.k_chunk;
    let k = (arguments.k - from_k).min(arguments.k_chunk);
    let a = arguments
        .a
        .offset(i64::from(batch) * arguments.batch_a)
        .offset(i64::from(first_m) * strides_a.along(0) + i64::from(from_k) * strides_a.along(1));
    let b = arguments
        .b
        .offset(i64::from(batch) * arguments.batch_b)
        .offset(i64::from(first_n) * strides_b.along(0) + i64::from(from_k) * strides_b.along(1));
    let m_a = Matrix::new(a, (m, k), strides_a); // (M, K), from the block's tile on
    let m_b = Matrix::new(b, (n, k), strides_b); // (N, K), from the block's tile on
    let g_a = m_a.local_tile::<G::TileA, _>((0, All)); // (BLK_M, BLK_K, k)
    let g_b = m_b.local_tile::<G::TileB, _>((0, All)); // (BLK_N, BLK_K, k)
    let (s_a, s_b) = Storage::<G>::take(); // (BLK_M, BLK_K, PIPE), (BLK_N, BLK_K, PIPE)

    let mut load_a = G::LoadA::part(thread, g_a, s_a); // (CPY, CPY_M, CPY_K, k) to (CPY, CPY_M, CPY_K, PIPE)
    let mut load_b = G::LoadB::part(thread, g_b, s_b); // (CPY, CPY_N, CPY_K, k) to (CPY, CPY_N, CPY_K, PIPE)
    // If K is not a multiple of the tile's, the partial tile is taken first: it has zeros beyond K,
    // and the loop loads whole tiles only.
    let tiles = g_a.tiles();
    let ragged = u32::from(!k.is_multiple_of(const { G::TileA::LAYOUT.extent(1) as u32 }));
    // The K tile of iteration `turn`.
    let tile_of_turn = |turn: u32| if ragged != 0 && turn == 0 { tiles - 1 } else { turn - ragged };
    // Whether the block's tile is in bounds along M and N.
    let inside =
        m >= const { G::TileC::LAYOUT.extent(0) as u32 } && n >= const { G::TileC::LAYOUT.extent(1) as u32 };
    let mma = G::Mma::get_slice(thread);
    let (mut t_r_a, mut t_r_b) = (
        // (MMA, MMA_M, MMA_K)
        mma.partition_fragment_a(&s_a.slice_last(0)),
        // (MMA, MMA_N, MMA_K)
        mma.partition_fragment_b(&s_b.slice_last(0)),
    );
    let mut t_r_c = mma.accumulator::<G::TileC>(); // (MMA, MMA_M, MMA_N)
    let (copy_a, copy_b) = (G::CopyA::get_slice(thread), G::CopyB::get_slice(thread));
    let t_s_r_a = copy_a.partition_s(s_a); // (CPY, MMA_M, MMA_K, PIPE)
    let t_s_r_b = copy_b.partition_s(s_b); // (CPY, MMA_N, MMA_K, PIPE)

    let steps = const {
        same_threads::<G>();
        steps::<AllButLast<G::SmemA>, G::Mma>()
    };
    // If all of the prologue's tiles are in bounds, the loads through registers need no predicates.
    let begins_inside = inside && ragged == 0 && G::STAGES <= tiles;
    // Copies through registers load one tile ahead from the start, which hides the latency of
    // global memory.
    macro_rules! first_stages {
        ($load:ty, $part:ident, $start:ident) => {
            for stage in 0..G::STAGES - 1 {
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
    // The block's coordinates are computed before the wait for other kernels.
    overlap_launches();
    first_tile!(G::LoadA, load_a);
    first_tile!(G::LoadB, load_b);
    for stage in 0..G::STAGES - 1 {
        // Iterations past the last load tiles that are not multiplied.
        if !G::LoadA::THROUGH_REGISTERS {
            load_a.start(tile_of_turn(stage), stage);
        }
        if !G::LoadB::THROUGH_REGISTERS {
            load_b.start(tile_of_turn(stage), stage);
        }
        cp_async_commit();
    }
    first_stages!(G::LoadA, load_a);
    first_stages!(G::LoadB, load_b);
    // Loads the fragments of a step from the stage that holds its tile to the registers of step
    // `$to`.
    macro_rules! read {
        ($stage:expr, $step:expr => $to:expr) => {
            let (stage, step): (u32, u32) = ($stage, $step);
            let (a, b) =
                (t_s_r_a.slice_last(stage).part_last(step), t_s_r_b.slice_last(stage).part_last(step));
            copy_tiled(G::CopyA::default(), &a, &mut copy_a.retile_d(&mut t_r_a).slice_last($to));
            copy_tiled(G::CopyB::default(), &b, &mut copy_b.retile_d(&mut t_r_b).slice_last($to));
        };
    }
    wait(G::STAGES - 2);

    let (mut reading, mut writing) = (0, G::STAGES - 1);
    // The loads that run `STAGES - 1` iterations ahead. A copy through registers was loaded one
    // iteration before, and is stored before the next load.
    macro_rules! load_ahead {
        ($load:ty, $part:ident, $turn:expr, $start:ident) => {
            let ahead = $turn + G::STAGES - 1;
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
    macro_rules! multiply {
        ($step:expr) => {
            gemm_tiled(G::Mma::default(), &t_r_a.at_last($step), &t_r_b.at_last($step), &mut t_r_c)
        };
    }

    // The steps in which tiles of A and of B are loaded, and the later of the two.
    let (step_a, step_b, last) = const {
        let steps = self::steps::<AllButLast<G::SmemA>, G::Mma>();
        let a = load_step(G::LoadA::EIGHTHS, 0, steps);
        let b = load_step(G::LoadB::EIGHTHS, 1, steps);
        (a, b, if a > b { a } else { b })
    };
    // The epilogue multiplies the last K tile itself, and stores C meanwhile.
    let by_parts = const { G::Epilogue::TAKES_LAST_TILE } && inside && tiles > 0;
    let turns = tiles - u32::from(by_parts);
    if inside {
        // The fragments of a step are loaded during the product of the step before.
        read!(reading, 0 => 0);
        for turn in 0..turns {
            for step in 0..steps {
                let next_step = (step + 1) % steps;
                if next_step == 0 && turn + 1 < tiles {
                    reading = next::<G>(reading);
                }
                // After the last step of the last iteration this loads once more, unused.
                read!(reading, next_step => next_step);
                multiply!(step);
                if step == 0 {
                    // After the barrier all threads have read the previous tile, whose stage is
                    // written next, and the next tile has arrived, one iteration before it is read.
                    wait(G::STAGES - 3);
                }
                if step == step_a {
                    load_ahead!(G::LoadA, load_a, turn, start_whole);
                }
                if step == step_b {
                    load_ahead!(G::LoadB, load_b, turn, start_whole);
                }
                if step == 1 {
                    cp_async_commit();
                }
                if step == last {
                    writing = next::<G>(writing);
                }
            }
        }
    } else {
        // At an edge the predicates need the registers of a step. The number of steps is known only
        // at run time, so that this stays a loop: it is long and rarely runs.
        let left = k % const { G::TileA::LAYOUT.extent(1) as u32 };
        let with_something = left.div_ceil(const { G::Mma::MMA.tile_size(2) as u32 });
        for turn in 0..tiles {
            let count = if ragged != 0 && turn == 0 { with_something } else { steps };
            for step in 0..count {
                read!(reading, step => 0);
                multiply!(0);
            }
            wait(G::STAGES - 3);
            load_ahead!(G::LoadA, load_a, turn, start);
            load_ahead!(G::LoadB, load_b, turn, start);
            cp_async_commit();
            writing = next::<G>(writing);
            reading = next::<G>(reading);
        }
    }
    cp_async_wait_all();
    let offset = i64::from(batch) * arguments.batch_c + i64::from(split) * arguments.split_c;
    let place = Place { first: (first_m, first_n), offset, thread };
    if by_parts {
        G::Epilogue::last_tile(&mut t_r_c, (s_a, s_b), reading, &arguments, parameters, place);
        return;
    }
    sync_threads();
    G::Epilogue::store(&t_r_c, &arguments, parameters, place);
}

/// The first row (or column, with axis 1) of a block's tile. A tile that would pass the edge is
/// moved back so that it ends there, if there are enough rows and `granule` divides the extent.
#[inline(always)]
pub fn first<C: StaticLayout, const AXIS: usize>(tile: u32, extent: u32, exact: bool, granule: u32) -> u32 {
    let block = const { C::LAYOUT.extent(AXIS) as u32 };
    let start = tile * block;
    let moves = !exact && extent >= block && extent.is_multiple_of(granule);
    if moves && start + block > extent { extent - block } else { start }
}

/// The granularity by which a tile of A (or of B) may be moved: 16 bytes where they are contiguous,
/// or where C's are, which are stored 16 bytes at a time.
const fn granule<G: MmaConfig>(unit: Option<usize>, along_m: bool) -> u32 {
    let operand = if matches!(unit, Some(0)) { 16 / G::Operand::BYTES } else { 1 };
    let written = if along_m { G::Epilogue::GRANULE } else { 1 };
    if operand > written { operand as u32 } else { written as u32 }
}

/// The stage after `stage`.
#[inline(always)]
fn next<G: MmaConfig>(stage: u32) -> u32 {
    if stage + 1 == G::STAGES { 0 } else { stage + 1 }
}

/// Waits until at most `pending` tiles are in flight, and for all threads to arrive.
#[inline(always)]
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

/// The step in which a tile is loaded: `first` by `cp.async`; copies through registers are stored
/// after a number of eighths of the steps.
const fn load_step(eighths: Option<u32>, first: u32, steps: u32) -> u32 {
    match eighths {
        Some(eighths) => steps * eighths / 8,
        None => first,
    }
}

/// The steps along K in a tile: at least two, since B is loaded after the second.
const fn steps<L: StaticLayout, M: StaticTiledMma>() -> u32 {
    let steps = M::MMA.partition_a(L::LAYOUT).extent(2);
    if steps < 2 {
        TilingError::of("matmul")
            .str("a tile of A, ")
            .layout(&L::LAYOUT)
            .str(", has ")
            .int(steps)
            .str(" step along K, and the pipeline needs 2 or more: take a tile of at least ")
            .int(2 * M::MMA.tile_size(2))
            .str(" along K")
            .raise();
    }
    steps as u32
}

/// The same threads make all copies and the product.
const fn same_threads<G: MmaConfig>() {
    let threads = G::Mma::MMA.threads();
    let copies = [G::LoadA::THREADS, G::LoadB::THREADS, G::CopyA::COPY.threads(), G::CopyB::COPY.threads()];
    let mut i = 0;
    while i < copies.len() {
        if copies[i] != threads {
            TilingError::of("matmul")
                .str("copy ")
                .int(i as i64)
                .str(" of LoadA, LoadB, CopyA, CopyB has ")
                .int(copies[i])
                .str(" threads, and the product has ")
                .int(threads)
                .raise();
        }
        i += 1;
    }
}
