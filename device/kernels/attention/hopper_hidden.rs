//! Rows of results that a value which is no number has reached through a hidden row of V: `0 * NaN`
//! must not come through.
//!
//! Tensor cores multiply every row of a tile of V. Where a mask hides some of a tile's rows, a row
//! of results that is not finite is computed once more, key by key from global memory, over the
//! keys that its query sees.

use super::arguments::{Arguments, Strides, Window};
use super::config::Half;
use super::hopper_config::{Config, SmemQ, WARPGROUP};
use super::schedule::Work;
use super::sequence::Visible;
use super::softmax::at;
use moye_device::arch::{
    FULL_WARP, Fma, ballot, ex2_approx_f32, lane_id, opaque, shuffle_xor, thread_idx, vote_any,
};
use moye_device::memory::{Element, Global};
use moye_device::tensor::{AllButLast, Fragment, SharedTensor, StaticLayout};

/// One of a thread's two rows of results, which the four threads of a quad share.
#[derive(Clone, Copy)]
pub struct Row {
    /// The natural logarithm of its sum of exponentials.
    pub lse: f32,
    /// Whether it is to be computed again.
    pub again: bool,
}

/// Whether a row of results has to be computed again: a mask hides keys, and the row is not finite.
/// `index` is 0 or 1.
///
/// # Safety
/// All lanes of the warp execute this call together.
#[inline(always)]
pub unsafe fn is_hit<L: StaticLayout>(results: &Fragment<f32, L>, index: usize, window: Window) -> bool {
    if window == Window::ALL {
        return false;
    }
    let mut nothing = 0.0f32;
    for column in 0..const { L::LAYOUT.size() as usize / 2 } {
        // SAFETY: inside the fragment. What is not finite makes NaN of 0.
        nothing = unsafe { results.get(at(2, index, column)) }.fma(0.0, nothing);
    }
    ballot(FULL_WARP, nothing != 0.0) >> (lane_id() & !3) & 15 != 0
}

/// Columns that are computed at a time: few registers, since this seldom runs.
const COLUMNS: usize = 32;

/// Computes a thread's row `index`, 0 or 1, again where that is said, into the warpgroup's tile in
/// shared memory, whose first row is query token `first`.
///
/// # Safety
/// The operands of `arguments` may be read, by their strides; no other warp touches the rows of the
/// tile. All lanes of the warp execute this call together.
#[inline(always)]
pub unsafe fn recompute<C: Config<T: Half>>(
    results: SharedTensor<C::T, AllButLast<SmemQ<C>>>,
    (index, row): (u32, Row),
    arguments: &Arguments<C::T>,
    work: &Work,
    first: u32,
) {
    if !vote_any(FULL_WARP, row.again) {
        return;
    }
    // What seldom runs keeps no register alive elsewhere: it computes all that it needs of the
    // arguments.
    let q_length = opaque(arguments.q_length);
    let visible = Visible::new(q_length, arguments.k_length, arguments.window);
    let scale = arguments.scale * core::f32::consts::LOG2_E;
    let sees = row.again && row.lse != f32::NEG_INFINITY;
    let shift = -row.lse * core::f32::consts::LOG2_E;
    let lane = lane_id();
    let place = opaque(thread_idx().x % WARPGROUP) / 32 * 16 + lane / 4 + 8 * index;
    let query = (first + place).min(q_length - 1);
    let (begin, end) = visible.of(query);
    let of_warp = first + place - lane / 4;
    let ((from, to), _) = visible.range(of_warp.min(q_length - 1), (of_warp + 7).min(q_length - 1));
    let (batch, head) = (work.batch, opaque(work.head));
    let kv_head = head / arguments.group.max(1);
    let q = words(arguments.q, &arguments.stride_q, batch, head, query);
    for part in 0..opaque(C::D as u32 / COLUMNS as u32) {
        let mut sums = [0.0f32; COLUMNS / 4];
        for key in from..to {
            let k = words(arguments.k, &arguments.stride_k, batch, kv_head, key as u32);
            let v = words(arguments.v, &arguments.stride_v, batch, kv_head, key as u32);
            let mut dot = 0.0f32;
            for pair in 0..opaque(C::D as u32 / 8) {
                let word = i64::from(4 * pair + lane % 4);
                // SAFETY: inside the rows.
                let (q, k) = unsafe { (C::T::unpack(q.read(word)), C::T::unpack(k.read(word))) };
                dot = q[1].fma(k[1], q[0].fma(k[0], dot));
            }
            dot += shuffle_xor(FULL_WARP, dot, 1);
            dot += shuffle_xor(FULL_WARP, dot, 2);
            let p = ex2_approx_f32(dot.fma(scale, shift));
            if sees && key >= begin && key < end && p != 0.0 {
                for pair in 0..COLUMNS / 8 {
                    let word = part * (COLUMNS as u32 / 2) + 4 * pair as u32 + lane % 4;
                    // SAFETY: inside the row.
                    let v = C::T::unpack(unsafe { v.read(word.into()) });
                    for i in 0..2 {
                        sums[2 * pair + i] = p.fma(v[i], sums[2 * pair + i]);
                    }
                }
            }
        }
        if row.again {
            for pair in 0..COLUMNS / 8 {
                let rounded = <C::T as Half>::pack(sums[2 * pair], sums[2 * pair + 1]);
                for i in 0..2 {
                    let column = part * COLUMNS as u32 + 8 * pair as u32 + lane % 4 * 2 + i as u32;
                    // SAFETY: inside the tile.
                    unsafe { results.at((place, column)).set(0usize, rounded[i]) };
                }
            }
        }
    }
}

/// A row of a tensor in words of two elements.
#[inline(always)]
fn words<T: Element>(tensor: Global<T>, strides: &Strides, batch: u32, head: u32, row: u32) -> Global<u32> {
    let at = i64::from(batch) * strides.batch + i64::from(head) * strides.head + i64::from(row) * strides.row;
    Global::from_address(tensor.address() + (at * size_of::<T>() as i64) as u64)
}
