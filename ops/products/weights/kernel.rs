//! `y = x W^T` of quantised weights, whose codes go from memory straight into the registers of
//! `mma.sync`.
#![allow(non_snake_case, reason = "CuTe's names")]

use super::codes::{Code, CodeAs, Factors, ROWS, Rows, Weights};
use moye_device::arch::{CpAsyncSize, FULL_WARP, cp_async};
use moye_device::number::U4;
use moye_device::prelude::*;

/// Warps of a block: they have the same rows of W, and divide the steps along K.
pub const WARPS: u32 = 8;

/// Steps of a warp that are in flight or in use.
const STAGES: u32 = 4;

static_layout! {
    /// Elements of x of a lane for a step: (vector, MMA_N of both units).
    Vectors<Q: Code, const M: i64> = layout!(({ Q::VECTOR as i64 }, M / 4));
    /// The same as operands B: (MMA, MMA_N, MMA_K, unit).
    Units<Q: Code, const M: i64> = layout!(
        ((2, 2), M / 8, { Q::MMAS as i64 }, 2):((1, 2), { Q::VECTOR as i64 }, 4, { M / 8 * Q::VECTOR as i64 })
    );
    /// An operand A: (MMA, MMA_M, MMA_K).
    OperandA<Q: Code> = layout!(((2, 2, 2), 1, { Q::MMAS as i64 }));
    /// The sums of a lane: (MMA, MMA_M, MMA_N).
    Sums<const M: i64, const TILES: i64> = layout!(((2, 2), TILES, M / 8));
    /// The words of a lane for a step: (tile).
    Words<const TILES: i64> = layout!(TILES);
    /// Elements of x in flight: (vector, lane, MMA_N of both units, stage, warp).
    RingX<Q: Code, const M: i64> =
        layout!(({ Q::VECTOR as i64 }, 32, M / 4, { STAGES as i64 }, { WARPS as i64 }));
    /// Codes in flight: (lane, tile, stage, warp).
    RingCodes<const TILES: i64> = layout!((32, TILES, { STAGES as i64 }, { WARPS as i64 }));
    /// Scales and minima in flight: (scales and minima, rows i and i + 8, tile and unit, stage, warp).
    RingFactors<const TILES: i64> = layout!((2, 8, 2 * TILES, { STAGES as i64 }, { WARPS as i64 }));
    /// The sums of all warps: (lane, sum, warp).
    Exchange<const M: i64, const TILES: i64> = layout!((32, TILES * M / 2, { WARPS as i64 }));
}
tiled_mma! {
    Mma<T: Half>: TiledMma<T::Atom> = TiledMma::new(layout!((1, 1, 1)));
}

/// `y = x W^T` for `M` rows of x and `TILES` tiles of rows of W a block. Grid: `(tiles / TILES,
/// m / M)`, rounded up.
///
/// # Safety
/// `x` has `m` rows of `weights.k` elements, a multiple of 8, and `y` `m` rows of `weights.n`,
/// disjoint from the others.
#[kernel(
    threads = 32 * WARPS,
    shared = (
        codes: SharedArray<[u32; 4], RingCodes<TILES>>,
        vectors: SharedArray<T, RingX<Q, M>>,
        factors: SharedArray<u32, RingFactors<TILES>>,
        sums: SharedArray<f32, Exchange<M, TILES>>
    ),
    instances = (linear_f16_4_8x1<f16, U4, 8, 1>, linear_bf16_4_8x1<bf16, U4, 8, 1>, linear_f16_8_8x1<f16, u8, 8, 1>, linear_bf16_8_8x1<bf16, u8, 8, 1>, linear_f16_4_8x2<f16, U4, 8, 2>, linear_bf16_4_8x2<bf16, U4, 8, 2>, linear_f16_8_8x2<f16, u8, 8, 2>, linear_bf16_8_8x2<bf16, u8, 8, 2>, linear_f16_4_8x4<f16, U4, 8, 4>, linear_bf16_4_8x4<bf16, U4, 8, 4>, linear_f16_8_8x4<f16, u8, 8, 4>, linear_bf16_8_8x4<bf16, u8, 8, 4>, linear_f16_4_16x1<f16, U4, 16, 1>, linear_bf16_4_16x1<bf16, U4, 16, 1>, linear_f16_8_16x1<f16, u8, 16, 1>, linear_bf16_8_16x1<bf16, u8, 16, 1>, linear_f16_4_16x2<f16, U4, 16, 2>, linear_bf16_4_16x2<bf16, U4, 16, 2>, linear_f16_8_16x2<f16, u8, 16, 2>, linear_bf16_8_16x2<bf16, u8, 16, 2>, linear_f16_4_16x4<f16, U4, 16, 4>, linear_bf16_4_16x4<bf16, U4, 16, 4>, linear_f16_8_16x4<f16, u8, 16, 4>, linear_bf16_8_16x4<bf16, u8, 16, 4>, linear_f16_4_32x2<f16, U4, 32, 2>, linear_bf16_4_32x2<bf16, U4, 32, 2>, linear_f16_8_32x2<f16, u8, 32, 2>, linear_bf16_8_32x2<bf16, u8, 32, 2>, linear_f16_4_32x4<f16, U4, 32, 4>, linear_bf16_4_32x4<bf16, U4, 32, 4>, linear_f16_8_32x4<f16, u8, 32, 4>, linear_bf16_8_32x4<bf16, u8, 32, 4>)
)]
pub unsafe fn linear<T: Half, Q: CodeAs<T>, const M: i64, const TILES: i64>(
    x: Global<T>,
    y: GlobalMut<T>,
    weights: Weights,
    m: u32,
    of_x: Rows,
    of_y: Rows,
) where
    f32: Convert<T>,
{
    let (block, thread) = (block_idx(), thread_idx().x);
    let (warp, lane) = (thread / 32, lane_id());
    let (row, quad) = (lane / 4, lane % 4);
    let tiles = weights.n.div_ceil(ROWS);
    let steps = weights.k.div_ceil(Q::STEP);
    let by_unit = weights.group == Q::UNIT;
    let mma = Mma::<T>::get_slice(lane);
    let mut sums = sums;
    // Tiles beyond W repeat its last one, and rows beyond x are zeros: neither is stored.
    let tile = |r: u32| (block.x * TILES as u32 + r).min(tiles - 1);
    let issue = |step: u32, stage: u32| {
        let mut vectors = vectors;
        if step < steps {
            for r in 0..TILES as u32 {
                let from = weights.codes.offset(i64::from((tile(r) * steps + step) * 32 + lane));
                cp_async(CpAsyncSize::B16, codes.address_of((lane, r, stage, warp)), from.address(), 16);
                let unit = quad % 2;
                if quad < 1 + u32::from(by_unit) {
                    let to = factors.address_of((0u32, row, 2 * r + unit, stage, warp));
                    let (size, from) =
                        weights.place_of_factors(tile(r), weights.group_of::<Q>(step, unit), row);
                    cp_async(size, to, from, size.bytes());
                }
            }
            for unit in 0..2 {
                let at = step * Q::STEP + unit * Q::UNIT + quad * Q::VECTOR;
                for i in 0..M as u32 / 8 {
                    let of = block.y * M as u32 + 8 * i + row;
                    let exists = of < m && at < weights.k;
                    let from = x.offset(i64::from(of) * of_x.row + i64::from(at) * of_x.element);
                    let slot = unit * (M as u32 / 8) + i;
                    if of_x.aligned {
                        let size = const { if Q::VECTOR == 8 { CpAsyncSize::B16 } else { CpAsyncSize::B8 } };
                        let valid = if exists { size.bytes() } else { 0 };
                        let from = if exists { from.address() } else { x.address() };
                        cp_async(size, vectors.address_of((0u32, lane, slot, stage, warp)), from, valid);
                    } else {
                        for j in 0..Q::VECTOR {
                            let element = from.offset(i64::from(j) * of_x.element).read_if(exists);
                            vectors.set((j, lane, slot, stage, warp), element);
                        }
                    }
                }
            }
        }
        cp_async_commit();
    };
    let tCrOne = Fragment::<T, OperandA<Q>>::filled(1.0f32.convert());
    let mut tCrC = Fragment::<f32, Sums<M, TILES>>::zeros(); // (MMA, MMA_M, MMA_N)
    // The first steps are issued alone, the others before the product of an earlier one.
    let (mut ahead, mut round) = (warp, 0);
    while ahead < steps + (STAGES - 1) * WARPS {
        issue(ahead, round % STAGES);
        (ahead, round) = (ahead + WARPS, round + 1);
        if round < STAGES {
            continue;
        }
        let (step, stage) = (ahead - STAGES * WARPS, round % STAGES);
        if step >= steps {
            break;
        }
        cp_async_wait::<{ STAGES - 1 }>();
        // The factors were brought by other lanes.
        sync_warp(FULL_WARP);
        let mut words = Fragment::<[u32; 4], Words<TILES>>::zeros();
        copy(&codes.at((lane, .., stage, warp)), &mut words);
        let mut tCrX = Fragment::<T, Vectors<Q, M>>::zeros();
        copy(&vectors.at((.., lane, .., stage, warp)), &mut tCrX);
        let tCrB = tCrX.view_as::<Units<Q, M>>(); // (MMA, MMA_N, MMA_K, unit)
        // The sums of x over a unit, in each row: what the minima are multiplied by.
        let mut of_x = [Fragment::<f32, Sums<M, 1>>::zeros(), Fragment::zeros()];
        for unit in 0..2 {
            mma.gemm(&mut of_x[unit], &tCrOne, tCrB.at((.., .., .., unit)));
        }
        for r in 0..TILES as usize {
            let mut partial = Fragment::<f32, Sums<M, 1>>::zeros(); // (MMA, MMA_M, MMA_N)
            for unit in 0..2 {
                let mut tCrA = Fragment::<T, OperandA<Q>>::zeros(); // (MMA, MMA_M, MMA_K)
                for i in 0..Q::MMAS as usize {
                    let pairs = Q::operand(words[r], unit, i);
                    for j in 0..8 {
                        tCrA[8 * i + j] = pairs[j / 2][j % 2];
                    }
                }
                mma.gemm(&mut partial, &tCrA, tCrB.at((.., .., .., unit)));
                if unit == 1 || by_unit {
                    let of_unit = if by_unit { unit as u32 } else { 0 };
                    let at = 2 * r as u32 + of_unit;
                    let Factors { scales, minima } =
                        weights.factors(|i| factors.get((i, row, at, stage, warp)));
                    for i in 0..M as usize / 2 {
                        let (half, n) = (i / 2 % 2, i / 4);
                        let of_x = if by_unit { of_x[unit][i] } else { of_x[0][i] + of_x[1][i] };
                        let sum = partial[i].fma(scales[half], of_x.fma(minima[half], tCrC[(i % 4, r, n)]));
                        tCrC[(i % 4, r, n)] = sum;
                        partial[i] = 0.0;
                    }
                }
            }
        }
        sync_warp(FULL_WARP);
    }

    let count = const { (TILES * M / 2) as u32 };
    for i in 0..count {
        sums.set((lane, i, warp), tCrC[i as usize]);
    }
    sync_threads();
    // (MMA, MMA_M, MMA_N) of a lane again, a sum for each thread.
    let mut i = warp;
    while i < count {
        let mut sum = 0.0;
        for warp in 0..WARPS {
            sum += sums.get((lane, i, warp));
        }
        let (value, r, of_8) = (i % 4, i / 4 % TILES as u32, i / 4 / TILES as u32);
        let n = (block.x * TILES as u32 + r) * ROWS + row + 8 * (value / 2);
        let of = block.y * M as u32 + 8 * of_8 + 2 * quad + value % 2;
        if n < weights.n && of < m {
            y.write(i64::from(of) * of_y.row + i64::from(n) * of_y.element, sum.convert());
        }
        i += WARPS;
    }
}
