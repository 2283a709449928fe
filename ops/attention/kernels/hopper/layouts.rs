//! The layouts that follow from the shape of a Hopper kernel, its tensor maps and its shared
//! memory.

use super::config::{BOX, Element, HopperConfig, STAGES, WARPGROUP};
use core::marker::PhantomData;
use moye_device::atom::tma::TmaCopy;
use moye_device::layout::{ComposedLayout, Layout, Major, SwizzleBytes, shared_memory_atom, tuple};
use moye_device::memory::{Element as _, SharedArray, SharedStorage};
use moye_device::pipeline::{PipelineStorage, Readers, Warps};
use moye_device::tensor::{Fixed, Kept, OneStage, SliceOf};
use moye_device::{layout, static_layout, swizzled_layout};

/// The bytes of the swizzled rows that a tile with rows of `bytes` bytes consists of: the longest
/// of 128, 64 and 32 that divide them.
const fn swizzled(bytes: i64) -> i64 {
    if bytes % 128 == 0 {
        128
    } else if bytes % 64 == 0 {
        64
    } else {
        32
    }
}

/// The columns of the swizzled rows of a tile with this many columns of 16 bits.
pub(in super::super) const fn piece(columns: i64) -> u32 {
    (swizzled(2 * columns) / 2) as u32
}

/// The swizzled rows of a tile with this many columns of `bytes` bytes each.
const fn atom(columns: i64, bytes: usize) -> ComposedLayout {
    let swizzle = match swizzled(columns * bytes as i64) {
        128 => SwizzleBytes::B128,
        64 => SwizzleBytes::B64,
        _ => SwizzleBytes::B32,
    };
    shared_memory_atom(Major::K, swizzle, 8 * bytes as i64)
}

/// The swizzled rows of an operand with this many columns.
const fn of<C: HopperConfig>(columns: i64) -> ComposedLayout {
    atom(columns, Element::<C>::BYTES)
}

/// `tiles` tiles of `rows` rows.
const fn rows(atom: ComposedLayout, rows: i64, columns: i64, tiles: u32) -> ComposedLayout {
    atom.tile_to_shape(tuple!((rows, columns, { tiles as i64 })))
}

/// Tiles of 64 rows of `dv` columns of `bytes` bytes, each at the start of a tile of `d` columns.
const fn rows_in_place((d, dv): (i64, i64), bytes: usize, tiles: u32) -> ComposedLayout {
    let ComposedLayout { layout, swizzle, .. } = rows(atom(dv, bytes), 64, dv, 1);
    let tiles = layout!(({ tiles as i64 }):({ 64 * d }));
    ComposedLayout::new(swizzle, 0, Layout::concat(&[layout.mode(0), layout.mode(1), tiles]))
}

/// Tiles of `BLK_N` rows as boxes of `rows`: (rows, columns, BLK_N / rows, STAGES).
const fn boxes<C: HopperConfig>(columns: i64, rows: u32) -> ComposedLayout {
    let (keys, rows, piece) = (C::BLK_N as i64, rows as i64, piece(columns) as i64);
    let layout = layout!(
        (rows, (piece, { columns / piece }), { keys / rows }, { STAGES as i64 }):
        (piece, (1, { keys * piece }), { rows * piece }, { keys * columns })
    );
    ComposedLayout::new(of::<C>(columns).swizzle, 0, layout)
}

swizzled_layout! {
    /// Q: (64, D, TILES_Q).
    pub SmemQ<C: HopperConfig> = rows(of::<C>(C::D), 64, C::D, C::TILES_Q);
    /// O, each tile in the memory of one of Q or of that size: (64, DV, TILES_Q).
    pub SmemO<C: HopperConfig> = rows_in_place((C::D, C::DV), C::T::BYTES, C::TILES_Q);
    /// K: (BLK_N, D, STAGES).
    pub SmemK<C: HopperConfig> = rows(of::<C>(C::D), C::BLK_N as i64, C::D, STAGES);
    /// V as TMA loads it: (BLK_N, DV, STAGES_V).
    pub SmemV<C: HopperConfig> = rows(of::<C>(C::DV), C::BLK_N as i64, C::DV, C::STAGES_V);
    /// V transposed: (DV, BLK_N, STAGES_V).
    pub SmemVt<C: HopperConfig> =
        ComposedLayout::new(SmemV::<C>::SWIZZLE, 0, SmemV::<C>::LAYOUT.select(&[1, 0, 2]));
    /// V of 8 bits transposed, keys contiguous: (DV, BLK_N, STAGES).
    pub SmemVt8<C: HopperConfig> = rows(of::<C>(C::BLK_N as i64), C::DV, C::BLK_N as i64, STAGES);
    /// Ones: (8, BLK_N, 1).
    pub SmemOnes<C: HopperConfig> = rows(of::<C>(C::BLK_N as i64), 8, C::BLK_N as i64, 1);
    /// K as boxes of `B` keys: (B, D, BLK_N / B, STAGES).
    pub KeyBoxes<C: HopperConfig, const B: u32 = BOX> = boxes::<C>(C::D, B);
    /// V as boxes of `B` keys: (B, DV, BLK_N / B, STAGES).
    pub ValueBoxes<C: HopperConfig, const B: u32 = BOX> = boxes::<C>(C::DV, B);
}
static_layout! {
    /// A warpgroup's tile of scores.
    pub TileS<C: HopperConfig> = layout!((64, { C::BLK_N as i64 }));
    /// A warpgroup's tile of O.
    pub TileO<C: HopperConfig> = layout!((64, { C::DV }));
}

/// One warpgroup's rows, (64, D), of the layout `L` of all, (64, D, WARPGROUPS).
pub type OwnRows<L> = OneStage<L>;

/// The copy of 64 rows of Q, of a tensor (row, column, head, sequence).
pub type TmaQ<C> = TmaCopy<Element<C>, OwnRows<SmemQ<C>>, 4>;
/// The copy of 64 rows of O.
pub type TmaO<C> = TmaCopy<<C as HopperConfig>::T, OwnRows<SmemO<C>>, 4>;
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

impl<C: HopperConfig> Readers for Consumers<C> {
    const WARPS: u32 = C::WARPGROUPS * WARPGROUP / 32;
}

/// The barriers of one warpgroup's tile of Q.
pub type QueryStage = PipelineStorage<1, OneWarpgroup>;
/// The barriers of the tiles of Q of three warpgroups, the most that a block has.
pub type QueryStages = (QueryStage, QueryStage, QueryStage);
/// The barriers of the stages of K, or of V.
pub type KeyStages<C> = PipelineStorage<STAGES, Consumers<C>>;

/// Shared-memory storage of a block: Q, K and V, and the barriers of Q, of K and of V.
pub type Storage<C, Q = QueryStages> = (
    SharedArray<Element<C>, SmemQ<C>>,
    SharedArray<Element<C>, SmemK<C>>,
    SharedArray<Element<C>, SmemV<C>>,
    Q,
    KeyStages<C>,
    KeyStages<C>,
);

/// Shared-memory storage of a block of the kernels for pages and variable lengths, whose consumers
/// load Q themselves.
pub type VariedStorage<C> = Storage<C, ()>;

/// A storage as tensors and pipelines.
pub type Of<S> = <S as SharedStorage>::Tensors;
