//! `y = x W^T` of quantised weights, whose codes go from memory straight into the registers of
//! `mma.sync`.
#![allow(non_snake_case, reason = "CuTe's names")]

use super::codes::{Code, CodeAs, ROWS, Rows, Weights};
use moye_device::arch::{CpAsyncSize, F16x2, FULL_WARP, cp_async};
use moye_device::number::U4;
use moye_device::prelude::*;

/// Warps of a block: they have the same rows of W, and divide the steps along K.
pub const WARPS: u32 = 8;

/// Steps of a warp that are in flight or in use.
const STAGES: u32 = 3;

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
    /// Factors in flight: (scales and minima, rows i and i + 8, tile and unit, stage, warp).
    RingFactors<const TILES: i64> = layout!((2, 8, 2 * TILES, { STAGES as i64 }, { WARPS as i64 }));
}
tiled_mma! {
    Mma<T: Half>: TiledMma<T::Atom> = TiledMma::new(layout!((1, 1, 1)));
}

/// What is done beside the product.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, KernelParam)]
pub struct Finish {
    /// The address of what is added to the product, of its type, or 0.
    pub residual: u64,
    /// The rows of the residual.
    pub rows: Rows,
    /// Whether rows `i` and `i + 8` of a tile are gate and up: `y = silu(gate) * up`.
    pub gated: bool,
}

/// `y = x W^T` for `M` rows of x and `TILES` tiles of rows of W a block. Grid: `(tiles / TILES,
/// m / M)`, rounded up.
///
/// # Safety
/// `x` has `m` rows of `weights.k` elements, a multiple of 8; `y` and the residual have `m` rows of
/// `weights.n`, or half of them if `gated`, disjoint from the others, but `y` may be the residual.
#[kernel(
    threads = 32 * WARPS,
    shared = (
        codes: SharedArray<[u32; 4], RingCodes<TILES>>,
        vectors: SharedArray<T, RingX<Q, M>>,
        factors: SharedArray<u32, RingFactors<TILES>>
    ),
    instances = linear<f16 | bf16, U4 | u8, 8 | 16, 2, false | true>,
    table = LinearKernels
)]
pub unsafe fn linear<T: Half, Q: CodeAs<T>, const M: i64, const TILES: i64, const MINIMA: bool>(
    x: Global<T>,
    y: GlobalMut<T>,
    weights: Weights,
    m: u32,
    of_x: Rows,
    of_y: Rows,
    finish: Finish,
) where
    f32: Convert<T>,
{
    let (block, thread) = (block_idx(), thread_idx().x);
    let (warp, lane) = (thread / 32, lane_id());
    let (row, quad) = (lane / 4, lane % 4);
    let steps = weights.k.div_ceil(Q::STEP);
    let mma = Mma::<T>::get_slice(lane);
    // Tiles beyond W repeat its last one, and rows beyond x are zeros: neither is stored.
    let tile = |r: u32| (block.x * TILES as u32 + r).min(weights.n.div_ceil(ROWS) - 1);
    let issue = |step: u32, stage: u32| {
        let mut vectors = vectors;
        for r in 0..TILES as u32 {
            let from = weights.codes.offset(i64::from((tile(r) * steps + step) * 32 + lane));
            cp_async(CpAsyncSize::B16, codes.address_of((lane, r, stage, warp)), from.address(), 16);
            if quad < weights.per_step() {
                let to = factors.address_of((0u32, row, 2 * r + quad, stage, warp));
                let size = const { if MINIMA { CpAsyncSize::B8 } else { CpAsyncSize::B4 } };
                cp_async(
                    size,
                    to,
                    weights.place_of_factors(tile(r), step, quad, row).address(),
                    size.bytes(),
                );
            }
        }
        let at = |unit: u32| step * Q::STEP + unit * Q::UNIT + quad * Q::VECTOR;
        let of = |i: u32| block.y * M as u32 + 8 * i + row;
        let places = (0..M as u32 / 4).map(|slot| (slot, slot / (M as u32 / 8), slot % (M as u32 / 8)));
        if of_x.aligned {
            for (slot, unit, i) in places {
                let size = const { if Q::VECTOR == 8 { CpAsyncSize::B16 } else { CpAsyncSize::B8 } };
                let exists = of(i) < m && at(unit) < weights.k;
                let from =
                    if exists { x.offset(i64::from(of(i)) * of_x.row + i64::from(at(unit))) } else { x };
                let to = vectors.address_of((0u32, lane, slot, stage, warp));
                cp_async(size, to, from.address(), if exists { size.bytes() } else { 0 });
            }
        } else {
            for (slot, unit, i) in places {
                let exists = of(i) < m && at(unit) < weights.k;
                for j in 0..Q::VECTOR {
                    let place = i64::from(of(i)) * of_x.row + i64::from(at(unit) + j) * of_x.element;
                    vectors.set((j, lane, slot, stage, warp), x.offset(place).read_if(exists));
                }
            }
        }
    };

    // What is in the codes' registers beside them, negative, and what minima are multiplied by.
    let tCrOne = Fragment::<T, OperandA<Q>>::filled(1.0f32.convert());
    let mut tCrBias = Fragment::<T, OperandA<Q>>::zeros();
    for i in 0..8 * Q::MMAS as usize {
        tCrBias[i] = (-(Q::BIASES[i % 8 / 2] + weights.offset)).convert();
    }
    let mut tCrC = Fragment::<f32, Sums<M, TILES>>::zeros(); // (MMA, MMA_M, MMA_N)
    // The first steps are issued alone, the others before the product of an earlier one.
    let (mut ahead, mut stage) = (warp, 0);
    while ahead < steps + (STAGES - 1) * WARPS {
        if ahead < steps {
            issue(ahead, stage);
        }
        cp_async_commit();
        (ahead, stage) = (ahead + WARPS, (stage + 1) % STAGES);
        // Beyond the steps where it would be negative: before the warp's first one.
        let step = ahead.wrapping_sub(STAGES * WARPS);
        if step >= steps {
            continue;
        }
        cp_async_wait::<{ STAGES - 1 }>();
        // The factors were brought by other lanes.
        sync_warp(FULL_WARP);
        let mut words = Fragment::<[u32; 4], Words<TILES>>::zeros();
        copy(&codes.at((lane, .., stage, warp)), &mut words);
        let mut tCrX = Fragment::<T, Vectors<Q, M>>::zeros();
        copy(&vectors.at((.., lane, .., stage, warp)), &mut tCrX);
        let tCrB = tCrX.view_as::<Units<Q, M>>(); // (MMA, MMA_N, MMA_K, unit)
        for unit in 0..2 {
            // The products by the biases, with which those by codes begin, and the sums of x.
            let mut start = Fragment::<f32, Sums<M, 1>>::zeros(); // (MMA, MMA_M, MMA_N)
            mma.gemm(&mut start, &tCrBias, tCrB.at((.., .., .., unit)));
            let mut of_x = Fragment::<f32, Sums<M, 1>>::zeros();
            if MINIMA {
                mma.gemm(&mut of_x, &tCrOne, tCrB.at((.., .., .., unit)));
            }
            for r in 0..TILES as usize {
                let mut tCrA = Fragment::<T, OperandA<Q>>::zeros(); // (MMA, MMA_M, MMA_K)
                for i in 0..Q::MMAS as usize {
                    let pairs = Q::operand(words[r], unit, i);
                    for j in 0..8 {
                        tCrA[8 * i + j] = pairs[j / 2][j % 2];
                    }
                }
                let mut partial = start.clone();
                mma.gemm(&mut partial, &tCrA, tCrB.at((.., .., .., unit)));
                let place = 2 * r as u32 + (unit as u32).min(weights.per_step() - 1);
                let factor = |i: u32| -> [f32; 2] {
                    F16x2::from_bits(factors.get((i, row, place, stage, warp))).convert()
                };
                let (scales, minima) = (factor(0), if MINIMA { factor(1) } else { [0.0; 2] });
                for i in 0..M as usize / 2 {
                    let (half, at) = (i / 2 % 2, (i % 4, r, i / 4));
                    tCrC[at] = partial[i].fma(scales[half], tCrC[at]);
                    if MINIMA {
                        tCrC[at] = of_x[i].fma(minima[half], tCrC[at]);
                    }
                }
            }
        }
        // A later step is issued over this one.
        sync_warp(FULL_WARP);
    }

    // The sums of all warps, (lane, sum, warp), take the place of the codes.
    let count = const { (TILES * M / 2) as u32 };
    let sums = codes.pointer().cast::<f32>();
    sync_threads();
    for i in 0..count {
        sums.write(lane + 32 * (i + count * warp), tCrC[i as usize]);
    }
    sync_threads();
    // A sum of a lane, (MMA, MMA_M, MMA_N), is one thread's.
    let sum = |i: u32| {
        let mut sum = 0.0;
        for warp in 0..WARPS {
            sum += sums.read(lane + 32 * (i + count * warp));
        }
        sum
    };
    let mut i = warp;
    while i < count {
        let (value, r, of_8) = (i % 4, i / 4 % TILES as u32, i / 4 / TILES as u32);
        let n = (block.x * TILES as u32 + r) * ROWS + row + 8 * (value / 2);
        let of = block.y * M as u32 + 8 * of_8 + 2 * quad + value % 2;
        if n < weights.n && of < m && !(finish.gated && value >= 2) {
            let (mut result, mut column) = (sum(i), i64::from(n));
            if finish.gated {
                result = math::fast::silu(result) * sum(i + 2);
                column = i64::from(n / 16 * 8 + row);
            }
            if finish.residual != 0 {
                let at = i64::from(of) * finish.rows.row + column * finish.rows.element;
                let residual: f32 = Global::<T>::from_address(finish.residual).read(at).convert();
                result += residual;
            }
            y.write(i64::from(of) * of_y.row + column * of_y.element, result.convert());
        }
        i += WARPS;
    }
}
