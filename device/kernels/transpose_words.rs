//! Transposes elements of 1 and 2 bytes in words of 4 bytes.
//!
//! Element by element a warp moves 32 or 64 bytes at a time, and is limited by instructions, not by
//! memory. Here a thread loads a square of elements, one word of each of its columns, transposes it
//! in registers, and has a word of each of its rows:
//!
//! ```text
//! 2 bytes:  | a0 a1 |      | a0 b0 |        1 byte:  | a0 a1 a2 a3 |      | a0 b0 c0 d0 |
//!           | b0 b1 |  ->  | a1 b1 |                 | b0 b1 b2 b3 |  ->  | a1 b1 c1 d1 |
//!                                                    | c0 c1 c2 c3 |      | a2 b2 c2 d2 |
//!                                                    | d0 d1 d2 d3 |      | a3 b3 c3 d3 |
//! ```
//!
//! What remains is a transpose of words through shared memory. A warp has 32 squares below each
//! other, so that it writes to every second or every fourth row there: after this many rows one
//! word of padding makes the next rows start one bank later.

use super::lines::tile_of;
use core::marker::PhantomData;
use moye_device::algorithm::copy;
use moye_device::arch::{block_idx, overlap_launches, sync_threads, thread_idx};
use moye_device::atom::copy::AutoVectorizingCopy;
use moye_device::atom::{StaticTiledCopy, TiledCopy};
use moye_device::layout::{IntTuple, Layout};
use moye_device::memory::{Element, Global, GlobalMut, SharedArray, SharedStorage};
use moye_device::tensor::{Matrix, StaticLayout, UnitStride};
use moye_device::{kernel, layout, static_layout};

/// Words of a tile along M.
const WORDS_M: i64 = 32;
/// Words of a thread at a time: 64 bytes in flight.
const AT_ONCE: usize = 16;

/// An element type of which several fit in a word.
trait Packed: Element {
    /// The elements of a word: the extent of a square.
    const PER_WORD: i64 = 4 / Self::BYTES as i64;
    /// Words of a tile along N: a thread has [`AT_ONCE`] of them, one for each column of its
    /// squares.
    const WORDS_N: i64 = 8 * AT_ONCE as i64 / Self::PER_WORD;
    /// The tile in shared memory, as the destination has it: (WORDS_N, (PER_WORD, WORDS_M)).
    const SMEM: Layout;
}
impl Packed for u8 {
    const SMEM: Layout = layout!((32, (4, 32)):(1, (32, 129)));
}
impl Packed for u16 {
    const SMEM: Layout = layout!((64, (2, 32)):(1, (64, 129)));
}

/// `(m, n)`, the first mode contiguous.
const fn matrix(m: i64, n: i64) -> Layout {
    Layout::new(IntTuple::flat(&[m, n]), IntTuple::flat(&[1, m]))
}

macro_rules! layouts {
    ($($(#[$doc:meta])* $name:ident<$t:ident> = $layout:expr;)+) => { $(
        $(#[$doc])*
        struct $name<T>(PhantomData<T>);
        impl<T> Clone for $name<T> {
            fn clone(&self) -> Self {
                *self
            }
        }
        impl<T> Copy for $name<T> {}
        impl<$t: Packed> StaticLayout for $name<$t> {
            const LAYOUT: Layout = $layout;
        }
    )+ };
}
layouts! {
    /// A block's tile of the source, (WORDS_M, BLK_N).
    TileOfSource<T> = matrix(WORDS_M, T::WORDS_N * T::PER_WORD);
    /// A block's tile of the destination, (WORDS_N, BLK_M).
    TileOfDestination<T> = matrix(T::WORDS_N, WORDS_M * T::PER_WORD);
    /// See [`Packed::SMEM`].
    Smem<T> = T::SMEM;
}

static_layout! {
    /// (THR_N, THR_M) over the destination, in words along N.
    Threads = layout!((32, 8));
}

/// Threads over the source: 32 words below each other for each warp, squares with this many
/// columns.
struct Read<T>(PhantomData<T>);
/// The same threads over the destination: one word of each row of their squares.
struct Turned<T>(PhantomData<T>);

macro_rules! tiled_copies {
    ($($name:ident, $threads:expr;)+) => { $(
        impl<T> Clone for $name<T> {
            fn clone(&self) -> Self {
                *self
            }
        }
        impl<T> Copy for $name<T> {}
        impl<T> Default for $name<T> {
            fn default() -> Self {
                Self(PhantomData)
            }
        }
        impl<T: Packed> StaticTiledCopy for $name<T> {
            type Atom = AutoVectorizingCopy;
            type Element = u32;
            const COPY: TiledCopy<AutoVectorizingCopy, u32> =
                TiledCopy::new($threads, matrix(1, T::PER_WORD));
        }
    )+ };
}
tiled_copies! {
    Read, layout!((32, 8));
    Turned, layout!((8, 32):(32, 1));
}

/// The square with the `PER_WORD` words as columns, by rows.
#[inline(always)]
fn turned<T: Packed>(columns: [u32; 4]) -> [u32; 4] {
    let [a, b, c, d] = columns;
    if const { T::PER_WORD == 2 } {
        return [a & 0xFFFF | b << 16, a >> 16 | b & 0xFFFF_0000, 0, 0];
    }
    // First pairs of columns, two of their rows in a word; then pairs of these.
    let low = |x: u32, y: u32| x & 0xFF | (y & 0xFF) << 8 | (x & 0xFF00) << 8 | (y & 0xFF00) << 16;
    let halves = |x: u32, y: u32| [x & 0xFFFF | y << 16, x >> 16 | y & 0xFFFF_0000];
    let [[r0, r1], [r2, r3]] =
        [halves(low(a, b), low(c, d)), halves(low(a >> 16, b >> 16), low(c >> 16, d >> 16))];
    [r0, r1, r2, r3]
}

/// One block's tile.
///
/// # Safety
/// As the kernels below, which declare `SharedArray<u32, Smem<T>>`.
#[inline(always)]
unsafe fn transpose_tile<T: Packed>(
    (src, dst): (Global<u32>, GlobalMut<u32>),
    (m, n): (u32, u32),
    (src_ld, dst_ld): (i64, i64),
) {
    overlap_launches();
    let (block, thread) = (block_idx().x, thread_idx().x);
    let per_word = const { T::PER_WORD as u32 };
    let (blk_m, blk_n) = const { (WORDS_M as u32 * T::PER_WORD as u32, (T::WORDS_N * T::PER_WORD) as u32) };
    // As in `lines.rs`, for the same reason.
    let (tile_n, tile_m) = tile_of(block, n.div_ceil(blk_n));
    let per_line = i64::from(per_word);
    let m_src = Matrix::new(src, (m / per_word, n), UnitStride::<0>(src_ld / per_line)); // (M words, N)
    let m_dst = Matrix::new(dst, (n / per_word, m), UnitStride::<0>(dst_ld / per_line)); // (N words, M)
    let g_src = m_src.local_tile::<TileOfSource<T>, _>((tile_m, tile_n)); // (WORDS_M, BLK_N)
    let g_dst = m_dst.local_tile::<TileOfDestination<T>, _>((tile_n, tile_m)); // (WORDS_N, BLK_M)
    // SAFETY: the kernel declares it.
    let s_dst = unsafe { SharedArray::<u32, Smem<T>>::take() }; // (WORDS_N, BLK_M)

    let t_g_src = Read::<T>::get_slice(thread).partition_s(g_src); // (CPY, 1, CPY_N)
    let mut t_s_turned = Turned::<T>::get_slice(thread).partition_d(s_dst); // (CPY, CPY_N, 1)
    let t_s_dst = s_dst.local_partition::<Threads>(thread); // (THR_N, THR_M)
    let t_g_dst = g_dst.local_partition::<Threads>(thread); // (THR_N, THR_M)
    let whole = (tile_m + 1) * blk_m <= m && (tile_n + 1) * blk_n <= n;
    // SAFETY: the caller's contract; the tile is read after the barrier that follows the writes; a
    // fragment is fully written before it is read.
    unsafe {
        let mut columns = t_g_src.make_fragment_like(); // (CPY, 1, CPY_N)
        if whole {
            copy(&t_g_src.whole(), &mut columns);
        } else {
            copy(&t_g_src, &mut columns);
        }
        let mut rows = t_s_turned.make_fragment_like(); // (CPY, CPY_N, 1)
        let mut first = 0;
        while first < AT_ONCE {
            let square = const { T::PER_WORD as usize };
            let words = [0, 1, 2, 3].map(|i| if i < square { columns.get(first + i) } else { 0 });
            let words = turned::<T>(words);
            let mut i = 0;
            while i < square {
                rows.set(first + i, words[i]);
                i += 1;
            }
            first += square;
        }
        copy(&rows, &mut t_s_turned);
        sync_threads();
        if whole {
            let mut words = t_g_dst.make_fragment_like(); // (THR_N, THR_M)
            copy(&t_s_dst, &mut words);
            copy(&words, &mut t_g_dst.whole());
        } else {
            copy(&t_s_dst, &mut { t_g_dst });
        }
    }
}

macro_rules! transpose {
    ($($name:ident $t:ty, $blk_m:literal, $blk_n:literal, $of:literal, $doc:literal;)+) => { $(
        #[doc = concat!("`dst = transpose(src)` of ", $doc, " elements, ", $of, " in a word: `src` is `m x n` with M contiguous, `dst` is `n x m`")]
        /// with N contiguous; extents and leading dimensions, from line to line, are in elements. A
        /// block of 256 threads along x for each
        #[doc = concat!("tile of ", $blk_m, " x ", $blk_n, ".")]
        ///
        /// # Safety
        /// Both matrices are in memory of the device, inside the buffers that the pointers belong
        /// to, start at multiples of 4 bytes, and
        #[doc = concat!("do not overlap. Extents and leading dimensions are multiples of ", $of, ". Both extents are at most 2^31 - 256.")]
        #[kernel(threads = 256, shared = SharedArray<u32, Smem<$t>>)]
        pub unsafe fn $name(src: Global<u32>, dst: GlobalMut<u32>, m: u32, n: u32, src_ld: i64, dst_ld: i64) {
            const { assert!(WORDS_M * <$t>::PER_WORD == $blk_m && <$t>::WORDS_N * <$t>::PER_WORD == $blk_n) };
            // SAFETY: the caller's contract.
            unsafe { transpose_tile::<$t>((src, dst), (m, n), (src_ld, dst_ld)) }
        }
    )+ };
}
transpose! {
    transpose_words_u8 u8, 128, 128, 4, "8-bit";
    transpose_words_u16 u16, 64, 128, 2, "16-bit";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_square_is_turned_round() {
        let bytes = [0x0302_0100, 0x1312_1110, 0x2322_2120, 0x3332_3130];
        assert_eq!(turned::<u8>(bytes), [0x3020_1000, 0x3121_1101, 0x3222_1202, 0x3323_1303]);
        let [first, second, ..] = turned::<u16>([0x0001_0000, 0x1001_1000, 0, 0]);
        assert_eq!([first, second], [0x1000_0000, 0x1001_0001]);
    }

    #[test]
    fn a_warp_meets_no_bank_twice_on_its_way_through_shared_memory() {
        fn check<T: Packed>() {
            let bank = |word: i64, row: i64| T::SMEM.at(word + T::WORDS_N * row) % 32;
            for first in 0..T::PER_WORD {
                let mut written: [i64; 32] =
                    core::array::from_fn(|i| bank(5, i as i64 * T::PER_WORD + first));
                written.sort_unstable();
                assert_eq!(
                    written,
                    core::array::from_fn(|i| i as i64),
                    "written, row {first} of each square"
                );
            }
            for row in 0..WORDS_M * T::PER_WORD {
                let mut read: [i64; 32] = core::array::from_fn(|i| bank(i as i64, row));
                read.sort_unstable();
                assert_eq!(read, core::array::from_fn(|i| i as i64), "row {row}");
            }
        }
        check::<u8>();
        check::<u16>();
    }
}
