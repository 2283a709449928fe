//! Step 4: `cp.async` overlapped with the product, operands in fragments.
//!
//! The copy goes from global to shared memory by itself, through no register. So that it may overwrite the tile while the
//! product runs, the product has its operands in registers: shared memory is read, everyone has read it, the copies of the
//! next tile set out, and only then is multiplied.

use super::checks;
use super::config::{Fragments, Problem, Storage, Tiling, entry};
use super::tiled::{TileAb, TileC};
use super::vectorized::Smem64;
use moye_device::algorithm::{CopyDestination, CopySource, copy, copy_tiled, gemm_tiled};
use moye_device::arch::{cp_async_commit, cp_async_wait, sync_threads, thread_idx};
use moye_device::atom::copy::{
    CopyAtom, GlobalMemory, SM80_CP_ASYNC_CACHEALWAYS, SharedMemory, UniversalCopy,
};
use moye_device::atom::mma::UniversalFma;
use moye_device::atom::{
    StaticTiledCopy, StaticTiledMma, TiledCopy, TiledMma, make_tiled_copy_a, make_tiled_copy_b,
};
use moye_device::layout::layout;
use moye_device::memory::{Shared, SharedStorage};
use moye_device::tensor::{Aligned, RegistersMut, UnitStride};
use moye_device::{tiled_copy, tiled_mma};

/// A tiling whose tiles come by `cp.async`.
pub trait Async:
    Fragments<
        LoadA: StaticTiledCopy<Atom: CopyAtom<Source = GlobalMemory, Destination = SharedMemory>>,
        LoadB: StaticTiledCopy<Atom: CopyAtom<Source = GlobalMemory, Destination = SharedMemory>>,
    >
{
    /// The most words that a read of a fragment may ask one bank for: 1 without conflicts.
    const CONFLICTS: u32 = 1;
}

/// Where a tiled copy reads.
pub type SourceOf<C> = <<C as StaticTiledCopy>::Atom as CopyAtom>::Source;
/// Where a tiled copy writes.
pub type DestinationOf<C> = <<C as StaticTiledCopy>::Atom as CopyAtom>::Destination;

/// One block's tile of C.
///
/// # Safety
/// The matrices lie inside their buffers, with the alignment that `G` promises; the kernel declares `Storage<G>` and is
/// launched with the threads of `G::Mma`, a block for each tile of C.
#[inline(always)]
pub unsafe fn overlapped<G: Async>(problem: Problem)
where
    Shared<f32>: CopySource<SourceOf<G::ReadA>> + CopySource<SourceOf<G::ReadB>>,
    for<'a> RegistersMut<'a, f32>:
        CopyDestination<DestinationOf<G::ReadA>> + CopyDestination<DestinationOf<G::ReadB>>,
{
    const { checks::fragments::<G>(G::CONFLICTS) };
    let thread = thread_idx().x;
    let (g_a, g_b, g_c) = problem.tiles::<G>(); // (BLK_M, BLK_K, k), (BLK_N, BLK_K, k), (BLK_M, BLK_N)
    // SAFETY: the kernel declares `Storage<G>`.
    let (s_a, s_b) = unsafe { Storage::<G>::take() }; // (BLK_M, BLK_K), (BLK_N, BLK_K)

    let (load_a, load_b) = (G::LoadA::get_slice(thread), G::LoadB::get_slice(thread));
    let t_a_g_a = load_a.partition_s(g_a); // (CPY, CPY_M, CPY_K, k)
    let t_b_g_b = load_b.partition_s(g_b); // (CPY, CPY_N, CPY_K, k)
    let mut t_a_s_a = load_a.partition_d(s_a); // (CPY, CPY_M, CPY_K)
    let mut t_b_s_b = load_b.partition_d(s_b); // (CPY, CPY_N, CPY_K)

    let mma = G::Mma::get_slice(thread);
    // SAFETY: both are filled before each product.
    let (mut t_c_r_a, mut t_c_r_b) = unsafe {
        (
            mma.partition_fragment_a(&s_a), // (MMA, MMA_M, MMA_K)
            mma.partition_fragment_b(&s_b), // (MMA, MMA_N, MMA_K)
        )
    };
    let mut t_c_g_c = mma.partition_c(g_c); // (MMA, MMA_M, MMA_N)
    let mut t_c_r_c = mma.accumulator::<G::TileC>(); // (MMA, MMA_M, MMA_N)
    // The fragments once more, in the modes of the copies that fill them.
    let (read_a, read_b) = (G::ReadA::get_slice(thread), G::ReadB::get_slice(thread));
    let t_s_a = read_a.partition_s(s_a); // (CPY, MMA_M, MMA_K)
    let t_s_b = read_b.partition_s(s_b); // (CPY, MMA_N, MMA_K)

    // SAFETY: a tile is read behind the wait for it and a barrier, and overwritten behind another. Each element of C
    // belongs to one thread.
    unsafe {
        copy_tiled(G::LoadA::default(), &t_a_g_a.tile(0), &mut t_a_s_a);
        copy_tiled(G::LoadB::default(), &t_b_g_b.tile(0), &mut t_b_s_b);
        cp_async_commit();
        for k_tile in 0..g_a.tiles() {
            cp_async_wait::<0>();
            sync_threads();
            copy_tiled(G::ReadA::default(), &t_s_a, &mut read_a.retile_d(&mut t_c_r_a));
            copy_tiled(G::ReadB::default(), &t_s_b, &mut read_b.retile_d(&mut t_c_r_b));
            sync_threads();
            // The tile behind the last arrives as zeros.
            copy_tiled(G::LoadA::default(), &t_a_g_a.tile(k_tile + 1), &mut t_a_s_a);
            copy_tiled(G::LoadB::default(), &t_b_g_b.tile(k_tile + 1), &mut t_b_s_b);
            cp_async_commit();
            gemm_tiled(G::Mma::default(), &t_c_r_a, &t_c_r_b, &mut t_c_r_c);
        }
        cp_async_wait::<0>();
        copy(&t_c_r_c, &mut t_c_g_c);
    }
}

tiled_copy! {
    /// 32 x 8 threads, two neighbours along M each, 8 bytes a copy.
    pub Load: TiledCopy<SM80_CP_ASYNC_CACHEALWAYS<u64>, f32> = TiledCopy::new(layout!((32, 8)), layout!((2, 1)));
    /// An element at a time.
    pub ReadA: TiledCopy<UniversalCopy<f32>, f32> = make_tiled_copy_a(&Mma::MMA);
    /// An element at a time.
    pub ReadB: TiledCopy<UniversalCopy<f32>, f32> = make_tiled_copy_b(&Mma::MMA);
}
tiled_mma! {
    /// 16 x 16 threads, each with 8 x 8 sums of C. A tile of operands is then 64 + 64 registers, where 32 x 8 threads would
    /// take 32 + 128.
    pub Mma: TiledMma<UniversalFma<f32>> = TiledMma::new(layout!((16, 16, 1)));
}

/// The tiling of step 4.
pub struct Overlapped;

impl Tiling for Overlapped {
    type StridesA = Aligned<UnitStride<0>, 8>;
    type StridesB = Aligned<UnitStride<0>, 8>;
    type TileA = TileAb;
    type TileB = TileAb;
    type TileC = TileC;
    type SmemA = Smem64;
    type SmemB = Smem64;
    type LoadA = Load;
    type LoadB = Load;
    type Sums = [f32; 1];
    type Mma = Mma;
}

impl Fragments for Overlapped {
    type ReadA = ReadA;
    type ReadB = ReadB;
}

impl Async for Overlapped {}

entry! {
    /// Step 4: `c = a * b` with `a` as `(m, k)`, `b` as `(n, k)` and `c` as `(m, n)`, M and N the fast axes; a block of 256
    /// threads for each tile of 128 x 128, grid `(ceil(m / 128), ceil(n / 128))`.
    ladder_overlapped = overlapped::<Overlapped>, threads = 256, min_blocks = 1,
    "`a`, `b`, `lda` and `ldb` are multiples of 8 bytes, 2 elements."
}
