//! Forward attention on Hopper: TMA, `wgmma`, with the softmax of one warpgroup overlapped with the
//! products of another.
//!
//! A block computes a tile of `64 * WARPGROUPS` query rows at a time, 64 per consumer warpgroup; a
//! producer warp loads Q, K and V. A consumer keeps the scores `S`, the probabilities `P` and its
//! rows of O in registers (`hopper_mainloop`). Blocks are persistent.
#![allow(non_snake_case, reason = "tensors have CuTe's names")]

use super::arguments::{Arguments, Window};
use super::config::Half;
use super::hopper_config::{
    Config, Element, KeyStages, OwnRows, QueryStage, SmemK, SmemO, SmemQ, SmemV, SmemVt, Storage, TmaK, TmaO,
    TmaQ, TmaV, WARPGROUP, give_registers, recomputed, take_registers,
};
use super::hopper_hidden::{TileRows, recompute};
use super::hopper_mainloop::{Barrier, Mainloop, ResultsOf, begin_turns, scale_rows};
use super::hopper_rows::{Rows, key_tiles};
use super::hopper_softmax::Softmax;
use super::recompute::{Source, is_hit};
use super::reference::is_far;
use super::schedule::Work;
use super::sequence::Visible;
use super::softmax::at;
use core::marker::PhantomData;
use moye_device::arch::{
    FULL_WARP, Word, Word128, bulk_wait_group_read, lane_id, prefetch_tensor_map, sync_threads, sync_warp,
    thread_idx, transpose_quad,
};
use moye_device::atom::tma::TmaMap;
use moye_device::atom::wgmma::pack_fragment;
use moye_device::atom::{StaticTiledCopy, StaticTiledMma};
use moye_device::collective::{TileScheduler, WorkTile, reuse_tile, store_tile};
use moye_device::memory::{self, SharedStorage};
use moye_device::pipeline::Role;
use moye_device::tensor::SharedTensor;

/// The tensor maps of Q, K, V and O, all of modes (row, column, head, sequence), as parameters of
/// the kernel.
#[derive(Clone, Copy)]
pub struct Maps<'a, C: Config> {
    /// Queries.
    pub q: &'a TmaMap<TmaQ<C>>,
    /// Keys.
    pub k: &'a TmaMap<TmaK<C>>,
    /// Values.
    pub v: &'a TmaMap<TmaV<C>>,
    /// Results.
    pub o: &'a TmaMap<TmaO<C>>,
}

/// The kernel's body, which each entry instantiates. A block has `Config::THREADS` threads; the
/// grid has any number of blocks. Each role calls `tiles` to build the scheduler, which takes no
/// registers before that call. It returns this block's tiles of O: row tile `m`, of
/// `64 * WARPGROUPS` rows, of query head `n`.
///
/// # Safety
/// Each map describes a tensor in device memory that matches its type; `lse` has room for each row,
/// or is null. The kernel declares `Storage<C>`.
#[inline(always)]
pub unsafe fn forward<C: Config, S: TileScheduler>(
    maps: Maps<'_, C>,
    arguments: &Arguments<C::T>,
    tiles: impl Fn() -> S,
) {
    let role = Role::of_thread(C::WARPGROUPS);
    // The kernel declares its storage; the pipelines order all accesses to a stage.
    let (sQ, sK, sV, queries, keys, values) = Storage::<C>::take();
    if thread_idx().x == 0 {
        queries.0.init();
        queries.1.init();
        queries.2.init();
        keys.init();
        values.init();
    }
    sync_threads();
    match role {
        Role::Producer { elected } => {
            give_registers::<C>();
            if elected {
                produce::<C>(maps, arguments, tiles(), (sQ, sK, sV), (queries, keys, values));
            }
        }
        Role::Consumer { warpgroup } => {
            take_registers::<C>();
            consume::<C>(maps, arguments, tiles(), warpgroup, (sQ, sK, sV), (queries, keys, values));
        }
    }
}

/// Shared memory: (64, D, TILES_Q), (BLK_N, D, STAGES) and (BLK_N, DV, STAGES).
type Arrays<C> = (
    SharedTensor<Element<C>, SmemQ<C>>,
    SharedTensor<Element<C>, SmemK<C>>,
    SharedTensor<Element<C>, SmemV<C>>,
);
/// A stage of Q for each warpgroup, and the stages of K and V.
type Pipelines<C> = (
    <(QueryStage, QueryStage, QueryStage) as SharedStorage>::Tensors,
    <KeyStages<C> as SharedStorage>::Tensors,
    <KeyStages<C> as SharedStorage>::Tensors,
);

/// The producer: one thread that loads the tiles of Q, K and V.
///
/// # Safety
/// Same contract as [`forward`].
#[inline(always)]
unsafe fn produce<C: Config>(
    maps: Maps<'_, C>,
    arguments: &Arguments<C::T>,
    mut tiles: impl TileScheduler,
    (sQ, sK, sV): Arrays<C>,
    (queries, keys, values): Pipelines<C>,
) {
    let visible = Visible::new(arguments.q_length, arguments.k_length, arguments.window);
    let (load_q, load_k, load_v) = (TmaQ::<C>::get_slice(), TmaK::<C>::get_slice(), TmaV::<C>::get_slice());
    let (mQ, mK, mV) = (maps.q.tensor(), maps.k.tensor(), maps.v.tensor());
    let mut queries = [queries.0.producer(), queries.1.producer(), queries.2.producer()];
    let (mut keys, mut values) = (keys.producer(), values.producer());
    // Each stage expects the bytes that are loaded into it.
    prefetch_tensor_map(maps.q.pointer());
    prefetch_tensor_map(maps.k.pointer());
    prefetch_tensor_map(maps.v.pointer());
    while let Some(tile) = tiles.next_tile() {
        let work = Work::of_tile(&tiles.place(tile), arguments.group);
        let (head, batch) = (work.kv_head, work.batch);
        let row_tile = work.row_tile * C::WARPGROUPS;
        let (begin, end) = key_tiles_of::<C>(&visible, row_tile * 64, arguments.q_length);
        macro_rules! load {
            ($pipeline:ident, $tma:ident $load:ident, $tensor:ident, $array:ident, $tile:expr) => {
                let filling = $pipeline.acquire($tma::<C>::BYTES);
                $load.copy($tensor.at(($tile, 0, head, batch)), filling.of($array), &filling);
            };
        }
        // In the order in which the consumers free the stages: they read the last Q, then K.
        let mut tile = end - 1;
        load!(keys, TmaK load_k, mK, sK, tile);
        for warpgroup in 0..C::WARPGROUPS {
            let filling = queries[warpgroup as usize].acquire(TmaQ::<C>::BYTES);
            let gQ = mQ.at((row_tile + warpgroup, 0, work.head, batch)); // (64, D)
            load_q.copy(gQ, sQ.at((.., .., warpgroup)), &filling);
        }
        while tile > begin {
            load!(keys, TmaK load_k, mK, sK, tile - 1);
            load!(values, TmaV load_v, mV, sV, tile);
            tile -= 1;
        }
        load!(values, TmaV load_v, mV, sV, tile);
    }
}

/// A consumer warpgroup: 64 rows of each tile.
///
/// # Safety
/// Same contract as [`forward`]; all threads of the warpgroup execute this call.
#[inline(always)]
unsafe fn consume<C: Config>(
    maps: Maps<'_, C>,
    arguments: &Arguments<C::T>,
    mut tiles: impl TileScheduler,
    warpgroup: u32,
    (sQ, sK, sV): Arrays<C>,
    (queries, keys, values): Pipelines<C>,
) {
    let visible = Visible::new(arguments.q_length, arguments.k_length, arguments.window);
    let scale = arguments.scale * core::f32::consts::LOG2_E;
    let (qk, pv) = (C::Qk::get_slice(0), C::Pv::get_slice(0));
    // A stage is read between its wait and its release.
    let sO = sQ.with_layout::<SmemO<C>>().at((.., .., warpgroup + C::TILES_Q - C::WARPGROUPS)); // (64, DV)
    let sQ = sQ.at((.., .., warpgroup)); // (64, D)
    let sVt = sV.with_layout::<SmemVt<C>>(); // (DV, BLK_N, STAGES)
    let tSrQ = qk.descriptors_a(&qk.partition_a(sQ)); // (1, MMA_M, MMA_K)
    let tSrK = qk.descriptors_b(&qk.partition_b(sK)); // (1, MMA_N, MMA_K, STAGES)
    let tOrV = pv.descriptors_b(&pv.partition_b(sVt)); // (1, MMA_N, MMA_K, STAGES)
    let queries = match warpgroup {
        0 => queries.0,
        1 => queries.1,
        _ => queries.2,
    };
    let (mut queries, keys, values) = (queries.consumer(), keys.consumer(), values.consumer());
    begin_turns::<C>(warpgroup);
    let Some(tile) = tiles.next_tile() else { return };
    let mut tile = Tile::<C>::of(&tiles.place(tile), arguments, &visible, warpgroup);
    let config = PhantomData::<C>;
    let mut mainloop = Mainloop { tSrQ: &tSrQ, tSrK, tOrV, keys, values, warpgroup, scale, config };
    let mut query = Some(queries.wait());
    // Q is released to the next tile when its last product has read it.
    macro_rules! read {
        ($key:expr, $tile:expr) => {
            || {
                if $key == $tile.keys.0
                    && let Some(query) = query.take()
                {
                    queries.release(query);
                }
            }
        };
    }
    let mut key = tile.keys.1 - 1;
    let mut state = mainloop.begin(&mut tile.rows, key, read!(key, tile));
    loop {
        while key > tile.keys.0 {
            key -= 1;
            mainloop.go_on(&mut state, &mut tile.rows, key, read!(key, tile));
        }
        let Some(next) = tiles.next_tile() else { break };
        let mut next = Tile::<C>::of(&tiles.place(next), arguments, &visible, warpgroup);
        key = next.keys.1 - 1;
        query = Some(queries.wait());
        mainloop.change(&mut state, &mut next.rows, key, read!(key, next), |tOrO, softmax| {
            tile.finish(tOrO, softmax, sO, maps, arguments);
        });
        tile = next;
    }
    let (mut tOrO, softmax) = mainloop.end(state);
    tile.finish(&mut tOrO, &softmax, sO, maps, arguments);
    // The bulk stores must have read shared memory before the block exits.
    bulk_wait_group_read::<0>();
}

/// The tiles of keys that some row of a block's tile sees, at least one: a row that sees nothing
/// gets a tile of hidden scores.
#[inline(always)]
fn key_tiles_of<C: Config>(visible: &Visible, row: u32, q_length: u32) -> (u32, u32) {
    let (begin, end) = key_tiles::<C>(visible, row, C::WARPGROUPS * 64, (q_length, 1));
    (begin, end.max(begin + 1))
}

/// A warpgroup's 64 rows of a tile of queries.
struct Tile<C> {
    work: Work,
    warpgroup: u32,
    /// The query token of the warpgroup's first row.
    first: u32,
    rows: Rows,
    /// The tiles of keys of the block's rows.
    keys: (u32, u32),
    config: PhantomData<C>,
}

impl<C: Config> Tile<C> {
    #[inline(always)]
    fn of(tile: &WorkTile, arguments: &Arguments<C::T>, visible: &Visible, warpgroup: u32) -> Self {
        let work = Work::of_tile(tile, arguments.group);
        let row = work.row_tile * C::WARPGROUPS * 64;
        let keys = key_tiles_of::<C>(visible, row, arguments.q_length);
        let first = row + 64 * warpgroup;
        let rows = Rows::new::<C>(*visible, first, (arguments.q_length, 1));
        Self { work, warpgroup, first, rows, keys, config: PhantomData }
    }

    /// Divides the results by the softmax's sums and stores them, with the log-sum-exps.
    ///
    /// # Safety
    /// Same contract as [`forward`]; all threads of the warpgroup execute this call.
    #[inline(always)]
    unsafe fn finish(
        &self,
        tOrO: &mut ResultsOf<C>,
        softmax: &Softmax,
        sO: SharedTensor<Element<C>, OwnRows<SmemO<C>>>,
        maps: Maps<'_, C>,
        arguments: &Arguments<C::T>,
    ) {
        let scale = arguments.scale * core::f32::consts::LOG2_E;
        let (mut factors, mut again) = ([0.0; 2], [false; 2]);
        for row in 0..2 {
            let (sum, to_max) = softmax.row(row, C::GENERAL, scale);
            let (factor, lse) = sum.finish(arguments.scale, f32::NEG_INFINITY);
            store_lse(|| self.rows.row::<C>(row), lse, arguments, &self.work);
            (factors[row], again[row]) = (factor * to_max, is_far(&sum, scale));
        }
        scale_rows(tOrO, factors);
        let hides = arguments.window != Window::ALL;
        for row in 0..2 {
            again[row] |= is_hit::<_, 2>(tOrO, row, hides);
        }
        if !C::SEPARATE_O {
            self.store_words(tOrO, again, arguments);
            return;
        }
        store_shared::<C>(tOrO, sO, self.warpgroup);
        recompute::<C, _>(
            &self.source(arguments),
            again,
            #[inline(always)]
            |row, column, results| {
                let rounded = <C::T as Half>::pack(results[0], results[1]);
                for i in 0..2 {
                    sO.at((row, column + i as u32)).set(0usize, rounded[i]);
                }
            },
        );
        let gO = maps.o.tensor().at([self.first / 64, 0, self.work.head, self.work.batch]); // (64, DV)
        store_tile(sO, gO, thread_idx().x % WARPGROUP, Barrier::Warpgroup.of(self.warpgroup));
    }

    /// Where the warpgroup's rows and its keys are in global memory.
    #[inline(always)]
    fn source<'a>(&'a self, arguments: &'a Arguments<C::T>) -> impl Source<Element = C::T> + 'a {
        TileRows { arguments, work: &self.work, first: self.first, unit: || arguments.scale }
    }

    /// The address of column `column` of a row of O.
    #[inline(always)]
    fn row_of_o(&self, row: u32, column: u32, arguments: &Arguments<C::T>) -> u64 {
        let strides = &arguments.stride_o;
        let first = i64::from(self.work.batch) * strides.batch + i64::from(self.work.head) * strides.head;
        let at = first + i64::from(row) * strides.row + i64::from(column);
        arguments.o.offset(at).address()
    }

    /// Stores a warpgroup's rows from registers: no shared memory is left for them.
    ///
    /// # Safety
    /// Same contract as [`forward`]; all threads of the warpgroup execute this call.
    #[inline(always)]
    unsafe fn store_words(&self, tOrO: &ResultsOf<C>, again: [bool; 2], arguments: &Arguments<C::T>) {
        // Rows past the end are not stored.
        for index in 0..2 {
            let row = self.rows.row::<C>(index);
            let address = self.row_of_o(row.unwrap_or(0), lane_id() % 4 * 8, arguments);
            for part in 0..const { C::DV as usize / 32 } {
                // Four pairs of columns, 8 apart.
                let words = [0, 2, 4, 6].map(|column| {
                    let pair = [0, 1].map(|i| tOrO[at(2, index, 8 * part + column + i)]);
                    <C::T as Half>::pack_word(pair[0], pair[1])
                });
                let word = Word128(transpose_quad(words));
                Word128::store_global_if(row.is_some(), address + 64 * part as u64, word);
            }
        }
        // Other threads have stored the elements that a thread recomputes.
        sync_warp(FULL_WARP);
        recompute::<C, _>(
            &self.source(arguments),
            again,
            #[inline(always)]
            |row, column, results| {
                let row = self.first + row;
                let address = self.row_of_o(row.min(arguments.q_length - 1), column, arguments);
                let word = <C::T as Half>::pack_word(results[0], results[1]);
                u32::store_global_if(row < arguments.q_length, address, word);
            },
        );
    }
}

/// Writes the log-sum-exp of a row, if `lse` is not null and the row exists. One of the row's four
/// lanes writes.
///
/// # Safety
/// `lse` has room for each row, or is null.
#[inline(always)]
pub unsafe fn store_lse<T: memory::Element>(
    row: impl FnOnce() -> Option<u32>,
    lse: f32,
    arguments: &Arguments<T>,
    work: &Work,
) {
    if arguments.lse.address() != 0
        && lane_id().is_multiple_of(4)
        && let Some(query) = row()
    {
        let strides = arguments.stride_lse;
        let at = i64::from(work.batch) * strides.batch
            + i64::from(work.head) * strides.head
            + i64::from(query) * strides.row;
        arguments.lse.write(at, lse);
    }
}

/// Writes a warpgroup's rows of O to its tile in shared memory.
///
/// # Safety
/// Same contract as [`forward`]; all threads of the warpgroup execute this call.
#[inline(always)]
unsafe fn store_shared<C: Config>(
    tOrO: &ResultsOf<C>,
    sO: SharedTensor<Element<C>, OwnRows<SmemO<C>>>,
    warpgroup: u32,
) {
    let thread = recomputed::<C>(thread_idx().x % WARPGROUP);
    let to_shared = C::StoreO::get_slice(thread);
    let rounded = pack_fragment::<Element<C>, _>(tOrO);
    // Only this warpgroup accesses the tile.
    reuse_tile::<0>(thread, Barrier::Warpgroup.of(warpgroup));
    to_shared.store(&rounded, to_shared.partition_d(sO));
    sync_warp(FULL_WARP);
}
