//! The step from a token to the next without the host.

use moye_device::arch::overlap_launches;
use moye_device::prelude::*;

/// Threads of a block.
pub const THREADS: u32 = 128;

/// Advances the rows of a batch past the token that was just appended to the cache: position,
/// length, slot and seed of the next token, one thread for each row. A row of length 0 has no
/// sequence and stays unchanged.
///
/// `state` holds positions, lengths and slots, `batch` of each; the pages of row `i` start at `i *
/// pages_of_row`. A page holds `page` tokens. `drawn` holds the last `ahead` tokens of each row,
/// the token of position `p` at `p % ahead`; the next one is copied from `tokens`.
///
/// # Safety
/// The grid has `ceil(batch / THREADS)` blocks. The buffers have these elements, and each row has a
/// page for its next token.
#[kernel(threads = THREADS)]
pub unsafe fn advance(
    state: GlobalMut<i32>,
    seeds: GlobalMut<i64>,
    pages: Global<i32>,
    tokens: Global<i32>,
    drawn: GlobalMut<i32>,
    batch: u32,
    pages_of_row: u32,
    page: u32,
    ahead: u32,
) {
    overlap_launches();
    let row = block_idx().x * THREADS + thread_idx().x;
    if row >= batch {
        return;
    }
    let [positions, lengths, slots] = [0, 1, 2].map(|array| state.offset(i64::from(array * batch)));
    let length = lengths.read(row);
    if length == 0 {
        return;
    }
    // The next token's position is the number of tokens before it.
    let next = length as u32;
    let number = next / page;
    let slot = if number < pages_of_row {
        pages.read(row * pages_of_row + number) * page as i32 + (next % page) as i32
    } else {
        -1
    };
    drawn.write(row * ahead + next % ahead, tokens.read(row));
    positions.write(row, length);
    lengths.write(row, length + 1);
    slots.write(row, slot);
    seeds.write(row, seeds.read(row) + 1);
}
