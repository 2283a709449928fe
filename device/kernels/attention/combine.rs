//! Reduces the results of the splits of the keys.

use super::arguments::Arguments;
use super::config::Half;
use super::sequence::Sequence;
use super::softmax::normalizer;
use moye_device::arch::{Word, Word64x2, Word128, block_idx, ex2_approx_f32, thread_idx};

/// Threads of a block: a warp for each row.
pub const THREADS: u32 = 128;

/// One row a warp: the splits' results with the weights that the logarithms of their sums give, in the order of the splits.
///
/// # Safety
/// [`forward`](super::forward()) has run with the same arguments, more than one split and both workspaces; `dv` is its number of value
/// columns. The launch has `THREADS` threads and a block for each 4 rows of `batches * heads * q_length`.
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
    // SAFETY: the caller's contract.
    unsafe {
        let sequence = Sequence::of(arguments, batch);
        if token >= sequence.queries {
            return;
        }
        let lse = |split: u32| {
            arguments.partial_lse.as_const().read(i64::from(split) * i64::from(rows) + i64::from(row))
        };
        let mut max = f32::NEG_INFINITY;
        for split in 0..arguments.splits {
            max = max.max(lse(split));
        }
        let shift = if max == f32::NEG_INFINITY { 0.0 } else { max * LOG2_E };
        let mut total = 0.0;
        for split in 0..arguments.splits {
            total += ex2_approx_f32(lse(split) * LOG2_E - shift);
        }
        let (inverse, sum) = normalizer(shift, total, f32::NEG_INFINITY);
        if lane == 0 && arguments.lse.address() != 0 {
            let strides = &arguments.stride_lse;
            let to = sequence.q_offset(strides, head) + i64::from(token) * strides.row;
            arguments.lse.write(to, sum);
        }
        let strides = &arguments.stride_o;
        let to = arguments.o.offset(sequence.q_offset(strides, head) + i64::from(token) * strides.row);
        let mut column = 4 * lane;
        while column < dv {
            let mut results = [0.0f32; 4];
            for split in 0..arguments.splits {
                let from =
                    (i64::from(split) * i64::from(rows) + i64::from(row)) * i64::from(dv) + i64::from(column);
                let word = Word128::load_global(arguments.partial_o.offset(from).address());
                let weight = ex2_approx_f32(lse(split) * LOG2_E - shift) * inverse;
                for i in 0..4 {
                    results[i] += f32::from_bits(word.0[i]) * weight;
                }
            }
            let words = [T::pack_word(results[0], results[1]), T::pack_word(results[2], results[3])];
            Word64x2::store_global(to.offset(column.into()).address(), Word64x2(words));
            column += 128;
        }
    }
}
