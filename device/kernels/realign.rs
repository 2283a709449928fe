//! Lines of bytes copied to where they begin at multiples of 16 bytes, from anywhere.
//!
//! A line that begins at no multiple of 4 bytes cannot be read by words where they are written: so each word that is written is cut
//! out of two that are read, its neighbours' words too, which the L1 cache has. `prmt` takes any four of their eight bytes.

use crate::arch::{Word as _, block_idx, thread_idx};
use crate::kernel;
use crate::memory::{Global, GlobalMut};

/// Words of 4 bytes that a lane has on their way at a time.
const WORDS: u32 = 8;
/// Lines of a block: one for each warp.
const LINES: u32 = 8;

/// Copies `lines` lines of `bytes` bytes each, that begin so many bytes after each other; a block of 256 threads for each 8 lines
/// along x, for each batch along y.
///
/// # Safety
/// All batches of both matrices lie in memory of the device inside the buffers that the pointers come from, the buffer that is
/// read begins at a multiple of 4 bytes, and they do not overlap. Lines that are written begin at multiples of 4 bytes, and may be
/// written up to the next one behind their end. `lines` is at most 2^31 - 8, and `bytes` at most 2^32 - 32.
#[kernel(threads = 256)]
pub unsafe fn realign(
    src: Global<u8>,
    dst: GlobalMut<u8>,
    lines: u32,
    bytes: u32,
    src_line: i64,
    dst_line: i64,
    src_batch: i64,
    dst_batch: i64,
) {
    let (warp, lane) = (thread_idx().x / 32, thread_idx().x % 32);
    let line = LINES * block_idx().x + warp;
    if line >= lines {
        return;
    }
    let batch = i64::from(block_idx().y);
    let from = src.offset(batch * src_batch + i64::from(line) * src_line).address();
    let to = dst.offset(batch * dst_batch + i64::from(line) * dst_line).address();
    let (aligned, shift) = (from & !3, (from & 3) as u32);
    // Words that are cut out of two which lie in the line, but for what is in front of it.
    let whole = if shift == 0 { bytes / 4 } else { (bytes / 4).saturating_sub(1) };
    let mut first = lane;
    while first < whole {
        let mut words = [0; WORDS as usize];
        let mut i = 0;
        while i < WORDS {
            let at = first + 32 * i;
            let address = aligned + 4 * u64::from(at);
            // SAFETY: the words end in the line; what is in front of it is in the same word of the buffer.
            let (low, high) = unsafe {
                (
                    u32::load_global_if(at < whole, address),
                    u32::load_global_if(at < whole && shift > 0, address + 4),
                )
            };
            words[i as usize] = ((u64::from(high) << 32 | u64::from(low)) >> (8 * shift)) as u32;
            i += 1;
        }
        i = 0;
        while i < WORDS {
            let at = first + 32 * i;
            // SAFETY: the word is in the line that is written.
            unsafe { u32::store_global_if(at < whole, to + 4 * u64::from(at), words[i as usize]) };
            i += 1;
        }
        first += 32 * WORDS;
    }
    // The rest of the line, up to seven bytes.
    let at = 4 * whole + lane;
    // SAFETY: the byte is in both lines.
    unsafe {
        let byte = u8::load_global_if(at < bytes, from + u64::from(at));
        u8::store_global_if(at < bytes, to + u64::from(at), byte);
    }
}
