//! The mean of rows, and the squares of the deviations from it.
#![allow(non_snake_case, reason = "CuTe's names")]

use moye_device::algorithm::*;
use moye_device::prelude::*;
use moye_device::tensor::{GlobalTensor, OfTile, Strides};

/// With `center` subtracts the mean from a thread's rows of `n` elements. Returns the mean in two
/// parts, rounded and the rest, and the sum of the squares. The blocks of a row exchange once.
///
/// # Safety
/// Same contract as [`RowTeam::reduce`], and counts as four of its calls.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn moments<C: RowShape, P: GlobalPointer, S: Strides, LG: StaticLayout, L: OfTile>(
    team: &mut RowTeam<C>,
    tXrX: &mut Fragment<f32, L>,       // (CPY, CPY_M, CPY_N)
    tXgX: &GlobalTensor<P, S, LG, ()>, // (CPY, CPY_M, CPY_N)
    n: u32,
    center: bool,
) -> ([f32; 2], f32) {
    // Per block: the values of a cluster's blocks are exchanged together.
    let columns = n.saturating_sub(team.tile().1 * C::COLUMNS).min(C::COLUMNS) as f32;
    // SAFETY: all threads of the row call this function.
    unsafe {
        let of_thread =
            |tXrX: &Fragment<f32, L>| tXrX.fold_rows(&tXrX.rows(0.0f32), |sum, x| x.fma(x, sum))[0];
        let (mut of_warp, mut means) = (0.0, [0.0; 2]);
        let squares = if center {
            // The mean has two parts: where it is large, the rounding error of a single f32 would
            // be large beside the deviations. The first part is, for each warp, the mean of one of
            // its threads, a few deviations from the warp's mean, so that sums of distances from it
            // keep their digits. The same holds for the warps' distances from the first warp's
            // mean.
            let count = team.count_inside(tXgX) as f32;
            of_warp = team.first_in_warp(tXrX.reduce_rows(f32::add)[0] / count.max(1.0));
            tXrX.apply(|x| x - of_warp);
            team.fill_outside(tXrX, tXgX, 0.0);
            let [count, sum, squares] =
                team.sum_in_warp([count, tXrX.reduce_rows(f32::add)[0], of_thread(tXrX)]);
            let rest = sum / count.max(1.0);
            let of_warps = team.across_warps([count, of_warp, rest, squares - sum * rest]);
            let [count, first, rest, squares] = of_warps;
            means[0] = team.of_first_warp(first);
            let distance = (first - means[0]) + rest;
            let sum = count * distance;
            let [sum, squares] = team.sum_of_warps([sum, sum.fma(distance, squares)]);
            means[1] = sum / columns.max(1.0);
            let squares = squares - sum * means[1];
            // Rounding may make it negative for equal elements.
            if squares < 0.0 { 0.0 } else { squares }
        } else {
            team.sum_in_block([of_thread(tXrX)])[0]
        };
        // Combined like [`Variance`], but the first part stays the first block's, so that the
        // second keeps the digits of the difference.
        let [_, first, rest, squares] = team.combine_blocks(
            [columns, means[0], means[1], squares],
            |[count, first, rest, squares], b| {
                let (distance, all) = ((b[1] - first) + (b[2] - rest), count + b[0]);
                // A block may have no elements.
                let weight = b[0] * math::fast::rcp(all.max(1.0));
                [
                    all,
                    first,
                    distance.fma(weight, rest),
                    squares + b[3] + distance * distance * count * weight,
                ]
            },
        );
        if center {
            let moved = (of_warp - first) - rest;
            tXrX.apply(|x| x + moved);
            team.fill_outside(tXrX, tXgX, 0.0);
        }
        ([first, rest], squares)
    }
}
