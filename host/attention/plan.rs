//! The choice of the kernel, of the heads in a tile, and of the splits of the keys.

use super::model::{Abilities, MMA_SYNC, Split, splits};
use crate::device::Rates;
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
    /// The sizes of a call with head sizes `(d, dv)`.
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
    /// Shared memory of a block of these kernels.
    pub shared_bytes: usize,
    pub decode_shared_bytes: usize,
    /// Warps of the kernel for few rows, each with tiles of its own.
    pub decode_warps: u32,
    pub rates: Rates,
    /// Set by the caller.
    pub splits: Option<u32>,
}

/// The chosen kernel, heads of a tile and splits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    pub decode: bool,
    pub pack: u32,
    pub splits: u32,
}

/// Chooses the kernel, the heads of a tile and the splits.
#[must_use]
pub fn plan(question: &Question) -> Plan {
    let Sizes { batches, heads, group, queries, keys, .. } = question.sizes;
    // Without query heads a group is empty.
    let group = group.max(1);
    let tiles = |pack: u32, rows: u32| {
        (u64::from(queries) * u64::from(pack)).div_ceil(rows.into()) * u64::from(heads / pack)
    };
    let decode = queries.saturating_mul(group) <= question.decode_tile.0;
    let (kernel, shared_bytes, tile) = if decode {
        let (rows, keys) = question.decode_tile;
        let warps = question.decode_warps;
        (Abilities::few_rows(warps), question.decode_shared_bytes, (rows, keys * warps))
    } else {
        (MMA_SYNC, question.shared_bytes, question.tile)
    };
    // Heads that share keys share a tile if that gives fewer tiles.
    let pack = if tiles(group, tile.0) < tiles(1, tile.0) { group } else { 1 };
    let splits = question.splits.unwrap_or_else(|| {
        let blocks = tiles(pack, tile.0).saturating_mul(batches.into());
        let key_tiles = keys.div_ceil(tile.1);
        let rates = question.rates;
        splits(&question.sizes, &Split { kernel: &kernel, shared_bytes, tile, blocks, key_tiles, rates })
    });
    Plan { decode, pack, splits }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Arch;

    fn of(batches: u32, heads: [u32; 2], queries: u32, keys: u32) -> Plan {
        on(Rates::H100, batches, heads, queries, keys)
    }

    fn on(rates: Rates, batches: u32, [heads, group]: [u32; 2], queries: u32, keys: u32) -> Plan {
        plan(&Question {
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
