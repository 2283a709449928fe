//! Reduces the results of the splits of the keys.

use super::arguments::Arguments;
use super::config::Half;
use super::sequence::Sequence;
use super::softmax::normalizer;
use moye_device::arch::{
    FULL_WARP, Word, Word64x2, Word128, block_idx, ex2_approx_f32, shuffle, shuffle_xor, thread_idx,
};

/// Threads of a block: a warp for each row.
pub const THREADS: u32 = 128;

/// Splits of which a lane has the logarithms; 32 lanes have those of the most splits that there
/// are, 128.
const MOST_OF_LANE: usize = 4;
/// Splits whose results are loaded together.
const TOGETHER: usize = 4;

/// One row a warp: the splits' results with the weights that the logarithms of their sums give, in
/// the order of the splits.
///
/// # Safety
/// [`forward`](super::forward()) has run with the same arguments, more than one split and both
/// workspaces; `dv` is its number of value columns. The launch has `THREADS` threads and a block
/// for each 4 rows of `batches * heads * q_length`.
#[inline(always)]
pub unsafe fn combine<T: Half>(arguments: &Arguments<T>, dv: u32) {
    const LOG2_E: f32 = core::f32::consts::LOG2_E;
    let row = block_idx().x * (THREADS / 32) + thread_idx().x / 32;
    let lane = thread_idx().x % 32;
    let rows = arguments.batches * arguments.heads * arguments.q_length;
    if row >= rows {
        return;
    }
    let (token, rest) = (row % arguments.q_length, row / arguments.q_length);
    let (head, batch) = (rest % arguments.heads, rest / arguments.heads);
    let sequence = Sequence::of(arguments, batch);
    if token >= sequence.queries {
        return;
    }
    // Each lane has the logarithms of every 32nd split, so that their loads run together.
    let splits = arguments.splits;
    let mut weights = [f32::NEG_INFINITY; MOST_OF_LANE];
    for i in 0..MOST_OF_LANE {
        let split = 32 * i as u32 + lane;
        if split < splits {
            let from = i64::from(split) * i64::from(rows) + i64::from(row);
            weights[i] = arguments.partial_lse.as_const().read(from);
        }
    }
    let mut max = weights[0].max(weights[1]).max(weights[2].max(weights[3]));
    for step in [1, 2, 4, 8, 16] {
        max = max.max(shuffle_xor(FULL_WARP, max, step));
    }
    let shift = if max == f32::NEG_INFINITY { 0.0 } else { max * LOG2_E };
    let weights = weights.map(|lse| ex2_approx_f32(lse * LOG2_E - shift));
    let mut total = (weights[0] + weights[1]) + (weights[2] + weights[3]);
    for step in [1, 2, 4, 8, 16] {
        total += shuffle_xor(FULL_WARP, total, step);
    }
    let (inverse, sum) = normalizer(shift, total, f32::NEG_INFINITY);
    if lane == 0 && arguments.lse.address() != 0 {
        let strides = &arguments.stride_lse;
        let to = sequence.q_offset(strides, head) + i64::from(token) * strides.row;
        arguments.lse.write(to, sum);
    }
    let strides = &arguments.stride_o;
    let to = arguments.o.offset(sequence.q_offset(strides, head) + i64::from(token) * strides.row);
    let of_split = i64::from(rows) * i64::from(dv);
    let mut first_column = 0;
    while first_column < dv {
        // All lanes shuffle; those beyond the last column read what the last ones do.
        let column = (first_column + 4 * lane).min(dv - 4);
        let mut from =
            arguments.partial_o.offset(i64::from(row) * i64::from(dv) + i64::from(column)).address();
        let mut results = [0.0f32; 4];
        for i in 0..MOST_OF_LANE {
            let (mut split, end) = (32 * i as u32, (32 * i as u32 + 32).min(splits));
            while split < end {
                // Several loads run together.
                let mut parts = [Word128([0; 4]); TOGETHER];
                for part in 0..TOGETHER {
                    if split + (part as u32) < end {
                        parts[part] = Word128::load_global(from);
                        from += 4 * of_split as u64;
                    }
                }
                for part in 0..TOGETHER {
                    let weight = shuffle(FULL_WARP, weights[i], (split + part as u32) % 32);
                    if split + (part as u32) < end {
                        for j in 0..4 {
                            results[j] += f32::from_bits(parts[part].0[j]) * (weight * inverse);
                        }
                    }
                }
                split += TOGETHER as u32;
            }
        }
        let words = [T::pack_word(results[0], results[1]), T::pack_word(results[2], results[3])];
        if first_column + 4 * lane < dv {
            Word64x2::store_global(to.offset(column.into()).address(), Word64x2(words));
        }
        first_column += 128;
    }
}
