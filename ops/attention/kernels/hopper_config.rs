//! The shape of a Hopper kernel as a type: element, head size, tile of keys, warpgroups; and the
//! layouts that follow from it.

use super::config::Half;
use super::recompute::Pairs;
use core::marker::PhantomData;
use half::{bf16, f16};
use moye_device::arch::{decrease_registers, increase_registers, opaque};
use moye_device::atom::copy::SM90_U32x4_STSM_N;
use moye_device::atom::tma::TmaCopy;
use moye_device::atom::wgmma::*;
use moye_device::atom::{StaticTiledCopy, StaticTiledMma, TiledCopy, TiledMma, make_tiled_copy_c};
use moye_device::layout;
use moye_device::layout::{
    ComposedLayout, IntTuple, Layout, Major, Swizzle, SwizzleBytes, shared_memory_atom,
};
use moye_device::memory::SharedArray;
use moye_device::pipeline::{PipelineStorage, Readers, Warps};
use moye_device::tensor::{Fixed, Kept, OneStage, SliceOf, StaticLayout};

/// Threads of a warpgroup.
pub const WARPGROUP: u32 = 128;
/// Stages of K, and of V.
pub const STAGES: u32 = 2;
/// Keys of a box of the kernels for pages and variable lengths.
pub const BOX: u32 = 64;
/// Keys of a box where pages are smaller than [`BOX`]: the page size is a multiple of it.
pub const SMALL_BOX: u32 = 16;

/// The configuration of a kernel.
pub trait Config: Copy + Default + Send + Sync + 'static {
    /// The element of O and, except in the kernels for 8-bit floats, of Q, K and V.
    type T: PackPair + Half + Pairs;
    /// Columns of a head of queries and keys.
    const D: i64;
    /// Columns of a head of values and results. Where they differ from `D`, O has no separate
    /// tiles.
    const DV: i64 = Self::D;
    /// Keys of a tile.
    const BLK_N: u32;
    /// Consumer warpgroups, with 64 rows of queries each.
    const WARPGROUPS: u32;
    /// Whether warpgroups issue their products in turn.
    const TURNS: bool = true;
    /// How far, in powers of two, a row's maximum may grow before the accumulator is rescaled. P is
    /// at most `2^SLACK`, well within the range of f16.
    const SLACK: f32 = 8.0;
    /// Whether O has separate tiles in shared memory. Otherwise the persistent kernel stores it
    /// from registers, and the kernel for variable lengths through the tiles of Q.
    const SEPARATE_O: bool = true;
    /// Whether addresses and tile numbers are recomputed at each use, since registers are too few
    /// to keep them.
    const RECOMPUTES: bool = false;
    /// Whether the kernel changes individual scores: soft cap, ALiBi, bias and mask.
    const GENERAL: bool = false;
    /// Whether the bias or the mask of a tile of keys is loaded during the products of the previous
    /// tile, which takes registers.
    const AHEAD: bool = true;
    /// Tiles of Q, and of O where they are separate.
    const TILES_Q: u32 = if Self::SEPARATE_O { 2 } else { 1 } * Self::WARPGROUPS;
    /// Threads of a block: the consumers' and the producer's.
    const THREADS: u32 = (Self::WARPGROUPS + 1) * WARPGROUP;
    /// `S = Q K^T` of a warpgroup: 64 x BLK_N, both operands in shared memory.
    type Qk: StaticTiledMma<Atom: WgmmaAtom<OperandA = u64, D = f32>>;
    /// `O = P V` of a warpgroup: 64 x DV, P in registers.
    type Pv: StaticTiledMma<Atom: WgmmaAtom<OperandA = [u32; 4], D = f32>>;
    /// O to shared memory.
    type StoreO: StaticTiledCopy<Atom = SM90_U32x4_STSM_N, Element = Self::T>;

    /// Registers of a thread of a consumer, and of the producer: a multiple of 8 from 24 to 240, or
    /// 0 for the registers that the block starts with.
    const REGISTERS: [u32; 2];
}

/// Calls `$set` with a literal as its const argument, since a trait's constant cannot be one.
macro_rules! set_registers {
    ($set:ident, $registers:expr) => {
        set_registers!(@one_of $set, $registers,
            24 32 40 48 56 64 72 80 88 96 104 112 120 128 136 144 152 160 168 176 184 192 200 208 216 224 232 240)
    };
    (@one_of $set:ident, $registers:expr, $($number:literal)+) => {
        match const { checked($registers) } {
            $($number => $set::<$number>(),)+
            _ => {}
        }
    };
}

/// Checks a register count of [`Config::REGISTERS`].
const fn checked(registers: u32) -> u32 {
    assert!(
        registers == 0 || registers >= 24 && registers <= 240 && registers.is_multiple_of(8),
        "a thread has 24 to 240 registers, a multiple of 8, or 0: what the block starts with"
    );
    registers
}

/// Claims the registers of a consumer, which the producer has released.
///
/// # Safety
/// Same contract as [`increase_registers`].
#[inline(always)]
pub unsafe fn take_registers<C: Config>() {
    set_registers!(increase_registers, C::REGISTERS[0]);
}

/// Releases the registers that the producer does not need.
///
/// # Safety
/// Same contract as [`decrease_registers`].
#[inline(always)]
pub unsafe fn give_registers<C: Config>() {
    set_registers!(decrease_registers, C::REGISTERS[1]);
}

/// `value`; with [`Config::RECOMPUTES`] the compiler recomputes what depends on it at each use.
#[inline(always)]
pub fn recomputed<C: Config>(value: u32) -> u32 {
    if C::RECOMPUTES { opaque(value) } else { value }
}

/// The element of a kernel.
pub type Element<C> = <C as Config>::T;

macro_rules! layouts {
    ($($(#[$doc:meta])* $name:ident = |$c:ident| $layout:expr, $swizzle:expr;)+) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name<C>(PhantomData<C>);

        impl<$c: Config> StaticLayout for $name<$c> {
            const LAYOUT: Layout = $layout;
            const SWIZZLE: Swizzle = $swizzle;
        }
    )+ };
}

/// The columns of a swizzled row of a tile with this many columns: the longest of 128, 64 and 32
/// bytes that divides the tile's row.
pub(super) const fn piece(columns: i64) -> i64 {
    if columns % 64 == 0 {
        64
    } else if columns % 32 == 0 {
        32
    } else {
        16
    }
}

/// The swizzled rows of a tile with this many columns.
const fn atom(columns: i64) -> ComposedLayout {
    let bytes = match piece(columns) {
        64 => SwizzleBytes::B128,
        32 => SwizzleBytes::B64,
        _ => SwizzleBytes::B32,
    };
    shared_memory_atom(Major::K, bytes, 16)
}

/// Several tiles of rows.
const fn rows(rows: i64, columns: i64, tiles: i64) -> ComposedLayout {
    atom(columns).tile_to_shape(IntTuple::flat(&[rows, columns, tiles]))
}

/// Tiles of 64 rows of `dv` columns, each at the start of a tile of `d` columns.
const fn rows_in_place((d, dv): (i64, i64), tiles: i64) -> Layout {
    let tile = rows(64, dv, 1).layout;
    Layout::concat(&[tile.mode(0), tile.mode(1), layout!((tiles):({ 64 * d }))])
}

/// Tiles of `keys` rows as boxes of `rows`: (rows, columns, keys / rows, STAGES).
const fn boxes((keys, columns): (u32, i64), rows: u32) -> Layout {
    let (keys, rows, piece) = (keys as i64, rows as i64, piece(columns));
    layout!(
        (rows, (piece, { columns / piece }), { keys / rows }, { STAGES as i64 }):
        (piece, (1, { keys * piece }), { rows * piece }, { keys * columns })
    )
}

layouts! {
    /// Q: (64, D, TILES_Q).
    SmemQ = |C| rows(64, C::D, C::TILES_Q as i64).layout, atom(C::D).swizzle;
    /// O, each tile in the memory of one of Q: (64, DV, TILES_Q).
    SmemO = |C| rows_in_place((C::D, C::DV), C::TILES_Q as i64), atom(C::DV).swizzle;
    /// K: (BLK_N, D, STAGES).
    SmemK = |C| rows(C::BLK_N as i64, C::D, STAGES as i64).layout, atom(C::D).swizzle;
    /// V: (BLK_N, DV, STAGES).
    SmemV = |C| rows(C::BLK_N as i64, C::DV, STAGES as i64).layout, atom(C::DV).swizzle;
    /// V transposed: (DV, BLK_N, STAGES).
    SmemVt = |C| rows(C::BLK_N as i64, C::DV, STAGES as i64).layout.select(&[1, 0, 2]), atom(C::DV).swizzle;
    /// A warpgroup's tile of scores.
    TileS = |C| layout!((64, { C::BLK_N as i64 })), Swizzle::NONE;
    /// A warpgroup's tile of O.
    TileO = |C| layout!((64, { C::DV })), Swizzle::NONE;
}

/// K as boxes of `B` keys: (B, D, BLK_N / B, STAGES).
#[derive(Clone, Copy, Debug)]
pub struct KeyBoxes<C, const B: u32 = BOX>(PhantomData<C>);

impl<C: Config, const B: u32> StaticLayout for KeyBoxes<C, B> {
    const LAYOUT: Layout = boxes((C::BLK_N, C::D), B);
    const SWIZZLE: Swizzle = atom(C::D).swizzle;
}

/// V as boxes of `B` keys: (B, DV, BLK_N / B, STAGES).
#[derive(Clone, Copy, Debug)]
pub struct ValueBoxes<C, const B: u32 = BOX>(PhantomData<C>);

impl<C: Config, const B: u32> StaticLayout for ValueBoxes<C, B> {
    const LAYOUT: Layout = boxes((C::BLK_N, C::DV), B);
    const SWIZZLE: Swizzle = atom(C::DV).swizzle;
}

/// One warpgroup's rows, (64, D), of the layout `L` of all, (64, D, WARPGROUPS).
pub type OwnRows<L> = OneStage<L>;

/// The copy of 64 rows of Q, of a tensor (row, column, head, sequence).
pub type TmaQ<C> = TmaCopy<Element<C>, OwnRows<SmemQ<C>>, 4>;
/// The copy of 64 rows of O.
pub type TmaO<C> = TmaCopy<Element<C>, OwnRows<SmemO<C>>, 4>;
/// The copy of a tile of K.
pub type TmaK<C> = TmaCopy<Element<C>, OneStage<SmemK<C>>, 4>;
/// The copy of a tile of V.
pub type TmaV<C> = TmaCopy<Element<C>, OneStage<SmemV<C>>, 4>;

/// The copy of a box of K, of a tensor (row, column, head, sequence or page).
pub type TmaKeyBox<C, const B: u32 = BOX> =
    TmaCopy<Element<C>, SliceOf<KeyBoxes<C, B>, (Kept, Kept, Fixed, Fixed)>, 4>;
/// The copy of a box of V.
pub type TmaValueBox<C, const B: u32 = BOX> =
    TmaCopy<Element<C>, SliceOf<ValueBoxes<C, B>, (Kept, Kept, Fixed, Fixed)>, 4>;

/// The readers of the stages of Q: the four warps of one warpgroup.
pub type OneWarpgroup = Warps<{ WARPGROUP / 32 }>;

/// The readers of the stages of K and V: the warps of all consumers.
#[derive(Debug)]
pub struct Consumers<C>(PhantomData<C>);

impl<C: Config> Readers for Consumers<C> {
    const WARPS: u32 = C::WARPGROUPS * WARPGROUP / 32;
}

/// The barriers of one warpgroup's tile of Q.
pub type QueryStage = PipelineStorage<1, OneWarpgroup>;
/// The barriers of the stages of K, or of V.
pub type KeyStages<C> = PipelineStorage<STAGES, Consumers<C>>;

/// Shared-memory storage of a block: Q, K and V, the barriers of Q (three at most), K and V.
pub type Storage<C> = (
    SharedArray<Element<C>, SmemQ<C>>,
    SharedArray<Element<C>, SmemK<C>>,
    SharedArray<Element<C>, SmemV<C>>,
    (QueryStage, QueryStage, QueryStage),
    KeyStages<C>,
    KeyStages<C>,
);

/// Shared-memory storage of a block of the kernels for pages and variable lengths: Q, K and V, the
/// barriers of K and V.
pub type VariedStorage<C> = (
    SharedArray<Element<C>, SmemQ<C>>,
    SharedArray<Element<C>, SmemK<C>>,
    SharedArray<Element<C>, SmemV<C>>,
    KeyStages<C>,
    KeyStages<C>,
);

macro_rules! option {
    (TURNS $value:expr) => {
        const TURNS: bool = $value;
    };
    (SEPARATE_O $value:expr) => {
        const SEPARATE_O: bool = $value;
    };
    (RECOMPUTES $value:expr) => {
        const RECOMPUTES: bool = $value;
    };
    (GENERAL $value:expr) => {
        const GENERAL: bool = $value;
    };
    (AHEAD $value:expr) => {
        const AHEAD: bool = $value;
    };
    (DV $value:expr) => {
        const DV: i64 = $value;
    };
}

macro_rules! configs {
    ($($(#[$doc:meta])* $name:ident: $t:ident, $d:literal x $keys:literal, $warpgroups:literal of $registers:literal, $qk:ident $pv:ident $(, $option:ident = $value:expr)*;)+) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default)]
        pub struct $name;

        impl Config for $name {
            type T = $t;
            const D: i64 = $d;
            const BLK_N: u32 = $keys;
            const WARPGROUPS: u32 = $warpgroups;
            $(option!($option $value);)*
            type Qk = QkOf<Self>;
            type Pv = PvOf<Self>;
            type StoreO = StoreOf<Self>;
            // Four or three warpgroups share 512 registers. One consumer and the producer start
            // with the maximum of a thread.
            const REGISTERS: [u32; 2] = match $warpgroups {
                1 => [0; 2],
                3 => [$registers, 32],
                _ => [$registers, 504 - 2 * $registers],
            };
        }

        impl StaticTiledMma for QkOf<$name> {
            type Atom = $qk<K_MAJOR, K_MAJOR>;
            const MMA: TiledMma<Self::Atom> = TiledMma::new(layout!((1, 1, 1)));
        }

        impl StaticTiledMma for PvOf<$name> {
            type Atom = $pv<MN_MAJOR>;
            const MMA: TiledMma<Self::Atom> = TiledMma::new(layout!((1, 1, 1)));
        }

        impl StaticTiledCopy for StoreOf<$name> {
            type Atom = SM90_U32x4_STSM_N;
            type Element = $t;
            const COPY: TiledCopy<SM90_U32x4_STSM_N, $t> = make_tiled_copy_c(&<PvOf<$name> as StaticTiledMma>::MMA);
        }
    )+ };
}

/// See [`Config::Qk`].
#[derive(Clone, Copy, Debug, Default)]
pub struct QkOf<C>(PhantomData<C>);
/// See [`Config::Pv`].
#[derive(Clone, Copy, Debug, Default)]
pub struct PvOf<C>(PhantomData<C>);
/// See [`Config::StoreO`].
#[derive(Clone, Copy, Debug, Default)]
pub struct StoreOf<C>(PhantomData<C>);

configs! {
    /// bf16, heads of 64.
    Bf16D64: bf16, 64 x 128, 3 of 160, SM90_64x128x16_F32BF16BF16_SS SM90_64x64x16_F32BF16BF16_RS, RECOMPUTES = true;
    /// bf16, heads of 64, of variable lengths: a block computes one tile and recomputes nothing.
    Bf16D64Varied: bf16, 64 x 128, 3 of 160, SM90_64x128x16_F32BF16BF16_SS SM90_64x64x16_F32BF16BF16_RS;
    /// bf16, heads of 64, for short sequences with a mask.
    Bf16D64Causal: bf16, 64 x 128, 2 of 232, SM90_64x128x16_F32BF16BF16_SS SM90_64x64x16_F32BF16BF16_RS;
    /// bf16, heads of 128, for sliding windows and few keys.
    Bf16D128Causal: bf16, 128 x 128, 2 of 232, SM90_64x128x16_F32BF16BF16_SS SM90_64x128x16_F32BF16BF16_RS;
    /// bf16, heads of 128.
    Bf16D128: bf16, 128 x 160, 2 of 232, SM90_64x160x16_F32BF16BF16_SS SM90_64x128x16_F32BF16BF16_RS;
    /// bf16, heads of 80.
    Bf16D80: bf16, 80 x 160, 2 of 232, SM90_64x160x16_F32BF16BF16_SS SM90_64x80x16_F32BF16BF16_RS;
    /// bf16, heads of 96.
    Bf16D96: bf16, 96 x 160, 2 of 232, SM90_64x160x16_F32BF16BF16_SS SM90_64x96x16_F32BF16BF16_RS;
    /// bf16, heads of 192.
    Bf16D192: bf16, 192 x 112, 2 of 232, SM90_64x112x16_F32BF16BF16_SS SM90_64x192x16_F32BF16BF16_RS, SEPARATE_O = false;
    /// bf16, heads of 192 with values of 128.
    Bf16D192x128: bf16, 192 x 128, 2 of 232, SM90_64x128x16_F32BF16BF16_SS SM90_64x128x16_F32BF16BF16_RS, SEPARATE_O = false, DV = 128;
    /// bf16, heads of 256.
    Bf16D256: bf16, 256 x 80, 2 of 232, SM90_64x80x16_F32BF16BF16_SS SM90_64x256x16_F32BF16BF16_RS, SEPARATE_O = false;
    /// bf16, heads of 256, in boxes of 64 keys.
    Bf16D256Varied: bf16, 256 x 64, 2 of 232, SM90_64x64x16_F32BF16BF16_SS SM90_64x256x16_F32BF16BF16_RS, SEPARATE_O = false;
    /// bf16, heads of 64, all options.
    Bf16D64General: bf16, 64 x 128, 2 of 232, SM90_64x128x16_F32BF16BF16_SS SM90_64x64x16_F32BF16BF16_RS, TURNS = false, SEPARATE_O = false, GENERAL = true;
    /// bf16, heads of 80, all options.
    Bf16D80General: bf16, 80 x 128, 2 of 232, SM90_64x128x16_F32BF16BF16_SS SM90_64x80x16_F32BF16BF16_RS, SEPARATE_O = false, GENERAL = true;
    /// bf16, heads of 96, all options.
    Bf16D96General: bf16, 96 x 128, 2 of 232, SM90_64x128x16_F32BF16BF16_SS SM90_64x96x16_F32BF16BF16_RS, SEPARATE_O = false, GENERAL = true;
    /// bf16, heads of 128, all options.
    Bf16D128General: bf16, 128 x 128, 2 of 232, SM90_64x128x16_F32BF16BF16_SS SM90_64x128x16_F32BF16BF16_RS, SEPARATE_O = false, GENERAL = true, RECOMPUTES = true;
    /// bf16, heads of 192, all options.
    Bf16D192General: bf16, 192 x 64, 2 of 232, SM90_64x64x16_F32BF16BF16_SS SM90_64x192x16_F32BF16BF16_RS, SEPARATE_O = false, GENERAL = true;
    /// bf16, heads of 192 with values of 128, all options.
    Bf16D192x128General: bf16, 192 x 128, 2 of 232, SM90_64x128x16_F32BF16BF16_SS SM90_64x128x16_F32BF16BF16_RS, SEPARATE_O = false, DV = 128, GENERAL = true, AHEAD = false;
    /// bf16, heads of 256, all options.
    Bf16D256General: bf16, 256 x 64, 2 of 232, SM90_64x64x16_F32BF16BF16_SS SM90_64x256x16_F32BF16BF16_RS, SEPARATE_O = false, GENERAL = true, AHEAD = false;
    /// bf16, heads of 64, for few rows.
    Bf16D64Few: bf16, 64 x 128, 1 of 240, SM90_64x128x16_F32BF16BF16_SS SM90_64x64x16_F32BF16BF16_RS, TURNS = false, SEPARATE_O = false;
    /// bf16, heads of 128, for few rows.
    Bf16D128Few: bf16, 128 x 128, 1 of 240, SM90_64x128x16_F32BF16BF16_SS SM90_64x128x16_F32BF16BF16_RS, TURNS = false, SEPARATE_O = false;
    /// bf16, heads of 256, for few rows.
    Bf16D256Few: bf16, 256 x 64, 1 of 240, SM90_64x64x16_F32BF16BF16_SS SM90_64x256x16_F32BF16BF16_RS, TURNS = false, SEPARATE_O = false;
    /// f16, heads of 64.
    F16D64: f16, 64 x 128, 3 of 160, SM90_64x128x16_F32F16F16_SS SM90_64x64x16_F32F16F16_RS, RECOMPUTES = true;
    /// f16, heads of 64, of variable lengths: a block computes one tile and recomputes nothing.
    F16D64Varied: f16, 64 x 128, 3 of 160, SM90_64x128x16_F32F16F16_SS SM90_64x64x16_F32F16F16_RS;
    /// f16, heads of 64, for short sequences with a mask.
    F16D64Causal: f16, 64 x 128, 2 of 232, SM90_64x128x16_F32F16F16_SS SM90_64x64x16_F32F16F16_RS;
    /// f16, heads of 128, for sliding windows and few keys.
    F16D128Causal: f16, 128 x 128, 2 of 232, SM90_64x128x16_F32F16F16_SS SM90_64x128x16_F32F16F16_RS;
    /// f16, heads of 128.
    F16D128: f16, 128 x 160, 2 of 232, SM90_64x160x16_F32F16F16_SS SM90_64x128x16_F32F16F16_RS;
    /// f16, heads of 80.
    F16D80: f16, 80 x 160, 2 of 232, SM90_64x160x16_F32F16F16_SS SM90_64x80x16_F32F16F16_RS;
    /// f16, heads of 96.
    F16D96: f16, 96 x 160, 2 of 232, SM90_64x160x16_F32F16F16_SS SM90_64x96x16_F32F16F16_RS;
    /// f16, heads of 192.
    F16D192: f16, 192 x 112, 2 of 232, SM90_64x112x16_F32F16F16_SS SM90_64x192x16_F32F16F16_RS, SEPARATE_O = false;
    /// f16, heads of 192 with values of 128.
    F16D192x128: f16, 192 x 128, 2 of 232, SM90_64x128x16_F32F16F16_SS SM90_64x128x16_F32F16F16_RS, SEPARATE_O = false, DV = 128;
    /// f16, heads of 256.
    F16D256: f16, 256 x 80, 2 of 232, SM90_64x80x16_F32F16F16_SS SM90_64x256x16_F32F16F16_RS, SEPARATE_O = false;
    /// f16, heads of 256, in boxes of 64 keys.
    F16D256Varied: f16, 256 x 64, 2 of 232, SM90_64x64x16_F32F16F16_SS SM90_64x256x16_F32F16F16_RS, SEPARATE_O = false;
    /// f16, heads of 64, all options.
    F16D64General: f16, 64 x 128, 2 of 232, SM90_64x128x16_F32F16F16_SS SM90_64x64x16_F32F16F16_RS, TURNS = false, SEPARATE_O = false, GENERAL = true;
    /// f16, heads of 80, all options.
    F16D80General: f16, 80 x 128, 2 of 232, SM90_64x128x16_F32F16F16_SS SM90_64x80x16_F32F16F16_RS, SEPARATE_O = false, GENERAL = true;
    /// f16, heads of 96, all options.
    F16D96General: f16, 96 x 128, 2 of 232, SM90_64x128x16_F32F16F16_SS SM90_64x96x16_F32F16F16_RS, SEPARATE_O = false, GENERAL = true;
    /// f16, heads of 128, all options.
    F16D128General: f16, 128 x 128, 2 of 232, SM90_64x128x16_F32F16F16_SS SM90_64x128x16_F32F16F16_RS, SEPARATE_O = false, GENERAL = true, RECOMPUTES = true;
    /// f16, heads of 192, all options.
    F16D192General: f16, 192 x 64, 2 of 232, SM90_64x64x16_F32F16F16_SS SM90_64x192x16_F32F16F16_RS, SEPARATE_O = false, GENERAL = true;
    /// f16, heads of 192 with values of 128, all options.
    F16D192x128General: f16, 192 x 128, 2 of 232, SM90_64x128x16_F32F16F16_SS SM90_64x128x16_F32F16F16_RS, SEPARATE_O = false, DV = 128, GENERAL = true, AHEAD = false;
    /// f16, heads of 256, all options.
    F16D256General: f16, 256 x 64, 2 of 232, SM90_64x64x16_F32F16F16_SS SM90_64x256x16_F32F16F16_RS, SEPARATE_O = false, GENERAL = true, AHEAD = false;
    /// f16, heads of 64, for few rows.
    F16D64Few: f16, 64 x 128, 1 of 240, SM90_64x128x16_F32F16F16_SS SM90_64x64x16_F32F16F16_RS, TURNS = false, SEPARATE_O = false;
    /// f16, heads of 128, for few rows.
    F16D128Few: f16, 128 x 128, 1 of 240, SM90_64x128x16_F32F16F16_SS SM90_64x128x16_F32F16F16_RS, TURNS = false, SEPARATE_O = false;
    /// f16, heads of 256, for few rows.
    F16D256Few: f16, 256 x 64, 1 of 240, SM90_64x64x16_F32F16F16_SS SM90_64x256x16_F32F16F16_RS, TURNS = false, SEPARATE_O = false;
}
