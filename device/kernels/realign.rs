//! Copies lines of bytes with any alignment to 16-byte aligned lines.
//!
//! A line that is not aligned to 16 bytes cannot be loaded in the vectors that are stored. So each
//! stored vector is cut out of two loaded ones, the lane's and the next lane's. The shift is the
//! same for a whole line:
//!
//! ```text
//! read      | . . a b | c d e f | g h i j | k l . . |
//! written       | a b c d | e f g h | i j k l |
//! ```
//!
//! Of the eight registers of two vectors, the register shift selects five, and `shf` (a shift of
//! two registers) cuts four out of them.
//!
//! Both operands of a product are copied by one launch.

use moye_device::arch::{
    CachedAccess as _, FULL_WARP, LoadCache, LoadHint, Word as _, Word128, block_idx, overlap_launches,
    shuffle, thread_idx,
};
use moye_device::kernel;
use moye_device::kernel::KernelParam;
use moye_device::memory::{Global, GlobalMut};

/// Bytes of a vector.
const WORD: u32 = size_of::<Word128>() as u32;
/// Vectors that a lane has in flight at a time.
const AT_ONCE: u32 = 4;
/// Bytes of a line that a warp copies, so that all vectors of a lane are in flight at once: long
/// lines have many warps.
pub const RUN: u32 = 32 * AT_ONCE * WORD;
/// Runs of a block: one for each warp.
pub const RUNS: u32 = 8;

/// Runs of a line of this many bytes, by its whole vectors; the remainder belongs to the first run.
#[inline(always)]
#[must_use]
pub const fn runs_of(bytes: u32) -> u32 {
    let runs = (bytes / WORD).div_ceil(RUN / WORD);
    if runs == 0 { 1 } else { runs }
}

/// Not in L1: each vector is read once, except at the ends of 32.
const LOAD: LoadHint = LoadHint::PLAIN.cache(LoadCache::Cg);

/// Lines to copy: `lines` of `bytes` bytes each, with a constant stride on both sides.
///
/// Each line is padded with zeros up to `written` bytes, for kernels that read whole 16-byte
/// vectors. All strides are in bytes; those of `dst` are multiples of 16, and so is its address.
#[repr(C)]
#[derive(Clone, Copy, Debug, KernelParam)]
pub struct Lines {
    /// The source, in a buffer that starts at a multiple of 16 bytes.
    pub src: Global<u8>,
    /// The destination.
    pub dst: GlobalMut<u8>,
    /// The line stride of `src`.
    pub src_line: i64,
    /// The line stride of `dst`.
    pub dst_line: i64,
    /// The batch stride of `src`.
    pub src_batch: i64,
    /// The batch stride of `dst`.
    pub dst_batch: i64,
    /// The lines of a batch; nothing is copied if it is 0.
    pub lines: u32,
    /// Bytes of a line, at least 1.
    pub bytes: u32,
    /// Bytes of a line that are written: the same, or up to the next multiple of 16.
    pub written: u32,
    /// The number of batches.
    pub batches: u32,
}

impl Lines {
    /// Nothing to copy.
    pub const NONE: Self = Self {
        src: Global::from_address(0),
        dst: GlobalMut::from_address(0),
        src_line: 0,
        dst_line: 0,
        src_batch: 0,
        dst_batch: 0,
        lines: 0,
        bytes: 1,
        written: 1,
        batches: 0,
    };

    /// The runs of a batch.
    #[inline(always)]
    #[must_use]
    pub const fn runs(&self) -> u64 {
        self.lines as u64 * runs_of(self.bytes) as u64
    }

    /// The blocks of a batch.
    #[inline(always)]
    #[must_use]
    pub const fn blocks(&self) -> u64 {
        self.runs().div_ceil(RUNS as u64)
    }
}

/// Copies the lines of two matrices, or of one. A warp copies a run of [`RUN`] bytes; the last run
/// of a line is shorter.
///
/// # Safety
/// The grid has the first matrix's [blocks](Lines::blocks) and then the second one's along x, and
/// the larger of both numbers of batches along y. All batches of all matrices are in memory of the
/// device, inside the buffers that the pointers belong to, the destinations overlap nothing, and
/// addresses and strides have the alignment that [`Lines`] requires. `bytes` is at most 2^32 -
/// 4096, and a matrix has at most 2^32 - 8 runs for each batch.
#[kernel(threads = 256)]
pub unsafe fn realign(first: Lines, second: Lines) {
    let (block, of_first) = (block_idx().x, first.blocks() as u32);
    let (lines, block) = if block < of_first { (first, block) } else { (second, block - of_first) };
    let (batch, warp) = (block_idx().y, thread_idx().x / 32);
    // The coordinates are computed before the wait for other kernels.
    let runs = runs_of(lines.bytes);
    let number = RUNS * block + warp;
    let (line, run) = (number / runs, number % runs);
    overlap_launches();
    if line >= lines.lines || batch >= lines.batches {
        return;
    }
    let [batch, line] = [batch, line].map(i64::from);
    let from = lines.src.offset(batch * lines.src_batch + line * lines.src_line).address();
    let to = lines.dst.offset(batch * lines.dst_batch + line * lines.dst_line).address();
    // SAFETY: the caller's contract.
    unsafe { copy_run(from, to, (lines.bytes, lines.written), run) }
}

/// Copies a run of a line by a warp.
///
/// # Safety
/// As for [`realign`].
#[inline(always)]
unsafe fn copy_run(from: u64, to: u64, (bytes, written): (u32, u32), run: u32) {
    let lane = thread_idx().x % 32;
    let shift = (from % u64::from(WORD)) as u32;
    let aligned = from - u64::from(shift);
    // Loaded vectors end in the line; the first one may start before it, in the same buffer. If the
    // line is not aligned, each stored vector is cut out of two.
    let end = ((u64::from(bytes) + u64::from(shift)) / u64::from(WORD)) as u32;
    let whole = if shift == 0 { end } else { end.saturating_sub(1) };
    if end > 0 {
        let first = run * const { 32 * AT_ONCE };
        let mut words = [Word128([0; 4]); AT_ONCE as usize + 1];
        let mut i = 0;
        while i <= AT_ONCE {
            // All lanes load the vector after the run too; past the line, its last vector again.
            let at = first + 32 * i + if i < AT_ONCE { lane } else { 0 };
            let at = if at < end { at } else { end - 1 };
            // SAFETY: the vector ends in the line, and starts in the buffer.
            words[i as usize] =
                unsafe { Word128::load_global_hint(LOAD, aligned + u64::from(at) * u64::from(WORD)) };
            i += 1;
        }
        i = 0;
        while i < AT_ONCE {
            let at = first + 32 * i + lane;
            let low = words[i as usize];
            // The last lane's next vector is the first lane's of the next 32.
            let told = if lane == 0 { words[i as usize + 1] } else { low };
            let high = Word128(told.0.map(|register| shuffle(FULL_WARP, register, (lane + 1) % 32)));
            let address = to + u64::from(at) * u64::from(WORD);
            // SAFETY: the vector is in the destination's line.
            unsafe { Word128::store_global_if(at < whole, address, cut(low, high, shift)) };
            i += 1;
        }
    }
    // The remainder of the line, up to 31 bytes, with the first run, and the zeros after it: two
    // vectors at most.
    let at = WORD * whole + lane;
    let rest = run == 0 && at < written;
    if rest {
        // SAFETY: the byte is in both lines, or in the destination's padding.
        unsafe {
            let byte = if at < bytes { u8::load_global_hint(LOAD, from + u64::from(at)) } else { 0 };
            u8::store_global(to + u64::from(at), byte);
        }
    }
}

/// The vector that starts `shift` bytes, less than 16, after the start of the first of two
/// consecutive ones.
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
