//! A warpgroup's sums as boxes of C in shared memory, which TMA stores, or warps write by words.
//!
//! Threads hold the sums of a 64 x N tile as `wgmma` leaves them: thread `t` of warp `w` has, for each eight columns `8 j`, the
//! pairs at row `16 w + t / 4` and at eight rows below, columns `8 j + 2 (t % 4)` and the next. A box is 64 rows of 128 bytes,
//! whose pieces of 16 bytes are exchanged by the row's number modulo 8.

use super::config::{BOX_C, BOXES_C, ROW, WARPGROUP, WgmmaConfig};
use super::words::{Corner, write_words};
use crate::arch::wgmma::Accumulators;
use crate::arch::{
    self, FULL_WARP, Fma as _, Word as _, bulk_commit_group, bulk_wait_group_read, fence_proxy_async_shared,
    stmatrix_x4, sync_barrier, sync_warp, tensor_store,
};
use crate::kernels::mma::Convertible;
use crate::memory::TensorMapPointer;
use half::{bf16, f16};

/// An element of C that pairs of results become: 2 or 4 bytes.
pub trait Staging<S>: Convertible<S> {
    /// The bits of two neighbours, the first in the lowest.
    fn pair(first: S, second: S) -> u64;
}

macro_rules! halves {
    ($($t:ty, $pack:ident);*) => { $(
        impl Staging<f32> for $t {
            #[inline(always)]
            fn pair(first: f32, second: f32) -> u64 {
                arch::$pack(first, second).to_bits().into()
            }
        }
    )* };
}
halves!(f16, f32x2_to_f16x2; bf16, f32x2_to_bf16x2);

impl Staging<Self> for f32 {
    #[inline(always)]
    fn pair(first: Self, second: Self) -> u64 {
        u64::from(first.to_bits()) | u64::from(second.to_bits()) << 32
    }
}

impl Staging<Self> for i32 {
    #[inline(always)]
    fn pair(first: Self, second: Self) -> u64 {
        u64::from(first as u32) | u64::from(second as u32) << 32
    }
}

/// Where a warpgroup's part of a tile goes.
#[derive(Clone, Copy)]
pub struct Destination {
    /// Whether by TMA.
    pub mapped: bool,
    /// Where so, the tensor map of C: columns, rows, batches and parts.
    pub map: TensorMapPointer,
    /// The first column and row of the part, and which batch or part of K.
    pub start: [i32; 3],
    /// Where not, its place in memory.
    pub corner: Corner,
    /// The boxes in shared memory, and the barrier of the warpgroup.
    pub boxes: u32,
    /// See `boxes`.
    pub barrier: u32,
    /// The thread within the warpgroup.
    pub thread: u32,
}

/// Stores `alpha` times the sums as elements `O`. By TMA that may go on when the function returns: whoever writes to the boxes next
/// waits for the group, by [`bulk_wait_group_read`] in the first thread.
///
/// # Safety
/// All threads of the warpgroup come together; the boxes are theirs; C may be written, as [`tensor_store`] says where it is mapped.
#[inline(always)]
pub unsafe fn store<G: WgmmaConfig, O: Staging<G::Scalar>>(
    sums: &<G::Atom as crate::atom::wgmma::WgmmaAtom>::Accumulators,
    alpha: G::Scalar,
    to: &Destination,
) {
    let sums = sums.as_slice();
    // Columns of a box, and boxes of the tile.
    let columns = const { ROW / O::BYTES as u32 };
    let boxes = const { G::BLK_N * O::BYTES as u32 / ROW };
    let pair = |at: usize| {
        let scaled = |sum: G::Sum| alpha.fma(sum.widen(), G::Scalar::ZERO);
        O::pair(scaled(sums[at]), scaled(sums[at + 1]))
    };
    let (thread, lane) = (to.thread, to.thread % 32);
    let mut first = 0;
    while first < boxes {
        let count = if boxes - first < BOXES_C { boxes - first } else { BOXES_C };
        // SAFETY: the caller's contract: the boxes are free once the stores before have read them, which the first thread
        // waits for.
        unsafe {
            if to.mapped {
                if thread == 0 {
                    bulk_wait_group_read::<0>();
                }
                sync_barrier(to.barrier, WARPGROUP);
            } else {
                // Each warp reads the rows that it writes, and no others.
                sync_warp(FULL_WARP);
            }
            let mut b = 0;
            while b < count {
                let base = to.boxes + b * BOX_C;
                // Registers of a box: four for every eight columns.
                let from = ((first + b) * columns / 2) as usize;
                if const { O::BYTES == 2 } {
                    // Lane `l` of a warp names row `l % 16` of the first or the second eight columns.
                    let row = thread / 32 * 16 + lane % 16;
                    let mut j = 0;
                    while j < 4 {
                        let at = from + 8 * j;
                        let piece = 2 * j as u32 + lane / 16;
                        let address = base + row * ROW + ((piece ^ (row % 8)) << 4);
                        let pairs =
                            [pair(at), pair(at + 2), pair(at + 4), pair(at + 6)].map(|bits| bits as u32);
                        stmatrix_x4(address, pairs);
                        j += 1;
                    }
                } else {
                    let row = thread / 32 * 16 + lane / 4;
                    let mut j = 0;
                    while j < 4 {
                        let at = from + 4 * j;
                        let piece = 2 * j as u32 + lane % 4 / 2;
                        // Eight rows below, the same pieces are exchanged.
                        let address = base + row * ROW + ((piece ^ (row % 8)) << 4) + lane % 2 * 8;
                        u64::store_shared(address, pair(at));
                        u64::store_shared(address + 8 * ROW, pair(at + 2));
                        j += 1;
                    }
                }
                b += 1;
            }
            if to.mapped {
                fence_proxy_async_shared();
                sync_barrier(to.barrier, WARPGROUP);
                if thread == 0 {
                    let mut b = 0;
                    while b < count {
                        let [column, row, part] = to.start;
                        let start = [column + ((first + b) * columns) as i32, row, part];
                        tensor_store(to.map, start, to.boxes + b * BOX_C, None);
                        b += 1;
                    }
                    bulk_commit_group();
                }
            } else {
                sync_warp(FULL_WARP);
                write_words::<O>((to.boxes, count), first * columns, &to.corner, (thread / 32, lane));
            }
        }
        first += count;
    }
}
