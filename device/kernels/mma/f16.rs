//! Half-precision operands, K the fast axis of both, sums in f32.

use super::config::{MmaConfig, Problem, Storage};
use super::epilogue::{Rounded, ThroughShared};
use super::pipeline::matmul;
use crate::atom::copy::{SM75_U32x4_LDSM_N, SM80_CP_ASYNC_CACHEGLOBAL_ZFILL};
use crate::atom::mma::{SM80_16x8x16_F32BF16BF16F32_TN, SM80_16x8x16_F32F16F16F32_TN};
use crate::atom::{StaticTiledMma, TiledCopy, TiledMma, make_tiled_copy_a, make_tiled_copy_b};
use crate::layout::{ComposedLayout, Swizzle, layout, tuple};
use crate::memory::{Global, GlobalMut};
use crate::tensor::{Aligned, UnitStride};
use crate::{kernel, static_layout, swizzled_layout, tiled_copy, tiled_mma};
use half::{bf16, f16};

/// Rows of 64 numbers, 128 bytes, whose eight 16-byte pieces are exchanged by the row's number modulo 8.
const ROWS: ComposedLayout = ComposedLayout::new(Swizzle::new(3, 3, 3), 0, layout!((8, 64):(64, 1)));

static_layout! {
    /// (BLK_M, BLK_K)
    pub TileA = layout!((128, 64));
    /// (BLK_N, BLK_K)
    pub TileB = layout!((256, 64));
    /// (BLK_M, BLK_N)
    pub TileC = layout!((128, 256));
    /// The tile of C in shared memory: rows 16 bytes apart in banks.
    pub SmemC = layout!((128, 256):(264, 1));
}
swizzled_layout! {
    /// (BLK_M, BLK_K, PIPE)
    pub SmemA = ROWS.tile_to_shape(tuple!((128, 64, 3)));
    /// (BLK_N, BLK_K, PIPE)
    pub SmemB = ROWS.tile_to_shape(tuple!((256, 64, 3)));
}

/// A kernel for each element type.
macro_rules! half {
    ($($(#[$doc:meta])* $name:ident $config:ident: $t:ty, $atom:ty, $load:ident $copy_a:ident $copy_b:ident $mma:ident $out:ident;)+) => { $(
        tiled_mma! {
            /// Eight warps, 2 x 4, each 64 x 64 of the block's tile.
            pub $mma: TiledMma<$atom> = TiledMma::tiled(layout!((2, 4, 1)), [32, 64, 16]);
        }
        tiled_copy! {
            /// Eight threads a row of 128 bytes.
            pub $load: TiledCopy<SM80_CP_ASYNC_CACHEGLOBAL_ZFILL<u128>, $t>
                = TiledCopy::new(layout!((32, 8):(8, 1)), layout!((1, 8)));
            /// Four matrices of 8 x 8 an instruction.
            pub $copy_a: TiledCopy<SM75_U32x4_LDSM_N, $t> = make_tiled_copy_a(&$mma::MMA);
            /// Four matrices of 8 x 8 an instruction.
            pub $copy_b: TiledCopy<SM75_U32x4_LDSM_N, $t> = make_tiled_copy_b(&$mma::MMA);
            /// C, 32 threads a row.
            pub $out: TiledCopy<crate::atom::copy::UniversalCopy<u128>, $t>
                = TiledCopy::new(layout!((8, 32):(32, 1)), layout!((1, 8)));
        }

        /// The configuration.
        pub struct $config;

        impl MmaConfig for $config {
            type Operand = $t;
            type Sum = f32;
            type Output = $t;
            type StridesA = Aligned<UnitStride<1>, 16>;
            type StridesB = Aligned<UnitStride<1>, 16>;
            type StridesC = Aligned<UnitStride<1>, 16>;
            type TileA = TileA;
            type TileB = TileB;
            type TileC = TileC;
            type SmemA = SmemA;
            type SmemB = SmemB;
            type LoadA = $load;
            type LoadB = $load;
            type CopyA = $copy_a;
            type CopyB = $copy_b;
            type Mma = $mma;
            type Epilogue = ThroughShared<Rounded, SmemC, $out>;
        }

        $(#[$doc])*
        ///
        /// # Safety
        /// The matrices lie in memory of the device inside the buffers that the pointers come from; `c` overlaps neither of
        /// the others. Pointers and leading dimensions are multiples of 16 bytes. Each extent is at most 2^31 - 256.
        #[kernel(threads = 256, min_blocks = 1, shared = Storage<$config>)]
        pub unsafe fn $name(
            a: Global<$t>,
            b: Global<$t>,
            c: GlobalMut<$t>,
            m: u32,
            n: u32,
            k: u32,
            lda: i64,
            ldb: i64,
            ldc: i64,
        ) {
            let problem = Problem::<$config> {
                a,
                b,
                c,
                shape: (m, n, k),
                strides_a: Aligned(UnitStride(lda)),
                strides_b: Aligned(UnitStride(ldb)),
                strides_c: Aligned(UnitStride(ldc)),
            };
            // SAFETY: the caller's contract.
            unsafe { matmul::<$config>(problem) }
        }
    )+ };
}
half! {
    /// `c = a * b` with `a` as `(m, k)` and `b` as `(n, k)`, both with K contiguous, and `c` as `(m, n)` with N contiguous, in
    /// f16 with sums in f32. A block of 256 threads for each tile of 128 x 256, in one dimension.
    matmul_f16_tn F16: f16, SM80_16x8x16_F32F16F16F32_TN, LoadF16 CopyAF16 CopyBF16 MmaF16 OutF16;
    /// As [`matmul_f16_tn`], in bf16.
    matmul_bf16_tn Bf16: bf16, SM80_16x8x16_F32BF16BF16F32_TN, LoadBf16 CopyABf16 CopyBBf16 MmaBf16 OutBf16;
}
