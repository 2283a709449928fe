//! The kernel's parameters.

use moye_device::prelude::*;

/// Queries, keys and values of the new tokens, each with its heads side by side.
#[repr(C)]
#[derive(Clone, Copy, Debug, KernelParam)]
pub struct Tokens {
    /// Queries.
    pub q: Global<f16>,
    /// Keys.
    pub k: Global<f16>,
    /// Values.
    pub v: Global<f16>,
    /// The stride from a token's queries to the next one's.
    pub q_row: i64,
    /// The stride from a token's keys to the next one's.
    pub k_row: i64,
    /// The stride from a token's values to the next one's.
    pub v_row: i64,
}

/// The rotation: cosines and sines, a row for each position.
#[repr(C)]
#[derive(Clone, Copy, Debug, KernelParam)]
pub struct Tables {
    /// Cosines.
    pub cos: Global<f32>,
    /// Sines.
    pub sin: Global<f32>,
    /// Rotated elements of a head.
    pub rotated: u32,
    /// Whether pairs are adjacent elements; otherwise element `i` of each half.
    pub adjacent: bool,
}

/// Where the tokens belong: one element for each token.
#[repr(C)]
#[derive(Clone, Copy, Debug, KernelParam)]
pub struct Places {
    /// Their positions.
    pub positions: Global<i32>,
    /// Tokens of each sequence in the cache, including the new one; 0 without a sequence.
    pub lengths: Global<i32>,
    /// Slots of the cache, -1 for a token that is not appended.
    pub slots: Global<i32>,
    /// Pages of each sequence.
    pub pages: Global<i32>,
    /// The number of pages of a sequence in this table.
    pub pages_of_row: u32,
    /// The binary logarithm of the tokens of a page.
    pub page_bits: u32,
}

/// Sizes, and the factor of scores.
#[repr(C)]
#[derive(Clone, Copy, Debug, KernelParam)]
pub struct Sizes {
    /// Query heads.
    pub heads: u32,
    /// Heads of keys and values.
    pub kv_heads: u32,
    /// Elements of a head.
    pub head: u32,
    /// Query heads of a block, at most the kernel's `QUERIES`.
    pub queries: u32,
    /// The maximum number of splits of a sequence's keys.
    pub splits: u32,
    /// Keys of a tile; the splits take tiles in turn.
    pub tile: u32,
    /// The factor of scores, times log2(e).
    pub scale: f32,
}

/// The workspace for the results of splits.
#[repr(C)]
#[derive(Clone, Copy, Debug, KernelParam)]
pub struct Work {
    /// For each block the results of its query heads, with their maxima and sums.
    pub partials: GlobalMut<f32>,
    /// For each token and block of queries: 0 before and after the launch.
    pub counters: GlobalMut<u32>,
}
