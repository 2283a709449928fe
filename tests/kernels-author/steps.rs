//! The same product twice, its operands in swizzled shared memory, a stage known at run time, steps
//! along K by constants: once sliced by `at`, once by `slice_last` and `part_last`.

use half::f16;
use moye_device::algorithm::{copy, copy_tiled, gemm_tiled};
use moye_device::arch::{cp_async_commit, cp_async_wait, sync_threads, thread_idx};
use moye_device::atom::copy::{SM75_U32x4_LDSM_N, SM80_CP_ASYNC_CACHEGLOBAL};
use moye_device::atom::mma::SM80_16x8x16_F32F16F16F32_TN;
use moye_device::atom::{
    StaticTiledCopy, StaticTiledMma, TiledCopy, TiledMma, make_tiled_copy_a, make_tiled_copy_b,
};
use moye_device::layout::{ComposedLayout, Swizzle, layout, tuple};
use moye_device::memory::{Global, GlobalMut, SharedArray, SharedStorage};
use moye_device::tensor::{Aligned, All, Matrix, UnitStride, WholeTiles};
use moye_device::{kernel, static_layout, swizzled_layout, tiled_copy, tiled_mma};

static_layout! {
    /// (BLK_M, BLK_K)
    pub Tile = layout!((64, 64));
}
swizzled_layout! {
    /// (BLK_M, BLK_K, PIPE)
    pub Smem = ComposedLayout::new(Swizzle::new(3, 3, 3), 0, layout!((8, 64):(64, 1))).tile_to_shape(tuple!((64, 64, 2)));
}
tiled_mma! {
    pub Mma: TiledMma<SM80_16x8x16_F32F16F16F32_TN> = TiledMma::tiled(layout!((2, 2, 1)), [32, 32, 16]);
}
tiled_copy! {
    pub Load: TiledCopy<SM80_CP_ASYNC_CACHEGLOBAL<u128>, f16> = TiledCopy::new(layout!((16, 8):(8, 1)), layout!((1, 8)));
    pub ReadA: TiledCopy<SM75_U32x4_LDSM_N, f16> = make_tiled_copy_a(&Mma::MMA);
    pub ReadB: TiledCopy<SM75_U32x4_LDSM_N, f16> = make_tiled_copy_b(&Mma::MMA);
}
type Storage = (SharedArray<f16, Smem>, SharedArray<f16, Smem>);

macro_rules! product {
    ($name:ident, |$a:ident, $stage:ident, $k:ident| $step:expr) => {
        /// `c = a b^T` of tile `stage` of the two that lie side by side in `a` and `b`.
        ///
        /// # Safety
        /// `a` and `b` hold 64 rows of 128 numbers at multiples of 16 bytes, `c` 64 rows of 64;
        /// `stage` is 0 or 1.
        #[kernel(threads = Mma::THREADS, shared = Storage)]
        pub unsafe fn $name(a: Global<f16>, b: Global<f16>, c: GlobalMut<f32>, stage: u32) {
            let thread = thread_idx().x;
            let strides = WholeTiles(Aligned::<_, 16>(UnitStride::<1>(128)));
            let gA = Matrix::new(a, (64, 128), strides).local_tile::<Tile, _>((0, All)); // (BLK_M, BLK_K, k)
            let gB = Matrix::new(b, (64, 128), strides).local_tile::<Tile, _>((0, All)); // (BLK_N, BLK_K, k)
            let gC = Matrix::new(c, (64, 64), WholeTiles(UnitStride::<0>(64))).local_tile::<Tile, _>((0, 0)); // (BLK_M, BLK_N)
            let (sA, sB) = Storage::take();
            let load = Load::slice(thread);
            let (tAgA, tAsA) = (load.partition_s(gA), load.partition_d(sA)); // (CPY, CPY_M, CPY_K, k)
            let (tBgB, tBsB) = (load.partition_s(gB), load.partition_d(sB)); // (CPY, CPY_N, CPY_K, k)
            for k in 0..2u32 {
                load.copy(tAgA.at((.., .., .., k)), tAsA.at((.., .., .., k)));
                load.copy(tBgB.at((.., .., .., k)), tBsB.at((.., .., .., k)));
            }
            cp_async_commit();
            cp_async_wait::<0>();
            sync_threads();

            let mma = Mma::slice(thread);
            let (readA, readB) = (ReadA::slice(thread), ReadB::slice(thread));
            let (tXsA, tXsB) = (readA.partition_s(sA), readB.partition_s(sB)); // (CPY, CPY_M, CPY_K, PIPE)
            let mut tCrA = mma.fragment_a(&mma.partition_a(sA)); // (MMA, MMA_M, MMA_K)
            let mut tCrB = mma.fragment_b(&mma.partition_b(sB)); // (MMA, MMA_N, MMA_K)
            let mut tCrC = mma.accumulator::<Tile>(); // (MMA, MMA_M, MMA_N)
            for $k in 0..4u32 {
                let $stage = stage;
                {
                    let $a = tXsA;
                    copy_tiled(ReadA, &$step, &mut readA.retile_d(&mut tCrA).at_mut((.., .., $k)));
                }
                {
                    let $a = tXsB;
                    copy_tiled(ReadB, &$step, &mut readB.retile_d(&mut tCrB).at_mut((.., .., $k)));
                }
                gemm_tiled(Mma, &tCrA.at((.., .., $k)), &tCrB.at((.., .., $k)), &mut tCrC);
            }
            copy(&tCrC, mma.partition_c(gC));
        }
    };
}
product!(steps_at, |a, stage, k| a.at((.., .., k, stage)));
product!(steps_part, |a, stage, k| a.slice_last(stage).part_last(k));
