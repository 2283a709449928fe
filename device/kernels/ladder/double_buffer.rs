//! Step 5: the double buffer, over shared memory and over registers.
//!
//! Two tiles of each operand lie in shared memory, so that the copies of the next one have the time of a whole tile's
//! product. Within a tile the fragments of step `k + 1` are read while step `k` multiplies, so that no product waits for
//! shared memory either. One barrier a tile is left. It stands before the last step, whose fragments all have by then: behind
//! it the first fragments of the next tile are read, and the copies of the tile after that set out.

use super::checks;
use super::config::{Fragments, Problem, Storage, Tiling, entry};
use super::overlapped::{Async, DestinationOf, Load, SourceOf};
use super::tiled::{Mma, TileAb, TileC};
use moye_device::algorithm::{CopyDestination, CopySource, copy, copy_tiled, gemm_tiled};
use moye_device::arch::{FULL_WARP, cp_async_commit, cp_async_wait, sync_threads, sync_warp, thread_idx};
use moye_device::atom::copy::UniversalCopy;
use moye_device::atom::{
    PartitionS, StaticTiledCopy, StaticTiledMma, TilingError, make_tiled_copy_a, make_tiled_copy_b,
};
use moye_device::layout::layout;
use moye_device::memory::SharedStorage;
use moye_device::tensor::{Aligned, AllButLast, Part, RegistersMut, StaticLayout, UnitStride};
use moye_device::{static_layout, tiled_copy};

/// A step's part of an operand in shared memory.
type PartOf<L, C> = Part<f32, AllButLast<PartitionS<L, C>>>;

/// One block's tile of C.
///
/// # Safety
/// The matrices lie inside their buffers, with the alignment that `G` promises; the kernel declares `Storage<G>` and is
/// launched with the threads of `G::Mma`, a block for each tile of C.
#[inline(always)]
pub unsafe fn double_buffered<G: Async>(problem: Problem)
where
    PartOf<G::SmemA, G::ReadA>: CopySource<SourceOf<G::ReadA>>,
    PartOf<G::SmemB, G::ReadB>: CopySource<SourceOf<G::ReadB>>,
    for<'a> RegistersMut<'a, f32>:
        CopyDestination<DestinationOf<G::ReadA>> + CopyDestination<DestinationOf<G::ReadB>>,
{
    const { checks::fragments::<G>(G::CONFLICTS) };
    let thread = thread_idx().x;
    let (g_a, g_b, g_c) = problem.tiles::<G>(); // (BLK_M, BLK_K, k), (BLK_N, BLK_K, k), (BLK_M, BLK_N)
    // SAFETY: the kernel declares `Storage<G>`.
    let (s_a, s_b) = unsafe { Storage::<G>::take() }; // (BLK_M, BLK_K, PIPE), (BLK_N, BLK_K, PIPE)

    let (load_a, load_b) = (G::LoadA::get_slice(thread), G::LoadB::get_slice(thread));
    let t_a_g_a = load_a.partition_s(g_a); // (CPY, CPY_M, CPY_K, k)
    let t_b_g_b = load_b.partition_s(g_b); // (CPY, CPY_N, CPY_K, k)
    let t_a_s_a = load_a.partition_d(s_a); // (CPY, CPY_M, CPY_K, PIPE)
    let t_b_s_b = load_b.partition_d(s_b); // (CPY, CPY_N, CPY_K, PIPE)

    let mma = G::Mma::get_slice(thread);
    // SAFETY: the fragments of a step are read before its product.
    let (mut t_c_r_a, mut t_c_r_b) = unsafe {
        (
            mma.partition_fragment_a(&s_a.slice_last(0)), // (MMA, MMA_M, MMA_K)
            mma.partition_fragment_b(&s_b.slice_last(0)), // (MMA, MMA_N, MMA_K)
        )
    };
    let mut t_c_g_c = mma.partition_c(g_c); // (MMA, MMA_M, MMA_N)
    let mut t_c_r_c = mma.accumulator::<G::TileC>(); // (MMA, MMA_M, MMA_N)
    let (read_a, read_b) = (G::ReadA::get_slice(thread), G::ReadB::get_slice(thread));
    let t_s_a = read_a.partition_s(s_a); // (CPY, MMA_M, MMA_K, PIPE)
    let t_s_b = read_b.partition_s(s_b); // (CPY, MMA_N, MMA_K, PIPE)

    // A tile's copies to a stage. Tiles behind the last arrive as zeros.
    macro_rules! load {
        ($k_tile:expr => $stage:expr) => {
            // SAFETY: nobody reads the stage any more, which a barrier has told.
            unsafe {
                copy_tiled(G::LoadA::default(), &t_a_g_a.tile($k_tile), &mut t_a_s_a.slice_last($stage));
                copy_tiled(G::LoadB::default(), &t_b_g_b.tile($k_tile), &mut t_b_s_b.slice_last($stage));
                cp_async_commit();
            }
        };
    }
    // A step's fragments from a stage.
    macro_rules! read {
        ($stage:expr, $step:expr) => {
            // SAFETY: the stage's tile has arrived for all threads, which a barrier has told.
            unsafe {
                let (step, a, b) = ($step, t_s_a.slice_last($stage), t_s_b.slice_last($stage));
                let mut to_a = read_a.retile_d(&mut t_c_r_a).slice_last(step); // (CPY, MMA_M)
                let mut to_b = read_b.retile_d(&mut t_c_r_b).slice_last(step); // (CPY, MMA_N)
                copy_tiled(G::ReadA::default(), &a.part_last(step), &mut to_a);
                copy_tiled(G::ReadB::default(), &b.part_last(step), &mut to_b);
            }
        };
    }

    let steps = const { steps::<G>() };
    load!(0 => 0);
    load!(1 => 1);
    cp_async_wait::<1>();
    sync_threads();
    read!(0, 0);
    for k_tile in 0..g_a.tiles() {
        let (stage, next_stage) = (k_tile % 2, (k_tile + 1) % 2);
        for step in 0..steps {
            if step + 1 < steps {
                read!(stage, step + 1);
            } else {
                // All have read the last of this tile, and the next has arrived: its first fragments are read, and the
                // copies of the one after it set out to where this one was.
                cp_async_wait::<0>();
                sync_threads();
                read!(next_stage, 0);
                load!(k_tile + 2 => stage);
            }
            // Keeps the assembler from moving the reads behind the product that they are to run beside.
            sync_warp(FULL_WARP);
            // SAFETY: the step's fragments were read a step ago.
            unsafe {
                gemm_tiled(G::Mma::default(), &t_c_r_a.at_last(step), &t_c_r_b.at_last(step), &mut t_c_r_c)
            };
        }
    }
    cp_async_wait::<0>();
    // SAFETY: each element of C belongs to one thread.
    unsafe { copy(&t_c_r_c, &mut t_c_g_c) };
}

/// The steps along K of a tile, 2 at least: the fragments of one are read while another is multiplied.
const fn steps<G: Tiling>() -> u32 {
    let (steps, stages) =
        (G::Mma::MMA.partition_a(G::SmemA::LAYOUT.take(0, 2)).extent(2), G::SmemA::LAYOUT.extent(2));
    if steps < 2 || stages != 2 || G::SmemB::LAYOUT.extent(2) != 2 {
        TilingError::of("double_buffered")
            .str("shared memory is (BLK_M, BLK_K, 2) with two steps along K or more; ")
            .layout(&G::SmemA::LAYOUT)
            .str(" has ")
            .int(steps)
            .str(" steps")
            .raise();
    }
    steps as u32
}

static_layout! {
    /// An operand in shared memory, (BLK_M, BLK_K, PIPE): columns padded by two elements.
    pub Smem = layout!((128, 8, 2):(1, 130, 1040));
}
tiled_copy! {
    /// An element at a time.
    pub ReadA: TiledCopy<UniversalCopy<f32>, f32> = make_tiled_copy_a(&Mma::MMA);
    /// An element at a time.
    pub ReadB: TiledCopy<UniversalCopy<f32>, f32> = make_tiled_copy_b(&Mma::MMA);
}

/// The tiling of step 5.
pub struct DoubleBuffered;

impl Tiling for DoubleBuffered {
    type StridesA = Aligned<UnitStride<0>, 8>;
    type StridesB = Aligned<UnitStride<0>, 8>;
    type TileA = TileAb;
    type TileB = TileAb;
    type TileC = TileC;
    type SmemA = Smem;
    type SmemB = Smem;
    type LoadA = Load;
    type LoadB = Load;
    type Sums = [f32; 1];
    type Mma = Mma;
}

impl Fragments for DoubleBuffered {
    type ReadA = ReadA;
    type ReadB = ReadB;
}

impl Async for DoubleBuffered {}

entry! {
    /// Step 5: `c = a * b` with `a` as `(m, k)`, `b` as `(n, k)` and `c` as `(m, n)`, M and N the fast axes; a block of 256
    /// threads for each tile of 128 x 128, grid `(ceil(m / 128), ceil(n / 128))`.
    ladder_double_buffered = double_buffered::<DoubleBuffered>, threads = 256, min_blocks = 2,
    "`a`, `b`, `lda` and `ldb` are multiples of 8 bytes, 2 elements."
}
