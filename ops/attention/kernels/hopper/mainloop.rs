//! The mainloop of a consumer warpgroup over tiles of keys, with 64 rows of Q in shared memory.
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
//! The pairing continues across two tiles of queries: `S'` uses the next tile's Q, and `O += P V`
//! completes this tile's O. The tensor cores thus have work while O is stored, and the warpgroups
//! stay out of phase.
//!
//! The warpgroups issue their products in turn (named barriers), so that the softmax of one is
//! hidden by the products of another. The loop runs from the last tile of keys to the first, so
//! that masked tiles come first.
#![allow(non_snake_case, reason = "tensors have CuTe's names")]

use super::super::sequence::Span;
use super::super::softmax::{OnlineSoftmax, scale_rows};
use super::config::{Element, HopperConfig, STAGES, WARPGROUP, recomputed};
use super::layouts::{OwnRows, SmemK, SmemQ, SmemV, SmemVt, TileO, TileS};
use super::scores::ScorePolicy;
use core::marker::PhantomData;
use core::mem::replace;
use moye_device::atom::wgmma::{
    DescriptorTensor, OperandOf, OperandTensorA, ScaleOut, accumulators_as_a, warpgroup_arrive,
    warpgroup_commit_batch, warpgroup_fence_operand, warpgroup_gemm, warpgroup_wait, warpgroup_wait_after,
};
use moye_device::atom::{AccumulatorOf, StaticTiledMma};
use moye_device::named_barriers;
use moye_device::pipeline::{Consumer, Full};
use moye_device::tensor::{Fragment, SharedTensor, StaticLayout};

named_barriers! {
    /// The barriers of the consumer warpgroups.
    pub enum Barrier {
        /// Orders the products of the warpgroups: a warpgroup waits before its products, and the
        /// previous one arrives.
        Turn[3] = 2 * WARPGROUP,
        /// The threads of one warpgroup.
        Warpgroup[3] = WARPGROUP,
    }
}

/// Signals the first warpgroup to issue its products. All threads of the consumer warpgroup
/// `warpgroup` call this once, before the first tile of queries.
#[inline(always)]
pub fn begin_turns<C: HopperConfig>(warpgroup: u32) {
    if C::TURNS && warpgroup == C::WARPGROUPS - 1 {
        Barrier::Turn.of(0).arrive();
    }
}

/// A warpgroup's accumulators of O.
pub type ResultsOf<C> = Fragment<f32, AccumulatorOf<TileO<C>, <C as HopperConfig>::Pv>>;

/// A warpgroup's accumulators of S.
pub type ScoresOf<C> = Fragment<f32, AccumulatorOf<TileS<C>, <C as HopperConfig>::Qk>>;

/// Waits for the previous warpgroup's signal to issue products.
#[inline(always)]
pub fn wait_turn<C: HopperConfig>(warpgroup: u32) {
    if C::TURNS {
        Barrier::Turn.of(recomputed::<C>(warpgroup)).sync();
    }
}

/// Signals the next warpgroup to issue its products.
#[inline(always)]
pub fn signal_turn<C: HopperConfig>(warpgroup: u32) {
    if C::TURNS {
        let next = if warpgroup + 1 == C::WARPGROUPS { 0 } else { warpgroup + 1 };
        Barrier::Turn.of(next).arrive();
    }
}

/// The state of a warpgroup's tile of queries between two tiles of keys.
pub struct State<C: HopperConfig> {
    /// Not yet divided by the softmax's sums, and without the most recent tile of keys.
    tOrO: ResultsOf<C>,
    /// The probabilities of the most recent tile of keys: (MMA, MMA_M, MMA_K).
    tOrP: Fragment<C::T, OperandOf<TileS<C>, C::Pv>>,
    softmax: OnlineSoftmax<2>,
}

/// The operands of a warpgroup: the descriptors of its rows of Q, of K and of V, and the pipelines
/// of K and V. For each tile of queries the pipelines deliver the tiles of keys from the last to
/// the first.
pub struct Mainloop<C, A, LK: StaticLayout, LV: StaticLayout> {
    /// (1, MMA_M, MMA_K)
    tSrQ: A,
    /// (1, MMA_N, MMA_K, STAGES)
    tSrK: DescriptorTensor<LK>,
    /// (1, MMA_N, MMA_K, STAGES)
    tOrV: DescriptorTensor<LV>,
    /// The stages of K.
    keys: Consumer<STAGES, 1>,
    /// The stages of V.
    values: Consumer<STAGES, 1>,
    warpgroup: u32,
    /// The factor of the scores, for exponentials to base 2.
    scale: f32,
    config: PhantomData<C>,
}

/// The mainloop of a warpgroup with its rows of Q, (64, D), K and V.
#[inline(always)]
pub fn mainloop<C: HopperConfig>(
    sQ: SharedTensor<Element<C>, OwnRows<SmemQ<C>>>,
    sK: SharedTensor<Element<C>, SmemK<C>>,
    sV: SharedTensor<Element<C>, SmemV<C>>,
    keys: Consumer<STAGES, 1>,
    values: Consumer<STAGES, 1>,
    warpgroup: u32,
    scale: f32,
) -> Mainloop<
    C,
    impl OperandTensorA<<C::Qk as StaticTiledMma>::Atom> + use<C>,
    impl StaticLayout + use<C>,
    impl StaticLayout + use<C>,
> {
    let (qk, pv) = (C::Qk::get_slice(0), C::Pv::get_slice(0));
    // A stage is read between its wait and its release.
    let sVt = sV.with_layout::<SmemVt<C>>(); // (DV, BLK_N, STAGES)
    let tSrQ = qk.descriptors_a(&qk.partition_a(sQ)); // (1, MMA_M, MMA_K)
    let tSrK = qk.descriptors_b(&qk.partition_b(sK)); // (1, MMA_N, MMA_K, STAGES)
    let tOrV = pv.descriptors_b(&pv.partition_b(sVt)); // (1, MMA_N, MMA_K, STAGES)
    Mainloop { tSrQ, tSrK, tOrV, keys, values, warpgroup, scale, config: PhantomData }
}

impl<C, A, LK, LV> Mainloop<C, A, LK, LV>
where
    C: HopperConfig,
    A: OperandTensorA<<C::Qk as StaticTiledMma>::Atom>,
    LK: StaticLayout,
    LV: StaticLayout,
{
    /// Processes the tiles of keys of a tile of queries, at least one. Returns the
    /// results and their softmax.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    pub unsafe fn run(
        &mut self,
        Span { begin, end: mut next }: Span<u32>,
        scores: &mut impl ScorePolicy<C>,
    ) -> (ResultsOf<C>, OnlineSoftmax<2>) {
        next -= 1;
        let mut state = self.begin(scores, next, || {});
        while next > begin {
            next -= 1;
            self.step(&mut state, scores, next, || {});
        }
        self.end(state)
    }

    /// Processes the last tile of keys of the first tile of queries. `read` is called when its
    /// product has read Q.
    ///
    /// # Safety
    /// All threads of the consumer warpgroup execute this call, and Q has arrived. The same holds
    /// for the other methods. All warpgroups of a block call the same methods in the same order.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    pub unsafe fn begin(
        &mut self,
        scores: &mut impl ScorePolicy<C>,
        tile: u32,
        read: impl FnOnce(),
    ) -> State<C> {
        // A stage is read between its wait and its release.
        let mut tSrS = C::Qk::get_slice(0).accumulators::<TileS<C>>(); // (MMA, MMA_M, MMA_N)
        let key = self.keys.wait();
        wait_turn::<C>(self.warpgroup);
        warpgroup_arrive();
        warpgroup_gemm(C::Qk::default(), &self.tSrQ, &key.of(self.tSrK), &mut tSrS, ScaleOut::Zero);
        warpgroup_commit_batch();
        signal_turn::<C>(self.warpgroup);
        warpgroup_wait::<0>();
        warpgroup_fence_operand(C::Qk::default(), &mut tSrS);
        self.keys.release(key);
        read();
        scores.apply(&mut tSrS, tile);
        let mut softmax = OnlineSoftmax::new(C::GENERAL, self.scale);
        softmax.online_softmax::<_, 4, false>(&mut tSrS, C::SOFTMAX, self.scale);
        let tOrP = accumulators_as_a::<C::Pv, _, _, TileS<C>>(&tSrS);
        State { tOrO: Fragment::filled(0.0), tOrP, softmax }
    }

    /// Processes the next tile of keys of the same tile of queries.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    pub unsafe fn step(
        &mut self,
        state: &mut State<C>,
        scores: &mut impl ScorePolicy<C>,
        tile: u32,
        read: impl FnOnce(),
    ) {
        let mut tSrS = C::Qk::get_slice(0).accumulators::<TileS<C>>(); // (MMA, MMA_M, MMA_N)
        let value = self.issue_both(state, &mut tSrS, read);
        scores.apply(&mut tSrS, tile);
        let (factors, rescale) =
            state.softmax.online_softmax::<_, 4, true>(&mut tSrS, C::SOFTMAX, self.scale);
        warpgroup_wait_after::<0, 2>(state.softmax.sum);
        warpgroup_fence_operand(C::Pv::default(), &mut state.tOrO);
        self.values.release(value);
        state.tOrP = accumulators_as_a::<C::Pv, _, _, TileS<C>>(&tSrS);
        if rescale {
            scale_rows(&mut state.tOrO, factors);
        }
    }

    /// Processes the last tile of keys of the next tile of queries, whose Q has arrived. `finish`
    /// receives the results of the current tile of queries and their softmax.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    pub unsafe fn next_query_tile(
        &mut self,
        state: &mut State<C>,
        scores: &mut impl ScorePolicy<C>,
        tile: u32,
        read: impl FnOnce(),
        finish: impl FnOnce(&mut ResultsOf<C>, &OnlineSoftmax<2>),
    ) {
        let mut tSrS = C::Qk::get_slice(0).accumulators::<TileS<C>>(); // (MMA, MMA_M, MMA_N)
        let value = self.issue_both(state, &mut tSrS, read);
        scores.apply(&mut tSrS, tile);
        let mut softmax = OnlineSoftmax::new(C::GENERAL, self.scale);
        softmax.online_softmax::<_, 4, false>(&mut tSrS, C::SOFTMAX, self.scale);
        warpgroup_wait_after::<0, 2>(softmax.sum);
        warpgroup_fence_operand(C::Pv::default(), &mut state.tOrO);
        self.values.release(value);
        state.tOrP = accumulators_as_a::<C::Pv, _, _, TileS<C>>(&tSrS);
        finish(&mut state.tOrO, &replace(&mut state.softmax, softmax));
        state.tOrO = Fragment::filled(0.0);
    }

    /// Issues the products `S = Q K^T` and `O += P V` after the previous warpgroup's signal, and
    /// waits for the first. The stage of V is in use until the second is complete.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn issue_both(
        &mut self,
        state: &mut State<C>,
        tSrS: &mut ScoresOf<C>,
        read: impl FnOnce(),
    ) -> Full {
        // Wait for both stages before the first product: a wait loop between the products would end
        // the sequence.
        let (key, value) = (self.keys.wait(), self.values.wait());
        wait_turn::<C>(self.warpgroup);
        warpgroup_arrive();
        warpgroup_gemm(C::Qk::default(), &self.tSrQ, &key.of(self.tSrK), tSrS, ScaleOut::Zero);
        warpgroup_commit_batch();
        warpgroup_gemm(C::Pv::default(), &state.tOrP, &value.of(self.tOrV), &mut state.tOrO, ScaleOut::One);
        warpgroup_commit_batch();
        signal_turn::<C>(self.warpgroup);
        warpgroup_wait::<1>();
        warpgroup_fence_operand(C::Qk::default(), tSrS);
        self.keys.release(key);
        read();
        value
    }

    /// Multiplies by the last tile of V. Returns the results and their softmax.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    pub unsafe fn end(&mut self, state: State<C>) -> (ResultsOf<C>, OnlineSoftmax<2>) {
        let State { mut tOrO, tOrP, softmax } = state;
        let value = self.values.wait();
        warpgroup_arrive();
        warpgroup_gemm(C::Pv::default(), &tOrP, &value.of(self.tOrV), &mut tOrO, ScaleOut::One);
        warpgroup_commit_batch();
        warpgroup_wait::<0>();
        warpgroup_fence_operand(C::Pv::default(), &mut tOrO);
        self.values.release(value);
        (tOrO, softmax)
    }
}
