//! A consumer warpgroup's stores of normalised results: by TMA, from registers, or through shared
//! memory.
#![allow(non_snake_case, reason = "tensors have CuTe's names")]

use super::super::config::Half;
use super::super::recompute::Again;
use super::super::results::{self, Normalisation};
use super::super::rows::Rows;
use super::super::softmax::at;
use super::super::tile::{Sequences, Varied};
use super::config::{Element, HopperConfig, WARPGROUP, recomputed};
use super::layouts::{OwnRows, SmemO, SmemQ, TmaO, piece};
use super::mainloop::{Barrier, ResultsOf};
use moye_device::arch::{FULL_WARP, Word, Word128, lane_id, opaque, sync_warp, thread_idx, transpose_quad};
use moye_device::atom::StaticTiledCopy;
use moye_device::atom::tma::TmaMap;
use moye_device::atom::wgmma::{PackPair as _, pack_fragment};
use moye_device::collective::{reuse_tile, store_tile};
use moye_device::tensor::SharedTensor;

/// A warpgroup's rows of O in shared memory, (64, DV).
pub type SharedResults<C> = SharedTensor<<C as HopperConfig>::T, OwnRows<SmemO<C>>>;

/// Tile `tile` of O in the memory of the tiles of Q.
#[inline(always)]
pub fn tile_of_o<C: HopperConfig>(sQ: SharedTensor<Element<C>, SmemQ<C>>, tile: u32) -> SharedResults<C> {
    SharedTensor::<C::T, SmemO<C>>::shared(sQ.pointer().cast()).at((.., .., tile))
}

/// The parameters of [`normalise`](super::super::results::normalise): `values` is the factor of the
/// values, and `hides` says whether some keys are hidden.
#[inline(always)]
pub const fn normalisation<C: HopperConfig>(values: f32, hides: bool) -> Normalisation {
    Normalisation { values, offset: C::OFFSET as f32, hides, checks_first: false }
}

/// The first of a warp's eight rows at an index, of a warpgroup's.
#[inline(always)]
pub fn of_warp(index: u32) -> u32 {
    opaque(thread_idx().x % WARPGROUP) / 32 * 16 + 8 * index
}

/// A thread's part of a warpgroup's tile of Q or of O, of this many columns.
#[inline(always)]
pub fn moved(columns: i64, thread: u32) -> Rows {
    Rows::new(64, columns as u32, piece(columns), WARPGROUP, thread)
}

/// Writes recomputed results of a column and the next to a warpgroup's tile of O.
#[inline(always)]
unsafe fn put<C: HopperConfig>(sO: SharedResults<C>, row: u32, column: u32, results: [f32; 2]) {
    let rounded = C::T::round(results[0], results[1]);
    for i in 0..2 {
        sO.at((row, column + i as u32)).set(0usize, rounded[i]);
    }
}

/// Stores a warpgroup's rows by TMA from its tile of O. The store is still in flight when this
/// returns.
///
/// # Safety
/// All threads of the warpgroup execute this call; only this warpgroup accesses the tile.
#[inline(always)]
pub unsafe fn store_by_tma<C: HopperConfig, S: Sequences<C>>(
    rows: &Again<'_, '_, C, S>,
    again: &[bool; 2],
    tOrO: &ResultsOf<C>,
    sO: SharedResults<C>,
    warpgroup: u32,
    map: &TmaMap<TmaO<C>>,
    factor: f32,
) {
    let thread = recomputed::<C>(thread_idx().x % WARPGROUP);
    let to_shared = C::StoreO::get_slice(thread);
    let rounded = pack_fragment::<C::T, _>(tOrO);
    reuse_tile::<0>(thread, Barrier::Warpgroup.of(warpgroup));
    to_shared.store(&rounded, to_shared.partition_d(sO));
    sync_warp(FULL_WARP);
    rows.recompute(
        *again,
        of_warp,
        #[inline(always)]
        |row, column, results| put::<C>(sO, row, column, results.map(|result| result * factor)),
    );
    let work = &rows.tile.work;
    let gO = map.tensor().at([rows.first / 64, 0, work.head, work.batch]); // (64, DV)
    store_tile(sO, gO, thread_idx().x % WARPGROUP, Barrier::Warpgroup.of(warpgroup));
}

/// Stores a warpgroup's rows from registers, as no shared memory is left for them.
///
/// # Safety
/// All threads of the warpgroup execute this call; no other thread writes the rows.
#[inline(always)]
pub unsafe fn store_words<C: HopperConfig, S: Sequences<C>>(
    rows: &Again<'_, '_, C, S>,
    again: &[bool; 2],
    of_thread: [Option<u32>; 2],
    tOrO: &ResultsOf<C>,
) {
    let tile = rows.tile;
    // Rows past the end are not stored.
    for index in 0..2 {
        let row = of_thread[index];
        let address = tile.row_of_o(row.unwrap_or(0), lane_id() % 4 * 8);
        for part in 0..const { C::DV as usize / 32 } {
            // Four pairs of columns, 8 apart.
            let words = [0, 2, 4, 6].map(|column| {
                let pair = [0, 1].map(|i| tOrO[at(2, index, 8 * part + column + i)]);
                C::T::pack(pair[0], pair[1])
            });
            let word = Word128(transpose_quad(words));
            Word128::store_global_if(row.is_some(), address + 64 * part as u64, word);
        }
    }
    // Other threads have stored the elements that a thread recomputes.
    sync_warp(FULL_WARP);
    rows.recompute(
        *again,
        of_warp,
        #[inline(always)]
        |row, column, results| {
            let row = rows.first + row;
            let address = tile.row_of_o(row.min(tile.rows() - 1), column);
            let word = C::T::pack(results[0], results[1]);
            u32::store_global_if(row < tile.rows(), address, word);
        },
    );
}

/// Stores a warpgroup's rows through its tile of Q, which all products of the warpgroup have read,
/// or as a split's.
///
/// # Safety
/// All threads of the warpgroup execute this call; no other thread writes the rows. Heads are
/// contiguous, at multiples of 16 bytes.
#[inline(always)]
pub unsafe fn store_rows<C: HopperConfig>(
    rows: &Again<'_, '_, C, Varied>,
    again: [bool; 2],
    of_thread: [Option<u32>; 2],
    tOrO: &ResultsOf<C>,
    sO: SharedResults<C>,
    warpgroup: u32,
) {
    let (tile, first) = (rows.tile, rows.first);
    // Only this warpgroup accesses the tile; barriers separate its products, its writes and its
    // reads.
    let to_shared = || {
        let to_shared = C::StoreO::get_slice(thread_idx().x % WARPGROUP);
        let rounded = pack_fragment::<C::T, _>(tOrO);
        Barrier::Warpgroup.of(warpgroup).sync();
        to_shared.store(&rounded, to_shared.partition_d(sO));
        sync_warp(FULL_WARP);
    };
    let put = |row, column, results| put::<C>(sO, row, column, results);
    let to_global = || {
        Barrier::Warpgroup.of(warpgroup).sync();
        moved(C::DV, thread_idx().x % WARPGROUP)
            .store(sO.pointer().address(), |row| (tile.row_of_o(first + row, 0), first + row < tile.rows()));
    };
    results::store_rows(rows, again, of_thread, tOrO, of_warp, to_shared, put, to_global);
}
