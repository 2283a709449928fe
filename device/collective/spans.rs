//! Products whose rows belong to groups: the rows of a tile of C, the tiles of all groups, and the
//! sink for rows that begin and end anywhere.

use super::Team;
use super::mainloop::{Accumulators, Mainloop, WARPGROUP};
use super::rows::{Corner, blocks_of_vectors, store_vectors};
use super::scheduler::TileScheduler;
use super::sink::{Sink, StagingOf};
use super::tiles::{Bands, Tiles, WorkTile};
use super::tma::RowsOfA;
use super::tma_store::{Boxed, StoreC, ThroughTma};
use crate::algorithm::{CopyAs, copy};
use crate::arch::{bulk_wait_group_read, f32x2_to_bf16x2, f32x2_to_f16x2, opaque, wait_for_prior_kernels};
use crate::atom::StaticTiledMma;
use crate::atom::tma::{TmaCopy, TmaTensor};
use crate::atom::wgmma::WgmmaAtom;
use crate::kernel::KernelParam;
use crate::memory::{Element, Global, GlobalMut};
use crate::tensor::{Dense, Matrix, StaticLayout};
use core::marker::PhantomData;

/// The rows of A and C that a tile of C covers.
pub trait RowSpans: Copy {
    /// The first row of a tile of `block` rows, and the number of rows from there on, at least 0.
    ///
    /// # Safety
    /// The memory that it reads is readable.
    unsafe fn of_tile(&self, tile: &WorkTile, block: u32) -> (u32, u32);

    /// The end of a group's rows in memory: a thread's row past it has no scale.
    fn end(&self, group: u32) -> u32;
}

/// Rows by group: the rows of a group are consecutive, and each group multiplies another matrix B.
///
/// Sizes are in global memory, where an earlier kernel may have computed them: each thread that
/// needs them reads them there.
#[repr(C)]
#[derive(Clone, Copy, Debug, KernelParam)]
pub struct Groups {
    /// For each group the end of its rows, which is the start of the next group; or, if groups are
    /// padded, the number of its rows. Null: all rows are one group.
    pub ends: Global<i32>,
    /// The number of groups.
    pub count: u32,
    /// Rows of all groups.
    pub rows: u32,
    /// Rows from the start of a padded group to the next; 0 if groups are contiguous.
    pub apart: u32,
}

impl Groups {
    /// One group of all rows.
    #[must_use]
    pub const fn one(rows: u32) -> Self {
        Self { ends: Global::from_address(0), count: 1, rows, apart: 0 }
    }

    /// The first row of a group and the end of its rows. Ends out of range are clamped, so that no
    /// tile leaves the matrix.
    ///
    /// # Safety
    /// The ends are readable, and no thread writes them meanwhile; `group` is below the count.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    #[must_use]
    pub unsafe fn of(&self, group: u32) -> (u32, u32) {
        if self.ends.address() == 0 {
            return (0, self.rows);
        }
        let clamped = |value: i32, most: u32| (value.max(0) as u32).min(most);
        // SAFETY: there is an end for each group.
        unsafe {
            let end = self.ends.read(group);
            if self.apart > 0 {
                let first = group * self.apart;
                return (first, first + clamped(end, self.apart));
            }
            let end = clamped(end, self.rows);
            let first = if group == 0 { 0 } else { clamped(self.ends.read(group - 1), end) };
            (first, end)
        }
    }
}

impl RowSpans for Groups {
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn of_tile(&self, tile: &WorkTile, block: u32) -> (u32, u32) {
        // SAFETY: the tile's batch is a group of the scheduler.
        let (first, end) = unsafe { self.of(tile.batch) };
        let first = first + tile.m * block;
        (first, end.saturating_sub(first))
    }

    #[inline(always)]
    fn end(&self, group: u32) -> u32 {
        if self.apart > 0 { (group + 1) * self.apart } else { self.rows }
    }
}

/// A's tensor with the rows of `S`, for [`TmaWarpSpecialised`](super::TmaWarpSpecialised).
#[derive(Debug)]
pub struct BySpans<C, S, const R: usize> {
    a: TmaTensor<C, R>,
    spans: S,
}

impl<C, S: Copy, const R: usize> Clone for BySpans<C, S, R> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}
impl<C, S: Copy, const R: usize> Copy for BySpans<C, S, R> {}

impl<C, S: RowSpans, const R: usize> BySpans<C, S, R> {
    /// The rows of `spans` in the tensor `a`, (M, K) or (M, K, 1).
    #[inline(always)]
    #[must_use]
    pub const fn new(a: TmaTensor<C, R>, spans: S) -> Self {
        Self { a, spans }
    }
}

/// The coordinate of a row.
#[inline(always)]
pub(super) const fn at_row<const R: usize>(row: u32) -> [i32; R] {
    let mut by = [0; R];
    by[0] = row as i32;
    by
}

/// The tiles of a persistent grid over all groups: group by group, and within a group in bands of
/// rows of tiles. Each thread finds a tile's group in one pass over the groups' sizes.
///
/// A [`WorkTile`]'s `batch` is its group, and `m` counts tiles in the group.
pub struct GroupTiles<M> {
    groups: Groups,
    /// N and K.
    extents: (u32, u32),
    rows: u32,
    /// The worker's next tile, counted from the first tile of `group`.
    next: u32,
    group: u32,
    mainloop: PhantomData<M>,
}

impl<M> Clone for GroupTiles<M> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}
impl<M> Copy for GroupTiles<M> {}

impl<M: Mainloop> GroupTiles<M> {
    /// The tiles of this block's worker for products of `n` columns and `k` elements along K of
    /// each group, in bands of `rows` rows of tiles. An earlier kernel that computes the groups'
    /// sizes has completed before.
    #[inline(always)]
    #[must_use]
    pub fn new(groups: Groups, extents: (u32, u32), rows: u32) -> Self {
        if groups.ends.address() != 0 {
            wait_for_prior_kernels();
        }
        let next = M::worker().number;
        Self { groups, extents, rows, next, group: 0, mainloop: PhantomData }
    }
}

impl<M: Mainloop> TileScheduler for GroupTiles<M> {
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    fn next_tile(&mut self) -> Option<WorkTile> {
        // Recomputed, so that the compiler does not keep it in registers beside the accumulators.
        let (n, k) = (opaque(self.extents.0), opaque(self.extents.1));
        let (Tiles { n, k, .. }, worker) = (M::tiles((1, n, k), 1), M::worker());
        while self.group < self.groups.count {
            // SAFETY: the kernel's contract: the ends are readable.
            let (first, end) = unsafe { self.groups.of(self.group) };
            let m = (end - first).div_ceil(const { M::TILE.0 * M::CLUSTER });
            let place = self.next;
            if place < m * n {
                self.next += worker.count;
                let bands = Bands::new(Tiles { m, n, k, batches: 1 }, opaque(self.rows));
                return Some(WorkTile { batch: self.group, ..bands.work(worker, place, (0, k)) });
            }
            self.next -= m * n;
            self.group += 1;
        }
        None
    }
}

/// Columns of an instruction.
const fn columns_of_instruction<M: Mainloop>() -> u32 {
    M::Mma::MMA.tile_size(1) as u32
}

/// An element type of C to which two f32 are rounded at once.
pub trait Paired: Element {
    /// The bits of both, the first in the lower half.
    fn pair(first: f32, second: f32) -> u64;
}

impl Paired for f32 {
    #[inline(always)]
    fn pair(first: f32, second: f32) -> u64 {
        u64::from(second.to_bits()) << 32 | u64::from(first.to_bits())
    }
}

impl Paired for half::bf16 {
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn pair(first: f32, second: f32) -> u64 {
        f32x2_to_bf16x2(first, second).to_bits().into()
    }
}

impl Paired for half::f16 {
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn pair(first: f32, second: f32) -> u64 {
        f32x2_to_f16x2(first, second).to_bits().into()
    }
}

/// A matrix C to which [`ToSpans`] writes.
#[repr(C)]
#[derive(Clone, Copy, Debug, KernelParam)]
pub struct Target<O: Element> {
    /// Its first element.
    pub c: GlobalMut<O>,
    /// Elements from the end of a padded group to the next; 0 if all rows have one stride.
    pub group: i64,
    /// Elements between rows, and between columns.
    pub row: i64,
    /// See `row`.
    pub column: i64,
    /// Columns.
    pub columns: u32,
    /// 1 if rows are contiguous, and start and end at multiples of 16 bytes.
    pub aligned: u32,
    /// 1 if there is a tensor map of all rows.
    pub tensor: u32,
}

/// Stores from the registers of `wgmma` to the rows `S` of C, which begin and end anywhere: in
/// vectors of 16 bytes if C is aligned, otherwise element by element.
#[derive(Clone, Copy, Debug)]
pub struct ToSpans<O: Element, S> {
    target: Target<O>,
    spans: S,
}

impl<O: Element, S: RowSpans> ToSpans<O, S> {
    /// Stores to the rows of `spans` in `target`.
    #[inline(always)]
    #[must_use]
    pub const fn new(target: Target<O>, spans: S) -> Self {
        Self { target, spans }
    }
}

impl<O: Paired, S: RowSpans, M: Mainloop<Accumulator = f32>> Sink<M> for ToSpans<O, S>
where
    f32: CopyAs<O>,
{
    type Storage = ();

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn store(&self, tCrC: &Accumulators<M>, (): &(), tile: &WorkTile, team: &Team, _: &mut M) {
        let Target { c, group, row, column, columns, aligned, .. } = self.target;
        // SAFETY: the spans' memory is readable; C has the rows, each of which belongs to one tile.
        unsafe {
            let (first, left) = self.spans.of_tile(tile, M::TILE.0);
            let c = c.offset(i64::from(tile.batch) * group + i64::from(first) * row);
            if aligned == 0 {
                let gC = Matrix::new(c, (left, columns), Dense([row, column]))
                    .local_tile::<M::TileC, _>((0, tile.n)); // (BLK_M, BLK_N)
                return copy(tCrC, M::Mma::get_slice(team.thread).partition_c(gC));
            }
            let start = tile.n * M::TILE.1;
            let corner = Corner {
                address: c.offset(start).address(),
                row: row * O::BYTES as i64,
                left: (left, columns - start),
            };
            // Instructions of a warpgroup along M, interleaved with those of the other warpgroups.
            let instructions = const { M::TILE.0 / 64 / (M::Mma::THREADS / WARPGROUP) };
            let (warp, lane) = (team.within_warpgroup() / 32, team.within_warpgroup() % 32);
            for m in 0..instructions {
                let corner =
                    corner.below(64 * (m * const { M::Mma::THREADS / WARPGROUP } + team.warpgroup()));
                if corner.left.0 == 0 {
                    continue;
                }
                // Vectors of an instruction, and instructions along M.
                let per = const { columns_of_instruction::<M>() / 8 };
                let pair = |block: u32, eight: u32| {
                    let at = 4 * (block % per) + 2 * eight + 4 * per * (m + instructions * (block / per));
                    O::pair(tCrC[at as usize], tCrC[at as usize + 1])
                };
                const { assert!((M::TILE.1 / 8).is_multiple_of(blocks_of_vectors::<O>())) };
                store_vectors::<O>(pair, const { M::TILE.1 / 8 }, &corner, 16 * warp, lane);
            }
        }
    }
}

/// [`ToSpans`], but through boxes in shared memory, which TMA stores while the next tile is
/// multiplied, if a tile has all of its rows or the last rows of C.
#[derive(Clone, Copy)]
pub struct BoxesToSpans<O: Boxed, S> {
    /// The tensor of C's map, or none.
    c: Option<TmaTensor<StoreC<O>, 2>>,
    rows: u32,
    others: ToSpans<O, S>,
}

impl<O: Boxed, S: RowSpans> BoxesToSpans<O, S> {
    /// Stores to the rows of `spans` in `target`, whose `rows` rows are the tensor `c` if a tensor
    /// map covers them.
    #[inline(always)]
    #[must_use]
    pub fn new(c: Option<TmaTensor<StoreC<O>, 2>>, rows: u32, target: Target<O>, spans: S) -> Self {
        Self { c, rows, others: ToSpans::new(target, spans) }
    }
}

impl<O, S, M> Sink<M> for BoxesToSpans<O, S>
where
    O: Boxed + Paired,
    S: RowSpans,
    M: Mainloop<Accumulator = f32, Mma: StaticTiledMma<Atom: WgmmaAtom>> + 'static,
    f32: CopyAs<O>,
{
    type Storage = <ThroughTma<O> as Sink<M>>::Storage;

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn store(
        &self,
        tCrC: &Accumulators<M>,
        boxes: &StagingOf<Self, M>, // (64, 64, boxes)
        tile: &WorkTile,
        team: &Team,
        mainloop: &mut M,
    ) {
        // SAFETY: the spans' memory is readable; C has the rows, each of which belongs to one tile.
        unsafe {
            let (first, left) = self.others.spans.of_tile(tile, M::TILE.0);
            match self.c {
                Some(c) if left >= M::TILE.0 || first + left == self.rows => {
                    let sink = ThroughTma::new(c.offset([first, 0]));
                    sink.store(tCrC, boxes, &WorkTile { m: 0, batch: 0, ..*tile }, team, mainloop);
                }
                _ => Sink::<M>::store(&self.others, tCrC, &(), tile, team, mainloop),
            }
        }
    }

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn finish(&self, _team: &Team) {
        bulk_wait_group_read::<0>();
    }
}

impl<T: Element, L: StaticLayout, S: RowSpans, const R: usize> RowsOfA<TmaCopy<T, L, R>, R>
    for BySpans<TmaCopy<T, L, R>, S, R>
{
    #[inline(always)]
    unsafe fn rows_of(&self, tile: &WorkTile, block: u32) -> TmaTensor<TmaCopy<T, L, R>, R> {
        // SAFETY: the spans' memory is readable.
        self.a.offset(at_row(unsafe { self.spans.of_tile(tile, block) }.0))
    }

    #[inline(always)]
    unsafe fn rows(&self, tile: &WorkTile, block: u32) -> u32 {
        // SAFETY: the spans' memory is readable.
        unsafe { self.spans.of_tile(tile, block) }.1
    }
}
