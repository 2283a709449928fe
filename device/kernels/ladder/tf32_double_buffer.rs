//! Step 6, third part: the double buffer of step 5 on tensor cores, 128 x 128 x 16 a block, four warps two by two, each with
//! 64 x 64 of C.
//!
//! The permutation `(32, 32, 8)` gives each warp two neighbouring atoms along M and N at a time, as many as one `ldmatrix` of
//! four matrices fills.
//!
//! Where M is A's fast axis there is no row for `ldmatrix` to read, and the tiled copy made of the product goes element by
//! element; columns are padded by 8, so that the 4 columns of a request lie in different banks (without, all four meet).
//! Where K is fast, rows of 64 bytes are swizzled by two bits for `ldmatrix`.

use super::config::{Fragments, Tiling, entry};
use super::double_buffer::double_buffered;
use super::overlapped::Async;
use super::tiled::TileC;
use moye_device::atom::copy::{SM75_U32x4_LDSM_N, SM80_CP_ASYNC_CACHEALWAYS, UniversalCopy};
use moye_device::atom::mma::SM80_16x8x8_F32TF32TF32F32_TN;
use moye_device::atom::{StaticTiledMma, TiledCopy, TiledMma, make_tiled_copy_a, make_tiled_copy_b};
use moye_device::layout::{ComposedLayout, Swizzle, layout, tuple};
use moye_device::tensor::{Aligned, UnitStride};
use moye_device::{static_layout, swizzled_layout, tiled_copy, tiled_mma};

static_layout! {
    /// A block's tile of A, (BLK_M, BLK_K), and of B, (BLK_N, BLK_K).
    pub TileAb = layout!((128, 16));
    /// An operand whose M or N is fast in shared memory, (BLK_M, BLK_K, PIPE).
    pub SmemAlongM = layout!((128, 16, 2):(1, 136, 2176));
}
/// Rows of 16 numbers, 64 bytes, two a line of banks; their 16-byte pieces are exchanged by the line's number modulo 4.
const ROWS: ComposedLayout = ComposedLayout::new(Swizzle::new(2, 2, 3), 0, layout!((8, 16):(16, 1)));
swizzled_layout! {
    /// An operand whose K is fast in shared memory, (BLK_N, BLK_K, PIPE).
    pub SmemAlongK = ROWS.tile_to_shape(tuple!((128, 16, 2)));
}
tiled_mma! {
    /// Four warps, two by two.
    pub Mma: TiledMma<SM80_16x8x8_F32TF32TF32F32_TN> = TiledMma::tiled(layout!((2, 2, 1):(2, 1, 1)), [32, 32, 8]);
}
tiled_copy! {
    /// 16 x 8 threads, four neighbours along M each.
    pub LoadAlongM: TiledCopy<SM80_CP_ASYNC_CACHEALWAYS<u128>, f32> = TiledCopy::new(layout!((16, 8)), layout!((4, 1)));
    /// 32 x 4 threads, four neighbours along K each.
    pub LoadAlongK: TiledCopy<SM80_CP_ASYNC_CACHEALWAYS<u128>, f32> = TiledCopy::new(layout!((32, 4):(4, 1)), layout!((1, 4)));
    /// A, an element at a time.
    pub ReadAAlongM: TiledCopy<UniversalCopy<f32>, f32> = make_tiled_copy_a(&Mma::MMA);
    /// A, four matrices of 8 x 4 at a time: an atom's.
    pub ReadAAlongK: TiledCopy<SM75_U32x4_LDSM_N, f32> = make_tiled_copy_a(&Mma::MMA);
    /// B, four matrices of 8 x 4 at a time: those of two atoms.
    pub ReadB: TiledCopy<SM75_U32x4_LDSM_N, f32> = make_tiled_copy_b(&Mma::MMA);
}

// What tiles without padding or swizzle would cost: four words of each bank at a time.
const PLAIN_A: ComposedLayout = ComposedLayout::plain(layout!((128, 16, 2)));
const PLAIN_B: ComposedLayout = ComposedLayout::plain(layout!((128, 16, 2):(16, 1, 2048)));
const READ_A: TiledCopy<UniversalCopy<f32>, f32> = make_tiled_copy_a(&Mma::MMA);
const READ_B: TiledCopy<SM75_U32x4_LDSM_N, f32> = make_tiled_copy_b(&Mma::MMA);
const _: () = assert!(READ_A.access_s(PLAIN_A).conflict_degree() == 4);
const _: () = assert!(READ_B.access_s(PLAIN_B).conflict_degree() == 4);

/// The tilings, which differ in A.
macro_rules! tf32 {
    ($(#[$doc:meta])* $name:ident: $strides:ty, $smem:ty, $load:ty, $read:ty) => {
        $(#[$doc])*
        pub struct $name;

        impl Tiling for $name {
            type StridesA = $strides;
            type StridesB = Aligned<UnitStride<1>, 16>;
            type TileA = TileAb;
            type TileB = TileAb;
            type TileC = TileC;
            type SmemA = $smem;
            type SmemB = SmemAlongK;
            type LoadA = $load;
            type LoadB = LoadAlongK;
            type Sums = [f32; 4];
            type Mma = Mma;
        }

        impl Fragments for $name {
            type ReadA = $read;
            type ReadB = ReadB;
        }

        impl Async for $name {}
    };
}
tf32! {
    /// The tiling where M is A's fast axis.
    Tf32Nn: Aligned<UnitStride<0>, 16>, SmemAlongM, LoadAlongM, ReadAAlongM
}
tf32! {
    /// The tiling where K is A's fast axis.
    Tf32Tn: Aligned<UnitStride<1>, 16>, SmemAlongK, LoadAlongK, ReadAAlongK
}

entry! {
    /// Step 6, the double buffer: `c = a * b` in tf32 with `a` as `(m, k)`, M its fast axis, `b` as `(n, k)`, K its fast axis,
    /// and `c` as `(m, n)`, M its fast axis; a block of 128 threads for each tile of 128 x 128, grid
    /// `(ceil(m / 128), ceil(n / 128))`.
    ladder_tf32_nn = double_buffered::<Tf32Nn>, threads = 128, min_blocks = 2,
    "`a`, `b`, `lda` and `ldb` are multiples of 16 bytes, 4 elements."
}
entry! {
    /// As [`ladder_tf32_nn`], with an `a` whose K is the fast axis.
    ladder_tf32_tn = double_buffered::<Tf32Tn>, threads = 128, min_blocks = 2,
    "`a`, `b`, `lda` and `ldb` are multiples of 16 bytes, 4 elements."
}
