//! Attention on Hopper where the keys are not one tensor of equal sequences: variable lengths,
//! caches that are filled in part, pages, splits of the keys, query heads of one KV head packed
//! into a tile.
//!
//! A block has one tile of `64 * WARPGROUPS` rows and one split of the keys. Row `r` of a sequence
//! is token `r / pack` of head `r % pack`, so that rows have no stride: the consumer warpgroups
//! load their rows of Q by `cp.async` and store those of O themselves. A producer loads K and V by
//! TMA, in boxes of [`BOX`] keys, each of which is in one page; `hopper_pages` has the one for
//! smaller pages.
#![allow(non_snake_case, reason = "tensors have CuTe's names")]

use super::arguments::Arguments;
use super::config::Half;
use super::hopper_config::{
    BOX, Config, Element, KeyBoxes, OwnRows, SMALL_BOX, SmemK, SmemO, SmemQ, SmemV, SmemVt, TmaKeyBox,
    TmaValueBox, ValueBoxes, VariedStorage, WARPGROUP, give_registers, piece, take_registers,
};
use super::hopper_hidden::recompute;
use super::hopper_mainloop::{Barrier, Mainloop, ResultsOf, begin_turns, scale_rows};
use super::hopper_pages::{BoxMaps, Pipelines, produce_small};
use super::hopper_places::Places;
use super::hopper_rows::{Rows, key_tiles};
use super::hopper_scores::{Options, TileScores, unit};
use super::hopper_softmax::Softmax;
use super::recompute::{Row, Source, is_hit};
use super::rows::Rows as Moved;
use super::schedule::Work;
use super::scores::token;
use super::sequence::Sequence;
use super::softmax::at;
use core::marker::PhantomData;
use moye_device::arch::{
    FULL_WARP, Word, Word64x2, block_idx, cp_async_commit, cp_async_wait, fence_proxy_async_shared, lane_id,
    opaque, prefetch_tensor_map, sync_threads, sync_warp, thread_idx,
};
use moye_device::atom::wgmma::pack_fragment;
use moye_device::atom::{StaticTiledCopy, StaticTiledMma};
use moye_device::memory::{Global, SharedStorage};
use moye_device::pipeline::Role;
use moye_device::tensor::{Fragment, SharedTensor};

/// The kernel's text: entries are its instances. The maps of K and V have the modes (row, column,
/// KV head, sequence or page); `small` are those for pages of fewer than [`BOX`] tokens. The
/// block's threads are those of `Config::THREADS`, the grid's blocks those of [`Arguments::grid`]
/// of `64 * WARPGROUPS` rows.
///
/// # Safety
/// The maps are of tensors in memory of the device, by their types; what `arguments` point to lies
/// inside its buffers, and `o`, `lse` and the workspaces overlap nothing else. Heads of `q` and `o`
/// are contiguous, their addresses and strides multiples of 16 bytes. Pages have a multiple of
/// [`SMALL_BOX`] tokens. Unless `C::GENERAL`, no option of
/// `arguments` changes single scores; otherwise softcap or else scale is positive, and bias and
/// mask are readable by [`CHUNK`](super::CHUNK) keys. The kernel declares `VariedStorage<C>`.
#[inline(always)]
pub unsafe fn forward_varied<C: Config>(
    maps: BoxMaps<'_, C, BOX>,
    small: BoxMaps<'_, C, SMALL_BOX>,
    arguments: &Arguments<C::T>,
) {
    let (role, thread) = (Role::of_thread(C::WARPGROUPS), thread_idx().x);
    // The kernel declares its storage; the pipelines say who may touch a stage.
    let (sQ, sK, sV, keys, values) = VariedStorage::<C>::take();
    if thread == 0 {
        keys.init();
        values.init();
    }
    sync_threads();
    match role {
        Role::Producer { elected } => {
            give_registers::<C>();
            if arguments.pages.address() == 0 || arguments.page >= BOX {
                if elected {
                    produce::<C>(maps, &Tile::of(arguments), (sK, sV), (keys, values));
                }
            } else if thread - C::WARPGROUPS * WARPGROUP < 32 {
                let tile = Tile::<C>::of(arguments);
                if tile.first < tile.rows {
                    let places = Places::new(arguments, &tile.sequence);
                    let of = (places, tile.work.kv_head, tile.keys);
                    produce_small::<C>(small, of, (sK, sV), (keys, values));
                }
            }
        }
        Role::Consumer { warpgroup } => {
            take_registers::<C>();
            consume::<C>(&Tile::of(arguments), warpgroup, (sQ, sK, sV), (keys, values));
        }
    }
}

/// The block's tile of rows and its split of the keys.
#[derive(Clone, Copy)]
struct Tile<'a, C: Config> {
    arguments: &'a Arguments<C::T>,
    work: Work,
    sequence: Sequence,
    /// The tile's first row among those of the sequence.
    first: u32,
    /// Rows of the sequence.
    rows: u32,
    /// The tiles of keys of the split, `begin .. end`.
    keys: (u32, u32),
}

impl<'a, C: Config> Tile<'a, C> {
    /// The block's, which may begin behind the last row.
    ///
    /// # Safety
    /// As [`forward_varied`].
    #[inline(always)]
    unsafe fn of(arguments: &'a Arguments<C::T>) -> Self {
        let work = Work::of(arguments, block_idx().x);
        let sequence = Sequence::of(arguments, work.batch);
        let of_tile = const { C::WARPGROUPS * 64 };
        let (first, rows) = (work.row_tile * of_tile, sequence.queries * arguments.pack);
        // A sequence without rows is as one of one row, whose tiles are not used.
        let of_sequence = (rows.max(1), arguments.pack);
        let (begin, end) = key_tiles::<C>(&sequence.visible, first, of_tile, of_sequence);
        let keys = work.keys(arguments.splits, begin, end);
        Self { arguments, work, sequence, first, rows, keys }
    }

    /// Query token and head of a row of the sequence.
    #[inline(always)]
    fn token(&self, row: u32) -> (u32, u32) {
        let (token, head) = token(row, self.arguments.pack);
        (token, self.work.head + head)
    }

    /// What the options have for the tile's scores.
    #[inline(always)]
    const fn scores(&self) -> TileScores<'a, C> {
        TileScores { arguments: self.arguments, work: self.work, sequence: self.sequence }
    }

    /// The address of a row of O.
    #[inline(always)]
    fn row_of_o(&self, row: u32) -> u64 {
        let (token, head) = self.token(row);
        let strides = &self.arguments.stride_o;
        let first = self.sequence.q_offset(strides, head);
        self.arguments.o.offset(first + i64::from(token) * strides.row).address()
    }

    /// The row of the workspaces.
    #[inline(always)]
    fn partial_row(&self, row: u32) -> i64 {
        let (token, head) = self.token(row);
        self.arguments.partial_row(&self.work, head, token)
    }

    /// Writes the logarithm of a row's sum: one lane of the four that have the row.
    ///
    /// # Safety
    /// The place may be written, and no other thread touches it.
    #[inline(always)]
    unsafe fn store_lse(&self, row: Option<u32>, lse: f32) {
        let Some(row) = row.filter(|_| lane_id().is_multiple_of(4)) else { return };
        if self.arguments.splits > 1 {
            self.arguments.partial_lse.write(self.partial_row(row), lse);
        } else if self.arguments.lse.address() != 0 {
            let (token, head) = self.token(row);
            let strides = &self.arguments.stride_lse;
            let first = self.sequence.q_offset(strides, head);
            self.arguments.lse.write(first + i64::from(token) * strides.row, lse);
        }
    }
}

/// The producer: one thread that loads the tiles of K and V.
///
/// # Safety
/// As [`forward_varied`].
#[inline(always)]
unsafe fn produce<C: Config>(
    (k, v): BoxMaps<'_, C, BOX>,
    tile: &Tile<'_, C>,
    (sK, sV): (SharedTensor<Element<C>, SmemK<C>>, SharedTensor<Element<C>, SmemV<C>>),
    (keys, values): Pipelines<C>,
) {
    let sK = sK.with_layout::<KeyBoxes<C>>(); // (BOX, D, BLK_N / BOX, STAGES)
    let sV = sV.with_layout::<ValueBoxes<C>>(); // (BOX, DV, BLK_N / BOX, STAGES)
    let (mK, mV) = (k.tensor(), v.tensor());
    let (mut keys, mut values) = (keys.producer(), values.producer());
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
    if tile.first >= tile.rows || begin >= next {
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

/// Shared memory: (64, D, WARPGROUPS), (BLK_N, D, STAGES) and (BLK_N, DV, STAGES).
type Arrays<C> = (
    SharedTensor<Element<C>, SmemQ<C>>,
    SharedTensor<Element<C>, SmemK<C>>,
    SharedTensor<Element<C>, SmemV<C>>,
);

/// A consumer warpgroup: 64 rows of the tile.
///
/// # Safety
/// As [`forward_varied`]; all threads of the warpgroup.
#[inline(always)]
unsafe fn consume<C: Config>(
    tile: &Tile<'_, C>,
    warpgroup: u32,
    (sQ, sK, sV): Arrays<C>,
    (keys, values): Pipelines<C>,
) {
    if tile.first >= tile.rows {
        // The sequence ends before the tile.
        return;
    }
    let scale = unit::<C>(tile.arguments) * core::f32::consts::LOG2_E;
    let first = tile.first + 64 * warpgroup;
    let (qk, pv) = (C::Qk::get_slice(0), C::Pv::get_slice(0));
    // The warpgroup's rows of Q and O are its own.
    let sO = sQ.with_layout::<SmemO<C>>().at((.., .., warpgroup)); // (64, DV)
    let sQ = sQ.at((.., .., warpgroup)); // (64, D)
    let sVt = sV.with_layout::<SmemVt<C>>(); // (DV, BLK_N, STAGES)
    let tSrQ = qk.descriptors_a(&qk.partition_a(sQ)); // (1, MMA_M, MMA_K)
    let tSrK = qk.descriptors_b(&qk.partition_b(sK)); // (1, MMA_N, MMA_K, STAGES)
    let tOrV = pv.descriptors_b(&pv.partition_b(sVt)); // (1, MMA_N, MMA_K, STAGES)
    load_queries(tile, first, sQ);
    fence_proxy_async_shared();
    Barrier::Warpgroup.of(warpgroup).sync();
    begin_turns::<C>(warpgroup);
    let mut rows = Rows::new::<C>(tile.sequence.visible, first, (tile.rows, tile.arguments.pack));
    let (keys, values) = (keys.consumer(), values.consumer());
    let config = PhantomData::<C>;
    let mut mainloop = Mainloop { tSrQ: &tSrQ, tSrK, tOrV, keys, values, warpgroup, scale, config };
    let (mut tOrO, softmax) = if tile.keys.0 >= tile.keys.1 {
        (Fragment::filled(0.0), Softmax::NONE)
    } else if C::GENERAL {
        mainloop.all(tile.keys, &mut Options::new(tile.scores(), rows, tile.keys))
    } else {
        mainloop.all(tile.keys, &mut rows)
    };
    let (mut factors, mut again) = ([0.0; 2], [Row { lse: 0.0, again: false }; 2]);
    for index in 0..2 {
        let row = rows.row::<C>(index);
        // A head's sink is split 0's.
        let sink = match row {
            Some(row) if tile.arguments.sinks.address() != 0 && tile.work.split == 0 => {
                tile.arguments.sinks.read(tile.token(row).1.into())
            }
            _ => f32::NEG_INFINITY,
        };
        let (factor, lse) = softmax.finish(index, scale, sink);
        tile.store_lse(row, lse);
        (factors[index], again[index].lse) = (factor, lse);
    }
    scale_rows(&mut tOrO, factors);
    for index in 0..2 {
        again[index].again = is_hit::<_, 2>(&tOrO, index, true);
    }
    if tile.arguments.splits > 1 {
        store_partial(tile, &rows, &tOrO, &again, first);
    } else {
        store(tile, warpgroup, &tOrO, &again, first, sO);
    }
}

/// Copies a warpgroup's rows of Q, from row `first` of the sequence on, to its tile; rows beyond
/// the last become zeros.
///
/// # Safety
/// As [`forward_varied`].
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

/// Stores a warpgroup's rows as elements, through its tile of Q, which all its products have read.
///
/// # Safety
/// As [`forward_varied`]; all threads of the warpgroup.
#[inline(always)]
unsafe fn store<C: Config>(
    tile: &Tile<'_, C>,
    warpgroup: u32,
    tOrO: &ResultsOf<C>,
    again: &[Row; 2],
    first: u32,
    sO: SharedTensor<Element<C>, OwnRows<SmemO<C>>>,
) {
    let thread = thread_idx().x % WARPGROUP;
    let to_shared = C::StoreO::get_slice(thread);
    // The tile is the warpgroup's own; barriers stand between its products, its writes and its
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
/// As [`forward_varied`]; all lanes of the warp execute this call together.
#[inline(always)]
unsafe fn store_partial<C: Config>(
    tile: &Tile<'_, C>,
    rows: &Rows,
    tOrO: &ResultsOf<C>,
    again: &[Row; 2],
    first: u32,
) {
    // What a thread computes again, it has stored itself.
    for index in 0..2 {
        let row = rows.row::<C>(index);
        let place = tile.arguments.partial_o.offset(tile.partial_row(row.unwrap_or(0)) * C::DV);
        let place = place.offset((lane_id() % 4 * 2).into());
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

/// Where the rows of a warpgroup and its keys are in global memory.
struct Varied<'a, C: Config> {
    tile: &'a Tile<'a, C>,
    /// The warpgroup's first row among those of the sequence.
    first: u32,
}

impl<C: Config> Varied<'_, C> {
    /// The query token and head of a row of the warpgroup.
    #[inline(always)]
    fn token(&self, row: u32) -> (u32, u32) {
        self.tile.token((self.first + row).min(opaque(self.tile.rows) - 1))
    }
}

impl<C: Config> Source for Varied<'_, C> {
    type Element = C::T;

    #[inline(always)]
    fn scale(&self) -> f32 {
        unit::<C>(self.tile.arguments) * core::f32::consts::LOG2_E
    }

    #[inline(always)]
    unsafe fn score(&self, row: u32, key: u32, dot: f32) -> f32 {
        if !C::GENERAL {
            return dot;
        }
        let (token, head) = self.token(row);
        self.tile.scores().score((token, head - self.tile.work.head), key, dot)
    }

    #[inline(always)]
    fn hull(&self, first: u32, last: u32) -> (i32, i32) {
        let visible = &self.tile.sequence.visible;
        let ((begin, end), _) = visible.range(self.token(first).0, self.token(last).0);
        let of_split = |tile: u32| (tile * C::BLK_N) as i32;
        (begin.max(of_split(self.tile.keys.0)), end.min(of_split(self.tile.keys.1)))
    }

    #[inline(always)]
    fn query(&self, row: u32) -> (Global<C::T>, (i32, i32)) {
        let (token, head) = self.token(row);
        let strides = &self.tile.arguments.stride_q;
        let from = self.tile.sequence.q_offset(strides, head) + i64::from(token) * strides.row;
        (self.tile.arguments.q.offset(from), self.tile.sequence.visible.of(token))
    }

    #[inline(always)]
    fn key(&self, key: u32) -> (Global<C::T>, Global<C::T>) {
        let Arguments { k, v, stride_k, stride_v, .. } = self.tile.arguments;
        let [row, batch] = Places::new(self.tile.arguments, &self.tile.sequence).of(key).map(i64::from);
        let head = i64::from(self.tile.work.kv_head);
        let place = |strides: &super::arguments::Strides| {
            batch * strides.batch + head * strides.head + row * strides.row
        };
        (k.offset(place(stride_k)), v.offset(place(stride_v)))
    }
}
