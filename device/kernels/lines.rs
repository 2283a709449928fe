//! Copies and transposes at memory bandwidth, for matrices with contiguous lines: as many bytes in
//! flight as memory needs.
//!
//! By Little's law, an H200 (4.8 TB/s, 132 multiprocessors, 700 to 800 ns of latency) needs 25 to
//! 30 KB in flight on each multiprocessor. The 2,048 threads of a multiprocessor have 32 KB in
//! flight with 16 bytes each. More is not better: for 16384 x 16384 elements of 16 bytes, threads
//! with 1, 2, 4 and 8 vectors copied 4,295, 4,267, 4,227 and 4,191 GB/s, and the driver's copy
//! 4,274 GB/s. Lines that are shorter than a block's threads need more bytes: there a thread has a
//! vector of each of eight lines. In a transpose a thread has 16 elements, since its reads and its
//! writes differ.
//!
//! In a transpose either the reads or the writes of adjacent blocks are strided. An H200 is faster
//! with strided reads: 16384 x 16384 elements of 8 bytes ran at 3,808 GB/s with adjacent reads, and
//! at 4,124 GB/s with adjacent writes.

use core::marker::PhantomData;
use moye_device::algorithm::copy;
use moye_device::arch::{block_idx, overlap_launches, sync_threads, thread_idx};
use moye_device::layout::{IntTuple, Layout};
use moye_device::memory::{Element, Global, GlobalMut, SharedArray, SharedStorage};
use moye_device::tensor::{Matrix, StaticLayout, UnitStride};
use moye_device::{kernel, layout, static_layout};

/// The coordinates of a block's tile, with this many along the first mode. The blocks of a grid are
/// numbered along x, which has room for 2^31 - 1.
#[inline(always)]
pub(super) fn tile_of(block: u32, tiles: u32) -> (u32, u32) {
    (block % tiles, block / tiles)
}

static_layout! {
    /// A block's tile of long lines, (BLK_M, BLK_N), in 16-byte vectors.
    pub LongWords = layout!((256, 1));
    /// The tile of short lines.
    pub Words = layout!((256, 8));
    /// (THR_M, THR_N)
    pub ThreadsAlongM = layout!((256, 1));
}

/// One block's tile.
///
/// # Safety
/// As the kernels below.
#[inline(always)]
unsafe fn copy_tile<Tile: StaticLayout>(
    (src, dst): (Global<u128>, GlobalMut<u128>),
    (m, n): (u32, u32),
    (src_ld, dst_ld): (i64, i64),
) {
    overlap_launches();
    let (block, thread) = (block_idx().x, thread_idx().x);
    let (blk_m, blk_n) = const { (Tile::LAYOUT.extent(0) as u32, Tile::LAYOUT.extent(1) as u32) };
    let tile = tile_of(block, m.div_ceil(blk_m));
    let m_src = Matrix::new(src, (m, n), UnitStride::<0>(src_ld)); // (M, N)
    let m_dst = Matrix::new(dst, (m, n), UnitStride::<0>(dst_ld)); // (M, N)
    let t_g_src = m_src.local_tile::<Tile, _>(tile).local_partition::<ThreadsAlongM>(thread); // (THR_M, THR_N)
    let t_g_dst = m_dst.local_tile::<Tile, _>(tile).local_partition::<ThreadsAlongM>(thread); // (THR_M, THR_N)
    // SAFETY: the caller's contract; each vector belongs to one thread; a fragment is fully written
    // before it is read.
    unsafe {
        let mut words = t_g_src.make_fragment_like(); // (THR_M, THR_N)
        if (tile.0 + 1) * blk_m <= m && (tile.1 + 1) * blk_n <= n {
            copy(&t_g_src.whole(), &mut words);
            copy(&words, &mut t_g_dst.whole());
        } else {
            copy(&t_g_src, &mut words);
            copy(&words, &mut { t_g_dst });
        }
    }
}

macro_rules! copy_lines {
    ($($(#[$doc:meta])* $name:ident $tile:ident, $lines:literal;)+) => { $(
        $(#[$doc])*
        ///
        /// The leading dimensions, in vectors, are from line to line. A block of 256 threads
        /// along x for each tile of 256 vectors of
        #[doc = concat!($lines, " lines: `ceil(m / 256) * ceil(n / ", $lines, ")` of them.")]
        ///
        /// # Safety
        /// Both matrices are in memory of the device, inside the buffers that the pointers belong
        /// to, start at multiples of 16 bytes, and do not overlap. Both extents are at most
        /// 2^31 - 256.
        #[kernel(threads = 256)]
        pub unsafe fn $name(src: Global<u128>, dst: GlobalMut<u128>, m: u32, n: u32, src_ld: i64, dst_ld: i64) {
            // SAFETY: the caller's contract.
            unsafe { copy_tile::<$tile>((src, dst), (m, n), (src_ld, dst_ld)) }
        }
    )+ };
}
copy_lines! {
    /// Copies `n` lines of `m` vectors of 16 bytes, fastest if a line has thousands of them.
    copy_long_lines LongWords, 1;
    /// Copies `n` lines of `m` vectors of 16 bytes.
    copy_lines Words, 8;
}

/// The square tile of a transpose: 64 x 64, or 32 x 32 for 16-byte elements.
const fn extent<T: Element>() -> i64 {
    if T::BYTES == 16 { 32 } else { 64 }
}

macro_rules! layouts {
    ($($(#[$doc:meta])* $name:ident<$t:ident> = $layout:expr;)+) => { $(
        $(#[$doc])*
        pub struct $name<T>(PhantomData<T>);
        impl<T> Clone for $name<T> {
            fn clone(&self) -> Self {
                *self
            }
        }
        impl<T> Copy for $name<T> {}
        impl<$t: Element> StaticLayout for $name<$t> {
            const LAYOUT: Layout = $layout;
        }
    )+ };
}
layouts! {
    /// A block's tile of the source, (BLK_M, BLK_N), and of the destination, (BLK_N, BLK_M).
    Tile<T> = Layout::new(IntTuple::flat(&[extent::<T>(), extent::<T>()]), IntTuple::flat(&[1, extent::<T>()]));
    /// The tile in shared memory as the source has it. Each column starts one bank after the
    /// previous one (four banks for 16-byte elements, which a quarter of a warp accesses at a
    /// time), so that a warp that writes along M and one that reads along N have no bank conflicts.
    Smem<T> = Layout::new(IntTuple::flat(&[extent::<T>(), extent::<T>()]), IntTuple::flat(&[1, padded::<T>()]));
    /// The same memory as the destination has it.
    SmemTransposed<T> = Layout::new(IntTuple::flat(&[extent::<T>(), extent::<T>()]), IntTuple::flat(&[padded::<T>(), 1]));
    /// (THR_M, THR_N) over the source, (THR_N, THR_M) over the destination.
    Threads<T> = Layout::new(
        IntTuple::flat(&[extent::<T>(), 256 / extent::<T>()]),
        IntTuple::flat(&[1, extent::<T>()]),
    );
}

/// The column stride in shared memory, in elements.
const fn padded<T: Element>() -> i64 {
    extent::<T>() + if T::BYTES < 4 { 4 / T::BYTES as i64 } else { 1 }
}

/// One block's tile.
///
/// # Safety
/// As the kernels below, which declare `SharedArray<T, Smem<T>>`.
#[inline(always)]
unsafe fn transpose_tile<T: Element>(
    (src, dst): (Global<T>, GlobalMut<T>),
    (m, n): (u32, u32),
    (src_ld, dst_ld): (i64, i64),
) {
    overlap_launches();
    let (block, thread) = (block_idx().x, thread_idx().x);
    let block_extent = const { extent::<T>() as u32 };
    // Concurrent blocks write adjacent memory, and read strided.
    let (tile_n, tile_m) = tile_of(block, n.div_ceil(block_extent));
    let m_src = Matrix::new(src, (m, n), UnitStride::<0>(src_ld)); // (M, N)
    let m_dst = Matrix::new(dst, (n, m), UnitStride::<0>(dst_ld)); // (N, M)
    let g_src = m_src.local_tile::<Tile<T>, _>((tile_m, tile_n)); // (BLK_M, BLK_N)
    let g_dst = m_dst.local_tile::<Tile<T>, _>((tile_n, tile_m)); // (BLK_N, BLK_M)
    // SAFETY: the kernel declares it.
    let s_src = unsafe { SharedArray::<T, Smem<T>>::take() }; // (BLK_M, BLK_N)
    let s_dst = s_src.with_layout::<SmemTransposed<T>>(); // (BLK_N, BLK_M)

    let t_g_src = g_src.local_partition::<Threads<T>>(thread); // (THR_M, THR_N)
    let mut t_s_src = s_src.local_partition::<Threads<T>>(thread); // (THR_M, THR_N)
    let t_s_dst = s_dst.local_partition::<Threads<T>>(thread); // (THR_N, THR_M)
    let mut t_g_dst = g_dst.local_partition::<Threads<T>>(thread); // (THR_N, THR_M)
    let whole = (tile_m + 1) * block_extent <= m && (tile_n + 1) * block_extent <= n;
    // SAFETY: the caller's contract; the tile is read after the barrier that follows the writes; a
    // fragment is fully written before it is read.
    unsafe {
        if whole {
            let mut elements = t_g_src.make_fragment_like(); // (THR_M, THR_N)
            copy(&t_g_src.whole(), &mut elements);
            copy(&elements, &mut t_s_src);
            sync_threads();
            let mut elements = t_g_dst.make_fragment_like(); // (THR_N, THR_M)
            copy(&t_s_dst, &mut elements);
            copy(&elements, &mut t_g_dst.whole());
        } else {
            copy(&t_g_src, &mut t_s_src);
            sync_threads();
            copy(&t_s_dst, &mut t_g_dst);
        }
    }
}

macro_rules! transpose {
    ($($name:ident $t:ty, $extent:literal, $doc:literal;)+) => { $(
        #[doc = concat!("`dst = transpose(src)` of ", $doc, " elements: `src` is `m x n` with M contiguous, `dst` is `n x m` with N")]
        /// contiguous; the leading dimensions are from line to line, in elements. A block of 256
        /// threads along x for each tile of
        #[doc = concat!($extent, " x ", $extent, ".")]
        ///
        /// # Safety
        /// Both matrices are in memory of the device, inside the buffers that the pointers belong
        /// to, and they do not overlap. Both extents are at most 2^31 - 64.
        #[kernel(threads = 256, shared = SharedArray<$t, Smem<$t>>)]
        pub unsafe fn $name(src: Global<$t>, dst: GlobalMut<$t>, m: u32, n: u32, src_ld: i64, dst_ld: i64) {
            // SAFETY: the caller's contract.
            unsafe { transpose_tile::<$t>((src, dst), (m, n), (src_ld, dst_ld)) }
        }
    )+ };
}
transpose! {
    transpose_u8 u8, 64, "8-bit";
    transpose_u16 u16, 64, "16-bit";
    transpose_u32 u32, 64, "32-bit";
    transpose_u64 u64, 64, "64-bit";
    transpose_u128 u128, 32, "128-bit";
}
