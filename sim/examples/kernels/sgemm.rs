//! A matrix product of scalar loads and multiply-adds: C (512x512) = A (512x256) B (256x512), f32,
//! tiles of 128x128x8, 256 threads with 8x8 results each.

use moye_sim::intrinsics::*;

pub const M: u32 = 512;
pub const N: u32 = 512;
pub const K: u32 = 256;
pub const TILE: u32 = 128;
const DEPTH: u32 = 8;
/// The threads of a block.
pub const THREADS: u32 = 256;
/// Bytes of shared memory of a block.
pub const SHARED_BYTES: usize = 2 * 4 * (PITCH * DEPTH) as usize;
/// The distance of two columns of a tile, in elements; odd, as on a GPU to avoid bank conflicts.
const PITCH: u32 = TILE + 1;

/// A block's tile of C, by 256 threads.
pub fn kernel(a: u64, b: u64, c: u64) {
    let (t, block) = (thread_idx().x, block_idx());
    let tile_a = shared_base();
    let tile_b = tile_a + 4 * PITCH * DEPTH;
    let (row, column) = (t % 16, t / 16);
    let mut sums = [[0.0f32; 8]; 8];
    for k0 in (0..K).step_by(DEPTH as usize) {
        for piece in 0..4 {
            let (i, k) = (t % 128, t / 128 + 2 * piece);
            let at = 4 * (k * PITCH + i);
            let column_a = u64::from((k0 + k) * M + block.x * TILE + i);
            let column_b = u64::from((k0 + k) * N + block.y * TILE + i);
            store_shared(tile_a + at, load_global::<f32>(a + 4 * column_a));
            store_shared(tile_b + at, load_global::<f32>(b + 4 * column_b));
        }
        sync_threads();
        for k in 0..DEPTH {
            let at = |i: u32, offset: u32| 4 * (k * PITCH + offset + 16 * i);
            let left: [f32; 8] = std::array::from_fn(|i| load_shared(tile_a + at(i as u32, row)));
            let right: [f32; 8] = std::array::from_fn(|j| load_shared(tile_b + at(j as u32, column)));
            for (sums, left) in sums.iter_mut().zip(left) {
                for (sum, right) in sums.iter_mut().zip(right) {
                    *sum = fma_f32(left, right, *sum);
                }
            }
        }
        sync_threads();
    }
    for (i, sums) in (0..).zip(sums) {
        for (j, sum) in (0..).zip(sums) {
            let (m, n) = (block.x * TILE + row + 16 * i, block.y * TILE + column + 16 * j);
            store_global(c + 4 * u64::from(n * M + m), sum);
        }
    }
}
