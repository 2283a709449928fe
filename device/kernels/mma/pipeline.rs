//! The multi-stage pipeline on tensor cores: `cp.async` runs stages ahead of the product, `ldmatrix` a step ahead.
//!
//! Shared memory holds `STAGES` tiles of A and B. While the product works on one, the copies of the next `STAGES - 1` are
//! on their way, so that global memory has that long to answer. Within a tile the fragments of step `k + 1` are read while
//! step `k` multiplies. One barrier a tile orders both: it stands behind the last read of a stage and before the copy that
//! overwrites it.
//!
//! Tiles in shared memory are swizzled, so that rows which `cp.async` writes and `ldmatrix` reads lie in different banks
//! without padding.

use super::config::{Epilogue, MmaConfig, Problem, Storage};
use super::raster::tile_of;
use crate::algorithm::{CopyDestination, CopySource, copy_tiled, gemm_tiled};
use crate::arch::{
    Fma, block_idx, cp_async_commit, cp_async_wait, cp_async_wait_all, sync_threads, thread_idx,
};
use crate::atom::copy::CopyAtom;
use crate::atom::mma::MmaAtom;
use crate::atom::{StaticTiledCopy, StaticTiledMma};
use crate::memory::{Global, Shared, SharedStorage};
use crate::tensor::{AllButLast, All, Matrix, RegistersMut, StaticLayout, Strided};

/// A tile of an operand in global memory.
type OperandTile<T, S> = Strided<Global<T>, S>;
type SourceOf<C> = <<C as StaticTiledCopy>::Atom as CopyAtom>::Source;
type DestinationOf<C> = <<C as StaticTiledCopy>::Atom as CopyAtom>::Destination;

/// One block's tile of C.
///
/// # Safety
/// The matrices lie inside their buffers, with the alignment that `G` promises; the kernel declares `Storage<G>` and is
/// launched with the threads of `G::Mma`, a block for each tile.
#[inline(always)]
pub unsafe fn matmul<G: MmaConfig>(problem: Problem<G>)
where
    <G::Mma as StaticTiledMma>::Atom:
        MmaAtom<C = G::Sum, RegistersD = <<G::Mma as StaticTiledMma>::Atom as MmaAtom>::RegistersC>,
    G::Sum: Fma,
    OperandTile<G::Operand, G::StridesA>: CopySource<SourceOf<G::LoadA>>,
    OperandTile<G::Operand, G::StridesB>: CopySource<SourceOf<G::LoadB>>,
    Shared<G::Operand>: CopyDestination<DestinationOf<G::LoadA>>
        + CopyDestination<DestinationOf<G::LoadB>>
        + CopySource<SourceOf<G::CopyA>>
        + CopySource<SourceOf<G::CopyB>>,
    for<'a> RegistersMut<'a, G::Operand>:
        CopyDestination<DestinationOf<G::CopyA>> + CopyDestination<DestinationOf<G::CopyB>>,
{
    let thread = thread_idx().x;
    let (m, n, k) = problem.shape;
    let (tile_m, tile_n) = tile_of::<G>(block_idx().x, m, n);
    let m_a = Matrix::new(problem.a, (m, k), problem.strides_a); // (M, K)
    let m_b = Matrix::new(problem.b, (n, k), problem.strides_b); // (N, K)
    let m_c = Matrix::new(problem.c, (m, n), problem.strides_c); // (M, N)
    let g_a = m_a.local_tile::<G::TileA, _>((tile_m, All)); // (BLK_M, BLK_K, k)
    let g_b = m_b.local_tile::<G::TileB, _>((tile_n, All)); // (BLK_N, BLK_K, k)
    let g_c = m_c.local_tile::<G::TileC, _>((tile_m, tile_n)); // (BLK_M, BLK_N)
    // SAFETY: the kernel declares `Storage<G>`.
    let (s_a, s_b) = unsafe { Storage::<G>::take() }; // (BLK_M, BLK_K, PIPE), (BLK_N, BLK_K, PIPE)

    let (load_a, load_b) = (G::LoadA::get_slice(thread), G::LoadB::get_slice(thread));
    let t_g_a = load_a.partition_s(g_a); // (CPY, CPY_M, CPY_K, k)
    let t_g_b = load_b.partition_s(g_b); // (CPY, CPY_N, CPY_K, k)
    let t_s_a = load_a.partition_d(s_a); // (CPY, CPY_M, CPY_K, PIPE)
    let t_s_b = load_b.partition_d(s_b); // (CPY, CPY_N, CPY_K, PIPE)
    // Tiles beyond the last lie outside of the matrices, and arrive as zeros.
    // SAFETY: a stage is overwritten only behind a barrier after its last read.
    let load = |tile: u32, stage: u32| unsafe {
        copy_tiled(G::LoadA::default(), &t_g_a.tile(tile), &mut t_s_a.slice_last(stage));
        copy_tiled(G::LoadB::default(), &t_g_b.tile(tile), &mut t_s_b.slice_last(stage));
        cp_async_commit();
    };

    let mma = G::Mma::get_slice(thread);
    // SAFETY: each step's part is read from shared memory before its product.
    let (mut t_r_a, mut t_r_b) = unsafe {
        (
            // (MMA, MMA_M, MMA_K)
            mma.partition_fragment_a(&s_a.slice_last(0)),
            // (MMA, MMA_N, MMA_K)
            mma.partition_fragment_b(&s_b.slice_last(0)),
        )
    };
    let mut t_r_c = mma.accumulator::<G::TileC>(); // (MMA, MMA_M, MMA_N)
    let (copy_a, copy_b) = (G::CopyA::get_slice(thread), G::CopyB::get_slice(thread));
    let t_s_r_a = copy_a.partition_s(s_a); // (CPY, MMA_M, MMA_K, PIPE)
    let t_s_r_b = copy_b.partition_s(s_b); // (CPY, MMA_N, MMA_K, PIPE)

    let steps = const { steps::<AllButLast<G::SmemA>, G::Mma>() };
    for stage in 0..G::STAGES - 1 {
        load(stage, stage);
    }
    wait::<G>();
    // The fragments of a step, from the stage that holds its tile.
    macro_rules! read {
        ($stage:expr, $step:expr) => {
            // SAFETY: the stage has arrived for all threads, which a barrier has told.
            unsafe {
                let (stage, step): (u32, u32) = ($stage, $step);
                let (a, b) = (t_s_r_a.slice_last(stage).slice_last(step), t_s_r_b.slice_last(stage).slice_last(step));
                copy_tiled(G::CopyA::default(), &a, &mut copy_a.retile_d(&mut t_r_a).slice_last(step));
                copy_tiled(G::CopyB::default(), &b, &mut copy_b.retile_d(&mut t_r_b).slice_last(step));
            }
        };
    }
    read!(0, 0);

    let (mut reading, mut writing) = (0, G::STAGES - 1);
    for tile in 0..g_a.tiles() {
        for step in 0..steps {
            if step + 1 == steps {
                reading = next::<G>(reading);
                wait::<G>();
            }
            read!(reading, (step + 1) % steps);
            if step == 0 {
                load(tile + G::STAGES - 1, writing);
                writing = next::<G>(writing);
            }
            // SAFETY: the step's fragments were read one step ago.
            unsafe { gemm_tiled(G::Mma::default(), &t_r_a.at_last(step), &t_r_b.at_last(step), &mut t_r_c) };
        }
    }
    cp_async_wait_all();
    sync_threads();
    // SAFETY: nobody needs the stages any more; each element of C belongs to one block.
    unsafe { G::Epilogue::store(&t_r_c, g_c, thread) };
}

/// The stage after `stage`.
#[inline(always)]
fn next<G: MmaConfig>(stage: u32) -> u32 {
    if stage + 1 == G::STAGES { 0 } else { stage + 1 }
}

/// Waits for the oldest stage that is on its way, and for all threads to have it.
#[inline(always)]
fn wait<G: MmaConfig>() {
    match G::STAGES {
        2 => cp_async_wait::<0>(),
        3 => cp_async_wait::<1>(),
        4 => cp_async_wait::<2>(),
        5 => cp_async_wait::<3>(),
        _ => cp_async_wait::<4>(),
    }
    sync_threads();
}

/// The steps along K in a tile.
const fn steps<L: StaticLayout, M: StaticTiledMma>() -> u32 {
    (M::MMA.partition_a(L::LAYOUT).extent(2)) as u32
}
