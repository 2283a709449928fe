//! Reduces the results of the splits of the keys, in a separate kernel. On Hopper the last block of
//! a tile to arrive can reduce them instead.
//!
//! Load latency dominates the run time. A warp therefore issues several loads together, and where
//! rows are few the warps of a block share a row.
#![allow(non_snake_case, reason = "tensors have CuTe's names")]

use super::arguments::Arguments;
use super::config::Half;
use super::sequence::{Query, Sequence};
use super::softmax::RowSum;
use moye_device::arch::{
    FULL_WARP, Word, Word64x2, Word128, block_idx, lane_id, shuffle, shuffle_xor, sync_threads, thread_idx,
};
use moye_device::memory::{Element, SharedArray, SharedStorage};
use moye_device::{layout, static_layout};

/// Threads of a block.
pub const THREADS: u32 = 256;
const WARPS: u32 = THREADS / 32;

/// Splits whose maxima and sums a lane holds: 32 lanes cover the maximum of 128 splits.
const MOST_OF_LANE: usize = 4;
/// Splits whose results a warp loads together.
const TOGETHER: usize = 4;
/// Up to this many rows, each gets a whole block: that many blocks fill a GPU once.
const FEW_ROWS: u32 = 1024;
/// The largest head size of the values.
const MOST_COLUMNS: i64 = 256;

static_layout! {
    /// Partial results of the warps that share a row: (column, warp).
    pub SmemPartial = layout!((MOST_COLUMNS, { WARPS as i64 }));
}

/// Shared-memory storage of a block.
pub type CombineStorage = SharedArray<f32, SmemPartial>;

/// Rows per block, given `rows` in total: one shared by all its warps, or one per warp.
#[must_use]
pub const fn rows_of_block(rows: u32, splits: u32) -> u32 {
    if rows <= FEW_ROWS && splits > TOGETHER as u32 { 1 } else { WARPS }
}

/// Sums the splits' results in a fixed order, weighted by their maxima and sums.
///
/// # Safety
/// [`forward`](super::forward()) has run with the same arguments, more than one split and both
/// workspaces; `dv` is its number of value columns. The launch has `THREADS` threads and one block
/// per [`rows_of_block`] rows of the `batches * heads * q_length` rows. The kernel declares
/// `CombineStorage`.
#[inline(always)]
pub unsafe fn combine<T: Half>(arguments: &Arguments<T>, dv: u32) {
    let splits = arguments.splits;
    let warp = shuffle(FULL_WARP, thread_idx().x / 32, 0);
    let rows = arguments.batches * arguments.heads * arguments.q_length;
    let shared = rows_of_block(rows, splits) == 1;
    // The warp sums the splits `part`, `part + parts`, ... of its row.
    let (row, part, parts) =
        if shared { (block_idx().x, warp, WARPS) } else { (block_idx().x * WARPS + warp, 0, 1) };
    if row >= rows {
        return;
    }
    let (token, rest) = (row % arguments.q_length, row / arguments.q_length);
    let (head, batch) = (rest % arguments.heads, rest / arguments.heads);
    let sequence = Sequence::of(arguments, batch);
    if token < sequence.queries {
        let sSum = CombineStorage::take(); // (column, warp)
        let place = |warp: u32, column: u32| sSum.at((column, warp)).pointer().address();
        let warps = Share { part, parts };
        reduce_row::<T, T, TOGETHER>(arguments, dv, &sequence, Query { token, head }, warps, shared, place);
    }
}

/// The splits of a warp: `part`, `part + parts`, ...
#[derive(Clone, Copy)]
pub struct Share {
    pub part: u32,
    pub parts: u32,
}

/// Reduces the splits of a query to elements `O`. If warps `shared` the row, `place` returns the
/// address of a warp's columns in shared memory.
#[inline(always)]
pub unsafe fn reduce_row<T: Element, O: Half, const TOGETHER: usize>(
    arguments: &Arguments<T>,
    dv: u32,
    sequence: &Sequence,
    Query { token, head }: Query,
    Share { part, parts }: Share,
    shared: bool,
    place: impl Fn(u32, u32) -> u32,
) {
    let (splits, lane) = (arguments.splits, lane_id());
    let rows = arguments.batches * arguments.heads * arguments.q_length;
    let row = (sequence.batch * arguments.heads + head) * arguments.q_length + token;
    let of_split = i64::from(rows) * i64::from(dv);
    // Loads the warp's next `TOGETHER` splits, from its split number `first` on.
    let load = |first: u32, column: u32| {
        let of_row = i64::from(row) * i64::from(dv) + i64::from(column);
        let mut results = [Word128([0; 4]); TOGETHER];
        for i in 0..TOGETHER {
            let split = part + parts * (first + i as u32);
            if split < splits {
                let from = arguments.partial_o.offset(i64::from(split) * of_split + of_row);
                results[i] = Word128::load_global(from.address());
            }
        }
        results
    };
    // All lanes take part in the shuffles; lanes past the end are clamped to the last columns.
    let column_of = |first: u32| (first + 4 * lane).min(dv - 4);
    // These loads overlap the loads of maxima and sums.
    let mut loaded = load(0, column_of(0));
    // Each lane holds the maxima and sums of every 32nd split.
    let mut sums = [RowSum { max: f32::MIN, sum: 0.0 }; MOST_OF_LANE];
    for i in 0..MOST_OF_LANE {
        let split = 32 * i as u32 + lane;
        if split < splits {
            let from = i64::from(split) * i64::from(rows) + i64::from(row);
            let words = Word64x2::load_global(arguments.partial_sums.offset(2 * from).address()).0;
            sums[i] = RowSum { max: f32::from_bits(words[0]), sum: f32::from_bits(words[1]) };
        }
    }
    let maxima = sums.map(|sum| sum.merged_max());
    let mut max = maxima[0].max(maxima[1]).max(maxima[2].max(maxima[3]));
    for bit in 0..5 {
        max = max.max(shuffle_xor(FULL_WARP, max, 1 << bit));
    }
    let unit = arguments.unit();
    let weights = sums.map(|sum| sum.relative_to(max, unit));
    let mut total = (weights[0] + weights[1]) + (weights[2] + weights[3]);
    for bit in 0..5 {
        total += shuffle_xor(FULL_WARP, total, 1 << bit);
    }
    let sink = if arguments.sinks.address() == 0 { f32::NEG_INFINITY } else { arguments.sinks.read(head) };
    let (inverse, lse) = RowSum { max, sum: total }.finish(unit, sink);
    if part == 0 && lane == 0 && arguments.lse.address() != 0 {
        let strides = &arguments.stride_lse;
        let to = sequence.q_offset(strides, head) + i64::from(token) * strides.row;
        arguments.lse.write(to, lse);
    }
    let strides = &arguments.stride_o;
    let to = arguments.o.offset(sequence.q_offset(strides, head) + i64::from(token) * strides.row);
    let mut first = 0;
    while first < dv {
        let (column, exists) = (column_of(first), first + 4 * lane < dv);
        let mut results = [0.0f32; 4];
        let mut next = 0;
        loop {
            for i in 0..TOGETHER {
                let split = part + parts * (next + i as u32);
                // A run-time index would move the weights to local memory.
                let pair = if split < 64 { [weights[0], weights[1]] } else { [weights[2], weights[3]] };
                let weight = if split & 32 == 0 { pair[0] } else { pair[1] };
                let weight = shuffle(FULL_WARP, weight, split % 32) * inverse;
                for j in 0..4 {
                    results[j] += f32::from_bits(loaded[i].0[j]) * weight;
                }
            }
            next += TOGETHER as u32;
            if part + parts * next >= splits {
                break;
            }
            loaded = load(next, column);
        }
        first += 128;
        if first < dv {
            loaded = load(0, column_of(first));
        }
        if shared {
            if exists {
                Word128::store_shared(place(part, column), Word128(results.map(f32::to_bits)));
            }
            sync_threads();
            // The first warp reduces the results of all warps; no location is written twice.
            for other in 1..WARPS {
                let sums = Word128::load_shared(place(other, column)).0;
                for j in 0..4 {
                    results[j] += f32::from_bits(sums[j]);
                }
            }
        }
        let words = [O::pack(results[0], results[1]), O::pack(results[2], results[3])];
        if part == 0 && exists {
            Word64x2::store_global(to.offset(column).address(), Word64x2(words));
        }
    }
}
