//! Transposes a tile of bytes between two arrays in shared memory, by warps.

use crate::arch::{lane_id, ldmatrix_x4_trans, prmt, stmatrix_x4};
use crate::atom::TilingError;
use crate::layout::{ComposedLayout, Layout};
use crate::memory::Element;
use crate::tensor::{SharedTensor, StaticLayout};

/// Rows and columns that a warp transposes at a time.
const ROWS: u32 = 32;
const COLUMNS: u32 = 16;

/// The distance in elements, in a tile `(N, K)`, between blocks of 16 columns N, which a swizzle
/// must not change.
const fn step(tile: ComposedLayout) -> i64 {
    let columns = tile.layout.mode(0);
    let step = columns.at(COLUMNS as i64);
    let pattern = (16 * 8) << tile.swizzle.bits();
    let mut i = 0;
    while i < columns.size() {
        if columns.at(i) != i / COLUMNS as i64 * step + columns.at(i % COLUMNS as i64)
            || tile.swizzle.bits() > 0 && step % pattern != 0
        {
            TilingError::of("transpose_paired")
                .str("the destination ")
                .layout(&tile.layout)
                .str(": blocks of 16 along mode 0 are equally far apart, by whole patterns of the swizzle")
                .raise();
        }
        i += 1;
    }
    step
}

/// Checks that 16 elements along `contiguous` are contiguous bytes at multiples of 16, in a tile of
/// whole blocks of [`ROWS`] and [`COLUMNS`].
const fn check(name: &'static str, tile: ComposedLayout, (rows, columns): (usize, usize), contiguous: usize) {
    let layout = tile.layout;
    let whole = layout.rank() == 2
        && layout.extent(rows) % ROWS as i64 == 0
        && layout.extent(columns) % COLUMNS as i64 == 0;
    let mut by_pieces = whole && (tile.swizzle.bits() == 0 || tile.swizzle.base() >= 4);
    if by_pieces {
        let (along, across) = (layout.mode(contiguous), layout.mode(1 - contiguous));
        let mut i = 0;
        while i < along.size() {
            let within = i % 16;
            by_pieces =
                by_pieces && along.at(i) == along.at(i - within) + within && along.at(i - within) % 16 == 0;
            i += 1;
        }
        let mut i = 0;
        while i < across.size() {
            by_pieces = by_pieces && across.at(i) % 16 == 0;
            i += 1;
        }
    }
    if !by_pieces {
        TilingError::of("transpose_paired")
            .str("the ")
            .str(name)
            .str(" ")
            .layout(&layout)
            .str(" of bytes: its rows are a multiple of 32, its columns of 16, and 16 bytes along mode ")
            .int(contiguous as i64)
            .str(" are contiguous at a multiple of 16, swizzled as a whole")
            .raise();
    }
}

/// Transposes a tile `(K, N)` of bytes, whose columns are contiguous, to `(N, K)`, whose rows along
/// K are contiguous and in the order of [`paired_column`](crate::atom::wgmma::paired_column): the
/// operand B of a product whose operand A is
/// [`accumulators_as_a_paired`](crate::atom::wgmma::accumulators_as_a_paired).
///
/// Warp `warp` of `warps` warps transposes every `warps`-th block of 32 rows.
///
/// ```text
/// ldmatrix.trans   a lane has two rows k, k + 1 of columns n, n + 1, and of rows k + 8, k + 9
/// prmt             four rows of column n in one register, those of n + 1 in another
/// stmatrix         16 rows of a column are 16 bytes
/// ```
///
/// # Safety
/// All 32 lanes of the warp call it together. The source was written before a barrier; meanwhile no
/// other thread accesses the destination's part. Other threads see it after a barrier, `wgmma`
/// after a [`fence_proxy_async_shared`](crate::arch::fence_proxy_async_shared) in addition.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn transpose_paired<T: Element, LS: StaticLayout, LD: StaticLayout>(
    source: &SharedTensor<T, LS>,
    destination: &SharedTensor<T, LD>,
    warp: u32,
    warps: u32,
) {
    let (rows, columns, step) = const {
        let (from, to): (Layout, Layout) = (LS::LAYOUT, LD::LAYOUT);
        assert!(T::BYTES == 1, "transpose_paired transposes bytes");
        check("source", ComposedLayout::new(LS::SWIZZLE, 0, from), (0, 1), 1);
        let target = ComposedLayout::new(LD::SWIZZLE, 0, to);
        check("destination", target, (1, 0), 1);
        assert!(
            from.extent(0) == to.extent(1) && from.extent(1) == to.extent(0),
            "transpose_paired: the destination has the source's rows as columns"
        );
        (from.extent(0) as u32, from.extent(1) as u32, step(target) as u32)
    };
    let lane = lane_id();
    // Lane `8 i + c` names row `c` of matrix `i` of `stmatrix`: columns `2 c` and `2 c + 1` of the
    // block alternate between a pair of matrices, so that no two rows of a matrix share banks.
    let second = lane >> 2 & 1;
    let column = lane % 8 * 2 + (second ^ lane >> 3 & 1);
    let half = lane >> 4;
    // A lane's register holds column `2 (lane / 4)` of the block, or the next.
    let (even, odd) = (0x6420, 0x7531);
    let (first, next) = if lane < 16 { (even, odd) } else { (odd, even) };
    let mut block = warp;
    while block < rows / ROWS {
        let from = source.at((ROWS * block + lane, ..)); // (N)
        let to = destination.at((column, ROWS * block + 16 * half)).address_of(0);
        for part in 0..columns / COLUMNS {
            // SAFETY: the warp may access both tiles; all addresses are of 16-byte pieces of them.
            unsafe {
                let [a, b, c, d] = ldmatrix_x4_trans(from.address_of((COLUMNS * part) as usize));
                let transposed = [prmt(a, b, first), prmt(a, b, next), prmt(c, d, first), prmt(c, d, next)];
                stmatrix_x4(to + step * part, transposed);
            }
        }
        block += warps;
    }
}
