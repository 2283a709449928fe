//! Products by `cp.async` and `mma.sync`: f16, K contiguous in A and in B, on ragged sizes.

use core::marker::PhantomData;
use half::f16;
use moye_device::atom::copy::{SM75_U32x4_LDSM_N, SM80_CP_ASYNC_CACHEGLOBAL_ZFILL};
use moye_device::atom::mma::SM80_16x8x16_F32F16F16F32_TN;
use moye_device::atom::{StaticTiledMma, TiledCopy, TiledMma, make_tiled_copy_a, make_tiled_copy_b};
use moye_device::collective::{
    Batches, Bias, Mainloop, Map, Multistage, MultistageConfig, OneTile, Persistent, Scale, SplitK,
    StorageOf, StreamK, ToGlobal, With, Workspace, gemm,
};
use moye_device::layout::{ComposedLayout, Swizzle};
use moye_device::memory::{Global, GlobalMut};
use moye_device::tensor::{Aligned, UnitStride};
use moye_device::{kernel, layout, swizzled_layout, tiled_copy, tiled_mma, tuple};

const ATOM: ComposedLayout = ComposedLayout::new(Swizzle::new(3, 3, 3), 0, layout!((8, 64):(64, 1)));
swizzled_layout! {
    /// (BLK_M, BLK_K, PIPE)
    pub Stages<const ROWS: i64, const PIPE: i64> = ATOM.tile_to_shape(tuple!((ROWS, 64, PIPE)));
}
tiled_mma! {
    /// Eight warps, of 64 x 64 each in tiles of 256 x 128: what the shipped products of f16 have.
    pub Tall: TiledMma<SM80_16x8x16_F32F16F16F32_TN> = TiledMma::tiled(layout!((4, 2, 1)), [64, 32, 16]);
    /// Eight warps, of 64 x 32 each in tiles of 128 x 128.
    pub Large: TiledMma<SM80_16x8x16_F32F16F16F32_TN> = TiledMma::tiled(layout!((2, 4, 1)), [32, 64, 16]);
    /// Four warps, of 32 x 32 each in tiles of 64 x 64.
    pub Small: TiledMma<SM80_16x8x16_F32F16F16F32_TN> = TiledMma::tiled(layout!((2, 2, 1)), [32, 32, 16]);
}
tiled_copy! {
    pub LoadLarge: TiledCopy<SM80_CP_ASYNC_CACHEGLOBAL_ZFILL<u128>, f16> = TiledCopy::new(layout!((32, 8):(8, 1)), layout!((1, 8)));
    pub LoadSmall: TiledCopy<SM80_CP_ASYNC_CACHEGLOBAL_ZFILL<u128>, f16> = TiledCopy::new(layout!((16, 8):(8, 1)), layout!((1, 8)));
    pub ReadA<M: StaticTiledMma>: TiledCopy<SM75_U32x4_LDSM_N, f16> = make_tiled_copy_a(&M::MMA);
    pub ReadB<M: StaticTiledMma>: TiledCopy<SM75_U32x4_LDSM_N, f16> = make_tiled_copy_b(&M::MMA);
}

type Strides = Aligned<UnitStride<1>, 16>;

/// Tiles of `BLK_M` x `BLK_N` x 64 in three stages.
pub struct Config<const BLK_M: i64, const BLK_N: i64, Load, Mma>(PhantomData<(Load, Mma)>);

macro_rules! config {
    ($m:literal x $n:literal $load:ty, $mma:ty) => {
        impl MultistageConfig for Config<$m, $n, $load, $mma> {
            type Element = f16;
            type StridesA = Strides;
            type StridesB = Strides;
            type SmemA = Stages<$m, 3>;
            type SmemB = Stages<$n, 3>;
            type LoadA = $load;
            type LoadB = $load;
            type ReadA = ReadA<$mma>;
            type ReadB = ReadB<$mma>;
            type Mma = $mma;
        }
    };
}
config!(256 x 128 LoadLarge, Tall);
config!(128 x 128 LoadLarge, Large);
config!(64 x 64 LoadSmall, Small);

/// The mainloop with the tiles of the shipped products.
pub type TallLoop = Multistage<Config<256, 128, LoadLarge, Tall>>;
/// The large mainloop.
pub type LargeLoop = Multistage<Config<128, 128, LoadLarge, Large>>;
/// The small mainloop.
pub type SmallLoop = Multistage<Config<64, 64, LoadSmall, Small>>;
type Store<T> = ToGlobal<GlobalMut<T>, UnitStride<1>>;

/// Row-major matrices of a batch.
#[derive(Clone, Copy)]
pub struct Product {
    /// (M, K)
    pub a: Global<f16>,
    /// (N, K)
    pub b: Global<f16>,
    /// M, N and K.
    pub extents: (u32, u32, u32),
}

impl Product {
    #[inline(always)]
    fn operands<M: Mainloop<Operands = (Batches<Global<f16>, Strides>, Batches<Global<f16>, Strides>)>>(
        self,
    ) -> M::Operands {
        let (m, n, k) = self.extents;
        let strides = Aligned(UnitStride(i64::from(k)));
        let (of_a, of_b) = (i64::from(m) * i64::from(k), i64::from(n) * i64::from(k));
        (Batches::new(self.a, (m, k), strides, of_a), Batches::new(self.b, (n, k), strides, of_b))
    }
}

/// `c = max(alpha a b^T + bias, 0)` of `batches` products, a block for each tile of 128 x 128.
///
/// # Safety
/// `a`, `b` and `c` are row-major matrices of a batch, `k` a multiple of 8, `bias` has `n`
/// elements.
#[kernel(threads = LargeLoop::THREADS, min_blocks = 1, shared = StorageOf<LargeLoop, Store<f16>>)]
pub unsafe fn multistage(
    a: Global<f16>,
    b: Global<f16>,
    c: GlobalMut<f16>,
    bias: Global<f16>,
    m: u32,
    n: u32,
    k: u32,
    batches: u32,
    alpha: f32,
) {
    let operands = Product { a, b, extents: (m, n, k) }.operands::<LargeLoop>();
    let scheduler = OneTile::new(LargeLoop::tiles((m, n, k), batches), LargeLoop::worker(), 16);
    let c = Batches::new(c, (m, n), UnitStride(i64::from(n)), i64::from(m) * i64::from(n));
    // SAFETY: the caller's contract.
    unsafe {
        let epilogue = (Scale(alpha), Bias::of_columns(bias, n, 0), Map(|x: f32| x.max(0.0)));
        gemm::<LargeLoop, _, _, _>(operands, scheduler, epilogue, Store::new(c));
    }
}

/// `c = a b^T + beta c` by a persistent grid of tiles of 64 x 64.
///
/// # Safety
/// As [`multistage`].
#[kernel(threads = SmallLoop::THREADS, shared = StorageOf<SmallLoop, Store<f32>>)]
pub unsafe fn multistage_persistent(
    a: Global<f16>,
    b: Global<f16>,
    c: GlobalMut<f32>,
    m: u32,
    n: u32,
    k: u32,
    beta: f32,
) {
    let operands = Product { a, b, extents: (m, n, k) }.operands::<SmallLoop>();
    let scheduler = Persistent::new(SmallLoop::tiles((m, n, k), 1), SmallLoop::worker(), 8);
    let strides = (i64::from(n), 1);
    // SAFETY: the caller's contract; each element of C is read and then written by one thread.
    unsafe {
        let before = Global::<f32>::from_address(c.address());
        let epilogue = With::new(before, (m, n), strides, 0, |x, c: f32| x + beta * c);
        let c = Batches::new(c, (m, n), UnitStride(strides.0), 0);
        gemm::<SmallLoop, _, _, _>(operands, scheduler, epilogue, Store::new(c));
    }
}

/// `c = a b^T`, a block for each tile of 256 x 128.
///
/// # Safety
/// As [`multistage`].
#[kernel(threads = TallLoop::THREADS, min_blocks = 1, shared = StorageOf<TallLoop, Store<f16>>)]
pub unsafe fn multistage_tall(a: Global<f16>, b: Global<f16>, c: GlobalMut<f16>, m: u32, n: u32, k: u32) {
    let operands = Product { a, b, extents: (m, n, k) }.operands::<TallLoop>();
    let scheduler = OneTile::new(TallLoop::tiles((m, n, k), 1), TallLoop::worker(), 8);
    // SAFETY: the caller's contract.
    unsafe {
        let c = Batches::new(c, (m, n), UnitStride(i64::from(n)), 0);
        gemm::<TallLoop, _, _, _>(operands, scheduler, (), Store::new(c));
    }
}

macro_rules! split {
    ($($(#[$doc:meta])* $name:ident |$tiles:ident, $slices:ident, $workspace:ident| $scheduler:expr;)+) => { $(
        $(#[$doc])*
        ///
        /// # Safety
        /// As [`multistage`]; the workspace is as the scheduler says.
        #[kernel(threads = SmallLoop::THREADS, shared = StorageOf<SmallLoop, Store<f32>>)]
        pub unsafe fn $name(
            a: Global<f16>,
            b: Global<f16>,
            c: GlobalMut<f32>,
            partials: GlobalMut<u32>,
            counters: GlobalMut<u32>,
            m: u32,
            n: u32,
            k: u32,
            $slices: u32,
        ) {
            let operands = Product { a, b, extents: (m, n, k) }.operands::<SmallLoop>();
            let ($tiles, $workspace) = (SmallLoop::tiles((m, n, k), 1), Workspace { partials, counters });
            let _ = $slices;
            let c = Batches::new(c, (m, n), UnitStride(i64::from(n)), 0);
            // SAFETY: the caller's contract.
            unsafe { gemm::<SmallLoop, _, _, _>(operands, $scheduler, (), Store::new(c)) };
        }
    )+ };
}
split! {
    /// `c = a b^T`, K in `slices` slices.
    multistage_split_k |tiles, slices, workspace| SplitK::new(tiles, SmallLoop::worker(), 8, slices, workspace);
    /// `c = a b^T`, K of the last tiles in equal shares.
    multistage_stream_k |tiles, slices, workspace| StreamK::new(tiles, SmallLoop::worker(), 8, workspace);
}
