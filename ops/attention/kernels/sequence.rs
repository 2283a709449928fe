//! Lengths and offsets of one sequence, where its keys are, and which keys a query token sees.

use super::arguments::{Arguments, Strides, UNLIMITED, Window};
use moye_device::memory::{Element, Global};

/// One sequence of the batch: where its rows begin, how many there are, and which keys its queries
/// see.
#[derive(Clone, Copy, Debug)]
pub struct Sequence {
    /// The index of the sequence.
    pub batch: u32,
    /// The row of `q` and `o` at which it begins, in addition to the offset of the batch.
    pub q_first: u32,
    /// The row of `k` and `v` at which it begins.
    pub k_first: u32,
    /// Query tokens.
    pub queries: u32,
    /// The keys that its queries see.
    pub visible: Visible,
}

impl Sequence {
    /// Sequence `batch`. Lengths and offsets in device memory are read.
    ///
    /// # Safety
    /// The offsets and lengths of `arguments` may be read.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    #[must_use]
    pub unsafe fn of<T: Element>(arguments: &Arguments<T>, batch: u32) -> Self {
        // The offset at `batch`, and the distance to the next.
        let range = |offsets: Global<i32>, length: u32| {
            if offsets.address() == 0 {
                return (0, length);
            }
            let [from, to] = [offsets.read(batch), offsets.read(batch + 1)];
            (from as u32, (to - from) as u32)
        };
        let (q_first, queries) = range(arguments.q_offsets, arguments.q_length);
        let (k_first, mut keys) = range(arguments.k_offsets, arguments.k_length);
        if arguments.k_lengths.address() != 0 {
            keys = arguments.k_lengths.read(batch) as u32;
        }
        let visible = Visible::new(queries, keys, arguments.window);
        Self { batch, q_first, k_first, queries, visible }
    }

    /// The offset of head `head` of this sequence in a tensor of queries.
    #[inline(always)]
    #[must_use]
    pub fn q_offset(&self, strides: &Strides, head: u32) -> i64 {
        offset(strides, self.batch, self.q_first, head)
    }

    /// The offset of KV head `head` of this sequence in a tensor of keys; with pages the batch adds
    /// nothing.
    #[inline(always)]
    #[must_use]
    pub fn k_offset(&self, strides: &Strides, head: u32, paged: bool) -> i64 {
        offset(strides, if paged { 0 } else { self.batch }, self.k_first, head)
    }
}

#[inline(always)]
fn offset(strides: &Strides, batch: u32, row: u32, head: u32) -> i64 {
    i64::from(batch) * strides.batch + i64::from(row) * strides.row + i64::from(head) * strides.head
}

/// Maps a key of one sequence to its row and sequence, or to its row and page.
#[derive(Clone, Copy)]
pub struct Places {
    /// Page numbers of the sequence; address 0 without pages.
    pages: Global<i32>,
    /// Tokens per page.
    page: u32,
    /// Without pages: the row of the first key, and the sequence.
    first: u32,
    batch: u32,
    /// Keys of the sequence.
    keys: u32,
}

impl Places {
    /// The places of the keys of `sequence`; `paged`, a constant: whether the kernel looks up
    /// pages.
    #[inline(always)]
    pub fn new<T: Element>(arguments: &Arguments<T>, sequence: &Sequence, paged: bool) -> Self {
        let pages = if !paged || arguments.pages.address() == 0 {
            Global::from_address(0)
        } else {
            arguments.pages.offset(i64::from(sequence.batch) * arguments.stride_pages)
        };
        // With offsets, all sequences are rows of sequence 0 of the tensor.
        let batch = if arguments.k_offsets.address() == 0 { sequence.batch } else { 0 };
        Self { pages, page: arguments.page, first: sequence.k_first, batch, keys: sequence.visible.keys }
    }

    /// The row of a key in its sequence or page. With pages, a key past the end of the sequence
    /// gets a row past the end of the page: TMA fills its elements with zeros.
    #[inline(always)]
    pub fn row(&self, key: u32) -> i32 {
        if self.pages.address() == 0 {
            (self.first + key) as i32
        } else if key >= self.keys {
            self.page as i32
        } else {
            (key & (self.page - 1)) as i32
        }
    }

    /// The sequence, or the page, of a key.
    #[inline(always)]
    pub fn batch(&self, key: u32) -> i32 {
        if self.pages.address() == 0 {
            self.batch as i32
        } else if key >= self.keys {
            0
        } else {
            let number = i64::from(key >> self.page.trailing_zeros());
            // SAFETY: the sequence has the key, so that the table has its page.
            unsafe { self.pages.read(number) }
        }
    }
}

/// A query: a token of a sequence and a query head, which is counted from a tile's first, or from
/// the tensor's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Query {
    /// The token.
    pub token: u32,
    /// The query head.
    pub head: u32,
}

impl Query {
    /// The query of row `row` of the rows of `pack` heads.
    #[inline(always)]
    #[must_use]
    pub fn of_row(row: u32, pack: u32) -> Self {
        if pack == 1 { Self { token: row, head: 0 } } else { Self { token: row / pack, head: row % pack } }
    }
}

/// Keys, or tiles of keys: `begin .. end`, none if `end <= begin`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span<T> {
    /// The first.
    pub begin: T,
    /// One past the last.
    pub end: T,
}

/// The keys that some queries see.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// The keys that at least one of them sees. Tiles outside need no work.
    pub by_some: Span<i32>,
    /// The keys that all of them see. Tiles inside need no mask.
    pub by_all: Span<i32>,
}

/// Which keys the query tokens of a sequence see: a band along the diagonal that ends in the lower
/// right corner.
#[derive(Clone, Copy, Debug)]
pub struct Visible {
    /// Key tokens.
    pub keys: u32,
    /// The key position of query token 0; negative where there are more queries than keys.
    pub shift: i32,
    /// How far a query sees to the left and to the right.
    pub window: Window,
}

impl Visible {
    /// The keys that `queries` tokens see of `keys` tokens.
    #[inline(always)]
    #[must_use]
    pub fn new(queries: u32, keys: u32, window: Window) -> Self {
        Self { keys, shift: keys as i32 - queries as i32, window }
    }

    /// The keys that query token `query` sees.
    #[inline(always)]
    #[must_use]
    pub fn of(&self, query: u32) -> Span<i32> {
        let position = query as i32 + self.shift;
        let begin =
            if self.window.left == UNLIMITED { 0 } else { position.saturating_sub(self.window.left).max(0) };
        let keys = self.keys as i32;
        let end = if self.window.right == UNLIMITED {
            keys
        } else {
            position.saturating_add(self.window.right).saturating_add(1).min(keys)
        };
        Span { begin, end }
    }

    /// The keys that the tokens `first ..= last` see.
    #[inline(always)]
    #[must_use]
    pub fn range(&self, first: u32, last: u32) -> Seen {
        let (from, to) = (self.of(first), self.of(last));
        Seen {
            by_some: Span { begin: from.begin, end: to.end },
            by_all: Span { begin: to.begin, end: from.end },
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;

    /// By the definition: one score at a time.
    fn sees(queries: i64, keys: i64, Window { left, right }: Window, query: i64, key: i64) -> bool {
        let position = query + keys - queries;
        let limit = |limit: i32| if limit == UNLIMITED { i64::MAX } else { limit.into() };
        position - key <= limit(left) && key - position <= limit(right)
    }

    #[test]
    fn a_query_sees_the_keys_of_its_window_aligned_to_the_lower_right() {
        let limits = [0, 1, 3, 100, UNLIMITED - 1, UNLIMITED];
        for queries in 1..9u32 {
            for keys in 0..9u32 {
                for window in limits.map(|left| limits.map(|right| Window { left, right })).concat() {
                    let visible = Visible::new(queries, keys, window);
                    for query in 0..queries {
                        let Span { begin, end } = visible.of(query);
                        for key in 0..keys {
                            assert_eq!(
                                (begin..end).contains(&(key as i32)),
                                sees(queries.into(), keys.into(), window, query.into(), key.into()),
                                "query {query} of {queries}, key {key} of {keys}, {window:?}"
                            );
                        }
                        assert!(begin >= 0 && end <= keys as i32, "{begin}..{end} of {keys}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_range_of_queries_has_a_hull_and_a_core_of_visible_keys() {
        for (queries, keys) in [(5u32, 9u32), (9, 5), (7, 7)] {
            for [left, right] in [[2, 1], [UNLIMITED, 0], [0, UNLIMITED], [UNLIMITED; 2], [4, 4]] {
                let window = Window { left, right };
                let visible = Visible::new(queries, keys, window);
                for first in 0..queries {
                    for last in first..queries {
                        let Seen { by_some: hull, by_all: core } = visible.range(first, last);
                        for key in 0..keys as i32 {
                            let seen = (first..=last).filter(|&q| {
                                let Span { begin, end } = visible.of(q);
                                (begin..end).contains(&key)
                            });
                            let seen = seen.count() as u32;
                            assert!(
                                seen == 0 || (hull.begin..hull.end).contains(&key),
                                "{key} outside {hull:?}"
                            );
                            let in_core = (core.begin..core.end).contains(&key);
                            assert!(!in_core || seen == last - first + 1, "{key} inside {core:?}");
                        }
                    }
                }
            }
        }
    }
}
