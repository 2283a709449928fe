//! The product that all configurations share: global to shared memory by a tiled copy, from there
//! on in one of three ways to the tiled MMA, and the accumulator back to global memory.

use crate::operand::Operand;
use moye_device::algorithm::{ReadBy, WrittenBy, clear, copy, copy_tiled, gemm_tiled};
use moye_device::arch::{Fma, block_idx, cp_async_commit, cp_async_wait, sync_threads, thread_idx};
use moye_device::atom::mma::{AddsInPlace, MmaAtom};
use moye_device::atom::{AccumulatorOf, StaticTiledCopy, StaticTiledMma};
use moye_device::memory::{Element, Global, GlobalMut, SharedStorage};
use moye_device::tensor::{
    Aligned, All, Fragment, GlobalTensor, IdentityOf, Matrix, RegistersMut, RegistersRef, StaticLayout,
    Strided, Tensor, UnitStride,
};

/// The operands of a product `C (M, N) = A (M, K) * B (N, K)`, K the fast axis of A and B and N
/// that of C; extents and leading dimensions in elements, those of A and B multiples of 16 bytes.
pub struct Problem<G: Config> {
    pub a: Global<<G::Operand as Operand>::Stored>,
    pub b: Global<<G::Operand as Operand>::Stored>,
    pub c: GlobalMut<G::Sum>,
    /// (M, N, K)
    pub shape: (u32, u32, u32),
    pub lda: i64,
    pub ldb: i64,
    pub ldc: i64,
}

/// How a product is tiled.
pub trait Config: Sized {
    /// The elements of A and B.
    type Operand: Operand;
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
    /// Fragments of sums to global memory.
    type CopyC: StaticTiledCopy<Element = Self::Sum>;
    /// The product.
    type Mma: StaticTiledMma;
}

/// What a block keeps in shared memory.
pub type Storage<G> = (
    <<G as Config>::Operand as Operand>::Array<<G as Config>::SmemA>,
    <<G as Config>::Operand as Operand>::Array<<G as Config>::SmemB>,
);

/// A tile of an operand in global memory: K is contiguous, rows start at multiples of 16 bytes.
type InGlobal<G> = Strided<<<G as Config>::Operand as Operand>::Pointer, Aligned<UnitStride<1>, 16>>;
/// An operand in shared memory.
type InShared<G> = <<G as Config>::Operand as Operand>::Shared;
/// A tile of C in global memory.
type TileOfC<G> =
    GlobalTensor<GlobalMut<<G as Config>::Sum>, UnitStride<1>, IdentityOf<<G as Config>::TileC>>;
/// A thread's sums of a tile of layout `L`, (MMA, MMA_M, MMA_N).
type SumsOf<G, L> = Fragment<<G as Config>::Sum, AccumulatorOf<L, <G as Config>::Mma>>;
type Sums<G> = SumsOf<G, <G as Config>::TileC>;
type AtomOf<G> = <<G as Config>::Mma as StaticTiledMma>::Atom;

/// One block's tile of C. For each tile along K, when it is in shared memory, `multiply` adds its
/// product to the sums that `sums` gave, which `store` takes at the end. `multiply` is made once,
/// of the tiles in shared memory.
///
/// # Safety
/// The matrices lie inside their buffers; the kernel declares `Storage<G>` and is launched with the
/// threads of `G::Mma`.
#[inline(always)]
unsafe fn over_tiles<G: Config, L: StaticLayout, M: FnMut(&mut SumsOf<G, L>)>(
    problem: Problem<G>,
    sums: impl FnOnce(TileOfC<G>) -> SumsOf<G, L>,
    multiply: impl FnOnce(Tensor<InShared<G>, G::SmemA>, Tensor<InShared<G>, G::SmemB>) -> M,
    store: impl FnOnce(&SumsOf<G, L>, TileOfC<G>),
) where
    InGlobal<G>: ReadBy<<G::Load as StaticTiledCopy>::Atom>,
    InShared<G>: WrittenBy<<G::Load as StaticTiledCopy>::Atom>,
{
    let (block, thread) = (block_idx(), thread_idx().x);
    let (m, n, k) = problem.shape;
    let (a, b) = (G::Operand::pointer(problem.a), G::Operand::pointer(problem.b));
    let m_a = Matrix::new(a, (m, k), Aligned::<_, 16>(UnitStride::<1>(problem.lda))); // (M, K)
    let m_b = Matrix::new(b, (n, k), Aligned::<_, 16>(UnitStride::<1>(problem.ldb))); // (N, K)
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

    let mut t_r_c = sums(g_c); // (MMA, MMA_M, MMA_N)
    let mut multiply = multiply(s_a, s_b);
    for k_tile in 0..g_a.tiles() {
        // SAFETY: tiles are read after the wait for them and a barrier, and overwritten after
        // another.
        unsafe {
            copy_tiled(G::Load::default(), &t_g_a.tile(k_tile), &mut t_s_a);
            copy_tiled(G::Load::default(), &t_g_b.tile(k_tile), &mut t_s_b);
            cp_async_commit();
            cp_async_wait::<0>();
        }
        sync_threads();
        multiply(&mut t_r_c);
        sync_threads();
    }
    store(&t_r_c, g_c);
}

/// One block's tile of C, with operands in fragments that tiled copies fill.
///
/// # Safety
/// The matrices lie inside their buffers; the kernel declares `Storage<G>` and is launched with the
/// threads of `G::Mma`.
#[inline(always)]
pub unsafe fn product<G: Config>(problem: Problem<G>)
where
    AtomOf<G>: MmaAtom<C = G::Sum> + AddsInPlace,
    G::Sum: Fma,
    InGlobal<G>: ReadBy<<G::Load as StaticTiledCopy>::Atom>,
    InShared<G>: WrittenBy<<G::Load as StaticTiledCopy>::Atom>
        + ReadBy<<G::CopyA as StaticTiledCopy>::Atom>
        + ReadBy<<G::CopyB as StaticTiledCopy>::Atom>,
    for<'a> RegistersMut<'a, G::Operand>:
        WrittenBy<<G::CopyA as StaticTiledCopy>::Atom> + WrittenBy<<G::CopyB as StaticTiledCopy>::Atom>,
{
    let thread = thread_idx().x;
    let mma = G::Mma::get_slice(thread);
    // SAFETY: the caller's contract; fragments are copied to before each product, and each element
    // of C belongs to one thread.
    unsafe {
        over_tiles::<G, _, _>(
            problem,
            |_| mma.accumulator::<G::TileC>(),
            |s_a, s_b| {
                let (mut t_r_a, mut t_r_b) = (mma.partition_fragment_a(&s_a), mma.partition_fragment_b(&s_b));
                let (copy_a, copy_b) = (G::CopyA::get_slice(thread), G::CopyB::get_slice(thread));
                let t_s_a = copy_a.partition_s(s_a); // (CPY, MMA_M, MMA_K)
                let t_s_b = copy_b.partition_s(s_b); // (CPY, MMA_N, MMA_K)
                move |t_r_c: &mut Sums<G>| {
                    copy_tiled(G::CopyA::default(), &t_s_a, &mut copy_a.retile_d(&mut t_r_a));
                    copy_tiled(G::CopyB::default(), &t_s_b, &mut copy_b.retile_d(&mut t_r_b));
                    gemm_tiled(G::Mma::default(), &t_r_a, &t_r_b, t_r_c);
                }
            },
            |t_r_c, g_c| copy(t_r_c, &mut mma.partition_c(g_c)),
        );
    }
}

/// [`product`] with operands that the MMA reads from shared memory directly.
///
/// # Safety
/// As [`product`].
#[inline(always)]
pub unsafe fn product_from_shared<G: Config>(problem: Problem<G>)
where
    AtomOf<G>: MmaAtom<C = G::Sum> + AddsInPlace,
    G::Sum: Fma,
    InGlobal<G>: ReadBy<<G::Load as StaticTiledCopy>::Atom>,
    InShared<G>: WrittenBy<<G::Load as StaticTiledCopy>::Atom>,
{
    let mma = G::Mma::get_slice(thread_idx().x);
    // SAFETY: as for `product`.
    unsafe {
        over_tiles::<G, _, _>(
            problem,
            |_| mma.accumulator::<G::TileC>(),
            |s_a, s_b| {
                let t_s_a = mma.partition_a(s_a); // (MMA, MMA_M, MMA_K)
                let t_s_b = mma.partition_b(s_b); // (MMA, MMA_N, MMA_K)
                move |t_r_c: &mut Sums<G>| gemm_tiled(G::Mma::default(), &t_s_a, &t_s_b, t_r_c)
            },
            |t_r_c, g_c| copy(t_r_c, &mut mma.partition_c(g_c)),
        );
    }
}

/// [`product`] with fragments that are made of the tiled MMA's partitions, filled by the widest
/// copies that these allow, and sums that a tiled copy takes as its source.
///
/// # Safety
/// As [`product`].
#[inline(always)]
pub unsafe fn product_of_partitions<G: Config>(problem: Problem<G>)
where
    AtomOf<G>: MmaAtom<C = G::Sum> + AddsInPlace,
    G::Sum: Fma,
    InGlobal<G>: ReadBy<<G::Load as StaticTiledCopy>::Atom>,
    InShared<G>: WrittenBy<<G::Load as StaticTiledCopy>::Atom>,
    for<'a> RegistersRef<'a, G::Sum>: ReadBy<<G::CopyC as StaticTiledCopy>::Atom>,
    Strided<GlobalMut<G::Sum>, UnitStride<1>>: WrittenBy<<G::CopyC as StaticTiledCopy>::Atom>,
{
    let thread = thread_idx().x;
    let mma = G::Mma::get_slice(thread);
    // SAFETY: as for `product`.
    unsafe {
        over_tiles::<G, _, _>(
            problem,
            |g_c| {
                let mut t_r_c = mma.make_fragment_c(&mma.partition_c(g_c)); // (MMA, MMA_M, MMA_N)
                clear(&mut t_r_c);
                t_r_c
            },
            |s_a, s_b| {
                let t_s_a = mma.partition_a(s_a); // (MMA, MMA_M, MMA_K)
                let t_s_b = mma.partition_b(s_b); // (MMA, MMA_N, MMA_K)
                let (mut t_r_a, mut t_r_b) = (mma.make_fragment_a(&t_s_a), mma.make_fragment_b(&t_s_b));
                move |t_r_c: &mut SumsOf<G, IdentityOf<G::TileC>>| {
                    copy(&t_s_a, &mut t_r_a);
                    copy(&t_s_b, &mut t_r_b);
                    gemm_tiled(G::Mma::default(), &t_r_a, &t_r_b, t_r_c);
                }
            },
            |t_r_c, g_c| {
                let copy_c = G::CopyC::get_slice(thread);
                let mut t_g_c = copy_c.partition_d(g_c); // (CPY, CPY_M, CPY_N)
                copy_tiled(G::CopyC::default(), &copy_c.retile_s(t_r_c), &mut t_g_c);
            },
        );
    }
}
