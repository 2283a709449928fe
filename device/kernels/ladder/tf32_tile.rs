//! Step 6, first part: tensor cores. The kernel of step 4 with another [`TiledMma`]: one warp, one tile of 16 x 8, by
//! `mma.sync` of 8 elements along K.
//!
//! The numbers are f32, of which the instruction takes the upper 19 bits (tf32) and sums in f32.
//!
//! Tiles lie in shared memory without padding. The reads pay for it: a warp's request for A has 8 neighbours of 4 columns
//! that are 16 apart, for B 8 rows that are 8 apart with 4 neighbours each, so that two words meet in each bank. The next
//! part does away with it.

use super::config::{Fragments, Tiling, entry};
use super::overlapped::{Async, overlapped};
use moye_device::atom::copy::{SM80_CP_ASYNC_CACHEALWAYS, UniversalCopy};
use moye_device::atom::mma::SM80_16x8x8_F32TF32TF32F32_TN;
use moye_device::atom::{StaticTiledMma, TiledCopy, TiledMma, make_tiled_copy_a, make_tiled_copy_b};
use moye_device::layout::layout;
use moye_device::tensor::{Aligned, UnitStride};
use moye_device::{static_layout, tiled_copy, tiled_mma};

static_layout! {
    /// A block's tile of A, (BLK_M, BLK_K).
    pub TileA = layout!((16, 8));
    /// A block's tile of B, (BLK_N, BLK_K).
    pub TileB = layout!((8, 8));
    /// A block's tile of C, (BLK_M, BLK_N).
    pub TileC = layout!((16, 8));
    /// A in shared memory, (BLK_M, BLK_K): M is fast, as in the matrix.
    pub SmemA = layout!((16, 8):(1, 16));
    /// B in shared memory, (BLK_N, BLK_K): K is fast, as in the matrix.
    pub SmemB = layout!((8, 8):(8, 1));
}
tiled_mma! {
    /// One warp, one atom.
    pub Mma: TiledMma<SM80_16x8x8_F32TF32TF32F32_TN> = TiledMma::new(layout!((1, 1, 1)));
}
tiled_copy! {
    /// 4 x 8 threads, four neighbours along M each.
    pub LoadA: TiledCopy<SM80_CP_ASYNC_CACHEALWAYS<u128>, f32> = TiledCopy::new(layout!((4, 8)), layout!((4, 1)));
    /// 8 x 4 threads, two neighbours along K each.
    pub LoadB: TiledCopy<SM80_CP_ASYNC_CACHEALWAYS<u64>, f32> = TiledCopy::new(layout!((8, 4):(4, 1)), layout!((1, 2)));
    /// An element at a time.
    pub ReadA: TiledCopy<UniversalCopy<f32>, f32> = make_tiled_copy_a(&Mma::MMA);
    /// An element at a time.
    pub ReadB: TiledCopy<UniversalCopy<f32>, f32> = make_tiled_copy_b(&Mma::MMA);
}

/// The tiling of one tile.
pub struct Tf32Tile;

impl Tiling for Tf32Tile {
    type StridesA = Aligned<UnitStride<0>, 16>;
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

impl Fragments for Tf32Tile {
    type ReadA = ReadA;
    type ReadB = ReadB;
}

impl Async for Tf32Tile {
    const CONFLICTS: u32 = 2;
}

entry! {
    /// Step 6, one tile: `c = a * b` in tf32 with `a` as `(m, k)`, M its fast axis, `b` as `(n, k)`, K its fast axis, and `c` as
    /// `(m, n)`, M its fast axis; a warp for each tile of 16 x 8, grid `(ceil(m / 16), ceil(n / 8))`.
    ladder_tf32_tile = overlapped::<Tf32Tile>, threads = 32, min_blocks = 1,
    "`a` and `lda` are multiples of 16 bytes, 4 elements, `b` and `ldb` of 8 bytes, 2 elements."
}
