//! Stores C in words if its rows are not aligned to 16 bytes, so that TMA cannot store them.
//!
//! A warp has 16 rows of the boxes that [`store`](super::store::store) has filled, and writes row
//! after row with all of its lanes. Elements of 2 bytes are stored in pairs that are aligned to 4
//! bytes *in C*. In a row that is not aligned, a pair is made of two words of the box, the lane's
//! and its neighbour's:
//!
//! ```text
//! boxes      | 0 1 | 2 3 | 4 5 | ... | 126 127 |
//! C      | . 0 | 1 2 | 3 4 | ...   | 125 126 | 127 . |
//! pair            0     1     2        62       63       the first element alone, and the last
//! ```
//!
//! A lane has a pair of each of the two boxes. So a row of 256 bytes takes two stores of 128 bytes,
//! whatever its alignment, and one for each of its ends.

use super::config::{BOX_C, BOXES_C, ROW};
use moye_device::arch::{FULL_WARP, Word as _, shuffle};
use moye_device::memory::Element;

/// Rows of a warp.
const ROWS: u32 = 16;
/// Rows that are read before the first of them is written.
const AT_ONCE: u32 = 4;
/// Bytes of a word.
const WORD: u32 = 4;

/// The place of a warpgroup's part of a tile in C.
#[derive(Clone, Copy)]
pub struct Corner {
    /// The address of its first element.
    pub address: u64,
    /// Bytes between rows.
    pub row: i64,
    /// Rows and columns from there to C's edges.
    pub left: (u32, u32),
}

impl Corner {
    /// The same place, this many rows below.
    #[inline(always)]
    pub const fn below(self, rows: u32) -> Self {
        Self {
            address: self.address.wrapping_add_signed(rows as i64 * self.row),
            left: (self.left.0.saturating_sub(rows), self.left.1),
            ..self
        }
    }
}

/// Stores a warp's rows of `count` adjacent boxes, from `column` on.
///
/// # Safety
/// All lanes of the warp call it together. The warp has written its rows of the boxes from the
/// shared address `boxes` on as [`store`](super::store::store) does, and no thread writes to them
/// meanwhile. C has elements of `O`, and is writable.
#[inline(always)]
pub unsafe fn write_words<O: Element>(
    (boxes, count): (u32, u32),
    column: u32,
    corner: &Corner,
    (warp, lane): (u32, u32),
) {
    const { assert!(O::BYTES == 2 || O::BYTES == 4, "a word is one element or two") };
    let bytes = const { O::BYTES as u32 };
    let columns = corner.left.1.saturating_sub(column).min(count * ROW / bytes);
    let rows = corner.left.0.saturating_sub(warp * ROWS).min(ROWS);
    let mut first = 0;
    // The bound is known only at run time, so that this stays a loop.
    while first < rows {
        let mut words = [[0; BOXES_C as usize]; AT_ONCE as usize];
        let mut i = 0;
        while i < AT_ONCE {
            let row = warp * ROWS + first + i;
            let mut b = 0;
            while b < count {
                let piece = (lane * WORD / 16) ^ (row % 8);
                let address = boxes + b * BOX_C + row * ROW + piece * 16 + lane * WORD % 16;
                // The row belongs to the warp, also below the last row of C.
                words[i as usize][b as usize] = u32::load_shared(address);
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
            // Each element belongs to one lane.
            if const { O::BYTES == 2 } {
                write_pairs(&words[i as usize], count, to, (here, columns), lane);
            } else {
                let mut b = 0;
                while b < count {
                    let at = 32 * b + lane;
                    u32::store_global_if(
                        here && at < columns,
                        to + u64::from(at * WORD),
                        words[i as usize][b as usize],
                    );
                    b += 1;
                }
            }
            i += 1;
        }
        first += AT_ONCE;
    }
}

/// Stores a row of 2-byte elements, `columns` of them, if it is in bounds.
///
/// # Safety
/// All lanes of the warp call it together; the elements are writable.
#[inline(always)]
unsafe fn write_pairs(
    words: &[u32; BOXES_C as usize],
    count: u32,
    to: u64,
    (here, columns): (bool, u32),
    lane: u32,
) {
    // Whether the row starts in the middle of a word of C.
    let odd = (to / 2) as u32 % 2;
    let mut next = [0; BOXES_C as usize + 1];
    let mut b = 0;
    while b < count {
        next[b as usize] = shuffle(FULL_WARP, words[b as usize], (lane + 1) % 32);
        b += 1;
    }
    u16::store_global_if(here && odd == 1 && lane == 0 && columns > 0, to, words[0] as u16);
    b = 0;
    while b < count {
        let word = words[b as usize];
        // The last lane's neighbour is the first lane of the next box.
        let high = if lane == 31 { next[b as usize + 1] } else { next[b as usize] };
        let pair = if odd == 1 { word >> 16 | high << 16 } else { word };
        let at = odd + 2 * (32 * b + lane);
        let address = to + u64::from(2 * at);
        u32::store_global_if(here && at + 1 < columns, address, pair);
        u16::store_global_if(here && at + 1 == columns, address, pair as u16);
        b += 1;
    }
}
