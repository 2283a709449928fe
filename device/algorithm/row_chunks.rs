//! Rows that no shape holds: a block takes the chunks of a row in turn, in several passes.

use super::row::RowBlocks;
use super::row_team::USES;
use crate::arch::{simulator_assert, sync_threads, thread_idx};
use crate::memory::Shared;
use core::cell::Cell;

/// One block takes the chunks of a row in turn, for rows of any length on every GPU.
///
/// A kernel for the blocks of a cluster, with a loop over [`RowTeam::step`](super::RowTeam::step),
/// is also one for chunks: the block takes the part of each block of the cluster. The row is not
/// kept, so the block passes over it once for each exchange ([`reduce`](super::RowTeam::reduce) or
/// [`combine_blocks`](super::RowTeam::combine_blocks)), and once more to write. In each pass the
/// loop's body runs for each chunk; exchanges of earlier passes return the row's result, this
/// pass's exchange combines the values of the chunks so far, and results of later ones have no
/// meaning. Only in the last pass [`RowTeam::store`](super::RowTeam::store) and the
/// [`leader`](super::RowTeam::leader) write; other stores of a kernel need the condition
/// [`RowTeam::writes`](super::RowTeam::writes).
///
/// Passes alternate between both directions, so that a pass begins with the chunks that the
/// previous one has read last: they are in L2.
///
/// ```
/// # #![allow(non_snake_case)]
/// use moye_device::algorithm::{Block256, Chunked, RowCopy, RowScratch, RowShape, RowStride, RowTeam};
/// use moye_device::prelude::*;
///
/// /// `x = x / sum(x)` along rows of `n`, `ld` apart.
/// ///
/// /// # Safety
/// /// `x` holds `m` rows, which start at multiples of 16 bytes; `n` is at most `C::COLUMNS`, or any
/// /// number with chunks.
/// #[kernel(
///     threads = C::BLOCK,
///     shared = (scratch: SharedArray<f32, RowScratch>),
///     instances = scaled<f32, Block256 | Chunked>
/// )]
/// pub unsafe fn scaled<T: Element + Convert<f32>, C: RowShape>(
///     x: GlobalMut<T>,
///     m: u32,
///     n: u32,
///     ld: RowStride,
/// ) where
///     f32: Convert<T>,
/// {
///     let mut team = RowTeam::<C>::new(scratch);
///     let load = RowCopy::<T, C>::get_slice(thread_idx().x);
///     loop {
///         let gX = team.rows(x, (m, n), ld); // (BLK_M, BLK_N)
///         let mut tXrX = team.load(&load.partition_s(gX)); // (CPY, CPY_M, CPY_N)
///         let sum = team.reduce(tXrX.reduce_rows(f32::add), f32::add); // (CPY_M)
///         tXrX.apply_rows(&sum, |x, sum| x / sum);
///         team.store(&tXrX, &load.partition_d(gX));
///         if !team.step(m) {
///             return;
///         }
///     }
/// }
/// # let memory = moye_sim::GlobalMemory::new();
/// # let x = memory.upload(&[2.0f32; 3 * 20_000], "x").unwrap();
/// # let ld = RowStride { row: 20_000, element: 1 };
/// # let arguments = (GlobalMut::from_address(x.address()), 3, 20_000, ld);
/// // Two blocks: one of them takes two rows of three chunks each, in two passes.
/// // SAFETY: `x` holds three rows of 20,000 elements.
/// unsafe { scaled_f32_chunked.simulate(&memory, 2, Chunked::BLOCK, arguments) }.unwrap();
/// assert!(x.download::<f32>().iter().all(|&x| x == 1.0 / 20_000.0));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Chunks;

impl RowBlocks for Chunks {
    const CLUSTER: bool = false;
    const CHUNKS: bool = true;
}

/// The state of a block's passes over a row. It is the same in all threads.
pub(super) struct Passes {
    /// Elements of a row, those of the matrices of which the team has taken rows.
    columns: Cell<u32>,
    pass: u32,
    /// The exchanges of a tile, which the first pass counts.
    exchanges: u32,
    /// Exchanges of the chunk so far.
    count: u32,
    /// Whether the chunk is the first of its pass.
    is_first: bool,
    /// The values of the pass's exchange, of the chunks so far.
    values: [f32; 4],
}

impl Passes {
    #[allow(clippy::declare_interior_mutable_const, reason = "each team begins with a copy")]
    pub(super) const START: Self =
        Self { columns: Cell::new(0), pass: 0, exchanges: 0, count: 0, is_first: true, values: [0.0; 4] };

    #[inline(always)]
    pub(super) fn set_columns(&self, columns: u32) {
        self.columns.set(columns);
    }

    /// The number of the last pass. The first one never writes, since it counts the exchanges.
    #[inline(always)]
    fn last(&self) -> u32 {
        if self.pass == 0 || self.exchanges == 0 { 1 } else { self.exchanges }
    }

    /// Whether this is the last pass over the row.
    #[inline(always)]
    pub(super) fn is_last(&self) -> bool {
        self.pass == self.last()
    }

    /// Whether the row's leader writes its values.
    #[inline(always)]
    pub(super) fn leads(&self) -> bool {
        self.is_last() && self.is_first
    }

    /// The next tile and its pass: the next chunk, the same one in the next pass, or the first
    /// chunk of the block's next row.
    #[inline(always)]
    pub(super) fn next(&self, (row, chunk): (u32, u32), of_chunk: u32, rows: u32) -> ((u32, u32), u32) {
        let is_forward = self.pass & 1 == 0;
        let end = if is_forward { self.columns.get().max(1).div_ceil(of_chunk) - 1 } else { 0 };
        if chunk != end {
            let chunk = if is_forward { chunk + 1 } else { chunk - 1 };
            return ((row, chunk), self.pass);
        }
        if self.is_last() { ((row + rows, 0), 0) } else { ((row, chunk), self.pass + 1) }
    }

    /// Moves to the next tile and returns it. At the end of a pass its exchange's result goes to
    /// `places`, from which all threads read it in later passes.
    ///
    /// # Safety
    /// All threads of the block call it together, and `places` belongs to the passes.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub(super) unsafe fn step(
        &mut self,
        tile: (u32, u32),
        of_chunk: u32,
        rows: u32,
        places: Shared<f32>,
    ) -> (u32, u32) {
        let (tile, pass) = self.next(tile, of_chunk, rows);
        self.is_first = pass != self.pass;
        if self.is_first {
            if self.pass == 0 {
                self.exchanges = self.count;
            }
            if thread_idx().x == 0 {
                for i in 0..4 {
                    // SAFETY: no thread reads these places in this pass.
                    unsafe { places.offset(4 * self.pass + i).write(0, self.values[i as usize]) };
                }
            }
            self.pass = pass;
        }
        self.count = 0;
        // Also before elements are read that another thread has written in place.
        sync_threads();
        tile
    }

    /// Combines the values of the chunks of a row: the result has a meaning in passes after that of
    /// the exchange.
    ///
    /// # Safety
    /// `places` belongs to the passes; all threads of the block pass the same values.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    #[allow(
        clippy::needless_range_loop,
        clippy::manual_memcpy,
        reason = "loops over N are unrolled, so that the values stay in registers"
    )]
    pub(super) unsafe fn combine<const N: usize>(
        &mut self,
        values: [f32; N],
        places: Shared<f32>,
        f: impl Fn([f32; N], [f32; N]) -> [f32; N],
    ) -> [f32; N] {
        let (exchange, mut result) = (self.count, values);
        self.count += 1;
        simulator_assert!(exchange < USES, "a RowTeam exchanges the values of a row {USES} times at most");
        if exchange < self.pass {
            for i in 0..N {
                // SAFETY: written before a barrier at the end of an earlier pass.
                result[i] = unsafe { places.read(4 * exchange + i as u32) };
            }
        } else if exchange == self.pass {
            if !self.is_first {
                let mut before = values;
                for i in 0..N {
                    before[i] = self.values[i];
                }
                result = f(before, values);
            }
            for i in 0..N {
                self.values[i] = result[i];
            }
        }
        result
    }
}
