//! The mainloop of a consumer warpgroup for 8-bit floats: like [`mainloop`](super::mainloop), with
//! P in e4m3.
//!
//! P is scaled by `2^OFFSET` to use the range of e4m3; its row sums have the same factor, so the
//! normalisation cancels it. With [`HopperConfig::SUMS_BY_WGMMA`] a product with ones sums the rows
//! of P: results and sums then have the same rounding. That product starts from zero with each
//! tile, since the accumulators of 8-bit floats have few bits.
//!
//! P stays in the registers of the accumulators of `Q K^T`: its columns are in the order of
//! [`paired_column`](moye_device::atom::wgmma::paired_column), as are the keys of transposed V.
#![allow(non_snake_case, reason = "tensors have CuTe's names")]

use super::super::sequence::Span;
use super::super::softmax::{OnlineSoftmax, at, scale_rows};
use super::config::{HopperConfig, STAGES};
use super::layouts::TileS;
use super::mainloop::{ResultsOf, signal_turn, wait_turn};
use super::rows::ThreadRows;
use super::shapes::OneAtom;
use moye_device::atom::wgmma::{
    DescriptorTensor, OperandOf, OperandTensorA, SM90_64x8x32_F32E4M3E4M3_RS_TN, ScaleOut,
    accumulators_as_a_paired, warpgroup_arrive, warpgroup_commit_batch, warpgroup_fence_operand,
    warpgroup_gemm, warpgroup_wait, warpgroup_wait_after,
};
use moye_device::atom::{AccumulatorOf, StaticTiledMma};
use moye_device::number::F8E4M3;
use moye_device::pipeline::Consumer;
use moye_device::tensor::{Fragment, StaticLayout};
use moye_device::{layout, static_layout};

/// A warpgroup's sums of probabilities, 8 equal columns: P times ones.
pub type Sums = OneAtom<SM90_64x8x32_F32E4M3E4M3_RS_TN>;

static_layout! {
    /// A warpgroup's tile of sums.
    pub TileSums = layout!((64, 8));
}

/// The operands of a warpgroup: the descriptors of its rows of Q, of K and of transposed V, and the
/// pipelines of K and V.
pub struct Operands<'a, A, LK: StaticLayout, LV: StaticLayout, LO: StaticLayout> {
    /// (1, MMA_M, MMA_K)
    pub tSrQ: &'a A,
    /// (1, MMA_N, MMA_K, STAGES)
    pub tSrK: DescriptorTensor<LK>,
    /// (1, MMA_N, MMA_K, STAGES)
    pub tOrV: DescriptorTensor<LV>,
    /// Ones: (1, MMA_N, MMA_K)
    pub tOnes: DescriptorTensor<LO>,
    /// The stages of K.
    pub keys: &'a mut Consumer<STAGES, 1>,
    /// The stages of transposed V.
    pub values: &'a mut Consumer<STAGES, 1>,
}

/// Computes attention of a warpgroup's rows over the tiles of keys `begin .. end`. Returns results
/// that are not yet divided by the softmax's sums, and the softmax. `release_queries` is called
/// when Q has been read.
///
/// # Safety
/// All threads of the consumer warpgroup `warpgroup` execute this call. Q has arrived, and the
/// pipelines deliver the tiles of keys and values from the last to the first. All warpgroups of the
/// block process the same tiles.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
#[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
pub unsafe fn attend<C, A, LK, LV, LO>(
    operands: Operands<'_, A, LK, LV, LO>,
    Span { begin, end }: Span<u32>,
    warpgroup: u32,
    rows: &ThreadRows,
    scale: f32,
    release_queries: impl FnOnce(),
) -> (ResultsOf<C>, OnlineSoftmax<2>)
where
    C: HopperConfig<Operand = F8E4M3>,
    A: OperandTensorA<<C::Qk as StaticTiledMma>::Atom>,
    LK: StaticLayout,
    LV: StaticLayout,
    LO: StaticLayout,
{
    let Operands { tSrQ, tSrK, tOrV, tOnes, keys, values } = operands;
    let qk = C::Qk::get_slice(0);
    let mut tOrO = ResultsOf::<C>::filled(0.0); // (MMA, MMA_M, MMA_N)
    let mut tSums = Fragment::<f32, AccumulatorOf<TileSums, Sums>>::filled(0.0); // (MMA, MMA_M, MMA_N)
    let mut softmax = OnlineSoftmax::new(C::GENERAL, scale);
    macro_rules! multiply_p {
        ($tOrP:expr, $value:expr) => {
            warpgroup_gemm(C::Pv::default(), $tOrP, &$value.of(tOrV), &mut tOrO, ScaleOut::One);
            if C::SUMS_BY_WGMMA {
                warpgroup_gemm(Sums::default(), $tOrP, &tOnes, &mut tSums, ScaleOut::Zero);
            }
            warpgroup_commit_batch();
        };
    }
    // After the wait for `multiply_p`.
    macro_rules! add_sums {
        ($factors:expr) => {
            warpgroup_fence_operand(C::Pv::default(), &mut tOrO);
            if C::SUMS_BY_WGMMA {
                warpgroup_fence_operand(Sums::default(), &mut tSums);
                softmax.add_sums([tSums[at(2, 0, 0)], tSums[at(2, 1, 0)]], $factors);
            }
        };
    }
    // A stage is read between its wait and its release.
    if begin < end {
        let mut tSrS = qk.accumulators::<TileS<C>>(); // (MMA, MMA_M, MMA_N)
        let full = keys.wait();
        warpgroup_arrive();
        warpgroup_gemm(C::Qk::default(), tSrQ, &full.of(tSrK), &mut tSrS, ScaleOut::Zero);
        warpgroup_commit_batch();
        warpgroup_wait::<0>();
        warpgroup_fence_operand(C::Qk::default(), &mut tSrS);
        keys.release(full);
        rows.mask::<C>(&mut tSrS, end - 1);
        softmax.online_softmax::<_, 4, false>(&mut tSrS, C::SOFTMAX, scale);
        let mut tOrP: Fragment<F8E4M3, OperandOf<TileS<C>, C::Pv>> =
            accumulators_as_a_paired::<C::Pv, _, _, TileS<C>>(&tSrS); // (MMA, MMA_M, MMA_K)
        let mut tile = end - 1;
        while tile > begin {
            tile -= 1;
            let mut tSrS = qk.accumulators::<TileS<C>>(); // (MMA, MMA_M, MMA_N)
            // Wait for both stages before the first product: a wait loop between the products would
            // end the sequence.
            let (key, value) = (keys.wait(), values.wait());
            wait_turn::<C>(warpgroup);
            warpgroup_arrive();
            warpgroup_gemm(C::Qk::default(), tSrQ, &key.of(tSrK), &mut tSrS, ScaleOut::Zero);
            warpgroup_commit_batch();
            multiply_p!(&tOrP, value);
            signal_turn::<C>(warpgroup);
            warpgroup_wait::<1>();
            warpgroup_fence_operand(C::Qk::default(), &mut tSrS);
            keys.release(key);
            rows.mask::<C>(&mut tSrS, tile);
            let (factors, rescale) = softmax.online_softmax::<_, 4, true>(&mut tSrS, C::SOFTMAX, scale);
            // The last probabilities of both rows.
            let last = const { TileS::<C>::LAYOUT.size() as usize / 128 };
            warpgroup_wait_after::<0, 2>([tSrS[last - 3], tSrS[last - 1]]);
            add_sums!(factors);
            values.release(value);
            tOrP = accumulators_as_a_paired::<C::Pv, _, _, TileS<C>>(&tSrS);
            if rescale {
                scale_rows(&mut tOrO, factors);
            }
        }
        release_queries();
        let value = values.wait();
        warpgroup_arrive();
        multiply_p!(&tOrP, value);
        warpgroup_wait::<0>();
        add_sums!([1.0; 2]);
        values.release(value);
    } else {
        release_queries();
    }
    (tOrO, softmax)
}
