//! Repacks matrices: any strides to any strides, in batches, with rows that are padded with zeros
//! to whole 16-byte vectors, as kernels read them.
//!
//! | entry | source | how |
//! | --- | --- | --- |
//! | [`repack_u8`] ... | any strides | element by element, through shared memory where the contiguous modes differ |
//! | [`repack_lines`] | contiguous lines of any alignment | vectors cut out of two |
//! | [`repack_transposed_u32`] | rows of 4-byte elements, aligned to 16 bytes | squares of 4 x 4 in registers |
//!
//! The last two take two matrices in one launch: both operands of a product. A launch costs some
//! microseconds, more than the copy of a small operand.

use moye_device::arch::{CachedAccess as _, LoadCache, LoadHint, Word128, overlap_launches, shuffle};
use moye_device::collective::TransposedRegisters;
use moye_device::prelude::*;
use moye_device::tensor::IdentityOf;

/// Rows and columns of a block's tile in [`repack`] and [`repack_transposed_u32`].
pub const TILE: u32 = 64;

static_layout! {
    /// (THR_ROWS, THR_K), a warp along the rows.
    pub AlongRows = layout!((64, 4));
    /// (THR_ROWS, THR_K), a warp along K.
    pub AlongK = layout!((4, 64):(64, 1));
    /// (BLK_ROWS, BLK_K): each column starts one bank after the previous one, so that neither a
    /// warp that writes along the rows nor one that reads along K has bank conflicts.
    pub Smem<T: Element> = layout!((64, 64):(1, { if T::BYTES < 4 { 64 + 4 / T::BYTES as i64 } else { 65 } }));
}

/// Copies `rows x k` elements, strides in elements, and writes zeros after them up to
/// `rows x written`. Fastest if the destination's rows are contiguous along K.
///
/// A block of 256 threads for each tile of 64 x 64 of the destination along x, and for each batch
/// along y.
///
/// # Safety
/// `written` is at least `k`. All batches of both matrices are in memory of the device, inside the
/// buffers that the pointers belong to, and they do not overlap. Extents are at most 2^31 - 64.
#[kernel(threads = 256, shared = (sX: SharedArray<T, Smem<T>>), instances = (
    repack_u8<u8>,
    repack_u16<u16>,
    repack_u32<u32>,
    repack_u64<u64>,
    repack_u128<u128>,
))]
pub unsafe fn repack<T: Element>(
    src: Global<T>,
    dst: GlobalMut<T>,
    rows: u32,
    k: u32,
    written: u32,
    src_stride_row: i64,
    src_stride_k: i64,
    src_stride_batch: i64,
    dst_stride_row: i64,
    dst_stride_k: i64,
    dst_stride_batch: i64,
) {
    let (block, batch, thread) = (block_idx().x, i64::from(block_idx().y), thread_idx().x);
    let tiles_k = written.div_ceil(TILE);
    let (i, j) = (block / tiles_k, block % tiles_k);
    let (src, dst) = (src.offset(batch * src_stride_batch), dst.offset(batch * dst_stride_batch));
    let mX = tensor!(src, (rows, k), (src_stride_row, src_stride_k)); // (ROWS, K)
    let mY = tensor!(dst, (rows, written), (dst_stride_row, dst_stride_k)); // (ROWS, WRITTEN)
    let (gX, gY) = (tile!(mX, (64, 64), (i, j)), tile!(mY, (64, 64), (i, j))); // (BLK_ROWS, BLK_K)
    let tYgY = partition!(gY, AlongK, thread); // (THR_ROWS, THR_K)

    overlap_launches();
    if src_stride_k <= src_stride_row {
        copy(partition!(gX, AlongK, thread), tYgY);
        return;
    }
    copy(partition!(gX, AlongRows, thread), partition!(sX, AlongRows, thread)); // (THR_ROWS, THR_K)
    sync_threads();
    copy(partition!(sX, AlongK, thread), tYgY);
}

/// Vectors that a lane has in flight at a time.
const AT_ONCE: u32 = 4;
/// Vectors of a line that a warp copies, all in flight at once: long lines take many warps.
const RUN: u32 = 32 * AT_ONCE;
/// Runs of a block: one for each warp.
const RUNS: u32 = 8;
/// Bypasses L1: each vector is read once, except at the ends of 32.
const LOAD: LoadHint = LoadHint::PLAIN.cache(LoadCache::Cg);

/// Runs of a line of `bytes` bytes, by its whole vectors; the remainder belongs to the first run.
#[inline(always)]
#[must_use]
pub const fn runs_of(bytes: u32) -> u32 {
    let runs = (bytes / 16).div_ceil(RUN);
    if runs == 0 { 1 } else { runs }
}

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

    /// The runs of a batch; a warp copies one.
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

/// Copies the lines of two matrices, or of one, to lines that are aligned to 16 bytes.
///
/// A line that is not aligned to 16 bytes cannot be loaded as the vectors that are stored. So each
/// stored vector is cut out of two loaded vectors, the lane's and the next lane's. The shift is the
/// same for a whole line:
///
/// ```text
/// read      | . . a b | c d e f | g h i j | k l . . |
/// written       | a b c d | e f g h | i j k l |
/// ```
///
/// # Safety
/// The grid has along x the first matrix's [blocks](Lines::blocks) and then the second matrix's,
/// and along y the larger number of batches. All batches of all matrices are in memory of the
/// device, inside the buffers that the pointers belong to, the destinations overlap nothing, and
/// addresses and strides have the alignment that [`Lines`] requires. `bytes` is at most 2^32 -
/// 4096, and a matrix has at most 2^32 - 8 runs for each batch.
#[kernel(threads = 256)]
pub unsafe fn repack_lines(first: Lines, second: Lines) {
    let (block, of_first) = (block_idx().x, first.blocks() as u32);
    let (lines, block) = if block < of_first { (first, block) } else { (second, block - of_first) };
    let (batch, warp, lane) = (block_idx().y, thread_idx().x / 32, thread_idx().x % 32);
    // The coordinates are computed before the wait for previous kernels.
    let runs = runs_of(lines.bytes);
    let number = RUNS * block + warp;
    let (line, run) = (number / runs, number % runs);
    overlap_launches();
    if line >= lines.lines || batch >= lines.batches {
        return;
    }
    let [batch, line] = [batch, line].map(i64::from);
    let src = lines.src.offset(batch * lines.src_batch + line * lines.src_line);
    let dst = lines.dst.offset(batch * lines.dst_batch + line * lines.dst_line);
    let shift = (src.address() % 16) as u32;
    // Loaded vectors end within the line; the first may start before it, in the same buffer. If the
    // line is not aligned, each stored vector is cut out of two.
    let loaded = ((u64::from(lines.bytes) + u64::from(shift)) / 16) as u32;
    let stored = if shift == 0 { loaded } else { loaded.saturating_sub(1) };
    let vectors = src.offset(-i64::from(shift)).cast::<u128>();
    let mY = tensor!(dst.cast::<u128>(), (stored, 1), (1, 0)); // (VECTORS, 1)
    let tYgY = partition!(tile!(mY, (128, 1), (run, 0)), (32, 1), lane); // (4, 1)
    // All lanes load the vector after the run as well.
    let words: [Word128; AT_ONCE as usize + 1] = core::array::from_fn(|i| {
        let at = RUN * run + 32 * i as u32 + if i < AT_ONCE as usize { lane } else { 0 };
        if at < loaded {
            Word128::load_global_hint(LOAD, vectors.offset(i64::from(at)).address())
        } else {
            Word128([0; 4])
        }
    });
    let mut tYrY = tYgY.fragment(); // (4, 1)
    for i in 0..AT_ONCE as usize {
        // The last lane's next vector is the first lane's vector of the next 32.
        let low = words[i];
        let told = if lane == 0 { words[i + 1] } else { low };
        let high = Word128(told.0.map(|register| shuffle(FULL_WARP, register, (lane + 1) % 32)));
        tYrY[i] = u128::from_bits(cut(low, high, shift));
    }
    copy(&tYrY, tYgY);
    // The remainder of the line, up to 31 bytes, and the zeros after it, with the first run.
    let at = 16 * stored + lane;
    if run == 0 && at < lines.written {
        let byte =
            if at < lines.bytes { u8::load_global_hint(LOAD, src.address() + u64::from(at)) } else { 0 };
        dst.write(i64::from(at), byte);
    }
}

/// The vector that starts `shift` bytes, less than 16, after the start of the first of two
/// consecutive vectors: the register shift selects five of their eight registers, and `shf` (a
/// funnel shift of two registers) cuts four out of them.
#[inline(always)]
fn cut(low: Word128, high: Word128, shift: u32) -> Word128 {
    let ([l0, l1, l2, l3], [h0, h1, h2, h3]) = (low.0, high.0);
    let six = if shift & 8 != 0 { [l2, l3, h0, h1, h2, h3] } else { [l0, l1, l2, l3, h0, h1] };
    let [a, b, c, d, e, f] = six;
    let [a, b, c, d, e] = if shift & 4 != 0 { [b, c, d, e, f] } else { [a, b, c, d, e] };
    let of = |low: u32, high: u32| ((u64::from(high) << 32 | u64::from(low)) >> (8 * (shift % 4))) as u32;
    Word128([of(a, b), of(b, c), of(c, d), of(d, e)])
}

static_layout! {
    /// A block's tile, (BLK_ROWS, BLK_K).
    pub Tile = layout!((64, 64));
}
/// A warp loads 64 bytes of each of 32 rows, and writes 128 bytes of each of 16 columns.
const THREADS: Layout = layout!(((8, 2), (4, 4)):((1, 32), (8, 64)));
tiled_copy! {
    /// Four elements along K of four rows.
    pub FoursAlongK: TiledCopy<UniversalCopy<u128>, u32> = TiledCopy::new(THREADS, layout!((4, 4):(4, 1)));
    /// The same values, as four adjacent elements along the rows of four columns.
    pub FoursAlongRows: TiledCopy<UniversalCopy<u128>, u32> = TiledCopy::new(THREADS, layout!((4, 4)));
}

/// A transpose: element `(row, k)` of `src`, with K contiguous, becomes element `(row, k)` of
/// `dst`, with the rows contiguous.
///
/// Strides are in elements and multiples of 4; both matrices start at multiples of 16 bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, KernelParam)]
pub struct Transposed {
    /// The source.
    pub src: Global<u32>,
    /// The destination.
    pub dst: GlobalMut<u32>,
    /// The row stride of `src`.
    pub src_row: i64,
    /// The column stride of `dst`.
    pub dst_k: i64,
    /// The batch stride of `src`.
    pub src_batch: i64,
    /// The batch stride of `dst`.
    pub dst_batch: i64,
    /// Rows of `src`.
    pub rows: u32,
    /// Elements of a row.
    pub k: u32,
    /// Elements of a column of `dst` that are written, at least the number of rows, padded with
    /// zeros.
    pub written: u32,
    /// The number of batches; nothing is transposed if it is 0.
    pub batches: u32,
}

impl Transposed {
    /// Nothing to transpose.
    pub const NONE: Self = Self {
        src: Global::from_address(0),
        dst: GlobalMut::from_address(0),
        src_row: 0,
        dst_k: 0,
        src_batch: 0,
        dst_batch: 0,
        rows: 0,
        k: 0,
        written: 0,
        batches: 0,
    };

    /// The tiles of a batch.
    #[must_use]
    pub const fn tiles(&self) -> u64 {
        self.written.div_ceil(TILE) as u64 * self.k.div_ceil(TILE) as u64
    }
}

/// Transposes two matrices of 4-byte elements, or one, in 16-byte vectors on both sides: along x
/// the grid has a block of 256 threads for each tile of the first matrix and then of the second,
/// along y the larger number of batches.
///
/// A thread loads four elements along K of each of four rows, and stores four elements along the
/// rows for each of them: the transpose only renames registers. It uses no shared memory and no
/// barrier.
///
/// # Safety
/// All batches of all matrices are in memory of the device, inside the buffers that the pointers
/// belong to, the destinations overlap nothing, and addresses and strides have the alignment that
/// [`Transposed`] requires. Extents are at most 2^31 - 64, `written` is at least `rows`, and there
/// are fewer than 2^31 tiles of both.
#[kernel(threads = 256)]
pub unsafe fn repack_transposed_u32(first: Transposed, second: Transposed) {
    let (block, batch, thread) = (block_idx().x, block_idx().y, thread_idx().x);
    let of_first = first.tiles() as u32;
    let (of, tile) = if block < of_first { (first, block) } else { (second, block - of_first) };
    let tiles_k = of.k.div_ceil(TILE);
    let at = (tile / tiles_k, tile % tiles_k);
    let (src, dst) =
        (of.src.offset(i64::from(batch) * of.src_batch), of.dst.offset(i64::from(batch) * of.dst_batch));
    let mX = tensor!(src, (of.rows, of.k), (of.src_row, 1), align = 16); // (ROWS, K)
    let mY = tensor!(dst, (of.written, of.k), (1, of.dst_k), align = 16); // (WRITTEN, K)
    let tXgX = FoursAlongK::get_slice(thread).partition_s(mX.local_tile::<Tile, _>(at)); // (CPY, CPY_ROWS, CPY_K)
    let tXgY = FoursAlongRows::get_slice(thread).partition_d(mY.local_tile::<Tile, _>(at)); // (CPY, CPY_ROWS, CPY_K)
    // The coordinates are computed before the wait for previous kernels.
    overlap_launches();
    if batch >= of.batches {
        return;
    }
    let (mut tXrX, mut tXrY) = (tXgX.fragment(), tXgY.fragment());
    copy(tXgX, &mut tXrX);
    copy(&tXrX.view_as::<TransposedRegisters<FoursAlongK, FoursAlongRows, IdentityOf<Tile>>>(), &mut tXrY);
    copy(&tXrY, tXgY);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vector_is_cut_out_of_two_at_any_byte() {
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
