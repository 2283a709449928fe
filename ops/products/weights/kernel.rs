//! `y = x W^T` of quantised weights, whose codes go from memory straight into the registers of
//! `mma.sync`.
#![allow(non_snake_case, reason = "CuTe's names")]

use super::codes::{Code, CodeAs, Factors, ROWS, Rows, Weights};
use moye_device::algorithm::load_vector_if;
use moye_device::number::U4;
use moye_device::prelude::*;

/// Warps of a block: they have the same rows of W, and divide the steps along K.
pub const WARPS: u32 = 8;

static_layout! {
    /// Elements of x of a lane for a unit: (vector, MMA_N).
    Vectors<Q: Code, const M: i64> = layout!(({ Q::VECTOR as i64 }, M / 8));
    /// The same as an operand B: (MMA, MMA_N, MMA_K).
    OperandB<Q: Code, const M: i64> =
        layout!(((2, 2), M / 8, { Q::MMAS as i64 }):((1, 2), { Q::VECTOR as i64 }, 4));
    /// An operand A: (MMA, MMA_M, MMA_K).
    OperandA<Q: Code> = layout!(((2, 2, 2), 1, { Q::MMAS as i64 }));
    /// The sums of a lane: (MMA, MMA_M, MMA_N).
    Sums<const M: i64, const TILES: i64> = layout!(((2, 2), TILES, M / 8));
    /// The words of a lane for a step: (tile).
    Words<const TILES: i64> = layout!(TILES);
    /// Sums that warps exchange: (lane, sum, warp).
    Exchange<const M: i64, const TILES: i64> = layout!((32, TILES * M / 2, 4));
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
    shared = (sums: SharedArray<f32, Exchange<M, TILES>>),
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
    // Tiles beyond W repeat its last one, and rows beyond x are zeros: neither is stored.
    let tile = |r: usize| (block.x * TILES as u32 + r as u32).min(tiles - 1);
    let load = |step: u32, r: usize| weights.codes.read((tile(r) * steps + step) * 32 + lane);

    let mut sums = sums;
    let tCrOne = Fragment::<T, OperandA<Q>>::filled(1.0f32.convert());
    let mut tCrC = Fragment::<f32, Sums<M, TILES>>::zeros(); // (MMA, MMA_M, MMA_N)
    let mut next = Fragment::<[u32; 4], Words<TILES>>::zeros();
    for r in 0..TILES as usize {
        next[r] = load(warp.min(steps - 1), r);
    }
    let mut step = warp;
    while step < steps {
        let words = next.clone();
        let after = (step + WARPS).min(steps - 1);
        for r in 0..TILES as usize {
            next[r] = load(after, r);
        }
        let mut vectors = [Fragment::<T, Vectors<Q, M>>::zeros(), Fragment::zeros()];
        for unit in 0..2 {
            let at = step * Q::STEP + unit as u32 * Q::UNIT + quad * Q::VECTOR;
            for i in 0..M as usize / 8 {
                let of = block.y * M as u32 + 8 * i as u32 + row;
                let first = i * Q::VECTOR as usize;
                let source = x.offset(i64::from(of) * of_x.row + i64::from(at) * of_x.element);
                let exists = of < m && at < weights.k;
                if of_x.aligned {
                    load_vector_if(exists, source, &mut vectors[unit], first);
                } else {
                    for j in 0..Q::VECTOR as usize {
                        vectors[unit][first + j] = source.offset(j as i64 * of_x.element).read_if(exists);
                    }
                }
            }
        }
        // The sums of x over a unit, in each row: what the minima are multiplied by.
        let mut of_x = [Fragment::<f32, Sums<M, 1>>::zeros(), Fragment::zeros()];
        for unit in 0..2 {
            mma.gemm(&mut of_x[unit], &tCrOne, vectors[unit].view_as::<OperandB<Q, M>>());
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
                mma.gemm(&mut partial, &tCrA, vectors[unit].view_as::<OperandB<Q, M>>());
                if unit == 1 || by_unit {
                    let group = weights.group_of::<Q>(step, unit as u32);
                    let Factors { scales, minima } = weights.factors(tile(r), group, row);
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
        step += WARPS;
    }

    // The warps' sums, half of the warps to the other half.
    let count = const { (TILES * M / 2) as usize };
    let mut others = WARPS / 2;
    while others > 0 {
        if warp >= others && warp < 2 * others {
            for i in 0..count {
                sums.set((lane, i as u32, warp - others), tCrC[i]);
            }
        }
        sync_threads();
        if warp < others {
            for i in 0..count {
                tCrC[i] += sums.get((lane, i as u32, warp));
            }
        }
        sync_threads();
        others /= 2;
    }
    if warp == 0 {
        for r in 0..TILES as usize {
            for i in 0..M as usize / 2 {
                let n = (block.x * TILES as u32 + r as u32) * ROWS + row + 8 * (i as u32 / 2 % 2);
                let of = block.y * M as u32 + 8 * (i as u32 / 4) + 2 * quad + i as u32 % 2;
                if n < weights.n && of < m {
                    y.write(
                        i64::from(of) * of_y.row + i64::from(n) * of_y.element,
                        tCrC[(i % 4, r, i / 4)].convert(),
                    );
                }
            }
        }
    }
}
