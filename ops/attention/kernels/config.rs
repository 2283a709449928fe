//! The shape of a kernel as a type: element, head sizes, tile, warps; and the layouts that follow
//! from it.

use super::softmax::SoftmaxPolicy;
use core::marker::PhantomData;
use half::{bf16, f16};
use moye_device::arch::{Convert, bf16_to_f32, e4m3x2_to_f16x2, f16_to_f32, f32x2_to_bf16x2, f32x2_to_f16x2};
use moye_device::atom::copy::{SM75_U16x8_LDSM_T, SM75_U32x4_LDSM_N};
use moye_device::atom::mma::{
    AddsInPlace, MmaAtom, SM80_16x8x16_F32BF16BF16F32_TN, SM80_16x8x16_F32F16F16F32_TN,
};
use moye_device::atom::wgmma::PackPair;
use moye_device::atom::{StaticTiledMma, TiledMma, make_tiled_copy_a, make_tiled_copy_b};
use moye_device::layout::{ComposedLayout, Swizzle};
use moye_device::memory::{Element, Global, SharedArray};
use moye_device::number::F8E4M3;
use moye_device::{layout, static_layout, swizzled_layout, tiled_copy, tiled_mma};

/// The element types of queries, keys and values. They are read from global memory two at a time.
pub trait Pairs: Element {
    /// Elements of results.
    type Result: Half;

    /// The values of elements `2 pair` and `2 pair + 1` of a row.
    ///
    /// # Safety
    /// They may be read; the row begins at a multiple of two elements.
    unsafe fn pair(row: Global<Self>, pair: i64) -> [f32; 2];

    /// The value of an element.
    fn widened(self) -> f32;
}

/// The element types of results, and of operands of 16 bits.
pub trait Half: Pairs + PackPair + Convert<f32> {
    /// The tensor-core instruction, f32 accumulators.
    type Atom: MmaAtom<C = f32> + AddsInPlace;

    /// Two values rounded to the nearest elements.
    fn round(low: f32, high: f32) -> [Self; 2];

    /// The values of the two elements in a word.
    fn unpack(word: u32) -> [f32; 2];
}

macro_rules! halves {
    ($($t:ty: $atom:ty, $widen:ident, $narrow:ident;)+) => { $(
        impl Half for $t {
            type Atom = $atom;

            #[inline(always)]
            fn round(low: f32, high: f32) -> [Self; 2] {
                let pair = $narrow(low, high);
                [pair.low(), pair.high()]
            }
            #[inline(always)]
            fn unpack(word: u32) -> [f32; 2] {
                [word as u16, (word >> 16) as u16].map(|bits| $widen(Self::from_bits(bits)))
            }
        }

        impl Pairs for $t {
            type Result = Self;

            #[inline(always)]
            unsafe fn pair(row: Global<Self>, pair: i64) -> [f32; 2] {
                Self::unpack(row.cast::<u32>().read(pair))
            }
            #[inline(always)]
            fn widened(self) -> f32 {
                self.convert()
            }
        }
    )+ };
}
halves! {
    bf16: SM80_16x8x16_F32BF16BF16F32_TN, bf16_to_f32, f32x2_to_bf16x2;
    f16: SM80_16x8x16_F32F16F16F32_TN, f16_to_f32, f32x2_to_f16x2;
}

impl Pairs for F8E4M3 {
    type Result = bf16;

    #[inline(always)]
    unsafe fn pair(row: Global<Self>, pair: i64) -> [f32; 2] {
        let halves = e4m3x2_to_f16x2(row.cast::<u16>().read(pair));
        [f16_to_f32(halves.low()), f16_to_f32(halves.high())]
    }
    #[inline(always)]
    fn widened(self) -> f32 {
        f16_to_f32(e4m3x2_to_f16x2(self.to_bits().into()).low())
    }
}

/// The tiles and options of a kernel.
pub trait TileConfig: Copy + 'static {
    /// Elements of Q, K and V.
    type Operand: Pairs;
    /// Columns of a head of queries and keys.
    const D: i64;
    /// Columns of a head of values and results, at most `D`.
    const DV: i64;
    /// Query rows of a block's tile.
    const BLK_M: u32;
    /// Keys of a tile.
    const BLK_N: u32;
    /// Whether the kernel changes individual scores: soft cap, ALiBi, bias and mask.
    const GENERAL: bool;
    /// Whether it looks up keys by pages, where sequences are of any lengths.
    const PAGED: bool;
    /// Whether the hyperbolic tangent of a soft cap is `tanh.approx`, within 2^-11.
    const APPROXIMATE_TANH: bool;
}

/// The shape of a kernel by `mma.sync`. A [general](TileConfig::GENERAL) kernel loads keys by
/// pages.
pub trait MmaConfig: TileConfig<Operand: Half> {
    /// Warps of a group, stacked along the rows.
    const WARPS: i64;
    /// Groups of warps: each computes all rows over every `GROUPS`-th tile of keys. Where there are
    /// several, each group is one warp.
    const GROUPS: i64;

    /// Threads of a group.
    const GROUP_THREADS: u32 = 32 * Self::WARPS as u32;
    /// Threads of a block.
    const THREADS: u32 = Self::GROUP_THREADS * Self::GROUPS as u32;
    /// Blocks of 16 rows per warp.
    const BLOCKS: usize = (Self::BLK_M as i64 / (16 * Self::WARPS)) as usize;
    /// Whether the softmax state of a thread's four rows is in shared memory between two tiles of
    /// keys: registers are scarce, and `ptxas` would move accumulators back and forth.
    const SPARE: bool = !Self::GENERAL && Self::BLOCKS == 2;
    /// The softmax.
    const SOFTMAX: SoftmaxPolicy = SoftmaxPolicy { any: Self::GENERAL, slack: None, offset: 0, sums: true };
}

/// A [`MmaConfig`] by its parameters: `D` and `DV`, rows and keys of a tile, and whether it is
/// general. A tile of 16 rows has one warp in each group, others have one group of four warps.
#[derive(Clone, Copy)]
pub struct Shape<T, const D: i64, const DV: i64, const ROWS: i64, const KEYS: i64, const GENERAL: bool>(
    PhantomData<T>,
);

impl<T: Half, const D: i64, const DV: i64, const M: i64, const N: i64, const GENERAL: bool> TileConfig
    for Shape<T, D, DV, M, N, GENERAL>
{
    type Operand = T;
    const D: i64 = D;
    const DV: i64 = {
        assert!(
            DV <= D && D % 16 == 0 && DV % 16 == 0,
            "heads are multiples of 16 columns, those of V no larger"
        );
        DV
    };
    const BLK_M: u32 = {
        assert!(M % (16 * Self::WARPS) == 0, "a warp has a multiple of 16 rows");
        M as u32
    };
    const BLK_N: u32 = {
        assert!(N % 32 == 0, "a tile has a multiple of 32 keys");
        N as u32
    };
    const GENERAL: bool = GENERAL;
    const PAGED: bool = GENERAL;
    const APPROXIMATE_TANH: bool = false;
}

impl<T: Half, const D: i64, const DV: i64, const M: i64, const N: i64, const GENERAL: bool> MmaConfig
    for Shape<T, D, DV, M, N, GENERAL>
{
    const WARPS: i64 = if M == 16 { 1 } else { 4 };
    // Each group has tiles of K and V in shared memory.
    const GROUPS: i64 = match M {
        16 if D < 192 => 4,
        16 => 2,
        _ => 1,
    };
}

/// Columns of a tile in one row of shared memory: rows of 128 or 64 bytes, which a swizzle spreads
/// over the banks. 0: a row holds all columns, padded by 16 bytes to an odd multiple of 16 bytes.
pub const fn piece(columns: i64) -> u32 {
    if columns % 64 == 0 {
        64
    } else if columns % 32 == 0 {
        32
    } else {
        0
    }
}

/// The swizzle of rows of `piece` columns; 0 stands for padded rows.
pub const fn swizzle_of_piece(piece: u32) -> Swizzle {
    match piece {
        64 => Swizzle::new(3, 3, 3),
        32 => Swizzle::new(2, 3, 3),
        16 => Swizzle::new(1, 3, 3),
        _ => Swizzle::NONE,
    }
}

/// `(rows, columns, stages)` in shared memory, as consecutive pieces.
const fn rows_of(rows: i64, columns: i64, stages: i64) -> ComposedLayout {
    let (swizzle, piece) = (swizzle_of_piece(piece(columns)), piece(columns) as i64);
    let layout = if piece == 0 {
        let pitch = columns + 8;
        layout!((rows, columns, stages):(pitch, 1, { rows * pitch }))
    } else {
        layout!((rows, (piece, { columns / piece }), stages):(piece, (1, { rows * piece }), { rows * columns }))
    };
    ComposedLayout::new(swizzle, 0, layout)
}

/// A single stage, `(rows, columns)`.
const fn tile_of(rows: u32, columns: i64) -> ComposedLayout {
    let ComposedLayout { layout, swizzle, .. } = rows_of(rows as i64, columns, 1);
    ComposedLayout::new(swizzle, 0, layout.take(0, 2))
}

static_layout! {
    /// A tile of scores, (BLK_M, BLK_N).
    pub TileS<C: MmaConfig> = layout!(({ C::BLK_M as i64 }, { C::BLK_N as i64 }));
    /// A tile of results, (BLK_M, DV).
    pub TileO<C: MmaConfig> = layout!(({ C::BLK_M as i64 }, { C::DV }));
    /// The softmax state of each thread, (word, thread, half), where it is in shared memory.
    pub SmemSoftmax<C: MmaConfig> = layout!((4, { if C::SPARE { C::THREADS as i64 } else { 1 } }, 2));
}
swizzled_layout! {
    /// Queries, (BLK_M, D).
    pub SmemQ<C: MmaConfig> = tile_of(C::BLK_M, C::D);
    /// Keys, (BLK_N, D, GROUPS).
    pub SmemK<C: MmaConfig> = rows_of(C::BLK_N as i64, C::D, C::GROUPS);
    /// Values, (BLK_N, DV, GROUPS).
    pub SmemV<C: MmaConfig> = rows_of(C::BLK_N as i64, C::DV, C::GROUPS);
    /// Values as the operand B of P V, (DV, BLK_N, GROUPS): the same memory.
    pub SmemVt<C: MmaConfig> =
        ComposedLayout::new(SmemV::<C>::SWIZZLE, 0, SmemV::<C>::LAYOUT.select(&[1, 0, 2]));
    /// Results, (BLK_M, DV), in the memory of the queries.
    pub SmemO<C: MmaConfig> = tile_of(C::BLK_M, C::DV);
}

/// Shared-memory storage of a block.
pub type Storage<C> = (
    SharedArray<ElementOf<C>, SmemQ<C>>,
    SharedArray<ElementOf<C>, SmemK<C>>,
    SharedArray<ElementOf<C>, SmemV<C>>,
    SharedArray<u32, SmemSoftmax<C>>,
);

/// The element type of a configuration.
pub type ElementOf<C> = <C as TileConfig>::Operand;

tiled_mma! {
    /// The warps of a group along the rows, two atoms along the columns at a time.
    pub Mma<C: MmaConfig>: TiledMma<<C::Operand as Half>::Atom> =
        TiledMma::tiled(layout!(({ C::WARPS }, 1, 1)), [16 * C::WARPS, 16, 16]);
}
tiled_copy! {
    /// Queries from shared memory to registers.
    pub ReadQ<C: MmaConfig>: TiledCopy<SM75_U32x4_LDSM_N, C::Operand> = make_tiled_copy_a(&Mma::<C>::MMA);
    /// Keys from shared memory to registers.
    pub ReadK<C: MmaConfig>: TiledCopy<SM75_U32x4_LDSM_N, C::Operand> = make_tiled_copy_b(&Mma::<C>::MMA);
    /// Values from shared memory to registers, transposed.
    pub ReadV<C: MmaConfig>: TiledCopy<SM75_U16x8_LDSM_T, C::Operand> = make_tiled_copy_b(&Mma::<C>::MMA);
}
