//! Softmax and log-softmax: each row is read once, into registers, and written once.
#![allow(non_snake_case, reason = "CuTe's names")]

use crate::thread;
use core::f32::consts::{LN_2, LOG2_E};
use moye_device::algorithm::*;
use moye_device::arch::overlap_launches;
use moye_device::prelude::*;

/// `y = softmax(scale x + bias)`, or its logarithm, along rows; a block for each `C::ROWS` rows, or
/// a cluster for each row; shapes that are `AHEAD` step over the rows. Elements where `mask` is 0,
/// and those of row `i` from `i % period + diagonal + 1` on (unless `diagonal` is `i32::MAX`),
/// count as minus infinity. `mask` and `bias` are matrices of `period` rows that repeat, or their
/// address is 0.
///
/// # Safety
/// `x` and `y`, the same or disjoint, hold `m` rows of `n` elements, `ldx` and `ldy` apart, `mask`
/// and `bias` `period` rows; `y` is disjoint from these. Rows are aligned to `C::ALIGN` bytes,
/// those of the mask to the same number of elements; `n` is at most `C::COLUMNS`, times the blocks
/// of a cluster.
#[kernel(
    threads = C::BLOCK,
    // 64 registers a thread; rows that start anywhere may have more.
    min_blocks = if C::ALIGN > 1 { 1024 / C::BLOCK } else { 1 },
    shared = (scratch: SharedArray<f32, RowScratch>, stage: RowStage<T, C>),
    instances = softmax<
        f32 | f16 | bf16,
        Lanes4 | Lanes8 | Warp | Block128 | Block256 | Block1024 | AnyWarp | AnyBlock
            | Chunked | AnyChunked
            | #[cfg(any(not(target_arch = "nvptx64"), target_feature = "sm_90"))] Cluster512
            | #[cfg(any(not(target_arch = "nvptx64"), target_feature = "sm_90"))] Cluster1024
            | #[cfg(any(not(target_arch = "nvptx64"), target_feature = "sm_90"))] AnyCluster
    >,
    table = SoftmaxKernels
)]
pub unsafe fn softmax<T: Element + Convert<f32>, C: RowShape>(
    x: Global<T>,
    mask: Global<u8>,
    bias: Global<T>,
    y: GlobalMut<T>,
    m: u32,
    n: u32,
    period: u32,
    ldx: RowStride,
    ldm: RowStride,
    ldb: RowStride,
    ldy: RowStride,
    diagonal: i32,
    scale: f32,
    log: bool,
) where
    f32: Convert<T>,
{
    overlap_launches();
    let mut team = RowTeam::<C>::new(scratch);
    let load = RowCopy::<T, C>::get_slice(thread_idx().x);
    stage.start(&load.partition_s(team.rows(x, (m, n), ldx)));
    loop {
        let load = RowCopy::<T, C>::get_slice(thread::<C>());
        let (gX, gY) = (team.rows(x, (m, n), ldx), team.rows(y, (m, n), ldy)); // (BLK_M, BLK_N)
        let tXgX = load.partition_s(gX); // (CPY, CPY_M, CPY_N)
        let mut tXrX = stage.take(&team, &tXgX); // (CPY, CPY_M, CPY_N)
        stage.start(&load.partition_s(team.rows_at(x, (m, n), ldx, team.next_tile())));

        let (mut scale, is_causal) = (scale, diagonal != i32::MAX);
        if is_causal || mask.address() != 0 || bias.address() != 0 {
            tXrX.apply(|x| x * scale);
            scale = 1.0;
            if bias.address() != 0 {
                let gB = team.rows_repeated(bias, (m, n), ldb, period); // (BLK_M, BLK_N)
                team.apply_loaded(&mut tXrX, &load.partition_s(gB), f32::add);
            }
            if mask.address() != 0 {
                let load = RowCopyWith::<u8, T, C>::get_slice(thread::<C>());
                let gM = team.rows_repeated(mask, (m, n), ldm, period); // (BLK_M, BLK_N)
                let hide = |x: f32, m: f32| if m == 0.0 { f32::NEG_INFINITY } else { x };
                team.apply_loaded(&mut tXrX, &load.partition_s(gM), hide);
            }
            if is_causal {
                let last = i64::from(team.row() % period) + i64::from(diagonal);
                let tXcX = load.partition_s(team.coordinates::<T>()); // (CPY, CPY_M, CPY_N)
                let last = last.clamp(-1, n.into()) as i32;
                let hide =
                    |x, (_, column): (u32, u32)| if column as i32 > last { f32::NEG_INFINITY } else { x };
                tXrX.apply_at(&tXcX, hide);
            }
        }
        // Subtract the maximum before scaling, which would magnify its rounding error or overflow.
        // For a negative scale that is the least element.
        let sign = if scale < 0.0 { -1.0 } else { 1.0 };
        tXrX.apply(|x| x * sign);
        team.fill_outside(&mut tXrX, &tXgX, f32::NEG_INFINITY);
        // Per block: maximum and sum of a cluster's blocks are exchanged together.
        let max = team.reduce_in_block(tXrX.reduce_rows(f32::max), f32::max)[0];
        // The block has no elements, or all are minus infinity.
        let base = if max == f32::NEG_INFINITY { 0.0 } else { max };
        let factor = scale * sign * LOG2_E;
        tXrX.apply(|x| (x - base) * factor);
        let relative = |max: f32, all: f32| match max {
            f32::NEG_INFINITY => 0.0,
            _ => math::fast::exp2((max - all) * factor),
        };
        let merged = |[a, of_a]: [f32; 2], [b, of_b]: [f32; 2]| {
            let max = a.max(b);
            [max, of_a * relative(a, max) + of_b * relative(b, max)]
        };
        if scale == 0.0 {
            // Out-of-bounds elements became NaN.
            team.fill_outside(&mut tXrX, &tXgX, f32::NEG_INFINITY);
        }
        if log {
            let sum = tXrX.fold_rows(&tXrX.rows(0.0), |sum, x| sum + math::fast::exp2(x));
            let sum = team.reduce_in_block(sum, f32::add)[0];
            let [all, sum] = team.combine_blocks([max, sum], merged);
            let below = (base - all) * factor - math::fast::log2(sum);
            tXrX.apply(|x| (x + below) * LN_2);
        } else {
            tXrX.apply(math::fast::exp2);
            let sum = team.reduce_in_block(tXrX.reduce_rows(f32::add), f32::add)[0];
            let [all, sum] = team.combine_blocks([max, sum], merged);
            let inverse = relative(max, all) * math::fast::rcp(sum);
            tXrX.apply(|x| x * inverse);
        }
        team.store(&tXrX, &load.partition_d(gY));
        if !team.step(m) {
            return;
        }
    }
}
