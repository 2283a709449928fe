//! Lines of bytes copied to where they begin at multiples of 16 bytes, from anywhere.
//!
//! A line that begins at no multiple of 16 bytes cannot be read by the words that are written: so each word of 16 bytes is cut out of
//! two that are read, the lane's and the next lane's. Where a word begins is the same for all of a line:
//!
//! ```text
//! read      | . . a b | c d e f | g h i j | k l . . |
//! written       | a b c d | e f g h | i j k l |
//! ```
//!
//! Of the eight registers of two words, five are chosen by the distance in registers, and `shf` (a shift of two registers) cuts
//! four out of them.

use crate::arch::{
    CachedAccess as _, FULL_WARP, LoadCache, LoadHint, Word as _, Word128, block_idx, overlap_work, shuffle,
    thread_idx,
};
use crate::kernel;
use crate::memory::{Global, GlobalMut};

/// Bytes of a word.
const WORD: u32 = size_of::<Word128>() as u32;
/// Words that a lane has on their way at a time.
const AT_ONCE: u32 = 4;
/// Bytes of a line that a warp copies, and so a lane all of its words at a time: of long lines there are many warps on their way.
pub const RUN: u32 = 32 * AT_ONCE * WORD;
/// Runs of a block: one for each warp.
pub const RUNS: u32 = 8;

/// From the L2 cache. Where the kernel runs beside another, it has waited for nobody itself, and what L1 has may be older than what
/// the kernels in front have written.
const LOAD: LoadHint = LoadHint::PLAIN.cache(LoadCache::Cg);

/// Copies `lines` lines of `bytes` bytes each, that begin so many bytes after each other, and writes zeros behind each, up to `written`
/// bytes, for those who read whole words of 16. In runs of [`RUN`] bytes, the last one of a line shorter; a block of 256 threads for each [`RUNS`] runs along x, for each batch along y. `beside` is 1 where the kernel in front was
/// this one for another place, beside which it may run (see [`overlap_work`]).
///
/// # Safety
/// All batches of both matrices lie in memory of the device inside the buffers that the pointers come from, the buffer that is
/// read begins at a multiple of 16 bytes, and they do not overlap. Lines that are written begin at multiples of 16 bytes. All lines have
/// at most 2^32 - 8 runs, and `bytes` is at least 1 and at most 2^32 - 4096; `written` is as many, or up to the next multiple of 16. Where `beside` is set, the kernel in front in the stream is
/// another launch of this one, and neither touches what the other writes.
#[kernel(threads = 256)]
pub unsafe fn realign(
    src: Global<u8>,
    dst: GlobalMut<u8>,
    lines: u32,
    bytes: u32,
    written: u32,
    src_line: i64,
    dst_line: i64,
    src_batch: i64,
    dst_batch: i64,
    beside: u32,
) {
    overlap_work(beside != 0, || {
        // SAFETY: the caller's contract.
        unsafe { copy_run((src, dst), (lines, bytes, written), [src_line, dst_line], [src_batch, dst_batch]) }
    });
}

/// Copies the warp's run.
///
/// # Safety
/// As for [`realign`].
#[inline(always)]
unsafe fn copy_run(
    (src, dst): (Global<u8>, GlobalMut<u8>),
    (lines, bytes, written): (u32, u32, u32),
    [src_line, dst_line]: [i64; 2],
    [src_batch, dst_batch]: [i64; 2],
) {
    let (warp, lane) = (thread_idx().x / 32, thread_idx().x % 32);
    let (number, runs) = (RUNS * block_idx().x + warp, bytes.div_ceil(RUN));
    let (line, run) = (number / runs, number % runs);
    if line >= lines {
        return;
    }
    let batch = i64::from(block_idx().y);
    let from = src.offset(batch * src_batch + i64::from(line) * src_line).address();
    let to = dst.offset(batch * dst_batch + i64::from(line) * dst_line).address();
    let shift = (from % u64::from(WORD)) as u32;
    let aligned = from - u64::from(shift);
    // Words that are read end in the line; the first one may begin in front of it, in the same buffer. Those that are written are cut out of
    // two each, where the line begins within one.
    let end = ((u64::from(bytes) + u64::from(shift)) / u64::from(WORD)) as u32;
    let whole = if shift == 0 { end } else { end.saturating_sub(1) };
    if end > 0 {
        let first = run * const { 32 * AT_ONCE };
        let mut words = [Word128([0; 4]); AT_ONCE as usize + 1];
        let mut i = 0;
        while i <= AT_ONCE {
            // Of the words behind the run, the first one is asked for; behind the line's last word there is none.
            let at = first + 32 * i + if i < AT_ONCE { lane } else { 0 };
            let at = if at < end { at } else { end - 1 };
            // SAFETY: the word ends in the line, and begins in the buffer.
            words[i as usize] =
                unsafe { Word128::load_global_hint(LOAD, aligned + u64::from(at) * u64::from(WORD)) };
            i += 1;
        }
        i = 0;
        while i < AT_ONCE {
            let at = first + 32 * i + lane;
            let low = words[i as usize];
            // The last lane's next word is the first one's of the next 32.
            let told = if lane == 0 { words[i as usize + 1] } else { low };
            let high = Word128(told.0.map(|register| shuffle(FULL_WARP, register, (lane + 1) % 32)));
            let address = to + u64::from(at) * u64::from(WORD);
            // SAFETY: the word is in the line that is written.
            unsafe { Word128::store_global_if(at < whole, address, cut(low, high, shift)) };
            i += 1;
        }
    }
    // The rest of the line, up to 31 bytes, with its first run, and the zeros behind it: two words at most.
    let at = WORD * whole + lane;
    let rest = run == 0 && at < written;
    if rest {
        // SAFETY: the byte is in both lines, or one of those that are written behind.
        unsafe {
            let byte = if at < bytes { u8::load_global_hint(LOAD, from + u64::from(at)) } else { 0 };
            u8::store_global(to + u64::from(at), byte);
        }
    }
}

/// The word that begins `shift` bytes, less than 16, after the first of two that follow each other.
#[inline(always)]
fn cut(low: Word128, high: Word128, shift: u32) -> Word128 {
    let ([l0, l1, l2, l3], [h0, h1, h2, h3]) = (low.0, high.0);
    let six = if shift & 8 != 0 { [l2, l3, h0, h1, h2, h3] } else { [l0, l1, l2, l3, h0, h1] };
    let [a, b, c, d, e, f] = six;
    let [a, b, c, d, e] = if shift & 4 != 0 { [b, c, d, e, f] } else { [a, b, c, d, e] };
    let of = |low: u32, high: u32| ((u64::from(high) << 32 | u64::from(low)) >> (8 * (shift % 4))) as u32;
    Word128([of(a, b), of(b, c), of(c, d), of(d, e)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_cut_out_of_two_at_any_byte() {
        let bytes: [u8; 32] = core::array::from_fn(|i| 7 * i as u8 + 1);
        let word = |at: usize| {
            Word128(core::array::from_fn(|i| {
                u32::from_le_bytes(bytes[at + 4 * i..at + 4 * i + 4].try_into().unwrap())
            }))
        };
        for shift in 0..16 {
            assert_eq!(cut(word(0), word(16), shift as u32).0, word(shift).0, "{shift} bytes");
        }
    }
}
