//! The sources of keys, and the producer that loads from them: whole tensors, whose tiles are TMA
//! boxes; and tensors of variable lengths or pages, in boxes within one sequence or one page.
//!
//! A tile of 128 keys in pages of 16 is eight boxes at unrelated addresses. There the producer is a
//! warp, each lane of which loads one box of a tile of keys. Each lane reads the page number of its
//! box one tile ahead, so that the reads of a tile cost one latency.
#![allow(non_snake_case, reason = "tensors have CuTe's names")]

use super::super::arguments::Arguments;
use super::super::schedule::Work;
use super::super::sequence::{Places, Sequence, Span, Visible};
use super::super::tile::{Sequences, Tile};
use super::config::{BOX, Element as Operand, HopperConfig, SMALL_BOX, STAGES};
use super::layouts::*;
use moye_device::arch::{lane_id, prefetch_tensor_map};
use moye_device::atom::tma::{TmaCopy, TmaMap};
use moye_device::collective::TileScheduler;
use moye_device::memory::Element;
use moye_device::pipeline::Producer;
use moye_device::tensor::{Fixed, Kept, SharedTensor, SliceOf, StaticLayout};

/// The sequence or the page of each box of a tile of keys, one or two. In the warp that loads small
/// boxes, the first one is that of the lane's box.
type Batches = (i32, i32);

/// Sequences of one length; their queries see these keys.
#[derive(Clone, Copy)]
pub struct Equal(pub Visible);

impl Equal {
    /// The sequences of a call, all of `q_length` and `k_length` tokens.
    #[inline(always)]
    pub fn of<T: Element>(arguments: &Arguments<T>) -> Self {
        Self(Visible::new(arguments.q_length, arguments.k_length, arguments.window))
    }

    /// Sequence `batch` of `queries` tokens.
    #[inline(always)]
    pub fn of_length(&self, queries: u32, batch: u32) -> Sequence {
        Sequence { batch, q_first: 0, k_first: 0, queries, visible: self.0 }
    }
}

impl<C: HopperConfig> Sequences<C> for Equal {
    const VARIED: bool = false;
    const FEWEST_TILES: u32 = 1;

    #[inline(always)]
    fn sequence(&self, arguments: &Arguments<C::Operand>, batch: u32) -> Option<Sequence> {
        Some(self.of_length(arguments.q_length, batch))
    }
}

/// The first key of box `part` of `B` keys of a tile of keys.
#[inline(always)]
fn first_key<C: HopperConfig, const B: u32>(tile: u32, part: u32) -> u32 {
    const {
        let boxes = C::BLK_N / B;
        assert!(
            C::BLK_N % B == 0 && boxes <= if B == BOX { 2 } else { 32 },
            "1 or 2 boxes, or one for a lane"
        );
    }
    tile * C::BLK_N + part * B
}

/// Loads tiles of Q, K and V into the stages of their pipelines.
pub trait Loader<C: HopperConfig> {
    /// The location of the keys of a tile of queries.
    type Keys;
    /// The sequence or the pages of a tile of keys, read one tile ahead of the copies.
    type Place: Copy;

    /// The keys of a tile of queries.
    fn keys<S: Sequences<C>>(&self, tile: &Tile<'_, C, S>) -> Self::Keys;

    /// The place of tile `tile` of keys.
    fn place(&self, keys: &Self::Keys, tile: u32) -> Self::Place;

    /// Loads into the next stage.
    ///
    /// # Safety
    /// The maps describe tensors in device memory; page tables have the pages of all keys. Shared
    /// arrays and pipelines have the same stages.
    unsafe fn load(&mut self, keys: &Self::Keys, load: Load<Self::Place>);
}

/// A load of a producer.
pub enum Load<P> {
    /// The tiles of Q of all warpgroups, unless the consumers load them.
    Queries,
    /// A tile of K, and its place.
    Keys(u32, P),
    /// A tile of V, and its place.
    Values(u32, P),
}

/// The producer: loads Q, K and V for each tile of queries, the tiles of keys from the last to the
/// first.
#[inline(always)]
pub unsafe fn produce<C: HopperConfig, S: Sequences<C>, L: Loader<C>>(
    mut loader: L,
    arguments: &Arguments<Operand<C>>,
    sequences: S,
    mut tiles: impl TileScheduler,
) {
    while let Some(tile) = tiles.next_tile() {
        let tile = Tile::<C, S>::of(arguments, sequences, &tiles.place(tile));
        let keys = loader.keys(&tile);
        let Span { begin, end: mut next } = tile.keys;
        if S::FEWEST_TILES == 0 && (!tile.exists() || begin >= next) {
            continue;
        }
        // In the order in which the consumers free the stages: they read the last Q, then K.
        next -= 1;
        let mut of_v = loader.place(&keys, next);
        loader.load(&keys, Load::Keys(next, of_v));
        loader.load(&keys, Load::Queries);
        let mut of_k = if next > begin { loader.place(&keys, next - 1) } else { of_v };
        while next > begin {
            next -= 1;
            let later = if next > begin { loader.place(&keys, next - 1) } else { of_k };
            loader.load(&keys, Load::Keys(next, of_k));
            loader.load(&keys, Load::Values(next + 1, of_v));
            (of_v, of_k) = (of_k, later);
        }
        loader.load(&keys, Load::Values(next, of_v));
    }
}

/// The tensor maps of Q, K, V and O, all of modes (row, column, head, sequence), as parameters of
/// the kernel.
#[derive(Clone, Copy)]
pub struct Maps<'a, C: HopperConfig> {
    /// Queries.
    pub q: &'a TmaMap<TmaQ<C>>,
    /// Keys.
    pub k: &'a TmaMap<TmaK<C>>,
    /// Values.
    pub v: &'a TmaMap<TmaV<C>>,
    /// Results.
    pub o: &'a TmaMap<TmaO<C>>,
}

impl<C: HopperConfig> Maps<'_, C> {
    /// Prefetches the maps of Q, K and V.
    ///
    /// # Safety
    /// The maps are parameters of the kernel.
    #[inline(always)]
    pub unsafe fn prefetch(&self) {
        prefetch_tensor_map(self.q.pointer());
        prefetch_tensor_map(self.k.pointer());
        prefetch_tensor_map(self.v.pointer());
    }
}

/// Loads whole tiles, for one thread. `V` is the stages of V.
pub struct Whole<'a, C: HopperConfig, const V: u32> {
    /// The tensors.
    pub maps: Maps<'a, C>,
    /// (64, D, TILES_Q)
    pub sQ: SharedTensor<Operand<C>, SmemQ<C>>,
    /// (BLK_N, D, STAGES)
    pub sK: SharedTensor<Operand<C>, SmemK<C>>,
    /// (BLK_N, DV, STAGES_V)
    pub sV: SharedTensor<Operand<C>, SmemV<C>>,
    /// A stage of Q for each warpgroup.
    pub queries: [Producer<1, 1>; 3],
    /// The stages of K.
    pub keys: Producer<STAGES, 1>,
    /// The stages of V.
    pub values: Producer<V, 1>,
}

impl<C: HopperConfig, const V: u32> Loader<C> for Whole<'_, C, V> {
    type Keys = Work;
    type Place = ();

    #[inline(always)]
    fn keys<S: Sequences<C>>(&self, tile: &Tile<'_, C, S>) -> Work {
        tile.work
    }

    #[inline(always)]
    fn place(&self, _: &Work, _: u32) {}

    #[inline(always)]
    unsafe fn load(&mut self, work: &Work, load: Load<()>) {
        // Each stage expects the bytes that are loaded into it.
        match load {
            Load::Queries => {
                for warpgroup in 0..C::WARPGROUPS {
                    let filling = self.queries[warpgroup as usize].acquire(TmaQ::<C>::BYTES);
                    let row_tile = work.row_tile * C::WARPGROUPS + warpgroup;
                    let gQ = self.maps.q.tensor().at((row_tile, 0, work.head, work.batch)); // (64, D)
                    TmaQ::<C>::get_slice().copy(gQ, self.sQ.at((.., .., warpgroup)), &filling);
                }
            }
            Load::Keys(tile, ()) => {
                let filling = self.keys.acquire(TmaK::<C>::BYTES);
                let gK = self.maps.k.tensor().at((tile, 0, work.kv_head, work.batch)); // (BLK_N, D)
                TmaK::<C>::get_slice().copy(gK, filling.of(self.sK), &filling);
            }
            Load::Values(tile, ()) => {
                let filling = self.values.acquire(TmaV::<C>::BYTES);
                let gV = self.maps.v.tensor().at((tile, 0, work.kv_head, work.batch)); // (BLK_N, DV)
                TmaV::<C>::get_slice().copy(gV, filling.of(self.sV), &filling);
            }
        }
    }
}

/// The maps of K and V by boxes of `B` keys.
pub type BoxMaps<'a, C, const B: u32> = (&'a TmaMap<TmaKeyBox<C, B>>, &'a TmaMap<TmaValueBox<C, B>>);

/// Loads tiles of K and V in boxes of `B` keys: of [`BOX`] keys by one thread, of [`SMALL_BOX`] by
/// one warp, each lane of which loads one box of a tile.
pub struct Boxes<'a, C: HopperConfig, const B: u32> {
    /// The tensors.
    pub maps: BoxMaps<'a, C, B>,
    /// (BLK_N, D, STAGES)
    pub sK: SharedTensor<Operand<C>, SmemK<C>>,
    /// (BLK_N, DV, STAGES)
    pub sV: SharedTensor<Operand<C>, SmemV<C>>,
    /// The stages of K.
    pub keys: Producer<STAGES, 1>,
    /// The stages of V.
    pub values: Producer<STAGES, 1>,
}

/// A box of `T`: (rows, columns) of boxes (rows, columns, boxes, STAGES) in shared memory.
type BoxCopy<T, L> = TmaCopy<T, SliceOf<L, (Kept, Kept, Fixed, Fixed)>, 4>;

/// The keys of a tile of queries in boxes.
pub struct BoxKeys {
    places: Places,
    kv_head: i32,
}

impl<C: HopperConfig, const B: u32> Boxes<'_, C, B> {
    /// Loads the boxes of a tile into the next stage: all by one thread, or small ones each by one
    /// lane, whose batch is the first of the array.
    #[inline(always)]
    unsafe fn load_boxes<L: StaticLayout>(
        stages: &mut Producer<STAGES, 1>,
        (map, array): (&TmaMap<BoxCopy<Operand<C>, L>>, SharedTensor<Operand<C>, L>),
        keys: &BoxKeys,
        tile: u32,
        batches: Batches,
    ) {
        let boxes = const { C::BLK_N / B };
        // Each stage expects the bytes that are loaded into it.
        let bytes = boxes * BoxCopy::<Operand<C>, L>::BYTES;
        let filling = if B == BOX { stages.acquire(bytes) } else { stages.acquire_by_warp(bytes) };
        let stage = filling.of(array); // (B, D or DV, BLK_N / B)
        let load = |part: u32, batch: i32| {
            let row = keys.places.row(first_key::<C, B>(tile, part));
            let tensor = map.tensor().offset([row, 0, keys.kv_head, batch]);
            BoxCopy::<Operand<C>, L>::get_slice().copy(tensor, stage.at((.., .., part)), &filling);
        };
        if B == BOX {
            load(0, batches.0);
            if boxes > 1 {
                load(1, batches.1);
            }
        } else if lane_id() < boxes {
            load(lane_id(), batches.0);
        }
    }
}

impl<C: HopperConfig, const B: u32> Loader<C> for Boxes<'_, C, B> {
    type Keys = BoxKeys;
    type Place = Batches;

    #[inline(always)]
    fn keys<S: Sequences<C>>(&self, tile: &Tile<'_, C, S>) -> BoxKeys {
        BoxKeys {
            places: Places::new(tile.arguments, &tile.sequence, true),
            kv_head: tile.work.kv_head as i32,
        }
    }

    #[inline(always)]
    fn place(&self, keys: &BoxKeys, tile: u32) -> Batches {
        let batch = |part: u32| keys.places.batch(first_key::<C, B>(tile, part));
        if B == SMALL_BOX {
            // Lanes without a box are clamped to the last.
            return (batch(lane_id().min(const { C::BLK_N / B } - 1)), 0);
        }
        (batch(0), if const { C::BLK_N / B } > 1 { batch(1) } else { 0 })
    }

    #[inline(always)]
    unsafe fn load(&mut self, keys: &BoxKeys, load: Load<Batches>) {
        match load {
            Load::Queries => {}
            Load::Keys(tile, batches) => {
                let sK = self.sK.with_layout::<KeyBoxes<C, B>>(); // (B, D, BLK_N / B, STAGES)
                Self::load_boxes(&mut self.keys, (self.maps.0, sK), keys, tile, batches);
            }
            Load::Values(tile, batches) => {
                let sV = self.sV.with_layout::<ValueBoxes<C, B>>(); // (B, DV, BLK_N / B, STAGES)
                Self::load_boxes(&mut self.values, (self.maps.1, sV), keys, tile, batches);
            }
        }
    }
}
