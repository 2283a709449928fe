//! Forward attention of e4m3 on Hopper, with a scale factor per head: the schedule of `hopper`,
//! with V transposed in shared memory.
//!
//! `wgmma` of 8-bit floats reads both operands K-major, so `P V` needs V with contiguous keys. One
//! warp of the producer's warpgroup loads Q, K and V by TMA, and the other three transpose V from
//! one array of shared memory to another. The consumers read the transposed array.
//!
//! ```text
//! warp 0        TMA: Q, K -> consumers;  V -> transposers
//! warps 1 to 3  V (BLK_N, D) -> V^T (D, BLK_N) -> consumers
//! consumers     S = Q K^T, softmax, O += P V^T^T, as for 16 bits
//! ```
//!
//! The factors of Q and K are folded into the scale of the softmax, the factor of V into its
//! normalisation.
#![allow(non_snake_case, reason = "tensors have CuTe's names")]

use super::arguments::{Arguments, Window};
use super::config::Half;
use super::e4m3_config::{
    E4m3Config, KeyStages, LoadedStages, SmemK8, SmemOnes, SmemQ8, SmemV8, SmemVt8, Storage, Sums,
    TRANSPOSERS, TmaK8, TmaQ8, TmaV8, ValueStages,
};
use super::e4m3_mainloop::{Operands, attend, begin_turns};
use super::hopper::store_lse;
use super::hopper_config::{
    OwnRows, QueryStage, SmemQ, TileO, TmaQ, WARPGROUP, give_registers, take_registers,
};
use super::hopper_hidden::{TileRows, recompute};
use super::hopper_mainloop::{Barrier, scale_rows};
use super::hopper_rows::{Rows, key_tiles};
use super::recompute::is_hit;
use super::reference::is_far;
use super::schedule::Work;
use super::sequence::Visible;
use moye_device::algorithm::transpose_paired;
use moye_device::arch::{
    FULL_WARP, bulk_wait_group_read, fence_proxy_async_shared, lane_id, prefetch_tensor_map, shuffle,
    sync_threads, sync_warp, thread_idx,
};
use moye_device::atom::tma::TmaMap;
use moye_device::atom::wgmma::pack_fragment;
use moye_device::atom::{AccumulatorOf, StaticTiledCopy, StaticTiledMma};
use moye_device::collective::{TileScheduler, reuse_tile, store_tile};
use moye_device::kernel::KernelParam;
use moye_device::memory::{Global, SharedStorage};
use moye_device::number::F8E4M3;
use moye_device::tensor::{Fragment, SharedTensor};

/// Scale factors of one operand in device memory, and their strides; a stride of 0 shares a factor.
#[repr(C)]
#[derive(Clone, Copy, Debug, KernelParam)]
pub struct Scale {
    /// The factors, f32.
    pub factors: Global<f32>,
    /// Stride between sequences.
    pub batch: u32,
    /// Stride between heads: query heads for Q, KV heads for K and V.
    pub head: u32,
}

impl Scale {
    /// A factor of 1.
    pub const NONE: Self = Self { factors: Global::from_address(0), batch: 0, head: 0 };

    /// The factor of a head; 1 where the address is 0.
    ///
    /// # Safety
    /// The factor of this head may be read, unless the address is 0.
    #[inline(always)]
    unsafe fn of(&self, batch: u32, head: u32) -> f32 {
        if self.factors.address() == 0 {
            return 1.0;
        }
        self.factors.read(i64::from(batch * self.batch + head * self.head))
    }
}

/// Scale factors: the value of an element is the stored e4m3 value times the factor of its head.
/// The factors of Q and K are positive.
#[repr(C)]
#[derive(Clone, Copy, Debug, KernelParam)]
pub struct Scales {
    /// The factors of Q.
    pub q: Scale,
    /// The factors of K.
    pub k: Scale,
    /// The factors of V.
    pub v: Scale,
}

impl Scales {
    /// Factors of 1.
    pub const NONE: Self = Self { q: Scale::NONE, k: Scale::NONE, v: Scale::NONE };
}

/// The tensor maps of Q, K, V and O, all of modes (row, column, head, sequence), as parameters of
/// the kernel.
#[derive(Clone, Copy)]
pub struct Maps<'a, C: E4m3Config> {
    /// Queries.
    pub q: &'a TmaMap<TmaQ8<C>>,
    /// Keys.
    pub k: &'a TmaMap<TmaK8<C>>,
    /// Values.
    pub v: &'a TmaMap<TmaV8<C>>,
    /// Results.
    pub o: &'a TmaMap<TmaQ<C>>,
}

/// The parameters that all roles of a block share: maps, arguments, scale factors.
type Call<'a, C> = (Maps<'a, C>, &'a Arguments<F8E4M3>, &'a Scales);

/// The kernel's body, which each entry instantiates. A block has `Config::THREADS` threads; the
/// grid has any number of blocks. `tiles` builds the scheduler of this block's tiles of O, as in
/// [`hopper::forward`](super::hopper::forward). `LOADED` is `C::LOADED`.
///
/// # Safety
/// Each map describes a tensor in device memory that matches its type; `arguments` has the
/// addresses and strides of Q, K and V. `lse` has room for each row, or is null. `scales` has a
/// factor for each head. The kernel declares `Storage<C, LOADED>`.
#[inline(always)]
pub unsafe fn forward_e4m3<C: E4m3Config, S: TileScheduler, const LOADED: u32>(
    maps: Maps<'_, C>,
    arguments: &Arguments<F8E4M3>,
    scales: &Scales,
    tiles: impl Fn() -> S,
) {
    const { assert!(C::LOADED == LOADED, "the stages of V are the configuration's") };
    let thread = thread_idx().x;
    // The shuffle tells the compiler that `warp` is uniform across the warp.
    let warp = shuffle(FULL_WARP, thread / 32, 0);
    let warpgroup = warp / (WARPGROUP / 32);
    let call = (maps, arguments, scales);
    // The kernel declares its storage; the pipelines order all accesses to a stage.
    let ((sQ, sO), (sK, sV), (sVt, sOnes), queries, (keys, loaded, values)) = Storage::<C, LOADED>::take();
    if thread == 0 {
        queries.0.init();
        queries.1.init();
        queries.2.init();
        keys.init();
        loaded.init();
        values.init();
    }
    if C::SUMS_BY_WGMMA {
        let (ones, mut word) = (sOnes.pointer().cast::<u32>(), thread);
        while word < 2 * C::BLK_N {
            ones.write(word as i32, 0x3838_3838); // four times 1.0
            word += C::THREADS;
        }
        fence_proxy_async_shared();
    }
    sync_threads();
    if warpgroup == C::WARPGROUPS {
        give_registers::<C>();
        if warp > C::WARPGROUPS * (WARPGROUP / 32) {
            let number = warp % (WARPGROUP / 32) - 1;
            transpose::<C, LOADED>(call, tiles(), number, (sV, sVt), (loaded, values));
        } else if lane_id() == 0 {
            produce::<C, LOADED>(call, tiles(), (sQ, sK, sV), (queries, keys, loaded));
        }
    } else {
        take_registers::<C>();
        consume::<C>(call, tiles(), warpgroup, (sQ, sO), (sK, sVt, sOnes), (queries, keys, values));
    }
}

/// (64, D, WARPGROUPS)
type Queries<C> = SharedTensor<F8E4M3, SmemQ8<C>>;
/// (BLK_N, D, STAGES)
type Keys<C> = SharedTensor<F8E4M3, SmemK8<C>>;
/// (BLK_N, D, LOADED)
type Values<C> = SharedTensor<F8E4M3, SmemV8<C>>;
/// (D, BLK_N, STAGES)
type Transposed<C> = SharedTensor<F8E4M3, SmemVt8<C>>;
/// (8, BLK_N, 1)
type Ones<C> = SharedTensor<F8E4M3, SmemOnes<C>>;
/// A warpgroup's results, (64, D).
type Results<C> = SharedTensor<<C as super::hopper_config::Config>::T, OwnRows<SmemQ<C>>>;
/// The pipeline of a storage.
type Of<S> = <S as SharedStorage>::Tensors;
/// A stage of Q for each warpgroup.
type QueryStages = Of<(QueryStage, QueryStage, QueryStage)>;

/// The producer: one thread that loads the tiles of Q, K and V.
///
/// # Safety
/// Same contract as [`forward_e4m3`].
#[inline(always)]
unsafe fn produce<C: E4m3Config, const LOADED: u32>(
    (maps, arguments, _): Call<'_, C>,
    mut tiles: impl TileScheduler,
    (sQ, sK, sV): (Queries<C>, Keys<C>, Values<C>),
    (queries, keys, loaded): (QueryStages, Of<KeyStages<C>>, Of<LoadedStages<LOADED>>),
) {
    let visible = Visible::new(arguments.q_length, arguments.k_length, arguments.window);
    let (load_q, load_k, load_v) =
        (TmaQ8::<C>::get_slice(), TmaK8::<C>::get_slice(), TmaV8::<C>::get_slice());
    let (mQ, mK, mV) = (maps.q.tensor(), maps.k.tensor(), maps.v.tensor());
    let mut queries = [queries.0.producer(), queries.1.producer(), queries.2.producer()];
    let (mut keys, mut loaded) = (keys.producer(), loaded.producer());
    // Each stage expects the bytes that are loaded into it.
    prefetch_tensor_map(maps.q.pointer());
    prefetch_tensor_map(maps.k.pointer());
    prefetch_tensor_map(maps.v.pointer());
    while let Some(tile) = tiles.next_tile() {
        let work = Work::of_tile(&tiles.place(tile), arguments.group);
        let (head, batch) = (work.kv_head, work.batch);
        let row_tile = work.row_tile * C::WARPGROUPS;
        let (begin, end) =
            key_tiles::<C>(&visible, row_tile * 64, C::WARPGROUPS * 64, (arguments.q_length, 1));
        macro_rules! load_k {
            ($tile:expr) => {
                let filling = keys.acquire(TmaK8::<C>::BYTES);
                load_k.copy(mK.at(($tile, 0, head, batch)), filling.of(sK), &filling);
            };
        }
        macro_rules! load_v {
            ($tile:expr) => {
                let filling = loaded.acquire(TmaV8::<C>::BYTES);
                load_v.copy(mV.at(($tile, 0, head, batch)), filling.of(sV), &filling);
            };
        }
        // K and V do not wait for the consumers' epilogue; Q does.
        let mut tile = end;
        if begin < end {
            tile -= 1;
            load_k!(tile);
            load_v!(tile);
        }
        for warpgroup in 0..C::WARPGROUPS {
            let filling = queries[warpgroup as usize].acquire(TmaQ8::<C>::BYTES);
            let gQ = mQ.at((row_tile + warpgroup, 0, work.head, batch)); // (64, D)
            load_q.copy(gQ, sQ.at((.., .., warpgroup)), &filling);
        }
        while tile > begin {
            tile -= 1;
            load_k!(tile);
            load_v!(tile);
        }
    }
}

/// A warp that transposes tiles of V: warp `number` of the [`TRANSPOSERS`].
///
/// # Safety
/// Same contract as [`forward_e4m3`]; all lanes of the warp execute this call together.
#[inline(always)]
unsafe fn transpose<C: E4m3Config, const LOADED: u32>(
    (_, arguments, _): Call<'_, C>,
    mut tiles: impl TileScheduler,
    number: u32,
    (sV, sVt): (Values<C>, Transposed<C>),
    (loaded, values): (Of<LoadedStages<LOADED>>, Of<ValueStages<C>>),
) {
    let visible = Visible::new(arguments.q_length, arguments.k_length, arguments.window);
    let (mut loaded, (_, mut values)) = (loaded.consumer(), values.fillers());
    while let Some(tile) = tiles.next_tile() {
        let work = Work::of_tile(&tiles.place(tile), arguments.group);
        let rows = C::WARPGROUPS * 64;
        let (begin, end) = key_tiles::<C>(&visible, work.row_tile * rows, rows, (arguments.q_length, 1));
        for _ in begin..end {
            let (full, writing) = (loaded.wait(), values.acquire());
            // The pipelines have handed both stages to this warp; the fence and the arrival follow
            // its writes.
            transpose_paired(&full.of(sV), &writing.of(sVt), number, TRANSPOSERS);
            fence_proxy_async_shared();
            sync_warp(FULL_WARP);
            // The warp has read the stage and stored its values.
            loaded.release(full);
            values.fill(writing);
        }
    }
}

/// A consumer warpgroup: 64 rows of each tile.
///
/// # Safety
/// Same contract as [`forward_e4m3`]; all threads of the warpgroup execute this call.
#[inline(always)]
unsafe fn consume<C: E4m3Config>(
    (maps, arguments, scales): Call<'_, C>,
    mut tiles: impl TileScheduler,
    warpgroup: u32,
    (sQ, sO): (Queries<C>, SharedTensor<C::T, SmemQ<C>>),
    (sK, sVt, sOnes): (Keys<C>, Transposed<C>, Ones<C>),
    (queries, keys, values): (QueryStages, Of<KeyStages<C>>, Of<ValueStages<C>>),
) {
    let visible = Visible::new(arguments.q_length, arguments.k_length, arguments.window);
    let (qk, pv) = (C::Qk::get_slice(0), C::Pv::get_slice(0));
    // A stage is read between its wait and its release.
    let (sQ, sO) = (sQ.at((.., .., warpgroup)), sO.at((.., .., warpgroup))); // (64, D)
    let tSrQ = qk.descriptors_a(&qk.partition_a(sQ)); // (1, MMA_M, MMA_K)
    let tSrK = qk.descriptors_b(&qk.partition_b(sK)); // (1, MMA_N, MMA_K, STAGES)
    let tOrV = pv.descriptors_b(&pv.partition_b(sVt)); // (1, MMA_N, MMA_K, STAGES)
    let sums = Sums::get_slice(0);
    let tOnes = sums.descriptors_b(&sums.partition_b(sOnes.at((.., .., 0)))); // (1, MMA_N, MMA_K)
    let queries = match warpgroup {
        0 => queries.0,
        1 => queries.1,
        _ => queries.2,
    };
    let (mut queries, mut keys, mut values) = (queries.consumer(), keys.consumer(), values.consumer());
    begin_turns::<C>(warpgroup);
    while let Some(tile) = tiles.next_tile() {
        let work = Work::of_tile(&tiles.place(tile), arguments.group);
        let tile_row = work.row_tile * C::WARPGROUPS * 64;
        let of_keys = key_tiles::<C>(&visible, tile_row, C::WARPGROUPS * 64, (arguments.q_length, 1));
        let rows = Rows::new::<C>(visible, tile_row + 64 * warpgroup, (arguments.q_length, 1));
        let scale = unit(arguments, scales, &work) * core::f32::consts::LOG2_E;
        let query = queries.wait();
        let operands = Operands { tSrQ: &tSrQ, tSrK, tOrV, tOnes, keys: &mut keys, values: &mut values };
        let (mut tOrO, softmax) = attend::<C, _, _, _, _>(operands, of_keys, warpgroup, &rows, scale, || {
            // The next tile of Q is loaded while the rest of this one is computed.
            queries.release(query);
        });
        let factor_v = scales.v.of(work.batch, work.kv_head);
        let (mut factors, mut again) = ([0.0; 2], [false; 2]);
        for row in 0..2 {
            let (sum, to_max) = softmax.row(row, scale);
            let (factor, lse) = sum.finish(unit(arguments, scales, &work), f32::NEG_INFINITY);
            (factors[row], again[row]) = (factor * to_max * factor_v, is_far(&sum, scale));
            if !C::SUMS_BY_WGMMA {
                store_lse(|| rows.row::<C>(row), lse, arguments, &work);
            }
        }
        scale_rows(&mut tOrO, factors);
        let hides = arguments.window != Window::ALL;
        for row in 0..2 {
            again[row] |= is_hit::<_, 2>(&tOrO, row, hides);
        }
        let tile = [tile_row / 64 + warpgroup, 0, work.head, work.batch];
        store::<C>(&tOrO, sO, warpgroup, maps.o, tile, |sO| {
            let unit = || unit(arguments, scales, &work);
            let source = TileRows { arguments, work: &work, first: tile_row + 64 * warpgroup, unit };
            recompute::<C, _>(&source, again, |row, column, results| {
                let rounded = C::T::pack(results[0] * factor_v, results[1] * factor_v);
                for i in 0..2 {
                    sO.at((row, column + i as u32)).set(0usize, rounded[i]);
                }
            });
        });
    }
    // The bulk stores must have read shared memory before the block exits.
    bulk_wait_group_read::<0>();
}

/// The unit of the scores: the factor of the dot products of stored values.
///
/// # Safety
/// Same contract as [`forward_e4m3`].
#[inline(always)]
unsafe fn unit(arguments: &Arguments<F8E4M3>, scales: &Scales, work: &Work) -> f32 {
    let factors = scales.q.of(work.batch, work.head) * scales.k.of(work.batch, work.kv_head);
    arguments.scale * factors
}

/// Stores a warpgroup's rows of O through shared memory, where `fix` may change the rows of its
/// warp. The store is still in flight when this returns.
///
/// # Safety
/// Same contract as [`forward_e4m3`]; all threads of the warpgroup execute this call.
#[inline(always)]
unsafe fn store<C: E4m3Config>(
    tOrO: &Fragment<f32, AccumulatorOf<TileO<C>, C::Pv>>,
    sO: Results<C>,
    warpgroup: u32,
    map: &TmaMap<TmaQ<C>>,
    tile: [u32; 4],
    fix: impl FnOnce(Results<C>),
) {
    let thread = thread_idx().x % WARPGROUP;
    let to_shared = C::StoreO::get_slice(thread);
    let barrier = Barrier::Warpgroup.of(warpgroup);
    let rounded = pack_fragment::<C::T, _>(tOrO);
    // Only this warpgroup accesses the tile.
    reuse_tile::<0>(thread, barrier);
    to_shared.store(&rounded, to_shared.partition_d(sO));
    sync_warp(FULL_WARP);
    fix(sO);
    store_tile(sO, map.tensor().at(tile), thread, barrier);
}
