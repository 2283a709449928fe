//! FlashAttention-2, forward: `O = softmax(scale Q K^T) V` for every head of every batch.
//!
//! A block of four warps computes 64 rows of O. It iterates over tiles of 64 rows of K and V, which
//! `cp.async` loads while the previous tile is multiplied.

use core::f32::consts::LOG2_E;
use moye_device::prelude::*;

/// Rows of a tile.
pub const BLK: u32 = 64;

static_layout! {
    pub Tile<const D: i64> = layout!((64, D)); // (BLK_M, D)
}
swizzled_layout! {
    pub Smem<const D: i64, const PIPE: i64> = // (BLK_N, D, PIPE)
        ComposedLayout::new(Swizzle::new(3, 3, 3), 0, layout!((8, 64):(64, 1))).tile_to_shape(tuple!((64, D, PIPE)));
}
tiled_mma! {
    pub Mma<T: Half>: TiledMma<T::Atom> = TiledMma::tiled(layout!((4, 1, 1)), [64, 16, 16]);
}
tiled_copy! {
    Load<T: Half>: TiledCopy<SM80_CP_ASYNC_CACHEGLOBAL_ZFILL<u128>, T> = TiledCopy::new(layout!((16, 8):(8, 1)), layout!((1, 8)));
    Store<T: Half>: TiledCopy<UniversalCopy<u128>, T> = TiledCopy::new(layout!((16, 8):(8, 1)), layout!((1, 8)));
    ReadQ<T: Half>: TiledCopy<SM75_U32x4_LDSM_N, T> = make_tiled_copy_a(&Mma::<T>::MMA);
    ReadK<T: Half>: TiledCopy<SM75_U32x4_LDSM_N, T> = make_tiled_copy_b(&Mma::<T>::MMA);
    ReadV<T: Half>: TiledCopy<SM75_U16x8_LDSM_T, T> = make_tiled_copy_b(&Mma::<T>::MMA);
}

/// A grid of `(ceil(s / BLK), heads, batches)` blocks.
///
/// # Safety
/// Tensors are (batches, s, heads, D), contiguous, aligned to 16 bytes; `o` overlaps no other.
#[kernel(
    threads = Mma::<T>::THREADS,
    shared = (sQ: SharedArray<T, Smem<D, 1>>, sK: SharedArray<T, Smem<D, 2>>, sV: SharedArray<T, Smem<D, 2>>),
    instances = (attention_f16_64<f16, 64>, attention_f16_128<f16, 128>, attention_bf16_64<bf16, 64>, attention_bf16_128<bf16, 128>)
)]
pub unsafe fn attention<T: Half, const D: i64>(
    q: Global<T>,
    k: Global<T>,
    v: Global<T>,
    o: GlobalMut<T>,
    s: u32,
    heads: u32,
    scale: f32,
    causal: bool,
) where
    f32: Convert<T> + CopyAs<T>,
{
    let (block, thread, d) = (block_idx(), thread_idx().x, D as u32);
    let ld = i64::from(heads) * D;
    let first = i64::from(block.z) * i64::from(s) * ld + i64::from(block.y) * D;
    let gQ = tile!(tensor!(q.offset(first), (s, d), (ld, 1), align = 16), (64, D), (block.x, 0)); // (BLK_M, D)
    let gK = tile!(tensor!(k.offset(first), (s, d), (ld, 1), align = 16), (64, D), (_, 0)); // (BLK_N, D, n)
    let gV = tile!(tensor!(v.offset(first), (s, d), (ld, 1), align = 16), (64, D), (_, 0)); // (BLK_N, D, n)
    let gO = tile!(tensor!(o.offset(first), (s, d), (ld, 1), align = 16), (64, D), (block.x, 0)); // (BLK_M, D)
    let (sQ, sVt) = (sQ.at((.., .., 0)), sV.transposed()); // (BLK_M, D), (D, BLK_N, PIPE)

    let load = Load::<T>::get_slice(thread);
    let (tQgQ, tKgK, tVgV) = (load.partition_s(gQ), load.partition_s(gK), load.partition_s(gV)); // (CPY, CPY_N, CPY_D, n)
    let (tQsQ, tKsK, tVsV) = (load.partition_d(sQ), load.partition_d(sK), load.partition_d(sV)); // (CPY, CPY_N, CPY_D, PIPE)
    let mma = Mma::<T>::get_slice(thread);
    let (readQ, readK, readV) =
        (ReadQ::<T>::get_slice(thread), ReadK::<T>::get_slice(thread), ReadV::<T>::get_slice(thread));
    let (tXsQ, tXsK, tXsV) = (readQ.partition_s(sQ), readK.partition_s(sK), readV.partition_s(sVt)); // (CPY, CPY_N, CPY_K, PIPE)
    let mut tSrQ = mma.fragment_a(&mma.partition_a(sQ)); // (MMA, MMA_M, MMA_D)
    let mut tSrK = mma.fragment_b(&mma.partition_b(sK)); // (MMA, MMA_N, MMA_D)
    let mut tOrV = mma.fragment_b(&mma.partition_b(sVt)); // (MMA, MMA_D, MMA_N)
    let mut tOrO = mma.accumulator::<Tile<D>>(); // (MMA, MMA_M, MMA_D)
    let (mut max, mut sum) = (tOrO.rows(f32::MIN), tOrO.rows(0.0)); // (MMA_M)

    let tiles = if causal { gK.tiles().min(block.x + 1) } else { gK.tiles() };
    let scale = scale * LOG2_E;
    load.copy(tQgQ, tQsQ);
    load.copy(tKgK.at((.., .., .., 0)), tKsK.at((.., .., .., 0)));
    load.copy(tVgV.at((.., .., .., 0)), tVsV.at((.., .., .., 0)));
    cp_async_commit();
    for tile in 0..tiles {
        let stage = tile % 2;
        if tile + 1 < tiles {
            load.copy(tKgK.at((.., .., .., tile + 1)), tKsK.at((.., .., .., 1 - stage)));
            load.copy(tVgV.at((.., .., .., tile + 1)), tVsV.at((.., .., .., 1 - stage)));
        }
        cp_async_commit();
        cp_async_wait::<1>();
        sync_threads();
        if tile == 0 {
            readQ.load(tXsQ, &mut tSrQ);
        }
        let mut tSrS = mma.accumulator::<Tile<64>>(); // (MMA, MMA_M, MMA_N)
        for k in 0..D as u32 / 16 {
            readK.copy(tXsK.at((.., .., k, stage)), readK.retile_d(&mut tSrK).at_mut((.., .., k)));
            mma.gemm(&mut tSrS, tSrQ.at((.., .., k)), tSrK.at((.., .., k)));
        }
        if (causal && tile == block.x) || (tile + 1) * BLK > s {
            let at = mma.coordinates(&tSrS, (block.x * BLK, tile * BLK));
            let masked = |row, column| column >= s || (causal && column > row);
            tSrS.apply_at(&at, |x, (row, column)| if masked(row, column) { f32::NEG_INFINITY } else { x });
        }
        let before = max;
        max = tSrS.fold_rows(&before, f32::max).across_lanes(f32::max);
        let rescale = before.zip(&max, |before, max| math::fast::exp2((before - max) * scale));
        tSrS.apply_rows(&max, |x, max| math::fast::exp2(x.fma(scale, -max * scale)));
        sum.apply_with(&rescale, |sum, by| sum * by);
        sum = tSrS.fold_rows(&sum, f32::add);
        tOrO.apply_rows(&rescale, |x, by| x * by);
        let tOrP = mma.as_a(&tSrS).convert::<T>(); // (MMA, MMA_M, MMA_N)
        for k in 0..BLK / 16 {
            readV.copy(tXsV.at((.., .., k, stage)), readV.retile_d(&mut tOrV).at_mut((.., .., k)));
            mma.gemm(&mut tOrO, tOrP.at((.., .., k)), tOrV.at((.., .., k)));
        }
        sync_threads();
    }
    tOrO.apply_rows(&sum.across_lanes(f32::add).map(math::fast::rcp), |x, by| x * by);
    copy(&tOrO, mma.partition_c(sQ));
    sync_threads();
    let store = Store::<T>::get_slice(thread);
    store.copy(store.partition_s(sQ), store.partition_d(gO));
}
