//! Products of elements smaller than a byte: bytes from global to shared memory, elements from there on.

use crate::product::Problem;
use moye_device::algorithm::{CopyDestination, CopySource, copy, copy_tiled, gemm_tiled};
use moye_device::arch::{block_idx, cp_async_commit, cp_async_wait, sync_threads, thread_idx};
use moye_device::atom::copy::{
    CopyAtom, SM75_U32x2_LDSM_N, SM75_U32x4_LDSM_N, SM80_CP_ASYNC_CACHEALWAYS_ZFILL,
    SM80_CP_ASYNC_CACHEGLOBAL_ZFILL,
};
use moye_device::atom::mma::{MmaAtom, SM80_16x8x64_S32S4S4S32_TN, SM80_16x8x256_S32U1U1S32_TN_XORPOPC};
use moye_device::atom::{
    StaticTiledCopy, StaticTiledMma, TiledCopy, TiledMma, make_tiled_copy_a, make_tiled_copy_b,
};
use moye_device::layout::layout;
use moye_device::memory::{Global, GlobalMut, Shared, SharedPacked, SharedStorage, Storable};
use moye_device::number::{B1, S4, Scalar};
use moye_device::tensor::{
    Aligned, All, Matrix, PackedArray, RegistersMut, StaticLayout, Strided, UnitStride,
};
use moye_device::{kernel, static_layout, tiled_copy, tiled_mma};

/// How a product of small elements is tiled.
pub trait PackedConfig: Sized {
    /// The elements of A and B.
    type Operand: Scalar + Storable;
    /// A block's tile of A in bytes, (BLK_M, BLK_K / elements of a byte).
    type BytesA: StaticLayout;
    /// A block's tile of B in bytes.
    type BytesB: StaticLayout;
    /// A block's tile of C, (BLK_M, BLK_N).
    type TileC: StaticLayout;
    /// A's tile in shared memory, (BLK_M, BLK_K).
    type SmemA: StaticLayout;
    /// B's tile in shared memory, (BLK_N, BLK_K).
    type SmemB: StaticLayout;
    /// Global to shared memory, in bytes.
    type Load: StaticTiledCopy<Element = u8>;
    /// Shared memory to fragments of A.
    type CopyA: StaticTiledCopy<Element = Self::Operand>;
    /// Shared memory to fragments of B.
    type CopyB: StaticTiledCopy<Element = Self::Operand>;
    /// The product.
    type Mma: StaticTiledMma;
}

/// What a block keeps in shared memory.
pub type Storage<G> = (
    PackedArray<<G as PackedConfig>::Operand, <G as PackedConfig>::SmemA>,
    PackedArray<<G as PackedConfig>::Operand, <G as PackedConfig>::SmemB>,
);

type Bytes = Strided<Global<u8>, Aligned<UnitStride<1>, 16>>;
type SourceOf<C> = <<C as StaticTiledCopy>::Atom as CopyAtom>::Source;
type DestinationOf<C> = <<C as StaticTiledCopy>::Atom as CopyAtom>::Destination;

/// One block's tile of C. K, and the leading dimensions of A and B, are in bytes.
///
/// # Safety
/// As for the products of whole bytes: the matrices lie inside their buffers, and the kernel declares `Storage<G>` and is launched
/// with the threads of `G::Mma`.
#[inline(always)]
pub unsafe fn product_packed<G: PackedConfig>(problem: Problem<u8, i32>)
where
    <G::Mma as StaticTiledMma>::Atom:
        MmaAtom<C = i32, RegistersD = <<G::Mma as StaticTiledMma>::Atom as MmaAtom>::RegistersC>,
    Bytes: CopySource<SourceOf<G::Load>>,
    Shared<u8>: CopyDestination<DestinationOf<G::Load>>,
    SharedPacked<G::Operand>: CopySource<SourceOf<G::CopyA>> + CopySource<SourceOf<G::CopyB>>,
    for<'a> RegistersMut<'a, G::Operand>:
        CopyDestination<DestinationOf<G::CopyA>> + CopyDestination<DestinationOf<G::CopyB>>,
{
    let (block, thread) = (block_idx(), thread_idx().x);
    let (m, n, k) = problem.shape;
    let m_a = Matrix::new(problem.a, (m, k), Aligned::<_, 16>(UnitStride::<1>(problem.lda))); // (M, bytes)
    let m_b = Matrix::new(problem.b, (n, k), Aligned::<_, 16>(UnitStride::<1>(problem.ldb))); // (N, bytes)
    let m_c = Matrix::new(problem.c, (m, n), UnitStride::<1>(problem.ldc)); // (M, N)
    let g_a = m_a.local_tile::<G::BytesA, _>((block.x, All)); // (BLK_M, bytes, k)
    let g_b = m_b.local_tile::<G::BytesB, _>((block.y, All)); // (BLK_N, bytes, k)
    let g_c = m_c.local_tile::<G::TileC, _>((block.x, block.y)); // (BLK_M, BLK_N)
    // SAFETY: the caller's contract.
    let (s_a, s_b) = unsafe { Storage::<G>::take() }; // (BLK_M, BLK_K), (BLK_N, BLK_K)

    let load = G::Load::get_slice(thread);
    let t_g_a = load.partition_s(g_a); // (CPY, CPY_M, CPY_K, k)
    let t_g_b = load.partition_s(g_b); // (CPY, CPY_N, CPY_K, k)
    let mut t_s_a = load.partition_d(s_a.bytes()); // (CPY, CPY_M, CPY_K)
    let mut t_s_b = load.partition_d(s_b.bytes()); // (CPY, CPY_N, CPY_K)

    let mma = G::Mma::get_slice(thread);
    // SAFETY: both are copied to before each product.
    let (mut t_r_a, mut t_r_b) = unsafe { (mma.partition_fragment_a(&s_a), mma.partition_fragment_b(&s_b)) };
    let (copy_a, copy_b) = (G::CopyA::get_slice(thread), G::CopyB::get_slice(thread));
    let t_s_r_a = copy_a.partition_s(s_a); // (CPY, MMA_M, MMA_K)
    let t_s_r_b = copy_b.partition_s(s_b); // (CPY, MMA_N, MMA_K)
    let mut t_r_c = mma.accumulator::<G::TileC>(); // (MMA, MMA_M, MMA_N)

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

macro_rules! packed {
    ($(
        $(#[$doc:meta])*
        $name:ident $config:ident: $operand:ty, $atom:ty, bytes ($bytes_a:ident $bytes_b:ident) $bytes:literal,
        smem ($smem_a:ident $smem_b:ident) $smem:expr, $mma:ident $tile_c:ident $load:ident $copy_a:ident $copy_b:ident,
        $load_atom:ty = $load_copy:expr;
    )+) => { $(
        static_layout! {
            pub $bytes_a = layout!((64, $bytes));
            pub $bytes_b = layout!((64, $bytes));
            pub $tile_c = layout!((64, 64));
            pub $smem_a = $smem;
            pub $smem_b = $smem;
        }
        tiled_mma! {
            pub $mma: TiledMma<$atom> = TiledMma::new(layout!((2, 2, 1)));
        }
        tiled_copy! {
            pub $load: TiledCopy<$load_atom, u8> = $load_copy;
            pub $copy_a: TiledCopy<SM75_U32x4_LDSM_N, $operand> = make_tiled_copy_a(&$mma::MMA);
            pub $copy_b: TiledCopy<SM75_U32x2_LDSM_N, $operand> = make_tiled_copy_b(&$mma::MMA);
        }

        /// The configuration.
        pub struct $config;

        impl PackedConfig for $config {
            type Operand = $operand;
            type BytesA = $bytes_a;
            type BytesB = $bytes_b;
            type TileC = $tile_c;
            type SmemA = $smem_a;
            type SmemB = $smem_b;
            type Load = $load;
            type CopyA = $copy_a;
            type CopyB = $copy_b;
            type Mma = $mma;
        }

        $(#[$doc])*
        #[kernel(threads = 128, shared = Storage<$config>)]
        pub unsafe fn $name(
            a: Global<u8>,
            b: Global<u8>,
            c: GlobalMut<i32>,
            m: u32,
            n: u32,
            k: u32,
            lda: i64,
            ldb: i64,
            ldc: i64,
        ) {
            let problem = Problem { a, b, c, shape: (m, n, k), lda, ldb, ldc };
            // SAFETY: the caller's contract.
            unsafe { product_packed::<$config>(problem) }
        }
    )+ };
}
packed! {
    /// s4, 64 x 64 x 64.
    s4_packed S4Packed: S4, SM80_16x8x64_S32S4S4S32_TN, bytes (S4BytesA S4BytesB) 32,
    smem (S4SmemA S4SmemB) layout!((64, 64):(96, 1)), S4Mma S4TileC S4Load S4CopyA S4CopyB,
    SM80_CP_ASYNC_CACHEGLOBAL_ZFILL<u128> = TiledCopy::new(layout!((64, 2):(2, 1)), layout!((1, 16)));

    /// b1, 64 x 64 x 256: sums of bits that differ.
    b1_packed B1Packed: B1, SM80_16x8x256_S32U1U1S32_TN_XORPOPC, bytes (B1BytesA B1BytesB) 32,
    smem (B1SmemA B1SmemB) layout!((64, 256):(384, 1)), B1Mma B1TileC B1Load B1CopyA B1CopyB,
    SM80_CP_ASYNC_CACHEALWAYS_ZFILL<u64> = TiledCopy::new(layout!((32, 4):(4, 1)), layout!((1, 8)));
}
