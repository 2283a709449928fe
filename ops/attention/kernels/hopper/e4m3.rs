//! Forward attention of e4m3 on Hopper, with a scale factor per head: the schedule of
//! [`forward`](super::forward), with V transposed in shared memory.
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

use super::super::arguments::{Arguments, Window};
use super::super::recompute::Again;
use super::super::results::normalise;
use super::super::schedule::Work;
use super::super::sequence::{Sequence, Span};
use super::super::tile::{Sequences, Tile};
use super::config::{HopperConfig, STAGES, WARPGROUP};
use super::e4m3_mainloop::{Operands, Sums, attend};
use super::forward::KeySource;
use super::layouts::*;
use super::mainloop::begin_turns;
use super::rows::ThreadRows;
use super::source::{Equal, Load, Loader, Maps, Whole};
use super::store::{normalisation, store_by_tma};
use core::marker::PhantomData;
use moye_device::algorithm::transpose_paired;
use moye_device::arch::{
    FULL_WARP, bulk_wait_group_read, fence_proxy_async_shared, shuffle, sync_warp, thread_idx,
};
use moye_device::atom::StaticTiledMma;
use moye_device::collective::TileScheduler;
use moye_device::kernel::KernelParam;
use moye_device::memory::{Global, SharedArray};
use moye_device::number::F8E4M3;
use moye_device::pipeline::{PipelineStorage, Readers, Warps};
use moye_device::tensor::SharedTensor;

/// Warps that transpose V: all of the producer's warpgroup but the loading warp.
pub const TRANSPOSERS: u32 = WARPGROUP / 32 - 1;

/// The writers and readers of stages of transposed V.
#[derive(Debug)]
pub struct Transposed<C>(PhantomData<C>);

impl<C: HopperConfig> Readers for Transposed<C> {
    const WARPS: u32 = <Consumers<C> as Readers>::WARPS;
    const FILLERS: u32 = TRANSPOSERS;
}

/// The barriers of the stages of V as TMA loads it: one or two.
pub type LoadedStages<const STAGES_V: u32> = PipelineStorage<STAGES_V, Warps<TRANSPOSERS>>;
/// The barriers of the stages of transposed V.
pub type ValueStages<C> = PipelineStorage<STAGES, Transposed<C>>;

/// Shared-memory storage of a block: Q and O; K and V; transposed V and ones; the barriers of Q;
/// the barriers of K, V (`LOADED` stages) and transposed V.
pub type E4m3Storage<C, const LOADED: u32> = (
    (SharedArray<F8E4M3, SmemQ<C>>, SharedArray<<C as HopperConfig>::T, SmemO<C>>),
    (SharedArray<F8E4M3, SmemK<C>>, SharedArray<F8E4M3, SmemV<C>>),
    (SharedArray<F8E4M3, SmemVt8<C>>, SharedArray<F8E4M3, SmemOnes<C>>),
    QueryStages,
    (KeyStages<C>, LoadedStages<LOADED>, ValueStages<C>),
);

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

/// Sequences of one length, with a factor of Q and K for each head.
#[derive(Clone, Copy)]
struct Scaled<'a> {
    equal: Equal,
    scales: &'a Scales,
}

impl<C: HopperConfig> Sequences<C> for Scaled<'_> {
    const VARIED: bool = false;
    const FEWEST_TILES: u32 = 0;

    #[inline(always)]
    fn sequence(&self, arguments: &Arguments<C::Operand>, batch: u32) -> Option<Sequence> {
        Some(self.equal.of_length(arguments.q_length, batch))
    }

    #[inline(always)]
    unsafe fn unit(&self, arguments: &Arguments<C::Operand>, work: &Work) -> f32 {
        let Scales { q, k, .. } = self.scales;
        arguments.scale * (q.of(work.batch, work.head) * k.of(work.batch, work.kv_head))
    }
}

/// Whole tensors with scale factors: the maps of Q, K, V and O, and a factor for each head.
/// `LOADED` is `C::STAGES_V`.
///
/// The kernel declares `E4m3Storage<C, LOADED>`; contrary to [`forward`](super::forward::forward),
/// `o` is addressed only by its map.
#[derive(Clone, Copy)]
pub struct ScaledMaps<'a, C: HopperConfig, const LOADED: u32> {
    /// The tensors.
    pub maps: Maps<'a, C>,
    /// The factors.
    pub scales: &'a Scales,
}

impl<C: HopperConfig<Operand = F8E4M3>, const LOADED: u32> KeySource<C> for ScaledMaps<'_, C, LOADED> {
    type Storage = E4m3Storage<C, LOADED>;

    #[inline(always)]
    unsafe fn init((_, _, (_, sOnes), queries, (keys, loaded, values)): &Of<Self::Storage>) {
        const { assert!(C::STAGES_V == LOADED, "the stages of V are the configuration's") };
        let thread = thread_idx().x;
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
    }

    #[inline(always)]
    unsafe fn produce<S: TileScheduler>(
        self,
        arguments: &Arguments<F8E4M3>,
        tiles: impl Fn() -> S,
        elected: bool,
        ((sQ, _), (sK, sV), (sVt, _), queries, (keys, loaded, values)): Of<Self::Storage>,
    ) {
        // The shuffle tells the compiler that `warp` is uniform across the warp.
        let warp = shuffle(FULL_WARP, thread_idx().x / 32, 0) % (WARPGROUP / 32);
        let sequences = Scaled { equal: Equal::of(arguments), scales: self.scales };
        let mut tiles = tiles();
        if warp > 0 {
            return transpose(arguments, sequences, tiles, warp - 1, (sV, sVt), (loaded, values));
        }
        if !elected {
            return;
        }
        let queries = [queries.0.producer(), queries.1.producer(), queries.2.producer()];
        let (keys, values) = (keys.producer(), loaded.producer());
        let mut whole = Whole { maps: self.maps, sQ, sK, sV, queries, keys, values };
        self.maps.prefetch();
        while let Some(tile) = tiles.next_tile() {
            let tile = Tile::<C, _>::of(arguments, sequences, &tiles.place(tile));
            // K and V do not wait for the consumers' epilogue; Q does.
            let Span { begin, end: mut next } = tile.keys;
            if begin < next {
                next -= 1;
                whole.load(&tile.work, Load::Keys(next, ()));
                whole.load(&tile.work, Load::Values(next, ()));
            }
            whole.load(&tile.work, Load::Queries);
            while next > begin {
                next -= 1;
                whole.load(&tile.work, Load::Keys(next, ()));
                whole.load(&tile.work, Load::Values(next, ()));
            }
        }
    }

    #[inline(always)]
    unsafe fn consume(
        self,
        arguments: &Arguments<F8E4M3>,
        mut tiles: impl TileScheduler,
        warpgroup: u32,
        ((sQ, sO), (sK, _), (sVt, sOnes), queries, (keys, _, values)): Of<Self::Storage>,
    ) {
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
        let sequences = Scaled { equal: Equal::of(arguments), scales: self.scales };
        begin_turns::<C>(warpgroup);
        while let Some(tile) = tiles.next_tile() {
            let tile = Tile::<C, _>::of(arguments, sequences, &tiles.place(tile));
            let first = tile.first + 64 * warpgroup;
            let rows = ThreadRows::of(&tile, first);
            let scale = tile.unit() * core::f32::consts::LOG2_E;
            let query = queries.wait();
            let operands = Operands { tSrQ: &tSrQ, tSrK, tOrV, tOnes, keys: &mut keys, values: &mut values };
            let (mut tOrO, softmax) =
                attend::<C, _, _, _, _>(operands, tile.keys, warpgroup, &rows, scale, || {
                    // The next tile of Q is loaded while the rest of this one is computed.
                    queries.release(query);
                });
            let values = self.scales.v.of(tile.work.batch, tile.work.kv_head);
            let hides = arguments.window != Window::ALL;
            // The kernels whose sums are coarse write no log-sum-exp.
            let stored = if C::SUMS_BY_WGMMA { [None; 2] } else { rows.rows::<C>() };
            let again = normalise(&tile, stored, &mut tOrO, &softmax, normalisation::<C>(values, hides));
            store_by_tma(&Again { tile: &tile, first }, &again, &tOrO, sO, warpgroup, self.maps.o, values);
        }
        // The bulk stores must have read shared memory before the block exits.
        bulk_wait_group_read::<0>();
    }
}

/// A warp that transposes tiles of V: warp `number` of the [`TRANSPOSERS`].
#[inline(always)]
unsafe fn transpose<C: HopperConfig<Operand = F8E4M3>, S: Sequences<C>, const LOADED: u32>(
    arguments: &Arguments<F8E4M3>,
    sequences: S,
    mut tiles: impl TileScheduler,
    number: u32,
    (sV, sVt): (SharedTensor<F8E4M3, SmemV<C>>, SharedTensor<F8E4M3, SmemVt8<C>>),
    (loaded, values): (Of<LoadedStages<LOADED>>, Of<ValueStages<C>>),
) {
    let (mut loaded, (_, mut values)) = (loaded.consumer(), values.fillers());
    while let Some(tile) = tiles.next_tile() {
        let keys = Tile::<C, S>::of(arguments, sequences, &tiles.place(tile)).keys;
        for _ in keys.begin..keys.end {
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
