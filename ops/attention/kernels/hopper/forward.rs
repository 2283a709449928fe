//! The kernel for Hopper: TMA, `wgmma`, with the softmax of one warpgroup overlapped with the
//! products of another.
//!
//! A block computes a tile of `64 * WARPGROUPS` query rows at a time, 64 per consumer warpgroup; a
//! producer loads K and V. A consumer keeps the scores `S`, the probabilities `P` and its rows of O
//! in registers ([`mainloop`](super::mainloop)).
//!
//! The source of the keys determines the rest:
//! - [`Maps`]: whole tensors. Blocks are persistent; the producer also loads Q, and the results of
//!   a tile are stored during the products of the next tile.
//! - [`KeyMaps`]: variable lengths, partly filled caches, pages, splits of the keys, query heads of
//!   one KV head packed into a tile. Row `r` of a sequence is token `r / pack` of head `r % pack`,
//!   so that rows have no common stride: the consumers load their rows of Q by `cp.async` and store
//!   their rows of O themselves.
#![allow(non_snake_case, reason = "tensors have CuTe's names")]

use super::super::arguments::{Arguments, Window};
use super::super::recompute::Again;
use super::super::results::normalise;
use super::super::softmax::OnlineSoftmax;
use super::super::tile::{Tile, Varied};
use super::arrival::combine_last;
use super::config::{BOX, Element, HopperConfig, SMALL_BOX, WARPGROUP};
use super::layouts::*;
use super::mainloop::{Barrier, ResultsOf, begin_turns, mainloop};
use super::rows::ThreadRows;
use super::scores::Options;
use super::source::{BoxMaps, Boxes, Equal, Maps, Whole, produce};
use super::store::{moved, normalisation, store_by_tma, store_rows, store_words, tile_of_o};
use moye_device::arch::{
    bulk_wait_group_read, cp_async_commit, cp_async_wait, fence_proxy_async_shared, opaque,
    prefetch_tensor_map, sync_threads, thread_idx,
};
use moye_device::atom::tma::TmaMap;
use moye_device::collective::TileScheduler;
use moye_device::memory::SharedStorage;
use moye_device::pipeline::Role;
use moye_device::tensor::{Fragment, SharedTensor};

/// Where a kernel's keys come from, and with them its order of work.
pub trait KeySource<C: HopperConfig>: Copy {
    /// The block's shared memory.
    type Storage: SharedStorage;

    /// Initialises the pipelines in one thread, and other state that all roles need. All threads of
    /// the block call it.
    ///
    /// # Safety
    /// Same contract as [`forward`].
    unsafe fn init(tensors: &Of<Self::Storage>);

    /// The producer warpgroup; `elected` is one of its threads.
    ///
    /// # Safety
    /// Same contract as [`forward`].
    unsafe fn produce<S: TileScheduler>(
        self,
        arguments: &Arguments<C::Operand>,
        tiles: impl Fn() -> S,
        elected: bool,
        tensors: Of<Self::Storage>,
    );

    /// A consumer warpgroup: 64 rows of each tile.
    ///
    /// # Safety
    /// Same contract as [`forward`].
    unsafe fn consume(
        self,
        arguments: &Arguments<C::Operand>,
        tiles: impl TileScheduler,
        warpgroup: u32,
        tensors: Of<Self::Storage>,
    );
}

/// The kernel's body, which each entry instantiates. A block has `HopperConfig::THREADS` threads.
/// Each role calls `tiles` to build the scheduler of this block's tiles, so that the scheduler
/// takes no registers before: row tile `m`, of `64 * WARPGROUPS` rows, of query head `n`, and split
/// `k` of the keys. Together the blocks compute the tiles of [`Arguments::grid`].
///
/// # Safety
/// Each map describes a tensor in device memory that matches its type. All elements that
/// `arguments` address are inside their buffers, and `o`, `lse` and the workspaces overlap nothing
/// else. The kernel declares `K::Storage`.
///
/// With [`KeyMaps`]: heads of `q` and `o` are contiguous, their addresses and strides multiples of
/// 16 bytes. Pages have a multiple of [`SMALL_BOX`] tokens. Unless `C::GENERAL`, no option of
/// `arguments` changes individual scores; otherwise softcap or else scale is positive, and bias and
/// mask are readable by [`CHUNK`](super::super::CHUNK) keys.
#[inline(always)]
pub unsafe fn forward<C: HopperConfig, K: KeySource<C>, S: TileScheduler>(
    source: K,
    arguments: &Arguments<C::Operand>,
    tiles: impl Fn() -> S,
) {
    let role = Role::of_thread(C::WARPGROUPS);
    // The kernel declares its storage; the pipelines order all accesses to a stage.
    let tensors = K::Storage::take();
    K::init(&tensors);
    sync_threads();
    match role {
        Role::Producer { elected } => {
            C::set_registers::<false>();
            source.produce(arguments, tiles, elected, tensors);
        }
        Role::Consumer { warpgroup } => {
            C::set_registers::<true>();
            source.consume(arguments, tiles(), warpgroup, tensors);
        }
    }
}

impl<C: HopperConfig> KeySource<C> for Maps<'_, C> {
    type Storage = Storage<C>;

    #[inline(always)]
    unsafe fn init((_, _, _, queries, keys, values): &Of<Storage<C>>) {
        if thread_idx().x == 0 {
            queries.0.init();
            queries.1.init();
            queries.2.init();
            keys.init();
            values.init();
        }
    }

    #[inline(always)]
    unsafe fn produce<S: TileScheduler>(
        self,
        arguments: &Arguments<C::Operand>,
        tiles: impl Fn() -> S,
        elected: bool,
        (sQ, sK, sV, queries, keys, values): Of<Storage<C>>,
    ) {
        if elected {
            let tiles = tiles();
            let sequences = Equal::of(arguments);
            let queries = [queries.0.producer(), queries.1.producer(), queries.2.producer()];
            let (keys, values) = (keys.producer(), values.producer());
            self.prefetch();
            produce(Whole { maps: self, sQ, sK, sV, queries, keys, values }, arguments, sequences, tiles);
        }
    }

    #[inline(always)]
    unsafe fn consume(
        self,
        arguments: &Arguments<C::Operand>,
        mut tiles: impl TileScheduler,
        warpgroup: u32,
        (sQ, sK, sV, queries, keys, values): Of<Storage<C>>,
    ) {
        let sequences = Equal::of(arguments);
        let scale = arguments.scale * core::f32::consts::LOG2_E;
        let queries = match warpgroup {
            0 => queries.0,
            1 => queries.1,
            _ => queries.2,
        };
        let (mut queries, keys, values) = (queries.consumer(), keys.consumer(), values.consumer());
        let sQ_own = sQ.at((.., .., warpgroup)); // (64, D)
        let mut mainloop = mainloop::<C>(sQ_own, sK, sV, keys, values, warpgroup, scale);
        begin_turns::<C>(warpgroup);
        // A tile of queries, and this thread's rows of it.
        macro_rules! part {
            ($tile:expr) => {{
                let tile = Tile::<C, _>::of(arguments, sequences, &tiles.place($tile));
                (tile, ThreadRows::of(&tile, tile.first + 64 * warpgroup))
            }};
        }
        let Some(tile) = tiles.next_tile() else { return };
        let mut part = part!(tile);
        let mut query = Some(queries.wait());
        // Q is released to the next tile when its last product has read it.
        macro_rules! read {
            ($key:expr, $part:expr) => {
                || {
                    if $key == $part.0.keys.begin
                        && let Some(query) = query.take()
                    {
                        queries.release(query);
                    }
                }
            };
        }
        let mut key = part.0.keys.end - 1;
        let mut state = mainloop.begin(&mut part.1, key, read!(key, part));
        loop {
            while key > part.0.keys.begin {
                key -= 1;
                mainloop.step(&mut state, &mut part.1, key, read!(key, part));
            }
            let Some(next) = tiles.next_tile() else { break };
            let mut next = part!(next);
            key = next.0.keys.end - 1;
            query = Some(queries.wait());
            mainloop.next_query_tile(&mut state, &mut next.1, key, read!(key, next), |tOrO, softmax| {
                finish(&part.0, tOrO, softmax, sQ, self.o);
            });
            part = next;
        }
        let (mut tOrO, softmax) = mainloop.end(state);
        finish(&part.0, &mut tOrO, &softmax, sQ, self.o);
        // The bulk stores must have read shared memory before the block exits.
        bulk_wait_group_read::<0>();
    }
}

/// Divides the results by the softmax's sums and stores them, with the log-sum-exps.
#[inline(always)]
unsafe fn finish<C: HopperConfig>(
    tile: &Tile<'_, C, Equal>,
    tOrO: &mut ResultsOf<C>,
    softmax: &OnlineSoftmax<2>,
    sQ: SharedTensor<Element<C>, SmemQ<C>>,
    map: &TmaMap<TmaO<C>>,
) {
    // Kept, the warpgroup's index and its rows would take registers in the mainloop.
    let warpgroup = opaque(thread_idx().x) / WARPGROUP;
    let first = tile.first + 64 * warpgroup;
    let rows = ThreadRows::of(tile, first).rows::<C>();
    let hides = tile.arguments.window != Window::ALL;
    let again = normalise(tile, rows, tOrO, softmax, normalisation::<C>(1.0, hides));
    let rows_again = Again { tile, first };
    if C::SEPARATE_O {
        let sO = tile_of_o::<C>(sQ, warpgroup + C::TILES_Q - C::WARPGROUPS); // (64, DV)
        store_by_tma(&rows_again, &again, tOrO, sO, warpgroup, map, 1.0);
    } else {
        store_words(&rows_again, &again, rows, tOrO);
    }
}

/// The tensor maps of K and V, all of modes (row, column, KV head, sequence or page), in boxes of
/// [`BOX`] keys, and of [`SMALL_BOX`] for pages of fewer than [`BOX`] tokens.
#[derive(Clone, Copy)]
pub struct KeyMaps<'a, C: HopperConfig> {
    /// By boxes of [`BOX`] keys.
    pub boxes: BoxMaps<'a, C, BOX>,
    /// By boxes of [`SMALL_BOX`] keys.
    pub small: BoxMaps<'a, C, SMALL_BOX>,
}

impl<C: HopperConfig> KeySource<C> for KeyMaps<'_, C> {
    type Storage = VariedStorage<C>;

    #[inline(always)]
    unsafe fn init((_, _, _, (), keys, values): &Of<VariedStorage<C>>) {
        if thread_idx().x == 0 {
            keys.init();
            values.init();
        }
    }

    #[inline(always)]
    unsafe fn produce<S: TileScheduler>(
        self,
        arguments: &Arguments<C::Operand>,
        tiles: impl Fn() -> S,
        elected: bool,
        (_, sK, sV, (), keys, values): Of<VariedStorage<C>>,
    ) {
        let tiles = tiles();
        let (keys, values) = (keys.producer(), values.producer());
        let by_warp = arguments.pages.address() != 0 && arguments.page < BOX;
        if by_warp && thread_idx().x - C::WARPGROUPS * WARPGROUP < 32 {
            if elected {
                prefetch_tensor_map(self.small.0.pointer());
                prefetch_tensor_map(self.small.1.pointer());
            }
            produce(Boxes { maps: self.small, sK, sV, keys, values }, arguments, Varied, tiles);
        } else if !by_warp && elected {
            prefetch_tensor_map(self.boxes.0.pointer());
            prefetch_tensor_map(self.boxes.1.pointer());
            produce(Boxes { maps: self.boxes, sK, sV, keys, values }, arguments, Varied, tiles);
        }
    }

    #[inline(always)]
    unsafe fn consume(
        self,
        arguments: &Arguments<C::Operand>,
        mut tiles: impl TileScheduler,
        warpgroup: u32,
        (sQ, sK, sV, (), keys, values): Of<VariedStorage<C>>,
    ) {
        let unit = if C::GENERAL { arguments.unit() } else { arguments.scale };
        let scale = unit * core::f32::consts::LOG2_E;
        let sQ_own = sQ.at((.., .., warpgroup)); // (64, D)
        let (keys, values) = (keys.consumer(), values.consumer());
        let mut mainloop = mainloop::<C>(sQ_own, sK, sV, keys, values, warpgroup, scale);
        begin_turns::<C>(warpgroup);
        let Some(mut work) = tiles.next_tile() else { return };
        loop {
            let tile = Tile::<C, _>::of(arguments, Varied, &tiles.place(work));
            if tile.exists() {
                let first = tile.first + 64 * warpgroup;
                // Rows past the end become zeros.
                let row_of_q = |row| (tile.row_of_q(first + row), first + row < tile.rows());
                moved(C::D, thread_idx().x % WARPGROUP).load(sQ_own.pointer().address(), row_of_q);
                cp_async_commit();
                cp_async_wait::<0>();
                fence_proxy_async_shared();
                Barrier::Warpgroup.of(warpgroup).sync();
                let mut rows = ThreadRows::of(&tile, first);
                let (mut tOrO, softmax) = if tile.keys.begin >= tile.keys.end {
                    (Fragment::filled(0.0), OnlineSoftmax::new(C::GENERAL, scale))
                } else if C::GENERAL {
                    mainloop.run(tile.keys, &mut Options::new(tile.scores(), rows, tile.keys))
                } else {
                    mainloop.run(tile.keys, &mut rows)
                };
                // Kept, the warpgroup's index and its rows would take registers in the mainloop.
                let warpgroup = opaque(thread_idx().x) / WARPGROUP;
                let first = tile.first + 64 * warpgroup;
                let rows = ThreadRows::of(&tile, first).rows::<C>();
                let again = normalise(&tile, rows, &mut tOrO, &softmax, normalisation::<C>(1.0, true));
                let rows_again = Again { tile: &tile, first };
                store_rows(&rows_again, again, rows, &tOrO, tile_of_o(sQ, warpgroup), warpgroup);
                if C::WARPGROUPS == 1 && arguments.splits > 1 {
                    // All products have read Q.
                    combine_last(&tile, thread_idx().x, sQ.pointer().address());
                }
            }
            let Some(next) = tiles.next_tile() else { return };
            // All threads have read their rows of O, which the next Q overwrites.
            Barrier::Warpgroup.of(warpgroup).sync();
            work = next;
        }
    }
}
