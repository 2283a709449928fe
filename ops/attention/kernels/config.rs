//! The shape of a kernel as a type: element, head sizes, tile, warps; and the layouts that follow
//! from it.

use super::recompute::Pairs;
use super::softmax::SoftmaxPolicy;
use core::marker::PhantomData;
use half::{bf16, f16};
use moye_device::arch::{Convert, bf16_to_f32, f16_to_f32, f32x2_to_bf16x2, f32x2_to_f16x2};
use moye_device::atom::copy::{SM75_U16x8_LDSM_T, SM75_U32x4_LDSM_N};
use moye_device::atom::mma::{
    AddsInPlace, MmaAtom, SM80_16x8x16_F32BF16BF16F32_TN, SM80_16x8x16_F32F16F16F32_TN,
};
use moye_device::atom::{
    StaticTiledCopy, StaticTiledMma, TiledCopy, TiledMma, make_tiled_copy_a, make_tiled_copy_b,
};
use moye_device::layout;
use moye_device::layout::{IntTuple, Layout, Swizzle};
use moye_device::memory::SharedArray;
use moye_device::tensor::StaticLayout;

/// The element types of queries, keys and values.
pub trait Half: Pairs + Convert<f32> {
    /// The tensor-core instruction, f32 accumulators.
    type Atom: MmaAtom<C = f32> + AddsInPlace;

    /// Two values rounded to the nearest elements.
    fn pack(low: f32, high: f32) -> [Self; 2];

    /// The values of the two elements in a word.
    fn unpack(word: u32) -> [f32; 2];

    /// A word of two values rounded to the nearest elements, the first in the lower half.
    fn pack_word(low: f32, high: f32) -> u32;
}

impl Half for bf16 {
    type Atom = SM80_16x8x16_F32BF16BF16F32_TN;

    #[inline(always)]
    fn pack(low: f32, high: f32) -> [Self; 2] {
        let pair = f32x2_to_bf16x2(low, high);
        [pair.low(), pair.high()]
    }
    #[inline(always)]
    fn unpack(word: u32) -> [f32; 2] {
        [word as u16, (word >> 16) as u16].map(|bits| bf16_to_f32(Self::from_bits(bits)))
    }
    #[inline(always)]
    fn pack_word(low: f32, high: f32) -> u32 {
        f32x2_to_bf16x2(low, high).to_bits()
    }
}

impl Half for f16 {
    type Atom = SM80_16x8x16_F32F16F16F32_TN;

    #[inline(always)]
    fn pack(low: f32, high: f32) -> [Self; 2] {
        let pair = f32x2_to_f16x2(low, high);
        [pair.low(), pair.high()]
    }
    #[inline(always)]
    fn unpack(word: u32) -> [f32; 2] {
        [word as u16, (word >> 16) as u16].map(|bits| f16_to_f32(Self::from_bits(bits)))
    }
    #[inline(always)]
    fn pack_word(low: f32, high: f32) -> u32 {
        f32x2_to_f16x2(low, high).to_bits()
    }
}

/// The tiles of a kernel, and what it does with them.
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

/// A [`MmaConfig`] by its parameters: `D` and `DV`, rows and keys of a tile, warps and groups, and
/// whether it is general.
#[derive(Clone, Copy)]
pub struct Shape<
    T,
    const D: i64,
    const DV: i64,
    const ROWS: i64,
    const KEYS: i64,
    const WARPS: i64,
    const GROUPS: i64,
    const GENERAL: bool,
>(PhantomData<T>);

impl<
    T,
    const D: i64,
    const DV: i64,
    const M: i64,
    const N: i64,
    const W: i64,
    const G: i64,
    const GENERAL: bool,
> TileConfig for Shape<T, D, DV, M, N, W, G, GENERAL>
where
    T: Half,
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
        assert!(M % (16 * W) == 0, "a warp has a multiple of 16 rows");
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

impl<
    T,
    const D: i64,
    const DV: i64,
    const M: i64,
    const N: i64,
    const W: i64,
    const G: i64,
    const GENERAL: bool,
> MmaConfig for Shape<T, D, DV, M, N, W, G, GENERAL>
where
    T: Half,
{
    const WARPS: i64 = W;
    const GROUPS: i64 = {
        assert!(G == 1 || W == 1, "several groups are of one warp each");
        G
    };
}

/// Columns of a tile in one row of shared memory: rows of 128 or 64 bytes, which a swizzle spreads
/// over the banks. 0: a row holds all columns, padded by 16 bytes to an odd multiple of 16 bytes.
pub const fn piece(columns: i64) -> i64 {
    if columns % 64 == 0 {
        64
    } else if columns % 32 == 0 {
        32
    } else {
        0
    }
}

/// The swizzle of a tile with this many columns.
pub const fn swizzle(columns: i64) -> Swizzle {
    swizzle_of_piece(piece(columns))
}

/// The swizzle of rows of `piece` columns; 0 stands for padded rows.
pub const fn swizzle_of_piece(piece: i64) -> Swizzle {
    match piece {
        64 => Swizzle::new(3, 3, 3),
        32 => Swizzle::new(2, 3, 3),
        16 => Swizzle::new(1, 3, 3),
        _ => Swizzle::NONE,
    }
}

/// `(rows, columns, stages)` in shared memory, as consecutive pieces.
const fn rows_of(rows: i64, columns: i64, stages: i64) -> Layout {
    let piece = piece(columns);
    if piece == 0 {
        let pitch = columns + 8;
        return Layout::new(
            IntTuple::flat(&[rows, columns, stages]),
            IntTuple::flat(&[pitch, 1, rows * pitch]),
        );
    }
    layout!((rows, (piece, { columns / piece }), stages):(piece, (1, { rows * piece }), { rows * columns }))
}

/// The same memory with rows and columns exchanged.
const fn columns_of(rows: i64, columns: i64, stages: i64) -> Layout {
    let layout = rows_of(rows, columns, stages);
    Layout::concat(&[layout.mode(1), layout.mode(0), layout.mode(2)])
}

macro_rules! layouts {
    ($($(#[$doc:meta])* $name:ident<$c:ident> = $layout:expr $(, $swizzle:expr)?;)+) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub struct $name<C>(PhantomData<C>);

        impl<$c: MmaConfig> StaticLayout for $name<$c> {
            const LAYOUT: Layout = $layout;
            $(const SWIZZLE: Swizzle = $swizzle;)?
        }
    )+ };
}
layouts! {
    /// A tile of scores, (BLK_M, BLK_N).
    TileS<C> = layout!(({ C::BLK_M as i64 }, { C::BLK_N as i64 }));
    /// A tile of results, (BLK_M, DV).
    TileO<C> = layout!(({ C::BLK_M as i64 }, { C::DV }));
    /// Queries, (BLK_M, D).
    SmemQ<C> = rows_of(C::BLK_M as i64, C::D, 1).take(0, 2), swizzle(C::D);
    /// Keys, (BLK_N, D, GROUPS).
    SmemK<C> = rows_of(C::BLK_N as i64, C::D, C::GROUPS), swizzle(C::D);
    /// Values, (BLK_N, DV, GROUPS).
    SmemV<C> = rows_of(C::BLK_N as i64, C::DV, C::GROUPS), swizzle(C::DV);
    /// Values as the operand B of P V, (DV, BLK_N, GROUPS): the same memory.
    SmemVt<C> = columns_of(C::BLK_N as i64, C::DV, C::GROUPS), swizzle(C::DV);
    /// Results, (BLK_M, DV), in the memory of the queries.
    SmemO<C> = rows_of(C::BLK_M as i64, C::DV, 1).take(0, 2), swizzle(C::DV);
    /// The softmax state of each thread, (word, thread, half), where it is in shared memory.
    SmemSoftmax<C> = layout!((4, { if C::SPARE { C::THREADS as i64 } else { 1 } }, 2));
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

macro_rules! marker {
    ($($(#[$doc:meta])* $name:ident)+) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub struct $name<C>(PhantomData<C>);

        impl<C> Default for $name<C> {
            fn default() -> Self {
                Self(PhantomData)
            }
        }
    )+ };
}
marker! {
    /// The warps of a group along the rows, two atoms along the columns at a time.
    Mma
    /// Queries from shared memory to registers.
    ReadQ
    /// Keys from shared memory to registers.
    ReadK
    /// Values from shared memory to registers, transposed.
    ReadV
}

impl<C: MmaConfig> StaticTiledMma for Mma<C> {
    type Atom = <C::Operand as Half>::Atom;
    const MMA: TiledMma<Self::Atom> = TiledMma::tiled(layout!(({ C::WARPS }, 1, 1)), [16 * C::WARPS, 16, 16]);
}
macro_rules! copies {
    ($($name:ident $atom:ty = $copy:ident;)+) => { $(
        impl<C: MmaConfig> StaticTiledCopy for $name<C> {
            type Atom = $atom;
            type Element = C::Operand;
            const COPY: TiledCopy<$atom, C::Operand> = $copy(&Mma::<C>::MMA);
        }
    )+ };
}
copies! {
    ReadQ SM75_U32x4_LDSM_N = make_tiled_copy_a;
    ReadK SM75_U32x4_LDSM_N = make_tiled_copy_b;
    ReadV SM75_U16x8_LDSM_T = make_tiled_copy_b;
}
