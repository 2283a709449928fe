//! Cumulative sums: each element is read once and written once. Rows have a block, or a warp, that
//! goes from chunk to chunk; long rows a block for each chunk, which waits for the sums before it;
//! rows whose elements are contiguous across rows a lane.
#![allow(non_snake_case, reason = "CuTe's names")]

use crate::place::{Place, read, values, write};
use moye_device::algorithm::warp_reduce;
use moye_device::arch::{AtomicAdd as _, opaque, shuffle, shuffle_up};
use moye_device::prelude::*;

/// Threads of a block.
pub const THREADS: u32 = 512;
/// Vectors of a thread in a chunk.
const HELD: usize = 2;
/// Vectors of a thread in a chunk of a long row.
const HELD_LONG: usize = 4;
/// Elements of a lane in a chunk across rows.
const HELD_ACROSS: usize = 8;
const WARPS: u32 = THREADS / 32;

static_layout! {
    /// The sum of each warp: (warp, parity of the chunk).
    Sums = layout!((16, 2));
    /// The sum of each warp, and the sum before the chunk.
    SumsOfChunk = layout!(17);
    /// The sum of each thread: (lane, warp, parity of the chunk).
    SumsAcross = layout!((32, 16, 2));
}

/// Elements of a chunk of a long row.
pub const fn chunk(bytes_of_element: usize) -> u32 {
    THREADS * HELD_LONG as u32 * (16 / bytes_of_element) as u32
}

/// Words between the launches for a long row: a sum for each chunk, for each 32 of them and for the
/// chunks before each 1,024.
pub const fn words(chunks: u32) -> u32 {
    chunks + chunks.div_ceil(32) + chunks.div_ceil(1024) + 1
}

/// The vectors of a thread from an element on, of a row that ends at `end`.
///
/// # Safety
/// As [`read`].
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
    let mut words = [[0u32; 4]; N];
    // SAFETY: the elements before `end` are readable.
    unsafe {
        if aligned {
            let x = x.offset(first.into()).cast::<[u32; 4]>();
            for (word, i) in words.iter_mut().zip(0..) {
                *word = x.offset(i).read_if(first + i as u32 * vector < end);
            }
            return words;
        }
        for (word, i) in words.iter_mut().zip(0..) {
            let at = first + i * vector;
            let from = x.offset(i64::from(at) * stride);
            *word = read::<T, [u32; 4]>(from, stride, end.saturating_sub(at).min(vector), false);
        }
    }
    words
}

/// The sum of a thread's vectors.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
fn sum<T: Element + Convert<f32>, const N: usize>(words: &[[u32; 4]; N]) -> f32 {
    let mut own = 0.0f32;
    for word in words {
        for x in &values::<T>(word)[..const { 16 / T::BYTES }] {
            own += x;
        }
    }
    own
}

/// Writes the sums of a thread's vectors, from the sum before them on.
///
/// # Safety
/// As [`write`].
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
unsafe fn store<T: Element + Convert<f32>, const N: usize>(
    y: GlobalMut<T>,
    stride: i64,
    first: u32,
    end: u32,
    aligned: bool,
    held: &[[u32; 4]; N],
    (before, exclusive): (f32, bool),
) where
    f32: Convert<T>,
{
    let (vector, mut before) = (const { (16 / T::BYTES) as u32 }, before);
    for (word, i) in held.iter().zip(0..) {
        let mut words = [0u32; 4];
        let rounded = words.as_mut_ptr().cast::<T>();
        let elements = values::<T>(word);
        let at = first + i * vector;
        // SAFETY: the words have room for the elements, and those before `end` are
        // writable.
        unsafe {
            for (&x, j) in elements[..const { 16 / T::BYTES }].iter().zip(0..) {
                let with = before + x;
                rounded.add(j).write(if exclusive { before } else { with }.convert());
                before = with;
            }
            if aligned {
                y.offset(first.into()).cast::<[u32; 4]>().offset(i.into()).write_if(at < end, words);
            } else {
                let to = y.offset(i64::from(at) * stride);
                write::<T, [u32; 4]>(to, stride, end.saturating_sub(at).min(vector), false, words);
            }
        }
    }
}

/// `y[i] = x[0] + ... + x[i]` along rows of `n`, or to `x[i - 1]` if `exclusive`, summed in f32.
/// Grid: `(ceil(rows / rows of a block), groups)`; a block has one row, or one for each warp if
/// `by_warp`.
///
/// # Safety
/// `x` and `y`, the same or disjoint, hold the groups of `m` rows. If `aligned`, rows are
/// contiguous, and their starts and length are multiples of 16 bytes.
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
    by_warp: bool,
    aligned: bool,
    exclusive: bool,
) where
    f32: Convert<T>,
{
    let vector = const { (16 / T::BYTES) as u32 };
    let (thread, lane, warp) = (thread_idx().x, lane_id(), thread_idx().x / 32);
    let (row, part, parts) =
        if by_warp { (block_idx().x * WARPS + warp, lane, 32) } else { (block_idx().x, thread, THREADS) };
    let end = if row < m { n } else { 0 };
    let chunk = parts * HELD as u32 * vector;
    let (x, y) = (x.offset(of_x.row(block_idx().y, row)), y.offset(of_y.row(block_idx().y, row)));
    let (mut sums, mut carry, mut parity) = (sums, 0.0f32, 0u32);
    let mut base = 0;
    // All threads of the block, or of the warp, have the same chunks.
    while base < n {
        let first = base + part * HELD as u32 * vector;
        let words = load::<T, HELD>(x, of_x.element, first, end, aligned);
        let up_to = warp_scan(sum::<T, HELD>(&words), |a, b| a + b);
        let below = shuffle_up(FULL_WARP, up_to, 1);
        let mut before = carry + if lane == 0 { 0.0 } else { below };
        let mut total = shuffle(FULL_WARP, up_to, 31);
        if !by_warp {
            if lane == 0 {
                sums.set((warp, parity), total);
            }
            sync_threads();
            let of_warps = warp_scan(sums.get((lane % 16, parity)), |a, b| a + b);
            let below = shuffle(FULL_WARP, of_warps, warp.wrapping_sub(1) % 32);
            before += if warp == 0 { 0.0 } else { below };
            total = shuffle(FULL_WARP, of_warps, 15);
            parity ^= 1;
        }
        store(y, of_y.element, first, end, aligned, &words, (before, exclusive));
        carry += total;
        base += chunk;
    }
}

/// Sets the words of a scan of long rows to 0: none is there. Grid: `ceil(count / THREADS)`.
///
/// # Safety
/// `states` holds `count` words.
#[kernel(threads = THREADS)]
pub unsafe fn cumsum_clear(states: GlobalMut<u64>, count: u32) {
    let i = block_idx().x * THREADS + thread_idx().x;
    states.offset(i.into()).write_if(i < count, 0);
}

/// A sum that other blocks wait for: once it is there, its word has a one above its bits.
#[derive(Clone, Copy)]
struct State(GlobalMut<u64>);

impl State {
    /// # Safety
    /// No other thread publishes it, and it was 0.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn publish(self, at: u32, sum: f32) {
        // SAFETY: the caller's contract; the word holds the sum at once.
        unsafe {
            u64::reduce_add_global(self.0.offset(at.into()).address(), 1 << 32 | u64::from(sum.to_bits()))
        }
    }

    /// The word, 0 as long as the sum is not there; one of the sum 0 where not `wanted`.
    ///
    /// # Safety
    /// The word is readable.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn poll(self, at: u32, wanted: bool) -> u64 {
        let address = self.0.offset(at.into()).address();
        // SAFETY: the word is one of the workspace. Other blocks write it: an atomic operation
        // reads it.
        if wanted { unsafe { u64::atomic_add_global(address, 0) } } else { 1 << 32 }
    }

    /// Waits for a sum that was polled for.
    ///
    /// # Safety
    /// Some block publishes it without waiting for this one.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn wait(self, at: u32, polled: u64) -> f32 {
        let mut word = polled;
        while word == 0 {
            // SAFETY: the word is one of the workspace, which some block writes.
            word = unsafe { self.poll(at, true) };
        }
        f32::from_bits(word as u32)
    }
}

/// [`cumsum`] with a block for each chunk of a row. The sum before a chunk is that before its 1,024
/// chunks, plus those of the 32s of chunks before its own, plus those of the chunks before it in
/// its 32: in the same order whichever block is first, so that the result has the same bits in
/// every run. Blocks wait for those of lower numbers alone, which a GPU starts first. Grid:
/// `(chunks, rows, groups)`.
///
/// # Safety
/// As [`cumsum`]; `states` holds `words(chunks)` zeros for each row.
#[kernel(
    threads = THREADS,
    min_blocks = 2,
    shared = (sums: SharedArray<f32, SumsOfChunk>),
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
    let vector = const { (16 / T::BYTES) as u32 };
    let (block, lane, warp) = (block_idx(), lane_id(), thread_idx().x / 32);
    let (chunk, chunks) = (block.x, grid_dim().x);
    let row = u64::from(block.z * grid_dim().y + block.y);
    let of_chunks = State(states.offset((row * u64::from(words(chunks))) as i64));
    let of_32 = State(of_chunks.0.offset(chunks.into()));
    let before_1024 = State(of_32.0.offset(chunks.div_ceil(32).into()));
    let (x, y) = (x.offset(of_x.row(block.z, block.y)), y.offset(of_y.row(block.z, block.y)));
    let first = (chunk * THREADS + thread_idx().x) * HELD_LONG as u32 * vector;

    let mut held = load::<T, HELD_LONG>(x, of_x.element, first, n, aligned);
    let up_to = warp_scan(sum::<T, HELD_LONG>(&held), |a, b| a + b);
    let below = shuffle_up(FULL_WARP, up_to, 1);
    let mut sums = sums;
    if lane == 31 {
        sums.set(warp, up_to);
    }
    sync_threads();
    let of_warps = warp_scan(sums.get(lane % 16), |a, b| a + b);
    if warp == 0 {
        let total = shuffle(FULL_WARP, of_warps, 15);
        if lane == 0 {
            of_chunks.publish(chunk, total);
        }
        let (in_32, of_1024) = (chunk % 32, chunk / 1024);
        // All are read before the first is waited for.
        let places = [chunk - in_32 + lane, of_1024 * 32 + lane, of_1024];
        let polled = [
            of_chunks.poll(places[0], lane < in_32),
            of_32.poll(places[1], lane < chunk / 32 % 32),
            before_1024.poll(places[2], of_1024 > 0),
        ];
        let chunks_before = warp_reduce(of_chunks.wait(places[0], polled[0]), |a, b| a + b);
        if in_32 == 31 && lane == 0 {
            of_32.publish(chunk / 32, chunks_before + total);
        }
        let before = warp_reduce(of_32.wait(places[1], polled[1]), |a, b| a + b) + chunks_before;
        let before = before_1024.wait(places[2], polled[2]) + before;
        if lane == 0 {
            if chunk % 1024 == 1023 {
                before_1024.publish(of_1024 + 1, before + total);
            }
            sums.set(16u32, before);
        }
    }
    let of_warps = shuffle(FULL_WARP, of_warps, warp.wrapping_sub(1) % 32);
    sync_threads();
    let before =
        sums.get(16u32) + if warp == 0 { 0.0 } else { of_warps } + if lane == 0 { 0.0 } else { below };
    // The words wait in registers, not the values of elements, which are twice as many.
    for word in &mut held {
        *word = word.map(opaque);
    }
    store(y, of_y.element, first, n, aligned, &held, (before, exclusive));
}

/// [`cumsum`] of rows whose elements are contiguous across rows: a lane of each warp of a block has
/// a row. Grid: `(ceil(m / 32), groups)`.
///
/// # Safety
/// As [`cumsum`].
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
