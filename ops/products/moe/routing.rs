//! Permutes rows into the order of the experts that a router's logits choose, and back. All orders
//! are fixed: the same logits give the same bits.
//!
//! In all kernels but two a block processes 32 tokens, a warp for each: `moe_scan` is one block,
//! and `moe_combine` has one block for each token.

use crate::operand::Place;
use moye_device::arch::{
    AtomicAdd as _, Word as _, Word128, overlap_launches, reduce_max, reduce_min, shuffle,
};
use moye_device::collective::Paired;
use moye_device::prelude::*;

/// Threads of a block.
pub const THREADS: u32 = 1024;
/// Tokens of a block: one for each warp.
pub const TOKENS: u32 = THREADS / 32;
/// The most experts: 16 for each lane.
pub const MOST_EXPERTS: u32 = 512;
/// The most experts of a token: one for each lane.
pub const MOST_CHOICES: u32 = 32;
/// Threads of a block of `moe_combine`.
pub const COMBINE_THREADS: u32 = 256;
/// Elements of a vector of 16 bytes.
const VECTOR: u32 = 8;
/// Vectors that a thread loads before it stores.
const AT_ONCE: usize = 4;

static_layout! {
    /// A word for each expert.
    Experts = layout!(MOST_EXPERTS as i64);
    /// A word for each choice of a block's tokens.
    Choices = layout!((TOKENS * MOST_CHOICES) as i64);
    /// A word for each warp.
    Warps = layout!(32);
}

/// The tokens and the router's choices, in the device's memory.
#[repr(C)]
#[derive(Clone, Copy, Debug, KernelParam)]
pub struct Routes {
    /// The expert of each choice: (tokens, top).
    pub choices: GlobalMut<u32>,
    /// Its weight.
    pub weights: GlobalMut<f32>,
    /// Its row in the order of experts.
    pub places: GlobalMut<u32>,
    /// The number of choices of an expert by the tokens of a block, then by the tokens of all
    /// earlier blocks: (experts, blocks).
    pub counts: GlobalMut<u32>,
    /// The end of each expert's rows.
    pub ends: GlobalMut<i32>,
    /// Tokens.
    pub tokens: u32,
    /// Experts, at most [`MOST_EXPERTS`].
    pub experts: u32,
    /// Choices of a token, from 1 to [`MOST_CHOICES`].
    pub top: u32,
}

impl Routes {
    /// Blocks of 32 tokens.
    #[inline(always)]
    pub const fn blocks(&self) -> u32 {
        self.tokens.div_ceil(TOKENS)
    }

    /// The index of an expert's count of a block.
    #[inline(always)]
    const fn count_of(&self, expert: u32, block: u32) -> i64 {
        expert as i64 * self.blocks() as i64 + block as i64
    }
}

/// The weighting of choices.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, KernelParam)]
pub struct Weighting {
    /// By the softmax of the logits, instead of the logits as they are.
    pub softmax: bool,
    /// Divided by their sum.
    pub renormalise: bool,
}

/// A sort key: greater for a greater value, the greatest for NaN; never 0.
#[inline(always)]
fn order(value: f32) -> u32 {
    // -0 becomes 0.
    let bits = (value + 0.0).to_bits();
    let key = if bits >> 31 == 1 { !bits } else { bits | 0x8000_0000 };
    if value.is_nan() { u32::MAX } else { key }
}

/// The value of an [`order`].
#[inline(always)]
fn value(key: u32) -> f32 {
    f32::from_bits(if key >> 31 == 1 { key ^ 0x8000_0000 } else { !key })
}

/// The `top` greatest logits of each token in descending order (equal logits in the order of
/// experts), their weights, and the counts of a block. Grid: `blocks`.
///
/// # Safety
/// `logits` has the tokens' rows, and the pointers of `routes` have their elements, which overlap
/// nothing.
#[kernel(
    threads = THREADS,
    shared = (counts: SharedArray<u32, Experts>),
    instances = moe_route<f32 | f16 | bf16>,
    table = RouteKernels
)]
pub unsafe fn route<T: Element + Convert<f32>>(
    logits: Global<T>,
    of_logits: Place,
    routes: Routes,
    by: Weighting,
) {
    overlap_launches();
    let Routes { experts, top, .. } = routes;
    let (block, thread, lane) = (block_idx().x, thread_idx().x, lane_id());
    let mut counts = counts;
    if thread < experts {
        counts.set(thread, 0);
    }
    sync_threads();
    let token = block * TOKENS + thread / 32;
    if token < routes.tokens {
        let row = logits.offset(i64::from(token) * of_logits.row);
        // The sort key of expert `lane + 32 i`; 0 past `experts`, and once the expert is chosen.
        let mut keys = [0; 16];
        unroll!(for i in 0..16 {
            let expert = lane + 32 * i;
            let logit = row.offset(i64::from(expert) * of_logits.column).read_if(expert < experts);
            keys[i as usize] = if expert < experts { order(logit.convert()) } else { 0 };
        });
        let mut most = 0;
        unroll!(for i in 0..16 {
            most = keys[i].max(most);
        });
        let most = value(reduce_max(FULL_WARP, most));
        let mut total = 1.0;
        if by.softmax && !by.renormalise {
            let mut sum = 0.0;
            unroll!(for i in 0..16 {
                if keys[i] > 0 {
                    sum += math::exp(value(keys[i]) - most);
                }
            });
            total = warp_reduce(sum, |a, b| a + b);
        }
        // Lane `i` keeps choice `i`.
        let (mut chosen, mut key) = (0, 0);
        for choice in 0..top {
            let (mut best, mut at) = (0, 0);
            unroll!(for i in 0..16 {
                if keys[i as usize] > best {
                    (best, at) = (keys[i as usize], lane + 32 * i);
                }
            });
            let greatest = reduce_max(FULL_WARP, best);
            let expert = reduce_min(FULL_WARP, if best == greatest { at } else { u32::MAX });
            unroll!(for i in 0..16 {
                if lane + 32 * i == expert {
                    keys[i as usize] = 0;
                }
            });
            if lane == choice {
                (chosen, key) = (expert, greatest);
            }
        }
        let is_choice = lane < top;
        let mut weight = if by.softmax { math::exp(value(key) - most) } else { value(key) };
        if by.renormalise {
            total = warp_reduce(if is_choice { weight } else { 0.0 }, |a, b| a + b);
        }
        weight /= total;
        if is_choice {
            routes.choices.write(token * top + lane, chosen);
            routes.weights.write(token * top + lane, weight);
            u32::reduce_add_shared(counts.address_of(chosen), 1);
        }
    }
    sync_threads();
    if thread < experts {
        routes.counts.write(routes.count_of(thread, block), counts.get(thread));
    }
}

/// For each block the counts of all earlier blocks, and the ends of the experts' rows. One block.
///
/// # Safety
/// Same contract as [`route`], whose counts it reads.
#[kernel(
    threads = THREADS,
    shared = (totals: SharedArray<u32, Experts>, scratch: SharedArray<u32, Warps>)
)]
pub unsafe fn moe_scan(routes: Routes) {
    overlap_launches();
    let (thread, lane, blocks) = (thread_idx().x, lane_id(), routes.blocks());
    let mut totals = totals;
    let mut expert = thread / 32;
    while expert < routes.experts {
        let counts = routes.counts.offset(routes.count_of(expert, 0));
        let (mut before, mut first) = (0, 0);
        while first < blocks {
            let at = counts.offset(i64::from(first + lane));
            let count = at.read_if(first + lane < blocks);
            let sum = warp_scan(count, |a, b| a + b);
            at.write_if(first + lane < blocks, before + sum - count);
            before += shuffle(FULL_WARP, sum, 31);
            first += 32;
        }
        if lane == 0 {
            totals.set(expert, before);
        }
        expert += TOKENS;
    }
    sync_threads();
    let total = if thread < routes.experts { totals.get(thread) } else { 0 };
    let end = block_scan(total, scratch, |a, b| a + b);
    if thread < routes.experts {
        routes.ends.write(thread, end as i32);
    }
}

/// Copies each token's row of `hidden` elements to the rows of its choices, with zeros up to
/// `padded`. The choices of an expert are in the order of their tokens. Grid: `blocks`.
///
/// # Safety
/// Same contract as [`route`], whose choices it reads, and the counts and ends of [`moe_scan`]. `x`
/// has the tokens' rows, of whole vectors of 16 bytes if `aligned`, and `rows` has room for a row
/// of `padded` elements, a multiple of 8, of each choice.
#[kernel(
    threads = THREADS,
    shared = (choices: SharedArray<u32, Choices>, places: SharedArray<u32, Choices>)
)]
pub unsafe fn moe_permute(
    x: Global<u16>,
    of_x: Place,
    routes: Routes,
    rows: GlobalMut<u16>,
    hidden: u32,
    padded: u32,
    aligned: bool,
) {
    overlap_launches();
    let top = routes.top;
    let (block, thread, lane) = (block_idx().x, thread_idx().x, lane_id());
    let first = block * TOKENS;
    let here = (routes.tokens - first).min(TOKENS) * top;
    let (mut choices, mut places) = (choices, places);
    let expert = routes.choices.offset(i64::from(first * top + thread)).read_if(thread < here);
    if thread < here {
        choices.set(thread, expert);
    }
    sync_threads();
    if thread < here {
        let mut place = routes.counts.read(routes.count_of(expert, block));
        if expert > 0 {
            place += routes.ends.read(expert - 1) as u32;
        }
        for other in 0..thread {
            place += u32::from(choices.get(other) == expert);
        }
        places.set(thread, place);
        routes.places.write(first * top + thread, place);
    }
    sync_threads();
    let warp = thread / 32;
    if first + warp >= routes.tokens {
        return;
    }
    let row = x.offset(i64::from(first + warp) * of_x.row);
    if !aligned {
        let mut column = lane;
        while column < padded {
            let element = row.offset(i64::from(column) * of_x.column).read_if(column < hidden);
            for choice in 0..top {
                let place = i64::from(places.get(warp * top + choice));
                rows.write(place * i64::from(padded) + i64::from(column), element);
            }
            column += 32;
        }
        return;
    }
    let mut column = VECTOR * lane;
    while column < padded {
        let mut vectors = [Word128::ZERO; AT_ONCE];
        unroll!(for i in 0..4 {
            let at = column + i * 32 * VECTOR;
            vectors[i as usize] = Word128::load_global_if(at < padded, row.offset(at).address());
        });
        for choice in 0..top {
            let to = rows.offset(i64::from(places.get(warp * top + choice)) * i64::from(padded));
            unroll!(for i in 0..4 {
                let at = column + i * 32 * VECTOR;
                Word128::store_global_if(at < padded, to.offset(at).address(), vectors[i as usize]);
            });
        }
        column += AT_ONCE as u32 * 32 * VECTOR;
    }
}

/// The sum of the rows of each token's choices, times their weights, in their order. Grid:
/// `tokens`.
///
/// # Safety
/// `routes` has the weights and places of each choice, and `rows` its row of `padded` elements, a
/// multiple of 8. `out` has the tokens' rows of `hidden` elements, of whole vectors of 16 bytes if
/// `aligned`, and overlaps nothing.
#[kernel(threads = COMBINE_THREADS, instances = moe_combine<f16 | bf16>, table = CombineKernels)]
pub unsafe fn combine<T: Paired + Element<Bits = u16> + Convert<f32>>(
    rows: Global<T>,
    routes: Routes,
    out: GlobalMut<T>,
    of_out: Place,
    hidden: u32,
    padded: u32,
    aligned: bool,
) {
    overlap_launches();
    let (token, top) = (block_idx().x, routes.top);
    let out = out.offset(i64::from(token) * of_out.row);
    let mut column = VECTOR * thread_idx().x;
    while column < padded {
        let mut sums = [0.0; VECTOR as usize];
        let mut choice = 0;
        while choice < top {
            let (mut vectors, mut weights) = ([Word128::ZERO; AT_ONCE], [0.0; AT_ONCE]);
            unroll!(for i in 0..4 {
                let (at, exists) = (i64::from(token * top + choice + i), choice + i < top);
                let place = routes.places.offset(at).read_if(exists);
                weights[i as usize] = routes.weights.offset(at).read_if(exists);
                let from = rows.offset(i64::from(place) * i64::from(padded) + i64::from(column));
                vectors[i as usize] = Word128::load_global_if(exists, from.address());
            });
            unroll!(for i in 0..4 {
                let (Word128(words), weight) = (vectors[i as usize], weights[i as usize]);
                if choice + i < top {
                    unroll!(for j in 0..4 {
                        sums[2 * j] = T::from_bits(words[j] as u16).convert().fma(weight, sums[2 * j]);
                        let high = T::from_bits((words[j] >> 16) as u16).convert();
                        sums[2 * j + 1] = high.fma(weight, sums[2 * j + 1]);
                    });
                }
            });
            choice += AT_ONCE as u32;
        }
        let mut words = [0; 4];
        unroll!(for j in 0..4 {
            words[j] = T::pair(sums[2 * j], sums[2 * j + 1]) as u32;
        });
        if aligned {
            Word128::store_global(out.offset(column).address(), Word128(words));
        } else {
            unroll!(for j in 0..8 {
                let to = out.offset(i64::from(column + j) * of_out.column);
                let bits = (words[j as usize / 2] >> (16 * (j % 2))) as u16;
                to.cast::<u16>().write_if(column + j < hidden, bits);
            });
        }
        column += VECTOR * COMBINE_THREADS;
    }
}
