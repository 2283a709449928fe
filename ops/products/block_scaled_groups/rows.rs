//! Products along the rows of groups, of 8-bit floats with the scales of their blocks.
//!
//! `wgmma` takes 8-bit operands whose rows along K are contiguous, and a block's scale is for 128
//! rows of the operands, wherever a group begins. A kernel therefore copies both operands to
//! K-contiguous matrices. The K tiles of a group are the blocks of 128 rows that contain its rows,
//! with zeros for the rows of other groups: block `b` of group `g` is tile `b + g`, as two groups
//! share at most one block.
#![allow(non_snake_case, reason = "CuTe's names")]

use crate::block_scaled::kernel::{CopyA, CopyB, Square, Tiling};
use crate::operand::Place;
use core::marker::PhantomData;
use moye_device::algorithm::CopyAs;
use moye_device::arch::{Word as _, Word128, overlap_launches, wait_for_prior_kernels};
use moye_device::collective::*;
use moye_device::layout::layout;
use moye_device::prelude::*;

/// Stages of the mainloop.
const STAGES: u32 = 6;
/// Threads of a block that copies.
pub const COPY_THREADS: u32 = 256;
/// Columns of such a block, of a K tile.
pub const COPY_COLUMNS: u32 = 128;
/// Bytes of a vector.
const VECTOR: u32 = 16;

/// The K tiles of a group: from its first block of 128 rows on, at least one.
#[derive(Clone, Copy)]
struct GroupTilesOfK {
    /// The rows.
    rows: (u32, u32),
    /// The first tile, and the end.
    tiles: (u32, u32),
}

/// The K tiles of a group.
///
/// # Safety
/// The ends of the groups are readable.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
unsafe fn tiles_of(groups: &Groups, group: u32) -> GroupTilesOfK {
    // SAFETY: the ends are readable.
    let (first, end) = unsafe { groups.of(group) };
    let block = first / SCALED_K;
    let blocks_end = end.div_ceil(SCALED_K).max(block + 1);
    GroupTilesOfK { rows: (first, end), tiles: (block + group, blocks_end + group) }
}

/// An operand that is copied, and its scales.
#[repr(C)]
#[derive(Clone, Copy, Debug, KernelParam)]
pub struct Copied {
    /// The elements (rows, columns).
    pub x: Global<u8>,
    /// Their strides.
    pub of_x: Place,
    /// The scales of 128 rows of a column, or of 128 x 128 elements.
    pub scales: Global<f32>,
    /// Elements from block to block of rows of them, and from column to column.
    pub of_scales: Place,
    /// Columns with one scale: 1 or 128.
    pub columns_of_scale: u32,
    /// Columns.
    pub columns: u32,
    /// How it is read.
    pub order: Order,
}

/// The elements that are contiguous, from multiples of 16 bytes on.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, KernelParam)]
pub struct Order {
    /// 16 along a column.
    pub columns: bool,
    /// 16 along a row, all of which are whole vectors.
    pub rows: bool,
}
static_layout! {
    /// A K tile of an operand, read by rows: (column, row), with rows that begin in different
    /// banks.
    Tile = layout!((COPY_COLUMNS as i64, SCALED_K as i64):(1, { COPY_COLUMNS as i64 + VECTOR as i64 }));
}

/// Copies an operand to `y`, a row of `padded` elements for each column, and its scales to
/// `scales`, (tiles, columns). Grid: `(padded / 128, ceil(columns / 128))`.
///
/// # Safety
/// The operand has the groups' rows, and `y` and `scales` room; they are disjoint. There is an end
/// for each group, in nondecreasing order.
#[kernel(threads = COPY_THREADS, shared = (sX: SharedArray<u8, Tile>))]
pub unsafe fn block_scaled_k_copy(
    from: Copied,
    y: GlobalMut<u8>,
    scales: GlobalMut<f32>,
    padded: u32,
    groups: Groups,
) {
    overlap_launches();
    let (tile, thread) = (block_idx().x, thread_idx().x);
    // The group of the tile is the last one that begins at or before it.
    let (mut low, mut high) = (0, groups.count);
    while high - low > 1 {
        let middle = (low + high) / 2;
        if tiles_of(&groups, middle).tiles.0 <= tile {
            low = middle;
        } else {
            high = middle;
        }
    }
    let GroupTilesOfK { rows: (first, end), tiles: (begins, ends) } = tiles_of(&groups, low);
    if tile < begins || tile >= ends {
        return;
    }
    let (block, first_column) = (tile - low, block_idx().y * COPY_COLUMNS);
    let place = |row: u32, column: u32| {
        let at = i64::from(row) * from.of_x.row + i64::from(column) * from.of_x.column;
        from.x.offset(at)
    };
    let of_group = |row: u32| row >= first && row < end;
    let vectors = COPY_COLUMNS * SCALED_K / VECTOR / COPY_THREADS;
    if from.order.rows {
        for i in 0..vectors {
            let vector = thread + i * COPY_THREADS;
            let (row, column) = (vector / (COPY_COLUMNS / VECTOR), vector % (COPY_COLUMNS / VECTOR) * VECTOR);
            let (at, x) = (block * SCALED_K + row, first_column + column);
            let exists = of_group(at) && x < from.columns;
            let bytes = Word128::load_global_if(exists, place(at, x).address());
            Word128::store_shared(sX.address_of((column, row)), bytes);
        }
        sync_threads();
    }
    for i in 0..vectors {
        let vector = thread + i * COPY_THREADS;
        // Adjacent threads read adjacent bytes.
        let parts = SCALED_K / VECTOR;
        let (column, part) = match from.order.columns {
            true => (vector / parts, vector % parts),
            false => (vector % COPY_COLUMNS, vector / COPY_COLUMNS),
        };
        let x = first_column + column;
        if x >= from.columns {
            continue;
        }
        if part == 0 {
            let of_columns = i64::from(x / from.columns_of_scale) * from.of_scales.column;
            let at = i64::from(block) * from.of_scales.row + of_columns;
            // The block of a group without rows may be past the last one.
            let scale = from.scales.offset(at).read_if(first < end);
            scales.offset(i64::from(tile) * i64::from(from.columns) + i64::from(x)).write(0, scale);
        }
        let row = block * SCALED_K + part * VECTOR;
        let bytes = if from.order.columns && of_group(row) && row + VECTOR <= end {
            Word128::load_global_if(true, place(row, x).address())
        } else {
            let mut bytes = [0u8; VECTOR as usize];
            if from.order.rows {
                for i in 0..VECTOR {
                    bytes[i as usize] = sX.get((column, part * VECTOR + i));
                }
            } else {
                for i in 0..VECTOR {
                    bytes[i as usize] = place(row + i, x).read_if(of_group(row + i));
                }
            }
            let mut words = [0; 4];
            for i in 0..VECTOR {
                words[i as usize / 4] |= u32::from(bytes[i as usize]) << (8 * (i % 4));
            }
            Word128(words)
        };
        let to = y.offset(i64::from(x) * i64::from(padded) + i64::from(tile * SCALED_K + part * VECTOR));
        Word128::store_global(to.address(), bytes);
    }
}

/// The mainloop of the instruction `A`: scales of both operands are for 1 x 128 elements.
pub type Loop<A> = Promoted<
    u8,
    <Square<A> as Tiling>::SmemA,
    <Square<A> as Tiling>::SmemB,
    <Square<A> as Tiling>::Mma,
    OfGroup,
    STAGES,
    1,
    3,
    RowScales,
>;

/// Rows of A, which every group has: a tile's `m` counts those of all groups.
#[derive(Clone, Copy, Debug)]
pub struct OfGroup {
    /// Rows.
    m: u32,
    /// Tiles of a group along them.
    tiles: u32,
}

impl RowSpans for OfGroup {
    #[inline(always)]
    unsafe fn of_tile(&self, tile: &WorkTile, block: u32) -> (u32, u32) {
        let row = tile.m % self.tiles * block;
        (row, self.m.saturating_sub(row))
    }

    #[inline(always)]
    fn end(&self, _: u32) -> u32 {
        self.m
    }
}

/// The tiles of all results for the mainloop `M`, group by group: each has the K tiles of its
/// group.
pub struct TilesOfRows<M> {
    groups: Groups,
    bands: Bands,
    rows: OfGroup,
    next: u32,
    mainloop: PhantomData<M>,
}

impl<M> Clone for TilesOfRows<M> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}
impl<M> Copy for TilesOfRows<M> {}

impl<M: Mainloop> TileScheduler for TilesOfRows<M> {
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    fn next_tile(&mut self) -> Option<WorkTile> {
        if self.next >= self.bands.tiles().count() {
            return None;
        }
        let tile = self.bands.work(M::worker(), self.next, (0, 1));
        self.next += M::worker().count;
        // SAFETY: the kernel's contract: the ends are readable.
        let (k, k_end) = unsafe { tiles_of(&self.groups, tile.batch) }.tiles;
        Some(WorkTile { m: tile.batch * self.rows.tiles + tile.m, batch: 0, k, k_end, ..tile })
    }
}

/// To the results of the groups.
#[derive(Clone, Copy)]
pub struct ToGroups<O: Element> {
    /// The result of the first group; `group` is the distance to the next.
    target: Target<O>,
    rows: OfGroup,
}

impl<O: Paired, M: Mainloop<Accumulator = f32>> Sink<M> for ToGroups<O>
where
    f32: CopyAs<O>,
{
    type Storage = ();

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn store(
        &self,
        tCrC: &Accumulators<M>,
        staging: &(),
        tile: &WorkTile,
        team: &Team,
        mainloop: &mut M,
    ) {
        let c = self.target.c.offset(i64::from(tile.m / self.rows.tiles) * self.target.group);
        let sink = ToSpans::new(Target { c, group: 0, ..self.target }, self.rows);
        // SAFETY: the group's result is writable; one team stores each tile.
        unsafe { Sink::<M>::store(&sink, tCrC, staging, tile, team, mainloop) };
    }
}

/// The copied operands.
#[repr(C)]
#[derive(Clone, Copy, Debug, KernelParam)]
pub struct Operands {
    /// The scales of A, (tiles, m).
    pub scale_a: Global<f32>,
    /// The scales of B, (tiles, n).
    pub scale_b: Global<f32>,
    /// Rows of the result.
    pub m: u32,
    /// Columns of the result.
    pub n: u32,
    /// Rows of tiles in a band.
    pub band: u32,
}

/// `c[g] = (scale_a a)[rows of g]^T (scale_b b)[rows of g]` for each group g, by a persistent grid.
///
/// # Safety
/// The maps are of (M, K, 1) and (N, K, 1) in memory of the device, built by [`CopyA`] and
/// [`CopyB`] of [`Square`], of operands that [`block_scaled_k_copy`] has written with their scales.
/// There is an end for each group, in nondecreasing order. `target` has the results, which overlap
/// no operand.
#[kernel(
    threads = Loop::<A>::THREADS,
    min_blocks = 1,
    shared = StorageOf<Loop<A>, ToGroups<O>>,
    instances = (
        block_scaled_k_bf16<bf16, SM90_64x128x32_F32E4M3E4M3_SS_TN>,
        block_scaled_k_f16<f16, SM90_64x128x32_F32E4M3E4M3_SS_TN>,
        block_scaled_k_f32<f32, SM90_64x128x32_F32E4M3E4M3_SS_TN>,
        block_scaled_k_bf16_e4m3_e5m2<bf16, SM90_64x128x32_F32E4M3E5M2_SS_TN>,
        block_scaled_k_bf16_e5m2_e4m3<bf16, SM90_64x128x32_F32E5M2E4M3_SS_TN>,
        block_scaled_k_bf16_e5m2_e5m2<bf16, SM90_64x128x32_F32E5M2E5M2_SS_TN>,
        block_scaled_k_f32_e4m3_e5m2<f32, SM90_64x128x32_F32E4M3E5M2_SS_TN>,
        block_scaled_k_f32_e5m2_e4m3<f32, SM90_64x128x32_F32E5M2E4M3_SS_TN>,
        block_scaled_k_f32_e5m2_e5m2<f32, SM90_64x128x32_F32E5M2E5M2_SS_TN>
    )
)]
pub unsafe fn block_scaled_k<O: Paired, A: WgmmaAtom<OperandA = u64, D = f32> + 'static>(
    a: TensorMap,
    b: TensorMap,
    target: Target<O>,
    operands: Operands,
    groups: Groups,
) where
    f32: CopyAs<O>,
{
    wait_for_prior_kernels();
    let Operands { scale_a, scale_b, m, n, band } = operands;
    let rows = OfGroup { m, tiles: m.div_ceil(Loop::<A>::TILE.0) };
    let scales = |scales: Global<f32>, k: u32| BlockScales { scales, row: 1, k, batch: 0 };
    let scaled = Scaled {
        a: CopyA::<Square<A>>::tensor(&a),
        b: CopyB::<Square<A>, 1>::tensor(&b),
        scale_a: scales(scale_a, m),
        scale_b: RowScales(scales(scale_b, n)),
        columns: n,
        spans: rows,
    };
    let bands = Bands::new(Loop::<A>::tiles((m, n, SCALED_K), groups.count), band);
    let next = Loop::<A>::worker().number;
    let scheduler = TilesOfRows::<Loop<A>> { groups, bands, rows, next, mainloop: PhantomData };
    gemm_warp_specialised::<Loop<A>, _, _, _>(scaled, scheduler, (), ToGroups { target, rows });
}
