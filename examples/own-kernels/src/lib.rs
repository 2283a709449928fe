//! The kernels. This file is compiled for the host, where a kernel is a typed value that tests run on the simulator and programs launch,
//! and with the feature `gpu` to PTX, once for each architecture that `build.rs` names.
#![no_std]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx, asm_experimental_arch))]

use moye_device::arch::{block_idx, thread_idx};
use moye_device::memory::{Global, GlobalMut};
use moye_device::tensor::{Dense, Matrix};
use moye_device::{kernel, layout, static_layout};

/// The threads of a block.
pub const BLOCK: u32 = 256;
/// The rows and columns of a block's tile.
pub const TILE: (usize, usize) = (32, 32);

static_layout! {
    /// A block's tile, (BLK_M, BLK_N).
    pub Tile = layout!((32, 32));
    /// How its threads share it, (THR_M, THR_N): each has 1 x 4 elements.
    pub Threads = layout!((32, 8));
}

/// `y = alpha * x + y` for column-major matrices of `m x n` numbers, a block of [`BLOCK`] threads per [`Tile`]
/// (grid `(ceil(m / 32), ceil(n / 32))`).
///
/// # Safety
/// `x` and `y` point to `m * n` numbers each and do not overlap.
#[kernel(threads = BLOCK, min_blocks = 4)]
pub unsafe fn axpy(alpha: f32, x: Global<f32>, y: GlobalMut<f32>, m: u32, n: u32) {
    let (block, thread) = (block_idx(), thread_idx().x);
    let strides = Dense([1, i64::from(m)]);
    let m_x = Matrix::new(x, (m, n), strides); // (M, N)
    let m_y = Matrix::new(y, (m, n), strides); // (M, N)
    let t_x = m_x.local_tile::<Tile, _>((block.x, block.y)).local_partition::<Threads>(thread); // (THR_M, THR_N)
    let mut t_y = m_y.local_tile::<Tile, _>((block.x, block.y)).local_partition::<Threads>(thread); // (THR_M, THR_N)

    for i in 0..4 {
        // SAFETY: a tile that hangs over the edge reads zeros there and writes nothing; no two threads share elements.
        unsafe { t_y.set(i, alpha * t_x.get(i) + t_y.get(i)) };
    }
}
