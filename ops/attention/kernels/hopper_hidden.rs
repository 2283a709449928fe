//! Rows that a consumer warpgroup recomputes; see `recompute`.

use super::arguments::{Arguments, Strides};
use super::hopper::store_lse;
use super::hopper_config::{Config, WARPGROUP};
use super::recompute::{Pairs, Source, recompute_row};
use super::schedule::Work;
use super::sequence::Visible;
use super::softmax::RowSum;
use moye_device::arch::{FULL_WARP, opaque, thread_idx, vote_any};
use moye_device::memory::{Element, Global};

/// The [`Source`] of a tile of one head, of tensors without pages and with one length for all
/// sequences.
pub struct TileRows<'a, T: Element, F> {
    pub arguments: &'a Arguments<T>,
    pub work: &'a Work,
    /// The query token of the warpgroup's first row.
    pub first: u32,
    /// Computes the unit of the scores.
    pub unit: F,
}

impl<T: Pairs, F: Fn() -> f32> Source for TileRows<'_, T, F> {
    type Element = T;

    #[inline(always)]
    fn scale(&self) -> f32 {
        (self.unit)() * core::f32::consts::LOG2_E
    }

    #[inline(always)]
    unsafe fn finish(&self, row: u32, sum: RowSum) -> f32 {
        let (factor, lse) = sum.finish((self.unit)(), f32::NEG_INFINITY);
        let query = self.first + row;
        store_lse(|| (query < self.arguments.q_length).then_some(query), lse, self.arguments, self.work);
        factor
    }

    #[inline(always)]
    fn hull(&self, first: u32, last: u32) -> (i32, i32) {
        let q_length = opaque(self.arguments.q_length);
        let visible = Visible::new(q_length, self.arguments.k_length, self.arguments.window);
        let query = |row: u32| (self.first + row).min(q_length - 1);
        visible.range(query(first), query(last)).0
    }

    #[inline(always)]
    fn query(&self, row: u32) -> (Global<T>, (i32, i32)) {
        let Arguments { q, stride_q, q_length, k_length, window, .. } = self.arguments;
        let query = (self.first + row).min(opaque(*q_length) - 1);
        let visible = Visible::new(*q_length, *k_length, *window);
        (row_of(*q, stride_q, self.work.batch, opaque(self.work.head), query), visible.of(query))
    }

    #[inline(always)]
    fn key(&self, key: u32) -> Global<T> {
        let Arguments { k, stride_k, .. } = self.arguments;
        row_of(*k, stride_k, self.work.batch, self.work.kv_head, key)
    }

    #[inline(always)]
    fn value(&self, key: u32) -> Global<T> {
        let Arguments { v, stride_v, .. } = self.arguments;
        row_of(*v, stride_v, self.work.batch, self.work.kv_head, key)
    }
}

/// Recomputes this thread's rows that are marked in `rows`; see [`recompute_row`].
///
/// # Safety
/// Same contract as [`recompute_row`].
#[inline(always)]
pub unsafe fn recompute<C: Config, S: Source>(
    source: &S,
    rows: [bool; 2],
    mut put: impl FnMut(u32, u32, [f32; 2]),
) {
    if !vote_any(FULL_WARP, rows[0] || rows[1]) {
        return;
    }
    let of_warp = |index: u32| opaque(thread_idx().x % WARPGROUP) / 32 * 16 + 8 * index;
    // `opaque` prevents unrolling, which keeps the code small.
    for index in 0..opaque(2) {
        let again = if index == 0 { rows[0] } else { rows[1] };
        if vote_any(FULL_WARP, again) {
            let columns = (C::D as u32, C::DV as u32);
            if const { C::DV % 32 == 0 } {
                recompute_row::<S, 8>(source, again, &of_warp, index, columns, &mut put);
            } else {
                recompute_row::<S, 4>(source, again, &of_warp, index, columns, &mut put);
            }
        }
    }
}

/// A row of a tensor.
#[inline(always)]
pub fn row_of<T: Element>(
    tensor: Global<T>,
    strides: &Strides,
    batch: u32,
    head: u32,
    row: u32,
) -> Global<T> {
    tensor.offset(
        i64::from(batch) * strides.batch + i64::from(head) * strides.head + i64::from(row) * strides.row,
    )
}
