//! Products by the instructions of sm_80.

use crate::config::product;
use half::{bf16, f16};
use moye_device::atom::copy::{
    SM75_U32x2_LDSM_N, SM75_U32x4_LDSM_N, SM80_CP_ASYNC_CACHEALWAYS, SM80_CP_ASYNC_CACHEALWAYS_ZFILL,
    SM80_CP_ASYNC_CACHEGLOBAL, SM80_CP_ASYNC_CACHEGLOBAL_ZFILL, UniversalCopy,
};
use moye_device::atom::mma::{
    SM70_8x8x4_F16F16F16F16_NT, SM70_8x8x4_F32F16F16F32_TN, SM80_8x8x4_F64F64F64F64_TN,
    SM80_8x8x32_S32U4U4S32_TN, SM80_16x8x8_F32TF32TF32F32_TN, SM80_16x8x16_F16F16F16F16_TN,
    SM80_16x8x16_F32BF16BF16F32_TN, SM80_16x8x16_F32F16F16F32_TN, SM80_16x8x32_S32S8S8S32_TN,
    SM80_16x8x64_S32S4S4S32_TN, SM80_16x8x64_S32U4U4S32_TN, SM80_16x8x256_S32U1U1S32_TN_XORPOPC,
    UniversalFma,
};
use moye_device::atom::{Permutation, TiledCopy, TiledMma};
use moye_device::layout::{ComposedLayout, Swizzle, layout, tuple};
use moye_device::number::{B1, S4, U4};

product! {
    /// f16, swizzled rows of 64 bytes, `ldmatrix` x4 on both sides.
    f16_swizzled = product(f16 => f32, threads = 128) {
        block: 64 x 64 x 32,
        smem: swizzled_layout! {
            ComposedLayout::new(Swizzle::new(2, 3, 3), 0, layout!((8, 32):(32, 1))).tile_to_shape(tuple!((64, 32))),
            ComposedLayout::new(Swizzle::new(2, 3, 3), 0, layout!((8, 32):(32, 1))).tile_to_shape(tuple!((64, 32)))
        },
        load: SM80_CP_ASYNC_CACHEGLOBAL<u128> = TiledCopy::new(layout!((32, 4):(4, 1)), layout!((1, 8))),
        copy: (SM75_U32x4_LDSM_N, SM75_U32x4_LDSM_N),
        mma: SM80_16x8x16_F32F16F16F32_TN = TiledMma::tiled(layout!((2, 2, 1)), [32, 32, 16]),
    }

    /// f16, swizzled rows of 128 bytes, a layout as permutation of N.
    f16_permuted = product(f16 => f32, threads = 128) {
        block: 64 x 64 x 64,
        smem: swizzled_layout! {
            ComposedLayout::new(Swizzle::new(3, 3, 3), 0, layout!((8, 64):(64, 1))).tile_to_shape(tuple!((64, 64))),
            ComposedLayout::new(Swizzle::new(3, 3, 3), 0, layout!((8, 64):(64, 1))).tile_to_shape(tuple!((64, 64)))
        },
        load: SM80_CP_ASYNC_CACHEGLOBAL_ZFILL<u128> = TiledCopy::new(layout!((16, 8):(8, 1)), layout!((1, 8))),
        copy: (SM75_U32x4_LDSM_N, SM75_U32x2_LDSM_N),
        mma: SM80_16x8x16_F32F16F16F32_TN = TiledMma::permuted(
            layout!((2, 2, 1)),
            [Permutation::Tile(32), Permutation::Layout(layout!((8, 2, 2):(1, 16, 8))), Permutation::Tile(16)],
        ),
    }

    /// f16 sums of f16 products, padded rows.
    f16_padded = product(f16 => f16, threads = 64) {
        block: 32 x 64 x 32,
        smem: static_layout! { layout!((32, 32):(40, 1)), layout!((64, 32):(40, 1)) },
        load: SM80_CP_ASYNC_CACHEGLOBAL<u128> = TiledCopy::new(layout!((16, 4):(4, 1)), layout!((1, 8))),
        copy: (SM75_U32x4_LDSM_N, SM75_U32x2_LDSM_N),
        mma: SM80_16x8x16_F16F16F16F16_TN = TiledMma::new(layout!((1, 2, 1))),
    }

    /// bf16, fragments by plain loads of pairs.
    bf16_plain = product(bf16 => f32, threads = 128) {
        block: 64 x 32 x 32,
        smem: static_layout! { layout!((64, 32):(40, 1)), layout!((32, 32):(40, 1)) },
        load: UniversalCopy<u128> = TiledCopy::new(layout!((32, 4):(4, 1)), layout!((1, 8))),
        copy: (UniversalCopy<u32>, UniversalCopy<u32>),
        mma: SM80_16x8x16_F32BF16BF16F32_TN = TiledMma::new(layout!((4, 1, 1))),
    }

    /// tf32 with `ldmatrix` of 32-bit elements, the permuted tile of MoYe's page.
    tf32_permuted = product(f32 => f32, threads = 128) {
        block: 64 x 64 x 16,
        smem: static_layout! { layout!((64, 16):(20, 1)), layout!((64, 16):(20, 1)) },
        load: SM80_CP_ASYNC_CACHEALWAYS<u128> = TiledCopy::new(layout!((32, 4):(4, 1)), layout!((1, 4))),
        copy: (SM75_U32x4_LDSM_N, SM75_U32x2_LDSM_N),
        mma: SM80_16x8x8_F32TF32TF32F32_TN = TiledMma::tiled(layout!((2, 2, 1)), [32, 32, 8]),
    }

    /// f64.
    f64_plain = product(f64 => f64, threads = 128) {
        block: 32 x 32 x 16,
        smem: static_layout! { layout!((32, 16):(18, 1)), layout!((32, 16):(18, 1)) },
        load: SM80_CP_ASYNC_CACHEGLOBAL<u128> = TiledCopy::new(layout!((16, 8):(8, 1)), layout!((1, 2))),
        copy: (UniversalCopy<f64>, UniversalCopy<f64>),
        mma: SM80_8x8x4_F64F64F64F64_TN = TiledMma::new(layout!((2, 2, 1))),
    }

    /// s8 with `ldmatrix` of 8-bit elements.
    s8_ldmatrix = product(i8 => i32, threads = 128) {
        block: 64 x 64 x 64,
        smem: static_layout! { layout!((64, 64):(80, 1)), layout!((64, 64):(80, 1)) },
        load: SM80_CP_ASYNC_CACHEGLOBAL<u128> = TiledCopy::new(layout!((32, 4):(4, 1)), layout!((1, 16))),
        copy: (SM75_U32x4_LDSM_N, SM75_U32x2_LDSM_N),
        mma: SM80_16x8x32_S32S8S8S32_TN = TiledMma::tiled(layout!((2, 2, 1)), [32, 32, 32]),
    }

    /// f32 by multiply-adds, operands from shared memory.
    fma_shared = product_from_shared(f32 => f32, threads = 256) {
        block: 64 x 64 x 8,
        smem: static_layout! { layout!((64, 8):(12, 1)), layout!((64, 8):(12, 1)) },
        load: SM80_CP_ASYNC_CACHEALWAYS<u64> = TiledCopy::new(layout!((64, 4):(4, 1)), layout!((1, 2))),
        copy: (UniversalCopy<f32>, UniversalCopy<f32>),
        mma: UniversalFma<f32> = TiledMma::new(layout!((16, 16, 1))),
    }

    /// f16 on tensor cores, operands from shared memory.
    f16_shared = product_from_shared(f16 => f32, threads = 128) {
        block: 32 x 32 x 32,
        smem: static_layout! { layout!((32, 32):(40, 1)), layout!((32, 32):(40, 1)) },
        load: SM80_CP_ASYNC_CACHEGLOBAL<u128> = TiledCopy::new(layout!((32, 4):(4, 1)), layout!((1, 8))),
        copy: (UniversalCopy<u32>, UniversalCopy<u32>),
        mma: SM80_16x8x16_F32F16F16F32_TN = TiledMma::new(layout!((2, 2, 1))),
    }
    /// f16, fragments of the MMA's partitions, sums as the source of a tiled copy of pairs.
    f16_partitions = product_of_partitions(f16 => f32, threads = 128) {
        block: 64 x 32 x 32,
        smem: static_layout! { layout!((64, 32):(40, 1)), layout!((32, 32):(40, 1)) },
        load: SM80_CP_ASYNC_CACHEGLOBAL<u128> = TiledCopy::new(layout!((32, 4):(4, 1)), layout!((1, 8))),
        copy: (UniversalCopy<u32>, UniversalCopy<u32>, UniversalCopy<f32>),
        mma: SM80_16x8x16_F32F16F16F32_TN = TiledMma::tiled(layout!((2, 2, 1)), [32, 32, 16]),
    }

    /// f64 in the same way.
    f64_partitions = product_of_partitions(f64 => f64, threads = 128) {
        block: 32 x 32 x 8,
        smem: static_layout! { layout!((32, 8):(10, 1)), layout!((32, 8):(10, 1)) },
        load: SM80_CP_ASYNC_CACHEGLOBAL<u128> = TiledCopy::new(layout!((32, 4):(4, 1)), layout!((1, 2))),
        copy: (UniversalCopy<f64>, UniversalCopy<f64>, UniversalCopy<f64>),
        mma: SM80_8x8x4_F64F64F64F64_TN = TiledMma::new(layout!((2, 2, 1))),
    }

    /// f16 by one quad pair of sm_70, which the other lanes of the warp double.
    f16_quad_pair = product(f16 => f32, threads = 32) {
        block: 16 x 16 x 16,
        smem: static_layout! { layout!((16, 16):(24, 1)), layout!((16, 16):(24, 1)) },
        load: SM80_CP_ASYNC_CACHEGLOBAL<u128> = TiledCopy::new(layout!((16, 2):(2, 1)), layout!((1, 8))),
        copy: (UniversalCopy<u64>, UniversalCopy<u64>),
        mma: SM70_8x8x4_F32F16F16F32_TN = TiledMma::new(layout!((1, 1, 1))),
    }

    /// f16 by two quad pairs, one below the other, operands from shared memory.
    f16_quad_pairs_down = product_from_shared(f16 => f32, threads = 32) {
        block: 16 x 16 x 16,
        smem: static_layout! { layout!((16, 16):(24, 1)), layout!((16, 16):(24, 1)) },
        load: SM80_CP_ASYNC_CACHEGLOBAL<u128> = TiledCopy::new(layout!((16, 2):(2, 1)), layout!((1, 8))),
        copy: (UniversalCopy<u64>, UniversalCopy<u64>),
        mma: SM70_8x8x4_F32F16F16F32_TN = TiledMma::new(layout!((2, 1, 1))),
    }

    /// f16 with f16 accumulators by two quad pairs side by side, whose threads have columns of A
    /// and B.
    f16_quad_pairs_across = product_from_shared(f16 => f16, threads = 32) {
        block: 16 x 16 x 16,
        smem: static_layout! { layout!((16, 16):(24, 1)), layout!((16, 16):(24, 1)) },
        load: SM80_CP_ASYNC_CACHEGLOBAL<u128> = TiledCopy::new(layout!((16, 2):(2, 1)), layout!((1, 8))),
        copy: (UniversalCopy<f16>, UniversalCopy<f16>),
        mma: SM70_8x8x4_F16F16F16F16_NT = TiledMma::new(layout!((1, 2, 1))),
    }

    /// s4: elements of 4 bits in global memory, shared memory and fragments.
    s4_packed = product(S4 => i32, threads = 128) {
        block: 64 x 64 x 64,
        smem: static_layout! { layout!((64, 64):(96, 1)), layout!((64, 64):(96, 1)) },
        load: SM80_CP_ASYNC_CACHEGLOBAL_ZFILL<u128> = TiledCopy::new(layout!((64, 2):(2, 1)), layout!((1, 32))),
        copy: (SM75_U32x4_LDSM_N, SM75_U32x2_LDSM_N),
        mma: SM80_16x8x64_S32S4S4S32_TN = TiledMma::new(layout!((2, 2, 1))),
    }

    /// u4, by another width.
    u4_packed = product(U4 => i32, threads = 128) {
        block: 64 x 64 x 64,
        smem: static_layout! { layout!((64, 64):(96, 1)), layout!((64, 64):(96, 1)) },
        load: SM80_CP_ASYNC_CACHEALWAYS<u64> = TiledCopy::new(layout!((32, 4):(4, 1)), layout!((1, 16))),
        copy: (SM75_U32x4_LDSM_N, SM75_U32x2_LDSM_N),
        mma: SM80_16x8x64_S32U4U4S32_TN = TiledMma::new(layout!((2, 2, 1))),
    }

    /// u4 once more, of which the MMA reads registers from shared memory.
    u4_shared = product_from_shared(U4 => i32, threads = 128) {
        block: 32 x 32 x 32,
        smem: static_layout! { layout!((32, 32):(96, 1)), layout!((32, 32):(96, 1)) },
        load: UniversalCopy<u32> = TiledCopy::new(layout!((32, 4):(4, 1)), layout!((1, 8))),
        copy: (UniversalCopy<u32>, UniversalCopy<u32>),
        mma: SM80_8x8x32_S32U4U4S32_TN = TiledMma::new(layout!((2, 2, 1))),
    }

    /// b1: sums of bits that differ.
    b1_packed = product(B1 => i32, threads = 128) {
        block: 64 x 64 x 256,
        smem: static_layout! { layout!((64, 256):(384, 1)), layout!((64, 256):(384, 1)) },
        load: SM80_CP_ASYNC_CACHEALWAYS_ZFILL<u64> = TiledCopy::new(layout!((32, 4):(4, 1)), layout!((1, 64))),
        copy: (SM75_U32x4_LDSM_N, SM75_U32x2_LDSM_N),
        mma: SM80_16x8x256_S32U1U1S32_TN_XORPOPC = TiledMma::new(layout!((2, 2, 1))),
    }
}
