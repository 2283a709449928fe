//! The epilogue: stores normalised results, as elements or, for a split, as f32 for the kernel that
//! reduces the splits.
//!
//! Functions without a contract have the contract of [`Target::write`].
#![allow(non_snake_case, reason = "tensors have CuTe's names")]

use super::arguments::{Arguments, Window};
use super::config::{ElementOf, Half, Mma, MmaConfig, SmemO, SmemQ};
use super::recompute::{Source, is_hit, recompute_rows};
use super::reference::is_far;
use super::rows::{Rows, offset};
use super::schedule::Work;
use super::scores::token;
use super::sequence::Sequence;
use super::softmax::{OnlineSoftmax, RowSum, at};
use moye_device::algorithm::copy;
use moye_device::arch::{Word, Word64x2, Word128, lane_id, opaque, sync_threads, thread_idx};
use moye_device::atom::StaticTiledMma;
use moye_device::atom::mma::accumulator_column;
use moye_device::memory::{Global, GlobalMut, Shared};
use moye_device::tensor::{Fragment, SharedTensor, StaticLayout};

/// The destination of a tile's rows.
#[derive(Clone, Copy)]
pub struct Target<'a, C: MmaConfig> {
    /// The arguments.
    pub arguments: &'a Arguments<ElementOf<C>>,
    /// The block's work.
    pub work: Work,
    /// Its sequence.
    pub sequence: Sequence,
    /// The tile's first row among the rows of the sequence, of packed heads.
    pub first_row: u32,
    /// Rows of the sequence.
    pub rows: u32,
    /// The tiles of keys of the split, `begin .. end`.
    pub keys: (u32, u32),
}

impl<C: MmaConfig> Target<'_, C> {
    /// Query token and head of a row of the tile.
    #[inline(always)]
    fn token(&self, row: u32) -> (u32, u32) {
        let (token, head) = token(self.first_row + row, self.arguments.pack);
        (token, self.work.head + head)
    }

    /// The sink of a row's head; minus infinity for a split, whose sums leave it out.
    ///
    /// # Safety
    /// The sinks may be read.
    #[inline(always)]
    pub unsafe fn sink(&self, row: u32) -> f32 {
        let sinks = self.arguments.sinks;
        if sinks.address() == 0 || self.arguments.splits > 1 || self.first_row + row >= self.rows {
            return f32::NEG_INFINITY;
        }
        sinks.read(self.token(row).1)
    }

    /// The workspace row of a query token of a head.
    #[inline(always)]
    fn partial_row(&self, token: u32, head: u32) -> i64 {
        self.arguments.partial_row(&self.work, head, token)
    }

    /// Writes the log-sum-exp of a row, if the row exists and the output is requested; for a split,
    /// its maximum and sum.
    ///
    /// # Safety
    /// The output may be written, and no other thread touches it.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn write_sum(&self, row: u32, sum: RowSum, lse: f32) {
        if self.first_row + row >= self.rows {
            return;
        }
        let (token, head) = self.token(row);
        if self.arguments.splits > 1 {
            self.arguments.write_partial_sum(self.partial_row(token, head), sum);
        } else if self.arguments.lse.address() != 0 {
            let strides = &self.arguments.stride_lse;
            let first = self.sequence.q_offset(strides, head);
            self.arguments.lse.write(first + i64::from(token) * strides.row, lse);
        }
    }

    /// The address of a row of `o`, and whether it exists.
    #[inline(always)]
    fn row_of_o(&self, row: u32) -> (u64, bool) {
        let (token, head) = self.token(row);
        let strides = &self.arguments.stride_o;
        let first = self.sequence.q_offset(strides, head);
        let address = self.arguments.o.offset(first + i64::from(token) * strides.row).address();
        (address, self.first_row + row < self.rows)
    }

    /// A pointer to a row of the split's results.
    #[inline(always)]
    fn row_of_partial(&self, row: u32) -> GlobalMut<f32> {
        let (token, head) = self.token(row);
        self.arguments.partial_o.offset(self.partial_row(token, head) * C::DV)
    }

    /// Writes the tile of a single group through the memory of the queries: `sQ` is its shared
    /// address and its tensor.
    ///
    /// # Safety
    /// All threads of the block call it together, and none reads `sQ` any more; `results` is
    /// initialised; the targets may be written, and no other block touches them.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    pub unsafe fn write<L: StaticLayout, const ROWS: usize>(
        &self,
        thread: u32,
        rows: [u32; ROWS],
        sQ: (u32, SharedTensor<ElementOf<C>, SmemQ<C>>),
        results: &mut Fragment<f32, L>,
        softmax: &OnlineSoftmax<ROWS>,
        unit: f32,
    ) {
        let columns = const { L::LAYOUT.size() as usize / ROWS };
        let scale_log2 = unit * core::f32::consts::LOG2_E;
        let mut again = [false; ROWS];
        let hides = !C::GENERAL && self.arguments.window != Window::ALL;
        for row in 0..ROWS {
            // `ptxas` spills if two rows are checked after scaling, or four before it.
            let hit = is_hit::<_, ROWS>(results, row, hides && ROWS == 2);
            let (sum, to_max) = softmax.row(row, C::GENERAL, scale_log2, 0.0);
            let (factor, lse) = sum.finish(unit, self.sink(rows[row]));
            let factor = factor * to_max;
            let far = !C::GENERAL && is_far(&sum, scale_log2) && self.first_row + rows[row] < self.rows;
            for column in 0..columns {
                let index = at(ROWS, row, column);
                let result = results[index];
                results[index] = result * factor;
            }
            if lane_id().is_multiple_of(4) {
                self.write_sum(rows[row], sum, lse);
            }
            // All lanes vote, whatever they found.
            again[row] = hit | far | is_hit::<_, ROWS>(results, row, hides && ROWS != 2);
        }
        if self.arguments.splits > 1 {
            for row in 0..ROWS {
                let place = self.row_of_partial(rows[row]).offset(accumulator_column(lane_id()));
                let exists = self.first_row + rows[row] < self.rows;
                for pair in 0..columns / 2 {
                    let bits = [0, 1].map(|i| results[at(ROWS, row, 2 * pair + i)].to_bits());
                    Word64x2::store_global_if(
                        exists,
                        place.offset(pair as i64 * 8).address(),
                        Word64x2(bits),
                    );
                }
            }
            // A thread recomputes only elements that it has stored itself.
            self.recompute(again, |row, column, results| {
                let place = self.row_of_partial(row).offset(column);
                let exists = self.first_row + row < self.rows;
                Word64x2::store_global_if(exists, place.address(), Word64x2(results.map(f32::to_bits)));
            });
            return;
        }
        let sO = sQ.1.with_layout::<SmemO<C>>(); // (BLK_M, DV)
        let mma = Mma::<C>::get_slice(thread);
        let mut tCsO = mma.partition_c(sO); // (MMA, MMA_M, MMA_N)
        let mut out = tCsO.fragment();
        for pair in 0..const { L::LAYOUT.size() as usize / 2 } {
            let two = C::Element::pack(results[2 * pair], results[2 * pair + 1]);
            out[2 * pair] = two[0];
            out[2 * pair + 1] = two[1];
        }
        copy(&out, &mut tCsO);
        self.recompute(again, |row, column, results| {
            let place = sQ.0 + offset(C::ROWS as u32, C::DV as u32, row, column);
            u32::store_shared(place, C::Element::pack_word(results[0], results[1]));
        });
        sync_threads();
        let part = Rows::new(C::ROWS as u32, C::DV as u32, C::THREADS, opaque(thread));
        part.store(sQ.0, |row| self.row_of_o(row));
    }

    /// Recomputes the rows that are marked `again`, in a kernel without score options.
    ///
    /// # Safety
    /// All lanes of the warp execute this call together.
    #[inline(always)]
    unsafe fn recompute<const ROWS: usize>(&self, again: [bool; ROWS], put: impl FnMut(u32, u32, [f32; 2])) {
        if C::GENERAL {
            return;
        }
        let of_warp = |index: u32| {
            let block = index / 2 * C::WARPS as u32 + opaque(thread_idx().x) / 32;
            16 * block + 8 * (index % 2)
        };
        recompute_rows::<Self, ROWS, 4>(self, again, of_warp, (C::D as u32, C::DV as u32), put);
    }

    /// Writes the tile of several groups, one warp each, which have accumulated it over different
    /// keys. Each group stores its normalised results in `buffer`; then the threads sum them in the
    /// order of the groups, weighted by maxima and sums.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    pub unsafe fn merge<L: StaticLayout, const ROWS: usize>(
        &self,
        thread: u32,
        rows: [u32; ROWS],
        buffer: u32,
        results: &Fragment<f32, L>,
        softmax: &OnlineSoftmax<ROWS>,
        unit: f32,
    ) {
        let (groups, pitch) = (C::GROUPS as u32, C::DV as u32 + 8);
        // A group's row: DV results, then its maximum and its sum.
        let place = |group: u32, row: u32| {
            Shared::<f32>::from_address(buffer).offset(((group * C::ROWS as u32 + row) * pitch) as i32)
        };
        let (group, lane) = (thread / 32, lane_id());
        // Each group writes separate rows.
        for row in 0..ROWS {
            let (sum, to_max) = softmax.row(row, C::GENERAL, unit * core::f32::consts::LOG2_E, 0.0);
            let factor = sum.finish(unit, f32::NEG_INFINITY).0 * to_max;
            let to = place(group, rows[row]);
            for pair in 0..const { L::LAYOUT.size() as usize / ROWS / 2 } {
                let bits = [0, 1].map(|i| (results[at(ROWS, row, 2 * pair + i)] * factor).to_bits());
                let address = to.offset(pair as i32 * 8 + accumulator_column(lane) as i32).address();
                Word64x2::store_shared(address, Word64x2(bits));
            }
            if lane % 4 == 0 {
                to.write(C::DV as i32, sum.max);
                to.write(C::DV as i32 + 1, sum.sum);
            }
        }
        sync_threads();
        // `across` threads share a row, 4 columns each at a time.
        const { assert!(C::THREADS >= C::ROWS as u32 && C::THREADS % C::ROWS as u32 == 0) };
        let across = C::THREADS / C::ROWS as u32;
        let (row, first) = (thread / across, thread % across * 4);
        let of_group = |group| {
            let [max, sum] = [0, 1].map(|i| place(group, row).read(C::DV as i32 + i));
            RowSum { max, sum }
        };
        let mut max = f32::MIN;
        for group in 0..groups {
            max = max.max(of_group(group).merged_max());
        }
        let weight = |group| of_group(group).relative_to(max, unit);
        let mut sum = 0.0;
        for group in 0..groups {
            sum += weight(group);
        }
        let sum = RowSum { max, sum };
        let (inverse, lse) = sum.finish(unit, self.sink(row));
        if thread.is_multiple_of(across) {
            self.write_sum(row, sum, lse);
        }
        let (o, exists) = self.row_of_o(row);
        let mut column = first;
        while column < C::DV as u32 {
            let mut sum = [0.0f32; 4];
            for group in 0..groups {
                let word = Word128::load_shared(place(group, row).offset(column as i32).address());
                let weight = weight(group) * inverse;
                for i in 0..4 {
                    sum[i] += f32::from_bits(word.0[i]) * weight;
                }
            }
            if self.arguments.splits > 1 {
                let address = self.row_of_partial(row).offset(column).address();
                Word128::store_global_if(exists, address, Word128(sum.map(f32::to_bits)));
            } else {
                let words = [C::Element::pack_word(sum[0], sum[1]), C::Element::pack_word(sum[2], sum[3])];
                Word64x2::store_global_if(exists, o + u64::from(2 * column), Word64x2(words));
            }
            column += 4 * across;
        }
    }
}

impl<C: MmaConfig> Source for Target<'_, C> {
    type Element = ElementOf<C>;

    #[inline(always)]
    fn scale(&self) -> f32 {
        self.arguments.scale * core::f32::consts::LOG2_E
    }

    #[inline(always)]
    unsafe fn finish(&self, row: u32, sum: RowSum) -> f32 {
        let (factor, lse) = sum.finish(self.arguments.scale, self.sink(row));
        if lane_id().is_multiple_of(4) {
            self.write_sum(row, sum, lse);
        }
        factor
    }

    #[inline(always)]
    fn hull(&self, first: u32, last: u32) -> (i32, i32) {
        let token =
            |row: u32| self.token((self.first_row + row).min(opaque(self.rows) - 1) - self.first_row).0;
        let (begin, end) = self.sequence.visible.range(token(first), token(last)).0;
        let of_split = |tile: u32| (tile * C::KEYS as u32) as i32;
        (begin.max(of_split(self.keys.0)), end.min(of_split(self.keys.1)))
    }

    #[inline(always)]
    fn query(&self, row: u32) -> (Global<ElementOf<C>>, (i32, i32)) {
        let (token, head) = self.token((self.first_row + row).min(opaque(self.rows) - 1) - self.first_row);
        let strides = &self.arguments.stride_q;
        let from = self.sequence.q_offset(strides, head) + i64::from(token) * strides.row;
        (self.arguments.q.offset(from), self.sequence.visible.of(token))
    }

    #[inline(always)]
    fn key(&self, key: u32) -> Global<ElementOf<C>> {
        let Arguments { k, stride_k, .. } = self.arguments;
        let head = self.sequence.k_offset(stride_k, self.work.kv_head, false);
        k.offset(head + i64::from(key) * stride_k.row)
    }

    #[inline(always)]
    fn value(&self, key: u32) -> Global<ElementOf<C>> {
        let Arguments { v, stride_v, .. } = self.arguments;
        let head = self.sequence.k_offset(stride_v, self.work.kv_head, false);
        v.offset(head + i64::from(key) * stride_v.row)
    }
}

/// The bytes of shared memory that [`Target::merge`] needs.
pub const fn merge_bytes<C: MmaConfig>() -> i64 {
    C::GROUPS * C::ROWS * (C::DV + 8) * 4
}
