//! One tile of attention, all of it in registers: `O = softmax(scale Q K^T) V`, of 64 rows and
//! columns each.

use core::ops::Add;
use half::{bf16, f16};
use moye_device::algorithm::{CopyAs, copy};
use moye_device::arch::{Convert, Fma, ex2_approx_f32, thread_idx};
use moye_device::atom::mma::{SM80_16x8x16_F32BF16BF16F32_TN, SM80_16x8x16_F32F16F16F32_TN};
use moye_device::atom::{StaticTiledMma, TiledMma};
use moye_device::memory::{Element, Global, GlobalMut};
use moye_device::tensor::{Matrix, UnitStride};
use moye_device::{kernel, layout, static_layout, tiled_mma};

static_layout! {
    pub Tile = layout!((64, 64));
}
tiled_mma! {
    pub MmaF16: TiledMma<SM80_16x8x16_F32F16F16F32_TN> = TiledMma::new(layout!((4, 1, 1)));
    pub MmaBf16: TiledMma<SM80_16x8x16_F32BF16BF16F32_TN> = TiledMma::new(layout!((4, 1, 1)));
}

/// # Safety
/// The four hold 64 rows of 64 numbers each, one after the other, and `o` overlaps none of the
/// others.
#[inline(always)]
unsafe fn scores<T: Element, M: StaticTiledMma<Atom: moye_device::algorithm::AddsInPlace<C = f32>>>(
    (q, k, v, o): (Global<T>, Global<T>, Global<T>, GlobalMut<T>),
    scale: f32,
    causal: bool,
) where
    f32: Convert<T> + CopyAs<T>,
{
    let mma = M::slice(thread_idx().x);
    let gQ = Matrix::new(q, (64, 64), UnitStride::<1>(64)).local_tile::<Tile, _>((0, 0)); // (BLK_M, D)
    let gK = Matrix::new(k, (64, 64), UnitStride::<1>(64)).local_tile::<Tile, _>((0, 0)); // (BLK_N, D)
    let gV = Matrix::new(v, (64, 64), UnitStride::<0>(64)).local_tile::<Tile, _>((0, 0)); // (D, BLK_N)
    let gO = Matrix::new(o, (64, 64), UnitStride::<1>(64)).local_tile::<Tile, _>((0, 0)); // (BLK_M, D)
    let (tCgQ, tCgK, tCgV) = (mma.partition_a(gQ), mma.partition_b(gK), mma.partition_b(gV));
    let (mut tCrQ, mut tCrK, mut tCrV) =
        (mma.fragment_a(&tCgQ), mma.fragment_b(&tCgK), mma.fragment_b(&tCgV));
    copy(tCgQ, &mut tCrQ);
    copy(tCgK, &mut tCrK);
    copy(tCgV, &mut tCrV);

    let mut tCrS = mma.accumulator::<Tile>(); // (MMA, MMA_M, MMA_N)
    mma.gemm(&mut tCrS, &tCrQ, &tCrK);
    if causal {
        let at = mma.coordinates(&tCrS, (0, 0));
        tCrS.apply_at(&at, |x, (row, column)| if column > row { f32::NEG_INFINITY } else { x });
    }
    let max = tCrS.by_row().reduce::<1>(f32::max).across_lanes(f32::max);
    tCrS.by_row_mut().apply_along::<0, _, _>(&max, |x, max| ex2_approx_f32(x.fma(scale, -max * scale)));
    let sum = tCrS.by_row().reduce::<1>(f32::add).across_lanes(f32::add);
    let mut tCrO = mma.accumulator::<Tile>(); // (MMA, MMA_M, MMA_N)
    mma.gemm(&mut tCrO, mma.as_a(&tCrS).convert::<T>(), &tCrV);
    tCrO.by_row_mut().apply_along::<0, _, _>(&sum, |x, sum| x / sum);
    copy(&tCrO, mma.partition_c(gO));
}

/// # Safety
/// As [`scores`].
#[kernel(threads = MmaF16::THREADS)]
pub unsafe fn scores_f16(q: Global<f16>, k: Global<f16>, v: Global<f16>, o: GlobalMut<f16>, scale: f32) {
    scores::<f16, MmaF16>((q, k, v, o), scale, false)
}

/// # Safety
/// As [`scores`].
#[kernel(threads = MmaBf16::THREADS)]
pub unsafe fn scores_bf16_causal(
    q: Global<bf16>,
    k: Global<bf16>,
    v: Global<bf16>,
    o: GlobalMut<bf16>,
    scale: f32,
) {
    scores::<bf16, MmaBf16>((q, k, v, o), scale, true)
}
