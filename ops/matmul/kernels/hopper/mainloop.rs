//! The mainloop: TMA fills stages of shared memory, and `wgmma` reads them there.
//!
//! It differs from the language's [`TmaWarpSpecialised`](moye_device::collective) in two points. It
//! keeps a tile's last stage until the sink has stored C from it, so that the sink needs no further
//! memory; and it leaves out instructions past the end of K. A block with one tile
//! ([`WgmmaConfig::ONE_TILE`]) does neither: it loads boxes that fit the operands, and may compute
//! a slice of K (`parts.rs`).
//!
//! With [`WgmmaConfig::PROMOTED`] the products of a stage have partial accumulators, which are
//! added to the tile's accumulators in f32, like [`Promoted`](moye_device::collective::Promoted).

use super::config::{ArgumentsOf, CopyA, CopyB, Mma, StagesA, StagesB, WARPGROUP, WgmmaConfig};
use super::exchange::Exchange;
use super::parts::{clear, load_fitted};
use super::store::{OWN_GROUPS, wait_for_stores};
use super::tile::stages_of;
use moye_device::algorithm::clear as zero;
use moye_device::arch::wgmma::{Accumulators as _, wgmma_fence_registers};
use moye_device::arch::{
    FULL_WARP, cluster_arrive_relaxed, cluster_wait, opaque, prefetch_tensor_map, sync_threads, sync_warp,
    thread_idx,
};
use moye_device::atom::tma::TmaTensor;
use moye_device::atom::wgmma::{
    DescriptorTensor, DescriptorsOf, ScaleOut, WgmmaAtom, warpgroup_arrive, warpgroup_commit_batch,
    warpgroup_fence_operand, warpgroup_gemm, warpgroup_wait,
};
use moye_device::atom::{OfA, OfB, StaticTiledMma as _};
use moye_device::collective::{
    Accumulators, FixUp as _, Mainloop, StageProducer, StagesOf, TileOf, WarpSpecialised, WarpsOf, WorkTile,
    Worker,
};
use moye_device::memory::{SharedArray, TensorMap, TensorMapPointer};
use moye_device::pipeline::{Consumer, Full, PipelineStorage, Producer};
use moye_device::tensor::SharedTensor;

/// The operands: the maps of A and B, and the kernel's arguments.
type Given<'a, G> = (&'a TensorMap, &'a TensorMap, &'a ArgumentsOf<G>);

/// The mainloop of the configuration `G`, with `CLUSTER` blocks in a cluster and `STAGES` stages.
pub struct Loop<'a, G: WgmmaConfig, const CLUSTER: u32, const STAGES: u32> {
    consumer: Consumer<STAGES, CLUSTER>,
    /// (BLK_M, BLK_K, PIPE)
    sA: SharedTensor<G::Operand, StagesA<G, STAGES>>,
    /// (BLK_N, BLK_K, PIPE)
    sB: SharedTensor<G::Operand, StagesB<G, STAGES>>,
    /// With the block that computes the other slice of K, if there is one.
    exchange: Exchange<G>,
    /// The index of this warpgroup among the tile's.
    warpgroup: u32,
    /// The last stage that was issued and is not released yet.
    held: Option<Full>,
    /// The thread's index in its warpgroup.
    thread: u32,
    arguments: &'a ArgumentsOf<G>,
}

/// The descriptors of all stages: (1, MMA_M, MMA_K, PIPE) and (1, MMA_N, MMA_K, PIPE).
type OperandsOf<G, const STAGES: u32> = (
    DescriptorTensor<DescriptorsOf<StagesA<G, STAGES>, Mma<G>, OfA>>,
    DescriptorTensor<DescriptorsOf<StagesB<G, STAGES>, Mma<G>, OfB>>,
);

/// The thread that issues the TMA loads.
pub struct Loader<'a, G: WgmmaConfig, const CLUSTER: u32, const STAGES: u32> {
    producer: Producer<STAGES, CLUSTER>,
    /// The maps of `a` and `b`.
    maps: (TensorMapPointer, TensorMapPointer),
    a: TmaTensor<CopyA<G>, 3>,
    b: TmaTensor<CopyB<G, CLUSTER>, 3>,
    /// (BLK_M, BLK_K, PIPE)
    sA: SharedTensor<G::Operand, StagesA<G, STAGES>>,
    /// (BLK_N, BLK_K, PIPE)
    sB: SharedTensor<G::Operand, StagesB<G, STAGES>>,
    arguments: &'a ArgumentsOf<G>,
}

/// Instructions along K for each stage, which has 128 bytes of each row.
const STEPS: u32 = 4;

impl<G: WgmmaConfig, const CLUSTER: u32, const STAGES: u32> Loop<'_, G, CLUSTER, STAGES> {
    /// The instructions along K of a tile's last stage: fewer than a stage's if K ends in it.
    ///
    /// Always all of them for 8-bit elements and tf32: code for partial stages made e4m3 8192^3,
    /// which has none, 1 % slower (record 11). Always all of them for a block's only tile.
    #[inline(always)]
    fn steps_of_last(&self, tile: &WorkTile) -> u32 {
        if const { size_of::<G::Operand>() != 2 || G::ONE_TILE } {
            return STEPS;
        }
        let (k, end) = (opaque(self.arguments.k), tile.k_end * G::BLK_K);
        STEPS - end.saturating_sub(k) / const { G::BLK_K / STEPS }
    }

    /// The descriptors of the warpgroup's operands. They are recomputed for each tile: otherwise
    /// they would take registers beside the accumulators while C is written.
    #[inline(always)]
    fn operands(&self) -> OperandsOf<G, STAGES> {
        // Descriptors are in uniform registers: they are computed from the warpgroup's index, which
        // is uniform.
        let mma = Mma::<G>::get_slice(WARPGROUP * opaque(self.warpgroup));
        (mma.descriptors_a(&mma.partition_a(self.sA)), mma.descriptors_b(&mma.partition_b(self.sB)))
    }

    /// Waits for the next stage and issues its first `COUNT` instructions along K.
    ///
    /// # Safety
    /// Same contract as [`Mainloop::issue`].
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn issue_stage<const COUNT: u32>(
        &mut self,
        operands: OperandsOf<G, STAGES>,
        is_first: bool,
        tCrC: &mut Accumulators<Self>,
    ) {
        // All threads of the warpgroups are here. A stage is read when it is full, and released
        // when only the products of the next stage are in flight.
        let full = self.consumer.wait();
        let (tCrA, tCrB) = full.of(operands); // (1, MMA_M, MMA_K), (1, MMA_N, MMA_K)
        let scale = ScaleOut::One.unless(is_first);
        warpgroup_arrive();
        if const { COUNT == STEPS } {
            warpgroup_gemm(Mma::<G>::default(), &tCrA, &tCrB, tCrC, scale);
        } else {
            for step in 0..COUNT {
                // (1, MMA_M), (1, MMA_N)
                let (tCrA, tCrB) = (tCrA.at((.., .., step)), tCrB.at((.., .., step)));
                let scale = if step > 0 { ScaleOut::One } else { scale };
                warpgroup_gemm(Mma::<G>::default(), &tCrA, &tCrB, tCrC, scale);
            }
        }
        warpgroup_commit_batch();
        warpgroup_wait::<1>();
        if let Some(before) = self.held.replace(full) {
            // The previous tile's last stage: TMA may still read boxes of C from it.
            if const { !G::ONE_TILE } && is_first {
                wait_for_stores::<OWN_GROUPS>(self.thread);
            }
            self.consumer.release(before);
        }
    }

    /// Issues the products of a tile's stages and adds each stage's to the accumulators, one
    /// instruction along M at a time: their partial accumulators share the same registers.
    ///
    /// # Safety
    /// Same contract as [`Mainloop::issue`].
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn issue_promoted(&mut self, tile: &WorkTile, tCrC: &mut Accumulators<Self>) {
        let operands = self.operands();
        let (first, end) = stages_of::<G>(tile);
        let mut partial = <G::Atom as WgmmaAtom>::Accumulators::ZERO;
        let count = const { <G::Atom as WgmmaAtom>::C.extent(1) as usize };
        zero(tCrC);
        let mut k = first;
        while k < end {
            let full = self.consumer.wait();
            let (tCrA, tCrB) = full.of(operands); // (1, MMA_M, MMA_K), (1, 1, MMA_K)
            for m in 0..const { G::MMA_M as usize } {
                warpgroup_arrive();
                for step in 0..STEPS as usize {
                    let a = tCrA.descriptor(m + const { G::MMA_M as usize } * step);
                    G::Atom::mma(&mut partial, a, tCrB.descriptor(step), step > 0);
                }
                warpgroup_commit_batch();
                warpgroup_wait::<0>();
                wgmma_fence_registers(&mut partial);
                for i in 0..count {
                    let at = count * m + i;
                    tCrC[at] = tCrC[at].plus(partial.as_slice()[i]);
                }
                // Added before the next products write the registers; otherwise more registers
                // would be needed.
                warpgroup_fence_operand(Mma::<G>::default(), tCrC);
                if k == first
                    && let Some(before) = self.held.take()
                {
                    // The previous tile's last stage: TMA may still read boxes of C from it.
                    wait_for_stores::<OWN_GROUPS>(self.thread);
                    self.consumer.release(before);
                }
            }
            if k + 1 < end {
                self.consumer.release(full);
            } else {
                self.held = Some(full);
            }
            k += 1;
        }
    }

    /// The shared address of the first stage.
    #[inline(always)]
    pub(super) fn first_stage(&self) -> u32 {
        self.sA.pointer().address()
    }

    /// The shared address of the part of the tile's last stage that holds boxes of C.
    #[inline(always)]
    pub(super) fn boxes(&self) -> u32 {
        // A product whose K is 0 has no stage.
        let stage = if let Some(held) = &self.held { held.index() } else { 0 };
        if const { G::BYTES_A > G::BYTES_B } {
            self.sA.pointer().address() + stage * G::BYTES_A
        } else {
            self.sB.pointer().address() + stage * G::BYTES_B
        }
    }
}

impl<'a, G: WgmmaConfig, const CLUSTER: u32, const STAGES: u32> Mainloop for Loop<'a, G, CLUSTER, STAGES> {
    type Mma = Mma<G>;
    type TileC = TileOf<StagesA<G, STAGES>, StagesB<G, STAGES>>;
    type Accumulator = G::Sum;
    type Storage = (
        SharedArray<G::Operand, StagesA<G, STAGES>>,
        SharedArray<G::Operand, StagesB<G, STAGES>>,
        PipelineStorage<STAGES, WarpsOf<Mma<G>>, CLUSTER>,
        Exchange<G>,
    );
    type Operands = Given<'a, G>;

    const THREADS: u32 = G::THREADS;
    const TILE: (u32, u32, u32) = (G::BLK_M, G::BLK_N, G::BLK_K);
    const TEAMS: u32 = if G::PING_PONG { 2 } else { 1 };
    const CLUSTER: u32 = {
        assert!(CLUSTER == G::CLUSTER && STAGES == G::STAGES, "the configuration's cluster and stages");
        CLUSTER
    };

    #[inline(always)]
    fn worker() -> Worker {
        Worker::cluster(CLUSTER)
    }

    #[inline(always)]
    unsafe fn start(
        (_, _, arguments): Self::Operands,
        (sA, sB, pipeline, exchange): StagesOf<Self>,
        thread: u32,
        warpgroup: u32,
    ) -> Self {
        Self {
            consumer: pipeline.consumer(),
            sA,
            sB,
            exchange,
            warpgroup,
            held: None,
            thread: thread % WARPGROUP,
            arguments,
        }
    }

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn issue(&mut self, tile: &WorkTile, tCrC: &mut Accumulators<Self>) {
        const { assert!(G::DEPTH == 1 || G::ONE_TILE, "a stage has 128 bytes of each row") };
        if G::PROMOTED {
            return self.issue_promoted(tile, tCrC);
        }
        let operands = self.operands();
        let steps = self.steps_of_last(tile);
        let (first, end) = stages_of::<G>(tile);
        // K starts at 0, so that the compiler knows that `is_first` is uniform.
        let (first, end) = if G::PARTS > 1 { (0, end - first) } else { (first, end) };
        let whole = if steps < STEPS { end - 1 } else { end };
        let mut k = first;
        while k < whole {
            self.issue_stage::<STEPS>(operands, k == first, tCrC);
            k += 1;
        }
        // Instructions past the end of K would multiply zeros. Each count has straight-line code:
        // with a branch in between, `ptxas` makes every instruction of the kernel wait for the
        // previous one.
        if whole < end {
            match steps {
                1 => self.issue_stage::<1>(operands, whole == first, tCrC),
                2 => self.issue_stage::<2>(operands, whole == first, tCrC),
                _ => self.issue_stage::<3>(operands, whole == first, tCrC),
            }
        }
    }

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn complete(&mut self, tCrC: &mut Accumulators<Self>) {
        if !G::PROMOTED {
            warpgroup_wait::<0>();
            warpgroup_fence_operand(Mma::<G>::default(), tCrC);
        }
        if G::PARTS > 1 {
            self.release();
            // After this the other block has initialised its exchange.
            cluster_wait();
            if !Exchange::<G>::keeps(self.thread) {
                self.exchange.send(tCrC.values(), self.warpgroup, self.thread);
            }
            if Exchange::<G>::keeps(self.thread) {
                self.exchange.receive(tCrC.values_mut(), self.warpgroup, self.thread);
            }
        }
    }

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn release(&mut self) {
        if let Some(held) = self.held.take() {
            self.consumer.release(held);
        }
    }
}

impl<'a, G: WgmmaConfig, const CLUSTER: u32, const STAGES: u32> WarpSpecialised
    for Loop<'a, G, CLUSTER, STAGES>
{
    type Producer = Loader<'a, G, CLUSTER, STAGES>;

    #[inline(always)]
    unsafe fn skip(&mut self, tile: &WorkTile) {
        self.consumer.skip(tile.k_tiles());
    }
}

impl<'a, G: WgmmaConfig, const CLUSTER: u32, const STAGES: u32>
    StageProducer<Given<'a, G>, StagesOf<Loop<'a, G, CLUSTER, STAGES>>> for Loader<'a, G, CLUSTER, STAGES>
{
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn init(
        (_, _, arguments): Given<'a, G>,
        (sA, sB, pipeline, exchange): &StagesOf<Loop<'a, G, CLUSTER, STAGES>>,
    ) {
        if thread_idx().x == 0 {
            // One thread, and a barrier of the block or of the cluster follows. The pipeline's
            // fence covers the mbarrier of the exchange too.
            if G::PARTS > 1 {
                exchange.init();
            }
            pipeline.init();
        }
        if G::ONE_TILE {
            clear::<G, STAGES>(arguments, sA.pointer().address(), sB.pointer().address());
        }
        if CLUSTER > 1 {
            // All threads of the cluster are here. Only the mbarriers were written, which have
            // their own fence.
            cluster_arrive_relaxed();
            cluster_wait();
        } else {
            sync_threads();
        }
        if G::PARTS > 1 {
            // The other block needs only the mbarriers, which have their own fence. All threads
            // wait after the products.
            cluster_arrive_relaxed();
        }
    }

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn new(
        (a, b, arguments): Given<'a, G>,
        (sA, sB, pipeline, _): StagesOf<Loop<'a, G, CLUSTER, STAGES>>,
    ) -> Self {
        // The maps are parameters of the kernel.
        prefetch_tensor_map(a.pointer());
        prefetch_tensor_map(b.pointer());
        let maps = (a.pointer(), b.pointer());
        let (a, b) = (CopyA::<G>::tensor(a), CopyB::<G, CLUSTER>::tensor(b));
        Loader { producer: pipeline.producer(), maps, a, b, sA, sB, arguments }
    }

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn load(&mut self, tile: &WorkTile) {
        let Loader { producer, maps, a, b, sA, sB, arguments } = self;
        if G::ONE_TILE {
            let (to_a, to_b) = (sA.pointer().address(), sB.pointer().address());
            return load_fitted::<G, CLUSTER, STAGES>(producer, to_a, to_b, maps.0, maps.1, tile, arguments);
        }
        let (load_a, load_b) = (CopyA::<G>::get_slice(), CopyB::<G, CLUSTER>::get_slice());
        // A batch stride of 0 means one matrix for all batches.
        let batch = tile.batch / arguments.splits;
        let batch_a = if arguments.batch_a == 0 { 0 } else { batch };
        let batch_b = if arguments.batch_b == 0 { 0 } else { batch };
        let mut k = tile.k;
        while k < tile.k_end {
            let filling = producer.acquire(G::BYTES_A + G::BYTES_B);
            let (sA, sB) = filling.of((*sA, *sB)); // (BLK_M, BLK_K), (BLK_N, BLK_K)
            // The stage is free and expects the bytes; the contract of `producer` covers the maps.
            load_a.copy(a.at((tile.m, k, batch_a)), sA, &filling);
            let gB = load_b.partition_s(b.at((tile.n, k, batch_b)));
            load_b.copy(gB, load_b.partition_d(sB), &filling);
            k += 1;
        }
    }

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn finish(self) {
        if CLUSTER > 1 {
            // The other blocks still write to this block's memory and arrive at its mbarriers.
            self.producer.drain();
        }
    }

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn leave() {
        if G::PARTS > 1 {
            sync_warp(FULL_WARP);
            cluster_wait();
        }
    }
}
