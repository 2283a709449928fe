//! Attention on Hopper where the keys are not one tensor of equal sequences: variable lengths,
//! partially filled caches, pages, splits of the keys, and query heads of one KV head packed into a
//! tile.
//!
//! A block computes a tile of `64 * WARPGROUPS` rows over one split of the keys at a time. Row `r`
//! of a sequence is token `r / pack` of head `r % pack`, so rows have no common stride: the
//! consumer warpgroups load their rows of Q with `cp.async` and store their rows of O themselves. A
//! producer loads K and V with TMA, in boxes of [`BOX`] keys that do not cross pages;
//! `hopper_pages` has the producer for smaller pages.
#![allow(non_snake_case, reason = "tensors have CuTe's names")]

use super::arguments::Arguments;
use super::config::Half;
use super::hopper_config::{
    BOX, Config, Element, KeyBoxes, KeyStages, OwnRows, SMALL_BOX, STAGES, SmemK, SmemO, SmemQ, SmemV,
    SmemVt, TmaKeyBox, TmaValueBox, ValueBoxes, VariedStorage, WARPGROUP, give_registers, piece, recomputed,
    take_registers,
};
use super::hopper_hidden::recompute;
use super::hopper_mainloop::{Barrier, Mainloop, ResultsOf, begin_turns, scale_rows};
use super::hopper_pages::{BoxMaps, produce_small};
use super::hopper_places::Places;
use super::hopper_rows::Rows;
use super::hopper_scores::{Options, unit};
use super::hopper_softmax::Softmax;
use super::hopper_tile::{Tile, Varied};
use super::recompute::is_hit;
use super::reference::is_far;
use super::rows::Rows as Moved;
use super::softmax::at;
use core::marker::PhantomData;
use moye_device::arch::{
    FULL_WARP, Word, Word64x2, cp_async_commit, cp_async_wait, fence_proxy_async_shared, lane_id, opaque,
    prefetch_tensor_map, sync_threads, sync_warp, thread_idx,
};
use moye_device::atom::mma::accumulator_column;
use moye_device::atom::wgmma::pack_fragment;
use moye_device::atom::{StaticTiledCopy, StaticTiledMma};
use moye_device::collective::TileScheduler;
use moye_device::memory::SharedStorage;
use moye_device::pipeline::{Producer, Role};
use moye_device::tensor::{Fragment, SharedTensor};

/// The kernel's body, which each entry instantiates. The maps of K and V have the modes (row,
/// column, KV head, sequence or page); `small` are the maps for pages of fewer than [`BOX`] tokens.
/// A block has `Config::THREADS` threads. Each role calls `tiles` to build the scheduler of this
/// block's tiles: row tile `m`, of `64 * WARPGROUPS` rows, of query head `n`, and split `k` of the
/// keys. Together the blocks compute the tiles of [`Arguments::grid`].
///
/// # Safety
/// Each map describes a tensor in device memory that matches its type. All elements that
/// `arguments` address lie inside their buffers, and `o`, `lse` and the workspaces overlap nothing
/// else. Heads of `q` and `o` are contiguous, their addresses and strides multiples of 16 bytes.
/// Pages have a multiple of [`SMALL_BOX`] tokens. Unless `C::GENERAL`, no option of `arguments`
/// changes individual scores; otherwise softcap or else scale is positive, and bias and mask are
/// readable by [`CHUNK`](super::CHUNK) keys. The kernel declares `VariedStorage<C>`.
#[inline(always)]
pub unsafe fn forward_varied<C: Config, S: TileScheduler>(
    maps: BoxMaps<'_, C, BOX>,
    small: BoxMaps<'_, C, SMALL_BOX>,
    arguments: &Arguments<C::T>,
    tiles: impl Fn() -> S,
) {
    let (role, thread) = (Role::of_thread(C::WARPGROUPS), thread_idx().x);
    // The kernel declares its storage; the pipelines order all accesses to a stage.
    let (sQ, sK, sV, keys, values) = VariedStorage::<C>::take();
    if thread == 0 {
        keys.init();
        values.init();
    }
    sync_threads();
    match role {
        Role::Producer { elected } => {
            give_registers::<C>();
            let mut tiles = tiles();
            let (mut keys, mut values) = (keys.producer(), values.producer());
            let by_warp = arguments.pages.address() != 0 && arguments.page < BOX;
            if by_warp && thread - C::WARPGROUPS * WARPGROUP < 32 {
                while let Some(tile) = tiles.next_tile() {
                    let tile = Tile::<C>::of(arguments, &tiles.place(tile));
                    produce_small(small, &tile, (sK, sV), (&mut keys, &mut values));
                }
            } else if !by_warp && elected {
                while let Some(tile) = tiles.next_tile() {
                    let tile = Tile::<C>::of(arguments, &tiles.place(tile));
                    produce(maps, &tile, (sK, sV), (&mut keys, &mut values));
                }
            }
        }
        Role::Consumer { warpgroup } => {
            take_registers::<C>();
            consume::<C>(arguments, tiles(), warpgroup, (sQ, sK, sV), (keys, values));
        }
    }
}

/// The producer: one thread that loads the tiles of K and V of a tile of queries.
///
/// # Safety
/// Same contract as [`forward_varied`].
#[inline(always)]
unsafe fn produce<C: Config>(
    (k, v): BoxMaps<'_, C, BOX>,
    tile: &Tile<'_, C>,
    (sK, sV): (SharedTensor<Element<C>, SmemK<C>>, SharedTensor<Element<C>, SmemV<C>>),
    (keys, values): (&mut Producer<STAGES, 1>, &mut Producer<STAGES, 1>),
) {
    let sK = sK.with_layout::<KeyBoxes<C>>(); // (BOX, D, BLK_N / BOX, STAGES)
    let sV = sV.with_layout::<ValueBoxes<C>>(); // (BOX, DV, BLK_N / BOX, STAGES)
    let (mK, mV) = (k.tensor(), v.tensor());
    let places = Places::new(tile.arguments, &tile.sequence);
    let head = tile.work.kv_head as i32;
    let boxes = const { C::BLK_N / BOX };
    macro_rules! load {
        ($pipeline:ident, $box:ident, $tensor:ident, $array:ident, $places:expr) => {
            let filling = $pipeline.acquire(const { C::BLK_N / BOX * $box::<C>::BYTES });
            let stage = filling.of($array); // (BOX, D or DV, BLK_N / BOX)
            for part in 0..boxes {
                let [row, batch] = $places[part as usize];
                let tile = stage.at((.., .., part));
                $box::<C>::get_slice().copy($tensor.offset([row, 0, head, batch]), tile, &filling);
            }
        };
    }
    // Each stage expects the bytes that are loaded into it.
    prefetch_tensor_map(k.pointer());
    prefetch_tensor_map(v.pointer());
    let (begin, mut next) = tile.keys;
    if !tile.exists() || begin >= next {
        return;
    }
    // Page numbers are read a tile ahead of the copies that need them.
    next -= 1;
    let mut of_values = places.of_tile::<C>(next);
    load!(keys, TmaKeyBox, mK, sK, of_values);
    let mut of_keys = if next > begin { places.of_tile::<C>(next - 1) } else { of_values };
    while next > begin {
        next -= 1;
        let later = if next > begin { places.of_tile::<C>(next - 1) } else { of_keys };
        load!(keys, TmaKeyBox, mK, sK, of_keys);
        load!(values, TmaValueBox, mV, sV, of_values);
        (of_values, of_keys) = (of_keys, later);
    }
    load!(values, TmaValueBox, mV, sV, of_values);
}

/// The stages of K and V.
type Pipelines<C> = (<KeyStages<C> as SharedStorage>::Tensors, <KeyStages<C> as SharedStorage>::Tensors);
/// Shared memory: (64, D, WARPGROUPS), (BLK_N, D, STAGES) and (BLK_N, DV, STAGES).
type Arrays<C> = (
    SharedTensor<Element<C>, SmemQ<C>>,
    SharedTensor<Element<C>, SmemK<C>>,
    SharedTensor<Element<C>, SmemV<C>>,
);

/// A consumer warpgroup: 64 rows of each tile.
///
/// # Safety
/// Same contract as [`forward_varied`]; all threads of the warpgroup execute this call.
#[inline(always)]
unsafe fn consume<C: Config>(
    arguments: &Arguments<C::T>,
    mut tiles: impl TileScheduler,
    warpgroup: u32,
    (sQ, sK, sV): Arrays<C>,
    (keys, values): Pipelines<C>,
) {
    let scale = unit::<C>(arguments) * core::f32::consts::LOG2_E;
    let (qk, pv) = (C::Qk::get_slice(0), C::Pv::get_slice(0));
    // Only this warpgroup accesses its rows of Q and O. O's address takes no register in the
    // mainloop.
    let sO = || sQ.with_layout::<SmemO<C>>().at((.., .., opaque(warpgroup))); // (64, DV)
    let sQ = sQ.at((.., .., warpgroup)); // (64, D)
    let sVt = sV.with_layout::<SmemVt<C>>(); // (DV, BLK_N, STAGES)
    let tSrQ = qk.descriptors_a(&qk.partition_a(sQ)); // (1, MMA_M, MMA_K)
    let tSrK = qk.descriptors_b(&qk.partition_b(sK)); // (1, MMA_N, MMA_K, STAGES)
    let tOrV = pv.descriptors_b(&pv.partition_b(sVt)); // (1, MMA_N, MMA_K, STAGES)
    let (keys, values) = (keys.consumer(), values.consumer());
    let config = PhantomData::<C>;
    let mut mainloop = Mainloop { tSrQ: &tSrQ, tSrK, tOrV, keys, values, warpgroup, scale, config };
    begin_turns::<C>(warpgroup);
    let Some(mut work) = tiles.next_tile() else { return };
    loop {
        let tile = Tile::<C>::of(arguments, &tiles.place(work));
        if tile.exists() {
            let first = tile.first + 64 * warpgroup;
            load_queries(&tile, first, sQ);
            fence_proxy_async_shared();
            Barrier::Warpgroup.of(warpgroup).sync();
            let mut rows = Rows::new::<C>(tile.sequence.visible, first, (tile.rows, arguments.pack));
            let (mut tOrO, softmax) = if tile.keys.0 >= tile.keys.1 {
                (Fragment::filled(0.0), Softmax::new(C::GENERAL, scale))
            } else if C::GENERAL {
                mainloop.all(tile.keys, &mut Options::new(tile.scores(), rows, tile.keys))
            } else {
                mainloop.all(tile.keys, &mut rows)
            };
            // With `RECOMPUTES`, values of the tile take no registers in the mainloop.
            let tile = if C::RECOMPUTES { Tile::<C>::of(arguments, &tiles.place(work)) } else { tile };
            let first = tile.first + 64 * recomputed::<C>(warpgroup);
            let again = normalize(&tile, &rows, &mut tOrO, &softmax);
            if arguments.splits > 1 {
                store_partial(&tile, &rows, &tOrO, &again, first);
            } else {
                store(&tile, recomputed::<C>(warpgroup), &tOrO, &again, first, sO());
            }
        }
        let Some(next) = tiles.next_tile() else { return };
        // All threads have read their rows of O, which the next Q overwrites.
        Barrier::Warpgroup.of(warpgroup).sync();
        work = next;
    }
}

/// Divides the results by the softmax's sums and writes the log-sum-exps, or a split's maxima and
/// sums. Returns which of the thread's two rows must be recomputed.
///
/// # Safety
/// Same contract as [`forward_varied`]; all lanes of the warp execute this call together.
#[inline(always)]
unsafe fn normalize<C: Config>(
    tile: &Tile<'_, C>,
    rows: &Rows,
    tOrO: &mut ResultsOf<C>,
    softmax: &Softmax,
) -> [bool; 2] {
    let unit = unit::<C>(tile.arguments);
    let scale = unit * core::f32::consts::LOG2_E;
    let (mut factors, mut again) = ([0.0; 2], [false; 2]);
    for index in 0..2 {
        let row = rows.row::<C>(index);
        let (sum, to_max) = softmax.row(index, C::GENERAL, scale);
        factors[index] = tile.finish(row, unit, sum) * to_max;
        again[index] = !C::GENERAL && is_far(&sum, scale);
    }
    scale_rows(tOrO, factors);
    for index in 0..2 {
        again[index] |= is_hit::<_, 2>(tOrO, index, true);
    }
    again
}

/// Copies a warpgroup's rows of Q, from row `first` of the sequence on, to its tile; rows past the
/// end become zeros.
///
/// # Safety
/// Same contract as [`forward_varied`].
#[inline(always)]
unsafe fn load_queries<C: Config>(
    tile: &Tile<'_, C>,
    first: u32,
    sQ: SharedTensor<Element<C>, OwnRows<SmemQ<C>>>,
) {
    let part = moved(C::D, thread_idx().x % WARPGROUP);
    let strides = &tile.arguments.stride_q;
    part.load(sQ.pointer().address(), |row| {
        let (token, head) = tile.token(first + row);
        let from = tile.sequence.q_offset(strides, head) + i64::from(token) * strides.row;
        (tile.arguments.q.offset(from).address(), first + row < tile.rows)
    });
    cp_async_commit();
    cp_async_wait::<0>();
}

/// Stores a warpgroup's rows as elements, through its tile of Q, which all products of the
/// warpgroup have read.
///
/// # Safety
/// Same contract as [`forward_varied`]; all threads of the warpgroup execute this call.
#[inline(always)]
unsafe fn store<C: Config>(
    tile: &Tile<'_, C>,
    warpgroup: u32,
    tOrO: &ResultsOf<C>,
    again: &[bool; 2],
    first: u32,
    sO: SharedTensor<Element<C>, OwnRows<SmemO<C>>>,
) {
    let thread = thread_idx().x % WARPGROUP;
    let to_shared = C::StoreO::get_slice(thread);
    // Only this warpgroup accesses the tile; barriers separate its products, its writes and its
    // reads.
    let rounded = pack_fragment::<Element<C>, _>(tOrO);
    Barrier::Warpgroup.of(warpgroup).sync();
    to_shared.store(&rounded, to_shared.partition_d(sO));
    sync_warp(FULL_WARP);
    recompute::<C, _>(&Varied { tile, first }, *again, |row, column, results| {
        let rounded = <C::T as Half>::pack(results[0], results[1]);
        for i in 0..2 {
            sO.at((row, column + i as u32)).set(0usize, rounded[i]);
        }
    });
    Barrier::Warpgroup.of(warpgroup).sync();
    moved(C::DV, thread)
        .store(sO.pointer().address(), |row| (tile.row_of_o(first + row), first + row < tile.rows));
}

/// A thread's part of a warpgroup's tile of Q or of O, of this many columns.
#[inline(always)]
fn moved(columns: i64, thread: u32) -> Moved {
    Moved::in_pieces(64, columns as u32, piece(columns) as u32, WARPGROUP, thread)
}

/// Stores a warpgroup's rows of a split as f32 in the workspace.
///
/// # Safety
/// Same contract as [`forward_varied`]; all lanes of the warp execute this call together.
#[inline(always)]
unsafe fn store_partial<C: Config>(
    tile: &Tile<'_, C>,
    rows: &Rows,
    tOrO: &ResultsOf<C>,
    again: &[bool; 2],
    first: u32,
) {
    // A thread recomputes only elements that it has stored itself.
    for index in 0..2 {
        let row = rows.row::<C>(index);
        let place = tile.arguments.partial_o.offset(tile.partial_row(row.unwrap_or(0)) * C::DV);
        let place = place.offset(accumulator_column(lane_id()));
        for pair in 0..const { C::DV as usize / 8 } {
            let bits = [0, 1].map(|i| tOrO[at(2, index, 2 * pair + i)].to_bits());
            let address = place.offset(pair as i64 * 8).address();
            Word64x2::store_global_if(row.is_some(), address, Word64x2(bits));
        }
    }
    recompute::<C, _>(&Varied { tile, first }, *again, |row, column, results| {
        let exists = first + row < tile.rows;
        let place = tile.partial_row((first + row).min(tile.rows - 1)) * C::DV + i64::from(column);
        let address = tile.arguments.partial_o.offset(place).address();
        Word64x2::store_global_if(exists, address, Word64x2(results.map(f32::to_bits)));
    });
}
