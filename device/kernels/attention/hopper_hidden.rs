//! Rows of results that a value which is no number has reached through a hidden row of V: `0 * NaN`
//! must not come through.
//!
//! Tensor cores multiply every row of a tile of V. Where a mask hides some of a tile's rows, a row
//! of results that is not finite is computed once more, key by key from global memory, over the
//! keys that its query sees.

use super::arguments::{Arguments, Strides};
use super::config::Half;
use super::hopper_config::{Config, WARPGROUP};
use super::schedule::Work;
use super::sequence::Visible;
use super::softmax::at;
use half::{bf16, f16};
use moye_device::arch::{
    FULL_WARP, Fma, ballot, e4m3x2_to_f16x2, ex2_approx_f32, f16_to_f32, lane_id, opaque, shuffle_xor,
    thread_idx, vote_any,
};
use moye_device::memory::{Element, Global};
use moye_device::number::F8E4M3;
use moye_device::tensor::{Fragment, StaticLayout};

/// Elements that are read from global memory two at a time.
pub trait Pairs: Element {
    /// The values of elements `2 pair` and `2 pair + 1` of a row.
    ///
    /// # Safety
    /// They may be read; the row begins at a multiple of two elements.
    unsafe fn pair(row: Global<Self>, pair: i64) -> [f32; 2];
}

macro_rules! halves {
    ($($t:ty)+) => { $(
        impl Pairs for $t {
            #[inline(always)]
            unsafe fn pair(row: Global<Self>, pair: i64) -> [f32; 2] {
                Self::unpack(row.cast::<u32>().read(pair))
            }
        }
    )+ };
}
halves!(bf16 f16);

impl Pairs for F8E4M3 {
    #[inline(always)]
    unsafe fn pair(row: Global<Self>, pair: i64) -> [f32; 2] {
        let halves = e4m3x2_to_f16x2(row.cast::<u16>().read(pair));
        [f16_to_f32(halves.low()), f16_to_f32(halves.high())]
    }
}

/// Where a warpgroup's rows of queries and its keys are in global memory. Rows are counted from the
/// warpgroup's first; those beyond the last are as the last.
pub trait Source {
    /// The elements of Q, K and V.
    type Element: Pairs;

    /// The factor of the scores, for exponentials to base 2.
    fn scale(&self) -> f32;

    /// The keys that some of the rows `first ..= last` see.
    fn hull(&self, first: u32, last: u32) -> (i32, i32);

    /// A row of Q, and the keys that it sees.
    fn query(&self, row: u32) -> (Global<Self::Element>, (i32, i32));

    /// A row of K and of V.
    fn key(&self, key: u32) -> (Global<Self::Element>, Global<Self::Element>);
}

/// The [`Source`] of a tile of one head, of tensors without pages and with one length for all
/// sequences.
pub struct TileRows<'a, T: Element, F> {
    pub arguments: &'a Arguments<T>,
    pub work: &'a Work,
    /// The query token of the warpgroup's first row.
    pub first: u32,
    /// Computes [`Source::scale`].
    pub scale: F,
}

impl<T: Pairs, F: Fn() -> f32> Source for TileRows<'_, T, F> {
    type Element = T;

    #[inline(always)]
    fn scale(&self) -> f32 {
        (self.scale)()
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
    fn key(&self, key: u32) -> (Global<T>, Global<T>) {
        let Arguments { k, v, stride_k, stride_v, .. } = self.arguments;
        let (batch, head) = (self.work.batch, self.work.kv_head);
        (row_of(*k, stride_k, batch, head, key), row_of(*v, stride_v, batch, head, key))
    }
}

/// One of a thread's two rows of results, which the four threads of a quad share.
#[derive(Clone, Copy)]
pub struct Row {
    /// The natural logarithm of its sum of exponentials.
    pub lse: f32,
    /// Whether it is to be computed again.
    pub again: bool,
}

/// Whether a row of results has to be computed again: a mask hides keys (`hides`), and the row is
/// not finite. `index` is 0 or 1. All lanes of the warp execute this call together.
#[inline(always)]
pub fn is_hit<L: StaticLayout>(results: &Fragment<f32, L>, index: usize, hides: bool) -> bool {
    if !hides {
        return false;
    }
    let mut nothing = 0.0f32;
    for column in 0..const { L::LAYOUT.size() as usize / 2 } {
        // What is not finite makes NaN of 0.
        nothing = results[at(2, index, column)].fma(0.0, nothing);
    }
    ballot(FULL_WARP, nothing != 0.0) >> (lane_id() & !3) & 15 != 0
}

/// Columns that are computed at a time: few registers, since this seldom runs.
const COLUMNS: usize = 32;

/// Computes those of a thread's two rows again of which that is said, and hands their results to
/// `put`: row, column, and the results of this column and the next.
///
/// # Safety
/// The rows of `source` may be read. All lanes of the warp execute this call together.
#[inline(always)]
pub unsafe fn recompute<C: Config, S: Source>(
    source: &S,
    rows: [Row; 2],
    mut put: impl FnMut(u32, u32, [f32; 2]),
) {
    if !vote_any(FULL_WARP, rows[0].again || rows[1].again) {
        return;
    }
    // A loop that is not unrolled: few instructions.
    for index in 0..opaque(2) {
        let row = if index == 0 { rows[0] } else { rows[1] };
        if vote_any(FULL_WARP, row.again) {
            recompute_row::<C, S>(source, index, row, &mut put)
        }
    }
}

/// Computes the row `index` of those threads again of which `row` says so.
///
/// # Safety
/// As [`recompute`].
#[inline(always)]
unsafe fn recompute_row<C: Config, S: Source>(
    source: &S,
    index: u32,
    row: Row,
    put: &mut impl FnMut(u32, u32, [f32; 2]),
) {
    // What seldom runs keeps no register alive elsewhere: it computes all that it needs of the
    // arguments.
    let scale = source.scale();
    let sees = row.again && row.lse != f32::NEG_INFINITY;
    let shift = -row.lse * core::f32::consts::LOG2_E;
    let lane = lane_id();
    let of_warp = opaque(thread_idx().x % WARPGROUP) / 32 * 16 + 8 * index;
    let place = of_warp + lane / 4;
    let (q, (begin, end)) = source.query(place);
    let (from, to) = source.hull(of_warp, of_warp + 7);
    for part in 0..opaque(C::D as u32 / COLUMNS as u32) {
        let mut sums = [0.0f32; COLUMNS / 4];
        for key in from..to {
            let (k, v) = source.key(key as u32);
            let mut dot = 0.0f32;
            for pair in 0..opaque(C::D as u32 / 8) {
                let word = i64::from(4 * pair + lane % 4);
                let (q, k) = (Pairs::pair(q, word), Pairs::pair(k, word));
                dot = q[1].fma(k[1], q[0].fma(k[0], dot));
            }
            dot += shuffle_xor(FULL_WARP, dot, 1);
            dot += shuffle_xor(FULL_WARP, dot, 2);
            let p = ex2_approx_f32(dot.fma(scale, shift));
            if sees && key >= begin && key < end && p != 0.0 {
                for pair in 0..COLUMNS / 8 {
                    let word = part * (COLUMNS as u32 / 2) + 4 * pair as u32 + lane % 4;
                    let v = Pairs::pair(v, word.into());
                    for i in 0..2 {
                        sums[2 * pair + i] = p.fma(v[i], sums[2 * pair + i]);
                    }
                }
            }
        }
        if row.again {
            for pair in 0..COLUMNS / 8 {
                let column = part * COLUMNS as u32 + 8 * pair as u32 + lane % 4 * 2;
                put(place, column, [sums[2 * pair], sums[2 * pair + 1]]);
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
