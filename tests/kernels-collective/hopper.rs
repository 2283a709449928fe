//! Products by TMA and `wgmma`: bf16, K contiguous in A and in B, on ragged sizes.

use half::bf16;
use moye_device::atom::TiledMma;
use moye_device::atom::tma::TmaMap;
use moye_device::atom::wgmma::{SM90_64x64x16_F32BF16BF16_SS, SM90_64x256x16_F32BF16BF16_SS};
use moye_device::collective::{
    self, Batches, Bias, Coordinate, Epilogue, Mainloop, OneTile, Persistent, PingPong, Scale, Scales,
    SplitK, StorageOf, StoreC, StreamK, ThroughTma, TmaWarpSpecialised, ToGlobal, Workspace,
    gemm_warp_specialised,
};
use moye_device::layout::{Major, SwizzleBytes, shared_memory_atom};
use moye_device::memory::{Global, GlobalMut};
use moye_device::tensor::UnitStride;
use moye_device::{kernel, layout, math, swizzled_layout, tiled_mma, tuple};

swizzled_layout! {
    /// (BLK_MN, BLK_K, PIPE)
    pub Smem<const ROWS: i64, const PIPE: i64> =
        shared_memory_atom(Major::K, SwizzleBytes::B128, 16).tile_to_shape(tuple!((ROWS, 64, PIPE)));
}
tiled_mma! {
    /// Two warpgroups, 64 x 256 each.
    pub Wide: TiledMma<SM90_64x256x16_F32BF16BF16_SS> = TiledMma::new(layout!((2, 1, 1)));
    /// Two warpgroups, 64 x 64 each.
    pub Pair: TiledMma<SM90_64x64x16_F32BF16BF16_SS> = TiledMma::new(layout!((2, 1, 1)));
    /// One warpgroup, 64 x 64.
    pub Single: TiledMma<SM90_64x64x16_F32BF16BF16_SS> = TiledMma::new(layout!((1, 1, 1)));
}

/// Tiles of 128 x 256 in four stages, in clusters of two: what the last step of `hopper-steps` has.
pub type WideLoop = TmaWarpSpecialised<bf16, Smem<128, 4>, Smem<256, 4>, Wide, 4, 2>;
/// Tiles of 256 x 64 in three stages, two instructions of a warpgroup below each other, of a batch.
pub type TallLoop = TmaWarpSpecialised<bf16, Smem<256, 3>, Smem<64, 3>, Pair, 3, 1, 3>;
/// Tiles of 128 x 64 in three stages.
pub type PairLoop = TmaWarpSpecialised<bf16, Smem<128, 3>, Smem<64, 3>, Pair, 3>;
/// Tiles of 64 x 64 in three stages, by two warpgroups in turn, in clusters of two.
pub type TurnLoop = PingPong<TmaWarpSpecialised<bf16, Smem<64, 3>, Smem<64, 3>, Single, 3, 2>>;

/// How `L` loads A.
pub type LoadA<const ROWS: i64, const PIPE: i64, const R: usize = 2> =
    collective::LoadA<bf16, Smem<ROWS, PIPE>, R>;
/// How `L` loads B.
pub type LoadB<const ROWS: i64, const PIPE: i64, const R: usize = 2, const CLUSTER: u32 = 1> =
    collective::LoadB<bf16, Smem<ROWS, PIPE>, R, CLUSTER>;
/// C by TMA.
pub type Boxes = ThroughTma<bf16>;
/// C by threads.
pub type Rows<T> = ToGlobal<GlobalMut<T>, UnitStride<1>>;

/// `c = a b^T`, with the parts of the last step of `hopper-steps`.
///
/// # Safety
/// The maps are of matrices (M, K), (N, K) and (M, N) in memory of the device; the grid has
/// clusters of two.
#[kernel(threads = WideLoop::THREADS, min_blocks = 1, shared = StorageOf<WideLoop, Boxes>)]
pub unsafe fn cooperative(
    a: TmaMap<LoadA<128, 4>>,
    b: TmaMap<LoadB<256, 4, 2, 2>>,
    c: TmaMap<StoreC<bf16>>,
    m: u32,
    n: u32,
    k: u32,
) {
    let scheduler = Persistent::new(WideLoop::tiles((m, n, k), 1), WideLoop::worker(), 4);
    // SAFETY: the caller's contract.
    unsafe {
        let operands = (a.tensor(), b.tensor());
        gemm_warp_specialised::<WideLoop, _, _, _>(operands, scheduler, (), Boxes::new(c.tensor()));
    }
}

/// GELU, as an epilogue of this crate.
#[derive(Clone, Copy)]
pub struct Gelu;

impl Epilogue for Gelu {
    #[inline(always)]
    unsafe fn element(&self, x: f32, _: Coordinate) -> f32 {
        let t = 0.797_884_6 * (x + 0.044_715 * x * x * x);
        0.5 * x * (1.0 + math::fast::tanh(t))
    }
}

/// `c = gelu(alpha scales a b^T + bias)` of `batches` products, a block for each tile of 256 x 64.
///
/// # Safety
/// The maps are of tensors (M, K, batch) and (N, K, batch); `c` has row-major matrices, `scales`
/// and `bias` an element for each row and column.
#[kernel(threads = TallLoop::THREADS, min_blocks = 1, shared = StorageOf<TallLoop, Rows<f32>>)]
pub unsafe fn batched_gelu(
    a: TmaMap<LoadA<256, 3, 3>>,
    b: TmaMap<LoadB<64, 3, 3>>,
    c: GlobalMut<f32>,
    scales: Global<f32>,
    bias: Global<bf16>,
    m: u32,
    n: u32,
    k: u32,
    batches: u32,
) {
    let scheduler = OneTile::new(TallLoop::tiles((m, n, k), batches), TallLoop::worker(), 8);
    let c = Batches::new(c, (m, n), UnitStride(i64::from(n)), i64::from(m) * i64::from(n));
    // SAFETY: the caller's contract.
    unsafe {
        let epilogue =
            (Scale(0.5), Scales::of_rows(scales, m, i64::from(m)), Bias::of_columns(bias, n, 0), Gelu);
        let operands = (a.tensor(), b.tensor());
        gemm_warp_specialised::<TallLoop, _, _, _>(operands, scheduler, epilogue, Rows::new(c));
    }
}

/// `c = a b^T` by two warpgroups in turn.
///
/// # Safety
/// As [`cooperative`].
#[kernel(threads = TurnLoop::THREADS, min_blocks = 1, shared = StorageOf<TurnLoop, Boxes>)]
pub unsafe fn ping_pong(
    a: TmaMap<LoadA<64, 3>>,
    b: TmaMap<LoadB<64, 3, 2, 2>>,
    c: TmaMap<StoreC<bf16>>,
    m: u32,
    n: u32,
    k: u32,
) {
    let scheduler = Persistent::new(TurnLoop::tiles((m, n, k), 1), TurnLoop::worker(), 8);
    // SAFETY: the caller's contract.
    unsafe {
        let operands = (a.tensor(), b.tensor());
        gemm_warp_specialised::<TurnLoop, _, _, _>(operands, scheduler, (), Boxes::new(c.tensor()));
    }
}

macro_rules! split {
    ($($(#[$doc:meta])* $name:ident |$tiles:ident, $slices:ident, $workspace:ident| $scheduler:expr;)+) => { $(
        $(#[$doc])*
        ///
        /// # Safety
        /// The maps are of matrices (M, K) and (N, K), `c` has `m * n` elements; the workspace is
        /// as the scheduler says.
        #[kernel(threads = PairLoop::THREADS, min_blocks = 1, shared = StorageOf<PairLoop, Rows<f32>>)]
        pub unsafe fn $name(
            a: TmaMap<LoadA<128, 3>>,
            b: TmaMap<LoadB<64, 3>>,
            c: GlobalMut<f32>,
            partials: GlobalMut<u32>,
            counters: GlobalMut<u32>,
            m: u32,
            n: u32,
            k: u32,
            $slices: u32,
        ) {
            let ($tiles, $workspace) = (PairLoop::tiles((m, n, k), 1), Workspace { partials, counters });
            let _ = $slices;
            let c = Batches::new(c, (m, n), UnitStride(i64::from(n)), 0);
            // SAFETY: the caller's contract.
            unsafe {
                let operands = (a.tensor(), b.tensor());
                gemm_warp_specialised::<PairLoop, _, _, _>(operands, $scheduler, (), Rows::new(c));
            }
        }
    )+ };
}
split! {
    /// `c = a b^T`, K in `slices` slices.
    split_k |tiles, slices, workspace| SplitK::new(tiles, PairLoop::worker(), 8, slices, workspace);
    /// `c = a b^T`, K of the last tiles in equal shares.
    stream_k |tiles, slices, workspace| StreamK::new(tiles, PairLoop::worker(), 8, workspace);
}
