//! Rows of results that a value which is no number has reached through a hidden row of V: `0 * NaN` must not come through.
//!
//! Tensor cores multiply every row of a tile of V. Where a mask hides some of a tile's rows, a row of results that is not finite is
//! computed once more, key by key from global memory, over the keys that its query sees.

use super::arguments::{Arguments, Strides, Window};
use super::config::Half;
use super::hopper_config::{Config, TileO};
use super::schedule::Work;
use super::sequence::Visible;
use super::softmax::at;
use moye_device::arch::{FULL_WARP, Fma, ballot, ex2_approx_f32, lane_id, opaque, shuffle_xor};
use moye_device::atom::AccumulatorOf;
use moye_device::memory::{Element, Global};
use moye_device::tensor::Fragment;

/// One of a thread's two rows: the four threads of a quad have it, and each has every fourth pair of its columns.
#[derive(Clone, Copy)]
pub struct Row {
    /// The index of the row in the fragment, 0 or 1.
    pub index: usize,
    /// Its query token, and the first and the last of those that the warp's quads have at this index.
    pub query: u32,
    pub first: u32,
    pub last: u32,
    /// The largest score, not scaled.
    pub max: f32,
    /// One over the sum of exponentials.
    pub factor: f32,
}

/// Computes the row again if a mask hides keys and the row is not finite. `scale` is that of the powers of two.
///
/// # Safety
/// The operands of `arguments` may be read, by their strides. All lanes of the warp execute this call together.
#[inline(always)]
pub unsafe fn recompute<C: Config<T: Half>>(
    results: &mut Fragment<f32, AccumulatorOf<TileO<C>, C::Pv>>,
    row: Row,
    arguments: &Arguments<C::T>,
    visible: &Visible,
    work: &Work,
    scale: f32,
) {
    if arguments.window == Window::ALL {
        return;
    }
    let pairs = const { C::D as usize / 8 };
    let mut nothing = 0.0f32;
    for column in 0..2 * pairs {
        // SAFETY: inside the fragment. What is not finite makes NaN of 0.
        nothing = unsafe { results.get(at(2, row.index, column)) }.fma(0.0, nothing);
    }
    let bad = ballot(FULL_WARP, nothing != 0.0);
    if bad == 0 {
        return;
    }
    let lane = lane_id();
    let bad = bad >> (lane & !3) & 15 != 0;
    if bad {
        for column in 0..2 * pairs {
            // SAFETY: inside the fragment.
            unsafe { results.set(at(2, row.index, column), 0.0) };
        }
    }
    let (begin, end) = visible.of(row.query);
    let ((from, to), _) = visible.range(row.first, row.last);
    let q = words(arguments.q, &arguments.stride_q, work.batch, work.head, row.query);
    for key in from..to {
        let k = words(arguments.k, &arguments.stride_k, work.batch, work.kv_head, key as u32);
        let v = words(arguments.v, &arguments.stride_v, work.batch, work.kv_head, key as u32);
        let mut dot = 0.0f32;
        // An opaque count keeps a loop that seldom runs short.
        for pair in 0..opaque(pairs as u32) {
            let word = i64::from(4 * pair + lane % 4);
            // SAFETY: inside the rows.
            let (q, k) = unsafe { (C::T::unpack(q.read(word)), C::T::unpack(k.read(word))) };
            dot = q[1].fma(k[1], q[0].fma(k[0], dot));
        }
        dot += shuffle_xor(FULL_WARP, dot, 1);
        dot += shuffle_xor(FULL_WARP, dot, 2);
        let p = ex2_approx_f32(dot.fma(scale, -row.max * scale)) * row.factor;
        if bad && key >= begin && key < end && p != 0.0 {
            for pair in 0..pairs {
                // SAFETY: inside the row and the fragment.
                unsafe {
                    let v = C::T::unpack(v.read(i64::from(4 * pair as u32 + lane % 4)));
                    for i in 0..2 {
                        let index = at(2, row.index, 2 * pair + i);
                        results.set(index, p.fma(v[i], results.get(index)));
                    }
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
