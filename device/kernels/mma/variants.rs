//! Variants.
use super::config::{MmaConfig, Problem, Storage};
use super::epilogue::{Rounded, ThroughShared};
use super::pipeline::matmul;
use crate::atom::copy::{SM75_U32x4_LDSM_N, SM80_CP_ASYNC_CACHEGLOBAL_ZFILL};
use crate::atom::mma::SM80_16x8x16_F32F16F16F32_TN;
use crate::atom::{StaticTiledMma, TiledCopy, TiledMma, make_tiled_copy_a, make_tiled_copy_b};
use crate::layout::{ComposedLayout, Swizzle, layout, tuple};
use crate::memory::{Global, GlobalMut};
use crate::tensor::{Aligned, UnitStride};
use crate::{kernel, static_layout, swizzled_layout, tiled_copy, tiled_mma};
use half::f16;
macro_rules! v {
    ($($name:ident $m:literal $n:literal $k:literal $rows:expr, $st:literal, threads $t:literal $mb:literal, mma $wm:literal $wn:literal $pm:literal $pn:literal, load $lr:literal $lc:literal, out $or:literal $oc:literal $pad:literal;)+) => { $(
        pub mod $name {
        use super::*;
        static_layout! { pub TileA = layout!(($m, $k)); pub TileB = layout!(($n, $k)); pub TileC = layout!(($m, $n)); pub SmemC = layout!(($m, $n):($pad, 1)); }
        swizzled_layout! { pub SmemA = $rows.tile_to_shape(tuple!(($m, $k, $st))); pub SmemB = $rows.tile_to_shape(tuple!(($n, $k, $st))); }
        tiled_mma! { pub Mma: TiledMma<SM80_16x8x16_F32F16F16F32_TN> = TiledMma::tiled(layout!(($wm, $wn, 1)), [$pm, $pn, 16]); }
        tiled_copy! {
            pub Load: TiledCopy<SM80_CP_ASYNC_CACHEGLOBAL_ZFILL<u128>, f16> = TiledCopy::new(layout!(($lr, $lc):($lc, 1)), layout!((1, 8)));
            pub CopyA: TiledCopy<SM75_U32x4_LDSM_N, f16> = make_tiled_copy_a(&Mma::MMA);
            pub CopyB: TiledCopy<SM75_U32x4_LDSM_N, f16> = make_tiled_copy_b(&Mma::MMA);
            pub Out: TiledCopy<crate::atom::copy::UniversalCopy<u128>, f16> = TiledCopy::new(layout!(($or, $oc):($oc, 1)), layout!((1, 8)));
        }
        pub struct G;
        impl MmaConfig for G {
            type Operand = f16; type Sum = f32; type Output = f16;
            type StridesA = Aligned<UnitStride<1>, 16>; type StridesB = Aligned<UnitStride<1>, 16>; type StridesC = Aligned<UnitStride<1>, 16>;
            type TileA = TileA; type TileB = TileB; type TileC = TileC; type SmemA = SmemA; type SmemB = SmemB;
            type LoadA = Load; type LoadB = Load; type CopyA = CopyA; type CopyB = CopyB; type Mma = Mma;
            type Epilogue = ThroughShared<Rounded, SmemC, Out>;
        }
        /// v
        #[kernel(threads = $t, min_blocks = $mb, shared = Storage<G>)]
        pub unsafe fn $name(a: Global<f16>, b: Global<f16>, c: GlobalMut<f16>, m: u32, n: u32, k: u32, lda: i64, ldb: i64, ldc: i64) {
            let problem = Problem::<G> { a, b, c, shape: (m, n, k), strides_a: Aligned(UnitStride(lda)), strides_b: Aligned(UnitStride(ldb)), strides_c: Aligned(UnitStride(ldc)) };
            unsafe { matmul::<G>(problem) }
        }
        }
    )+ };
}
const R64: ComposedLayout = ComposedLayout::new(Swizzle::new(3, 3, 3), 0, layout!((8, 64):(64, 1)));
const R32: ComposedLayout = ComposedLayout::new(Swizzle::new(2, 3, 3), 0, layout!((8, 32):(32, 1)));
v! {
    va 128 256 64 R64, 4, threads 256 1, mma 2 4 32 64, load 32 8, out 8 32 264;
    vb 128 128 64 R64, 3, threads 128 2, mma 2 2 32 32, load 16 8, out 8 16 136;
    vc 256 128 64 R64, 4, threads 256 1, mma 4 2 64 32, load 32 8, out 16 16 136;
    vd 128 128 32 R32, 4, threads 128 2, mma 2 2 32 32, load 32 4, out 8 16 136;
    ve 128 256 32 R32, 6, threads 256 1, mma 2 4 32 64, load 64 4, out 8 32 264;
    vf 128 128 64 R64, 3, threads 256 2, mma 2 4 32 64, load 32 8, out 16 16 136;
}
