//! `y = x W^T` of quantised weights, whose codes go from memory straight into the registers of
//! `mma.sync`.
#![allow(non_snake_case, reason = "CuTe's names")]

use super::codes::{Code, CodeAs, Pairs, ROWS, Rows, Weights};
use super::loads::{Activations, Load, Sources, StagesOfX, issue_weights, issue_x};
use moye_device::algorithm::load_vector_if;
use moye_device::arch::{F16x2, FULL_WARP, opaque, overlap_launches};
use moye_device::number::U4;
use moye_device::prelude::*;

/// Warps of a block for `rows` rows of x: they have the same rows of W, and divide the steps along
/// K. Products of one row wait for memory, and have twice as many.
#[inline(always)]
#[must_use]
pub const fn warps(rows: i64) -> u32 {
    if rows == 1 { 16 } else { 8 }
}

/// Rows of x of the instructions: a block with one row repeats it.
pub(super) const fn columns(rows: i64) -> i64 {
    if rows == 1 { 8 } else { rows }
}

/// Bytes of a tile of codes for a step.
pub(super) const STEP_BYTES: u32 = 512;

/// Steps of a warp that are in flight or in use.
const STAGES: u32 = 3;
/// The same where a block has one row of x.
const STAGES_OF_ONE: u32 = 4;

const fn stages(rows: i64) -> u32 {
    if rows == 1 { STAGES_OF_ONE } else { STAGES }
}

static_layout! {
    /// Elements of x of a lane for a step: (vector, MMA_N of both units).
    Vectors<Q: Code, const M: i64> = layout!(({ Q::VECTOR as i64 }, { columns(M) / 4 }));
    /// [`Vectors`] as operands B: (MMA, MMA_N, MMA_K, unit).
    Units<Q: Code, const M: i64> = layout!(
        ((2, 2), { columns(M) / 8 }, { Q::MMAS as i64 }, 2)
        :((1, 2), { Q::VECTOR as i64 }, 4, { columns(M) / 8 * Q::VECTOR as i64 })
    );
    /// An operand A: (MMA, MMA_M, MMA_K).
    OperandA<Q: Code> = layout!(((2, 2, 2), 1, { Q::MMAS as i64 }));
    /// The accumulators of a lane: (MMA, MMA_M, MMA_N).
    Sums<const M: i64, const TILES: i64> = layout!(((2, 2), TILES, { columns(M) / 8 }));
    /// The words of a lane for a step: (tile).
    Words<const TILES: i64> = layout!(TILES);
    /// Elements of x in flight: (vector, lane, MMA_N of both units, stage, warp).
    pub RingX<Q: Code, const M: i64> = layout!((
        { Q::VECTOR as i64 }, { if M == 1 { 4 } else { 32 } }, { columns(M) / 4 }, { stages(M) as i64 }, { warps(M) as i64 }
    ));
    /// Codes in flight: (lane, tile, stage, warp).
    pub RingCodes<const M: i64, const TILES: i64> = layout!((32, TILES, { stages(M) as i64 }, { warps(M) as i64 }));
    /// The norm's weights in flight: (vector, quad's lane, unit, stage, warp).
    pub RingGains<Q: Code, const M: i64, const NORM: bool> = layout!((
        { Q::VECTOR as i64 }, 4, 2, { if NORM { stages(M) as i64 } else { 1 } }, { if NORM { warps(M) as i64 } else { 1 } }
    ));
    /// The norm's weights of a lane for a step: (vector, unit).
    Gains<Q: Code> = layout!(({ Q::VECTOR as i64 }, 2));
    /// Elements of x whose squares a lane sums together: (vector, vectors).
    Squared = layout!((8, 4));
    /// Sums of squares of a row's parts, and the factor of its products: (part, row of x).
    pub Squares<const M: i64> = layout!(({ warps(M) as i64 + 1 }, M));
    /// Factors in flight: (scales and minima, rows i and i + 8, tile and unit, stage, warp).
    pub RingFactors<const M: i64, const TILES: i64> = layout!((2, 8, 2 * TILES, { stages(M) as i64 }, { warps(M) as i64 }));
}
tiled_mma! {
    Mma<T: Half>: TiledMma<T::Atom> = TiledMma::new(layout!((1, 1, 1)));
}

/// Norm, gate and residual of a product.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, KernelParam)]
pub struct Finish {
    /// The address of the residual, of the type of the product, or 0.
    pub residual: u64,
    /// The rows of the residual.
    pub rows: Rows,
    /// The address of the weights of the norm, `k` of the type of x.
    pub norm: u64,
    /// The bits of the norm's epsilon.
    pub eps: u32,
    /// Whether rows `i` and `i + 8` of a tile are gate and up: `y = silu(gate) * up`.
    pub gated: bool,
    /// Whether no launch that may still run writes codes and factors: their first stages are then
    /// loaded while the previous launch runs.
    pub early: bool,
}

/// Blocks per SM, of `rows` rows of x: limited by the registers of the mainloop.
pub(super) const fn blocks_of_sm(rows: i64, norm: bool) -> u32 {
    match (rows, norm) {
        (8, false) => 4,
        (8, true) => 3,
        _ => 2,
    }
}

/// `y = x W^T` for `M` rows of x, or with `NORM` for their RMSNorm, and `TILES` tiles of rows of W
/// a block. Grid: `(tiles / TILES, m / M)`, rounded up.
///
/// # Safety
/// `x` has `m` rows of `weights.k` elements, a multiple of 8, and is aligned if `M` is 1; `y` and
/// the residual have `m` rows of `weights.n`, or half of them if `gated`, disjoint from the others,
/// but `y` may be the residual. The norm's weights start at a multiple of 16 bytes.
#[kernel(
    threads = 32 * warps(M),
    min_blocks = blocks_of_sm(M, NORM),
    shared = (
        codes: SharedArray<[u32; 4], RingCodes<M, TILES>>,
        vectors: SharedArray<T, RingX<Q, M>>,
        factors: SharedArray<u32, RingFactors<M, TILES>>,
        gains: SharedArray<T, RingGains<Q, M, NORM>>,
        squares: SharedArray<f32, Squares<M>>
    ),
    instances = linear<f16 | bf16, U4 | u8, 1 | 8 | 16, 2, false | true, false | true>,
    table = LinearKernels
)]
pub unsafe fn linear<
    T: Pairs,
    Q: CodeAs<T>,
    const M: i64,
    const TILES: i64,
    const MINIMA: bool,
    const NORM: bool,
>(
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
    let (warps, of_unit) = const { (warps(M), columns(M) as u32 / 8) };
    let stages = const { stages(M) };
    let tile = block.x * TILES as u32;
    let is_last = tile + 1 == weights.n.div_ceil(ROWS);
    let next = [steps * STEP_BYTES, weights.groups << const { 5 + MINIMA as u32 }];
    let mut from = Sources {
        warp,
        lane,
        codes: weights.codes.offset(i64::from(tile * steps * 32 + lane)).address(),
        factors: weights
            .factors
            .offset(i64::from((tile * weights.groups * 8 + row) << MINIMA as u32))
            .address(),
        next: next.map(|bytes| if is_last { 0 } else { bytes.into() }),
        x: [0; 2],
        left: [0; 2],
    };
    let first = i64::from(quad * Q::VECTOR) * of_x.element;
    // The rows of x of an instruction of the lane.
    let own = |i: u32| if M == 1 { 0 } else { 8 * i + row };
    for i in 0..of_unit as usize {
        let of = block.y * M as u32 + own(i as u32);
        from.x[i] = x.offset(i64::from(of) * of_x.row + first).address();
        from.left[i] = if of < m { weights.k.saturating_sub(quad * Q::VECTOR) } else { 0 };
    }
    // Products by `tCrBias` cancel the codes' biases and offset; products by `tCrOne` sum x for
    // minima.
    let tCrOne = Fragment::<T, OperandA<Q>>::filled(1.0f32.convert());
    let mut tCrBias = Fragment::<T, OperandA<Q>>::zeros();
    for i in 0..8 * Q::MMAS as usize {
        tCrBias[i] = (-(Q::BIASES[i % 8 / 2] + weights.offset)).convert();
    }
    let mut tCrC = Fragment::<f32, Sums<M, TILES>>::zeros(); // (MMA, MMA_M, MMA_N)
    // Not unrolled: a product by few columns runs each instruction only a few times.
    let ahead = opaque(stages - 1);
    if finish.early {
        for stage in 0..ahead {
            let step = warp + stage * warps;
            if step < steps {
                issue_weights::<M, TILES, MINIMA>(&weights, codes, factors, &from, Load { step, stage });
            }
        }
    }
    overlap_launches();
    // The prologue issues the first steps; the mainloop issues the others before earlier products.
    for stage in 0..ahead {
        let load = Load { step: warp + stage * warps, stage };
        if load.step < steps {
            if !finish.early {
                issue_weights::<M, TILES, MINIMA>(&weights, codes, factors, &from, load);
            }
            let x = Activations { rows: of_x, norm: finish.norm, k: weights.k };
            issue_x::<T, Q, M, NORM>(x, StagesOfX { vectors, gains }, &from, load);
        }
        cp_async_commit();
    }
    // Powers of two by which rows `row` and `row + 8` of x are multiplied before the norm's
    // weights.
    let mut powers = [1.0f32.convert(); 2];
    if NORM {
        // The warps divide the rows, or share a row if there are few.
        let rows = (m - block.y * M as u32).min(M as u32);
        let parts = warps / rows.next_power_of_two().min(warps);
        let part = warp % parts;
        let mut r = warp / parts;
        while r < rows {
            let from = x.offset(i64::from(block.y * M as u32 + r) * of_x.row);
            let (mut sum, mut at) = (0.0f32, 8 * (32 * part + lane));
            while at < weights.k {
                let mut rX = Fragment::<T, Squared>::zeros(); // (vector, vectors)
                for i in 0..4 {
                    let at = at + i * 256 * parts;
                    if M == 1 || of_x.aligned {
                        let from = from.offset(i64::from(at));
                        load_vector_if(at < weights.k, from, &mut rX, 8 * i as usize);
                    } else {
                        for j in 0..8 {
                            let from = from.offset(i64::from(at + j) * of_x.element);
                            rX[(8 * i + j) as usize] = from.read_if(at < weights.k);
                        }
                    }
                }
                let rX = rX.convert::<f32>();
                for i in 0..32 {
                    sum = rX[i].fma(rX[i], sum);
                }
                at += 1024 * parts;
            }
            let (sum, mut squares) = (warp_reduce(sum, f32::add), squares);
            if lane == 0 {
                squares.set((part, r), sum);
            }
            r += warps / parts;
        }
        sync_threads();
        let scale = |r: u32| {
            let mut sum = 0.0;
            for part in 0..warps {
                if r < rows && part < parts {
                    sum += squares.get((part, r));
                }
            }
            math::fast::rsqrt(sum / weights.k as f32 + f32::from_bits(finish.eps))
        };
        #[allow(clippy::needless_range_loop, reason = "an index is a constant once it is unrolled")]
        for i in 0..of_unit as usize {
            let (scale, mut squares) = (scale(own(i as u32)), squares);
            // Normal in f16. The rest multiplies the sums: no operand is rounded twice.
            #[expect(clippy::manual_clamp, reason = "a NaN becomes a bound, and the rest stays one")]
            let power = f32::from_bits(scale.to_bits() & 0x7F80_0000).max(1.0 / 16_384.0).min(32_768.0);
            powers[i] = power.convert();
            if warp == 0 && quad == 0 && (M > 1 || row == 0) {
                squares.set((warps, own(i as u32)), scale / power);
            }
        }
    }
    let (mut step, mut stage) = (warp, 0);
    while step < steps {
        let ahead = Load { step: step + (stages - 1) * warps, stage: (stage + stages - 1) % stages };
        if ahead.step < steps {
            issue_weights::<M, TILES, MINIMA>(&weights, codes, factors, &from, ahead);
            let x = Activations { rows: of_x, norm: finish.norm, k: weights.k };
            issue_x::<T, Q, M, NORM>(x, StagesOfX { vectors, gains }, &from, ahead);
        }
        cp_async_commit();
        if M == 1 {
            cp_async_wait::<{ STAGES_OF_ONE - 1 }>();
        } else {
            cp_async_wait::<{ STAGES - 1 }>();
        }
        // Other lanes loaded the factors.
        sync_warp(FULL_WARP);
        let mut words = Fragment::<[u32; 4], Words<TILES>>::zeros();
        copy(&codes.at((lane, .., stage, warp)), &mut words);
        let mut tCrX = Fragment::<T, Vectors<Q, M>>::zeros();
        copy(&vectors.at((.., if M == 1 { quad } else { lane }, .., stage, warp)), &mut tCrX);
        if NORM {
            let mut tCrG = Fragment::<T, Gains<Q>>::zeros(); // (vector, unit)
            copy(&gains.at((.., quad, .., stage, warp)), &mut tCrG);
            for slot in 0..2 * of_unit as usize {
                let (unit, i) = (slot / of_unit as usize, slot % of_unit as usize);
                for j in (0..Q::VECTOR as usize).step_by(2) {
                    let x = T::times([tCrX[(j, slot)], tCrX[(j + 1, slot)]], [powers[i]; 2]);
                    let gains = [tCrG[(j, unit)], tCrG[(j + 1, unit)]];
                    [tCrX[(j, slot)], tCrX[(j + 1, slot)]] = T::times(x, gains);
                }
            }
        }
        let tCrB = tCrX.view_as::<Units<Q, M>>(); // (MMA, MMA_N, MMA_K, unit)
        for unit in 0..2 {
            // The products by the biases, which initialise the products by codes, and the sums of
            // x.
            let mut start = Fragment::<f32, Sums<M, 1>>::zeros(); // (MMA, MMA_M, MMA_N)
            if !Q::IS_FLOAT {
                mma.gemm(&mut start, &tCrBias, tCrB.at((.., .., .., unit)));
            }
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
                for i in 0..4 * of_unit as usize {
                    let (half, at) = (i / 2 % 2, (i % 4, r, i / 4));
                    tCrC[at] = partial[i].fma(scales[half], tCrC[at]);
                    if MINIMA {
                        tCrC[at] = of_x[i].fma(minima[half], tCrC[at]);
                    }
                }
            }
        }
        // A later step overwrites this stage.
        sync_warp(FULL_WARP);
        (step, stage) = (step + warps, (stage + 1) % stages);
    }

    // The stored accumulators of a lane, (MMA, MMA_M, MMA_N): if x has one row, those of one
    // column.
    let values = if M == 1 { 2 } else { 4 };
    let count = values * TILES as u32 * of_unit;
    // The value, the tile, and the instruction along N of a sum.
    let of_sum = |i: u32| {
        let (value, i) = (i % values * (4 / values), i / values);
        (value, i % TILES as u32, i / TILES as u32)
    };
    let row_of_x = |i: u32| {
        let (value, _, of_8) = of_sum(i);
        if M == 1 { 0 } else { 8 * of_8 + 2 * quad + value % 2 }
    };
    // One thread stores each sum: whether it exists, and its place.
    let place = |i: u32| {
        let (value, r, _) = of_sum(i);
        let n = (block.x * TILES as u32 + r) * ROWS + row + 8 * (value / 2);
        let of = block.y * M as u32 + row_of_x(i);
        let is_own = i < count && (M > 1 || quad == 0);
        let exists = is_own && n < weights.n && of < m && !(finish.gated && value >= 2);
        let column = if finish.gated { n / 16 * 8 + row } else { n };
        (exists, i64::from(of), i64::from(column))
    };
    let residual = |(exists, of, column): (bool, i64, i64)| -> f32 {
        let at = of * finish.rows.row + column * finish.rows.element;
        let residual = Global::<T>::from_address(finish.residual).offset(at);
        residual.read_if(exists && finish.residual != 0).convert()
    };
    let mut residuals = [0.0f32; 2];
    let passes = count.div_ceil(warps);
    for i in 0..passes {
        residuals[i as usize] = residual(place(warp + i * warps));
    }
    // The sums of all warps, (lane, sum, warp), overwrite the codes.
    let sums = codes.pointer().cast::<f32>();
    sync_threads();
    for i in 0..count {
        let (value, r, of_8) = of_sum(i);
        sums.write(lane + 32 * (i + count * warp), tCrC[(value, r, of_8)]);
    }
    sync_threads();
    let sum = |i: u32| {
        let mut sum = 0.0;
        for warp in 0..warps {
            sum += sums.read(lane + 32 * (i + count * warp));
        }
        if NORM { sum * squares.get((warps, row_of_x(i))) } else { sum }
    };
    for i in 0..passes {
        let (number, place) = (warp + i * warps, place(warp + i * warps));
        let (exists, of, column) = place;
        if exists {
            let mut result = sum(number);
            if finish.gated {
                result = math::fast::silu(result) * sum(number + values / 2);
            }
            result += residuals[i as usize];
            y.write(of * of_y.row + column * of_y.element, result.convert());
        }
    }
}
