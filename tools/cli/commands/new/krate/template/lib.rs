//! The kernels, compiled for the host, where the simulator runs them, and with the feature `gpu` to
//! PTX.
#![no_std]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx, asm_experimental_arch))]
#![allow(non_snake_case, reason = "CuTe's names")]

use moye_device::prelude::*;

/// Rows of a block: one for each warp.
pub const BLK_M: u32 = 4;
/// Threads of a block.
pub const THREADS: u32 = Rows::THREADS;

static_layout! {
    pub Tile = layout!((4, 128)); // (BLK_M, BLK_N)
}
tiled_copy! {
    // 4 x 32 threads, each with 1 x 4 elements: 16 bytes.
    pub Rows: TiledCopy<AutoVectorizingCopy, f32> =
        TiledCopy::new(layout!((4, 32):(32, 1)), layout!((1, 4)));
}

/// The sum of each row: `y[i] = x[i][0] + x[i][1] + ...`.
///
/// Its grid has `ceil(m / BLK_M)` blocks of `THREADS` threads.
///
/// # Safety
/// `x` has `m` rows of `n` elements with stride `ld`, which start at multiples of 16 bytes. `y` has
/// `m` elements.
#[kernel(threads = THREADS)]
pub unsafe fn row_sum(x: Global<f32>, y: GlobalMut<f32>, m: u32, n: u32, ld: i64) {
    let (block, thread) = (block_idx().x, thread_idx().x);
    let gX = tensor!(x, (m, n), (ld, 1), align = 16); // (M, N)
    let gX = tile!(gX, Tile, (block, _)); // (BLK_M, BLK_N, n)
    let tXgX = Rows::get_slice(thread).partition_s(gX); // (CPY, CPY_M, CPY_N, n)

    // Each thread sums its elements of the row; out of bounds they are 0.
    let mut sum = tXgX.at((.., .., .., 0)).load_as(0.0f32).reduce_rows(f32::add); // (CPY_M)
    for tile in 1..gX.tiles() {
        sum = tXgX.at((.., .., .., tile)).load_as(0.0f32).fold_rows(&sum, f32::add);
    }
    // Then reduce over the lanes of the row's warp.
    let sum = sum.across_lanes(f32::add);

    let row = block * BLK_M + thread / 32;
    if lane_id() == 0 && row < m {
        y.write(row, sum[0]);
    }
}
