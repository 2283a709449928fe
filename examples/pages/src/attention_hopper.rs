//! FlashAttention on Hopper in five steps, which are instances of one kernel: `O = softmax(scale Q
//! K^T) V` for every head of every batch, bf16, heads of 128.
//!
//! | step | change |
//! | --- | --- |
//! | 1 | TMA and `wgmma`: a warpgroup has 64 rows of Q, one stage of K and one of V |
//! | 2 | two stages: TMA loads the next tile under this one |
//! | 3 | two consumer warpgroups share K and V, with registers that the producer gives away |
//! | 4 | the next `S = Q K^T` is issued before `O += P V`: the softmax runs under the tensor cores |
//! | 5 | warpgroups take turns at the tensor cores, so that one multiplies under the softmax of the other |

use core::f32::consts::LOG2_E;
use moye_device::prelude::*;

/// Columns of a head.
pub const D: i64 = 128;
/// Keys of a tile.
pub const BLK_N: u32 = 128;

static_layout! {
    TileS = layout!((64, 128)); // (BLK_M, BLK_N)
    TileO = layout!((64, 128)); // (BLK_M, D)
}
swizzled_layout! {
    /// (64, D, WARPGROUPS)
    pub SmemQ<const WARPGROUPS: i64> =
        shared_memory_atom(Major::K, SwizzleBytes::B128, 16).tile_to_shape(tuple!((64, D, WARPGROUPS)));
    /// (BLK_N, D, PIPE)
    pub SmemK<const PIPE: i64> =
        shared_memory_atom(Major::K, SwizzleBytes::B128, 16).tile_to_shape(tuple!((128, D, PIPE)));
}
tiled_mma! {
    Qk: TiledMma<SM90_64x128x16_F32BF16BF16_SS<K_MAJOR, K_MAJOR>> = TiledMma::new(layout!((1, 1, 1)));
    Pv: TiledMma<SM90_64x128x16_F32BF16BF16_RS<MN_MAJOR>> = TiledMma::new(layout!((1, 1, 1)));
}
tiled_copy! { StoreO: TiledCopy<SM90_U32x4_STSM_N, bf16> = make_tiled_copy_c(&Pv::MMA); }

/// The copy of 64 rows of Q or O, of a tensor (row, column, head, batch).
pub type TmaQ = TmaCopy<bf16, OneStage<SmemQ<1>>, 4>;
/// The copy of a tile of K or V.
pub type TmaK = TmaCopy<bf16, OneStage<SmemK<1>>, 4>;

/// The warps of the consumer warpgroups, which read each tile of K and V.
pub struct Consumers<const WARPGROUPS: i64>;
impl<const WARPGROUPS: i64> Readers for Consumers<WARPGROUPS> {
    const WARPS: u32 = 4 * WARPGROUPS as u32;
}

named_barriers! {
    enum Barrier {
        /// A warpgroup's turn at the tensor cores: it waits, and the other warpgroup arrives.
        Turn[2] = 256,
        /// The threads of a warpgroup.
        Warpgroup[2] = 128,
    }
}

/// A grid of `(ceil(s / (64 WARPGROUPS)), heads, batches)` blocks.
///
/// # Safety
/// The maps are of tensors (s, D, heads, batches) in device memory; `o` overlaps no other tensor.
/// PIPE is STAGES.
#[kernel(
    threads = Role::threads(WARPGROUPS as u32),
    min_blocks = 1,
    shared = (
        sQ: SharedArray<bf16, SmemQ<WARPGROUPS>>,
        sK: SharedArray<bf16, SmemK<PIPE>>,
        sV: SharedArray<bf16, SmemK<PIPE>>,
        queries: PipelineStorage<1, Consumers<WARPGROUPS>>,
        keys: PipelineStorage<STAGES, Consumers<WARPGROUPS>>,
        values: PipelineStorage<STAGES, Consumers<WARPGROUPS>>,
    ),
    instances = (
        attention_step1<1, 1, 1, 1>,
        attention_step2<2, 1, 2, 2>,
        attention_step3<3, 2, 2, 2>,
        attention_step4<4, 2, 2, 2>,
        attention_step5<5, 2, 2, 2>
    )
)]
pub unsafe fn attention_hopper<const STEP: u32, const WARPGROUPS: i64, const PIPE: i64, const STAGES: u32>(
    q: TmaMap<TmaQ>,
    k: TmaMap<TmaK>,
    v: TmaMap<TmaK>,
    o: TmaMap<TmaQ>,
    s: u32,
    scale: f32,
    causal: bool,
) {
    let (block, thread) = (block_idx(), thread_idx().x);
    let rows = 64 * WARPGROUPS as u32;
    // The last blocks of a causal mask attend to the most keys, so they start first.
    let first = (s.div_ceil(rows) - 1 - block.x) * rows;
    let tiles = if causal { (first + rows).min(s) } else { s }.div_ceil(BLK_N);
    let (gQ, gK, gV, gO) = (q.tensor(), k.tensor(), v.tensor(), o.tensor()); // (m, 0, head, batch): tiles
    if thread == 0 {
        queries.init();
        keys.init();
        values.init();
    }
    sync_threads();
    let warpgroup = match Role::of_thread(WARPGROUPS as u32) {
        Role::Producer { elected } => {
            if STEP >= 3 {
                decrease_registers::<40>();
            }
            if !elected {
                return;
            }
            let (mut queries, mut keys, mut values) =
                (queries.producer(), keys.producer(), values.producer());
            let (load_q, load_k) = (TmaQ::get_slice(), TmaK::get_slice());
            let filling = queries.acquire(WARPGROUPS as u32 * TmaQ::BYTES);
            for part in 0..WARPGROUPS as u32 {
                load_q.copy(gQ.at((first / 64 + part, 0, block.y, block.z)), sQ.at((.., .., part)), &filling);
            }
            for tile in (0..tiles).rev() {
                let at = (tile, 0, block.y, block.z);
                let filling = keys.acquire(TmaK::BYTES);
                load_k.copy(gK.at(at), filling.of(sK), &filling);
                let filling = values.acquire(TmaK::BYTES);
                load_k.copy(gV.at(at), filling.of(sV), &filling);
            }
            return;
        }
        Role::Consumer { warpgroup } => warpgroup,
    };
    if STEP >= 3 {
        increase_registers::<232>();
    }
    let (mut queries, mut keys, mut values) = (queries.consumer(), keys.consumer(), values.consumer());
    let (qk, pv) = (Qk::get_slice(0), Pv::get_slice(0));
    let sQ = sQ.at((.., .., warpgroup)); // (64, D)
    let tSrQ = qk.fragment_a(&qk.partition_a(sQ)); // (1, MMA_M, MMA_K)
    let tSrK = qk.fragment_b(&qk.partition_b(sK)); // (1, MMA_N, MMA_K, PIPE)
    let tOrV = pv.fragment_b(&pv.partition_b(sV.transposed())); // (1, MMA_N, MMA_K, PIPE)
    let mut tOrO = pv.accumulator::<TileO>(); // (MMA, MMA_M, MMA_N)
    let (mut max, mut sum) = (tOrO.rows(f32::MIN), tOrO.rows(0.0)); // (row)
    let scale = scale * LOG2_E;
    let row = first + 64 * warpgroup;
    // Masks a tile of scores, turns it into weights, and returns the factors of the previous
    // accumulators.
    let mut softmax = inlined(
        #[inline(always)]
        |tSrS: &mut Fragment<f32, AccumulatorOf<TileS, Qk>>, tile: u32| {
            if (causal && (tile + 1) * BLK_N > row + 1) || (tile + 1) * BLK_N > s {
                let at = Qk::get_slice(thread % 128).coordinates(&*tSrS, (row, tile * BLK_N));
                let masked = |row, column| column >= s || (causal && column > row);
                tSrS.apply_at(
                    &at,
                    |x, (row, column)| if masked(row, column) { f32::NEG_INFINITY } else { x },
                );
            }
            let next = tSrS.fold_rows(&max, f32::max).across_lanes(f32::max);
            let rescale = max.zip(&next, |before, max| math::fast::exp2((before - max) * scale));
            tSrS.apply_rows(&next, |x, max| math::fast::exp2(x.fma(scale, -max * scale)));
            max = next;
            sum.apply_with(&rescale, |sum, by| sum * by);
            sum = tSrS.fold_rows(&sum, f32::add);
            rescale
        },
    );
    let query = queries.wait();
    if STEP < 4 {
        for tile in (0..tiles).rev() {
            let mut tSrS = qk.accumulator::<TileS>(); // (MMA, MMA_M, MMA_N)
            let key = keys.wait();
            qk.gemm_zero(&mut tSrS, tSrQ, key.of(tSrK));
            qk.wait_for::<0>(&mut tSrS);
            keys.release(key);
            let rescale = softmax(&mut tSrS, tile);
            tOrO.apply_rows(&rescale, |x, by| x * by);
            let tOrP = pv.as_a(&tSrS).convert::<bf16>(); // (MMA, MMA_M, MMA_K)
            let value = values.wait();
            pv.gemm(&mut tOrO, &tOrP, value.of(tOrV));
            pv.wait_for::<0>(&mut tOrO);
            values.release(value);
        }
    } else {
        if STEP >= 5 && warpgroup == 1 {
            Barrier::Turn.of(0).arrive();
        }
        let mut tSrS = qk.accumulator::<TileS>(); // (MMA, MMA_M, MMA_N)
        let key = keys.wait();
        qk.gemm_zero(&mut tSrS, tSrQ, key.of(tSrK));
        qk.wait_for::<0>(&mut tSrS);
        keys.release(key);
        softmax(&mut tSrS, tiles - 1);
        let mut tOrP = pv.as_a(&tSrS).convert::<bf16>(); // (MMA, MMA_M, MMA_K)
        for tile in (0..tiles - 1).rev() {
            let mut tSrS = qk.accumulator::<TileS>(); // (MMA, MMA_M, MMA_N)
            let (key, value) = (keys.wait(), values.wait());
            if STEP >= 5 {
                Barrier::Turn.of(warpgroup).sync();
            }
            qk.gemm_zero(&mut tSrS, tSrQ, key.of(tSrK));
            pv.gemm(&mut tOrO, &tOrP, value.of(tOrV));
            if STEP >= 5 {
                Barrier::Turn.of(1 - warpgroup).arrive();
            }
            qk.wait_for::<1>(&mut tSrS);
            keys.release(key);
            let rescale = softmax(&mut tSrS, tile);
            pv.wait_for::<0>(&mut tOrO);
            values.release(value);
            tOrO.apply_rows(&rescale, |x, by| x * by);
            tOrP = pv.as_a(&tSrS).convert::<bf16>();
        }
        let value = values.wait();
        pv.gemm(&mut tOrO, &tOrP, value.of(tOrV));
        pv.wait_for::<0>(&mut tOrO);
        values.release(value);
    }
    queries.release(query);
    let inverse = sum.across_lanes(f32::add).map(math::fast::rcp);
    tOrO.apply_rows(&inverse, |x, by| x * by);
    // O goes through the warpgroup's rows of Q, which all its products have read.
    let store = StoreO::get_slice(thread % 128);
    let tOrO = tOrO.convert::<bf16>();
    Barrier::Warpgroup.of(warpgroup).sync();
    store.store(&tOrO, store.partition_d(sQ));
    fence_proxy_async_shared();
    Barrier::Warpgroup.of(warpgroup).sync();
    if thread % 128 == 0 {
        TmaQ::get_slice().store(sQ, gO.at((first / 64 + warpgroup, 0, block.y, block.z)));
        bulk_commit_group();
        bulk_wait_group_read::<0>();
    }
}

/// A closure with two calls becomes a function, with its accumulators in local memory, unless it is
/// inlined.
#[inline(always)]
fn inlined<F>(closure: F) -> F {
    closure
}
