//! C through shared memory: what steps 5 and 6 do with their sums.

use crate::tile::rows_of_128_bytes;
use moye_device::arch::{
    bulk_commit_group, bulk_wait_group_read, f32x2_to_bf16x2, fence_proxy_async_shared, stmatrix_x4,
    sync_barrier, thread_idx,
};
use moye_device::atom::tma::TmaTile;
use moye_device::layout::ComposedLayout;
use moye_device::memory::TensorMapPointer;

const SMEM_C: ComposedLayout = rows_of_128_bytes(64);
/// A box of C: 64 x 64. Each multiplying warpgroup has two.
pub const STORE_C: TmaTile = TmaTile::new(SMEM_C, 16);

/// Stores a warpgroup's 64 x 256 sums to C, from this row and column on, through two boxes at `s_c` in turn. The last stores go
/// on when it returns.
///
/// # Safety
/// All threads of a warpgroup, whose boxes these are, in a block of three; the map is by [`STORE_C`].
#[inline(always)]
pub unsafe fn store_boxes(sums: &[f32; 128], c: TensorMapPointer, s_c: u32, (row, column): (u32, u32)) {
    let (thread, barrier) = (thread_idx().x % 128, 1 + thread_idx().x / 128);
    // Lane `l` of a warp names row `l % 16` of the first or the second eight columns.
    let (in_row, in_column) = (thread / 32 * 16 + thread % 16, thread % 32 / 16 * 8);
    let pair = |at: usize| f32x2_to_bf16x2(sums[at], sums[at + 1]).to_bits();
    for b in 0..4 {
        let to = s_c + b % 2 * STORE_C.bytes();
        // SAFETY: the caller's contract; a box is written again when the store before the last has read it.
        unsafe {
            if thread == 0 {
                bulk_wait_group_read::<1>();
            }
            sync_barrier(barrier, 128);
            for j in 0..4 {
                let offset = SMEM_C.swizzle.apply((in_row * 64 + 16 * j + in_column) as i64) as u32;
                let at = (32 * b + 8 * j) as usize;
                stmatrix_x4(to + 2 * offset, [pair(at), pair(at + 2), pair(at + 4), pair(at + 6)]);
            }
            fence_proxy_async_shared();
            sync_barrier(barrier, 128);
            if thread == 0 {
                STORE_C.store(c, [row as i32, (column + 64 * b) as i32], to, None);
                bulk_commit_group();
            }
        }
    }
}
