//! The gradient of softmax and log-softmax: both rows are read once, into registers.
#![allow(non_snake_case, reason = "CuTe's names")]

use crate::thread;
use core::f32::consts::LOG2_E;
use moye_device::algorithm::*;
use moye_device::arch::overlap_launches;
use moye_device::prelude::*;

/// `dx = scale y (dy - sum(y dy))` along rows, or with `log`, where `y` is the logarithm,
/// `dx = scale (dy - exp(y) sum(dy))`; a block for each `C::ROWS` rows, or a cluster for each row.
///
/// # Safety
/// `y`, `dy` and `dx` hold `m` rows of `n` elements, `ldy`, `ldg` and `ldx` apart, aligned to
/// `C::ALIGN` bytes; `n` is at most `C::COLUMNS`, times the blocks of a cluster. `dx` is the same
/// as, or disjoint from, each of the others.
#[kernel(
    threads = C::BLOCK,
    shared = (scratch: SharedArray<f32, RowScratch>, of_y: RowStage<T, C, 2>, of_dy: RowStage<T, C, 2>),
    instances = softmax_backward<
        f32 | f16 | bf16,
        Lanes8 | Warp | Block256 | Block512 | AnyWarp | AnyBlock512
            | Chunked | AnyChunked
            | #[cfg(any(not(target_arch = "nvptx64"), target_feature = "sm_90"))] Cluster512
            | #[cfg(any(not(target_arch = "nvptx64"), target_feature = "sm_90"))] AnyCluster
    >,
    table = SoftmaxBackwardKernels
)]
pub unsafe fn softmax_backward<T: Element + Convert<f32>, C: RowShape>(
    y: Global<T>,
    dy: Global<T>,
    dx: GlobalMut<T>,
    m: u32,
    n: u32,
    ldy: RowStride,
    ldg: RowStride,
    ldx: RowStride,
    scale: f32,
    log: bool,
) where
    f32: Convert<T>,
{
    overlap_launches();
    let mut team = RowTeam::<C>::new(scratch);
    let load = RowCopy::<T, C>::get_slice(thread_idx().x);
    let next = |team: &RowTeam<C>, tile| {
        of_y.start(&load.partition_s(team.rows_at(y, (m, n), ldy, tile)));
        of_dy.start(&load.partition_s(team.rows_at(dy, (m, n), ldg, tile)));
    };
    next(&team, team.tile());
    loop {
        let load = RowCopy::<T, C>::get_slice(thread::<C>());
        let (gY, gG) = (team.rows(y, (m, n), ldy), team.rows(dy, (m, n), ldg)); // (BLK_M, BLK_N)
        let mut tXrY = of_y.take(&team, &load.partition_s(gY)); // (CPY, CPY_M, CPY_N)
        let tXrG = of_dy.take(&team, &load.partition_s(gG)); // (CPY, CPY_M, CPY_N)
        next(&team, team.next_tile());
        // Out of bounds dy is 0, and adds nothing to the sums.
        if log {
            let sum = team.reduce(tXrG.reduce_rows(f32::add), f32::add); // (CPY_M)
            tXrY.apply(|y| math::fast::exp2(y * LOG2_E));
            tXrY.apply_rows(&sum, |y, sum| y * sum);
            tXrY.apply_with(&tXrG, |y, g| (g - y) * scale);
        } else {
            let sum = team.reduce(tXrY.zip(&tXrG, f32::mul).reduce_rows(f32::add), f32::add); // (CPY_M)
            let mut tXrX = tXrG.clone(); // (CPY, CPY_M, CPY_N)
            tXrX.apply_rows(&sum, |g, sum| g - sum);
            tXrY.apply_with(&tXrX, |y, g| y * g * scale);
        }
        let gX = team.rows(dx, (m, n), ldx); // (BLK_M, BLK_N)
        team.store(&tXrY, &load.partition_d(gX));
        if !team.step(m) {
            return;
        }
    }
}
