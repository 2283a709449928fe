//! C from registers: what steps 1 to 4 do with their sums.

use half::bf16;
use moye_device::arch::{f32x2_to_bf16x2, thread_idx};
use moye_device::memory::GlobalMut;

/// Writes a warpgroup's sums to C, from this row and column on. Of each eight columns, thread `t` of warp `w` has two neighbours
/// of row `16 w + t / 4` and two of the row eight below: words of 32 bits.
///
/// # Safety
/// All threads of a warpgroup; C has these rows of `n` elements.
#[inline(always)]
pub unsafe fn store_rows<const N: usize>(
    sums: &[f32; N],
    c: GlobalMut<bf16>,
    n: u32,
    (row, column): (u32, u32),
) {
    let (warp, lane) = (thread_idx().x / 32 % 4, thread_idx().x % 32);
    let (row, column) = (row + 16 * warp + lane / 4, column + 2 * (lane % 4));
    let words = c.cast::<u32>().offset((i64::from(row) * i64::from(n) + i64::from(column)) / 2);
    let eight_below = words.offset(4 * i64::from(n));
    for i in (0..N).step_by(4) {
        // SAFETY: the caller's contract; each pair is one thread's.
        unsafe {
            words.write(i as i64, f32x2_to_bf16x2(sums[i], sums[i + 1]).to_bits());
            eight_below.write(i as i64, f32x2_to_bf16x2(sums[i + 2], sums[i + 3]).to_bits());
        }
    }
}
