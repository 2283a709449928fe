//! Cumulative sums: each row is read once and written once, a chunk after the other.
#![allow(non_snake_case, reason = "CuTe's names")]

use crate::place::{Place, read, values, write};
use moye_device::arch::{shuffle, shuffle_up};
use moye_device::prelude::*;

/// Threads of a block.
pub const THREADS: u32 = 512;
/// Vectors of a thread in a chunk.
const HELD: usize = 2;

static_layout! {
    /// The sum of each warp: (warp, parity of the chunk).
    Sums = layout!((16, 2));
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
    let (row, part, parts) = if by_warp {
        (block_idx().x * (THREADS / 32) + warp, lane, 32)
    } else {
        (block_idx().x, thread, THREADS)
    };
    let end = if row < m { n } else { 0 };
    let chunk = parts * HELD as u32 * vector;
    let (mut sums, mut carry, mut parity) = (sums, 0.0f32, 0u32);
    let mut base = 0;
    // All threads of the block, or of the warp, have the same chunks.
    while base < n {
        let first = base + part * HELD as u32 * vector;
        let mut words = [[0u32; 4]; HELD];
        for (word, i) in words.iter_mut().zip(0..) {
            let at = first + i * vector;
            let from = x.offset(of_x.at(block_idx().y, row, at));
            *word = read::<T, [u32; 4]>(from, of_x.element, end.saturating_sub(at).min(vector), aligned);
        }
        let elements = words.map(|word| values::<T>(&word));
        let mut own = 0.0f32;
        for word in &elements {
            for x in &word[..vector as usize] {
                own += x;
            }
        }
        let up_to = warp_scan(own, |a, b| a + b);
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
        for (word, i) in elements.iter().zip(0..) {
            let mut words = [0u32; 4];
            let rounded = words.as_mut_ptr().cast::<T>();
            for (&x, j) in word[..vector as usize].iter().zip(0..) {
                let with = before + x;
                rounded.add(j).write(if exclusive { before } else { with }.convert());
                before = with;
            }
            let at = first + i * vector;
            let to = y.offset(of_y.at(block_idx().y, row, at));
            write::<T, [u32; 4]>(to, of_y.element, end.saturating_sub(at).min(vector), aligned, words);
        }
        carry += total;
        base += chunk;
    }
}
