//! Sampling from logits: a block computes a row. All sums are of integers, and all choices depend
//! only on the elements, so that the result is the same in every run.
//!
//! The elements that reach the 128th greatest of the maxima of 256 groups are collected in shared
//! memory. A threshold is found by 8-bit digits, as in a radix sort, of its distance from the
//! lowest possible order: among the collected elements, or in the whole row if it may be below
//! them.
#![allow(non_snake_case, reason = "CuTe's names")]

use crate::place::Place;
use moye_device::algorithm::*;
use moye_device::arch::{AtomicAdd, overlap_launches, shuffle};
use moye_device::memory::Shared;
use moye_device::prelude::*;

/// Threads of a block.
pub const THREADS: u32 = 1024;
const GROUPS: u32 = THREADS / 4;
/// The number of group maxima that reach the threshold of candidates.
const REACHING: u32 = 128;
/// The most candidates.
const ROOM: u32 = 2048;

static_layout! {
    /// The maximum of each group, four to a vector.
    Maxima = layout!(64);
    /// Candidates.
    Found = layout!(2048);
    /// The number of candidates, and their threshold.
    Counts = layout!(2);
    /// The weight of each digit, by halves: (digit, half).
    Bins = layout!((256, 2));
    /// The digit found, and the weight still required of elements with it.
    Chosen = layout!(2);
    /// A value for each warp.
    Warps = layout!(32);
}

/// The rule by which an index is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, KernelParam)]
#[repr(C)]
pub struct Rule {
    /// The bits of the factor of logits, 1 / temperature; 0 for the greatest one.
    pub factor: u32,
    /// The greatest logits that may be drawn, with those equal to the last; 0 for all.
    pub top_k: u32,
    /// The bits of the least probability of the set of greatest logits that may be drawn.
    pub top_p: u32,
    /// The bits of the least probability, relative to the greatest, of a logit that may be drawn.
    pub min_p: u32,
    /// The seed.
    pub seed: u64,
}

/// The sort key of a value: greater for a greater value, and 0 for NaN, which is never drawn.
#[inline(always)]
fn order(value: f32) -> u32 {
    let bits = (value + 0.0).to_bits();
    let key = if bits >> 31 == 1 { !bits } else { bits | 0x8000_0000 };
    if value.is_nan() { 0 } else { key }
}

/// The value of an order.
#[inline(always)]
fn value(order: u32) -> f32 {
    f32::from_bits(if order >> 31 == 1 { order & 0x7fff_ffff } else { !order })
}

/// 32 random bits for an element: splitmix64, Steele, Lea and Flood, "Fast splittable pseudorandom
/// number generators".
#[inline(always)]
pub fn random(seed: u64, row: u32, index: u32) -> u32 {
    let count = (u64::from(row) << 32 | u64::from(index)).wrapping_add(1);
    let mut z = seed.wrapping_add(count.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((z ^ z >> 31) >> 32) as u32
}

/// The score of an element of log2 probability `log`: the element of the greatest score is drawn
/// with its probability, by the Gumbel-max trick in base 2.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
fn score(log: f32, bits: u32) -> f32 {
    let uniform = ((bits >> 9) as f32 + 0.5) * (1.0 / 8_388_608.0);
    log - math::log2(-math::log2(uniform))
}

/// The elements of a row, and the candidates among them.
#[derive(Clone, Copy)]
struct Elements<T: Element> {
    x: Global<T>,
    stride: i64,
    part: RowPart,
    found: SharedTensor<u64, Found>,
    /// The number of candidates, and the sort key that all of them reach: the greatest key if there
    /// are too many.
    count: u32,
    least: u32,
    bins: SharedTensor<u32, Bins>,
    chosen: SharedTensor<u64, Chosen>,
}

impl<T: Element + Convert<f32>> Elements<T> {
    /// Calls `f` with the order and the index of each of the thread's elements that reach `least`.
    ///
    /// # Safety
    /// The row is readable.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn reaching(self, least: u32, mut f: impl FnMut(u32, u32)) {
        // SAFETY: the row is readable, and candidates below the count are written.
        unsafe {
            if least >= self.least {
                let mut i = self.part.part;
                while i < self.count {
                    let candidate = self.found.get(i as usize);
                    if (candidate >> 32) as u32 >= least {
                        f((candidate >> 32) as u32, candidate as u32);
                    }
                    i += THREADS;
                }
            } else {
                // Few vectors reach the bound. Comparisons with NaN are false, so that a bound or
                // a maximum that is NaN excludes no vector.
                let bound = value(least);
                self.part.for_each_of::<T, 2>(self.x, self.stride, |values, at| {
                    if Max::of(values, |i| i) < bound {
                        return;
                    }
                    for (&value, i) in values.iter().zip(at..) {
                        if order(value) >= least {
                            f(order(value), i);
                        }
                    }
                });
            }
        }
    }

    /// Adds to the weight of a digit, held as two 32-bit halves: 64-bit additions to shared memory
    /// are loops.
    ///
    /// # Safety
    /// The bins are written, and no thread reads them meanwhile.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn add(self, digit: u32, weight: u64) {
        let low = weight as u32;
        // SAFETY: the digit's words are in the bins, which were written.
        unsafe {
            let before = u32::atomic_add_shared(self.bins.address_of((digit, 0)), low);
            let high = (weight >> 32) as u32 + u32::from(before.checked_add(low).is_none());
            if high > 0 {
                u32::reduce_add_shared(self.bins.address_of((digit, 1)), high);
            }
        }
    }

    /// The greatest order, from `from` to `to`, whose elements at or above it weigh at least
    /// `enough` of the weight of all from `from` on. Returns `from` if their weight is less; no
    /// element is above `to`.
    ///
    /// # Safety
    /// The row is readable, and all threads of the block call it.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn select(
        self,
        from: u32,
        to: u32,
        enough: impl Fn(u64) -> u64,
        weight: impl Fn(u32) -> u64,
    ) -> u32 {
        let (thread, mut bins) = (self.part.part, self.bins);
        // Digits of the distance from `from`, the highest first: elements differ in their first.
        let mut shift = 32 - (to - from).leading_zeros();
        let (mut prefix, mut rest) = (0, None);
        // Values of 16 bits are f32 whose last 13 bits are equal.
        while shift > const { if T::BYTES == 4 { 0 } else { 13 } } {
            let digit = shift.min(8);
            shift -= digit;
            // SAFETY: all threads call it; bins are cleared before additions and reads.
            unsafe {
                if thread < 512 {
                    bins.set((thread % 256, thread / 256), 0);
                }
                sync_threads();
                let least = from + (prefix << digit << shift);
                self.reaching(least, |order, _| {
                    let place = (order - from) >> shift;
                    if place >> digit == prefix {
                        self.add(place & 255, weight(order));
                    }
                });
                sync_threads();
                if thread < 32 {
                    // A lane accumulates eight bins, the greatest digits first.
                    let bin =
                        |digit: u32| u64::from(bins.get((digit, 1))) << 32 | u64::from(bins.get((digit, 0)));
                    let mut digit = 255 - 8 * thread;
                    let mut sum = 0;
                    for i in 0..8 {
                        sum += bin(digit - i);
                    }
                    let reached = warp_scan(sum, |a, b| a + b);
                    let enough = rest.unwrap_or_else(|| enough(shuffle(FULL_WARP, reached, 31)));
                    let mut above = reached - sum;
                    if above < enough && enough <= reached {
                        let mut own = bin(digit);
                        while above + own < enough {
                            (above, digit) = (above + own, digit - 1);
                            own = bin(digit);
                        }
                        let mut found = self.chosen;
                        found.set(0usize, digit.into());
                        found.set(1usize, enough - above);
                    } else if thread == 31 && reached < enough {
                        let mut found = self.chosen;
                        found.set(0usize, u64::MAX);
                    }
                }
                sync_threads();
                let found = self.chosen.get(0usize);
                if found == u64::MAX {
                    return from;
                }
                (prefix, rest) = (prefix << digit | found as u32, Some(self.chosen.get(1usize)));
            }
        }
        from + (prefix << shift)
    }
}

/// The index of an element of each row of `n`, drawn with the probabilities of the softmax of the
/// scaled logits, or the first greatest one. `numbers` places the index of a row, on which its
/// draw depends; with `seeds`, whose address is 0 without, it depends on the row's seed instead.
/// Grid: `(rows, groups)`.
///
/// # Safety
/// `x` holds the rows, `indices` (i32, or i64 if `wide`) and `seeds`, if there are any, an element
/// for each; `indices` is disjoint from the others, and `n` is at least 1.
#[kernel(
    threads = THREADS,
    shared = (
        maxima: SharedArray<[u32; 4], Maxima>,
        found: SharedArray<u64, Found>,
        counts: SharedArray<u32, Counts>,
        scratch: SharedArray<u64, Warps>,
        bins: SharedArray<u32, Bins>,
        chosen: SharedArray<u64, Chosen>
    ),
    instances = sample<f32 | f16 | bf16>,
    table = SampleKernels
)]
pub unsafe fn sample<T: Element + Convert<f32>>(
    x: Global<T>,
    seeds: Global<i64>,
    indices: GlobalMut<i32>,
    wide: bool,
    n: u32,
    of_x: Place,
    of_seeds: Place,
    of_indices: Place,
    numbers: Place,
    rule: Rule,
) {
    overlap_launches();
    let (block, thread) = (block_idx(), thread_idx().x);
    let (mut seed, mut row) = (rule.seed, numbers.row(block.y, block.x) as u32);
    if seeds.address() != 0 {
        let own = seeds.read(of_seeds.row(block.y, block.x));
        (seed, row) = (seed.wrapping_add(own.cast_unsigned()), 0);
    }
    let part = RowPart { from: 0, to: n, part: thread, parts: THREADS };
    let x = x.offset(of_x.row(block.y, block.x));
    let stride = of_x.element;
    let mut elements = Elements { x, stride, part, found, count: 0, least: u32::MAX, bins, chosen };
    // An order and an index; pairs compare by greatest order, then by least index.
    let pair = |order: u32, index: u32| u64::from(order) << 32 | u64::from(!index);
    let larger = |a: u64, b: u64| if a > b { a } else { b };

    // The index is that of the greatest element's vector: one comparison per vector is enough.
    let mut own = 0;
    part.for_each_of::<T, 2>(x, stride, |values, at| {
        let max = values[1..].iter().fold(values[0], |max, &value| max.max(value));
        own = larger(own, pair(order(max), at));
    });
    let of_group = quad_reduce((own >> 32) as u32, |a, b| if a > b { a } else { b });
    let groups = Shared::<u32>::from_address(maxima.address_of(0usize));
    if thread.is_multiple_of(4) {
        groups.write(thread / 4, of_group);
    }
    let mut counts = counts;
    if thread == 0 {
        counts.set(0usize, 0);
    }
    let first = block_reduce(own, scratch, larger);
    let greatest = (first >> 32) as u32;
    let mut drawn = 0;
    if rule.factor != 0 {
        if thread < GROUPS {
            let own = groups.read(thread);
            let mut rank = 0;
            for vector in 0..GROUPS / 4 {
                for (other, at) in maxima.get(vector as usize).into_iter().zip(4 * vector..) {
                    rank += u32::from(other > own || other == own && at < thread);
                }
            }
            if rank == REACHING - 1 {
                counts.set(1usize, own);
            }
        }
        sync_threads();
        let reached = counts.get(1usize);
        elements.reaching(reached, |order, at| {
            let slot = u32::atomic_add_shared(counts.address_of(0usize), 1);
            if slot < ROOM {
                let mut found = found;
                found.set(slot as usize, u64::from(order) << 32 | u64::from(at));
            }
        });
        sync_threads();
        let count = counts.get(0usize);
        if count <= ROOM {
            (elements.count, elements.least) = (count, reached);
        }

        let factor = f32::from_bits(rule.factor) * core::f32::consts::LOG2_E;
        let log = |order: u32| (value(order) - value(greatest)) * factor;
        // Minus infinity and NaN, whose order is 0, are never drawn.
        let mut least = order(f32::MIN);
        if rule.top_k > 0 && rule.top_k < n {
            let from = if rule.top_k <= REACHING { reached } else { 0 };
            let kth = elements.select(from, greatest, |_| rule.top_k.into(), |_| 1);
            least = least.max(kth);
        }
        let min_p = f32::from_bits(rule.min_p);
        if min_p > 0.0 {
            least = least.max(order(value(greatest) + math::log2(min_p) / factor));
        }
        let top_p = f32::from_bits(rule.top_p);
        if top_p < 1.0 {
            // Probabilities as integer multiples of 2^-40 of the greatest: their sum does not
            // depend on order.
            let weight = |order: u32| (math::fast::exp2(log(order)) * 1_099_511_627_776.0) as u64;
            let enough = |all: u64| ((all as f32 * top_p) as u64).max(1);
            least = elements.select(least.min(greatest), greatest, enough, weight);
        }
        let mut own = 0;
        elements.reaching(least, |key, at| {
            own = larger(own, pair(order(score(log(key), random(seed, row, at))), at));
        });
        drawn = block_reduce(own, scratch, larger);
    }
    if thread == 0 {
        let (mut at, to) = (!(drawn as u32), of_indices.row(block.y, block.x));
        if drawn == 0 {
            // The first greatest element, also if all are minus infinity or NaN.
            at = !(first as u32);
            while at < n - 1 && order(x.read(i64::from(at) * stride).convert()) != greatest {
                at += 1;
            }
        }
        if wide {
            indices.cast::<i64>().write(to, i64::from(at));
        } else {
            indices.write(to, at as i32);
        }
    }
}
