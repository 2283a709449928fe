//! Attention of one new token of each sequence. A block rotates the queries that share a key-value
//! head, and the new key, appends key and value to the cache, and attends. No other kernel of a
//! layer accesses the cache.
//!
//! Long sequences are split among blocks; a block's keys are divided among warps and groups of
//! lanes, each with an online softmax. The last block to complete its split of a sequence's keys
//! combines the splits.
#![allow(non_snake_case, reason = "CuTe's names")]
#![allow(clippy::needless_range_loop, reason = "a loop over registers by index is unrolled")]

use super::parameters::{Places, Sizes, Tables, Tokens, Work};
use moye_device::algorithm::{LogSumExp, load_vector_if, store_vector_if};
use moye_device::arch::{AtomicAdd as _, fence_gpu, overlap_launches, shuffle_xor};
use moye_device::prelude::*;

/// The maximum number of query heads of a block.
pub const QUERIES: u32 = 4;
/// The elements of a head, and of its rotated part, are a multiple of this.
pub const VECTOR: u32 = 8;

/// Warps of a block of at most `queries` query heads. With one query head there are few blocks, and
/// registers for twice as many warps.
pub const fn warps(queries: usize) -> u32 {
    if queries == 1 { 16 } else { 8 }
}

/// Keys whose elements a lane loads together.
const KEYS: usize = 4;
/// Splits whose results a thread loads together.
const TOGETHER: usize = 8;

static_layout! {
    /// A lane's elements of a head: (vector, 1).
    Own = layout!((8, 1));
    /// A lane's elements and their partners in the rotation: (vector, 2).
    Pairs = layout!((8, 2));
    /// A lane's cosines or sines: (vector, vectors).
    Angles = layout!((4, 2));
    /// A lane's elements of several keys: (vector, key).
    OfKeys = layout!((8, { KEYS as i64 }));
    /// A lane's elements of the results: (vector, query).
    OfQueries<const QUERIES: usize> = layout!((8, QUERIES as i64));
    /// The results of all warps: (vector, lane, query, warp).
    Results<const LANES: i64, const QUERIES: usize> =
        layout!((8, LANES, QUERIES as i64, { warps(QUERIES) as i64 }));
    /// Maxima and sums of all warps: (maximum and sum, query, warp).
    Weights<const QUERIES: usize> = layout!((2, QUERIES as i64, { warps(QUERIES) as i64 }));
    /// Whether the block is the last one for its queries.
    Last = layout!(1);
}

/// A lane's elements, rotated with their partners by `angles`.
#[inline(always)]
fn rotated(
    rX: &Fragment<f16, Pairs>,
    adjacent: bool,
    is_first: bool,
    [cos, sin]: &[[f32; 8]; 2],
) -> [f32; 8] {
    let rX = rX.convert::<f32>(); // (vector, 2)
    let mut y = [0.0; 8];
    for i in 0..8 {
        let other = if adjacent { rX[i ^ 1] } else { rX[8 + i] };
        let (cos, sin) = if adjacent { (cos[i / 2], sin[i / 2]) } else { (cos[i], sin[i]) };
        let negative = if adjacent { i % 2 == 0 } else { is_first };
        y[i] = rX[i].fma(cos, if negative { -(other * sin) } else { other * sin });
    }
    y
}

/// Attends for the new token of each sequence. A cache row holds the keys and values of all heads;
/// there is one row for each slot. Grid: `(kv_heads * ceil(heads / kv_heads / queries), splits,
/// tokens)`.
///
/// # Safety
/// Queries, keys, values and `y` have the heads of each token, `y` row by row; the tables have the
/// tokens' positions, and the cache the slots of all pages. Vectors of 8 elements are aligned. A
/// head has at most `8 * LANES` elements, a block at most `QUERIES` query heads. No slot belongs to
/// two tokens, or to another sequence's pages.
#[kernel(
    threads = 32 * warps(QUERIES),
    shared = (
        results: SharedArray<f32, Results<LANES, QUERIES>>,
        weights: SharedArray<f32, Weights<QUERIES>>,
        last: SharedArray<u32, Last>
    ),
    instances = (
        attend_64_1<8, 1>,
        attend_64_4<8, 4>,
        attend_128_1<16, 1>,
        attend_128_4<16, 4>,
        attend_256_1<32, 1>,
        attend_256_4<32, 4>
    )
)]
pub unsafe fn attend<const LANES: i64, const QUERIES: usize>(
    tokens: Tokens,
    tables: Tables,
    places: Places,
    cache: GlobalMut<f16>,
    work: Work,
    y: GlobalMut<f16>,
    sizes: Sizes,
) {
    overlap_launches();
    let (block, thread) = (block_idx(), thread_idx().x);
    let (warp, lane) = (thread / 32, lane_id());
    let (part, slot) = (lane % LANES as u32, lane / LANES as u32);
    let Sizes { heads, kv_heads, head, .. } = sizes;
    let group = heads / kv_heads;
    let chunks = group.div_ceil(sizes.queries);
    let (kv_head, chunk) = (block.x / chunks, block.x % chunks);
    let queries = (group - chunk * sizes.queries).min(sizes.queries);
    let first_head = kv_head * group + chunk * sizes.queries;
    let (token, split) = (i64::from(block.z), block.y);

    let groups = const { 32 / LANES as u32 };
    // The splits take tiles of `tile` keys in turn; in a pass of the block a lane reads `KEYS`
    // keys.
    let (warps, threads) = const { (warps(QUERIES), 32 * warps(QUERIES)) };
    let pass = warps * KEYS as u32 * groups;
    let first_key = |tile: u32, at: u32| tile * sizes.tile + at + warp * KEYS as u32 * groups + slot;
    let pages = places.pages.offset(token * i64::from(places.pages_of_row));
    let numbers = |tile: u32, at: u32| {
        let mut numbers = [0; KEYS];
        for i in 0..KEYS {
            let page = (first_key(tile, at) + i as u32 * groups) >> places.page_bits;
            numbers[i] = pages.offset(page).read_if(page < places.pages_of_row) as u32;
        }
        numbers
    };
    // Independent loads come first: a dependent address waits for all loads issued before it.
    let first_pages = numbers(split, 0);
    let length = places.lengths.read(token) as u32;
    let position = i64::from(places.positions.read(token));
    let to = places.slots.read(token);
    let (element, half) = (8 * part, tables.rotated / 2);
    let (inside, is_first) = (element < head, element < half);
    let turns = inside && element < tables.rotated;
    let partner = if is_first { element + half } else { element.wrapping_sub(half) };
    let load = |row: Global<f16>, head_of: u32, exists: bool| {
        let (from, mut rX) = (row.offset(i64::from(head_of * head)), Fragment::<f16, Pairs>::zeros());
        load_vector_if(exists && inside, from.offset(element), &mut rX, 0);
        load_vector_if(exists && turns && !tables.adjacent, from.offset(partner), &mut rX, 8);
        rX // (vector, 2)
    };
    let of_q = tokens.q.offset(token * tokens.q_row);
    let loaded: [_; QUERIES] =
        core::array::from_fn(|i| load(of_q, first_head + i as u32, (i as u32) < queries));
    let loaded_key = load(tokens.k.offset(token * tokens.k_row), kv_head, true);
    let mut new_value = Fragment::<f16, Own>::zeros(); // (vector, 1)
    let column = i64::from(kv_head * head + element);
    load_vector_if(inside, tokens.v.offset(token * tokens.v_row + column), &mut new_value, 0);

    // The number of splits with keys.
    let splits = length.div_ceil(sizes.tile).clamp(1, sizes.splits);
    if split >= splits {
        return;
    }
    let of_kv = i64::from(kv_heads * head);
    let row_of = |slot: i64| slot * 2 * of_kv + column;
    // The new token is not read from the cache, because another thread may be writing it.
    let exists = |tile: u32, at: u32, i: usize| {
        let key = first_key(tile, at) + i as u32 * groups;
        (key < length && key < (tile + 1) * sizes.tile, key)
    };
    let load_keys = |tile: u32, at: u32, numbers: [u32; KEYS]| {
        let mut rK = Fragment::<f16, OfKeys>::zeros(); // (vector, key)
        let mut rV = Fragment::<f16, OfKeys>::zeros(); // (vector, key)
        for i in 0..KEYS {
            let (exists, key) = exists(tile, at, i);
            let in_page = key & ((1 << places.page_bits) - 1);
            let from = cache.as_const().offset(row_of(((numbers[i] << places.page_bits) | in_page).into()));
            let cached = exists && inside && key + 1 != length;
            load_vector_if(cached, from, &mut rK, 8 * i);
            load_vector_if(cached, from.offset(of_kv), &mut rV, 8 * i);
        }
        (rK, rV)
    };
    let step = |tile: u32, at: u32| {
        if at + pass < sizes.tile { (tile, at + pass) } else { (tile + splits, 0) }
    };
    let (mut tile, mut at) = (split, 0);
    let mut keys = load_keys(tile, at, first_pages);
    let mut next = step(tile, at);
    let mut next_pages = numbers(next.0, next.1);

    let pair = if tables.adjacent { element / 2 } else { element.min(partner) };
    let angle = position * i64::from(half) + i64::from(pair);
    let angles_of = |table: Global<f32>, fixed: f32| {
        let (mut rA, mut angles) = (Fragment::<f32, Angles>::zeros(), [fixed; 8]); // (vector, vectors)
        load_vector_if(turns, table.offset(angle), &mut rA, 0);
        load_vector_if(turns && !tables.adjacent, table.offset(angle + 4), &mut rA, 4);
        for i in 0..8 {
            angles[i] = if turns { rA[i] } else { fixed };
        }
        angles
    };
    let angles = [angles_of(tables.cos, 1.0), angles_of(tables.sin, 0.0)];
    let adjacent = tables.adjacent;
    let q = loaded.map(|rX| rotated(&rX, adjacent, is_first, &angles).map(|x| x * sizes.scale));
    let key = rotated(&loaded_key, adjacent, is_first, &angles);
    let mut rNew = Fragment::<f32, Own>::zeros(); // (vector, 1)
    for i in 0..8 {
        rNew[i] = key[i];
    }
    let new_key = rNew.convert::<f16>(); // (vector, 1), rounded as in the cache
    // The split with the last key appends the new one.
    let is_last = length > 0 && (length.wrapping_sub(1) / sizes.tile) % splits == split;
    let appends = is_last && chunk == 0 && thread < LANES as u32 && to >= 0 && inside;
    store_vector_if(appends, cache.offset(row_of(to.into())), &new_key, 0);
    store_vector_if(appends, cache.offset(row_of(to.into()) + of_kv), &new_value, 0);

    let mut max = [f32::NEG_INFINITY; QUERIES];
    let mut sum = [0.0f32; QUERIES];
    let mut tOrO = Fragment::<f32, OfQueries<QUERIES>>::zeros(); // (vector, query)
    while tile * sizes.tile < length {
        let (mut rK, mut rV) = keys;
        let mut present = [false; KEYS];
        for i in 0..KEYS {
            let (exists, key) = exists(tile, at, i);
            let is_new = key + 1 == length;
            present[i] = exists;
            for j in 0..8 {
                rK[8 * i + j] = if is_new { new_key[j] } else { rK[8 * i + j] };
                rV[8 * i + j] = if is_new { new_value[j] } else { rV[8 * i + j] };
            }
        }
        // Load the keys of the next pass while this pass uses the current ones.
        (tile, at) = next;
        keys = load_keys(tile, at, next_pages);
        next = step(tile, at);
        next_pages = numbers(next.0, next.1);
        let (rK, rV) = (rK.convert::<f32>(), rV.convert::<f32>());
        for query in 0..QUERIES {
            if query as u32 >= queries {
                continue;
            }
            let mut scores = [0.0f32; KEYS];
            for i in 0..KEYS {
                for j in 0..8 {
                    scores[i] = q[query][j].fma(rK[8 * i + j], scores[i]);
                }
            }
            let mut lanes = LANES as u32 / 2;
            while lanes > 0 {
                let others = shuffle_xor(FULL_WARP, scores, lanes);
                for i in 0..KEYS {
                    scores[i] += others[i];
                }
                lanes /= 2;
            }
            let mut greatest = max[query];
            for i in 0..KEYS {
                scores[i] = if present[i] { scores[i] } else { f32::NEG_INFINITY };
                greatest = greatest.max(scores[i]);
            }
            let less = LogSumExp::base(greatest);
            let factor = math::fast::exp2(max[query] - less);
            (max[query], sum[query]) = (greatest, sum[query] * factor);
            for j in 0..8 {
                tOrO[8 * query + j] *= factor;
            }
            for i in 0..KEYS {
                let weight = math::fast::exp2(scores[i] - less);
                sum[query] += weight;
                for j in 0..8 {
                    tOrO[8 * query + j] = weight.fma(rV[8 * i + j], tOrO[8 * query + j]);
                }
            }
        }
    }

    // Reduce over the groups of lanes of a warp, then over the warps.
    for query in 0..QUERIES {
        let mut lanes = LANES as u32;
        while lanes < 32 {
            let [other_max, other_sum] = shuffle_xor(FULL_WARP, [max[query], sum[query]], lanes);
            let greatest = max[query].max(other_max);
            let less = LogSumExp::base(greatest);
            let (own, other) = (math::fast::exp2(max[query] - less), math::fast::exp2(other_max - less));
            (max[query], sum[query]) = (greatest, sum[query] * own + other_sum * other);
            for j in 0..8 {
                let value = tOrO[8 * query + j];
                tOrO[8 * query + j] = value * own + shuffle_xor(FULL_WARP, value, lanes) * other;
            }
            lanes *= 2;
        }
        if slot == 0 {
            copy(&tOrO.at((.., query)), &mut results.at((.., part, query, warp)));
        }
        if lane == 0 {
            let mut weights = weights;
            weights.set((0u32, query, warp), max[query]);
            weights.set((1u32, query, warp), sum[query]);
        }
    }
    sync_threads();

    // The elements of the block's results that this thread computes.
    let columns = const { 8 * LANES as u32 };
    let elements = || {
        let all = (thread..queries * columns).step_by(threads as usize);
        all.map(|i| (i / columns, i % columns)).filter(|&(_, element)| element < head)
    };
    let result = |query: u32, element: u32| {
        y.offset(token * i64::from(heads * head) + i64::from((first_head + query) * head + element))
    };
    let number = token * i64::from(grid_dim().x) + i64::from(block.x);
    // The offset of a split's results, maximum and sum for a query.
    let partial = |split: u32, query: u32| {
        let row = (number * i64::from(sizes.splits) + i64::from(split)) * QUERIES as i64;
        work.partials.offset((row + i64::from(query)) * i64::from(head + 2))
    };
    for (query, element) in elements() {
        let mut greatest = f32::NEG_INFINITY;
        for warp in 0..warps {
            greatest = greatest.max(weights.get((0u32, query, warp)));
        }
        let (less, mut sum, mut value) = (LogSumExp::base(greatest), 0.0f32, 0.0f32);
        for warp in 0..warps {
            let factor = math::fast::exp2(weights.get((0u32, query, warp)) - less);
            sum = weights.get((1u32, query, warp)).fma(factor, sum);
            value = results.get((element % 8, element / 8, query, warp)).fma(factor, value);
        }
        if splits == 1 {
            result(query, element).write(0, quotient(value, sum).convert());
        } else {
            let to = partial(split, query);
            to.write(element, value);
            if element == 0 {
                to.write(head, greatest);
                to.write(head + 1, sum);
            }
        }
    }
    if splits == 1 {
        return;
    }
    sync_threads();
    if thread == 0 {
        let (counter, mut last) = (work.counters.offset(number), last);
        fence_gpu();
        let arrived = u32::atomic_add_global(counter.address(), 1);
        fence_gpu();
        if arrived == splits - 1 {
            counter.write(0, 0);
        }
        last.set(0usize, u32::from(arrived == splits - 1));
    }
    sync_threads();
    if last.get(0usize) == 0 {
        return;
    }
    for (query, element) in elements() {
        let (mut max, mut sum, mut value, mut split) = (f32::NEG_INFINITY, 0.0f32, 0.0f32, 0);
        while split < splits {
            let (mut maxima, mut sums, mut values) = ([0.0; TOGETHER], [0.0; TOGETHER], [0.0; TOGETHER]);
            for i in 0..TOGETHER {
                let (from, exists) = (partial(split + i as u32, query), split + (i as u32) < splits);
                values[i] = from.offset(element).read_if(exists);
                maxima[i] = from.offset(head).read_if(exists);
                sums[i] = from.offset(i64::from(head) + 1).read_if(exists);
            }
            let mut greatest = max;
            for i in 0..TOGETHER {
                maxima[i] = if split + (i as u32) < splits { maxima[i] } else { f32::NEG_INFINITY };
                greatest = greatest.max(maxima[i]);
            }
            let less = LogSumExp::base(greatest);
            let factor = math::fast::exp2(max - less);
            (max, sum, value) = (greatest, sum * factor, value * factor);
            for i in 0..TOGETHER {
                let factor = math::fast::exp2(maxima[i] - less);
                (sum, value) = (sums[i].fma(factor, sum), values[i].fma(factor, value));
            }
            split += TOGETHER as u32;
        }
        result(query, element).write(0, quotient(value, sum).convert());
    }
}

/// `value / sum`, or 0 without keys.
#[inline(always)]
fn quotient(value: f32, sum: f32) -> f32 {
    if sum == 0.0 { 0.0 } else { value * math::fast::rcp(sum) }
}
