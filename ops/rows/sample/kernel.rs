//! Sampling from logits: a block computes a row. All sums are of integers, and all choices depend
//! only on the elements, so that the result is the same in every run.
//!
//! The row is read three times, in any order and without a sort: for the greatest element, for the
//! weights of 2,040 bins of equal width in logits, and for the elements of one bin. The bin is
//! drawn with its probability, then an element of it by the Gumbel-max trick. Top-p ends in some
//! bin, which is part of the first draw: only if the draw hits it, its elements are collected in
//! shared memory, and their threshold is found by digits. If the draw hit an element below the
//! threshold, it is repeated without these elements.
//!
//! For top-k, the elements that reach the 128th greatest of the maxima of 256 groups are collected
//! in shared memory, and take the place of the row.
#![allow(non_snake_case, reason = "CuTe's names")]

use crate::place::Place;
use moye_device::algorithm::*;
use moye_device::arch::{AtomicAdd, Fma, opaque, overlap_launches};
use moye_device::memory::Shared;
use moye_device::prelude::*;

/// Threads of a block.
pub const THREADS: u32 = 1024;
const GROUPS: u32 = THREADS / 4;
/// The number of group maxima that reach the threshold of candidates.
const REACHING: u32 = 128;
/// The most candidates.
const ROOM: u32 = 2048;
/// Bins, two for each thread.
const BINS: u32 = 2 * THREADS;
/// The bits of a digit, which chooses a bin.
const DIGIT: u32 = BINS.trailing_zeros();
/// Bins of an octave, a factor of 2 between probabilities.
const OF_OCTAVE: u32 = 51;
/// Elements whose probability is below 2^-40 of the greatest are not drawn.
const OCTAVES: u32 = 40;
const _: () = assert!(OF_OCTAVE * OCTAVES < BINS);
/// The weight of the middle of a bin.
const UNIT: f32 = 1_048_576.0;
/// f32 from here on are integers: `x + INTEGERS` rounds `x`.
const INTEGERS: f32 = 8_388_608.0;

static_layout! {
    /// The maximum of each group, four to a vector.
    Maxima = layout!(64);
    /// Candidates.
    Found = layout!(2048);
    /// The number of candidates, and their threshold.
    Counts = layout!(2);
    /// The weight of each bin, by halves: (bin, half).
    Bins = layout!((2048, 2));
    /// The fields of a [`Bin`], and the weight of all bins.
    Chosen = layout!(4);
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

/// The index of the random bits by which a bin is drawn: no element has it.
pub const OF_BIN: u32 = u32::MAX;
/// The index of the random bits by which a bin is drawn again.
pub const OF_BIN_AGAIN: u32 = u32::MAX - 1;

/// The score of an element of log2 probability `log`: the element of the greatest score is drawn
/// with its probability, by the Gumbel-max trick in base 2.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
fn score(log: f32, bits: u32) -> f32 {
    let uniform = ((bits >> 9) as f32 + 0.5) * (1.0 / 8_388_608.0);
    log - math::log2(-math::log2(uniform))
}

/// Bins of elements by their distance from the greatest one: bin 0 has the greatest elements.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    greatest: f32,
    /// Bins of a unit of logits.
    bins: f32,
}

impl Scale {
    /// The bins of a row with this greatest element and factor of logits.
    #[inline(always)]
    #[must_use]
    pub fn new(greatest: f32, factor: f32) -> Self {
        Self { greatest, bins: factor * (core::f32::consts::LOG2_E * OF_OCTAVE as f32) }
    }

    /// The bin of an element, and the element's distance below the bin's middle, in bins.
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn place(self, value: f32) -> (u32, f32) {
        // The maximum of NaN, infinity minus infinity, and 0 is 0.
        let distance = (self.greatest - value).max(0.0);
        let rounded = distance.fma(self.bins, INTEGERS);
        (rounded.to_bits().wrapping_sub(INTEGERS.to_bits()), distance.fma(self.bins, INTEGERS - rounded))
    }

    /// The value `bins` bins below the greatest element.
    #[inline(always)]
    #[must_use]
    pub fn below(self, bins: f32) -> f32 {
        self.greatest - bins / self.bins
    }

    /// The least order of the elements that are drawn.
    #[inline(always)]
    fn least(self) -> u32 {
        // The next order, since the difference may have been rounded down.
        let below = order(self.below((OF_OCTAVE * OCTAVES) as f32)) + 1;
        below.max(order(f32::MIN)).min(order(self.greatest))
    }

    /// A bound below the elements of a bin.
    #[inline(always)]
    fn least_of(self, bin: u32) -> u32 {
        order(self.below(bin as f32 + 0.75))
    }

    /// A bound above the elements of a bin.
    #[inline(always)]
    fn most_of(self, bin: u32) -> u32 {
        order(self.below((bin as f32 - 0.75).max(0.0)))
    }
}

/// The logarithm to base 2 of a probability, relative to the middle of its bin.
#[inline(always)]
fn log_in_bin(distance: f32) -> f32 {
    distance * const { -1.0 / OF_OCTAVE as f32 }
}

/// The weight of an element of a bin, a multiple of `1 / UNIT` of that of the bin's middle: within
/// 2^-20, by the first terms of the exponential function.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
fn weight_in_bin(distance: f32) -> u32 {
    const LN: f32 = -core::f32::consts::LN_2 / OF_OCTAVE as f32;
    let terms = distance.fma(0.5 * LN * LN * UNIT, LN * UNIT);
    distance.fma(terms, INTEGERS + UNIT).to_bits().wrapping_sub(INTEGERS.to_bits())
}

/// The weight of the middle of a bin as `factor / 2^shift`, where that of the greatest element is
/// `UNIT`.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
fn of_bin(bin: u32) -> (u64, u32) {
    let factor = math::exp2(log_in_bin((bin % OF_OCTAVE) as f32)) * UNIT;
    ((factor + 0.5) as u64, bin / OF_OCTAVE)
}

/// A bin, the weight of the bins before it, and its own.
#[derive(Clone, Copy)]
struct Bin {
    index: u32,
    before: u64,
    own: u64,
}

/// The weights of a thread's two bins and of the bins before them, and of all bins.
#[derive(Clone, Copy)]
struct Sums {
    before: u64,
    own: [u64; 2],
    all: u64,
}

/// The elements of a row, and the candidates among them.
#[derive(Clone, Copy)]
struct Elements<T: Element> {
    x: Global<T>,
    stride: i64,
    part: RowPart,
    found: SharedTensor<u64, Found>,
    counts: SharedTensor<u32, Counts>,
    /// The number of candidates, and the least order that is looked up among them: the greatest
    /// order if there are too many.
    count: u32,
    least: u32,
    bins: SharedTensor<u32, Bins>,
    chosen: SharedTensor<u64, Chosen>,
    scratch: SharedTensor<u64, Warps>,
}

impl<T: Element + Convert<f32>> Elements<T> {
    /// Calls `f` with each of the thread's vectors that has elements of this order or above, and
    /// with the index of its first element. A candidate is a vector.
    ///
    /// # Safety
    /// The row is readable.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn reaching(self, least: u32, mut f: impl FnMut(&[f32], u32)) {
        // SAFETY: the row is readable, and candidates below the count are written.
        unsafe {
            if least >= self.least {
                let mut i = self.part.part;
                while i < self.count {
                    let candidate = self.found.get(i as usize);
                    f(&[value((candidate >> 32) as u32)], candidate as u32);
                    i += THREADS;
                }
            } else {
                // Comparisons with NaN are false: a maximum that is NaN excludes no vector.
                let bound = value(least);
                self.part.for_each_of::<T, 2>(self.x, self.stride, |values, at| {
                    if Max::of(values, |i| i) < bound {
                        return;
                    }
                    f(values, at);
                });
            }
        }
    }

    /// Collects the candidates: the elements of this order or above for which `is` holds.
    ///
    /// # Safety
    /// The row is readable, all threads of the block call it, and none looks up candidates.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn collect(&mut self, least: u32, is: impl Fn(f32) -> bool) {
        let (mut found, mut counts) = (self.found, self.counts);
        // SAFETY: each slot is written once; barriers separate writes and reads.
        unsafe {
            if self.part.part == 0 {
                counts.set(0usize, 0);
            }
            sync_threads();
            let bound = value(least);
            self.reaching(least, |values, at| {
                for (&value, at) in values.iter().zip(at..) {
                    if value >= bound && is(value) {
                        let slot = u32::atomic_add_shared(counts.address_of(0usize), 1);
                        if slot < ROOM {
                            found.set(slot as usize, u64::from(order(value)) << 32 | u64::from(at));
                        }
                    }
                }
            });
            sync_threads();
            let count = counts.get(0usize);
            (self.count, self.least) = if count <= ROOM { (count, least) } else { (0, u32::MAX) };
        }
    }

    /// The sums of weights in bins: `of` returns the bin and the weight of each element of this
    /// order or above, or any bin and 0, and `scaled` the weight of a bin from the sum of those of
    /// its elements.
    ///
    /// # Safety
    /// The row is readable, and all threads of the block call it.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn sums(
        self,
        least: u32,
        of: impl Fn(f32) -> (u32, u32),
        scaled: impl Fn(u32, u64) -> u64,
    ) -> Sums {
        let (first, mut bins, mut chosen) = (2 * self.part.part, self.bins, self.chosen);
        let bound = value(least);
        // SAFETY: bins are cleared before additions, which barriers separate from reads.
        unsafe {
            for i in 0..2 {
                bins.set((first + i, 0), 0);
                bins.set((first + i, 1), 0);
            }
            sync_threads();
            self.reaching(least, |values, _| {
                // A sum has two words, as 64-bit additions to shared memory are loops. Only the
                // additions to low words are conditional, and none waits for the result of an
                // earlier one.
                let (mut places, mut carried) = ([(0, 0, 0); 8], false);
                for ((place, weight, before), &value) in places.iter_mut().zip(values) {
                    let (bin, of_value) = of(value);
                    (*place, *weight) = (opaque(bin), opaque(of_value));
                    if value >= bound && *weight > 0 {
                        *before = u32::atomic_add_shared(bins.address_of((*place, 0)), *weight);
                    }
                }
                for (_, weight, before) in &mut places {
                    *before = opaque(*before);
                    carried |= before.checked_add(*weight).is_none();
                }
                if carried {
                    for &(place, weight, before) in &places {
                        if before.checked_add(weight).is_none() {
                            u32::reduce_add_shared(bins.address_of((place, 1)), 1);
                        }
                    }
                }
            });
            sync_threads();
            let own = [first, first + 1]
                .map(|bin| scaled(bin, u64::from(bins.get((bin, 1))) << 32 | u64::from(bins.get((bin, 0)))));
            let reached = block_scan(own[0] + own[1], self.scratch, |a, b| a + b);
            if first == BINS - 2 {
                chosen.set(3usize, reached);
            }
            sync_threads();
            Sums { before: reached - own[0] - own[1], own, all: chosen.get(3usize) }
        }
    }

    /// The bin with which the weight reaches `enough`, from 1 to the weight of all bins.
    ///
    /// # Safety
    /// All threads of the block call it.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn locate(self, sums: &Sums, enough: u64) -> Bin {
        let (mut chosen, mut before) = (self.chosen, sums.before);
        // SAFETY: one thread writes, and barriers separate it from all reads.
        unsafe {
            for i in 0..2 {
                let own = sums.own[i as usize];
                if before < enough && enough <= before + own {
                    chosen.set(0usize, (2 * self.part.part + i).into());
                    chosen.set(1usize, before);
                    chosen.set(2usize, own);
                }
                before += own;
            }
            sync_threads();
            let [index, before, own] = [0usize, 1, 2].map(|i| chosen.get(i));
            sync_threads();
            Bin { index: index as u32, before, own }
        }
    }

    /// The greatest order, from `from` to `to`, whose elements at or above it weigh `enough`, at
    /// least 1. Returns `from` if all weigh less. Elements of weight 0 may have any order.
    ///
    /// # Safety
    /// The row is readable, and all threads of the block call it.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn select(self, from: u32, to: u32, enough: u64, weight: impl Fn(f32) -> u32) -> u32 {
        // Digits of the distance from `from`, the highest first: elements differ in their first.
        let mut shift = 32 - (to - from).leading_zeros();
        let (mut prefix, mut rest) = (0, enough);
        // Values of 16 bits are f32 whose last 13 bits are equal.
        while shift > const { if T::BYTES == 4 { 0 } else { 13 } } {
            let digit = shift.min(DIGIT);
            shift -= digit;
            let mask = (1 << digit) - 1;
            let bin = |value: f32| {
                let place = order(value).wrapping_sub(from) >> shift;
                (mask - (place & mask), if place >> digit == prefix { weight(value) } else { 0 })
            };
            // SAFETY: all threads call it.
            unsafe {
                let sums = self.sums(from + (prefix << digit << shift), bin, |_, sum| sum);
                if sums.all < rest {
                    return from;
                }
                let found = self.locate(&sums, rest);
                (prefix, rest) = (prefix << digit | (mask - found.index), rest - found.before);
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
    let mut elements =
        Elements { x, stride, part, found, counts, count: 0, least: u32::MAX, bins, chosen, scratch };
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
    let first = block_reduce(own, scratch, larger);
    let greatest = (first >> 32) as u32;
    let mut drawn = 0;
    // Minus infinity and NaN, whose order is 0, are never drawn.
    if rule.factor != 0 && greatest >= order(f32::MIN) {
        let factor = f32::from_bits(rule.factor);
        let scale = Scale::new(value(greatest), factor);
        let mut least = scale.least();
        if rule.top_k > 0 && rule.top_k < n {
            let mut from = order(f32::MIN);
            if rule.top_k <= REACHING {
                if thread < GROUPS {
                    let own = groups.read(thread);
                    let mut rank = 0;
                    for vector in 0..GROUPS / 4 {
                        let others = maxima.get(vector as usize);
                        for (&other, at) in others.iter().zip(4 * vector..) {
                            rank += u32::from(other > own || other == own && at < thread);
                        }
                    }
                    if rank == REACHING - 1 {
                        let mut counts = counts;
                        counts.set(1usize, own);
                    }
                }
                sync_threads();
                from = from.max(counts.get(1usize));
                elements.collect(from, |_| true);
            }
            least = least.max(elements.select(from, greatest, rule.top_k.into(), |_| 1));
        }
        let min_p = f32::from_bits(rule.min_p);
        if min_p > 0.0 {
            let log = math::log2(min_p) / (factor * core::f32::consts::LOG2_E);
            least = least.max(order(value(greatest) + log));
        }

        let sums = elements.sums(
            least,
            |value| {
                let (bin, distance) = scale.place(value);
                (bin, weight_in_bin(distance))
            },
            |bin, sum| {
                let (factor, shift) = of_bin(bin);
                (sum * factor) >> shift
            },
        );
        let (top_p, mut enough, mut kept) = (f32::from_bits(rule.top_p), 0, sums.all);
        let mut last = Bin { index: BINS, before: 0, own: 0 };
        if top_p < 1.0 {
            enough = ((sums.all as f32 * top_p) as u64).clamp(1, sums.all);
            last = elements.locate(&sums, enough);
            kept = last.before + last.own;
        }
        let draw = |index: u32, weight: u64| {
            ((u128::from(weight) * u128::from(random(seed, row, index))) >> 32) as u64 + 1
        };
        let mut target = draw(OF_BIN, kept);
        let mut bin = elements.locate(&sums, target);
        if bin.index == last.index {
            let from = least.max(scale.least_of(last.index));
            // Candidates that have been collected for top-k are those of the whole row.
            let collected = from < elements.least;
            if collected {
                elements.collect(from, |value| scale.place(value).0 == last.index);
            }
            let weight = |value: f32| {
                let (bin, distance) = scale.place(value);
                if bin == last.index { weight_in_bin(distance) } else { 0 }
            };
            let (factor, shift) = of_bin(last.index);
            let rest = ((enough - last.before) << shift).div_ceil(factor);
            let to = scale.most_of(last.index).max(from);
            least = elements.select(from, to, rest, weight);
            let (mut own, bound) = (0u64, value(least));
            elements.reaching(least, |values, _| {
                for &value in values {
                    own += if value >= bound { weight(value).into() } else { 0 };
                }
            });
            kept = last.before + ((block_reduce(own, scratch, |a, b| a + b) * factor) >> shift);
            if target > kept {
                target = draw(OF_BIN_AGAIN, kept);
                bin = elements.locate(&sums, target);
            }
            if collected && bin.index != last.index {
                elements.least = u32::MAX;
            }
        }

        let mut own = 0;
        let least = least.max(scale.least_of(bin.index));
        let bound = value(least);
        elements.reaching(least, |values, at| {
            for (&value, at) in values.iter().zip(at..) {
                let (of, distance) = scale.place(value);
                if value >= bound && of == bin.index {
                    let score = score(log_in_bin(distance), random(seed, row, at));
                    own = larger(own, pair(order(score), at));
                }
            }
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
