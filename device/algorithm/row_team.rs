//! The threads that share rows: their tiles, and the reductions across them.

use super::lanes_reduce;
use super::row::{
    PLACES, RowBlocks as _, RowScratch, RowShape, RowStride, RowTile, StridesOf, allowed, vector,
};
use super::row_chunks::Passes;
use crate::arch::{FULL_WARP, lane_id, opaque, shuffle, sync_threads, thread_idx};
use crate::memory::{GlobalPointer, Shared, Storable};
use crate::tensor::{
    CoordinateTensor, Fragment, GlobalArray, GlobalTensor, IdentityOf, Rank, SharedTensor, StaticLayout,
    TileCoordinate, identity_tensor,
};
use core::marker::PhantomData;
use core::ops::Add as _;

/// The most reductions of a [`RowTeam`].
pub(super) const USES: u32 = 6;

/// The threads that share a row: lanes of a warp, the threads of a block, or the threads of a
/// cluster.
///
/// In the simulator loads and stores are separate functions, shared by the kernels of a shape and
/// an element type: inlined they would take most of its build time.
pub struct RowTeam<C> {
    scratch: SharedTensor<f32, RowScratch>,
    /// The coordinate of the tile of rows.
    tile: (u32, u32),
    /// Reductions of the tile so far: each uses a different part of the scratch memory, so that
    /// none waits until the values of another have been read. Consecutive tiles use different
    /// parts.
    used: u32,
    half: u32,
    /// Exchanges between the blocks so far.
    exchanges: u32,
    /// Whether the threads of the block have synchronised since the last exchange.
    met: bool,
    /// The passes over a row in chunks.
    passes: Passes,
    shape: PhantomData<C>,
}

impl<C: RowShape> RowTeam<C> {
    /// The team of this thread.
    ///
    /// # Safety
    /// All threads of the block construct one, and `scratch` belongs to it until the kernel ends.
    /// Grid and block match the shape: `C::BLOCK` threads, a block for each `C::ROWS` rows or a
    /// cluster for each row.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn new(scratch: SharedTensor<f32, RowScratch>) -> Self {
        const { allowed::<C>() };
        // SAFETY: the last places of the scratch memory are those of exchanges.
        unsafe { C::Blocks::start(Self::exchange_places(scratch)) };
        let tile = C::Blocks::place();
        let passes = Passes::START;
        Self { scratch, tile, used: 0, half: 0, exchanges: 0, met: true, passes, shape: PhantomData }
    }

    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn exchange_places(scratch: SharedTensor<f32, RowScratch>) -> Shared<f32> {
        scratch.pointer().offset((2 * USES * PLACES) as i32)
    }

    /// The tile one step of the grid further; with [`Chunks`](super::Chunks) the next chunk.
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn next_tile(&self) -> (u32, u32) {
        if const { C::Blocks::CHUNKS } {
            return self.passes.next(self.tile, C::COLUMNS, C::Blocks::rows()).0;
        }
        (self.tile.0 + C::Blocks::rows(), self.tile.1)
    }

    /// Moves to [`next_tile`](Self::next_tile), for which the team can again reduce six times, and
    /// returns whether a matrix of `m` rows has it. Shapes that are not [`AHEAD`](RowShape::AHEAD)
    /// and take no chunks have no next tile: their grid has a block for each tile.
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn step(&mut self, m: u32) -> bool {
        if const { !C::AHEAD && !C::Blocks::CHUNKS } {
            return false;
        }
        self.step_over(m)
    }

    /// [`step`](Self::step) also for shapes that are not [`AHEAD`](RowShape::AHEAD): for a kernel
    /// whose blocks take many tiles in turn anyway, as with [`RowSums`](super::RowSums).
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn step_over(&mut self, m: u32) -> bool {
        if const { C::Blocks::CHUNKS } {
            let places = Self::exchange_places(self.scratch);
            // SAFETY: all threads of the block step together, and these places belong to the
            // exchanges.
            self.tile = unsafe { self.passes.step(self.tile, C::COLUMNS, C::Blocks::rows(), places) };
        } else {
            self.tile = self.next_tile();
        }
        (self.used, self.half) = (0, self.half ^ 1);
        self.tile.0 < m.div_ceil(C::ROWS)
    }

    /// Whether stores and the [`leader`](Self::leader) write: always, except with
    /// [`Chunks`](super::Chunks) before the last pass over a row.
    #[inline(always)]
    #[must_use]
    pub fn writes(&self) -> bool {
        if const { C::Blocks::CHUNKS } { self.passes.is_last() } else { true }
    }

    /// The block's rows of a matrix of `m` rows of `n` elements: `(BLK_M, BLK_N)`.
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn rows<P: GlobalPointer>(
        &self,
        pointer: P,
        shape: (u32, u32),
        stride: RowStride,
    ) -> GlobalTensor<P, StridesOf<C>, IdentityOf<RowTile<C>>, <(u32, u32) as TileCoordinate<Rank<2>>>::Rest>
    {
        self.rows_at(pointer, shape, stride, self.tile())
    }

    /// [`rows`](Self::rows) of the tile at a coordinate instead of the block's: for a block that
    /// processes several tiles, or a part of the columns.
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn rows_at<P: GlobalPointer>(
        &self,
        pointer: P,
        shape: (u32, u32),
        stride: RowStride,
        tile: (u32, u32),
    ) -> GlobalTensor<P, StridesOf<C>, IdentityOf<RowTile<C>>, <(u32, u32) as TileCoordinate<Rank<2>>>::Rest>
    {
        if const { C::Blocks::CHUNKS } {
            self.passes.set_columns(shape.1);
        }
        GlobalArray::new(pointer, shape, StridesOf::<C>(stride, PhantomData))
            .local_tile::<RowTile<C>, _>(tile)
    }

    /// [`rows`](Self::rows) of a matrix that repeats after `period` rows: row `i` is its row
    /// `i % period`, for example of a mask that several matrices share.
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn rows_repeated<P: GlobalPointer>(
        &self,
        pointer: P,
        shape: (u32, u32),
        stride: RowStride,
        period: u32,
    ) -> GlobalTensor<P, StridesOf<C>, IdentityOf<RowTile<C>>, <(u32, u32) as TileCoordinate<Rank<2>>>::Rest>
    {
        // A thread's rows are one row, so it may have a separate origin.
        let row = self.row();
        self.rows(
            pointer.offset(i64::from(row % period) * stride.row - i64::from(row) * stride.row),
            shape,
            stride,
        )
    }

    /// The coordinates of the block's rows, `(row, column)` of the matrix: (BLK_M, BLK_N). They are
    /// partitioned like the rows.
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn coordinates<T: Storable>(&self) -> CoordinateTensor<T, IdentityOf<RowTile<C>>> {
        let (row, column) = self.tile();
        identity_tensor::<T, RowTile<C>, _>((row * C::ROWS, column * C::COLUMNS))
    }

    /// The coordinate of the block's tile of rows: at first `(block, 0)`, in a cluster `(cluster,
    /// rank)`, or with [`Chunks`](super::Chunks) `(row, chunk)`.
    #[inline(always)]
    #[must_use]
    pub fn tile(&self) -> (u32, u32) {
        self.tile
    }

    /// The row of the matrix that this thread shares; it may be past the end.
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn row(&self) -> u32 {
        self.tile().0 * C::ROWS + thread_idx().x / C::THREADS
    }

    /// The row of the matrix for which this thread may write a result, one value a row; `None` in
    /// the row's other threads, and in all but the first chunk of the last pass over it.
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn leader(&self) -> Option<u32> {
        if const { C::Blocks::CHUNKS } {
            return (thread_idx().x == 0 && self.passes.leads()).then_some(self.tile.0);
        }
        let (_, rank) = self.tile();
        (thread_idx().x.is_multiple_of(C::THREADS) && rank == 0).then(|| self.row())
    }

    /// The thread, of those of this block that share a row, whose part by a
    /// [`RowCopy`](super::RowCopy) of elements `T` has a column: 0 to `C::THREADS - 1`; `None` if
    /// another block or another chunk has it.
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn holder<T: Storable>(&self, column: u32) -> Option<u32> {
        let place = column.wrapping_sub(self.tile().1 * C::COLUMNS);
        let vector = const { vector::<T, C>() as u32 };
        (place < C::COLUMNS).then_some(place / vector % C::THREADS)
    }

    /// Combines each row's values over all threads that share it; all of them have the result. The
    /// bits are the same in every run: the order depends only on the shape.
    ///
    /// # Safety
    /// All threads of the block (or cluster) call it together, at most six times for a tile.
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn reduce<L: StaticLayout>(
        &mut self,
        rows: Fragment<f32, L>,
        f: impl Fn(f32, f32) -> f32,
    ) -> Fragment<f32, L> {
        let mut rows = rows;
        for row in 0..Fragment::<f32, L>::SIZE {
            // SAFETY: all threads of the row are here.
            unsafe {
                let value = self.reduce_one(rows[row], &f);
                [rows[row]] = self.combine_blocks([value], |[a], [b]| [f(a, b)]);
            }
        }
        rows
    }

    /// [`reduce`](Self::reduce) in each block of a cluster separately. With
    /// [`combine_blocks`](Self::combine_blocks) several reductions need one exchange between the
    /// blocks.
    ///
    /// # Safety
    /// Same contract as [`reduce`](Self::reduce).
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn reduce_in_block<L: StaticLayout>(
        &mut self,
        rows: Fragment<f32, L>,
        f: impl Fn(f32, f32) -> f32,
    ) -> Fragment<f32, L> {
        let mut rows = rows;
        for row in 0..Fragment::<f32, L>::SIZE {
            // SAFETY: all threads of the row are here.
            rows[row] = unsafe { self.reduce_one(rows[row], &f) };
        }
        rows
    }

    /// Combines `N` values, at most four, over the blocks that share the row, or over the chunks of
    /// the row; if there is one block, returns them unchanged. The bits are the same in every run.
    ///
    /// # Safety
    /// Same contract as [`reduce`](Self::reduce), and counts as one of its calls; all threads of a
    /// block pass the same values.
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn combine_blocks<const N: usize>(
        &mut self,
        values: [f32; N],
        f: impl Fn([f32; N], [f32; N]) -> [f32; N],
    ) -> [f32; N] {
        const { assert!(N <= 4, "RowTeam::combine_blocks takes four values at most") };
        if const { C::Blocks::CHUNKS } {
            // SAFETY: the places are those of exchanges.
            return unsafe { self.passes.combine(values, Self::exchange_places(self.scratch), f) };
        }
        if const { !C::Blocks::CLUSTER } {
            return values;
        }
        if !core::mem::replace(&mut self.met, false) {
            sync_threads();
        }
        let (places, count) = (Self::exchange_places(self.scratch), self.exchanges);
        self.exchanges += 1;
        // SAFETY: all threads of the blocks call this, and the threads of this block have
        // synchronised since the last exchange.
        unsafe { C::Blocks::combine(values, places, count, &f) }
    }

    /// The sums of values over the lanes of this warp that share the row; all of them have these.
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn sum_in_warp<const N: usize>(&self, values: [f32; N]) -> [f32; N] {
        each(values, |value| reduce_lanes::<C>(value, &f32::add))
    }

    /// The value of the first lane of this warp that shares the row.
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn first_in_warp(&self, value: f32) -> f32 {
        shuffle(FULL_WARP, value, lane_id() & const { !(if C::THREADS < 32 { C::THREADS - 1 } else { 31 }) })
    }

    /// The values of each warp of this block that shares the row: lane `i` has those of warp `i`,
    /// modulo the number of warps; those of a warp are its first lane's. A row of one warp keeps
    /// its values. To reduce several values with one barrier, call
    /// [`sum_in_warp`](Self::sum_in_warp), this, and [`sum_of_warps`](Self::sum_of_warps).
    ///
    /// ```
    /// # #![allow(non_snake_case)]
    /// # use moye_device::algorithm::{Block128, RowCopy, RowScratch, RowShape, RowStride, RowTeam};
    /// # use moye_device::algorithm::warp_reduce;
    /// # use moye_device::prelude::*;
    /// /// `y[i] = [sum(x), max(x)]` of row `i` of `x`, `n` elements each.
    /// ///
    /// /// # Safety
    /// /// `x` holds `m` rows, which start at multiples of 16 bytes; `n` is at most `C::COLUMNS`; `y`
    /// /// holds two elements for each row.
    /// #[kernel(
    ///     threads = C::BLOCK,
    ///     shared = (scratch: SharedArray<f32, RowScratch>),
    ///     instances = sum_and_max<Block128>
    /// )]
    /// pub unsafe fn sum_and_max<C: RowShape>(x: Global<f32>, y: GlobalMut<f32>, m: u32, n: u32) {
    ///     let mut team = RowTeam::<C>::new(scratch);
    ///     let load = RowCopy::<f32, C>::get_slice(thread_idx().x);
    ///     let tXgX = load.partition_s(team.rows(x, (m, n), RowStride { row: n.into(), element: 1 }));
    ///     let mut tXrX = team.load(&tXgX); // (CPY, CPY_M, CPY_N)
    ///     let [sum] = team.sum_in_warp([tXrX.reduce_rows(f32::add)[0]]);
    ///     team.fill_outside(&mut tXrX, &tXgX, f32::NEG_INFINITY);
    ///     let max = warp_reduce(tXrX.reduce_rows(f32::max)[0], f32::max);
    ///     // Lane `i` gets the values of warp `i % 4`.
    ///     let [sum, max] = team.across_warps([sum, max]);
    ///     let ([sum], max) = (team.sum_of_warps([sum]), warp_reduce(max, f32::max));
    ///     if let Some(row) = team.leader() {
    ///         y.write(2 * row, sum);
    ///         y.write(2 * row + 1, max);
    ///     }
    /// }
    /// # let memory = moye_sim::GlobalMemory::new();
    /// # let x = memory.upload(&(0..2000).map(|i| (i % 1000) as f32 - 999.5).collect::<Vec<_>>(), "x").unwrap();
    /// # let y = memory.upload(&[f32::NAN; 4], "y").unwrap();
    /// # let arguments = (Global::from_address(x.address()), GlobalMut::from_address(y.address()), 2, 1000);
    /// // Each row is -999.5, -998.5, ..., -0.5.
    /// // SAFETY: `x` holds two rows of 1,000 elements, and `y` two elements for each.
    /// unsafe { sum_and_max_block128.simulate(&memory, 2, Block128::BLOCK, arguments) }.unwrap();
    /// assert_eq!(y.download::<f32>(), [-500_000.0, -0.5, -500_000.0, -0.5]);
    /// ```
    ///
    /// # Safety
    /// Same contract as [`reduce`](Self::reduce), and counts as `N` of its calls.
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn across_warps<const N: usize>(&mut self, values: [f32; N]) -> [f32; N] {
        if const { C::THREADS <= 32 } {
            return values;
        }
        let places = self.places();
        for _ in 1..N {
            let _ = self.places();
        }
        self.met = true;
        // Read again for each tile, so that no addresses stay in registers from tile to tile.
        let thread = if C::AHEAD { opaque(thread_idx().x) } else { thread_idx().x };
        let (warp, lane, mut values) = (thread / 32, thread % 32, values);
        // SAFETY: as in `reduce_one`.
        unsafe {
            if lane == 0 {
                for (i, value) in values.iter().enumerate() {
                    places.write(warp as i32 + i as i32 * PLACES as i32, *value);
                }
            }
            sync_threads();
            let of_lane = first_warp::<C>(thread) + lane % const { C::THREADS.div_ceil(32) };
            for (i, value) in values.iter_mut().enumerate() {
                *value = places.read(of_lane as i32 + i as i32 * PLACES as i32);
            }
        }
        values
    }

    /// The first warp's value among the results of [`across_warps`](Self::across_warps).
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn of_first_warp(&self, value: f32) -> f32 {
        if const { C::THREADS <= 32 } { value } else { shuffle(FULL_WARP, value, 0) }
    }

    /// The sums of values that [`across_warps`](Self::across_warps) has returned; all lanes have
    /// these.
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn sum_of_warps<const N: usize>(&self, values: [f32; N]) -> [f32; N] {
        each(values, |value| reduce_warps::<C>(value, &f32::add))
    }

    /// The sums of several values over the threads of this block that share the row, by one
    /// barrier.
    ///
    /// ```
    /// # #![allow(non_snake_case)]
    /// # use moye_device::algorithm::{Block256, RowCopy, RowScratch, RowShape, RowStride, RowTeam, Warp};
    /// # use moye_device::prelude::*;
    /// /// `y[i] = [sum(x), sum(x^2)]` of row `i` of `x`, `n` elements each.
    /// ///
    /// /// # Safety
    /// /// `x` holds `m` rows, which start at multiples of 16 bytes; `n` is at most `C::COLUMNS`; `y`
    /// /// holds two elements for each row.
    /// #[kernel(
    ///     threads = C::BLOCK,
    ///     shared = (scratch: SharedArray<f32, RowScratch>),
    ///     instances = sums<Warp | Block256>
    /// )]
    /// pub unsafe fn sums<C: RowShape>(x: Global<f32>, y: GlobalMut<f32>, m: u32, n: u32) {
    ///     let mut team = RowTeam::<C>::new(scratch);
    ///     let load = RowCopy::<f32, C>::get_slice(thread_idx().x);
    ///     let gX = team.rows(x, (m, n), RowStride { row: n.into(), element: 1 }); // (BLK_M, BLK_N)
    ///     let tXrX = team.load(&load.partition_s(gX)); // (CPY, CPY_M, CPY_N)
    ///     let squares = tXrX.map(|x| x * x).reduce_rows(f32::add)[0];
    ///     let sums = team.sum_in_block([tXrX.reduce_rows(f32::add)[0], squares]);
    ///     if let Some(row) = team.leader().filter(|&row| row < m) {
    ///         y.write(2 * row, sums[0]);
    ///         y.write(2 * row + 1, sums[1]);
    ///     }
    /// }
    /// # let memory = moye_sim::GlobalMemory::new();
    /// # let x = memory.upload(&(0..500).map(|i| (i % 100) as f32).collect::<Vec<_>>(), "x").unwrap();
    /// for (kernel, blocks, threads) in [(&sums_warp, 2u32, Warp::BLOCK), (&sums_block256, 5, Block256::BLOCK)] {
    ///     let y = memory.upload(&[f32::NAN; 10], "y").unwrap();
    ///     let to = GlobalMut::from_address(y.address());
    ///     // Five rows of 0, 1, ..., 99.
    ///     // SAFETY: `x` holds five rows of 100 elements, and `y` two elements for each.
    ///     unsafe { kernel.simulate(&memory, blocks, threads, (Global::from_address(x.address()), to, 5, 100)) }
    ///         .unwrap();
    ///     assert_eq!(y.download::<f32>().as_chunks().0, [[4950.0, 328_350.0]; 5]);
    /// }
    /// ```
    ///
    /// # Safety
    /// Same contract as [`reduce`](Self::reduce), and counts as `N` of its calls.
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn sum_in_block<const N: usize>(&mut self, values: [f32; N]) -> [f32; N] {
        let of_warp = self.sum_in_warp(values);
        // SAFETY: all threads of the block are here.
        let of_warps = unsafe { self.across_warps(of_warp) };
        self.sum_of_warps(of_warps)
    }

    /// Scratch memory of one more reduction.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn places(&mut self) -> Shared<f32> {
        let places = self.scratch.pointer().offset(((self.half * USES + self.used) * PLACES) as i32);
        self.used += 1;
        crate::arch::simulator_assert!(self.used <= USES, "a RowTeam reduces a tile {USES} times at most");
        places
    }

    /// [`reduce`](Self::reduce) of one value in a block.
    ///
    /// # Safety
    /// Same contract as [`reduce`](Self::reduce).
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn reduce_one(&mut self, value: f32, f: &impl Fn(f32, f32) -> f32) -> f32 {
        let value = reduce_lanes::<C>(value, f);
        if C::THREADS <= 32 {
            return value;
        }
        let places = self.places();
        self.met = true;
        let (thread, lane) = (thread_idx().x, lane_id());
        let warps = const { C::THREADS / 32 };
        // SAFETY: a warp writes its own place, and reads the others' after the barrier. No other
        // reduction of this tile or the next uses the same places, and a later one follows a
        // barrier of the next tile.
        unsafe {
            if lane == 0 {
                places.write((thread / 32) as i32, value);
            }
            sync_threads();
            // Each warp combines the places, which lanes read in parallel.
            reduce_warps::<C>(places.read((first_warp::<C>(thread) + lane % warps) as i32), f)
        }
    }
}

/// `f` of each value: `map` of an array stays a loop.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
fn each<const N: usize>(values: [f32; N], f: impl Fn(f32) -> f32) -> [f32; N] {
    let mut values = values;
    for value in &mut values {
        *value = f(*value);
    }
    values
}

/// The first warp of a thread's row: a block may have several rows of two warps.
#[inline(always)]
fn first_warp<C: RowShape>(thread: u32) -> u32 {
    if const { C::ROWS == 1 } { 0 } else { thread / C::THREADS * const { C::THREADS / 32 } }
}

/// Combines a value over a power of two of adjacent lanes, a constant of the shape.
macro_rules! reduce_adjacent {
    ($lanes:expr, $value:ident, $f:ident) => {
        match $lanes {
            0 | 1 => $value,
            2 => lanes_reduce::<1, f32>($value, $f),
            4 => lanes_reduce::<3, f32>($value, $f),
            8 => lanes_reduce::<7, f32>($value, $f),
            16 => lanes_reduce::<15, f32>($value, $f),
            _ => lanes_reduce::<31, f32>($value, $f),
        }
    };
}

/// Combines a value over the lanes of a warp that share a row.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
fn reduce_lanes<C: RowShape>(value: f32, f: &impl Fn(f32, f32) -> f32) -> f32 {
    reduce_adjacent!(C::THREADS, value, f)
}

/// Combines the values of the warps that share a row, of which each lane has one.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
fn reduce_warps<C: RowShape>(value: f32, f: &impl Fn(f32, f32) -> f32) -> f32 {
    reduce_adjacent!(C::THREADS / 32, value, f)
}
