//! f32 by fused multiply-adds on the CUDA cores: exact products, one rounding for each step.
//!
//! The same mainloop as on tensor cores, with the atom [`UniversalFma`]: 256 threads, 16 x 16, so
//! that operands are read from shared memory 16 bytes at a time. In a tile of 128 x 128 each thread
//! has 8 x 8 accumulators in four runs of 4 x 4: a step along K takes 4 loads for 64 products. In a
//! tile of 256 x 128 it has 16 x 8, in a tile of 128 x 256 8 x 16: 6 loads for 128 products. C is
//! M-contiguous.

use super::by_parts::ByParts;
use super::config::{ArgumentsOf, MmaConfig, Storage, Tiled};
use super::matmul::matmul;
use super::sink::Direct;
use moye_device::atom::copy::{
    SM80_CP_ASYNC_CACHEALWAYS_ZFILL, SM80_CP_ASYNC_CACHEGLOBAL_ZFILL, UniversalCopy,
};
use moye_device::atom::mma::UniversalFma;
use moye_device::atom::{
    Permutation, StaticTiledMma, TiledCopy, TiledMma, make_tiled_copy_a, make_tiled_copy_b,
};
use moye_device::collective::TransposedLoad;
use moye_device::layout::{Layout, layout};
use moye_device::tensor::{Aligned, UnitStride};
use moye_device::{kernel, static_layout, tiled_copy, tiled_mma};

/// Threads of a block.
const THREADS: u32 = 256;

/// A tile of 128 x 128 x 16 in three stages.
pub mod square {
    use super::*;

    static_layout! {
        /// M (or N) contiguous, (BLK, BLK_K, PIPE): copied in rows of 16 bytes.
        pub SmemAlongM = layout!((128, 16, 3));
        /// The same, written 4 bytes at a time by threads that are contiguous along K: columns are
        /// 4 banks apart, so that eight threads along K by four along M write different banks.
        pub SmemAlongK = layout!((128, 16, 3):(1, 132, 2112));
    }
    tiled_mma! {
        /// 16 x 16 threads, each with four adjacent elements along M and N in both halves of the
        /// tile.
        pub Mma: TiledMma<UniversalFma<f32>> = TiledMma::permuted(
            layout!((16, 16, 1)),
            [Permutation::Layout(FOURS_OF_128), Permutation::Layout(FOURS_OF_128), Permutation::Tile(1)],
        );
    }
}

/// A tile of 256 x 128 x 16 in three stages.
pub mod large {
    use super::*;

    static_layout! {
        /// M contiguous, (BLK_M, BLK_K, PIPE).
        pub SmemA = layout!((256, 16, 3));
        /// N contiguous, (BLK_N, BLK_K, PIPE).
        pub SmemB = layout!((128, 16, 3));
    }
    tiled_mma! {
        /// 16 x 16 threads, each with four adjacent elements along M in the quarters of the tile,
        /// and along N in its halves.
        pub Mma: TiledMma<UniversalFma<f32>> = TiledMma::permuted(
            layout!((16, 16, 1)),
            [Permutation::Layout(FOURS_OF_256), Permutation::Layout(FOURS_OF_128), Permutation::Tile(1)],
        );
    }
}

/// A tile of 128 x 256 x 16 in three stages, for an A that is transposed: it is the smaller
/// operand.
pub mod wide {
    use super::*;

    static_layout! {
        /// N contiguous, (BLK_N, BLK_K, PIPE).
        pub SmemB = layout!((256, 16, 3));
    }
    tiled_mma! {
        /// 16 x 16 threads, 8 x 4 in a warp, each with four adjacent elements along M in the halves
        /// of the tile, and along N in its quarters.
        pub Mma: TiledMma<UniversalFma<f32>> = TiledMma::permuted(
            layout!(((8, 2), (4, 4), 1):((1, 32), (8, 64), 0)),
            [Permutation::Layout(FOURS_OF_128), Permutation::Layout(FOURS_OF_256), Permutation::Tile(1)],
        );
    }
}

/// 16 threads with four adjacent elements each, twice.
const FOURS_OF_128: Layout = layout!((16, 4, 2):(4, 1, 64));
/// The same, four times.
const FOURS_OF_256: Layout = layout!((16, 4, 4):(4, 1, 64));

tiled_copy! {
    /// Four adjacent elements along M.
    pub ReadA<M: StaticTiledMma>: TiledCopy<UniversalCopy<u128>, f32> = make_tiled_copy_a(&M::MMA);
    /// Four adjacent elements along N.
    pub ReadB<M: StaticTiledMma>: TiledCopy<UniversalCopy<u128>, f32> = make_tiled_copy_b(&M::MMA);
    /// 32 threads for each column, 16 bytes each.
    pub AlongM: TiledCopy<SM80_CP_ASYNC_CACHEGLOBAL_ZFILL<u128>, f32> = TiledCopy::new(layout!((32, 8)), layout!((4, 1)));
    /// 8 threads for each row, 4 bytes each.
    pub AlongK: TiledCopy<SM80_CP_ASYNC_CACHEALWAYS_ZFILL<u32>, f32> = TiledCopy::new(layout!((32, 8):(8, 1)), layout!((1, 1)));
}

/// The threads that transpose a tile of 128 x 16, over groups of four rows and pairs along K. A
/// warp loads all 64 bytes of 16 rows, because L1 takes one cycle for each row of an access.
const TRANSPOSING: Layout = layout!(((4, 8), 8):((1, 32), 4));
tiled_copy! {
    /// Pairs along K of four rows.
    pub PairsAlongK: TiledCopy<UniversalCopy<u64>, f32> = TiledCopy::new(TRANSPOSING, layout!((4, 2):(2, 1)));
    /// The same values, as four adjacent elements along M of two columns.
    pub FoursAlongM: TiledCopy<UniversalCopy<u128>, f32> = TiledCopy::new(TRANSPOSING, layout!((4, 2)));
}
static_layout! {
    /// A transposed tile, (BLK, BLK_K, PIPE): eight lanes write 64 bytes of each of two columns
    /// that are two apart, and so 16 banks.
    pub SmemTransposed = layout!((128, 16, 3):(1, 136, 2176));
}

/// M (or N) contiguous, columns that start at multiples of 16 bytes.
type Words = Aligned<UnitStride<0>, 16>;
/// K contiguous, rows that start at multiples of 8 bytes.
type Pairs = Aligned<UnitStride<1>, 8>;
/// K contiguous, rows that start anywhere.
type Numbers = Aligned<UnitStride<1>, 4>;

/// Along K, transposed. The time at which it is stored changes the run time by 5 %, because `ptxas`
/// schedules the loop differently (record 7).
type Transposed<const EIGHTHS: u32> = TransposedLoad<PairsAlongK, FoursAlongM, EIGHTHS>;

macro_rules! sgemm {
    ($($name:ident $config:ident: $tile:ident, blocks = $blocks:literal, $sink:ty, $strides_a:ty, $smem_a:ty, $load_a:ty; $strides_b:ty, $smem_b:ty, $load_b:ty, $doc:literal;)+) => { $(
        /// The configuration.
        pub struct $config;

        impl Tiled for $config {
            type Operand = f32;
            type Sum = f32;
            type Scalar = f32;
            type Output = f32;
            type SmemA = $smem_a;
            type SmemB = $smem_b;
            type ReadA = ReadA<$tile::Mma>;
            type ReadB = ReadB<$tile::Mma>;
            type Mma = $tile::Mma;
        }

        impl MmaConfig for $config {
            type StridesA = $strides_a;
            type StridesB = $strides_b;
            type LoadA = $load_a;
            type LoadB = $load_b;
            type Sink = $sink;
        }

        #[cfg(feature = "f32")]
        #[doc = concat!("`c = alpha * a * b` in f32 with ", $doc, ", and M contiguous in `c`: `ldc` is between its columns.")]
        ///
        /// One block of 256 threads for each tile of `c` along x, and for each slice of each batch
        /// along y.
        ///
        /// # Safety
        /// Same contract as the kernels on tensor cores; also, the columns of `c` start at
        /// multiples of 16 bytes. For a K-contiguous operand, address, leading dimension, batch
        /// stride and slices of K are multiples of 8 bytes if it is transposed in registers, and of
        /// 4 bytes otherwise. `beta`, the bias and the activation are ignored.
        #[kernel(threads = THREADS, min_blocks = $blocks, shared = Storage<$config>)]
        pub unsafe fn $name(arguments: ArgumentsOf<$config>) {
            matmul::<$config>(&arguments)
        }
    )+ };
}
sgemm! {
    sgemm_nt Nt: large, blocks = 1, ByParts<2, 2, 4>, Words, large::SmemA, AlongM; Words, large::SmemB, AlongM,
        "M contiguous in `a` and N in `b`, by tiles of 256 x 128";
    sgemm_nn Nn: large, blocks = 1, ByParts<1, 4>, Words, large::SmemA, AlongM; Pairs, SmemTransposed, Transposed<7>,
        "M contiguous in `a` and K in `b`, which is transposed in registers, by tiles of 256 x 128";
    sgemm_tt Tt: wide, blocks = 1, ByParts<2, 2, 4>, Pairs, SmemTransposed, Transposed<7>; Words, wide::SmemB, AlongM,
        "K contiguous in `a`, which is transposed in registers, and N in `b`, by tiles of 128 x 256";
    sgemm_nt_128x128 NtSquare: square, blocks = 2, Direct, Words, square::SmemAlongM, AlongM; Words, square::SmemAlongM, AlongM,
        "M contiguous in `a` and N in `b`, by tiles of 128 x 128";
    sgemm_nn_128x128 NnSquare: square, blocks = 2, Direct, Words, square::SmemAlongM, AlongM; Numbers, square::SmemAlongK, AlongK,
        "M contiguous in `a` and K in `b`, by tiles of 128 x 128";
    sgemm_tt_128x128 TtSquare: square, blocks = 2, Direct, Numbers, square::SmemAlongK, AlongK; Words, square::SmemAlongM, AlongM,
        "K contiguous in `a` and N in `b`, by tiles of 128 x 128";
    sgemm_tn_128x128 TnSquare: square, blocks = 2, Direct, Numbers, square::SmemAlongK, AlongK; Numbers, square::SmemAlongK, AlongK,
        "K contiguous in both, by tiles of 128 x 128";
}
