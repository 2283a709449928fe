//! The choice of the kernel, of the heads in a tile, and of the splits of the keys.

/// The inputs of the choice.
#[derive(Clone, Copy, Debug)]
pub struct Question {
    pub batches: u32,
    pub heads: u32,
    pub group: u32,
    /// Query and key tokens; the largest numbers of any sequence.
    pub queries: u32,
    pub keys: u32,
    /// Query rows and keys of a tile: of the forward kernel, and of the one for few rows.
    pub tile: (u32, u32),
    pub decode_tile: (u32, u32),
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

/// Groups of warps in a block of the kernel for few rows.
const GROUPS: u32 = 4;
/// Blocks that run on a multiprocessor at the same time.
const BLOCKS: u32 = 2;
/// The overhead of a split, in tiles: its prologue and epilogue, and its share of the combine
/// kernel.
pub const OVERHEAD: u32 = 2;
/// The largest number of splits.
pub const MOST_SPLITS: u32 = 128;

/// Makes the choice.
#[must_use]
pub fn plan(question: &Question) -> Plan {
    let Question { heads, queries, .. } = *question;
    // Without query heads a group is empty.
    let group = question.group.max(1);
    let tiles = |pack: u32, rows: u32| {
        (u64::from(queries) * u64::from(pack)).div_ceil(rows.into()) * u64::from(heads / pack)
    };
    let decode = queries.saturating_mul(group) <= question.decode_tile.0;
    let (rows, keys) =
        if decode { (question.decode_tile.0, question.decode_tile.1 * GROUPS) } else { question.tile };
    // Heads that share keys share a tile if that gives fewer tiles.
    let pack = if tiles(group, rows) < tiles(1, rows) { group } else { 1 };
    let blocks = tiles(pack, rows).saturating_mul(u64::from(question.batches));
    let key_tiles = question.keys.div_ceil(keys);
    let slots = u64::from(question.multiprocessors * BLOCKS).max(1);
    let splits = question.splits.unwrap_or_else(|| splits(blocks, key_tiles, slots, OVERHEAD));
    Plan { decode, pack, splits }
}

/// The number of splits of `key_tiles` tiles of keys with which `blocks` blocks take the least
/// time: the number of waves, of `slots` blocks each, times the length of one. Of equal ones the
/// fewest.
#[must_use]
pub fn splits(blocks: u64, key_tiles: u32, slots: u64, overhead: u32) -> u32 {
    let cost = |splits: u32| {
        let waves = blocks.saturating_mul(u64::from(splits)).div_ceil(slots);
        let extra = if splits > 1 { overhead } else { 0 };
        waves.saturating_mul(u64::from(key_tiles.div_ceil(splits) + extra))
    };
    let most = key_tiles.clamp(1, MOST_SPLITS);
    (1..=most).min_by_key(|&splits| cost(splits)).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(batches: u32, [heads, group]: [u32; 2], queries: u32, keys: u32) -> Plan {
        plan(&Question {
            batches,
            heads,
            group,
            queries,
            keys,
            tile: (128, 64),
            decode_tile: (16, 32),
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
