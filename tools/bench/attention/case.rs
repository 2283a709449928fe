//! Cases of attention: shapes, options, and the work that a rate counts.

use std::fmt;
use std::ops::Range;

/// A case.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Case {
    /// Sequences.
    pub batches: usize,
    /// Heads of the queries.
    pub heads: usize,
    /// Heads of the keys and values.
    pub kv_heads: usize,
    /// Queries of a sequence.
    pub queries: usize,
    /// Keys of a sequence.
    pub keys: usize,
    /// Columns of a head of queries and keys.
    pub d: usize,
    /// Columns of a head of values.
    pub dv: usize,
    /// The options.
    pub options: Options,
    /// Whether rates are in bytes, because loading keys and values dominates.
    pub by_bytes: bool,
    /// The layout of sequences in memory.
    pub order: Order,
    /// Number of splits of the keys; chosen by shape and device if `None`.
    pub splits: Option<u32>,
    /// Operands of e4m3 instead of bf16.
    pub e4m3: bool,
}

/// The options of attention.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// The number of keys that a query attends to before and after its position; `None` means no
    /// limit.
    pub window: [Option<u32>; 2],
    /// The cap of the scores; 0 is off.
    pub softcap: f32,
    /// ALiBi, with the slopes `2^(-8 (head + 1) / heads)`.
    pub alibi: bool,
    /// An attention sink for each head.
    pub sinks: bool,
    /// A bias for each pair of query and key, shared by heads and sequences.
    pub bias: bool,
    /// A boolean mask for each pair of query and key, shared by heads and sequences.
    pub mask: bool,
}

impl Options {
    /// A query attends to the keys up to its position.
    pub const CAUSAL: Self = Self { window: [None, Some(0)], ..Self::NONE };
    /// No options.
    pub const NONE: Self =
        Self { window: [None; 2], softcap: 0.0, alibi: false, sinks: false, bias: false, mask: false };
}

impl fmt::Display for Options {
    /// The options that are on, each after a space.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.window {
            [None, None] => {}
            [None, Some(0)] => write!(f, " causal")?,
            [left, right] => {
                let limit = |limit: Option<u32>| limit.map_or("-".to_owned(), |limit| limit.to_string());
                write!(f, " window {},{}", limit(left), limit(right))?;
            }
        }
        if self.softcap != 0.0 {
            write!(f, " softcap {}", self.softcap)?;
        }
        for (on, name) in
            [(self.alibi, "alibi"), (self.sinks, "sinks"), (self.bias, "bias"), (self.mask, "mask")]
        {
            if on {
                write!(f, " {name}")?;
            }
        }
        Ok(())
    }
}

/// The layout of sequences in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// A tensor with one batch for each sequence.
    Batches,
    /// One sequence after the other, with offsets on the device.
    Offsets,
    /// Keys and values in pages of this many tokens, in random order.
    Pages(usize),
}

impl fmt::Display for Order {
    /// The order after a space; nothing for batches.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Batches => Ok(()),
            Self::Offsets => write!(f, " by offsets"),
            Self::Pages(page) => write!(f, " pages of {page}"),
        }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let &Self { batches, heads, kv_heads, d, dv, options, order, e4m3, .. } = self;
        write!(f, "{} B {batches} H {heads}", if e4m3 { "e4m3" } else { "bf16" })?;
        if heads != kv_heads {
            write!(f, "/{kv_heads}")?;
        }
        write!(f, " D {d}")?;
        if d != dv {
            write!(f, "/{dv}")?;
        }
        write!(f, "{options}{order}")
    }
}

impl Case {
    /// Sequences of `tokens` queries and keys, with as many KV heads as query heads, in bf16.
    pub const fn prompt(batches: usize, heads: usize, tokens: usize, d: usize) -> Self {
        Self {
            batches,
            heads,
            kv_heads: heads,
            queries: tokens,
            keys: tokens,
            d,
            dv: d,
            options: Options::NONE,
            by_bytes: false,
            order: Order::Batches,
            splits: None,
            e4m3: false,
        }
    }

    /// The keys to which a query token attends, without the mask; the last token is
    /// at the position of the last key.
    pub(super) fn visible(&self, token: usize) -> Range<usize> {
        let [left, right] = self.options.window;
        let past_end = |limit: u32| (token + self.keys + limit as usize + 1).saturating_sub(self.queries);
        let begin = left.map_or(0, |left| (token + self.keys).saturating_sub(self.queries + left as usize));
        let end = right.map_or(self.keys, |right| past_end(right).min(self.keys));
        begin.min(end)..end
    }

    /// The operations of the visible scores; a multiply-add is two. A boolean mask hides none of
    /// them, because its scores are computed.
    pub(super) fn operations(&self) -> f64 {
        let seen: f64 = (0..self.queries).map(|token| self.visible(token).len() as f64).sum();
        2.0 * seen * (self.batches * self.heads * (self.d + self.dv)) as f64
    }

    /// Bytes of visible keys and values, queries and results.
    pub(super) fn bytes(&self) -> f64 {
        let visible = match self.queries.checked_sub(1) {
            Some(last) => self.visible(0).start..self.visible(last).end,
            None => 0..0,
        };
        let operand = if self.e4m3 { 1 } else { 2 };
        let keys = self.kv_heads * visible.len() * (self.d + self.dv) * operand;
        let queries = self.heads * self.queries * (self.d * operand + self.dv * 2);
        (self.batches * (keys + queries)) as f64
    }
}

/// 16,384 tokens in total with 2048 columns in total, as in FlashAttention's figures; then one and
/// a few tokens against caches; and a chunk of a prompt after 8192 tokens.
pub fn cases() -> Vec<Case> {
    const TOKENS: usize = 16384;
    let mut cases = Vec::new();
    let masks = [Options::NONE, Options::CAUSAL];
    for d in [64, 128, 256] {
        for s in [1024, 4096, TOKENS] {
            let prompt = Case::prompt(TOKENS / s, 2048 / d, s, d);
            cases.extend(masks.map(|options| Case { options, ..prompt }));
        }
    }
    // The same sequences with offsets, and with their keys in pages.
    for order in [Order::Offsets, Order::Pages(64)] {
        let prompt = Case::prompt(TOKENS / 4096, 2048 / 128, 4096, 128);
        cases.extend(masks.map(|options| Case { options, order, ..prompt }));
    }
    let decode = |batches, queries, keys| Case {
        kv_heads: 8,
        queries,
        options: Options::CAUSAL,
        by_bytes: true,
        ..Case::prompt(batches, 32, keys, 128)
    };
    for (batches, keys) in [(1, 2048), (1, 8192), (1, 32768), (16, 2048), (16, 8192), (16, 32768)] {
        cases.push(decode(batches, 1, keys));
    }
    cases.extend([2, 4, 8, 16].map(|queries| decode(16, queries, 8192)));
    let chunk = Case { heads: 8, by_bytes: false, ..decode(1, 256, 8448) };
    cases.push(chunk);
    for page in [16, 64] {
        let order = Order::Pages(page);
        cases.extend([1, 8, 16].map(|queries| Case { order, ..decode(16, queries, 8192) }));
    }
    cases.extend([16, 64].map(|page| Case { order: Order::Pages(page), ..chunk }));
    cases
}

/// The prompts of [`cases`] in e4m3.
pub fn cases_of_e4m3() -> Vec<Case> {
    let prompts =
        cases().into_iter().filter(|case| case.order == Order::Batches && case.queries == case.keys);
    prompts.map(|case| Case { e4m3: true, ..case }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_counts_the_visible_scores_and_the_keys_that_are_loaded() {
        let of = |window, queries, keys| Case {
            queries,
            options: Options { window, ..Options::NONE },
            ..Case::prompt(1, 1, keys, 64)
        };
        let causal = of([None, Some(0)], 3, 70);
        assert_eq!(causal.operations(), f64::from(4 * (68 + 69 + 70) * 64));
        assert_eq!(causal.bytes(), f64::from(2 * 2 * (70 + 3) * 64));
        let sliding = of([Some(2), Some(0)], 3, 70);
        assert_eq!(sliding.operations(), f64::from(4 * (3 + 3 + 3) * 64));
        assert_eq!(sliding.bytes(), f64::from(2 * 2 * (5 + 3) * 64), "the keys from 65 on");
        // The first two queries precede the first key.
        assert_eq!(of([None, Some(0)], 4, 2).operations(), f64::from(4 * (1 + 2) * 64));
        assert_eq!(of([None, None], 0, 5).bytes(), 0.0);
    }

    #[test]
    fn a_case_is_named_by_its_differences_from_the_plain_one() {
        let plain = Case::prompt(2, 4, 128, 64);
        assert_eq!(plain.to_string(), "bf16 B 2 H 4 D 64");
        let options = Options {
            window: [Some(128), None],
            softcap: 30.0,
            alibi: true,
            sinks: true,
            bias: true,
            mask: true,
        };
        let case = Case { kv_heads: 2, d: 192, dv: 128, options, order: Order::Pages(16), ..plain };
        assert_eq!(
            case.to_string(),
            "bf16 B 2 H 4/2 D 192/128 window 128,- softcap 30 alibi sinks bias mask pages of 16"
        );
    }
}
