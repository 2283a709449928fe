//! Step 6, second part: `ldmatrix`. One instruction reads what four loads of each lane did, and hands the elements to the lanes
//! that the product wants them in.
//!
//! Which lanes those are follows from the product: [`make_tiled_copy_a`] turns the tiled MMA into the tiled copy that serves
//! it, `partition_s` cuts shared memory for it, and `retile_d` shows it the product's fragments in its own modes.
//!
//! `ldmatrix` reads rows of 16 consecutive bytes, so K is the fast axis of both operands here. Rows of 8 elements, 32 bytes,
//! would meet in the banks, four rows of a matrix in half of them; a swizzle of one bit exchanges the halves of rows 4 to 7,
//! and neither `cp.async` nor `ldmatrix` has a conflict.

use super::config::{Fragments, Tiling, entry};
use super::overlapped::{Async, overlapped};
use super::tf32_tile::{LoadB, Mma, TileA, TileB, TileC};
use moye_device::atom::copy::{SM75_U32x2_LDSM_N, SM75_U32x4_LDSM_N, SM80_CP_ASYNC_CACHEALWAYS};
use moye_device::atom::{StaticTiledMma, TiledCopy, make_tiled_copy_a, make_tiled_copy_b};
use moye_device::layout::{ComposedLayout, Swizzle, layout};
use moye_device::tensor::{Aligned, UnitStride};
use moye_device::{swizzled_layout, tiled_copy};

swizzled_layout! {
    /// A in shared memory, (BLK_M, BLK_K).
    pub SmemA = ComposedLayout::new(Swizzle::new(1, 2, 3), 0, layout!((16, 8):(8, 1)));
    /// B in shared memory, (BLK_N, BLK_K).
    pub SmemB = ComposedLayout::new(Swizzle::new(1, 2, 3), 0, layout!((8, 8):(8, 1)));
}
tiled_copy! {
    /// 16 x 2 threads, four neighbours along K each.
    pub LoadA: TiledCopy<SM80_CP_ASYNC_CACHEALWAYS<u128>, f32> = TiledCopy::new(layout!((16, 2):(2, 1)), layout!((1, 4)));
    /// Four matrices of 8 x 4: all of the atom's A.
    pub ReadA: TiledCopy<SM75_U32x4_LDSM_N, f32> = make_tiled_copy_a(&Mma::MMA);
    /// Two matrices of 8 x 4: all of the atom's B.
    pub ReadB: TiledCopy<SM75_U32x2_LDSM_N, f32> = make_tiled_copy_b(&Mma::MMA);
}

// Without the swizzle each of A's four matrices would be read in two turns instead of one.
const PLAIN: ComposedLayout = ComposedLayout::plain(layout!((16, 8):(8, 1)));
const READ_A: TiledCopy<SM75_U32x4_LDSM_N, f32> = make_tiled_copy_a(&Mma::MMA);
const _: () = assert!(READ_A.access_s(PLAIN).conflict_degree() == 2);

/// The tiling of one tile by `ldmatrix`.
pub struct Tf32Ldmatrix;

impl Tiling for Tf32Ldmatrix {
    type StridesA = Aligned<UnitStride<1>, 16>;
    type StridesB = Aligned<UnitStride<1>, 8>;
    type TileA = TileA;
    type TileB = TileB;
    type TileC = TileC;
    type SmemA = SmemA;
    type SmemB = SmemB;
    type LoadA = LoadA;
    type LoadB = LoadB;
    type Sums = [f32; 4];
    type Mma = Mma;
}

impl Fragments for Tf32Ldmatrix {
    type ReadA = ReadA;
    type ReadB = ReadB;
}

impl Async for Tf32Ldmatrix {}

entry! {
    /// Step 6, `ldmatrix`: `c = a * b` in tf32 with `a` as `(m, k)` and `b` as `(n, k)`, K the fast axis of both, and `c` as
    /// `(m, n)`, M its fast axis; a warp for each tile of 16 x 8, grid `(ceil(m / 16), ceil(n / 8))`.
    ladder_tf32_ldmatrix = overlapped::<Tf32Ldmatrix>, threads = 32, min_blocks = 1,
    "`a` and `lda` are multiples of 16 bytes, 4 elements, `b` and `ldb` of 8 bytes, 2 elements."
}
