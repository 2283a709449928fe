//! Transposes at memory bandwidth, by way of shared memory.
//!
//! A thread loads a square of elements, one word for each of its columns, and transposes it in
//! registers to one word for each of its rows. Elements of 1 and 2 bytes whose lines are aligned to
//! 4 bytes have 4 or 2 in a word; element by element a warp would move 32 or 64 bytes at a time,
//! limited by instructions. For all others a word is an element, and a square is one word:
//!
//! ```text
//! 2 in a word:  | a0 a1 |      | a0 b0 |    4 in a word:  | a0 a1 a2 a3 |      | a0 b0 c0 d0 |
//!               | b0 b1 |  ->  | a1 b1 |                  | b0 b1 b2 b3 |  ->  | a1 b1 c1 d1 |
//!                                                         | c0 c1 c2 c3 |      | a2 b2 c2 d2 |
//!                                                         | d0 d1 d2 d3 |      | a3 b3 c3 d3 |
//! ```
//!
//! What remains is a transpose of words through shared memory.
//!
//! Either the reads or the writes of concurrent blocks are strided. An H200 is faster with strided
//! reads: 16384 x 16384 elements of 8 bytes ran at 3,808 GB/s with adjacent reads, and at 4,124
//! GB/s with adjacent writes.

use moye_device::arch::overlap_launches;
use moye_device::layout::IntTuple;
use moye_device::prelude::*;
use moye_device::tensor::{Rank, Strides};

/// Words that hold `N` elements each.
pub trait Square<const N: usize>: Element {
    /// The square whose columns are these words, by rows.
    fn transposed(columns: [Self; N]) -> [Self; N];
}

impl<W: Element> Square<1> for W {
    #[inline(always)]
    fn transposed(columns: [Self; 1]) -> [Self; 1] {
        columns
    }
}

impl Square<2> for u32 {
    #[inline(always)]
    fn transposed([a, b]: [Self; 2]) -> [Self; 2] {
        [a & 0xFFFF | b << 16, a >> 16 | b & 0xFFFF_0000]
    }
}

impl Square<4> for u32 {
    #[inline(always)]
    fn transposed([a, b, c, d]: [Self; 4]) -> [Self; 4] {
        // First pairs of columns, two of their rows in a word; then pairs of pairs.
        let low = |x: u32, y: u32| x & 0xFF | (y & 0xFF) << 8 | (x & 0xFF00) << 8 | (y & 0xFF00) << 16;
        let [r0, r1] = <u32 as Square<2>>::transposed([low(a, b), low(c, d)]);
        let [r2, r3] = <u32 as Square<2>>::transposed([low(a >> 16, b >> 16), low(c >> 16, d >> 16)]);
        [r0, r1, r2, r3]
    }
}

/// Words of a block's tile along M and along N, for `n` elements in a word: 16 words a thread, 4 of
/// 16 bytes.
const fn words<W: Element>(n: usize) -> [i64; 2] {
    match (W::BYTES, n) {
        (16, _) => [32, 32],
        (_, 1) => [64, 64],
        (_, 2) => [32, 64],
        _ => [32, 32],
    }
}

/// Squares of a thread.
const fn squares<W: Element>(n: usize) -> usize {
    let [m, n] = words::<W>(n);
    (m * n / 256) as usize
}

/// Elements of a block's tile along M and along N.
const fn tile<W: Element>(n: usize) -> [u32; 2] {
    let [m_words, n_words] = words::<W>(n);
    [m_words as u32 * n as u32, n_words as u32 * n as u32]
}

static_layout! {
    /// The tile of the source, in words along M: (BLK_M, BLK_N).
    pub TileX<W: Element, const N: usize> = layout!(({ words::<W>(N)[0] }, { tile::<W>(N)[1] as i64 }));
    /// The tile of the destination, in words along N: (BLK_N, BLK_M).
    pub TileY<W: Element, const N: usize> = layout!(({ words::<W>(N)[1] }, { tile::<W>(N)[0] as i64 }));
    /// The tile of the destination in shared memory, (BLK_N, (N, BLK_M / N)). A warp writes a row
    /// of each square at a time: the padding after the rows of a square makes the next rows start
    /// one bank later, and four banks later for words of 16 bytes, which a quarter of a warp writes
    /// at a time.
    pub Smem<W: Element, const N: usize> = {
        let [m, n] = words::<W>(N);
        let pad = if W::BYTES < 4 { 4 / W::BYTES as i64 } else { 1 };
        layout!(({ n }, ({ N as i64 }, { m })):(1, ({ n }, { N as i64 * n + pad })))
    };
}
tiled_copy! {
    /// A warp along M; a thread copies the columns of a square.
    pub Columns<W: Element, const N: usize>: TiledCopy<UniversalCopy<W>, W> = {
        let [m, _] = words::<W>(N);
        TiledCopy::new(layout!(({ m }, { 256 / m })), layout!((1, { N as i64 })))
    };
    /// The same threads over the destination: a thread copies the rows of its squares.
    pub Rows<W: Element, const N: usize>: TiledCopy<UniversalCopy<W>, W> = {
        let [m, _] = words::<W>(N);
        TiledCopy::new(layout!(({ 256 / m }, { m }):({ m }, 1)), layout!((1, { N as i64 })))
    };
    /// A warp along N. With several elements in a word it writes a whole line, whose halves may
    /// share a sector.
    pub Lines<W: Element, const N: usize>: TiledCopy<UniversalCopy<W>, W> = {
        let n = if N > 1 { 32 } else { words::<W>(N)[1] };
        TiledCopy::new(layout!(({ n }, { 256 / n })), layout!((1, 1)))
    };
}

// Whole sectors of global memory, and no bank of shared memory twice: anything else does not
// compile.
const fn check<W: Square<N>, const N: usize>() {
    let (x, y) = (TileX::<W, N>::LAYOUT.shape(), TileY::<W, N>::LAYOUT.shape());
    let lines = IntTuple::flat(&[1, 4096]);
    Columns::<W, N>::COPY.access_s(ComposedLayout::plain(Layout::new(x, lines))).expect_coalesced();
    Lines::<W, N>::COPY.access_d(ComposedLayout::plain(Layout::new(y, lines))).expect_coalesced();
    Rows::<W, N>::COPY.access_d(Smem::<W, N>::COMPOSED).expect_conflict_free();
    Lines::<W, N>::COPY.access_s(Smem::<W, N>::COMPOSED).expect_conflict_free();
}

/// `dst = transpose(src)`, `N` elements in a word `W`: `src` is `m x n` with M contiguous, `dst` is
/// `n x m` with N contiguous; extents and leading dimensions are in elements. The grid has a block
/// of 256 threads along x for each tile of
///
/// | entries | tile |
/// | --- | --- |
/// | `transpose_u8`, `transpose_u16`, `transpose_u32`, `transpose_u64` | 64 x 64 |
/// | `transpose_u128` | 32 x 32 |
/// | `transpose_words_u16` | 64 x 128 |
/// | `transpose_words_u8` | 128 x 128 |
///
/// # Safety
/// Both matrices are in memory of the device, inside the buffers that the pointers belong to, start
/// at multiples of a word, and do not overlap. Extents and leading dimensions are multiples of `N`.
/// Both extents are at most 2^31 - 256.
#[kernel(threads = 256, shared = (sY: SharedArray<W, Smem<W, N>>), instances = (
    transpose_u8<u8, 1>,
    transpose_u16<u16, 1>,
    transpose_u32<u32, 1>,
    transpose_u64<u64, 1>,
    transpose_u128<u128, 1>,
    transpose_words_u8<u32, 4>,
    transpose_words_u16<u32, 2>,
))]
pub unsafe fn transpose<W: Square<N>, const N: usize>(
    src: Global<W>,
    dst: GlobalMut<W>,
    m: u32,
    n: u32,
    src_ld: i64,
    dst_ld: i64,
) {
    const { check::<W, N>() };
    overlap_launches();
    let block = block_idx().x;
    let [blk_m, blk_n] = const { tile::<W>(N) };
    // Concurrent blocks write adjacent memory.
    let tiles_n = n.div_ceil(blk_n);
    let (tile_n, tile_m) = (block % tiles_n, block / tiles_n);
    let (shape_x, shape_y) = ((m / N as u32, n), (n / N as u32, m)); // in words
    let (ld_x, ld_y) = (UnitStride::<0>(src_ld / N as i64), UnitStride::<0>(dst_ld / N as i64));
    if (tile_m + 1) * blk_m <= m && (tile_n + 1) * blk_n <= n {
        let mX = Matrix::new(src, shape_x, WholeTiles(ld_x)); // (M, N)
        let mY = Matrix::new(dst, shape_y, WholeTiles(ld_y)); // (N, M)
        transpose_tile(mX, mY, (tile_m, tile_n), sY);
    } else {
        let (mX, mY) = (Matrix::new(src, shape_x, ld_x), Matrix::new(dst, shape_y, ld_y)); // (M, N), (N, M)
        transpose_tile(mX, mY, (tile_m, tile_n), sY);
    }
}

/// Transposes a block's tile.
///
/// # Safety
/// Source and destination are in memory of the device and do not overlap.
#[inline(always)]
unsafe fn transpose_tile<W: Square<N>, const N: usize, S: Strides<Rank = Rank<2>>>(
    mX: Matrix<Global<W>, S>,    // (M, N), in words along M
    mY: Matrix<GlobalMut<W>, S>, // (N, M), in words along N
    (tile_m, tile_n): (u32, u32),
    sY: SharedTensor<W, Smem<W, N>>, // (BLK_N, BLK_M)
) {
    let thread = thread_idx().x;
    let gX = mX.local_tile::<TileX<W, N>, _>((tile_m, tile_n)); // (BLK_M, BLK_N)
    let gY = mY.local_tile::<TileY<W, N>, _>((tile_n, tile_m)); // (BLK_N, BLK_M)
    let tXgX = Columns::<W, N>::get_slice(thread).partition_s(gX); // (CPY, 1, CPY_N)
    let tXsY = Rows::<W, N>::get_slice(thread).partition_d(sY); // (CPY, CPY_N, 1)
    let lines = Lines::<W, N>::get_slice(thread);
    let (tYsY, tYgY) = (lines.partition_s(sY), lines.partition_d(gY)); // (1, CPY_N, CPY_M)
    let (mut tXrX, mut tXrY, mut tYrY) = (tXgX.fragment(), tXsY.fragment(), tYgY.fragment());
    // Each element of a tile belongs to one thread, and the barrier separates the writes of the
    // shared tile and the reads.
    copy(tXgX, &mut tXrX);
    for square in 0..const { squares::<W>(N) } {
        let rows = W::transposed(core::array::from_fn(|i| tXrX[N * square + i]));
        for i in 0..N {
            tXrY[N * square + i] = rows[i];
        }
    }
    copy(&tXrY, tXsY);
    sync_threads();
    copy(tYsY, &mut tYrY);
    copy(&tYrY, tYgY);
}

#[cfg(test)]
mod tests {
    use super::Square;

    #[test]
    fn a_square_of_a_thread_is_transposed_in_its_registers() {
        let bytes = [0x0302_0100, 0x1312_1110, 0x2322_2120, 0x3332_3130];
        let rows = <u32 as Square<4>>::transposed(bytes);
        assert_eq!(rows, [0x3020_1000, 0x3121_1101, 0x3222_1202, 0x3323_1303]);
        let rows = <u32 as Square<2>>::transposed([0x0001_0000, 0x1001_1000]);
        assert_eq!(rows, [0x1000_0000, 0x1001_0001]);
    }
}
