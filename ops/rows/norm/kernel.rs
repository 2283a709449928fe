//! RMSNorm and LayerNorm: each row is read once, into registers, and written once.
#![allow(non_snake_case, reason = "CuTe's names")]

use moye_device::algorithm::*;
use moye_device::prelude::*;

/// `h = x + residual`; `y = (h - mean(h)) / sqrt(variance(h) + eps) * weight + bias` along rows
/// with `center`, else `y = h / sqrt(mean(h^2) + eps) * weight + bias`; a block for each `C::ROWS`
/// rows, or a cluster for each row. Without `residual`, `weight` or `bias` their address is 0. `h`
/// is written to `sum` unless its address is 0.
///
/// # Safety
/// `x`, `y`, `residual` and `sum` hold `m` rows of `n` elements, `ld[x, r, y, s]` apart; `weight`
/// and `bias` hold `n`, `ld[w, b]` apart. Rows, `weight` and `bias` are aligned to `C::ALIGN`
/// bytes, and `n` is at most `C::COLUMNS`, times the blocks of a cluster. What is written is the
/// same as, or disjoint from, each of the others.
#[kernel(
    threads = C::BLOCK,
    shared = (scratch: SharedArray<f32, RowScratch>),
    instances = norm<
        f32 | f16 | bf16,
        Lanes8 | Warp | Block128 | Block256 | Block1024 | AnyWarp | AnyBlock
            | #[cfg(any(not(target_arch = "nvptx64"), target_feature = "sm_90"))] Cluster256
            | #[cfg(any(not(target_arch = "nvptx64"), target_feature = "sm_90"))] Cluster512
            | #[cfg(any(not(target_arch = "nvptx64"), target_feature = "sm_90"))] Cluster1024
            | #[cfg(any(not(target_arch = "nvptx64"), target_feature = "sm_90"))] AnyCluster
    >,
    table = NormKernels
)]
pub unsafe fn norm<T: Element + Convert<f32>, C: RowShape>(
    x: Global<T>,
    weight: Global<T>,
    bias: Global<T>,
    residual: Global<T>,
    y: GlobalMut<T>,
    sum: GlobalMut<T>,
    m: u32,
    n: u32,
    ldx: RowStride,
    ldw: RowStride,
    ldb: RowStride,
    ldr: RowStride,
    ldy: RowStride,
    lds: RowStride,
    eps: f32,
    center: bool,
) where
    f32: Convert<T>,
{
    let mut team = RowTeam::<C>::new(scratch);
    let load = RowCopy::<T, C>::get_slice(thread_idx().x);
    let (gX, gY) = (team.rows(x, (m, n), ldx), team.rows(y, (m, n), ldy)); // (BLK_M, BLK_N)
    let tXgX = load.partition_s(gX); // (CPY, CPY_M, CPY_N)
    let mut tXrX = team.load(&tXgX); // (CPY, CPY_M, CPY_N)
    if residual.address() != 0 {
        let gR = team.rows(residual, (m, n), ldr); // (BLK_M, BLK_N)
        team.apply_loaded(&mut tXrX, &load.partition_s(gR), f32::add);
    }
    if sum.address() != 0 {
        let gS = team.rows(sum, (m, n), lds); // (BLK_M, BLK_N)
        team.store(&tXrX, &load.partition_d(gS));
    }
    // For the block alone: the values of a cluster's blocks are exchanged at once.
    let columns = n.saturating_sub(team.tile().1 * C::COLUMNS).min(C::COLUMNS) as f32;
    let mut means = [0.0; 2];
    if center {
        // The second mean is the rounding error of the first, which is large beside the deviations
        // where the mean is.
        for mean in &mut means {
            *mean = team.reduce_in_block(tXrX.reduce_rows(f32::add), f32::add)[0] / columns.max(1.0);
            tXrX.apply(|x| x - *mean);
            team.fill_outside(&mut tXrX, &tXgX, 0.0);
        }
    }
    let squares = tXrX.fold_rows(&tXrX.rows(0.0f32), |sum, x| x.fma(x, sum)); // (CPY_M)
    let squares = team.reduce_in_block(squares, f32::add)[0];
    // As [`Variance`] combines them; the first mean stays that of the first block, so that the
    // second keeps the digits of the difference.
    let [_, first, rest, squares] =
        team.combine_blocks([columns, means[0], means[1], squares], |[count, first, rest, squares], b| {
            let (distance, all) = ((b[1] - first) + (b[2] - rest), count + b[0]);
            let weight = b[0] * math::fast::rcp(all);
            [all, first, distance.fma(weight, rest), squares + b[3] + distance * distance * count * weight]
        });
    if C::Blocks::CLUSTER {
        let moved = (means[0] - first) + (means[1] - rest);
        tXrX.apply(|x| x + moved);
    }
    let scale = math::fast::rsqrt(squares / n as f32 + eps);
    tXrX.apply(|x| x * scale);
    if weight.address() != 0 {
        let gW = team.rows(weight, (m, n), ldw); // (BLK_M, BLK_N), of equal rows
        team.apply_loaded(&mut tXrX, &load.partition_s(gW), |x, w| x * w);
    }
    if bias.address() != 0 {
        let gB = team.rows(bias, (m, n), ldb); // (BLK_M, BLK_N), of equal rows
        team.apply_loaded(&mut tXrX, &load.partition_s(gB), f32::add);
    }
    team.store(&tXrX, &load.partition_d(gY));
}
