//! Step 2: the tiled matmul. A [`TiledCopy`] and a [`TiledMma`] say who copies and multiplies what, and the next tile is on
//! its way from global memory to registers while this one, in shared memory, is multiplied.

use super::checks;
use super::config::{Problem, Storage, Tiling, entry};
use moye_device::algorithm::{copy, copy_tiled, gemm_tiled};
use moye_device::arch::{sync_threads, thread_idx};
use moye_device::atom::copy::UniversalCopy;
use moye_device::atom::mma::UniversalFma;
use moye_device::atom::{StaticTiledCopy, StaticTiledMma, TiledCopy, TiledMma};
use moye_device::layout::layout;
use moye_device::memory::{Element, SharedStorage};
use moye_device::tensor::UnitStride;
use moye_device::{static_layout, tiled_copy, tiled_mma};

/// A tiling whose tiles come through registers, a `Word` at a time.
pub trait Staged:
    Tiling<
        LoadA: StaticTiledCopy<Atom = UniversalCopy<Self::Word>>,
        LoadB: StaticTiledCopy<Atom = UniversalCopy<Self::Word>>,
    >
{
    /// What a load moves.
    type Word: Element;
}

/// One block's tile of C.
///
/// # Safety
/// The matrices lie inside their buffers, with the alignment that `G` promises; the kernel declares `Storage<G>` and is
/// launched with the threads of `G::Mma`, a block for each tile of C.
#[inline(always)]
pub unsafe fn staged<G: Staged>(problem: Problem) {
    const { checks::operands::<G>() };
    let thread = thread_idx().x;
    let (g_a, g_b, g_c) = problem.tiles::<G>(); // (BLK_M, BLK_K, k), (BLK_N, BLK_K, k), (BLK_M, BLK_N)
    // SAFETY: the kernel declares `Storage<G>`.
    let (s_a, s_b) = unsafe { Storage::<G>::take() }; // (BLK_M, BLK_K), (BLK_N, BLK_K)

    let (load_a, load_b) = (G::LoadA::get_slice(thread), G::LoadB::get_slice(thread));
    let t_a_g_a = load_a.partition_s(g_a); // (CPY, CPY_M, CPY_K, k)
    let t_b_g_b = load_b.partition_s(g_b); // (CPY, CPY_N, CPY_K, k)
    let mut t_a_s_a = load_a.partition_d(s_a); // (CPY, CPY_M, CPY_K)
    let mut t_b_s_b = load_b.partition_d(s_b); // (CPY, CPY_N, CPY_K)
    // SAFETY: filled by the first loads.
    let (mut t_a_r_a, mut t_b_r_b) = unsafe {
        (
            t_a_s_a.make_fragment_like(), // (CPY, CPY_M, CPY_K)
            t_b_s_b.make_fragment_like(), // (CPY, CPY_N, CPY_K)
        )
    };

    let mma = G::Mma::get_slice(thread);
    let t_c_s_a = mma.partition_a(s_a); // (MMA, MMA_M, MMA_K)
    let t_c_s_b = mma.partition_b(s_b); // (MMA, MMA_N, MMA_K)
    let mut t_c_g_c = mma.partition_c(g_c); // (MMA, MMA_M, MMA_N)
    let mut t_c_r_c = mma.accumulator::<G::TileC>(); // (MMA, MMA_M, MMA_N)

    // SAFETY: a tile in shared memory is read behind the barrier that follows its writing, and overwritten behind another.
    // Each element of C belongs to one thread.
    unsafe {
        copy_tiled(G::LoadA::default(), &t_a_g_a.tile(0), &mut t_a_r_a);
        copy_tiled(G::LoadB::default(), &t_b_g_b.tile(0), &mut t_b_r_b);
        for k_tile in 0..g_a.tiles() {
            copy_tiled(G::LoadA::default(), &t_a_r_a, &mut t_a_s_a);
            copy_tiled(G::LoadB::default(), &t_b_r_b, &mut t_b_s_b);
            sync_threads();
            // Loads that nobody waits for before the next turn. The tile behind the last is all zeros, and not read.
            copy_tiled(G::LoadA::default(), &t_a_g_a.tile(k_tile + 1), &mut t_a_r_a);
            copy_tiled(G::LoadB::default(), &t_b_g_b.tile(k_tile + 1), &mut t_b_r_b);
            gemm_tiled(G::Mma::default(), &t_c_s_a, &t_c_s_b, &mut t_c_r_c);
            sync_threads();
        }
        copy(&t_c_r_c, &mut t_c_g_c);
    }
}

static_layout! {
    /// A block's tile of A, (BLK_M, BLK_K), and of B, (BLK_N, BLK_K).
    pub TileAb = layout!((128, 8));
    /// A block's tile of C, (BLK_M, BLK_N).
    pub TileC = layout!((128, 128));
    /// An operand in shared memory, (BLK_M, BLK_K): columns padded by one element.
    pub Smem = layout!((128, 8):(1, 129));
}
tiled_copy! {
    /// 32 x 8 threads, one element each.
    pub Load: TiledCopy<UniversalCopy<f32>, f32> = TiledCopy::new(layout!((32, 8)), layout!((1, 1)));
}
tiled_mma! {
    /// 32 x 8 threads, each with every 32nd row and every 8th column of C: 4 x 16 sums. A warp reads 32 neighbours of A, and
    /// the same element of B.
    pub Mma: TiledMma<UniversalFma<f32>> = TiledMma::new(layout!((32, 8, 1)));
}

/// The tiling of step 2.
pub struct Tiled;

impl Tiling for Tiled {
    type StridesA = UnitStride<0>;
    type StridesB = UnitStride<0>;
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

impl Staged for Tiled {
    type Word = f32;
}

entry! {
    /// Step 2: `c = a * b` with `a` as `(m, k)`, `b` as `(n, k)` and `c` as `(m, n)`, M and N the fast axes; a block of 256
    /// threads for each tile of 128 x 128, grid `(ceil(m / 128), ceil(n / 128))`.
    ladder_tiled = staged::<Tiled>, threads = 256, min_blocks = 2, "Any alignment does."
}
