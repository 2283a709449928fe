//! The product that all configurations share: global to shared memory by a tiled copy, shared memory to fragments by
//! another, the tiled MMA, and the accumulator back to global memory.

use moye_device::algorithm::{CopyDestination, CopySource, copy, copy_tiled, gemm_tiled};
use moye_device::arch::{Fma, block_idx, cp_async_commit, cp_async_wait, sync_threads, thread_idx};
use moye_device::atom::copy::CopyAtom;
use moye_device::atom::mma::MmaAtom;
use moye_device::atom::{AccumulatorOf, StaticTiledCopy, StaticTiledMma};
use moye_device::memory::{Element, Global, GlobalMut, Shared, SharedArray, SharedStorage};
use moye_device::tensor::{Aligned, All, Fragment, Matrix, RegistersMut, StaticLayout, Strided, UnitStride};

/// The operands of a product `C (M, N) = A (M, K) * B (N, K)`, K the fast axis of A and B and N that of C; leading
/// dimensions in elements, those of A and B multiples of 16 bytes.
pub struct Problem<A, C: Element>
where
    A: Element,
{
    pub a: Global<A>,
    pub b: Global<A>,
    pub c: GlobalMut<C>,
    /// (M, N, K)
    pub shape: (u32, u32, u32),
    pub lda: i64,
    pub ldb: i64,
    pub ldc: i64,
}

/// How a product is tiled.
pub trait Config: Sized {
    /// The elements of A and B.
    type Operand: Element;
    /// The elements of C.
    type Sum: Element;
    /// A block's tile of A, (BLK_M, BLK_K).
    type TileA: StaticLayout;
    /// A block's tile of B, (BLK_N, BLK_K).
    type TileB: StaticLayout;
    /// A block's tile of C, (BLK_M, BLK_N).
    type TileC: StaticLayout;
    /// A's tile in shared memory.
    type SmemA: StaticLayout;
    /// B's tile in shared memory.
    type SmemB: StaticLayout;
    /// Global to shared memory.
    type Load: StaticTiledCopy<Element = Self::Operand>;
    /// Shared memory to fragments of A.
    type CopyA: StaticTiledCopy<Element = Self::Operand>;
    /// Shared memory to fragments of B.
    type CopyB: StaticTiledCopy<Element = Self::Operand>;
    /// The product.
    type Mma: StaticTiledMma;
}

/// What a block keeps in shared memory.
pub type Storage<G> = (
    SharedArray<<G as Config>::Operand, <G as Config>::SmemA>,
    SharedArray<<G as Config>::Operand, <G as Config>::SmemB>,
);

/// A tile of an operand in global memory: K is contiguous, rows start at multiples of 16 bytes.
type Operand<G> = Strided<Global<<G as Config>::Operand>, Aligned<UnitStride<1>, 16>>;
/// Where a tiled copy reads.
type SourceOf<C> = <<C as StaticTiledCopy>::Atom as CopyAtom>::Source;
/// Where a tiled copy writes.
type DestinationOf<C> = <<C as StaticTiledCopy>::Atom as CopyAtom>::Destination;
type LoadSource<G> = SourceOf<<G as Config>::Load>;
type LoadDestination<G> = DestinationOf<<G as Config>::Load>;

/// One block's tile of C, with operands in fragments.
///
/// # Safety
/// The matrices lie inside their buffers; the kernel declares `Storage<G>` and is launched with the threads of `G::Mma`.
#[inline(always)]
pub unsafe fn product<G: Config>(problem: Problem<G::Operand, G::Sum>)
where
    <G::Mma as StaticTiledMma>::Atom:
        MmaAtom<C = G::Sum, RegistersD = <<G::Mma as StaticTiledMma>::Atom as MmaAtom>::RegistersC>,
    G::Sum: Fma,
    Operand<G>: CopySource<LoadSource<G>>,
    Shared<G::Operand>:
        CopyDestination<LoadDestination<G>> + CopySource<SourceOf<G::CopyA>> + CopySource<SourceOf<G::CopyB>>,
    for<'a> RegistersMut<'a, G::Operand>:
        CopyDestination<DestinationOf<G::CopyA>> + CopyDestination<DestinationOf<G::CopyB>>,
{
    let (block, thread) = (block_idx(), thread_idx().x);
    let (m, n, k) = problem.shape;
    let m_a = Matrix::new(problem.a, (m, k), Aligned::<_, 16>(UnitStride::<1>(problem.lda))); // (M, K)
    let m_b = Matrix::new(problem.b, (n, k), Aligned::<_, 16>(UnitStride::<1>(problem.ldb))); // (N, K)
    let m_c = Matrix::new(problem.c, (m, n), UnitStride::<1>(problem.ldc)); // (M, N)
    let g_a = m_a.local_tile::<G::TileA, _>((block.x, All)); // (BLK_M, BLK_K, k)
    let g_b = m_b.local_tile::<G::TileB, _>((block.y, All)); // (BLK_N, BLK_K, k)
    let g_c = m_c.local_tile::<G::TileC, _>((block.x, block.y)); // (BLK_M, BLK_N)
    // SAFETY: the caller's contract.
    let (s_a, s_b) = unsafe { Storage::<G>::take() }; // (BLK_M, BLK_K), (BLK_N, BLK_K)

    let load = G::Load::get_slice(thread);
    let t_g_a = load.partition_s(g_a); // (CPY, CPY_M, CPY_K, k)
    let t_g_b = load.partition_s(g_b); // (CPY, CPY_N, CPY_K, k)
    let mut t_s_a = load.partition_d(s_a); // (CPY, CPY_M, CPY_K)
    let mut t_s_b = load.partition_d(s_b); // (CPY, CPY_N, CPY_K)

    let mma = G::Mma::get_slice(thread);
    // SAFETY: both are copied to before each product.
    let (mut t_r_a, mut t_r_b) = unsafe { (mma.partition_fragment_a(&s_a), mma.partition_fragment_b(&s_b)) };
    let (copy_a, copy_b) = (G::CopyA::get_slice(thread), G::CopyB::get_slice(thread));
    let t_s_r_a = copy_a.partition_s(s_a); // (CPY, MMA_M, MMA_K)
    let t_s_r_b = copy_b.partition_s(s_b); // (CPY, MMA_N, MMA_K)
    let mut t_r_c: Fragment<G::Sum, AccumulatorOf<G::TileC, G::Mma>> = mma.accumulator::<G::TileC>(); // (MMA, MMA_M, MMA_N)

    for k_tile in 0..g_a.tiles() {
        // SAFETY: tiles are read after the wait for them and a barrier, and overwritten after another.
        unsafe {
            copy_tiled(G::Load::default(), &t_g_a.tile(k_tile), &mut t_s_a);
            copy_tiled(G::Load::default(), &t_g_b.tile(k_tile), &mut t_s_b);
            cp_async_commit();
            cp_async_wait::<0>();
            sync_threads();
            copy_tiled(G::CopyA::default(), &t_s_r_a, &mut copy_a.retile_d(&mut t_r_a));
            copy_tiled(G::CopyB::default(), &t_s_r_b, &mut copy_b.retile_d(&mut t_r_b));
            gemm_tiled(G::Mma::default(), &t_r_a, &t_r_b, &mut t_r_c);
            sync_threads();
        }
    }
    let mut t_g_c = mma.partition_c(g_c); // (MMA, MMA_M, MMA_N)
    // SAFETY: each element of C belongs to one thread.
    unsafe { copy(&t_r_c, &mut t_g_c) };
}

/// [`product`] with operands that the MMA reads from shared memory by itself.
///
/// # Safety
/// As [`product`].
#[inline(always)]
pub unsafe fn product_from_shared<G: Config>(problem: Problem<G::Operand, G::Sum>)
where
    <G::Mma as StaticTiledMma>::Atom:
        MmaAtom<C = G::Sum, RegistersD = <<G::Mma as StaticTiledMma>::Atom as MmaAtom>::RegistersC>,
    G::Sum: Fma,
    Operand<G>: CopySource<LoadSource<G>>,
    Shared<G::Operand>: CopyDestination<LoadDestination<G>>,
{
    let (block, thread) = (block_idx(), thread_idx().x);
    let (m, n, k) = problem.shape;
    let m_a = Matrix::new(problem.a, (m, k), Aligned::<_, 16>(UnitStride::<1>(problem.lda))); // (M, K)
    let m_b = Matrix::new(problem.b, (n, k), Aligned::<_, 16>(UnitStride::<1>(problem.ldb))); // (N, K)
    let m_c = Matrix::new(problem.c, (m, n), UnitStride::<1>(problem.ldc)); // (M, N)
    let g_a = m_a.local_tile::<G::TileA, _>((block.x, All)); // (BLK_M, BLK_K, k)
    let g_b = m_b.local_tile::<G::TileB, _>((block.y, All)); // (BLK_N, BLK_K, k)
    let g_c = m_c.local_tile::<G::TileC, _>((block.x, block.y)); // (BLK_M, BLK_N)
    // SAFETY: the caller's contract.
    let (s_a, s_b) = unsafe { Storage::<G>::take() }; // (BLK_M, BLK_K), (BLK_N, BLK_K)

    let load = G::Load::get_slice(thread);
    let t_g_a = load.partition_s(g_a); // (CPY, CPY_M, CPY_K, k)
    let t_g_b = load.partition_s(g_b); // (CPY, CPY_N, CPY_K, k)
    let mut t_s_a = load.partition_d(s_a); // (CPY, CPY_M, CPY_K)
    let mut t_s_b = load.partition_d(s_b); // (CPY, CPY_N, CPY_K)

    let mma = G::Mma::get_slice(thread);
    let t_c_s_a = mma.partition_a(s_a); // (MMA, MMA_M, MMA_K)
    let t_c_s_b = mma.partition_b(s_b); // (MMA, MMA_N, MMA_K)
    let mut t_r_c = mma.accumulator::<G::TileC>(); // (MMA, MMA_M, MMA_N)

    for k_tile in 0..g_a.tiles() {
        // SAFETY: tiles are read after the wait for them and a barrier, and overwritten after another.
        unsafe {
            copy_tiled(G::Load::default(), &t_g_a.tile(k_tile), &mut t_s_a);
            copy_tiled(G::Load::default(), &t_g_b.tile(k_tile), &mut t_s_b);
            cp_async_commit();
            cp_async_wait::<0>();
            sync_threads();
            gemm_tiled(G::Mma::default(), &t_c_s_a, &t_c_s_b, &mut t_r_c);
            sync_threads();
        }
    }
    let mut t_g_c = mma.partition_c(g_c); // (MMA, MMA_M, MMA_N)
    // SAFETY: each element of C belongs to one thread.
    unsafe { copy(&t_r_c, &mut t_g_c) };
}
