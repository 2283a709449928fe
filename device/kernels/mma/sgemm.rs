//! f32 by fused multiply-adds on the ordinary cores: exact products, each sum rounded once a step.
//!
//! The same pipeline as on tensor cores, with [`UniversalFma`] as the atom: 256 threads, 16 x 16, so that operands come from
//! shared memory 16 bytes at a time. In a tile of 128 x 128 each thread has 8 x 8 sums in four runs of 4 x 4: a step along K
//! costs it 4 reads for 64 products. In a tile of 256 x 128 it has 16 x 8: 6 reads for 128. C has M contiguous.

use super::config::{ArgumentsOf, MmaConfig, Storage};
use super::pipeline::matmul;
use crate::atom::copy::{SM80_CP_ASYNC_CACHEALWAYS_ZFILL, SM80_CP_ASYNC_CACHEGLOBAL_ZFILL, UniversalCopy};
use crate::atom::mma::UniversalFma;
use crate::atom::{Permutation, StaticTiledMma, TiledCopy, TiledMma, make_tiled_copy_a, make_tiled_copy_b};
use crate::layout::{Layout, layout};
use crate::tensor::{Aligned, UnitStride};
use crate::{kernel, static_layout, tiled_copy, tiled_mma};

/// Threads of a block.
const THREADS: u32 = 256;

/// A tile of 128 x 128 x 16 in three stages.
pub mod square {
    use super::*;

    static_layout! {
        /// (BLK_M, BLK_K)
        pub TileA = layout!((128, 16));
        /// (BLK_N, BLK_K)
        pub TileB = layout!((128, 16));
        /// (BLK_M, BLK_N)
        pub TileC = layout!((128, 128));
        /// M (or N) contiguous, (BLK, BLK_K, PIPE): copied by rows of 16 bytes.
        pub SmemAlongM = layout!((128, 16, 3));
        /// As above, written 4 bytes at a time by threads that are neighbours along K: columns 4 banks apart keep the eight
        /// of them and four neighbours along M in different banks.
        pub SmemAlongK = layout!((128, 16, 3):(1, 132, 2112));
    }
    tiled_mma! {
        /// 16 x 16 threads, each with four neighbours along M and N in both halves of the tile.
        pub Mma: TiledMma<UniversalFma<f32>> = TiledMma::permuted(
            layout!((16, 16, 1)),
            [Permutation::Layout(FOURS_OF_128), Permutation::Layout(FOURS_OF_128), Permutation::Tile(1)],
        );
    }
    tiled_copy! {
        /// Four neighbours along M.
        pub CopyA: TiledCopy<UniversalCopy<u128>, f32> = make_tiled_copy_a(&Mma::MMA);
        /// Four neighbours along N.
        pub CopyB: TiledCopy<UniversalCopy<u128>, f32> = make_tiled_copy_b(&Mma::MMA);
    }
}

/// A tile of 256 x 128 x 8 in five stages.
pub mod large {
    use super::*;

    static_layout! {
        /// (BLK_M, BLK_K)
        pub TileA = layout!((256, 8));
        /// (BLK_N, BLK_K)
        pub TileB = layout!((128, 8));
        /// (BLK_M, BLK_N)
        pub TileC = layout!((256, 128));
        /// M contiguous, (BLK_M, BLK_K, PIPE).
        pub SmemA = layout!((256, 8, 5));
        /// N contiguous, (BLK_N, BLK_K, PIPE).
        pub SmemB = layout!((128, 8, 5));
    }
    tiled_mma! {
        /// 16 x 16 threads, each with four neighbours along M in the quarters of the tile, and along N in its halves.
        pub Mma: TiledMma<UniversalFma<f32>> = TiledMma::permuted(
            layout!((16, 16, 1)),
            [Permutation::Layout(FOURS_OF_256), Permutation::Layout(FOURS_OF_128), Permutation::Tile(1)],
        );
    }
    tiled_copy! {
        /// Four neighbours along M.
        pub CopyA: TiledCopy<UniversalCopy<u128>, f32> = make_tiled_copy_a(&Mma::MMA);
        /// Four neighbours along N.
        pub CopyB: TiledCopy<UniversalCopy<u128>, f32> = make_tiled_copy_b(&Mma::MMA);
    }
}

/// 16 threads with four neighbours each, twice.
const FOURS_OF_128: Layout = layout!((16, 4, 2):(4, 1, 64));
/// As above, four times.
const FOURS_OF_256: Layout = layout!((16, 4, 4):(4, 1, 64));

tiled_copy! {
    /// 32 threads a column, 16 bytes each.
    pub LoadAlongM: TiledCopy<SM80_CP_ASYNC_CACHEGLOBAL_ZFILL<u128>, f32> = TiledCopy::new(layout!((32, 8)), layout!((4, 1)));
    /// 8 threads a row, 4 bytes each.
    pub LoadAlongK: TiledCopy<SM80_CP_ASYNC_CACHEALWAYS_ZFILL<u32>, f32> = TiledCopy::new(layout!((32, 8):(8, 1)), layout!((1, 1)));
}

macro_rules! sgemm {
    ($($name:ident $config:ident: $tile:ident, blocks = $blocks:literal, $strides_a:ty, $smem_a:ty, $load_a:ty; $strides_b:ty, $smem_b:ty, $load_b:ty, $doc:literal;)+) => { $(
        /// The configuration.
        pub struct $config;

        impl MmaConfig for $config {
            type Operand = f32;
            type Sum = f32;
            type Scalar = f32;
            type Output = f32;
            type StridesA = Aligned<$strides_a, 16>;
            type StridesB = Aligned<$strides_b, 16>;
            type TileA = $tile::TileA;
            type TileB = $tile::TileB;
            type TileC = $tile::TileC;
            type SmemA = $smem_a;
            type SmemB = $smem_b;
            type LoadA = $load_a;
            type LoadB = $load_b;
            type CopyA = $tile::CopyA;
            type CopyB = $tile::CopyB;
            type Mma = $tile::Mma;
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
        /// Along x a block of 256 threads for each tile of `c`, along y one for each split of each batch.
        ///
        /// # Safety
        /// As for the kernels on tensor cores; the columns of `c` start at multiples of 16 bytes too. `beta`, the bias and the
        /// activation are not looked at.
        #[kernel(threads = THREADS, min_blocks = $blocks, shared = Storage<$config>)]
        pub unsafe fn $name(arguments: ArgumentsOf<$config>) {
            // SAFETY: the caller's contract.
            unsafe { matmul::<$config>(arguments) }
        }
    )+ };
}
sgemm! {
    sgemm_nt Nt: large, blocks = 1, UnitStride<0>, large::SmemA, LoadAlongM; UnitStride<0>, large::SmemB, LoadAlongM,
        "M contiguous in `a` and N in `b`, by tiles of 256 x 128";
    sgemm_nt_128x128 NtSquare: square, blocks = 2, UnitStride<0>, square::SmemAlongM, LoadAlongM; UnitStride<0>, square::SmemAlongM, LoadAlongM,
        "M contiguous in `a` and N in `b`, by tiles of 128 x 128";
    sgemm_nn_128x128 NnSquare: square, blocks = 2, UnitStride<0>, square::SmemAlongM, LoadAlongM; UnitStride<1>, square::SmemAlongK, LoadAlongK,
        "M contiguous in `a` and K in `b`, by tiles of 128 x 128";
    sgemm_tt_128x128 TtSquare: square, blocks = 2, UnitStride<1>, square::SmemAlongK, LoadAlongK; UnitStride<0>, square::SmemAlongM, LoadAlongM,
        "K contiguous in `a` and N in `b`, by tiles of 128 x 128";
    sgemm_tn_128x128 TnSquare: square, blocks = 2, UnitStride<1>, square::SmemAlongK, LoadAlongK; UnitStride<1>, square::SmemAlongK, LoadAlongK,
        "K contiguous in both, by tiles of 128 x 128";
}
