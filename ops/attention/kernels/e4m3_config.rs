//! The shape of a Hopper kernel of 8-bit floats: the layouts that it adds to those of [`Config`],
//! whose `T` is the element of O.

use super::hopper_config::{Config, Consumers, PvOf, QkOf, QueryStage, STAGES, SmemQ, StoreOf, WARPGROUP};
use core::marker::PhantomData;
use half::bf16;
use moye_device::atom::copy::SM90_U32x4_STSM_N;
use moye_device::atom::tma::TmaCopy;
use moye_device::atom::wgmma::*;
use moye_device::atom::{StaticTiledCopy, StaticTiledMma, TiledCopy, TiledMma, make_tiled_copy_c};
use moye_device::layout;
use moye_device::layout::{
    ComposedLayout, IntTuple, Layout, Major, Swizzle, SwizzleBytes, shared_memory_atom,
};
use moye_device::memory::SharedArray;
use moye_device::number::F8E4M3;
use moye_device::pipeline::{PipelineStorage, Readers, Warps};
use moye_device::tensor::{OneStage, StaticLayout};

/// Warps that transpose V: all of the producer's warpgroup but the loading warp.
pub const TRANSPOSERS: u32 = WARPGROUP / 32 - 1;

/// The exponent of the largest probability where the maximum of its row is up to date.
pub const OFFSET: u32 = 6;

/// How far a maximum may lag: `2^(OFFSET + SLACK)` is below 448, the largest finite value of e4m3.
const SLACK: f32 = 2.5;

/// The configuration of a kernel of 8-bit floats.
pub trait E4m3Config: Config {
    /// Stages of V as it is loaded, before it is transposed.
    const LOADED: u32;
    /// Whether `wgmma` sums the probabilities, as a product of the rounded P with ones. That is
    /// faster, but too coarse for the log-sum-exp, which such a kernel does not write.
    const SUMS_BY_WGMMA: bool;
}

/// An atom whose rows are as long as a swizzle allows, for rows of `bytes` bytes.
const fn atom(bytes: i64) -> ComposedLayout {
    let swizzle = if bytes % 128 == 0 {
        SwizzleBytes::B128
    } else if bytes % 64 == 0 {
        SwizzleBytes::B64
    } else {
        SwizzleBytes::B32
    };
    shared_memory_atom(Major::K, swizzle, 8)
}

/// Several tiles of rows of bytes.
const fn rows(rows: i64, bytes: i64, tiles: u32) -> Layout {
    atom(bytes).tile_to_shape(IntTuple::flat(&[rows, bytes, tiles as i64])).layout
}

macro_rules! layouts {
    ($($(#[$doc:meta])* $name:ident<$c:ident: $bound:ident> = $layout:expr, $swizzle:expr;)+) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name<C>(PhantomData<C>);

        impl<$c: $bound> StaticLayout for $name<$c> {
            const LAYOUT: Layout = $layout;
            const SWIZZLE: Swizzle = $swizzle;
        }
    )+ };
}
layouts! {
    /// Q: (64, D, WARPGROUPS).
    SmemQ8<C: Config> = rows(64, C::D, C::WARPGROUPS), atom(C::D).swizzle;
    /// K: (BLK_N, D, STAGES).
    SmemK8<C: Config> = rows(C::BLK_N as i64, C::D, STAGES), atom(C::D).swizzle;
    /// V as it is loaded: (BLK_N, D, LOADED).
    SmemV8<C: E4m3Config> = rows(C::BLK_N as i64, C::D, C::LOADED), atom(C::D).swizzle;
    /// Ones: (8, BLK_N).
    SmemOnes<C: Config> = rows(8, C::BLK_N as i64, 1), atom(C::BLK_N as i64).swizzle;
    /// V transposed, keys contiguous: (D, BLK_N, STAGES).
    SmemVt8<C: Config> = rows(C::D, C::BLK_N as i64, STAGES), atom(C::BLK_N as i64).swizzle;
}

/// The copy of 64 rows of Q, of a tensor (row, column, head, sequence).
pub type TmaQ8<C> = TmaCopy<F8E4M3, OneStage<SmemQ8<C>>, 4>;
/// The copy of a tile of K.
pub type TmaK8<C> = TmaCopy<F8E4M3, OneStage<SmemK8<C>>, 4>;
/// The copy of a tile of V.
pub type TmaV8<C> = TmaCopy<F8E4M3, OneStage<SmemV8<C>>, 4>;

/// The warps that write and read the stages of transposed V.
#[derive(Debug)]
pub struct Transposed<C>(PhantomData<C>);

impl<C: Config> Readers for Transposed<C> {
    const WARPS: u32 = <Consumers<C> as Readers>::WARPS;
    const FILLERS: u32 = TRANSPOSERS;
}

/// The barriers of the stages of K.
pub type KeyStages<C> = PipelineStorage<STAGES, Consumers<C>>;
/// The barriers of the stages of transposed V.
pub type ValueStages<C> = PipelineStorage<STAGES, Transposed<C>>;

/// The barriers of the stages of V as it is loaded: one or two stages.
pub type LoadedStages<const STAGES: u32> = PipelineStorage<STAGES, Warps<TRANSPOSERS>>;

/// Shared-memory storage of a block: Q and O; K and V; transposed V and ones; the barriers of Q;
/// the barriers of K, V (`LOADED` stages) and transposed V.
pub type Storage<C, const LOADED: u32> = (
    (SharedArray<F8E4M3, SmemQ8<C>>, SharedArray<<C as Config>::T, SmemQ<C>>),
    (SharedArray<F8E4M3, SmemK8<C>>, SharedArray<F8E4M3, SmemV8<C>>),
    (SharedArray<F8E4M3, SmemVt8<C>>, SharedArray<F8E4M3, SmemOnes<C>>),
    (QueryStage, QueryStage, QueryStage),
    (KeyStages<C>, LoadedStages<LOADED>, ValueStages<C>),
);

/// A warpgroup's sums of probabilities, 8 equal columns: P times ones.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sums;

impl StaticTiledMma for Sums {
    type Atom = SM90_64x8x32_F32E4M3E4M3_RS_TN;
    const MMA: TiledMma<Self::Atom> = TiledMma::new(layout!((1, 1, 1)));
}

/// A warpgroup's tile of sums.
#[derive(Clone, Copy, Debug)]
pub struct TileSums;

impl StaticLayout for TileSums {
    const LAYOUT: Layout = layout!((64, 8));
}

macro_rules! configs {
    ($($(#[$doc:meta])* $name:ident: $d:literal x $keys:literal, $loaded:literal loaded, $warpgroups:literal of $registers:literal and $rest:literal, $qk:ident $pv:ident, SUMS_BY_WGMMA = $sums:literal;)+) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default)]
        pub struct $name;

        impl Config for $name {
            type T = bf16;
            const D: i64 = $d;
            const BLK_N: u32 = $keys;
            const WARPGROUPS: u32 = $warpgroups;
            const SLACK: f32 = SLACK;
            const TILES_Q: u32 = $warpgroups;
            type Qk = QkOf<Self>;
            type Pv = PvOf<Self>;
            type StoreO = StoreOf<Self>;
            const REGISTERS: [u32; 2] = [$registers, $rest];
        }

        impl E4m3Config for $name {
            const LOADED: u32 = $loaded;
            const SUMS_BY_WGMMA: bool = $sums;
        }

        impl StaticTiledMma for QkOf<$name> {
            type Atom = $qk;
            const MMA: TiledMma<Self::Atom> = TiledMma::new(layout!((1, 1, 1)));
        }

        impl StaticTiledMma for PvOf<$name> {
            type Atom = $pv;
            const MMA: TiledMma<Self::Atom> = TiledMma::new(layout!((1, 1, 1)));
        }

        impl StaticTiledCopy for StoreOf<$name> {
            type Atom = SM90_U32x4_STSM_N;
            type Element = bf16;
            const COPY: TiledCopy<SM90_U32x4_STSM_N, bf16> = make_tiled_copy_c(&<PvOf<$name> as StaticTiledMma>::MMA);
        }
    )+ };
}
configs! {
    /// Heads of 64.
    E4m3D64: 64 x 128, 2 loaded, 3 of 160 and 32, SM90_64x128x32_F32E4M3E4M3_SS_TN SM90_64x64x32_F32E4M3E4M3_RS_TN, SUMS_BY_WGMMA = true;
    /// Heads of 64, with the log-sum-exp.
    E4m3D64Lse: 64 x 128, 2 loaded, 3 of 160 and 32, SM90_64x128x32_F32E4M3E4M3_SS_TN SM90_64x64x32_F32E4M3E4M3_RS_TN, SUMS_BY_WGMMA = false;
    /// Heads of 128, for sliding windows and few keys.
    E4m3D128Causal: 128 x 128, 2 loaded, 2 of 232 and 40, SM90_64x128x32_F32E4M3E4M3_SS_TN SM90_64x128x32_F32E4M3E4M3_RS_TN, SUMS_BY_WGMMA = true;
    /// Heads of 128.
    E4m3D128: 128 x 192, 2 loaded, 2 of 232 and 40, SM90_64x192x32_F32E4M3E4M3_SS_TN SM90_64x128x32_F32E4M3E4M3_RS_TN, SUMS_BY_WGMMA = true;
    /// Heads of 128, with the log-sum-exp.
    E4m3D128Lse: 128 x 192, 2 loaded, 2 of 232 and 40, SM90_64x192x32_F32E4M3E4M3_SS_TN SM90_64x128x32_F32E4M3E4M3_RS_TN, SUMS_BY_WGMMA = false;
    /// Heads of 256, with the log-sum-exp: products, not the softmax, are the limit.
    E4m3D256: 256 x 96, 1 loaded, 2 of 232 and 40, SM90_64x96x32_F32E4M3E4M3_SS_TN SM90_64x256x32_F32E4M3E4M3_RS_TN, SUMS_BY_WGMMA = false;
}
