//! f32 by fused multiply-adds on the ordinary cores: exact products, each sum rounded once a step.
//!
//! The same pipeline as on tensor cores, with [`UniversalFma`] as the atom: 256 threads, 16 x 16, each with 8 x 8 sums in four
//! runs of 4 x 4, so that operands come from shared memory 16 bytes at a time. C has M contiguous.

use super::config::{ArgumentsOf, MmaConfig, Storage};
use super::pipeline::matmul;
use crate::atom::copy::{SM80_CP_ASYNC_CACHEALWAYS_ZFILL, SM80_CP_ASYNC_CACHEGLOBAL_ZFILL, UniversalCopy};
use crate::atom::mma::UniversalFma;
use crate::atom::{Permutation, StaticTiledMma, TiledCopy, TiledMma, make_tiled_copy_a, make_tiled_copy_b};
use crate::layout::layout;
use crate::tensor::{Aligned, UnitStride};
use crate::{kernel, static_layout, tiled_copy, tiled_mma};

/// Threads of a block.
const THREADS: u32 = 256;

static_layout! {
    /// (BLK_M, BLK_K) and (BLK_N, BLK_K).
    pub TileAb = layout!((128, 8));
    /// (BLK_M, BLK_N)
    pub TileC = layout!((128, 128));
    /// M (or N) contiguous, (BLK, BLK_K, PIPE): copied by rows of 16 bytes.
    pub SmemAlongM = layout!((128, 8, 4):(1, 128, 1024));
    /// As above, written 4 bytes at a time by threads that are neighbours along K: columns 4 banks apart keep the eight of
    /// them and four neighbours along M in different banks.
    pub SmemAlongK = layout!((128, 8, 4):(1, 132, 1056));
}
tiled_mma! {
    /// 16 x 16 threads, each with four neighbours along M and N in both halves of the tile.
    pub Mma: TiledMma<UniversalFma<f32>> = TiledMma::permuted(
        layout!((16, 16, 1)),
        [
            Permutation::Layout(layout!((16, 4, 2):(4, 1, 64))),
            Permutation::Layout(layout!((16, 4, 2):(4, 1, 64))),
            Permutation::Tile(1),
        ],
    );
}
tiled_copy! {
    /// 32 threads a column, 16 bytes each.
    pub LoadAlongM: TiledCopy<SM80_CP_ASYNC_CACHEGLOBAL_ZFILL<u128>, f32> = TiledCopy::new(layout!((32, 8)), layout!((4, 1)));
    /// 8 threads a row, 4 bytes each.
    pub LoadAlongK: TiledCopy<SM80_CP_ASYNC_CACHEALWAYS_ZFILL<u32>, f32> = TiledCopy::new(layout!((32, 8):(8, 1)), layout!((1, 1)));
    /// Four neighbours along M.
    pub CopyA: TiledCopy<UniversalCopy<u128>, f32> = make_tiled_copy_a(&Mma::MMA);
    /// Four neighbours along N.
    pub CopyB: TiledCopy<UniversalCopy<u128>, f32> = make_tiled_copy_b(&Mma::MMA);
}

macro_rules! sgemm {
    ($($name:ident $config:ident: $strides_a:ty, $smem_a:ty, $load_a:ty; $strides_b:ty, $smem_b:ty, $load_b:ty, $doc:literal;)+) => { $(
        /// The configuration.
        pub struct $config;

        impl MmaConfig for $config {
            type Operand = f32;
            type Sum = f32;
            type Scalar = f32;
            type Output = f32;
            type StridesA = Aligned<$strides_a, 16>;
            type StridesB = Aligned<$strides_b, 16>;
            type TileA = TileAb;
            type TileB = TileAb;
            type TileC = TileC;
            type SmemA = $smem_a;
            type SmemB = $smem_b;
            type LoadA = $load_a;
            type LoadB = $load_b;
            type CopyA = CopyA;
            type CopyB = CopyB;
            type Mma = Mma;
            type Epilogue = super::Direct;

            #[inline(always)]
            fn strides_a(leading: i64) -> Self::StridesA {
                Aligned(UnitStride(leading))
            }
            #[inline(always)]
            fn strides_b(leading: i64) -> Self::StridesB {
                Aligned(UnitStride(leading))
            }
        }

        #[doc = concat!("`c = alpha * a * b` in f32 with ", $doc, ", and M contiguous in `c`: `ldc` is between its columns.")]
        ///
        /// Along x a block of 256 threads for each tile of 128 x 128, along y one for each split of each batch.
        ///
        /// # Safety
        /// As for the kernels on tensor cores; the columns of `c` start at multiples of 16 bytes too. `beta`, the bias and the
        /// activation are not looked at.
        #[kernel(threads = THREADS, min_blocks = 2, shared = Storage<$config>)]
        pub unsafe fn $name(arguments: ArgumentsOf<$config>) {
            // SAFETY: the caller's contract.
            unsafe { matmul::<$config>(arguments) }
        }
    )+ };
}
sgemm! {
    sgemm_nt Nt: UnitStride<0>, SmemAlongM, LoadAlongM; UnitStride<0>, SmemAlongM, LoadAlongM, "M contiguous in `a` and N in `b`";
    sgemm_nn Nn: UnitStride<0>, SmemAlongM, LoadAlongM; UnitStride<1>, SmemAlongK, LoadAlongK, "M contiguous in `a` and K in `b`";
    sgemm_tt Tt: UnitStride<1>, SmemAlongK, LoadAlongK; UnitStride<0>, SmemAlongM, LoadAlongM, "K contiguous in `a` and N in `b`";
    sgemm_tn Tn: UnitStride<1>, SmemAlongK, LoadAlongK; UnitStride<1>, SmemAlongK, LoadAlongK, "K contiguous in both";
}
