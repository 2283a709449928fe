//! `y = x W^T` for few rows of x: each row of W is read once, directly into the registers of the
//! product.
//!
//! ```text
//! f16, bf16   a lane holds 8 consecutive elements of rows i and i + 8 of W, operand A of mma.sync,
//!             and of rows of x, operand B, in the same order along K
//! f32         a lane holds 4 consecutive elements of each of its rows of W: FMA, then a reduction
//!             across lanes
//! ```
#![allow(non_snake_case, reason = "CuTe's names")]

use crate::operand::Place;
use moye_device::algorithm::load_vector_if;
use moye_device::arch::{FULL_WARP, overlap_launches, shuffle_xor};
use moye_device::prelude::*;

/// Warps of a block.
pub const WARPS: u32 = 8;
/// Elements along K of a step of f16 and bf16: two vectors of each lane of a quad.
const STEP: u32 = 64;
/// Rows of a tile of W of f16 and bf16.
pub const TILE: u32 = 16;
/// Elements along K of a step of f32: a vector of each lane.
const STEP_F32: u32 = 128;

static_layout! {
    /// Elements of W of a lane for a step: (vector, rows i and i + 8, tile, unit).
    OfW<const TILES: i64> = layout!((8, 2, TILES, 2));
    /// [`OfW`] as operands A: (MMA, MMA_M, MMA_K, unit).
    OperandA<const TILES: i64> =
        layout!(((2, 2, 2), TILES, 2, 2):((1, 8, 2), 16, 4, { 16 * TILES }));
    /// Elements of x of a lane for a step: (vector, MMA_N, unit).
    OfX<const M: i64> = layout!((8, { M / 8 }, 2));
    /// [`OfX`] as operands B: (MMA, MMA_N, MMA_K, unit).
    OperandB<const M: i64> = layout!(((2, 2), M / 8, 2, 2):((1, 2), 8, 4, M));
    /// The accumulators of a lane: (MMA, MMA_M, MMA_N).
    Sums<const M: i64, const TILES: i64> = layout!(((2, 2), TILES, M / 8));
    /// The accumulators of a block: (lane, accumulator, warp).
    OfBlock<const M: i64, const TILES: i64> = layout!((32, { TILES * M / 2 }, { WARPS as i64 }));
    /// Elements of f32 of a lane for a step: (vector, row).
    Vectors<const ROWS: i64> = layout!((4, ROWS));
    /// The f32 accumulators of a lane: (row of W, row of x).
    Products<const M: i64, const ROWS: i64> = layout!((ROWS, M));
    /// The f32 accumulators of a block: (accumulator, warp along K, row of warps).
    ProductsOfBlock<const M: i64, const ROWS: i64, const ALONG_K: i64> =
        layout!(({ ROWS * M }, ALONG_K, { WARPS as i64 / ALONG_K }));
}
tiled_mma! {
    Mma<T: Half>: TiledMma<T::Atom> = TiledMma::new(layout!((1, 1, 1)));
}

/// A product's extents and strides.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, KernelParam)]
pub struct Form {
    /// Rows of x.
    pub m: u32,
    /// Rows of W.
    pub n: u32,
    /// Elements of a row: whole vectors of 16 bytes.
    pub k: u32,
    /// Elements from row to row of x.
    pub row_x: u32,
    /// Elements from row to row of W.
    pub row_w: u32,
    /// Strides of the residual.
    pub residual: Place,
    /// Strides of y.
    pub y: Place,
}

/// Adds the residual to a sum and stores it.
///
/// # Safety
/// Elements of y and of the residual, if its address is not 0, exist where `exists`.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
unsafe fn store<T: Element + Convert<f32>>(
    y: GlobalMut<T>,
    residual: Global<T>,
    form: &Form,
    sum: f32,
    (row, column): (u32, u32),
    exists: bool,
) where
    f32: Convert<T>,
{
    let at = |place: Place| i64::from(row) * place.row + i64::from(column) * place.column;
    // SAFETY: the elements exist, or are not accessed.
    unsafe {
        let of_residual = residual.offset(at(form.residual));
        let other: f32 = of_residual.read_if(exists && residual.address() != 0).convert();
        y.offset(at(form.y)).write_if(exists, (sum + other).convert());
    }
}

/// `y = x W^T` for `M` rows of x and `TILES` tiles of 16 rows of W a block, whose warps divide K.
/// Grid: `(tiles / TILES, m / M)`, rounded up.
///
/// # Safety
/// The operands have the elements of `form`, of at least one row of each; rows of x and W start at
/// multiples of 16 bytes. y overlaps no operand but may be the residual; the residual's address is
/// 0 for a product without one.
#[kernel(
    threads = 32 * WARPS,
    min_blocks = 2,
    shared = (sums: SharedArray<f32, OfBlock<M, TILES>>),
    instances = linear_few<f16 | bf16, 8 | 16, 2>,
    table = FewKernels
)]
pub unsafe fn few<T: Half, const M: i64, const TILES: i64>(
    x: Global<T>,
    w: Global<T>,
    residual: Global<T>,
    y: GlobalMut<T>,
    form: Form,
) where
    f32: Convert<T>,
{
    overlap_launches();
    let Form { m, n, k, .. } = form;
    let (block, thread, lane) = (block_idx(), thread_idx().x, lane_id());
    let (warp, row, quad) = (thread / 32, lane / 4, lane % 4);
    let mma = Mma::<T>::get_slice(lane);
    let (first_n, first_m) = (block.x * TILE * TILES as u32, block.y * M as u32);
    // Steps past the end are zeros.
    let load = |step: u32, tCrW: &mut Fragment<T, OfW<TILES>>, tCrX: &mut Fragment<T, OfX<M>>| {
        for unit in 0..2 {
            let at = step * STEP + unit * (STEP / 2) + 8 * quad;
            for i in 0..2 * TILES as u32 {
                let of = first_n + 8 * i + row;
                let from = w.offset(i64::from(of) * i64::from(form.row_w) + i64::from(at));
                let place = 8 * (i + 2 * TILES as u32 * unit) as usize;
                load_vector_if(of < n && at < k, from, tCrW, place);
            }
            for i in 0..M as u32 / 8 {
                let of = first_m + 8 * i + row;
                let from = x.offset(i64::from(of) * i64::from(form.row_x) + i64::from(at));
                let place = 8 * (i + M as u32 / 8 * unit) as usize;
                load_vector_if(of < m && at < k, from, tCrX, place);
            }
        }
    };
    let mut tCrC = Fragment::<f32, Sums<M, TILES>>::zeros(); // (MMA, MMA_M, MMA_N)
    let mut multiply = |tCrW: &Fragment<T, OfW<TILES>>, tCrX: &Fragment<T, OfX<M>>| {
        let tCrA = tCrW.view_as::<OperandA<TILES>>(); // (MMA, MMA_M, MMA_K, unit)
        let tCrB = tCrX.view_as::<OperandB<M>>(); // (MMA, MMA_N, MMA_K, unit)
        for unit in 0..2 {
            mma.gemm(&mut tCrC, tCrA.at((.., .., .., unit)), tCrB.at((.., .., .., unit)));
        }
    };
    let steps = k.div_ceil(STEP);
    let mut step = warp;
    let (mut tCrW, mut tCrX) = (Fragment::zeros(), Fragment::zeros());
    let (mut next_w, mut next_x) = (Fragment::zeros(), Fragment::zeros());
    load(step, &mut tCrW, &mut tCrX);
    while step < steps {
        load(step + WARPS, &mut next_w, &mut next_x);
        multiply(&tCrW, &tCrX);
        load(step + 2 * WARPS, &mut tCrW, &mut tCrX);
        multiply(&next_w, &next_x);
        step += 2 * WARPS;
    }
    let count = const { (TILES * M / 2) as u32 };
    let mut sums = sums;
    for i in 0..count {
        sums.set((lane, i, warp), tCrC[i as usize]);
    }
    sync_threads();
    let mut i = warp;
    while i < count {
        let (value, tile, of_8) = (i % 4, i / 4 % TILES as u32, i / 4 / TILES as u32);
        let (column, row) =
            (first_n + TILE * tile + row + 8 * (value / 2), first_m + 8 * of_8 + 2 * quad + value % 2);
        let mut sum = 0.0;
        for warp in 0..WARPS {
            sum += sums.get((lane, i, warp));
        }
        store(y, residual, &form, sum, (row, column), row < m && column < n);
        i += WARPS;
    }
}

/// Sums of a fragment over the lanes of a warp: lane `l` gets the elements from `l * SIZE / 32` on.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
fn sum_over_lanes<L: StaticLayout>(sums: &mut Fragment<f32, L>, lane: u32) {
    unroll!(for level in 0..5 {
        let (distance, half) = (16 >> level, Fragment::<f32, L>::SIZE >> (level + 1));
        let upper = lane & distance > 0;
        for i in 0..half {
            let (low, high) = (sums[i], sums[i + half]);
            let (kept, sent) = if upper { (high, low) } else { (low, high) };
            sums[i] = kept + shuffle_xor(FULL_WARP, sent, distance);
        }
    });
}

/// [`few`] in f32 by FMA: `M` rows of x and `ROWS` rows of W a warp. `ALONG_K` warps of a block
/// divide K; the others compute other rows of W. Grid: `(n / (ROWS * WARPS / ALONG_K), m / M)`,
/// rounded up.
///
/// # Safety
/// Same contract as [`few`].
#[kernel(
    threads = 32 * WARPS,
    min_blocks = 1,
    shared = (sums: SharedArray<f32, ProductsOfBlock<M, ROWS, ALONG_K>>),
    instances = (linear_few_f32_4<4, 8, 8>, linear_few_f32_16<16, 4, 1>)
)]
pub unsafe fn few_f32<const M: i64, const ROWS: i64, const ALONG_K: i64>(
    x: Global<f32>,
    w: Global<f32>,
    residual: Global<f32>,
    y: GlobalMut<f32>,
    form: Form,
) {
    overlap_launches();
    let Form { m, n, k, .. } = form;
    let (block, thread, lane) = (block_idx(), thread_idx().x, lane_id());
    let (along_k, of_rows) = (thread / 32 % ALONG_K as u32, thread / 32 / ALONG_K as u32);
    let rows = const { ROWS as u32 * WARPS / ALONG_K as u32 };
    let (first_n, first_m) = (block.x * rows + of_rows * ROWS as u32, block.y * M as u32);
    let load = |step: u32| {
        let mut rW = Fragment::<f32, Vectors<ROWS>>::zeros(); // (vector, row)
        for i in 0..ROWS as u32 {
            let at = step * STEP_F32 + 4 * lane;
            let from = w.offset(i64::from(first_n + i) * i64::from(form.row_w) + i64::from(at));
            load_vector_if(first_n + i < n && at < k, from, &mut rW, 4 * i as usize);
        }
        rW
    };
    let mut rC = Fragment::<f32, Products<M, ROWS>>::zeros(); // (row of W, row of x)
    let steps = k.div_ceil(STEP_F32);
    let mut step = along_k;
    // Steps past the end load zeros.
    let mut next = load(step);
    while step < steps {
        let (rW, at) = (next, step * STEP_F32 + 4 * lane);
        step += ALONG_K as u32;
        next = load(step);
        for i in 0..M as u32 {
            let mut rX = Fragment::<f32, Vectors<1>>::zeros();
            let from = x.offset(i64::from(first_m + i) * i64::from(form.row_x) + i64::from(at));
            load_vector_if(first_m + i < m && at < k, from, &mut rX, 0);
            for r in 0..ROWS as usize {
                let place = r + ROWS as usize * i as usize;
                for j in 0..4 {
                    rC[place] = rW[4 * r + j].fma(rX[j], rC[place]);
                }
            }
        }
    }
    sum_over_lanes(&mut rC, lane);
    let of_lane = const { (ROWS * M / 32) as u32 };
    let mut sums = sums;
    for i in 0..of_lane {
        sums.set((lane * of_lane + i, along_k, of_rows), rC[i as usize]);
    }
    sync_threads();
    let mut i = along_k * 32 + lane;
    while i < const { (ROWS * M) as u32 } {
        let (column, row) = (first_n + i % ROWS as u32, first_m + i / ROWS as u32);
        let mut sum = 0.0;
        for other in 0..ALONG_K as u32 {
            sum += sums.get((i, other, of_rows));
        }
        store(y, residual, &form, sum, (row, column), row < m && column < n);
        i += 32 * ALONG_K as u32;
    }
}
