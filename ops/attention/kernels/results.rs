//! The epilogue: normalises results and stores them, as elements or, for a split, as f32 for the
//! kernel that reduces the splits.
//!
//! Functions without a contract have the contract of [`write`].
#![allow(non_snake_case, reason = "tensors have CuTe's names")]

use super::arguments::Window;
use super::config::{ElementOf, Mma, MmaConfig, SmemO, SmemQ, TileConfig, piece};
use super::recompute::{Again, is_hit};
use super::reference::is_far;
use super::rows::{Rows, offset};
use super::softmax::{OnlineSoftmax, RowSum, at, scale_rows};
use super::tile::{Sequences, Tile, Varied};
use moye_device::algorithm::copy;
use moye_device::arch::{
    Convert, FULL_WARP, Fma, Word, Word64x2, Word128, ballot, lane_id, opaque, sync_threads, sync_warp,
    thread_idx,
};
use moye_device::atom::StaticTiledMma;
use moye_device::atom::mma::accumulator_column;
use moye_device::atom::wgmma::PackPair as _;
use moye_device::memory::Shared;
use moye_device::tensor::{Fragment, OfTile, SharedTensor, StaticLayout};

/// Parameters of [`normalise`]: constants, and a factor of the values.
#[derive(Clone, Copy)]
pub struct Normalisation {
    /// The factor of the values.
    pub values: f32,
    /// Exponentials are larger by 2 to the power of this.
    pub offset: f32,
    /// Whether some keys are hidden.
    pub hides: bool,
    /// Whether rows are checked before they are scaled.
    pub checks_first: bool,
}

/// Divides the results by the softmax's sums and writes the log-sum-exps, or a split's maxima and
/// sums, of the rows that exist. Returns which of the thread's rows must be recomputed.
///
/// # Safety
/// The log-sum-exp or the workspace has room for the rows, which no other thread writes; the sinks
/// may be read. All lanes of the warp execute this call together.
#[inline(always)]
pub unsafe fn normalise<C: TileConfig, S: Sequences<C>, L: OfTile, const ROWS: usize>(
    tile: &Tile<'_, C, S>,
    rows: [Option<u32>; ROWS],
    tOrO: &mut Fragment<f32, L>,
    softmax: &OnlineSoftmax<ROWS>,
    Normalisation { values, offset, hides, checks_first }: Normalisation,
) -> [bool; ROWS] {
    let unit = tile.unit();
    let scale = unit * core::f32::consts::LOG2_E;
    let (mut factors, mut again) = ([0.0; ROWS], [false; ROWS]);
    for row in 0..ROWS {
        again[row] = is_hit::<_, ROWS>(tOrO, row, hides && checks_first);
        let (sum, to_max) = softmax.row(row, C::GENERAL, scale, offset);
        factors[row] = tile.finish(rows[row], lane_id().is_multiple_of(4), unit, sum) * to_max * values;
        again[row] |= !C::GENERAL && is_far(&sum, scale);
    }
    scale_rows(tOrO, factors);
    for row in 0..ROWS {
        again[row] |= is_hit::<_, ROWS>(tOrO, row, hides && !checks_first);
    }
    again
}

/// Stores a thread's rows: a split's as f32 in the workspace, others through shared memory, where
/// `to_shared` stores them and `put` the recomputed results of a row's column and the next;
/// `to_global` stores them from there. `of_warp` is the same as in [`Again::recompute`].
///
/// # Safety
/// The workspace has room for the rows, which no other thread writes. All lanes of the warp execute
/// this call together.
#[inline(always)]
#[allow(clippy::too_many_arguments, reason = "closures of both instructions")]
pub unsafe fn store_rows<C: TileConfig, L: StaticLayout, const ROWS: usize>(
    rows: &Again<'_, '_, C, Varied>,
    again: [bool; ROWS],
    of_thread: [Option<u32>; ROWS],
    tOrO: &Fragment<f32, L>,
    of_warp: impl Fn(u32) -> u32,
    to_shared: impl FnOnce(),
    put: impl Fn(u32, u32, [f32; 2]),
    to_global: impl FnOnce(),
) {
    let tile = rows.tile;
    let split = tile.arguments.splits > 1;
    if split {
        for index in 0..ROWS {
            let row = of_thread[index];
            let place = tile.arguments.partial_o.offset(tile.partial_row(row.unwrap_or(0)) * C::DV);
            let place = place.offset(accumulator_column(lane_id()));
            for pair in 0..const { C::DV as usize / 8 } {
                let bits = [0, 1].map(|i| tOrO[at(ROWS, index, 2 * pair + i)].to_bits());
                let address = place.offset(pair as i64 * 8).address();
                Word64x2::store_global_if(row.is_some(), address, Word64x2(bits));
            }
        }
    } else {
        to_shared();
    }
    // A thread recomputes only elements of a split that it has stored itself. With one call for
    // both, kernels have 3 to 10 % fewer instructions; `forward_*_96_general` spills 12 bytes,
    // `hopper_*_{192x128,256}_general` 52, before and after the mainloop.
    rows.recompute(again, of_warp, |row, column, results| {
        if split { store_recomputed(rows, row, column, results) } else { put(row, column, results) }
    });
    if !split {
        to_global();
    }
}

/// Stores recomputed results of a column of a split's row and the next.
#[inline(always)]
unsafe fn store_recomputed<C: TileConfig>(
    rows: &Again<'_, '_, C, Varied>,
    row: u32,
    column: u32,
    results: [f32; 2],
) {
    let (row, all) = (rows.first + row, rows.tile.rows());
    let place = rows.tile.partial_row(row.min(all - 1)) * C::DV + i64::from(column);
    let address = rows.tile.arguments.partial_o.offset(place).address();
    Word64x2::store_global_if(row < all, address, Word64x2(results.map(f32::to_bits)));
}

/// Writes the tile of a single group through the memory of the queries: `sQ` is its shared address
/// and its tensor; `rows` are the thread's rows of the tile.
///
/// # Safety
/// All threads of the block call it together, and none reads `sQ` any more; the targets may be
/// written, and no other block touches them.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
#[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
pub unsafe fn write<C: MmaConfig, L: OfTile, const ROWS: usize>(
    tile: &Tile<'_, C, Varied>,
    thread: u32,
    rows: [u32; ROWS],
    sQ: (u32, SharedTensor<ElementOf<C>, SmemQ<C>>),
    results: &mut Fragment<f32, L>,
    softmax: &OnlineSoftmax<ROWS>,
) where
    f32: Convert<ElementOf<C>>,
{
    let rows = rows.map(|row| tile.row(row));
    // `ptxas` spills if two rows are checked after scaling, or four before it.
    let checks_first = ROWS == 2;
    let hides = C::GENERAL || tile.arguments.window != Window::ALL;
    let again = normalise(
        tile,
        rows,
        results,
        softmax,
        Normalisation { values: 1.0, offset: 0.0, hides, checks_first },
    );
    let of_warp = |index: u32| {
        let block = index / 2 * C::WARPS as u32 + opaque(thread_idx().x) / 32;
        16 * block + 8 * (index % 2)
    };
    let to_shared = || {
        let sO = sQ.1.with_layout::<SmemO<C>>();
        let mut tCsO = Mma::<C>::get_slice(thread).partition_c(sO); // (MMA, MMA_M, MMA_N)
        copy(&results.convert::<ElementOf<C>>(), &mut tCsO);
    };
    let put = |row, column, results| {
        let place = sQ.0 + offset((C::BLK_M, C::DV as u32), piece(C::DV), row, column);
        u32::store_shared(place, pack::<C>(results));
    };
    let to_global = || {
        sync_threads();
        let part = Rows::new(C::BLK_M, C::DV as u32, piece(C::DV), C::THREADS, opaque(thread));
        part.store(sQ.0, |row| (tile.row_of_o(tile.first + row, 0), tile.first + row < tile.rows()));
    };
    let rows_again = Again { tile, first: tile.first };
    store_rows(&rows_again, again, rows, results, of_warp, to_shared, put, to_global);
}

/// Writes the tile of several groups, one warp each, which have accumulated it over different
/// keys. Each group stores its normalised results in `buffer`; then the threads sum them in the
/// order of the groups, weighted by maxima and sums.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
#[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
pub unsafe fn merge<C: MmaConfig, L: StaticLayout, const ROWS: usize>(
    tile: &Tile<'_, C, Varied>,
    thread: u32,
    rows: [u32; ROWS],
    buffer: u32,
    results: &Fragment<f32, L>,
    softmax: &OnlineSoftmax<ROWS>,
) {
    let unit = tile.unit();
    let (groups, pitch) = (C::GROUPS as u32, C::DV as u32 + 8);
    // A group's row: DV results, then its maximum and its sum.
    let place = |group: u32, row: u32| {
        Shared::<f32>::from_address(buffer).offset(((group * C::BLK_M + row) * pitch) as i32)
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
    const { assert!(C::THREADS >= C::BLK_M && C::THREADS % C::BLK_M == 0) };
    let across = C::THREADS / C::BLK_M;
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
    let of_row = tile.row(row);
    let inverse = tile.finish(of_row, thread.is_multiple_of(across), unit, RowSum { max, sum });
    let o = tile.row_of_o(tile.first + row, 0);
    let partial = tile.arguments.partial_o.offset(tile.partial_row(tile.first + row) * C::DV);
    let split = tile.arguments.splits > 1;
    let (mut column, mut nothing) = (first, 0.0f32);
    while column < C::DV as u32 {
        let mut sum = [0.0f32; 4];
        for group in 0..groups {
            let word = Word128::load_shared(place(group, row).offset(column as i32).address());
            let weight = weight(group) * inverse;
            for i in 0..4 {
                sum[i] += f32::from_bits(word.0[i]) * weight;
            }
        }
        for i in 0..4 {
            // A NaN or infinite result turns the 0 into NaN.
            nothing = sum[i].fma(0.0, nothing);
        }
        if split {
            let address = partial.offset(column).address();
            Word128::store_global_if(of_row.is_some(), address, Word128(sum.map(f32::to_bits)));
        } else {
            let words = [pack::<C>([sum[0], sum[1]]), pack::<C>([sum[2], sum[3]])];
            Word64x2::store_global_if(of_row.is_some(), o + u64::from(2 * column), Word64x2(words));
        }
        column += 4 * across;
    }
    // A quad recomputes a row of its warp; other threads have stored the row's elements.
    let hits = ballot(FULL_WARP, nothing != 0.0);
    let (quad, of_warp) = (lane / 4, 32 / across);
    let again = quad < of_warp && hits >> (quad % of_warp * across) & ((1 << across) - 1) != 0;
    sync_warp(FULL_WARP);
    let rows_again = Again { tile, first: tile.first };
    rows_again.recompute(
        [again],
        |_| opaque(thread) / 32 * of_warp,
        |row, column, results| {
            if split {
                return store_recomputed(&rows_again, row, column, results);
            }
            let address = tile.row_of_o(tile.first + row, column);
            u32::store_global_if(tile.row(row).is_some(), address, pack::<C>(results));
        },
    );
}

/// A word of two results.
#[inline(always)]
fn pack<C: MmaConfig>(results: [f32; 2]) -> u32 {
    ElementOf::<C>::pack(results[0], results[1])
}

/// The bytes of shared memory that [`merge`] needs.
pub const fn merge_bytes<C: MmaConfig>() -> i64 {
    C::GROUPS * C::BLK_M as i64 * (C::DV + 8) * 4
}
