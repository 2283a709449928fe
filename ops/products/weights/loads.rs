//! The loads of `y = x W^T` of quantised weights for few rows of x: asynchronous copies to rings of
//! stages in shared memory.

use super::codes::{Code, Rows, Weights};
use super::kernel::{RingCodes, RingFactors, RingGains, RingX, STEP_BYTES, columns};
use moye_device::arch::{CpAsyncSize, cp_async};
use moye_device::prelude::*;

/// A lane, and the addresses from which it loads codes and factors, and each of its rows of x, for
/// step 0.
#[derive(Clone, Copy)]
pub(super) struct Sources {
    pub warp: u32,
    pub lane: u32,
    pub codes: u64,
    pub factors: u64,
    /// Bytes from the codes and the factors of the first tile of W to those of the second; 0 if the
    /// block has one tile, which is then loaded twice and stored once.
    pub next: [u64; 2],
    pub x: [u64; 2],
    /// Remaining elements of the lane's rows of x from its first one on: 0 for a row out of bounds.
    pub left: [u32; 2],
}

/// A step of a warp, and the stage into which it is loaded.
#[derive(Clone, Copy)]
pub(super) struct Load {
    pub step: u32,
    pub stage: u32,
}

/// The rows of x to load, and the norm's weights.
pub(super) struct Activations {
    pub rows: Rows,
    /// The address of the norm's weights.
    pub norm: u64,
    pub k: u32,
}

/// The stages of x and of the norm's weights.
pub(super) struct StagesOfX<T: Half, Q: Code, const M: i64, const NORM: bool> {
    pub vectors: SharedTensor<T, RingX<Q, M>>,
    pub gains: SharedTensor<T, RingGains<Q, M, NORM>>,
}

/// Issues the loads of codes and factors of a step of a warp into a stage.
///
/// # Safety
/// Same contract as [`linear`](super::kernel::linear); the warp has read the stage's previous data.
#[inline(always)]
pub(super) unsafe fn issue_weights<const M: i64, const TILES: i64, const MINIMA: bool>(
    weights: &Weights,
    codes: SharedTensor<[u32; 4], RingCodes<M, TILES>>,
    factors: SharedTensor<u32, RingFactors<M, TILES>>,
    from: &Sources,
    Load { step, stage }: Load,
) {
    let (row, quad) = (from.lane / 4, from.lane % 4);
    // The factors of a group are a word of 4 or 8 bytes for each of 8 rows.
    let group = u64::from(weights.group(step, quad.min(1))) << const { 5 + MINIMA as u32 };
    let codes_at = from.codes + u64::from(step) * u64::from(STEP_BYTES);
    for r in 0..TILES as u32 {
        let next = from.next.map(|next| if r == 0 { 0 } else { u64::from(r) * next });
        // SAFETY: W has the tile's codes and factors of the step, and the stage is free.
        unsafe {
            let to = codes.address_of((from.lane, r, stage, from.warp));
            cp_async(CpAsyncSize::B16, to, codes_at + next[0], 16);
            if quad < weights.per_step() {
                let to = factors.address_of((0u32, row, 2 * r + quad, stage, from.warp));
                let size = const { if MINIMA { CpAsyncSize::B8 } else { CpAsyncSize::B4 } };
                cp_async(size, to, from.factors + group + next[1], size.bytes());
            }
        }
    }
}

/// Issues the loads of x and of the norm's weights of a step of a warp into a stage. Rows and
/// elements past the end of x are zeros.
///
/// # Safety
/// Same contract as [`linear`](super::kernel::linear); the warp has read the stage's previous data.
#[inline(always)]
pub(super) unsafe fn issue_x<T: Half, Q: Code, const M: i64, const NORM: bool>(
    Activations { rows: of_x, norm, k }: Activations,
    StagesOfX { mut vectors, gains }: StagesOfX<T, Q, M, NORM>,
    from: &Sources,
    Load { step, stage }: Load,
) {
    let (warp, lane) = (from.warp, from.lane);
    let (row, quad) = (lane / 4, lane % 4);
    let size = const { if Q::VECTOR == 8 { CpAsyncSize::B16 } else { CpAsyncSize::B8 } };
    let first = |unit: u32| step * Q::STEP + unit * Q::UNIT;
    let of_unit = const { columns(M) as u32 / 8 };
    let places = (0..2 * of_unit).map(|slot| (slot, slot / of_unit, slot % of_unit));
    let bytes = |exists: bool| if exists { size.bytes() } else { 0 };
    let exists = |i: u32, unit: u32| first(unit) < from.left[i as usize];
    // SAFETY: elements that exist are readable, and the stage is free.
    unsafe {
        if NORM && row < 2 {
            let at = Global::<T>::from_address(norm).offset(first(row) + quad * Q::VECTOR);
            let to = gains.address_of((0u32, quad, row, stage, warp));
            cp_async(size, to, at.address(), bytes(first(row) + quad * Q::VECTOR < k));
        }
        if M == 1 && row > 0 {
            return;
        }
        if M == 1 || of_x.aligned {
            for (slot, unit, i) in places {
                let at = from.x[i as usize] + u64::from(first(unit)) * size_of::<T>() as u64;
                let to = vectors.address_of((0u32, lane, slot, stage, warp));
                cp_async(size, to, at, bytes(exists(i, unit)));
            }
        } else {
            for (slot, unit, i) in places {
                let x = Global::<T>::from_address(from.x[i as usize]);
                for j in 0..Q::VECTOR {
                    let at = x.offset(i64::from(first(unit) + j) * of_x.element);
                    vectors.set((j, lane, slot, stage, warp), at.read_if(exists(i, unit)));
                }
            }
        }
    }
}
