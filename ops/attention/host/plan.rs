//! The plan of a problem: the kernel, the heads in a tile, and the splits of the keys.

use super::element::AttentionElement;
use super::model::{Abilities, MMA_SYNC, Split, splits};
use super::problem::Problem;
use super::variant::{HeadSizes, HopperVariant};
use super::{hopper, varied};
use crate::kernels::Arguments;
use moye_device::kernel::Kernel;
use moye_device::memory::Element;
use moye_runtime::{MAX_BLOCKS, Rates};

/// A plan.
#[derive(Clone, Copy, Debug)]
pub struct Plan<T: Element> {
    pub code: Code<T>,
    /// Query heads in a tile.
    pub pack: u32,
    /// Splits of the keys.
    pub splits: u32,
    /// Whether the block of a tile that arrives last reduces the splits, instead of a second
    /// kernel.
    pub in_last_block: bool,
    /// Persistent kernels: the heads whose keys and values stay in L2 at a time.
    pub section: u32,
    /// Thread blocks.
    pub blocks: u64,
}

/// The kernel of a plan.
#[derive(Clone, Copy, Debug)]
pub enum Code<T: Element> {
    /// For sm_80, with the query rows of its tiles.
    Sm80(Kernel<(Arguments<T>,)>, u32),
    /// For sm_90a.
    Hopper(&'static HopperVariant<T>),
}

impl<T: Element> Code<T> {
    pub fn name(&self) -> &'static str {
        match self {
            Self::Sm80(kernel, _) => kernel.name(),
            Self::Hopper(variant) => variant.name,
        }
    }

    /// Whether blocks of the kernel can reduce the splits.
    pub fn combines(&self) -> bool {
        self.name().ends_with("_few")
    }

    /// Query rows of a tile.
    pub fn rows(&self) -> u32 {
        match self {
            Self::Sm80(_, rows) => *rows,
            Self::Hopper(variant) => variant.tile.0,
        }
    }
}

/// The blocks of a kernel with tiles of `rows` rows of `pack` heads, with a block for each tile.
pub fn blocks<T: Element>(arguments: &Arguments<T>, rows: u32, pack: u32, splits: u32) -> u64 {
    let tiles = (u64::from(arguments.q_length) * u64::from(pack)).div_ceil(rows.into());
    [arguments.heads / pack, splits, arguments.batches]
        .iter()
        .fold(tiles, |all, &factor| all.saturating_mul(factor.into()))
}

/// The plan for a problem with queries; `None` for 8-bit floats that TMA cannot load.
pub fn plan<T: AttentionElement>(problem: &Problem<T>, card: &Rates) -> Option<Plan<T>> {
    let Some(Sm80 { decodes, plan }) = sm80(problem, card) else { return hopper::fastest(problem, card) };
    if plan.blocks > MAX_BLOCKS[0].into() {
        return Some(plan);
    }
    let by_wgmma = if decodes { few_rows(problem, card) } else { on_hopper(problem, card, &plan) };
    Some(by_wgmma.unwrap_or(plan))
}

/// A plan by the kernels for sm_80.
struct Sm80<T: Element> {
    /// Whether the kernel is the one for few query rows.
    decodes: bool,
    plan: Plan<T>,
}

/// The plan by the kernels for sm_80; `None` for 8-bit floats, which have none.
fn sm80<T: AttentionElement>(problem: &Problem<T>, card: &Rates) -> Option<Sm80<T>> {
    let &Problem { ref arguments, sizes, splits, .. } = problem;
    let variant = T::VARIANTS.iter().find(|variant| variant.sizes() == sizes)?;
    let general = arguments.is_general();
    let kernel = if general { variant.general } else { variant.plain };
    let tile = if general { variant.general_tile } else { variant.tile };
    let Tiling { decode, pack, splits } = tiling(&Tiles {
        sizes: Sizes::of(arguments, sizes),
        tile,
        decode_tile: variant.decode_tile,
        shared_bytes: kernel.shared_bytes(),
        decode_shared_bytes: variant.decode.shared_bytes(),
        decode_warps: variant.decode.bounds().threads.unwrap_or(128) / 32,
        rates: *card,
        splits,
    });
    let (kernel, rows) = if decode { (variant.decode, variant.decode_tile.0) } else { (kernel, tile.0) };
    let blocks = blocks(arguments, rows, pack, splits);
    let code = Code::Sm80(kernel, rows);
    let plan = Plan { code, pack, splits, in_last_block: false, section: 1, blocks };
    Some(Sm80 { decodes: decode, plan })
}

/// The plan for sm_90a in place of one for sm_80.
fn on_hopper<T: AttentionElement>(problem: &Problem<T>, card: &Rates, sm80: &Plan<T>) -> Option<Plan<T>> {
    let varied = varied::plan(problem, card);
    // A warpgroup's rows belong to one head: with shorter sequences some rows have no query.
    if problem.splits.is_none_or(|splits| splits == 1)
        && problem.arguments.q_length >= 64
        && let Some(whole) = hopper::plan(problem, card)
        // If there are too few row tiles to fill the GPU, the keys are split.
        && (whole.blocks == u64::from(card.multiprocessors)
            || varied.as_ref().map_or(sm80.splits, |varied| varied.splits) == 1)
    {
        return Some(whole);
    }
    varied
}

/// [`on_hopper`] for few query rows. Where the keys are split, the `wgmma` kernel takes 1 to 11 %
/// less time than the `mma.sync` kernel: measured on an H100 for heads of 128.
fn few_rows<T: AttentionElement>(problem: &Problem<T>, card: &Rates) -> Option<Plan<T>> {
    if problem.sizes.d != 128 || problem.arguments.changes_scores() {
        return None;
    }
    varied::plan(problem, card).filter(|plan| plan.splits > 1)
}

/// The sizes of a call; of several sequences the largest.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    pub batches: u32,
    /// Query heads, and how many of them share a KV head.
    pub heads: u32,
    pub group: u32,
    /// Query and key tokens.
    pub queries: u32,
    pub keys: u32,
    /// Head sizes of keys and values.
    pub d: u32,
    pub dv: u32,
}

impl Sizes {
    /// The sizes of a call with these head sizes.
    pub fn of<T: Element>(arguments: &Arguments<T>, HeadSizes { d, dv }: HeadSizes) -> Self {
        let &Arguments { batches, heads, group, q_length: queries, k_length: keys, .. } = arguments;
        Self { batches, heads, group, queries, keys, d: d as u32, dv: dv as u32 }
    }
}

/// The tiles of the kernels for sm_80, and the inputs of their choice.
#[derive(Clone, Copy, Debug)]
struct Tiles {
    sizes: Sizes,
    /// Query rows and keys of a tile: of the forward kernel, and of the one for few rows.
    tile: (u32, u32),
    decode_tile: (u32, u32),
    /// Shared memory of a block of these kernels.
    shared_bytes: usize,
    decode_shared_bytes: usize,
    /// Warps of the kernel for few rows, each with separate tiles.
    decode_warps: u32,
    rates: Rates,
    /// Set by the caller.
    splits: Option<u32>,
}

/// The chosen kernel for sm_80, heads of a tile and splits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tiling {
    decode: bool,
    pack: u32,
    splits: u32,
}

/// Chooses the kernel for sm_80, the heads of a tile and the splits.
fn tiling(of: &Tiles) -> Tiling {
    let Sizes { batches, heads, group, queries, keys, .. } = of.sizes;
    // Without query heads a group is empty.
    let group = group.max(1);
    let tiles = |pack: u32, rows: u32| {
        (u64::from(queries) * u64::from(pack)).div_ceil(rows.into()) * u64::from(heads / pack)
    };
    let decode = queries.saturating_mul(group) <= of.decode_tile.0;
    let (kernel, shared_bytes, tile) = if decode {
        let (rows, keys) = of.decode_tile;
        let warps = of.decode_warps;
        (Abilities::few_rows(warps), of.decode_shared_bytes, (rows, keys * warps))
    } else {
        (MMA_SYNC, of.shared_bytes, of.tile)
    };
    // Heads that share keys share a tile if fewer tiles result.
    let pack = if tiles(group, tile.0) < tiles(1, tile.0) { group } else { 1 };
    let splits = of.splits.unwrap_or_else(|| {
        let blocks = tiles(pack, tile.0).saturating_mul(batches.into());
        let key_tiles = keys.div_ceil(tile.1);
        let rates = of.rates;
        splits(&of.sizes, &Split { kernel: &kernel, shared_bytes, tile, blocks, key_tiles, rates })
    });
    Tiling { decode, pack, splits }
}

#[cfg(test)]
mod tests {
    use super::*;
    use moye_runtime::Arch;

    fn of(batches: u32, heads: [u32; 2], queries: u32, keys: u32) -> Tiling {
        on(Rates::H100, batches, heads, queries, keys)
    }

    fn on(rates: Rates, batches: u32, [heads, group]: [u32; 2], queries: u32, keys: u32) -> Tiling {
        tiling(&Tiles {
            sizes: Sizes { batches, heads, group, queries, keys, d: 128, dv: 128 },
            tile: (128, 64),
            decode_tile: (16, 32),
            shared_bytes: 49_168,
            decode_shared_bytes: 69_792,
            decode_warps: 4,
            rates,
            splits: None,
        })
    }

    #[test]
    fn one_query_token_of_few_sequences_is_split_over_the_card_and_a_long_prompt_is_not() {
        let decode = of(1, [32, 4], 1, 32768);
        assert!(decode.decode && decode.pack == 4, "{decode:?}");
        assert!((16..=64).contains(&decode.splits), "{decode:?}");
        assert_eq!(of(4, [16, 1], 4096, 4096), Tiling { decode: false, pack: 1, splits: 1 });
    }

    #[test]
    fn decoding_is_split_no_further_than_memory_needs() {
        // The fastest numbers of splits on an H100, within 2 %.
        for (batches, keys, fastest) in
            [(1, 2048, 16..=16), (1, 8192, 16..=32), (1, 32768, 16..=32), (4, 8192, 4..=8), (16, 2048, 1..=1)]
        {
            let plan = of(batches, [32, 4], 1, keys);
            assert!(plan.decode && fastest.contains(&plan.splits), "{batches} of {keys}: {plan:?}");
        }
        for keys in [8192, 32768] {
            assert_eq!(of(16, [32, 4], 1, keys).splits, 2, "{keys}");
        }
    }

    #[test]
    fn other_cards_have_splits_of_their_own() {
        // An L4 and an A100 80GB by their data sheets.
        let small = Rates::of(Arch::new(8, 9), 58, [2_040_000, 6_251_000, 192, 48 << 20, 100 << 10]);
        let older = Rates::of(Arch::new(8, 0), 108, [1_410_000, 1_512_000, 5120, 40 << 20, 164 << 10]);
        let splits = |rates| [1, 4, 16].map(|batches| on(rates, batches, [32, 4], 1, 8192).splits);
        assert_eq!([splits(small), splits(older), splits(Rates::H100)], [[2, 1, 1], [16, 4, 1], [32, 8, 2]]);
        assert_eq!([small, older].map(|rates| on(rates, 1, [8, 1], 256, 8448).splits), [7, 12]);
    }

    #[test]
    fn a_chunk_of_a_prompt_with_few_heads_is_split() {
        let chunk = of(1, [8, 1], 256, 8448);
        assert!(!chunk.decode && chunk.splits > 4, "{chunk:?}");
    }

    #[test]
    fn heads_share_a_tile_where_that_makes_fewer_tiles() {
        assert_eq!(of(1, [32, 4], 8, 4096).pack, 4);
        assert_eq!(of(1, [32, 4], 1024, 4096).pack, 1, "whole tiles");
        assert_eq!(of(1, [32, 1], 8, 4096).pack, 1);
    }

    #[test]
    fn nothing_to_do_is_one_split() {
        assert_eq!(of(1, [8, 1], 1, 0).splits, 1);
        assert_eq!(of(1, [8, 1], 0, 0).splits, 1);
        assert_eq!(of(1, [0, 0], 4, 4).splits, 1, "no query heads");
        assert_eq!(of(u32::MAX, [1 << 30, 1], 1 << 30, 64).splits, 1, "more blocks than u64 counts");
    }
}
