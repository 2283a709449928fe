//! The cases, chosen ones and a grid of four thread layouts by four value layouts: an element type,
//! the atoms of both tiled copies, their threads and values, the tile, its layout in shared memory,
//! and the axis of stride 1 in global memory.

use super::{Case, Extents, Runs, Storage};
use half::{bf16, f16};
use moye_device::atom::copy::*;
use moye_device::atom::mma::SM80_16x8x8_F32TF32TF32F32_TN;
use moye_device::atom::{StaticTiledCopy, TiledCopy, TiledMma, make_tiled_copy_c};
use moye_device::layout::{ComposedLayout, Layout, Swizzle, Tiler, layout, make_col_major, tuple};
use moye_device::memory::{Global, GlobalMut};
use moye_device::tensor::{Aligned, UnitStride};
use moye_device::{kernel, static_layout, swizzled_layout, tiled_copy};

/// A [`Case`] and its kernels: one for the whole copy and, in parentheses, one with the predicate.
macro_rules! copies {
    ($(
        $name:ident ($predicated:ident): $element:ty, $load:ty, $move:ty, $copy:expr,
        tile $tile:expr, $kind:ident $smem:expr, axis $axis:literal;
    )+) => {
        $(
            pub mod $name {
                use super::*;

                tiled_copy! {
                    pub Load: TiledCopy<$load, $element> = $copy;
                    pub Move: TiledCopy<$move, $element> = $copy;
                }
                static_layout! {
                    pub Tile = make_col_major(tuple!($tile));
                }
                copies!(@ $kind $smem);

                /// The case.
                pub struct This;

                impl Case for This {
                    type Element = $element;
                    type Load = Load;
                    type Move = Move;
                    type Tile = Tile;
                    type Smem = Smem;
                    type Strides = Aligned<UnitStride<$axis>, 16>;
                    const AXIS: usize = $axis;
                    #[cfg(not(target_arch = "nvptx64"))]
                    const WHOLE: super::super::CopyKernel<$element> = $name;
                    #[cfg(not(target_arch = "nvptx64"))]
                    const PREDICATED: super::super::CopyKernel<$element> = $predicated;

                    #[inline(always)]
                    fn strides(leading: i64) -> Self::Strides {
                        Aligned(UnitStride(leading))
                    }
                }

                copies!(@ entry $name whole $element);
                copies!(@ entry $predicated predicated $element);
            }
        )+

        /// Gives the macro `$then` the names of all cases, each a module of
        /// [`copies`](crate::copies).
        #[macro_export]
        macro_rules! for_each_copy {
            ($then:ident) => { $then! { $($name)+ } };
        }
    };
    (@ entry $kernel:ident $body:ident $element:ty) => {
        #[kernel(threads = Load::COPY.threads(), shared = Storage<This>)]
        pub unsafe fn $kernel(
            source: Global<$element>,
            destination: GlobalMut<$element>,
            from_m: u32,
            from_n: u32,
            to_m: u32,
            to_n: u32,
        ) {
            let extents = Extents { from: (from_m, from_n), to: (to_m, to_n) };
            // SAFETY: the caller's contract.
            unsafe { This::$body(source, destination, extents) }
        }
    };
    (@ shared $smem:expr) => { static_layout! { pub Smem = $smem; } };
    (@ swizzled $smem:expr) => { swizzled_layout! { pub Smem = $smem; } };
}

/// The thread layouts of the grid: down columns, along rows, squarer, and nested and so that
/// neighbours lie apart.
pub const GRID_THREADS: [Layout; 4] = [
    layout!((16, 2)),
    layout!((2, 16):(16, 1)),
    layout!((4, 8)),
    layout!(((2, 4), (2, 2)):((1, 4), (2, 16))),
];

/// The value layouts of the grid: one, two down, two across, and four that count across first.
pub const GRID_VALUES: [Layout; 4] =
    [layout!((1, 1)), layout!((2, 1)), layout!((1, 2)), layout!((2, 2):(2, 1))];

/// A copy of the grid.
const fn grid(threads: usize, values: usize) -> TiledCopy<UniversalCopy<f32>, f32> {
    TiledCopy::new(GRID_THREADS[threads], GRID_VALUES[values])
}

type TfMma = TiledMma<SM80_16x8x8_F32TF32TF32F32_TN>;

copies! {
    // Column-major tiles of f32, by every width of cp.async and of plain loads.
    f32_async_16 (f32_async_16_if): f32, SM80_CP_ASYNC_CACHEGLOBAL<u128>, UniversalCopy<u128>,
        TiledCopy::new(layout!((32, 8)), layout!((4, 1))), tile (256, 16), shared layout!((256, 16)), axis 0;
    f32_async_16_zfill (f32_async_16_zfill_if): f32, SM80_CP_ASYNC_CACHEALWAYS_ZFILL<u128>, UniversalCopy<u64>,
        TiledCopy::new(layout!((32, 8)), layout!((4, 1))), tile (128, 16), shared layout!((128, 16):(1, 132)), axis 0;
    f32_async_8 (f32_async_8_if): f32, SM80_CP_ASYNC_CACHEALWAYS<u64>, UniversalCopy<u32>,
        TiledCopy::new(layout!((16, 4)), layout!((2, 2))), tile (64, 8), shared layout!((64, 8):(1, 66)), axis 0;
    f32_async_4_zfill (f32_async_4_zfill_if): f32, SM80_CP_ASYNC_CACHEALWAYS_ZFILL<u32>, UniversalCopy<f32>,
        TiledCopy::new(layout!((32, 8)), layout!((1, 1))), tile (32, 32), shared layout!((32, 32):(1, 33)), axis 0;
    f32_padded (f32_padded_if): f32, UniversalCopy<f32>, UniversalCopy<u32>,
        TiledCopy::new(layout!((32, 4)), layout!((4, 2))), tile (128, 8), shared layout!((128, 8):(1, 129)), axis 0;
    f32_transposed (f32_transposed_if): f32, UniversalCopy<f32>, UniversalCopy<f32>,
        TiledCopy::new(layout!((32, 4)), layout!((1, 1))), tile (32, 32), shared layout!((32, 32):(33, 1)), axis 0;
    f32_widest (f32_widest_if): f32, AutoVectorizingCopy, AutoVectorizingCopy,
        TiledCopy::new(layout!((8, 8)), layout!((8, 1))), tile (64, 16), shared layout!((64, 16):(1, 68)), axis 0;
    f32_by_element (f32_by_element_if): f32, DefaultCopy, DefaultCopy,
        TiledCopy::new(layout!((8, 8)), layout!((4, 1))), tile (64, 16), shared layout!((64, 16):(1, 65)), axis 0;
    // K-major tiles of 16-bit numbers, swizzled.
    f16_swizzled_128 (f16_swizzled_128_if): f16, SM80_CP_ASYNC_CACHEGLOBAL<u128>, UniversalCopy<u128>,
        TiledCopy::new(layout!((16, 8):(8, 1)), layout!((1, 8))), tile (64, 64),
        swizzled ComposedLayout::new(Swizzle::new(3, 3, 3), 0, layout!((8, 64):(64, 1))).tile_to_shape(tuple!((64, 64))), axis 1;
    f16_swizzled_64 (f16_swizzled_64_if): f16, SM80_CP_ASYNC_CACHEGLOBAL_ZFILL<u128>, UniversalCopy<u64>,
        TiledCopy::new(layout!((8, 4):(4, 1)), layout!((1, 8))), tile (32, 64),
        swizzled ComposedLayout::new(Swizzle::new(2, 3, 3), 0, layout!((8, 32):(32, 1))).tile_to_shape(tuple!((32, 64))), axis 1;
    bf16_swizzled_32 (bf16_swizzled_32_if): bf16, SM80_CP_ASYNC_CACHEALWAYS<u64>, UniversalCopy<bf16>,
        TiledCopy::new(layout!((16, 4):(4, 1)), layout!((1, 4))), tile (32, 32),
        swizzled ComposedLayout::new(Swizzle::new(1, 3, 3), 0, layout!((8, 16):(16, 1))).tile_to_shape(tuple!((32, 32))), axis 1;
    // Blocks of several columns, whose values an access takes apart.
    f16_blocks (f16_blocks_if): f16, UniversalCopy<u64>, UniversalCopy<u32>,
        TiledCopy::new(layout!((4, 8)), layout!((4, 2))), tile (32, 32), shared layout!((32, 32):(1, 40)), axis 0;
    i16_widest (i16_widest_if): i16, AutoVectorizingCopy, DefaultCopy,
        TiledCopy::new(layout!((32, 2)), layout!((8, 1))), tile (256, 4), shared layout!((256, 4)), axis 0;
    u8_async_16 (u8_async_16_if): u8, SM80_CP_ASYNC_CACHEGLOBAL<u128>, UniversalCopy<u64>,
        TiledCopy::new(layout!((8, 4)), layout!((16, 1))), tile (128, 12), shared layout!((128, 12)), axis 0;
    u8_words (u8_words_if): u8, SM80_CP_ASYNC_CACHEALWAYS<u32>, UniversalCopy<u16>,
        TiledCopy::new(layout!((4, 8)), layout!((4, 2))), tile (32, 48), shared layout!((32, 48):(1, 36)), axis 0;
    i8_row_major (i8_row_major_if): i8, SM80_CP_ASYNC_CACHEALWAYS_ZFILL<u64>, UniversalCopy<u8>,
        TiledCopy::new(layout!((8, 4):(4, 1)), layout!((2, 8):(8, 1))), tile (32, 32), shared layout!((32, 32):(40, 1)), axis 1;
    // The 4 x 9 copy of MoYe's page and its vector form, repeated, with elements of other sizes.
    f64_4x9 (f64_4x9_if): f64, UniversalCopy<f64>, UniversalCopy<f64>,
        TiledCopy::new(layout!((2, 3):(3, 1)), layout!((2, 3):(1, 2))), tile (8, 18), shared layout!((8, 18):(1, 9)), axis 0;
    f64_4x9_vectors (f64_4x9_vectors_if): f64, UniversalCopy<u128>, UniversalCopy<u128>,
        TiledCopy::new(layout!((2, 3):(3, 1)), layout!((2, 3):(1, 2))), tile (8, 18), shared layout!((8, 18):(1, 10)), axis 0;
    f64_4x9_async (f64_4x9_async_if): f64, SM80_CP_ASYNC_CACHEALWAYS<u64>, UniversalCopy<u64>,
        TiledCopy::new(layout!((2, 3):(3, 1)), layout!((2, 3):(1, 2))), tile (4, 18), shared layout!((4, 18):(18, 1)), axis 1;
    u8_4x9 (u8_4x9_if): u8, UniversalCopy<u8>, UniversalCopy<u8>,
        TiledCopy::new(layout!((2, 3):(3, 1)), layout!((2, 3):(1, 2))), tile (8, 18), shared layout!((8, 18)), axis 0;
    // Threads and values whose numbers are no powers of two, or nest, or count across.
    i32_odd (i32_odd_if): i32, UniversalCopy<i32>, UniversalCopy<u32>,
        TiledCopy::new(layout!((3, 5)), layout!((5, 1))), tile (30, 15), shared layout!((30, 15):(1, 31)), axis 0;
    u64_odd_pairs (u64_odd_pairs_if): u64, UniversalCopy<u128>, UniversalCopy<u64>,
        TiledCopy::new(layout!((5, 7):(7, 1)), layout!((1, 6))), tile (10, 84), shared layout!((10, 84):(86, 1)), axis 1;
    f32_nested (f32_nested_if): f32, SM80_CP_ASYNC_CACHEALWAYS<u64>, UniversalCopy<u64>,
        TiledCopy::new(layout!(((2, 4), (2, 2)):((1, 4), (2, 16))), layout!((2, 2))), tile (32, 16),
        shared layout!((32, 16):(1, 34)), axis 0;
    f32_values_across (f32_values_across_if): f32, UniversalCopy<f32>, UniversalCopy<f32>,
        TiledCopy::new(layout!((4, 8):(8, 1)), layout!((4, 2):(2, 1))), tile (32, 16), shared layout!((32, 16)), axis 0;
    // From a thread-value layout: an accumulator's, in a tile of its own and in that of a tiled
    // product.
    f32_accumulator (f32_accumulator_if): f32, UniversalCopy<f32>, UniversalCopy<f32>,
        TiledCopy::from_tv(layout!(((4, 8), (2, 2)):((32, 1), (16, 8))), Tiler::shape(tuple!((16, 8)))),
        tile (32, 32), shared layout!((32, 32):(36, 1)), axis 1;
    f32_product (f32_product_if): f32, UniversalCopy<f32>, UniversalCopy<f32>,
        make_tiled_copy_c(&TfMma::tiled(layout!((2, 2, 1)), [32, 32, 8])), tile (64, 64),
        shared layout!((64, 64):(1, 65)), axis 1;
    // A tiler that takes every second row.
    f32_strided_tiler (f32_strided_tiler_if): f32, UniversalCopy<f32>, UniversalCopy<f32>,
        TiledCopy::from_tv(layout!((32, 4):(1, 32)), Tiler::by_mode(&[Tiler::layout(layout!(16:2)), Tiler::shape(tuple!(8))])),
        tile (32, 16), shared layout!((32, 16)), axis 0;
    u128_each (u128_each_if): u128, SM80_CP_ASYNC_CACHEGLOBAL<u128>, UniversalCopy<u128>,
        TiledCopy::new(layout!((4, 8)), layout!((1, 2))), tile (8, 32), shared layout!((8, 32):(1, 9)), axis 0;
    // Every thread layout of the grid with every value layout of it, by one atom.
    grid_00 (grid_00_if): f32, UniversalCopy<f32>, UniversalCopy<f32>,
        grid(0, 0), tile (32, 32), shared layout!((32, 32):(1, 33)), axis 0;
    grid_01 (grid_01_if): f32, UniversalCopy<f32>, UniversalCopy<f32>,
        grid(0, 1), tile (32, 32), shared layout!((32, 32):(1, 33)), axis 0;
    grid_02 (grid_02_if): f32, UniversalCopy<f32>, UniversalCopy<f32>,
        grid(0, 2), tile (32, 32), shared layout!((32, 32):(1, 33)), axis 0;
    grid_03 (grid_03_if): f32, UniversalCopy<f32>, UniversalCopy<f32>,
        grid(0, 3), tile (32, 32), shared layout!((32, 32):(1, 33)), axis 0;
    grid_10 (grid_10_if): f32, UniversalCopy<f32>, UniversalCopy<f32>,
        grid(1, 0), tile (32, 32), shared layout!((32, 32):(1, 33)), axis 0;
    grid_11 (grid_11_if): f32, UniversalCopy<f32>, UniversalCopy<f32>,
        grid(1, 1), tile (32, 32), shared layout!((32, 32):(1, 33)), axis 0;
    grid_12 (grid_12_if): f32, UniversalCopy<f32>, UniversalCopy<f32>,
        grid(1, 2), tile (32, 32), shared layout!((32, 32):(1, 33)), axis 0;
    grid_13 (grid_13_if): f32, UniversalCopy<f32>, UniversalCopy<f32>,
        grid(1, 3), tile (32, 32), shared layout!((32, 32):(1, 33)), axis 0;
    grid_20 (grid_20_if): f32, UniversalCopy<f32>, UniversalCopy<f32>,
        grid(2, 0), tile (32, 32), shared layout!((32, 32):(1, 33)), axis 0;
    grid_21 (grid_21_if): f32, UniversalCopy<f32>, UniversalCopy<f32>,
        grid(2, 1), tile (32, 32), shared layout!((32, 32):(1, 33)), axis 0;
    grid_22 (grid_22_if): f32, UniversalCopy<f32>, UniversalCopy<f32>,
        grid(2, 2), tile (32, 32), shared layout!((32, 32):(1, 33)), axis 0;
    grid_23 (grid_23_if): f32, UniversalCopy<f32>, UniversalCopy<f32>,
        grid(2, 3), tile (32, 32), shared layout!((32, 32):(1, 33)), axis 0;
    grid_30 (grid_30_if): f32, UniversalCopy<f32>, UniversalCopy<f32>,
        grid(3, 0), tile (32, 32), shared layout!((32, 32):(1, 33)), axis 0;
    grid_31 (grid_31_if): f32, UniversalCopy<f32>, UniversalCopy<f32>,
        grid(3, 1), tile (32, 32), shared layout!((32, 32):(1, 33)), axis 0;
    grid_32 (grid_32_if): f32, UniversalCopy<f32>, UniversalCopy<f32>,
        grid(3, 2), tile (32, 32), shared layout!((32, 32):(1, 33)), axis 0;
    grid_33 (grid_33_if): f32, UniversalCopy<f32>, UniversalCopy<f32>,
        grid(3, 3), tile (32, 32), shared layout!((32, 32):(1, 33)), axis 0;
}
