//! The choice of the kernel, of the heads in a tile, and of the splits of the keys.

use moye_device::memory::Element;
use moye_kernels::attention::Arguments;

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
    /// Those of a call with head sizes `(d, dv)`.
    pub fn of<T: Element>(arguments: &Arguments<T>, (d, dv): (usize, usize)) -> Self {
        let &Arguments { batches, heads, group, q_length: queries, k_length: keys, .. } = arguments;
        Self { batches, heads, group, queries, keys, d: d as u32, dv: dv as u32 }
    }
}

/// The inputs of the choice.
#[derive(Clone, Copy, Debug)]
pub struct Question {
    pub sizes: Sizes,
    /// Query rows and keys of a tile: of the forward kernel, and of the one for few rows.
    pub tile: (u32, u32),
    pub decode_tile: (u32, u32),
    /// Warps of that kernel, each with tiles of its own.
    pub decode_warps: u32,
    pub multiprocessors: u32,
    /// Set by the caller.
    pub splits: Option<u32>,
}

/// The choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    pub decode: bool,
    pub pack: u32,
    pub splits: u32,
}

/// Warps of a block that [`FEW_ROWS`] was measured with.
const WARPS: u32 = 4;
/// Blocks of the kernels for sm_80 that run on a multiprocessor at the same time.
const BLOCKS: u32 = 2;
/// The largest number of splits.
pub const MOST_SPLITS: u32 = 128;

/// Makes the choice.
#[must_use]
pub fn plan(question: &Question) -> Plan {
    let Sizes { batches, heads, group, queries, keys, .. } = question.sizes;
    // Without query heads a group is empty.
    let group = group.max(1);
    let tiles = |pack: u32, rows: u32| {
        (u64::from(queries) * u64::from(pack)).div_ceil(rows.into()) * u64::from(heads / pack)
    };
    let decode = queries.saturating_mul(group) <= question.decode_tile.0;
    let (kernel, tile) = if decode {
        let (rows, keys) = question.decode_tile;
        (FEW_ROWS.by_warps(question.decode_warps), (rows, keys * question.decode_warps))
    } else {
        (MMA_SYNC, question.tile)
    };
    // Heads that share keys share a tile if that gives fewer tiles.
    let pack = if tiles(group, tile.0) < tiles(1, tile.0) { group } else { 1 };
    let splits = question.splits.unwrap_or_else(|| {
        let blocks = tiles(pack, tile.0).saturating_mul(batches.into());
        let key_tiles = keys.div_ceil(tile.1);
        let multiprocessors = question.multiprocessors;
        splits(&question.sizes, &Split { kernel: &kernel, tile, blocks, key_tiles, multiprocessors })
    });
    Plan { decode, pack, splits }
}

/// What a kernel is able to do, measured on an H100: decoding at 1 to 16 sequences of 2k to 32k
/// tokens, chunks of 256 tokens on 4k and 8k. Times are in microseconds.
#[derive(Clone, Copy, Debug)]
pub struct Abilities {
    /// Blocks that run on a multiprocessor at the same time.
    blocks: u32,
    /// Bytes that a block loads, and operations that it executes, in a microsecond.
    bytes: f64,
    operations: f64,
    /// A block's prologue and epilogue.
    block: f64,
    /// The exponent of the norm that adds the time of the blocks and that of the memory: large
    /// where loads run far ahead of the products.
    overlap: f64,
}

impl Abilities {
    /// Those of a kernel whose blocks have another number of warps: as many warps run at a time.
    fn by_warps(self, warps: u32) -> Self {
        let share = f64::from(warps) / f64::from(WARPS);
        Self {
            blocks: self.blocks * WARPS / warps,
            bytes: self.bytes * share,
            operations: self.operations * share,
            ..self
        }
    }
}

/// The kernels for few rows, by blocks of four warps.
const FEW_ROWS: Abilities =
    Abilities { blocks: BLOCKS, bytes: 51e3, operations: 1e6, block: 1.5, overlap: 2.8 };
/// The other kernels for sm_80.
const MMA_SYNC: Abilities =
    Abilities { blocks: BLOCKS, bytes: 51e3, operations: 0.8e6, block: 1.5, overlap: 2.8 };
/// The kernels for sm_90a.
pub const HOPPER: Abilities =
    Abilities { blocks: 1, bytes: 59e3, operations: 5.9e6, block: 1.0, overlap: 4.0 };

/// A launch.
const LAUNCH: f64 = 5.0;
/// The combine kernel, beside its loads.
const COMBINE: f64 = 2.5;
/// Bytes of keys and values that the GPU's memory delivers in a microsecond.
const MEMORY: f64 = 3.04e6;
/// Bytes of partial results that are written and read again in a microsecond.
const PARTIAL: f64 = 1.87e6;
/// Bytes of an element of the operands, and of a partial result.
const BYTES: f64 = 2.0;
const PARTIAL_BYTES: f64 = 4.0;
/// What memory takes longer where the number of splits is no power of two: 3 to 8 % were measured,
/// the cause is not known.
const UNEVEN: f64 = 1.06;
/// How much of the shortest time more splits must save.
const WORTH: f64 = 0.015;

/// A kernel whose keys may be split.
#[derive(Clone, Copy, Debug)]
pub struct Split<'a> {
    pub kernel: &'a Abilities,
    /// Query rows and keys of a tile.
    pub tile: (u32, u32),
    /// Blocks of one split.
    pub blocks: u64,
    /// Tiles of keys that a block has without splits.
    pub key_tiles: u32,
    pub multiprocessors: u32,
}

/// The number of splits that takes the least time; of nearly equal ones the fewest.
///
/// Splits shorten the blocks, until memory is the limit. Each writes partial results, which the
/// combine kernel reads.
#[must_use]
pub fn splits(sizes: &Sizes, split: &Split<'_>) -> u32 {
    let most = split.key_tiles.clamp(1, MOST_SPLITS);
    let time = |&splits: &u32| time(sizes, split, splits);
    let best = (1..=most).map(|splits| time(&splits)).fold(f64::INFINITY, f64::min);
    (1..=most).find(|splits| time(splits) <= best * (1.0 + WORTH)).unwrap_or(1)
}

fn time(sizes: &Sizes, split: &Split<'_>, splits: u32) -> f64 {
    let &Sizes { batches, heads, group, queries, keys, d, dv } = sizes;
    let &Split { kernel, tile, blocks, key_tiles, multiprocessors } = split;
    let product = |factors: &[u32]| factors.iter().map(|&factor| f64::from(factor)).product::<f64>();
    let columns = d + dv;
    let loads = product(&[tile.1, columns]) * BYTES / kernel.bytes;
    let products = 2.0 * product(&[tile.0, tile.1, columns]) / kernel.operations;
    let slots = u64::from(multiprocessors * kernel.blocks).max(1);
    let waves = blocks.saturating_mul(splits.into()).div_ceil(slots) as f64;
    let of_blocks = waves * (f64::from(key_tiles.div_ceil(splits)) * loads.max(products) + kernel.block);
    let uneven = if splits.is_power_of_two() { 1.0 } else { UNEVEN };
    let of_memory = uneven * product(&[batches, heads / group.max(1), keys, columns]) * BYTES / MEMORY;
    let both = (of_blocks.powf(kernel.overlap) + of_memory.powf(kernel.overlap)).powf(kernel.overlap.recip());
    let partial = product(&[splits, batches, heads, queries, dv]) * PARTIAL_BYTES / PARTIAL;
    LAUNCH + both + if splits > 1 { COMBINE + partial } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(batches: u32, [heads, group]: [u32; 2], queries: u32, keys: u32) -> Plan {
        plan(&Question {
            sizes: Sizes { batches, heads, group, queries, keys, d: 128, dv: 128 },
            tile: (128, 64),
            decode_tile: (16, 32),
            decode_warps: 4,
            multiprocessors: 132,
            splits: None,
        })
    }

    #[test]
    fn one_query_token_of_few_sequences_is_split_over_the_card_and_a_long_prompt_is_not() {
        let decode = of(1, [32, 4], 1, 32768);
        assert!(decode.decode && decode.pack == 4, "{decode:?}");
        assert!((16..=64).contains(&decode.splits), "{decode:?}");
        assert_eq!(of(4, [16, 1], 4096, 4096), Plan { decode: false, pack: 1, splits: 1 });
    }

    #[test]
    fn decoding_is_split_no_further_than_memory_needs() {
        // The fastest numbers on an H100, within 2 %.
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
    fn kernels_with_a_block_a_multiprocessor_are_split_into_one_wave() {
        let splits = |batches: u32,
                      [heads, group]: [u32; 2],
                      [queries, keys]: [u32; 2],
                      rows: u32,
                      tiles: u64| {
            let sizes = Sizes { batches, heads, group, queries, keys, d: 128, dv: 128 };
            let blocks = tiles * u64::from(batches * heads / group);
            let tile = (rows, 128);
            let key_tiles = keys.div_ceil(128);
            super::splits(&sizes, &Split { kernel: &HOPPER, tile, blocks, key_tiles, multiprocessors: 132 })
        };
        assert_eq!(splits(1, [8, 1], [256, 8448], 128, 2), 8, "a chunk of a prompt");
        assert_eq!(splits(1, [32, 1], [256, 8448], 128, 2), 2, "with more heads");
        assert_eq!(splits(1, [32, 4], [8, 8192], 64, 1), 16, "several query tokens");
        assert_eq!(splits(16, [32, 4], [8, 8192], 64, 1), 1, "16 sequences fill the GPU");
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
