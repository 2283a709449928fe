//! Forward attention on Hopper: TMA, `wgmma`, and the softmax of one warpgroup during the products
//! of the other.
//!
//! A block has a tile of `64 * WARPGROUPS` query rows, 64 for each consumer warpgroup, and a
//! producer warp that loads Q, K and V. A consumer keeps the scores `S`, the probabilities `P` and
//! its rows of O in registers:
//!
//! ```text
//! S = Q K^T                       wgmma, A and B in shared memory
//! for each further tile of keys:
//!     S' = Q K'^T;  O += P V      both are issued
//!     softmax of S'               while the product with V runs
//!     O *= factors;  P = S'       P in registers is the operand A of the next product
//! O += P V
//! ```
//!
//! The warpgroups issue their products in turn (named barriers), so that the softmax of one is
//! hidden by the products of another. Tiles of keys are taken from the last to the first: the
//! masked ones come first. Blocks are persistent.
#![allow(non_snake_case, reason = "tensors have CuTe's names")]

use super::arguments::{Arguments, UNLIMITED};
use super::hopper_config::{
    Config, Element, KeyStages, QueryStage, SmemK, SmemQ, SmemVt, Storage, TileO, TileS, TmaK, TmaQ,
    WARPGROUP,
};
use super::hopper_hidden::{Row, is_hit, recompute};
use super::hopper_schedule::Tiles;
use super::hopper_softmax::Softmax;
use super::sequence::Visible;
use super::softmax::at;
use moye_device::algorithm::copy_tiled;
use moye_device::arch::{
    FULL_WARP, arrive_barrier, bulk_commit_group, bulk_wait_group_read, fence_proxy_async_shared, lane_id,
    prefetch_tensor_map, shuffle, sync_barrier, sync_threads, sync_warp, thread_idx,
};
use moye_device::atom::tma::TmaMap;
use moye_device::atom::wgmma::{
    OperandOf, ScaleOut, accumulators_as_a, pack_fragment, warpgroup_arrive, warpgroup_commit_batch,
    warpgroup_fence_operand, warpgroup_gemm, warpgroup_wait, warpgroup_wait_after,
};
use moye_device::atom::{AccumulatorOf, StaticTiledCopy, StaticTiledMma};
use moye_device::memory::SharedStorage;
use moye_device::tensor::{AllButLast, Fragment, SharedTensor, StaticLayout};

/// The tensor maps of Q, K, V and O, all of modes (row, column, head, sequence), as the kernel's
/// own parameters.
#[derive(Clone, Copy)]
pub struct Maps<'a, C: Config> {
    /// Queries.
    pub q: &'a TmaMap<TmaQ<C>>,
    /// Keys.
    pub k: &'a TmaMap<TmaK<C>>,
    /// Values.
    pub v: &'a TmaMap<TmaK<C>>,
    /// Results.
    pub o: &'a TmaMap<TmaQ<C>>,
}

/// The kernel's text: entries are its instances. The block's threads are those of
/// `Config::THREADS`; the grid has any number of blocks. `section` is the number of heads whose
/// keys and values are worked on at a time, so that they stay in L2.
///
/// # Safety
/// The maps are of tensors in memory of the device, by their types; `lse` has room for each row, or
/// is null. The kernel declares `Storage<C>`.
#[inline(always)]
pub unsafe fn forward<C: Config>(maps: Maps<'_, C>, arguments: &Arguments<C::T>, section: u32) {
    let thread = thread_idx().x;
    // The shuffle tells the compiler that the number is uniform across the warp.
    let warpgroup = shuffle(FULL_WARP, thread / WARPGROUP, 0);
    // SAFETY: the kernel declares its storage; the pipelines say who may touch a stage.
    unsafe {
        let (sQ, sK, sV, queries, keys, values) = Storage::<C>::take();
        if thread == 0 {
            queries.0.init();
            queries.1.init();
            queries.2.init();
            keys.init();
            values.init();
        }
        sync_threads();
        if warpgroup == C::WARPGROUPS {
            C::give_registers();
            if thread == C::WARPGROUPS * WARPGROUP {
                produce::<C>(maps, arguments, section, (sQ, sK, sV), (queries, keys, values));
            }
        } else {
            C::take_registers();
            consume::<C>(maps, arguments, section, warpgroup, (sQ, sK, sV), (queries, keys, values));
        }
    }
}

/// Shared memory: (64, D, WARPGROUPS), (BLK_N, D, STAGES) and the same for V.
type Arrays<C> = (
    SharedTensor<Element<C>, SmemQ<C>>,
    SharedTensor<Element<C>, SmemK<C>>,
    SharedTensor<Element<C>, SmemK<C>>,
);
/// A stage of Q for each warpgroup, and the stages of K and V.
type Pipelines<C> = (
    <(QueryStage, QueryStage, QueryStage) as SharedStorage>::Tensors,
    <KeyStages<C> as SharedStorage>::Tensors,
    <KeyStages<C> as SharedStorage>::Tensors,
);

/// The tiles of keys that some row of a tile sees, `begin .. end`.
#[inline(always)]
fn key_tiles<C: Config>(visible: &Visible, row: u32, rows: u32, q_length: u32) -> (u32, u32) {
    let ((begin, end), _) = visible.range(row, (row + rows).min(q_length) - 1);
    if end <= begin { (0, 0) } else { (begin as u32 / C::BLK_N, (end as u32).div_ceil(C::BLK_N)) }
}

/// The producer: one thread that loads the tiles of Q, K and V.
///
/// # Safety
/// As [`forward`].
#[inline(always)]
unsafe fn produce<C: Config>(
    maps: Maps<'_, C>,
    arguments: &Arguments<C::T>,
    section: u32,
    (sQ, sK, sV): Arrays<C>,
    (queries, keys, values): Pipelines<C>,
) {
    let visible = Visible::new(arguments.q_length, arguments.k_length, arguments.window);
    let (load_q, load_k) = (TmaQ::<C>::get_slice(), TmaK::<C>::get_slice());
    let (mQ, mK, mV) = (maps.q.tensor(), maps.k.tensor(), maps.v.tensor());
    let mut queries = [queries.0.producer(), queries.1.producer(), queries.2.producer()];
    let (mut keys, mut values) = (keys.producer(), values.producer());
    // SAFETY: the caller's contract; each stage expects the bytes that are loaded into it.
    unsafe {
        prefetch_tensor_map(maps.q.pointer());
        prefetch_tensor_map(maps.k.pointer());
        prefetch_tensor_map(maps.v.pointer());
        for work in Tiles::new(arguments, section) {
            let (head, batch) = (work.kv_head, work.batch);
            let row_tile = work.row_tile * C::WARPGROUPS;
            let (begin, end) =
                key_tiles::<C>(&visible, row_tile * 64, C::WARPGROUPS * 64, arguments.q_length);
            macro_rules! load {
                ($pipeline:ident, $tensor:ident, $array:ident, $tile:expr) => {
                    let filling = $pipeline.acquire(TmaK::<C>::BYTES);
                    load_k.copy($tensor.tile([$tile, 0, head, batch]), filling.of($array), &filling);
                };
            }
            // What waits for no epilogue of the tile before comes before Q.
            let mut tile = end;
            if begin < end {
                tile -= 1;
                load!(keys, mK, sK, tile);
                if tile > begin {
                    load!(keys, mK, sK, tile - 1);
                }
                load!(values, mV, sV, tile);
            }
            for warpgroup in 0..C::WARPGROUPS {
                let filling = queries[warpgroup as usize].acquire(TmaQ::<C>::BYTES);
                let gQ = mQ.tile([row_tile + warpgroup, 0, work.head, batch]); // (64, D)
                load_q.copy(gQ, sQ.slice_last(warpgroup), &filling);
            }
            while tile > begin {
                tile -= 1;
                if tile > begin {
                    load!(keys, mK, sK, tile - 1);
                }
                load!(values, mV, sV, tile);
            }
        }
    }
}

/// A consumer warpgroup: 64 rows of each tile.
///
/// # Safety
/// As [`forward`]; all threads of the warpgroup.
#[inline(always)]
unsafe fn consume<C: Config>(
    maps: Maps<'_, C>,
    arguments: &Arguments<C::T>,
    section: u32,
    warpgroup: u32,
    (sQ, sK, sV): Arrays<C>,
    (queries, keys, values): Pipelines<C>,
) {
    let visible = Visible::new(arguments.q_length, arguments.k_length, arguments.window);
    let scale = arguments.scale * core::f32::consts::LOG2_E;
    let (qk, pv) = (C::Qk::get_slice(0), C::Pv::get_slice(0));
    // SAFETY: the caller's contract; a stage is read between its wait and its release.
    unsafe {
        let (sQ, sO) = (sQ.slice_last(warpgroup), sQ.slice_last(warpgroup + C::TILES_Q - C::WARPGROUPS)); // (64, D)
        let sVt = sV.with_layout::<SmemVt<C>>(); // (D, BLK_N, STAGES)
        let tSrQ = qk.descriptors_a(&qk.partition_a(sQ)); // (1, MMA_M, MMA_K)
        let tSrK = qk.descriptors_b(&qk.partition_b(sK)); // (1, MMA_N, MMA_K, STAGES)
        let tOrV = pv.descriptors_b(&pv.partition_b(sVt)); // (1, MMA_N, MMA_K, STAGES)
        let queries = match warpgroup {
            0 => queries.0,
            1 => queries.1,
            _ => queries.2,
        };
        let (mut queries, mut keys, mut values) = (queries.consumer(), keys.consumer(), values.consumer());
        if C::TURNS && warpgroup == C::WARPGROUPS - 1 {
            // The first warpgroup may issue its products.
            arrive_barrier(TURN, 2 * WARPGROUP);
        }
        for work in Tiles::new(arguments, section) {
            let tile_row = work.row_tile * C::WARPGROUPS * 64;
            let (begin, end) = key_tiles::<C>(&visible, tile_row, C::WARPGROUPS * 64, arguments.q_length);
            let rows = Rows::new::<C>(visible, tile_row + 64 * warpgroup, arguments.q_length);
            let mut tOrO = Fragment::<f32, AccumulatorOf<TileO<C>, C::Pv>>::filled(0.0); // (MMA, MMA_M, MMA_N)
            let mut softmax = Softmax::NONE;
            let mut query = Some(queries.wait());
            if begin < end {
                let mut tSrS = qk.accumulators::<TileS<C>>(); // (MMA, MMA_M, MMA_N)
                let full = keys.wait();
                warpgroup_arrive();
                warpgroup_gemm(C::Qk::default(), &tSrQ, &full.of(tSrK), &mut tSrS, ScaleOut::Zero);
                warpgroup_commit_batch();
                warpgroup_wait::<0>();
                warpgroup_fence_operand(C::Qk::default(), &mut tSrS);
                keys.release(full);
                rows.mask::<C>(&mut tSrS, end - 1);
                softmax.take_in::<_, false>(&mut tSrS, scale, 0.0);
                let mut tOrP: Fragment<Element<C>, OperandOf<TileS<C>, C::Pv>> =
                    accumulators_as_a::<C::Pv, _, _, TileS<C>>(&tSrS); // (MMA, MMA_M, MMA_K)
                let mut tile = end - 1;
                while tile > begin {
                    tile -= 1;
                    let mut tSrS = qk.accumulators::<TileS<C>>(); // (MMA, MMA_M, MMA_N)
                    // Both are waited for before the first product: a loop between them would end
                    // the sequence.
                    let (key, value) = (keys.wait(), values.wait());
                    if C::TURNS {
                        sync_barrier(TURN + warpgroup, 2 * WARPGROUP);
                    }
                    warpgroup_arrive();
                    warpgroup_gemm(C::Qk::default(), &tSrQ, &key.of(tSrK), &mut tSrS, ScaleOut::Zero);
                    warpgroup_commit_batch();
                    warpgroup_gemm(C::Pv::default(), &tOrP, &value.of(tOrV), &mut tOrO, ScaleOut::One);
                    warpgroup_commit_batch();
                    if C::TURNS {
                        arrive_barrier(TURN + next::<C>(warpgroup), 2 * WARPGROUP);
                    }
                    warpgroup_wait::<1>();
                    warpgroup_fence_operand(C::Qk::default(), &mut tSrS);
                    keys.release(key);
                    rows.mask::<C>(&mut tSrS, tile);
                    let (factors, rescale) = softmax.take_in::<_, true>(&mut tSrS, scale, C::SLACK);
                    warpgroup_wait_after::<0, 2>(softmax.sum);
                    warpgroup_fence_operand(C::Pv::default(), &mut tOrO);
                    values.release(value);
                    tOrP = accumulators_as_a::<C::Pv, _, _, TileS<C>>(&tSrS);
                    if rescale {
                        scale_rows(&mut tOrO, factors);
                    }
                }
                if C::SEPARATE_O
                    && let Some(query) = query.take()
                {
                    // The next tile of Q is loaded under what is left of this one.
                    queries.release(query);
                }
                let value = values.wait();
                warpgroup_arrive();
                warpgroup_gemm(C::Pv::default(), &tOrP, &value.of(tOrV), &mut tOrO, ScaleOut::One);
                warpgroup_commit_batch();
                warpgroup_wait::<0>();
                warpgroup_fence_operand(C::Pv::default(), &mut tOrO);
                values.release(value);
            }
            let (mut factors, mut logarithms) = ([0.0; 2], [0.0; 2]);
            for row in 0..2 {
                let (factor, lse) = softmax.finish(row, scale);
                (factors[row], logarithms[row]) = (factor, lse);
                rows.store_lse(row, lse, arguments, work.batch, work.head);
            }
            scale_rows(&mut tOrO, factors);
            let again =
                |row: usize| Row { lse: logarithms[row], again: is_hit(&tOrO, row, arguments.window) };
            let again = [again(0), again(1)];
            let tile = [tile_row / 64 + warpgroup, 0, work.head, work.batch];
            store::<C>(&tOrO, sO, warpgroup, maps, tile, |sO| {
                let first = tile_row + 64 * warpgroup;
                recompute::<C>(sO, (0, again[0]), arguments, &work, first);
                recompute::<C>(sO, (1, again[1]), arguments, &work, first);
            });
            if let Some(query) = query {
                queries.release(query);
            }
        }
        // The block's shared memory is there until all of it is read.
        bulk_wait_group_read::<0>();
    }
}

/// The named barriers at which warpgroups take turns, one for each, and those of a warpgroup alone.
const TURN: u32 = 1;
const ALONE: u32 = 4;

/// The warpgroup whose turn is next.
#[inline(always)]
const fn next<C: Config>(warpgroup: u32) -> u32 {
    if warpgroup + 1 == C::WARPGROUPS { 0 } else { warpgroup + 1 }
}

/// Multiplies each of a thread's two rows by its factor.
#[inline(always)]
fn scale_rows<L: StaticLayout>(tOrO: &mut Fragment<f32, L>, factors: [f32; 2]) {
    for row in 0..2 {
        for column in 0..const { L::LAYOUT.size() as usize / 2 } {
            // SAFETY: inside the fragment, which is written.
            unsafe { tOrO.set(at(2, row, column), tOrO.get(at(2, row, column)) * factors[row]) };
        }
    }
}

/// Stores a warpgroup's rows of O through shared memory; `mend` may change its warp's rows there.
/// If that memory is the tile of Q, it has been read when this returns; otherwise the store may
/// still run.
///
/// # Safety
/// As [`forward`]; all threads of the warpgroup.
#[inline(always)]
unsafe fn store<C: Config>(
    tOrO: &Fragment<f32, AccumulatorOf<TileO<C>, C::Pv>>,
    sO: SharedTensor<Element<C>, AllButLast<SmemQ<C>>>,
    warpgroup: u32,
    maps: Maps<'_, C>,
    tile: [u32; 4],
    mend: impl FnOnce(SharedTensor<Element<C>, AllButLast<SmemQ<C>>>),
) {
    let thread = thread_idx().x % WARPGROUP;
    let to_shared = C::StoreO::get_slice(thread);
    // SAFETY: the tile is the warpgroup's own; the fence and the barrier stand between its writes
    // and the store.
    unsafe {
        if C::SEPARATE_O && thread == 0 {
            bulk_wait_group_read::<0>();
        }
        let rounded = pack_fragment::<Element<C>, _>(tOrO);
        // The tile has been read: by the store before, or by all lanes' products.
        sync_barrier(ALONE + warpgroup, WARPGROUP);
        copy_tiled(C::StoreO::default(), &to_shared.retile_s(&rounded), &mut to_shared.partition_d(sO));
        sync_warp(FULL_WARP);
        mend(sO);
        fence_proxy_async_shared();
        sync_barrier(ALONE + warpgroup, WARPGROUP);
        if thread == 0 {
            TmaQ::<C>::get_slice().store(sO, maps.o.tensor().tile(tile));
            bulk_commit_group();
            if !C::SEPARATE_O {
                bulk_wait_group_read::<0>();
            }
        }
    }
}

/// The rows of a warpgroup in a tile, of which a thread has two, 8 apart.
#[derive(Clone, Copy)]
struct Rows {
    /// The warpgroup's first.
    first: u32,
    /// The tiles of keys `begin .. end` that all rows see.
    clear: (u32, u32),
    visible: Visible,
    /// The last query token.
    last: u32,
}

impl Rows {
    #[inline(always)]
    fn new<C: Config>(visible: Visible, first: u32, q_length: u32) -> Self {
        let last = q_length - 1;
        let (_, (begin, end)) = visible.range(first.min(last), (first + 63).min(last));
        let clear = (begin.max(0) as u32).div_ceil(C::BLK_N);
        Self { first, clear: (clear, end.max(0) as u32 / C::BLK_N), visible, last }
    }

    /// The first of the thread's rows.
    #[inline(always)]
    fn query(&self) -> u32 {
        self.first + thread_idx().x % WARPGROUP / 32 * 16 + lane_id() / 4
    }

    /// Hides the scores of keys that a row does not see, in a tile of keys.
    #[inline(always)]
    fn mask<C: Config>(&self, tSrS: &mut Fragment<f32, AccumulatorOf<TileS<C>, C::Qk>>, tile: u32) {
        if tile >= self.clear.0 && tile < self.clear.1 {
            return;
        }
        if self.visible.window.left == UNLIMITED {
            self.hide::<C, false>(tSrS, tile);
        } else {
            self.hide::<C, true>(tSrS, tile);
        }
    }

    /// Hides scores on the right, and with `LEFT` on the left.
    #[inline(always)]
    fn hide<C: Config, const LEFT: bool>(
        &self,
        tSrS: &mut Fragment<f32, AccumulatorOf<TileS<C>, C::Qk>>,
        tile: u32,
    ) {
        let first = (tile * C::BLK_N + lane_id() % 4 * 2) as i32;
        for row in 0..2 {
            // A thread's columns are compared with constants.
            // Rows beyond the last are computed like the last, and not stored.
            let seen = self.visible.of((self.query() + 8 * row as u32).min(self.last));
            let (begin, end) = (seen.0 - first, seen.1 - first);
            for column in 0..C::BLK_N as usize / 4 {
                let key = (column / 2 * 8 + column % 2) as i32;
                if LEFT && key < begin || key >= end {
                    // SAFETY: inside the fragment.
                    unsafe { tSrS.set(at(2, row, column), f32::NEG_INFINITY) };
                }
            }
        }
    }

    /// Writes the logarithm of a row's sum, where the arguments have room for it: one lane of the
    /// four that have the row.
    ///
    /// # Safety
    /// The arguments have room for each row.
    #[inline(always)]
    unsafe fn store_lse<T: moye_device::memory::Element>(
        &self,
        row: usize,
        lse: f32,
        arguments: &Arguments<T>,
        batch: u32,
        head: u32,
    ) {
        let query = self.query() + 8 * row as u32;
        if arguments.lse.address() != 0 && lane_id().is_multiple_of(4) && query <= self.last {
            let strides = arguments.stride_lse;
            let at = i64::from(batch) * strides.batch
                + i64::from(head) * strides.head
                + i64::from(query) * strides.row;
            // SAFETY: the caller's contract.
            unsafe { arguments.lse.write(at, lse) };
        }
    }
}
