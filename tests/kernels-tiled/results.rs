//! Products whose results go elsewhere than what they are added to, or are made up of it: one
//! block's tile of 32 x 16 x 12, all matrices down their columns.

use half::f16;
use moye_device::algorithm::{clear, copy, gemm_tiled, gemm_tiled_into, transform};
use moye_device::arch::thread_idx;
use moye_device::atom::mma::{
    MmaAtom, SM70_8x8x4_F32F16F16F16_NN, SM70_8x8x4_F32F16F16F16_NT, SM70_8x8x4_F32F16F16F16_TN,
    SM70_8x8x4_F32F16F16F16_TT, SM80_8x8x4_GC64C64C64GC64_TN,
};
use moye_device::atom::{StaticTiledMma, TiledMma};
use moye_device::memory::{Element, Global, GlobalMut, GlobalPointer};
use moye_device::number::Complex64;
use moye_device::tensor::{GlobalTensor, IdentityOf, Matrix, StaticLayout, UnitStride, WholeTiles};
use moye_device::{kernel, layout, static_layout, tiled_mma};

/// Rows of A and C.
pub const M: i64 = 32;
/// Rows of B, columns of C.
pub const N: i64 = 16;
/// Columns of A and B: three steps of the atoms.
pub const K: i64 = 12;

static_layout! {
    /// (BLK_M, BLK_K)
    pub TileA = layout!((M, K));
    /// (BLK_N, BLK_K)
    pub TileB = layout!((N, K));
    /// (BLK_M, BLK_N)
    pub TileC = layout!((M, N));
}

/// A matrix that is one tile, columns contiguous.
#[inline(always)]
fn tile<L: StaticLayout, P: GlobalPointer>(
    pointer: P,
) -> GlobalTensor<P, WholeTiles<UnitStride<0>>, IdentityOf<L>> {
    let (rows, columns) = (L::LAYOUT.extent(0), L::LAYOUT.extent(1));
    let strides = WholeTiles(UnitStride(rows));
    Matrix::new(pointer, (rows as u32, columns as u32), strides).local_tile::<L, _>((0, 0))
}

/// `D = A B + C` by an atom whose results have another type than what it adds to.
///
/// # Safety
/// The buffers hold the tiles; the kernel has the threads of `T`.
#[inline(always)]
unsafe fn into<T>(
    a: Global<f16>,
    b: Global<f16>,
    c: Global<<T::Atom as MmaAtom>::C>,
    d: GlobalMut<<T::Atom as MmaAtom>::D>,
) where
    T: StaticTiledMma<Atom: MmaAtom<C: Element, D: Element>>,
{
    let mma = T::get_slice(thread_idx().x);
    let (g_c, g_d) = (tile::<TileC, _>(c), tile::<TileC, _>(d)); // (BLK_M, BLK_N)
    let t_g_a = mma.partition_a(tile::<TileA, _>(a)); // (MMA, MMA_M, MMA_K)
    let t_g_b = mma.partition_b(tile::<TileB, _>(b)); // (MMA, MMA_N, MMA_K)
    // SAFETY: the caller's contract; fragments are read after they were written, each element of D
    // belongs to one thread.
    unsafe {
        let mut t_r_c = mma.partition_fragment_c(&g_c); // (MMA, MMA_M, MMA_N)
        let mut t_r_d = mma.partition_fragment_d(&g_d); // (MMA, MMA_M, MMA_N)
        copy(&mma.partition_c(g_c), &mut t_r_c);
        gemm_tiled_into(T::default(), &mut t_r_d, &t_g_a, &t_g_b, &t_r_c);
        copy(&t_r_d, &mut mma.partition_d(g_d));
    }
}

macro_rules! mixed {
    ($($name:ident $mma:ident $atom:ident;)+) => { $(
        tiled_mma! {
            /// A warp's four quad pairs, two by two.
            pub $mma: TiledMma<$atom> = TiledMma::new(layout!((2, 2, 1)));
        }

        #[kernel(threads = 32)]
        pub unsafe fn $name(a: Global<f16>, b: Global<f16>, c: Global<f16>, d: GlobalMut<f32>) {
            // SAFETY: the caller's contract.
            unsafe { into::<$mma>(a, b, c, d) }
        }
    )+ };
}
mixed! {
    mixed_tn MixedTn SM70_8x8x4_F32F16F16F16_TN;
    mixed_nt MixedNt SM70_8x8x4_F32F16F16F16_NT;
    mixed_nn MixedNn SM70_8x8x4_F32F16F16F16_NN;
    mixed_tt MixedTt SM70_8x8x4_F32F16F16F16_TT;
}

tiled_mma! {
    /// Complex numbers by three products.
    pub Gauss: TiledMma<SM80_8x8x4_GC64C64C64GC64_TN> = TiledMma::new(layout!((2, 2, 1)));
}

/// `D = A B` by sums that make up a complex number in the end.
#[kernel(threads = 128)]
pub unsafe fn gauss(a: Global<Complex64>, b: Global<Complex64>, d: GlobalMut<Complex64>) {
    let mma = Gauss::get_slice(thread_idx().x);
    let g_d = tile::<TileC, _>(d); // (BLK_M, BLK_N)
    let t_g_a = mma.partition_a(tile::<TileA, _>(a)); // (MMA, MMA_M, MMA_K)
    let t_g_b = mma.partition_b(tile::<TileB, _>(b)); // (MMA, MMA_N, MMA_K)
    // SAFETY: as in `into`.
    unsafe {
        let mut sums = mma.partition_fragment_c(&g_d); // (MMA, MMA_M, MMA_N)
        clear(&mut sums);
        gemm_tiled(Gauss, &t_g_a, &t_g_b, &mut sums);
        transform(&sums, &mut mma.partition_c(g_d), Complex64::from);
    }
}
