//! The greatest elements of rows: a block reads its row once from memory and once from the caches.
//!
//! The k-th greatest of the maxima of 256 groups of elements is not above the k-th greatest
//! element, and few elements reach it. They are collected in shared memory and ranked there. Where
//! too many elements reach it, in a row of equal elements for example, a bisection raises it first.
#![allow(non_snake_case, reason = "CuTe's names")]

use crate::place::Place;
use moye_device::algorithm::*;
use moye_device::arch::{AtomicAdd, max_nan_f32, overlap_launches};
use moye_device::memory::Shared;
use moye_device::prelude::*;

/// Threads of a block.
pub const THREADS: u32 = 1024;
/// The greatest `k`: half of the groups.
pub const MOST: u32 = 128;
const GROUPS: u32 = THREADS / 4;
/// The capacity for candidates above the threshold, and for candidates equal to it.
const ROOM: u32 = 1024;

static_layout! {
    /// The maximum of each group, four to a vector.
    Maxima = layout!(64);
    /// Candidates: (candidate, above or equal).
    Found = layout!((ROOM as i64, 2));
    /// The number of candidates above and equal, and the threshold.
    Counts = layout!(3);
    /// A value for each warp.
    Warps = layout!(32);
}

/// The sort key of a value: greater for a greater value, and the greatest for NaN.
#[inline(always)]
fn order(value: f32) -> u32 {
    // -0 becomes 0.
    let bits = (value + 0.0).to_bits();
    let key = if bits >> 31 == 1 { !bits } else { bits | 0x8000_0000 };
    if value.is_nan() { u32::MAX } else { key }
}

/// The row of a block.
#[derive(Clone, Copy)]
struct Row<T: Element> {
    x: Global<T>,
    stride: i64,
    part: RowPart,
}

impl<T: Element + Convert<f32>> Row<T> {
    /// Calls `f` with the order and the index of all elements of those of the thread's vectors
    /// whose maximum reaches `least`.
    ///
    /// # Safety
    /// The row is readable.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn reaching(self, least: u32, mut f: impl FnMut(u32, u32)) {
        // SAFETY: the row is readable.
        unsafe {
            self.part.for_each_of::<T, 2>(self.x, self.stride, |values, at| {
                if order(Max::of(values, |i| i)) >= least {
                    for (&value, i) in values.iter().zip(at..) {
                        f(order(value), i);
                    }
                }
            });
        }
    }

    /// The number of the block's elements for which `is` holds.
    ///
    /// # Safety
    /// The row is readable, all threads of the block call it, and `scratch` belongs to them.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn count(
        self,
        scratch: SharedTensor<u32, Warps>,
        least: u32,
        is: impl Fn(u32, u32) -> bool,
    ) -> u32 {
        let mut count = 0;
        // SAFETY: the row is readable, and all threads of the block are here.
        unsafe {
            self.reaching(least, |key, at| count += u32::from(is(key, at)));
            block_reduce(count, scratch, |a, b| a + b)
        }
    }
}

/// The `k` greatest elements of each row of `n` in descending order, and their indices. Equal
/// elements are in the order of their indices. Grid: `(rows, groups)`.
///
/// # Safety
/// `x` holds the rows, `values` and `indices` (i32, or i64 if `wide`) hold `k` elements for each;
/// `k` is from 1 to `MOST` and at most `n`. The results are disjoint from `x`.
#[kernel(
    threads = THREADS,
    shared = (
        maxima: SharedArray<[u32; 4], Maxima>,
        found: SharedArray<u64, Found>,
        counts: SharedArray<u32, Counts>,
        scratch: SharedArray<u32, Warps>
    ),
    instances = topk<f32 | f16 | bf16>,
    table = TopKKernels
)]
pub unsafe fn topk<T: Element + Convert<f32>>(
    x: Global<T>,
    values: GlobalMut<T>,
    indices: GlobalMut<i32>,
    wide: bool,
    n: u32,
    k: u32,
    of_x: Place,
    of_values: Place,
    of_indices: Place,
) {
    overlap_launches();
    let thread = thread_idx().x;
    let part = RowPart { from: 0, to: n, part: thread, parts: THREADS };
    let row = Row { x: x.offset(of_x.row(block_idx().y, block_idx().x)), stride: of_x.element, part };

    // Groups without elements have order 0, below any element.
    let (mut max, mut any) = (f32::NEG_INFINITY, false);
    part.for_each_of::<T, 2>(row.x, row.stride, |values, _| {
        (max, any) = (max_nan_f32(max, Max::of(values, |i| i)), true);
    });
    let max = quad_reduce(if any { order(max) } else { 0 }, |a, b| if a > b { a } else { b });
    if thread.is_multiple_of(4) {
        Shared::<u32>::from_address(maxima.address_of(0usize)).write(thread / 4, max);
    }
    let mut counts = counts;
    if thread < 2 {
        counts.set(thread as usize, 0);
    }
    sync_threads();
    if thread < GROUPS {
        let own = Shared::<u32>::from_address(maxima.address_of(0usize)).read(thread);
        let mut rank = 0;
        for vector in 0..GROUPS / 4 {
            let others = maxima.get(vector as usize);
            for (&other, i) in others.iter().zip(4 * vector..) {
                let above = other > own || other == own && i < thread;
                rank += u32::from(above);
            }
        }
        if rank == k - 1 {
            counts.set(2usize, own);
        }
    }
    sync_threads();

    // At least k elements reach the threshold.
    let (mut least, mut limit) = (counts.get(2usize), n);
    let (mut above, mut equal);
    loop {
        row.reaching(least, |key, at| {
            let is_equal = key == least;
            if key > least || is_equal && at < limit {
                let slot = u32::atomic_add_shared(counts.address_of(usize::from(is_equal)), 1);
                if slot < ROOM {
                    let candidate = u64::from(key) << 32 | u64::from(!at);
                    let mut found = found;
                    found.set((slot, u32::from(is_equal)), candidate);
                }
            }
        });
        sync_threads();
        (above, equal) = (counts.get(0usize), counts.get(1usize));
        let lacking = k.saturating_sub(above);
        if above <= ROOM && (equal <= ROOM || lacking == 0) {
            break;
        }
        if above > ROOM {
            // The threshold becomes the k-th greatest element.
            let mut most = u32::MAX;
            while least < most {
                let middle = least + (most - least).div_ceil(2);
                if row.count(scratch, middle, |key, _| key >= middle) >= k {
                    least = middle;
                } else {
                    most = middle - 1;
                }
            }
        } else {
            // Take the first of the equal elements, until there are k.
            let mut fewest = 0;
            while fewest < limit {
                let middle = fewest + (limit - fewest) / 2;
                if row.count(scratch, least, |key, at| key == least && at < middle) >= lacking {
                    limit = middle;
                } else {
                    fewest = middle + 1;
                }
            }
        }
        sync_threads();
        if thread < 2 {
            counts.set(thread as usize, 0);
        }
        sync_threads();
    }

    // Equal elements count only if there are too few greater ones.
    let equal = if above < k { equal } else { 0 };
    let candidate = |i: u32| {
        let at = if i < above { (i, 0) } else { (i - above, 1) };
        found.get(at)
    };
    let mut own = thread;
    while own < above + equal {
        let mine = candidate(own);
        let mut rank = 0;
        for other in 0..above + equal {
            rank += u32::from(candidate(other) > mine);
        }
        if rank < k {
            let at = !(mine as u32);
            let value = row.x.read(i64::from(at) * row.stride);
            values.write(
                of_values.row(block_idx().y, block_idx().x) + i64::from(rank) * of_values.element,
                value,
            );
            let to = of_indices.row(block_idx().y, block_idx().x) + i64::from(rank) * of_indices.element;
            if wide {
                indices.cast::<i64>().write(to, i64::from(at));
            } else {
                indices.write(to, at as i32);
            }
        }
        own += THREADS;
    }
}
