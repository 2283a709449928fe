//! Kernels that moye's operations lack: attention of heads of 32 elements within each sentence, and
//! the mean of a sentence's tokens.
//!
//! The tokens of all sentences follow each other without padding: `offsets` holds the first token
//! of each sentence, and the end. A token's queries, keys and values are adjacent in `qkv`, with
//! `heads` heads each.
#![allow(non_snake_case, reason = "CuTe's names")]

use core::f32::consts::LOG2_E;
use moye_device::prelude::*;

/// Elements of a head.
pub const HEAD: u32 = 32;

/// Queries of a block, and keys of a tile.
pub const BLK: u32 = 64;

/// Threads of a block of [`attention_f32`]: one for each query.
pub const THREADS_F32: u32 = BLK;

/// Threads of a block of [`attention_f16`].
pub const THREADS_F16: u32 = Mma::THREADS;

/// Columns of a block of [`mean`].
pub const BLK_N: u32 = 64;

static_layout! {
    /// Scores: (BLK_M, BLK_N).
    Scores = layout!((64, 64));
    /// Results of a block: (BLK_M, HEAD).
    Tile = layout!((64, 32));
    /// The elements of a head: (HEAD).
    Head = layout!(32);
    /// Scores of a query, eight keys at a time: (key).
    Keys = layout!(8);
    /// Keys or values of a tile: (BLK_N, HEAD).
    SmemF32 = layout!((64, 32):(32, 1));
}
swizzled_layout! {
    SmemF16<const PIPE: i64> = // (BLK_N, HEAD, PIPE)
        ComposedLayout::new(Swizzle::new(2, 3, 3), 0, layout!((8, 32):(32, 1))).tile_to_shape(tuple!((64, 32, PIPE)));
}
tiled_mma! {
    Mma: TiledMma<SM80_16x8x16_F32F16F16F32_TN> = TiledMma::tiled(layout!((4, 1, 1)), [64, 16, 16]);
}
tiled_copy! {
    Load: TiledCopy<SM80_CP_ASYNC_CACHEGLOBAL_ZFILL<u128>, f16> = TiledCopy::new(layout!((32, 4):(4, 1)), layout!((1, 8)));
    Store: TiledCopy<UniversalCopy<u128>, f16> = TiledCopy::new(layout!((32, 4):(4, 1)), layout!((1, 8)));
    ReadQ: TiledCopy<SM75_U32x4_LDSM_N, f16> = make_tiled_copy_a(&Mma::MMA);
    ReadK: TiledCopy<SM75_U32x4_LDSM_N, f16> = make_tiled_copy_b(&Mma::MMA);
    ReadV: TiledCopy<SM75_U16x8_LDSM_T, f16> = make_tiled_copy_b(&Mma::MMA);
    LoadF32: TiledCopy<SM80_CP_ASYNC_CACHEGLOBAL_ZFILL<u128>, f32> = TiledCopy::new(layout!((8, 8):(8, 1)), layout!((1, 4)));
    /// One query of 32 elements for each thread.
    Query: TiledCopy<AutoVectorizingCopy, f32> = TiledCopy::new(layout!((64, 1)), layout!((1, 32)));
    /// 16 bytes for each thread, four tokens at a time.
    Tokens<T: Storable>: TiledCopy<AutoVectorizingCopy, T> = TiledCopy::new(layout!((4, 8):(8, 1)), layout!((1, { 128 / T::BITS })));
}

/// Attention in f16, `o = softmax(scale q k^T) v` of each head of each sentence, with `mma.sync`:
/// one block for each 64 queries. Grid: `(ceil(longest / 64), heads, sentences)`.
///
/// # Safety
/// `offsets` ascends from 0 and has one more element than there are sentences. `qkv` has a row of
/// `3 * heads * 32` elements for each token, `o` one of `heads * 32`, at multiples of 16 bytes;
/// they do not overlap.
#[kernel(
    threads = Mma::THREADS,
    shared = (sQ: SharedArray<f16, SmemF16<1>>, sK: SharedArray<f16, SmemF16<2>>, sV: SharedArray<f16, SmemF16<2>>)
)]
pub unsafe fn attention_f16(
    qkv: Global<f16>,
    offsets: Global<i32>,
    o: GlobalMut<f16>,
    heads: u32,
    scale: f32,
) {
    let (block, thread) = (block_idx(), thread_idx().x);
    let first = offsets.read(block.z);
    let s = (offsets.read(block.z + 1) - first) as u32;
    if block.x * BLK >= s {
        return;
    }
    let (width, at) = (i64::from(heads * HEAD), i64::from(block.y * HEAD));
    let q = qkv.offset(i64::from(first) * 3 * width + at);
    let (k, v, o) = (q.offset(width), q.offset(2 * width), o.offset(i64::from(first) * width + at));
    let gQ = tile!(tensor!(q, (s, HEAD), (3 * width, 1), align = 16), (64, 32), (block.x, 0)); // (BLK_M, HEAD)
    let gK = tile!(tensor!(k, (s, HEAD), (3 * width, 1), align = 16), (64, 32), (_, 0)); // (BLK_N, HEAD, n)
    let gV = tile!(tensor!(v, (s, HEAD), (3 * width, 1), align = 16), (64, 32), (_, 0)); // (BLK_N, HEAD, n)
    let gO = tile!(tensor!(o, (s, HEAD), (width, 1), align = 16), (64, 32), (block.x, 0)); // (BLK_M, HEAD)
    let (sQ, sVt) = (sQ.at((.., .., 0)), sV.transposed()); // (BLK_M, HEAD), (HEAD, BLK_N, PIPE)

    let load = Load::get_slice(thread);
    let (tQgQ, tKgK, tVgV) = (load.partition_s(gQ), load.partition_s(gK), load.partition_s(gV)); // (CPY, CPY_N, CPY_D, n)
    let (tQsQ, tKsK, tVsV) = (load.partition_d(sQ), load.partition_d(sK), load.partition_d(sV)); // (CPY, CPY_N, CPY_D, PIPE)
    let mma = Mma::get_slice(thread);
    let (readQ, readK, readV) =
        (ReadQ::get_slice(thread), ReadK::get_slice(thread), ReadV::get_slice(thread));
    let (tXsQ, tXsK, tXsV) = (readQ.partition_s(sQ), readK.partition_s(sK), readV.partition_s(sVt)); // (CPY, CPY_N, CPY_K, PIPE)
    let mut tSrQ = mma.fragment_a(&mma.partition_a(sQ)); // (MMA, MMA_M, MMA_D)
    let mut tSrK = mma.fragment_b(&mma.partition_b(sK)); // (MMA, MMA_N, MMA_D)
    let mut tOrV = mma.fragment_b(&mma.partition_b(sVt)); // (MMA, MMA_D, MMA_N)
    let mut tOrO = mma.accumulator::<Tile>(); // (MMA, MMA_M, MMA_D)
    let (mut max, mut sum) = (tOrO.rows(f32::MIN), tOrO.rows(0.0)); // (MMA_M)

    let tiles = gK.tiles();
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
        let mut tSrS = mma.accumulator::<Scores>(); // (MMA, MMA_M, MMA_N)
        for k in 0..HEAD / 16 {
            readK.copy(tXsK.at((.., .., k, stage)), readK.retile_d(&mut tSrK).at_mut((.., .., k)));
            mma.gemm(&mut tSrS, tSrQ.at((.., .., k)), tSrK.at((.., .., k)));
        }
        if (tile + 1) * BLK > s {
            let at = mma.coordinates(&tSrS, (block.x * BLK, tile * BLK));
            tSrS.apply_at(&at, |x, (_, key)| if key >= s { f32::NEG_INFINITY } else { x });
        }
        let before = max;
        max = tSrS.fold_rows(&before, f32::max).across_lanes(f32::max);
        let rescale = before.zip(&max, |before, max| math::fast::exp2((before - max) * scale));
        tSrS.apply_rows(&max, |x, max| math::fast::exp2(x.fma(scale, -max * scale)));
        sum.apply_with(&rescale, |sum, by| sum * by);
        sum = tSrS.fold_rows(&sum, f32::add);
        tOrO.apply_rows(&rescale, |x, by| x * by);
        let tOrP = mma.as_a(&tSrS).convert::<f16>(); // (MMA, MMA_M, MMA_N)
        for k in 0..BLK / 16 {
            readV.copy(tXsV.at((.., .., k, stage)), readV.retile_d(&mut tOrV).at_mut((.., .., k)));
            mma.gemm(&mut tOrO, tOrP.at((.., .., k)), tOrV.at((.., .., k)));
        }
        sync_threads();
    }
    tOrO.apply_rows(&sum.across_lanes(f32::add).map(math::fast::rcp), |x, by| x * by);
    copy(&tOrO, mma.partition_c(sQ));
    sync_threads();
    let store = Store::get_slice(thread);
    store.copy(store.partition_s(sQ), store.partition_d(gO));
}

/// Attention in f32, one thread for each query. All threads of a warp read the same key.
///
/// # Safety
/// Same contract as [`attention_f16`].
#[kernel(threads = THREADS_F32, shared = (sK: SharedArray<f32, SmemF32>, sV: SharedArray<f32, SmemF32>))]
pub unsafe fn attention_f32(
    qkv: Global<f32>,
    offsets: Global<i32>,
    o: GlobalMut<f32>,
    heads: u32,
    scale: f32,
) {
    let (block, thread) = (block_idx(), thread_idx().x);
    let first = offsets.read(block.z);
    let s = (offsets.read(block.z + 1) - first) as u32;
    if block.x * BLK >= s {
        return;
    }
    let (width, at) = (i64::from(heads * HEAD), i64::from(block.y * HEAD));
    let q = qkv.offset(i64::from(first) * 3 * width + at);
    let (k, v, o) = (q.offset(width), q.offset(2 * width), o.offset(i64::from(first) * width + at));
    let gQ = tile!(tensor!(q, (s, HEAD), (3 * width, 1), align = 16), (64, 32), (block.x, 0)); // (BLK_M, HEAD)
    let gK = tile!(tensor!(k, (s, HEAD), (3 * width, 1), align = 16), (64, 32), (_, 0)); // (BLK_N, HEAD, n)
    let gV = tile!(tensor!(v, (s, HEAD), (3 * width, 1), align = 16), (64, 32), (_, 0)); // (BLK_N, HEAD, n)
    let gO = tile!(tensor!(o, (s, HEAD), (width, 1), align = 16), (64, 32), (block.x, 0)); // (BLK_M, HEAD)
    let load = LoadF32::get_slice(thread);
    let (tKgK, tVgV) = (load.partition_s(gK), load.partition_s(gV)); // (CPY, CPY_N, CPY_D, n)
    let (tKsK, tVsV) = (load.partition_d(sK), load.partition_d(sV)); // (CPY, CPY_N, CPY_D)
    let query = Query::get_slice(thread);
    let tQrQ = query.partition_s(gQ).load_as(0.0f32); // (HEAD, 1, 1)
    let mut tOrO = tQrQ.map(|_| 0.0f32); // (HEAD, 1, 1)
    let (mut max, mut sum) = (f32::MIN, 0.0f32);

    let scale = scale * LOG2_E;
    for tile in 0..gK.tiles() {
        load.copy(tKgK.at((.., .., .., tile)), tKsK);
        load.copy(tVgV.at((.., .., .., tile)), tVsV);
        cp_async_commit();
        cp_async_wait::<0>();
        sync_threads();
        let keys = (s - tile * BLK).min(BLK);
        for from in (0..keys).step_by(Keys::LAYOUT.size() as usize) {
            let mut scores = Fragment::<f32, Keys>::filled(f32::NEG_INFINITY);
            let before = max;
            for key in 0..Keys::LAYOUT.size() as u32 {
                let mut rK = Fragment::<f32, Head>::zeros(); // (HEAD)
                copy(&sK.at((from + key, ..)), &mut rK);
                let mut score = 0.0;
                for i in 0..HEAD as usize {
                    score = tQrQ[i].fma(rK[i], score);
                }
                if from + key < keys {
                    scores[key as usize] = score;
                    max = max.max(score);
                }
            }
            let rescale = math::fast::exp2((before - max) * scale);
            sum *= rescale;
            tOrO.apply(|x| x * rescale);
            for key in 0..Keys::LAYOUT.size() as u32 {
                let weight = math::fast::exp2(scores[key as usize].fma(scale, -max * scale));
                sum += weight;
                let mut rV = Fragment::<f32, Head>::zeros(); // (HEAD)
                copy(&sV.at((from + key, ..)), &mut rV);
                for i in 0..HEAD as usize {
                    tOrO[i] = weight.fma(rV[i], tOrO[i]);
                }
            }
        }
        sync_threads();
    }
    let by = math::fast::rcp(sum);
    tOrO.apply(|x| x * by);
    copy(&tOrO, query.partition_d(gO));
}

/// The mean of each sentence's tokens, one warp for each 64 columns. Grid: `(ceil(width / 64),
/// sentences)`.
///
/// # Safety
/// `offsets` as for [`attention_f16`]; `x` has a row of `width` elements for each token, `y` one
/// for each sentence, at multiples of 16 bytes; they do not overlap.
#[kernel(threads = Tokens::<T>::THREADS, instances = (mean_f16<f16>, mean_f32<f32>))]
pub unsafe fn mean<T: Element + Convert<f32>>(x: Global<T>, offsets: Global<i32>, y: GlobalMut<T>, width: u32)
where
    f32: Convert<T>,
{
    let (block, n) = (block_idx(), i64::from(width));
    let first = offsets.read(block.y);
    let s = (offsets.read(block.y + 1) - first) as u32;
    let tokens = Tokens::<T>::get_slice(thread_idx().x);
    let gX = tile!(
        tensor!(x.offset(i64::from(first) * n), (s, width), (n, 1), align = 16),
        (16, 64),
        (_, block.x)
    ); // (BLK_M, BLK_N, m)
    let gY = tile!(
        tensor!(y.offset(i64::from(block.y) * n), (1, width), (n, 1), align = 16),
        (16, 64),
        (0, block.x)
    ); // (BLK_M, BLK_N)
    let (tXgX, tYgY) = (tokens.partition_s(gX), tokens.partition_d(gY)); // (CPY, CPY_M, CPY_N, m), (CPY, CPY_M, CPY_N)
    let mut sum = tXgX.at((.., .., .., 0)).load_as(0.0f32); // (CPY, CPY_M, CPY_N)
    for tile in 1..gX.tiles() {
        sum.apply_with(&tXgX.at((.., .., .., tile)).load_as(0.0f32), f32::add);
    }
    let mean = sum.reduce_columns(f32::add).across_lanes(f32::add).map(|sum| sum / s as f32); // (CPY_N)
    sum.apply_columns(&mean, |_, mean| mean);
    // The result has one row: the tile's other rows are out of bounds.
    copy(&sum.convert::<T>(), tYgY);
}
