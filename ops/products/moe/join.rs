//! The function of both projections, and the store of its results.
#![allow(non_snake_case, reason = "CuTe's names")]

use moye_device::atom::mma::{accumulator_column, accumulator_row};
use moye_device::collective::*;
use moye_device::math::fast::silu_of_two;
use moye_device::prelude::*;

/// A function of an element of the gate's product and one of the up projection's.
pub trait Join: Copy + 'static {
    /// The results of two adjacent elements.
    fn join(gate: [f32; 2], up: [f32; 2]) -> [f32; 2];
}

/// `silu(gate) * up`.
#[derive(Clone, Copy, Debug)]
pub struct SwiGlu;

impl Join for SwiGlu {
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn join(gate: [f32; 2], up: [f32; 2]) -> [f32; 2] {
        let gate = silu_of_two(gate);
        [gate[0] * up[0], gate[1] * up[1]]
    }
}

/// A warp's part of a result: 16 rows of `blocks` times eight columns.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// The first row and column.
    pub first: (u32, u32),
    /// The end of the rows.
    pub rows: u32,
    /// Blocks of eight columns, a multiple of 4.
    pub blocks: u32,
}

/// Stores a warp's part of `target`: in vectors of 16 bytes if it is aligned, otherwise by
/// elements. `values(block, below)` returns two adjacent results of the lane in a block: in row
/// `lane / 4`, or with `below` = 1 eight rows below.
///
/// # Safety
/// All lanes of the warp call it together. The target is writable, and only this warp writes the
/// part.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
#[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
pub unsafe fn store<T: Paired>(
    target: &Target<T>,
    Part { first: (row, column), rows, blocks }: Part,
    values: impl Fn(u32, u32) -> [f32; 2],
) where
    f32: Convert<T>,
{
    let Target { c, row: of_row, column: of_column, columns, aligned, .. } = *target;
    if row >= rows || column >= columns {
        return;
    }
    let (lane, left) = (lane_id(), (rows - row, columns - column));
    // SAFETY: elements out of bounds are not written.
    unsafe {
        if aligned > 0 {
            let corner = Corner {
                address: c.offset(i64::from(row) * of_row + i64::from(column)).address(),
                row: of_row * T::BYTES as i64,
                left,
            };
            let pair = |block: u32, below: u32| {
                let [first, second] = values(block, below);
                T::pair(first, second)
            };
            return store_vectors::<T>(pair, blocks, &corner, 0, lane);
        }
        for block in 0..blocks {
            for below in 0..2 {
                let results = values(block, below);
                let row = row + accumulator_row(lane) + 8 * below;
                for second in 0..2 {
                    let column = column + 8 * block + accumulator_column(lane) + second;
                    let to = c.offset(i64::from(row) * of_row + i64::from(column) * of_column);
                    to.write_if(row < rows && column < columns, results[second as usize].convert());
                }
            }
        }
    }
}
