//! Stores of a tile's rows to any place in global memory, in the widest words that C allows.
//!
//! # In vectors, from registers
//! Threads hold accumulators as `wgmma` and `mma.sync` leave them: each of the four lanes of a row
//! holds two of every eight columns. A vector of 16 bytes is eight columns of 2-byte elements,
//! which the lanes transpose in two steps, each with another lane ([`store_vectors`]): at first a
//! lane holds pairs of four blocks of eight columns, then all of one block.
//!
//! ```text
//! lane              0            1            2            3
//! pairs of block    0 1 2 3      0 1 2 3      0 1 2 3      0 1 2 3
//! with lane ^ 1     0 0 2 2      1 1 3 3      0 0 2 2      1 1 3 3
//! with lane ^ 2     0 0 0 0      1 1 1 1      2 2 2 2      3 3 3 3
//! ```
//!
//! With 4-byte elements a vector is four columns, half of such a block, and one step suffices.
//! Either way the lanes of a row store 64 bytes of it.
//!
//! # In words, from boxes in shared memory
//! A box is 64 rows of 128 bytes, whose 16-byte vectors are permuted by the row's index modulo 8
//! ([`fill_box`]). TMA stores it, unless rows of C start anywhere. Then a warp writes row after row
//! with all of its lanes ([`store_words`]). Elements of 2 bytes are stored in pairs that are
//! aligned to 4 bytes *in C*. In a row that is not aligned, a pair is assembled from two words of
//! the box, the lane's and the next lane's:
//!
//! ```text
//! boxes      | 0 1 | 2 3 | 4 5 | ... | 126 127 |
//! C      | . 0 | 1 2 | 3 4 | ...   | 125 126 | 127 . |
//! pair            0     1     2        62       63       the first element alone, and the last
//! ```
//!
//! A lane stores a pair of each of two boxes. So a row of 256 bytes takes two stores of 128 bytes,
//! whatever its alignment, and one for each of its ends.

use crate::arch::{FULL_WARP, Word as _, Word128, shuffle, shuffle_xor, stmatrix_x4};
use crate::atom::mma::{accumulator_column, accumulator_row};
use crate::memory::Element;

/// The start of the rows of a tile of C.
#[derive(Clone, Copy, Debug)]
pub struct Corner {
    /// The address of the tile's first element.
    pub address: u64,
    /// Bytes between rows.
    pub row: i64,
    /// Rows and columns from there to C's edges.
    pub left: (u32, u32),
}

impl Corner {
    /// The corner `rows` rows below.
    #[inline(always)]
    #[must_use]
    pub const fn below(self, rows: u32) -> Self {
        Self {
            address: self.address.wrapping_add_signed(rows as i64 * self.row),
            left: (self.left.0.saturating_sub(rows), self.left.1),
            ..self
        }
    }
}

/// Blocks of eight columns for whose vectors four lanes exchange pairs.
#[must_use]
pub const fn blocks_of_vectors<O: Element>() -> u32 {
    assert!(O::BYTES == 2 || O::BYTES == 4, "a vector is eight elements, or four");
    if O::BYTES == 2 { 4 } else { 2 }
}

/// Stores a warp's part of C in vectors of 16 bytes: 16 rows of `blocks` times eight columns, from
/// row `first` of the corner on. `pair(block, below)` returns the bits of two adjacent results of
/// the lane in a block: in row `lane / 4`, or with `below` = 1 eight rows below. Elements out of
/// bounds of C are skipped.
///
/// # Safety
/// All lanes of the warp call it together. C has elements of `O` and whole vectors, and is
/// writable; `blocks` is a multiple of [`blocks_of_vectors`].
#[cfg_attr(target_arch = "nvptx64", inline(always))]
#[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
pub unsafe fn store_vectors<O: Element>(
    pair: impl Fn(u32, u32) -> u64,
    blocks: u32,
    corner: &Corner,
    first: u32,
    lane: u32,
) {
    let at_once = const { blocks_of_vectors::<O>() };
    let (odd, high) = (lane % 2 == 1, lane % 4 >= 2);
    // The lane's columns within the blocks of a vector.
    let column = if const { O::BYTES == 2 } { 8 * (lane % 4) } else { 8 * (lane % 2) + 4 * (lane % 4 / 2) };
    let mut below = 0;
    while below < 2 {
        let row = first + accumulator_row(lane) + 8 * below;
        let line = corner.address.wrapping_add_signed(i64::from(row) * corner.row);
        let mut block = 0;
        while block < blocks {
            let (p0, p1) = (pair(block, below), pair(block + 1, below));
            let vector = if const { O::BYTES == 2 } {
                let (p2, p3) = (pair(block + 2, below), pair(block + 3, below));
                let [[a], [b]] = joined([p0 as u32], [p1 as u32], 1, odd);
                let [[c], [d]] = joined([p2 as u32], [p3 as u32], 1, odd);
                joined([a, b], [c, d], 2, high)
            } else {
                joined([p0 as u32, (p0 >> 32) as u32], [p1 as u32, (p1 >> 32) as u32], 1, odd)
            };
            let column = 8 * block + column;
            let here = row < corner.left.0 && column < corner.left.1;
            let [[w0, w1], [w2, w3]] = vector;
            let address = line + u64::from(column) * O::BYTES as u64;
            // SAFETY: C is writable, and its rows are whole vectors.
            unsafe { Word128::store_global_if(here, address, Word128([w0, w1, w2, w3])) };
            block += at_once;
        }
        below += 1;
    }
}

/// Two lanes whose indices differ in `mask` exchange halves: the lane with the bit set receives the
/// whole second value, the other lane the first. The halves are in the order of the lanes.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
#[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
fn joined<const N: usize>(first: [u32; N], second: [u32; N], mask: u32, set: bool) -> [[u32; N]; 2] {
    let (keep, mut got) = if set { (second, first) } else { (first, second) };
    // No `map`: faults and profiles would name its closure instead of the kernel's line.
    let mut i = 0;
    while i < N {
        got[i] = shuffle_xor(FULL_WARP, got[i], mask);
        i += 1;
    }
    if set { [got, keep] } else { [keep, got] }
}

/// Rows of a box that a warp stores.
const ROWS: u32 = 16;
/// Bytes of a row of a box.
const ROW: u32 = 128;
/// Bytes of a box: 64 rows.
const BOX: u32 = 64 * ROW;
/// Boxes whose rows a warp stores together.
const BOXES: usize = 2;
/// Rows that are read before the first of them is written.
const AT_ONCE: u32 = 4;
/// Bytes of a word.
const WORD: u32 = 4;

/// Fills a box in shared memory, 64 rows of 128 bytes, from a warpgroup's accumulators of its
/// columns, as `wgmma` leaves them: `pair(i)` returns the bits of results `i` and `i + 1` of the
/// thread, as elements of `O`.
///
/// # Safety
/// All threads of the warpgroup call it together, each with its index. The box belongs to them.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
#[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
pub unsafe fn fill_box<O: Element>(base: u32, thread: u32, pair: impl Fn(usize) -> u64) {
    let lane = thread % 32;
    let mut j = 0;
    while j < 4 {
        if const { O::BYTES == 2 } {
            // Lane `l` of a warp addresses row `l % 16` of the first or the second eight columns.
            let row = thread / 32 * 16 + lane % 16;
            let at = 8 * j;
            let piece = 2 * j as u32 + lane / 16;
            let address = base + row * ROW + ((piece ^ (row % 8)) << 4);
            let pairs = [pair(at), pair(at + 2), pair(at + 4), pair(at + 6)].map(|bits| bits as u32);
            // SAFETY: the row belongs to the warpgroup.
            unsafe { stmatrix_x4(address, pairs) };
        } else {
            let (row, column) = (thread / 32 * 16 + accumulator_row(lane), accumulator_column(lane));
            let at = 4 * j;
            let piece = 2 * j as u32 + column / 4;
            // Eight rows below, the permutation is the same.
            let address = base + row * ROW + ((piece ^ (row % 8)) << 4) + column % 4 * WORD;
            // SAFETY: the box belongs to the warpgroup; each pair belongs to one thread.
            unsafe {
                u64::store_shared(address, pair(at));
                u64::store_shared(address + 8 * ROW, pair(at + 2));
            }
        }
        j += 1;
    }
}

/// Stores a warp's 16 rows of `count` adjacent boxes, one or two, from `column` of the corner on,
/// at any address. Elements out of bounds of C are skipped.
///
/// # Safety
/// All lanes of the warp call it together, with the warp's index in its warpgroup and their own.
/// The warp has [filled](fill_box) its rows of the boxes at the shared address `boxes`, and no
/// thread writes to them meanwhile. C has elements of `O`, and is writable.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
#[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
pub unsafe fn store_words<O: Element>(
    boxes: u32,
    count: u32,
    column: u32,
    corner: &Corner,
    warp: u32,
    lane: u32,
) {
    const { assert!(O::BYTES == 2 || O::BYTES == 4, "a word is one element or two") };
    let bytes = const { O::BYTES as u32 };
    let columns = corner.left.1.saturating_sub(column).min(count * ROW / bytes);
    let rows = corner.left.0.saturating_sub(warp * ROWS).min(ROWS);
    let mut first = 0;
    // The bound is known only at run time, so this stays a loop.
    while first < rows {
        let mut words = [[0; BOXES]; AT_ONCE as usize];
        let mut i = 0;
        while i < AT_ONCE {
            let row = warp * ROWS + first + i;
            let mut b = 0;
            while b < count {
                let piece = (lane * WORD / 16) ^ (row % 8);
                let address = boxes + b * BOX + row * ROW + piece * 16 + lane * WORD % 16;
                // SAFETY: the row belongs to the warp, even if it is past the end of C.
                words[i as usize][b as usize] = unsafe { u32::load_shared(address) };
                b += 1;
            }
            i += 1;
        }
        i = 0;
        while i < AT_ONCE {
            let row = warp * ROWS + first + i;
            let to = corner
                .address
                .wrapping_add_signed(i64::from(row) * corner.row)
                .wrapping_add(u64::from(column * bytes));
            let here = first + i < rows;
            if const { O::BYTES == 2 } {
                // SAFETY: all lanes are here; the warp has filled its rows, and C is writable.
                unsafe { store_pairs(&words[i as usize], count, to, here, columns, lane) };
            } else {
                let mut b = 0;
                while b < count {
                    let at = 32 * b + lane;
                    let (here, word) = (here && at < columns, words[i as usize][b as usize]);
                    // SAFETY: C is writable; each element belongs to one lane.
                    unsafe { u32::store_global_if(here, to + u64::from(at * WORD), word) };
                    b += 1;
                }
            }
            i += 1;
        }
        first += AT_ONCE;
    }
}

/// Stores a row of 2-byte elements, `columns` of them, if it is in bounds (`here`).
///
/// # Safety
/// All lanes of the warp call it together; the elements are writable.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
#[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
unsafe fn store_pairs(words: &[u32; BOXES], count: u32, to: u64, here: bool, columns: u32, lane: u32) {
    // Whether the row starts in the middle of a word of C.
    let odd = (to / 2) as u32 % 2;
    let mut next = [0; BOXES + 1];
    let mut b = 0;
    while b < count {
        next[b as usize] = shuffle(FULL_WARP, words[b as usize], (lane + 1) % 32);
        b += 1;
    }
    // SAFETY: the elements are writable, here and below.
    unsafe { u16::store_global_if(here && odd == 1 && lane == 0 && columns > 0, to, words[0] as u16) };
    b = 0;
    while b < count {
        let word = words[b as usize];
        // The word after the last lane's is the first lane's of the next box.
        let high = if lane == 31 { next[b as usize + 1] } else { next[b as usize] };
        let pair = if odd == 1 { word >> 16 | high << 16 } else { word };
        let at = odd + 2 * (32 * b + lane);
        let address = to + u64::from(2 * at);
        // SAFETY: each element belongs to one lane.
        unsafe {
            u32::store_global_if(here && at + 1 < columns, address, pair);
            u16::store_global_if(here && at + 1 == columns, address, pair as u16);
        }
        b += 1;
    }
}
