//! Sums of columns over the rows that a block takes in turn, in shared memory.

use super::row::{RowBlocks, RowShape};
use super::row_team::RowTeam;
use crate::arch::{Word as _, Word128, sync_threads, thread_idx};
use crate::memory::{Element, SharedStorage};
use crate::tensor::{Fragment, StaticLayout};
use core::marker::PhantomData;

/// Shared memory for `K` sums of each column of a block's rows, in the
/// [`kernel`](crate::kernel) attribute's `shared`: gradients of weights are sums over all rows, and
/// a block that takes many rows in turn forms them without reading the rows again. A thread adds
/// its elements to its own words, 16 bytes at a time; [`each`](Self::each) combines those of the
/// block's rows.
///
/// It has no memory for [`Chunks`](super::Chunks), for rows that start anywhere (registers hold the
/// addresses of their elements), and for threads whose elements are not whole words of 16 bytes.
/// `K` sums of a tile, with the tiles of `K` [`RowStage`](super::RowStage)s, must not take more
/// than 96 KB, or 200 KB in the blocks of a cluster ([`HOLDS`](Self::HOLDS)).
///
/// ```
/// # #![allow(non_snake_case)]
/// # use moye_device::algorithm::{RowCopy, RowScratch, RowShape, RowStride, RowSums, RowTeam, Warp};
/// # use moye_device::prelude::*;
/// /// `sums[block] = ` the sums of columns over the block's rows of `x`, `m` rows of `n` elements.
/// /// Grid: any number of blocks.
/// ///
/// /// # Safety
/// /// `x` holds `m` rows, which start at multiples of 16 bytes; `n` is at most `C::COLUMNS`; `to`
/// /// holds `n` elements for each block.
/// #[kernel(
///     threads = C::BLOCK,
///     shared = (scratch: SharedArray<f32, RowScratch>, sums: RowSums<f32, C, 1>),
///     instances = column_sums<Warp>
/// )]
/// pub unsafe fn column_sums<C: RowShape>(x: Global<f32>, to: GlobalMut<f32>, m: u32, n: u32) {
///     let mut team = RowTeam::<C>::new(scratch);
///     let load = RowCopy::<f32, C>::get_slice(thread_idx().x);
///     let ld = RowStride { row: i64::from(n), element: 1 };
///     sums.clear();
///     loop {
///         let tXrX = team.load(&load.partition_s(team.rows(x, (m, n), ld))); // (CPY, CPY_M, CPY_N)
///         sums.add(&team, m, 0, &tXrX);
///         if !team.step_over(m) {
///             break;
///         }
///     }
///     let block = i64::from(block_idx().x * n);
///     sums.each(|column, [sum]| {
///         if column < n {
///             to.write(block + i64::from(column), sum);
///         }
///     });
/// }
/// # let memory = moye_sim::GlobalMemory::new();
/// # let x = memory.upload(&(0..50 * 100).map(|i| (i % 100) as f32).collect::<Vec<_>>(), "x").unwrap();
/// # let to = memory.upload(&[f32::NAN; 2 * 100], "to").unwrap();
/// # let arguments = (Global::from_address(x.address()), GlobalMut::from_address(to.address()), 50, 100);
/// // Tiles of four rows: the first block takes seven tiles, 26 rows, and the second six.
/// // SAFETY: `x` holds 50 rows of 100 elements, and `to` two.
/// unsafe { column_sums_warp.simulate(&memory, 2, Warp::BLOCK, arguments) }.unwrap();
/// # let got = to.download::<f32>();
/// assert_eq!((got[99], got[199]), (26.0 * 99.0, 24.0 * 99.0));
/// ```
pub struct RowSums<T, C, const K: usize>(u32, PhantomData<(T, C)>);

impl<T, C, const K: usize> Clone for RowSums<T, C, K> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T, C, const K: usize> Copy for RowSums<T, C, K> {}

impl<T: Element, C: RowShape, const K: usize> SharedStorage for RowSums<T, C, K> {
    const BYTES: usize = if Self::HOLDS { K * Self::SUM } else { 0 };
    const ALIGN: usize = 16;

    type Tensors = Self;

    #[inline(always)]
    unsafe fn at(base: u32) -> Self {
        Self(base, PhantomData)
    }
}

/// Elements of a word of 16 bytes.
const WORD: usize = 4;

impl<T: Element, C: RowShape, const K: usize> RowSums<T, C, K> {
    /// Elements of a tile.
    const TILE: usize = (C::ROWS * C::COLUMNS) as usize;
    /// Bytes of one sum of a tile.
    const SUM: usize = Self::TILE * size_of::<f32>();
    /// Whether it has memory.
    pub const HOLDS: bool = C::ELEMENTS.is_multiple_of(WORD as u32)
        && !C::Blocks::CHUNKS
        && C::ALIGN > 1
        && K * (Self::SUM + if C::AHEAD { Self::TILE * T::BYTES } else { 0 })
            <= if <C::Blocks as RowBlocks>::CLUSTER { 200 << 10 } else { 96 << 10 };

    /// The address of word `i` of sum `k` of a thread: those of adjacent threads are contiguous.
    #[inline(always)]
    const fn word(self, k: usize, i: usize, thread: u32) -> u32 {
        self.0 + (k * Self::SUM + i * C::BLOCK as usize * 16) as u32 + thread * 16
    }

    /// Sets the thread's places to 0, before the first [`add`](Self::add).
    ///
    /// # Safety
    /// The memory belongs to the sums until the kernel ends.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn clear(self) {
        if const { !Self::HOLDS } {
            return;
        }
        for k in 0..K {
            for i in 0..const { C::ELEMENTS as usize / WORD } {
                // SAFETY: the place is the thread's own.
                unsafe { Word128::store_shared(self.word(k, i, thread_idx().x), Word128([0; WORD])) };
            }
        }
    }

    /// Adds a thread's elements of the team's tile to its places of sum `k`. Elements of rows that
    /// a matrix of `m` rows lacks are left out.
    ///
    /// # Safety
    /// Same contract as [`clear`](Self::clear), which was called before; `k` is below `K`.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn add<L: StaticLayout>(self, team: &RowTeam<C>, m: u32, k: usize, values: &Fragment<f32, L>) {
        if const { !Self::HOLDS } || team.row() >= m {
            return;
        }
        for i in 0..const { C::ELEMENTS as usize / WORD } {
            let place = self.word(k, i, thread_idx().x);
            // SAFETY: the place is the thread's own.
            unsafe {
                let Word128(mut sums) = Word128::load_shared(place);
                for (j, sum) in sums.iter_mut().enumerate() {
                    *sum = (f32::from_bits(*sum) + values[i * WORD + j]).to_bits();
                }
                Word128::store_shared(place, Word128(sums));
            }
        }
    }

    /// Calls `f` with each column of the block's tile and the sums over all rows of the block, in
    /// one thread for each column. The bits depend only on the shape and the grid.
    ///
    /// # Safety
    /// Same contract as [`clear`](Self::clear); all threads of the block call it together.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn each(self, mut f: impl FnMut(u32, [f32; K])) {
        if const { !Self::HOLDS } {
            return;
        }
        sync_threads();
        // Elements of a vector of RowCopy: a thread's next vector is C::THREADS vectors further.
        let vector = const { 16 / T::BYTES as u32 };
        let mut column = thread_idx().x;
        while column < C::COLUMNS {
            let (lane, i) =
                (column / vector % C::THREADS, column / (vector * C::THREADS) * vector + column % vector);
            let mut sums = [0.0; K];
            for (k, sum) in sums.iter_mut().enumerate() {
                for row in 0..C::ROWS {
                    let word = self.word(k, i as usize / WORD, row * C::THREADS + lane);
                    // SAFETY: written before the barrier.
                    *sum += f32::from_bits(unsafe { u32::load_shared(word + i % WORD as u32 * 4) });
                }
            }
            f(column, sums);
            column += C::BLOCK;
        }
    }
}
