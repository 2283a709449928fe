//! Cumulative sums: each element is read once and written once. Some warps of a block, or all, step
//! over the chunks of a row. A long row has a block for each chunk, which waits for the sums before
//! it. Where elements are contiguous across rows, a lane of each warp of a block computes a row.
#![allow(non_snake_case, reason = "CuTe's names")]

use crate::place::{Place, elements, read_all, values, write};
use core::ops::Range;
use moye_device::algorithm::warp_reduce;
use moye_device::arch::{AtomicAdd as _, opaque, overlap_launches, shuffle, shuffle_up};
use moye_device::prelude::*;

/// Threads of a block.
pub const THREADS: u32 = 512;
/// Vectors of a thread in a chunk.
const HELD: usize = 2;
/// Threads of a block of long rows: two blocks of an SM have 72 registers a thread.
pub const THREADS_LONG: u32 = 448;
/// Vectors of a thread in a chunk of a long row.
const HELD_LONG: usize = 4;
/// Elements of a lane in a chunk across rows.
const HELD_ACROSS: usize = 8;
const WARPS: u32 = THREADS / 32;
const WARPS_LONG: u32 = THREADS_LONG / 32;

static_layout! {
    /// The sum of each warp: (warp, parity of the chunk).
    Sums = layout!((16, 2));
    /// The sum of each thread: (lane, warp, parity of the chunk).
    SumsAcross = layout!((32, 16, 2));
}

/// Elements of a part of a chunk, which one warp sums.
pub const fn part(bytes_of_element: usize) -> u32 {
    32 * HELD as u32 * (16 / bytes_of_element) as u32
}

/// Elements of a chunk of a long row.
pub const fn chunk(bytes_of_element: usize) -> u32 {
    THREADS_LONG * HELD_LONG as u32 * (16 / bytes_of_element) as u32
}

/// Words between the launches for a long row: a sum for each chunk, for each 32 of them and for the
/// chunks before each 1,024.
pub const fn words(chunks: u32) -> u32 {
    chunks + chunks.div_ceil(32) + chunks.div_ceil(1024) + 1
}

/// The first element of a lane's vectors in part `part` of a row: a part has `N` vectors of each of
/// 32 lanes.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
fn first_of<T: Element, const N: usize>(part: u32) -> u32 {
    (part * (32 * N as u32) + lane_id()) * const { (16 / T::BYTES) as u32 }
}

/// Loads the vectors of a lane from an element on, of a row that ends at `end`.
///
/// # Safety
/// The elements before `end` are readable; if `aligned`, they are whole vectors, contiguous, and at
/// multiples of 16 bytes.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
unsafe fn load<T: Element, const N: usize>(
    x: Global<T>,
    stride: i64,
    first: u32,
    end: u32,
    aligned: bool,
) -> [[u32; 4]; N] {
    let vector = const { (16 / T::BYTES) as u32 };
    let mut from = [(x, 0u32); N];
    for (from, i) in from.iter_mut().zip(0..) {
        let at = first + i * (32 * vector);
        *from = (x.offset(i64::from(at) * stride), end.saturating_sub(at).min(vector));
    }
    // SAFETY: the elements before `end` are readable.
    unsafe { read_all(&from, stride, aligned) }
}

/// The sums before each of a lane's vectors, of only the warp's elements, and the sum of all its
/// elements.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
fn sums_of_warp<T: Element + Convert<f32>, const N: usize>(words: &[[u32; 4]; N]) -> ([f32; N], f32) {
    let (mut before, mut total) = ([0.0f32; N], 0.0f32);
    for (word, before) in words.iter().zip(&mut before) {
        let mut own = 0.0f32;
        for x in &values::<T>(word)[..const { 16 / T::BYTES }] {
            own += x;
        }
        let up_to = warp_scan(own, |a, b| a + b);
        let below = shuffle_up(FULL_WARP, up_to, 1);
        *before = total + if lane_id() == 0 { 0.0 } else { below };
        total += shuffle(FULL_WARP, up_to, 31);
    }
    (before, total)
}

/// The sums before a lane's elements, and whether results are exclusive.
struct Before<'a, const N: usize> {
    /// The sum before the warp's elements.
    warp: f32,
    /// The sums before each of the lane's vectors, of only the warp's elements.
    vectors: &'a [f32; N],
    /// Whether a result leaves out its element.
    exclusive: bool,
}

/// Writes the sums of a lane's vectors from an element on.
///
/// # Safety
/// Same contract as [`load`], but the elements are writable.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
unsafe fn store<T: Element + Convert<f32>, const N: usize>(
    y: GlobalMut<T>,
    stride: i64,
    of: Range<u32>,
    aligned: bool,
    held: &[[u32; 4]; N],
    before: Before<'_, N>,
) where
    f32: Convert<T>,
{
    let (vector, Range { start: first, end }) = (const { (16 / T::BYTES) as u32 }, of);
    for ((word, of_vector), i) in held.iter().zip(before.vectors).zip(0..) {
        // Keep the words in registers: the f32 values would take twice as many.
        let (of_word, mut sums) = (values::<T>(&word.map(opaque)), [0.0f32; 8]);
        let mut without = before.warp + of_vector;
        for (&x, sum) in of_word[..const { 16 / T::BYTES }].iter().zip(&mut sums) {
            let with = without + x;
            *sum = if before.exclusive { without } else { with };
            without = with;
        }
        let at = first + i * (32 * vector);
        let to = y.offset(i64::from(at) * stride);
        // SAFETY: the elements before `end` are writable.
        unsafe { write(to, stride, end.saturating_sub(at).min(vector), aligned, elements::<T>(&sums)) }
    }
}

/// `y[i] = x[0] + ... + x[i]` along rows of `n`, or to `x[i - 1]` if `exclusive`, summed in f32.
/// `parts` warps of a block compute a row. Grid: `(ceil(rows parts / WARPS), groups)`.
///
/// # Safety
/// `x` and `y`, the same or disjoint, hold the groups of `m` rows; `parts` is a power of two, 16 at
/// most. If `aligned`, rows are contiguous, and their starts and length are multiples of 16 bytes.
#[kernel(
    threads = THREADS,
    min_blocks = 3,
    shared = (sums: SharedArray<f32, Sums>),
    instances = cumsum<f32 | f16 | bf16>,
    table = CumsumKernels
)]
pub unsafe fn cumsum<T: Element + Convert<f32>>(
    x: Global<T>,
    y: GlobalMut<T>,
    m: u32,
    n: u32,
    of_x: Place,
    of_y: Place,
    parts: u32,
    aligned: bool,
    exclusive: bool,
) where
    f32: Convert<T>,
{
    overlap_launches();
    let (lane, warp) = (lane_id(), thread_idx().x / 32);
    let (row, part) = ((block_idx().x * WARPS + warp) / parts, warp % parts);
    let end = if row < m { n } else { 0 };
    let chunk = parts * const { self::part(T::BYTES) };
    let (x, y) = (x.offset(of_x.row(block_idx().y, row)), y.offset(of_y.row(block_idx().y, row)));
    let (mut sums, mut carry, mut parity) = (sums, 0.0f32, 0u32);
    let (mut base, mut first) = (0, first_of::<T, HELD>(part));
    // All threads of the block have the same number of chunks.
    while base < n {
        let words = load::<T, HELD>(x, of_x.element, first, end, aligned);
        let (before, mut total) = sums_of_warp::<T, HELD>(&words);
        let mut before_warp = carry;
        if parts > 1 {
            if lane == 0 {
                sums.set((warp, parity), total);
            }
            sync_threads();
            let of_warps = warp_scan(sums.get((warp - part + lane % parts, parity)), |a, b| a + b);
            let below = shuffle(FULL_WARP, of_warps, part.wrapping_sub(1) % 32);
            before_warp += if part == 0 { 0.0 } else { below };
            total = shuffle(FULL_WARP, of_warps, parts - 1);
            parity ^= 1;
        }
        let before = Before { warp: before_warp, vectors: &before, exclusive };
        store(y, of_y.element, first..end, aligned, &words, before);
        carry += total;
        base += chunk;
        first += chunk;
    }
}

/// Clears the words of a scan of long rows: 0 is an unpublished sum. Grid:
/// `ceil(count / THREADS)`.
///
/// # Safety
/// `states` holds `count` words.
#[kernel(threads = THREADS)]
pub unsafe fn cumsum_clear(states: GlobalMut<u64>, count: u32) {
    overlap_launches();
    let i = block_idx().x * THREADS + thread_idx().x;
    states.offset(i).write_if(i < count, 0);
}

/// Sums that other blocks wait for. The word of a published sum has bit 32 set above the sum's
/// bits.
#[derive(Clone, Copy)]
struct State(GlobalMut<u64>);

impl State {
    /// # Safety
    /// No other thread publishes it, and it was 0.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn publish(self, at: u32, sum: f32) {
        // SAFETY: only this thread publishes the word, which was 0; one reduction writes flag and
        // sum.
        unsafe { u64::reduce_add_global(self.0.offset(at).address(), 1 << 32 | u64::from(sum.to_bits())) }
    }

    /// The word, 0 until the sum is published; a published 0 if not `wanted`.
    ///
    /// # Safety
    /// The word is readable.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn poll(self, at: u32, wanted: bool) -> u64 {
        let address = self.0.offset(at).address();
        // SAFETY: the word is in the workspace. Other blocks write it, so an atomic operation reads
        // it.
        if wanted { unsafe { u64::atomic_add_global(address, 0) } } else { 1 << 32 }
    }

    /// Waits for a sum, from the word that a poll returned.
    ///
    /// # Safety
    /// Some block publishes it without waiting for this one.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn wait(self, at: u32, polled: u64) -> f32 {
        let mut word = polled;
        while word == 0 {
            // SAFETY: the word is in the workspace, and some block writes it.
            word = unsafe { self.poll(at, true) };
        }
        f32::from_bits(word as u32)
    }

    /// The sum before chunk `at` of the row of `chunks` that has these words, in the first lane;
    /// the chunk's sum is `total`.
    ///
    /// # Safety
    /// All lanes of one warp of the chunk's block call it, and the chunks before it are published
    /// without waiting for this one.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn before(self, chunks: u32, at: u32, total: f32) -> f32 {
        let (lane, in_32, of_1024) = (lane_id(), at % 32, at / 1024);
        let of_32 = Self(self.0.offset(chunks));
        let before_1024 = Self(of_32.0.offset(chunks.div_ceil(32)));
        // SAFETY: the words are the row's, and some block publishes each word that is waited for.
        unsafe {
            // Poll all words before the first wait, and the last word by one lane only: atomic
            // operations on one word are serialised.
            let places = [at - in_32 + lane, of_1024 * 32 + lane, of_1024];
            let polled = [
                self.poll(places[0], lane < in_32),
                of_32.poll(places[1], lane < at / 32 % 32),
                before_1024.poll(places[2], of_1024 > 0 && lane == 0),
            ];
            let chunks_before = warp_reduce(self.wait(places[0], polled[0]), |a, b| a + b);
            if in_32 == 31 && lane == 0 {
                of_32.publish(at / 32, chunks_before + total);
            }
            let before = warp_reduce(of_32.wait(places[1], polled[1]), |a, b| a + b) + chunks_before;
            let before = before_1024.wait(places[2], polled[2]) + before;
            if at % 1024 == 1023 && lane == 0 {
                before_1024.publish(of_1024 + 1, before + total);
            }
            before
        }
    }
}

/// [`cumsum`] with a block for each chunk of a row. The sum before a chunk is the sum before its
/// group of 1,024 chunks, plus the sums of earlier groups of 32 in it, plus the sums of earlier
/// chunks in its group of 32. The order does not depend on the blocks' timing, so every run returns
/// the same bits. A block waits only for blocks of lower indices, which a GPU starts first.
/// Grid: `(chunks, rows, groups)`.
///
/// # Safety
/// Same contract as [`cumsum`]; `states` holds `words(chunks)` zeros for each row.
#[kernel(
    threads = THREADS_LONG,
    min_blocks = 2,
    shared = (sums: SharedArray<f32, Sums>),
    instances = cumsum_long<f32 | f16 | bf16>,
    table = CumsumLongKernels
)]
pub unsafe fn cumsum_long<T: Element + Convert<f32>>(
    x: Global<T>,
    y: GlobalMut<T>,
    states: GlobalMut<u64>,
    n: u32,
    of_x: Place,
    of_y: Place,
    aligned: bool,
    exclusive: bool,
) where
    f32: Convert<T>,
{
    overlap_launches();
    let (block, lane, warp) = (block_idx(), lane_id(), thread_idx().x / 32);
    let (chunk, chunks) = (block.x, grid_dim().x);
    let row = u64::from(block.z * grid_dim().y + block.y);
    let states = State(states.offset((row * u64::from(words(chunks))) as i64));
    let (x, first) =
        (x.offset(of_x.row(block.z, block.y)), first_of::<T, HELD_LONG>(chunk * WARPS_LONG + warp));

    let held = load::<T, HELD_LONG>(x, of_x.element, first, n, aligned);
    let (before, of_warp) = sums_of_warp::<T, HELD_LONG>(&held);
    let mut sums = sums;
    if lane == 0 {
        sums.set((warp, 0u32), of_warp);
    }
    sync_threads();
    let of_warps = warp_scan(sums.get((lane % WARPS_LONG, 0u32)), |a, b| a + b);
    if warp == 0 {
        let total = shuffle(FULL_WARP, of_warps, WARPS_LONG - 1);
        if lane == 0 {
            states.publish(chunk, total);
        }
        let before_chunk = states.before(chunks, chunk, total);
        if lane == 0 {
            sums.set((0u32, 1u32), before_chunk);
        }
    }
    let below = shuffle(FULL_WARP, of_warps, warp.wrapping_sub(1) % 32);
    sync_threads();
    let before_warp = sums.get((0u32, 1u32)) + if warp == 0 { 0.0 } else { below };
    let y = y.offset(of_y.row(block.z, block.y));
    let before = Before { warp: before_warp, vectors: &before, exclusive };
    store(y, of_y.element, opaque(first)..n, aligned, &held, before);
}

/// [`cumsum`] of rows whose elements are contiguous across rows: a lane of each warp of a block
/// computes a row. Grid: `(ceil(m / 32), groups)`.
///
/// # Safety
/// Same contract as [`cumsum`].
#[kernel(
    threads = THREADS,
    min_blocks = 2,
    shared = (sums: SharedArray<f32, SumsAcross>),
    instances = cumsum_across<f32 | f16 | bf16>,
    table = CumsumAcrossKernels
)]
pub unsafe fn cumsum_across<T: Element + Convert<f32>>(
    x: Global<T>,
    y: GlobalMut<T>,
    m: u32,
    n: u32,
    of_x: Place,
    of_y: Place,
    exclusive: bool,
) where
    f32: Convert<T>,
{
    overlap_launches();
    let (lane, warp) = (lane_id(), thread_idx().x / 32);
    let row = block_idx().x * 32 + lane;
    let (x, y) = (x.offset(of_x.row(block_idx().y, row)), y.offset(of_y.row(block_idx().y, row)));
    let (mut sums, mut carry, mut parity, mut base) = (sums, 0.0f32, 0u32, 0u32);
    while base < n {
        let first = base + warp * HELD_ACROSS as u32;
        let mut held = [0.0f32; HELD_ACROSS];
        let end = if row < m { n } else { 0 };
        for (value, at) in held.iter_mut().zip(first..) {
            *value = x.offset(i64::from(at) * of_x.element).read_if(at < end).convert();
        }
        let mut own = 0.0;
        for x in &held {
            own += x;
        }
        sums.set((lane, warp, parity), own);
        sync_threads();
        let mut before = carry;
        for other in 0..WARPS {
            if other == warp {
                before = carry;
            }
            carry += sums.get((lane, other, parity));
        }
        for (&x, at) in held.iter().zip(first..) {
            let with = before + x;
            let value = if exclusive { before } else { with }.convert();
            y.offset(i64::from(at) * of_y.element).write_if(at < end, value);
            before = with;
        }
        parity ^= 1;
        base += WARPS * HELD_ACROSS as u32;
    }
}
