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
    // For the block alone: the values of a cluster's blocks are exchanged at once.
    let columns = n.saturating_sub(team.tile().1 * C::COLUMNS).min(C::COLUMNS) as f32;
    let mut means = [0.0; 2];
    // SAFETY: the caller's contract: all threads of the row are here.
    unsafe {
        if center {
            // The second mean is the rounding error of the first, which is large beside the
            // deviations where the mean is.
            for mean in &mut means {
                *mean = team.reduce_in_block(tXrX.reduce_rows(f32::add), f32::add)[0] / columns.max(1.0);
                tXrX.apply(|x| x - *mean);
                team.fill_outside(tXrX, tXgX, 0.0);
            }
        }
        let squares = tXrX.fold_rows(&tXrX.rows(0.0f32), |sum, x| x.fma(x, sum)); // (CPY_M)
        let squares = team.reduce_in_block(squares, f32::add)[0];
        // As [`Variance`] combines them; the first mean stays that of the first block, so that the
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
        if C::Blocks::DIVIDES && center {
            let moved = (means[0] - first) + (means[1] - rest);
            tXrX.apply(|x| x + moved);
            team.fill_outside(tXrX, tXgX, 0.0);
        }
        ([first, rest], squares)
    }
}
