//! Sums of tiles that several clusters have a piece of K of: the last one to come adds them up.
//!
//! Nobody waits. A warpgroup that has summed its piece leaves it in memory and counts itself; the one that counts last takes
//! the others' and goes on to write C. Of two pieces the second needs not be left there: who sees that the other is there
//! already, adds it to what is in its registers, and `a + b` is `b + a`. Of three and more the last one takes all from memory, its
//! own too, in the order of K. So the result is the same whoever is last.

use super::config::{AccumulatorsOf, Parts, Sums as _, WARPGROUP, WgmmaConfig};
use super::schedule::Share;
use super::sharing::Sharing;
use crate::mma::{Convertible as _, Scalar as _};
use moye_device::arch::wgmma::Accumulators;
use moye_device::arch::{
    AtomicAdd as _, FULL_WARP, Fma as _, Word as _, Word128, fence_gpu, opaque, sync_barrier, sync_warp,
};
use moye_device::memory::Element as _;

/// A consuming warpgroup of a cluster's block.
#[derive(Clone, Copy)]
pub struct Warpgroup {
    /// The block's number in its cluster.
    pub rank: u32,
    /// Which of the block's consuming warpgroups.
    pub consumer: u32,
    /// Which of its threads.
    pub thread: u32,
    /// The warpgroup's own barrier.
    pub barrier: u32,
}

/// Elements of a warpgroup's part of a tile, which its threads hold `COUNT` of each.
#[inline(always)]
const fn part<G: WgmmaConfig>() -> u32 {
    WARPGROUP * G::MMA_M * AccumulatorsOf::<G>::COUNT as u32
}

/// Brings a warpgroup's sums of a piece together with those of the tile's other pieces. Whether they are the tile's now: if not, another
/// cluster writes it.
///
/// # Safety
/// All threads of the warpgroup come together; no instruction that writes the sums is on its way. `sharing` has the memory that
/// it tells of, for no other launch that may run meanwhile.
#[inline(always)]
pub unsafe fn gather<G: WgmmaConfig>(
    sums: &mut G::Sums,
    sharing: &Sharing<G::Sum>,
    Share { tile, number: own, pieces }: Share,
    parts: Parts<G>,
    place: Warpgroup,
) -> bool {
    let tiles = opaque(sharing.cut.tiles);
    let of_block = |number: u32| (number * G::CLUSTER + place.rank) * G::CONSUMERS + place.consumer;
    let counter = sharing.counters.offset(of_block(tile).into()).address();
    let piece = |number: u32| {
        let start = i64::from(of_block(number * tiles + tile)) * i64::from(part::<G>());
        sharing.sums.offset(start).address() + u64::from(size_of::<Word128>() as u32 * place.thread)
    };
    let told = parts.told(place.consumer);
    // SAFETY: the caller's contract. One thread counts, before and behind a barrier of all: what others left before they counted
    // is seen behind it, and what they left here before is counted behind it. `told` is the warpgroup's.
    unsafe {
        if place.thread == 0 {
            let is_second = pieces == 2 && u32::atomic_add_global(counter, 0) == 1;
            fence_gpu();
            u32::store_shared(told, is_second.into());
        }
        sync_barrier(place.barrier, WARPGROUP);
        if u32::load_shared(told) == 0 {
            leave::<G>(sums, piece(own));
            sync_barrier(place.barrier, WARPGROUP);
            if place.thread == 0 {
                fence_gpu();
                let is_last = u32::atomic_add_global(counter, 1) == pieces - 1;
                fence_gpu();
                u32::store_shared(told, is_last.into());
            }
            sync_barrier(place.barrier, WARPGROUP);
            if u32::load_shared(told) == 0 {
                return false;
            }
        }
        if place.thread == 0 {
            u32::store_global(counter, 0);
        }
        // One loop for both ways: with a branch for each, ptxas keeps the sums twice, and spills.
        let mut number = 0;
        while number < pieces {
            if pieces > 2 || number != own {
                add::<G>(sums, piece(number), pieces > 2 && number == 0);
            }
            number += 1;
        }
    }
    true
}

/// Leaves a thread's sums in memory: words of four of them, each thread's beside its neighbour's.
///
/// # Safety
/// The words may be written.
#[inline(always)]
unsafe fn leave<G: WgmmaConfig>(sums: &G::Sums, to: u64) {
    sums.each(
        #[inline(always)]
        |m, sums| {
            let (sums, to) = (sums.as_slice(), to + u64::from(m) * of_instruction::<G>());
            let mut i = 0;
            while i < sums.len() {
                let word = Word128([
                    sums[i].to_bits(),
                    sums[i + 1].to_bits(),
                    sums[i + 2].to_bits(),
                    sums[i + 3].to_bits(),
                ]);
                // SAFETY: the caller's contract.
                unsafe { Word128::store_global(to + i as u64 * u64::from(4 * WARPGROUP), word) };
                i += 4;
            }
        },
    );
}

/// Adds what [`leave`] has left, to nothing if it is the `first`.
///
/// # Safety
/// The words may be read.
#[inline(always)]
unsafe fn add<G: WgmmaConfig>(sums: &mut G::Sums, from: u64, first: bool) {
    sums.each_mut(
        #[inline(always)]
        |m, sums| {
            let (sums, from) = (sums.as_mut_slice(), from + u64::from(m) * of_instruction::<G>());
            let mut i = 0;
            while i < sums.len() {
                // SAFETY: the caller's contract.
                let word = unsafe { Word128::load_global(from + i as u64 * u64::from(4 * WARPGROUP)) };
                let mut j = 0;
                while j < 4 {
                    let left = G::Sum::from_bits(word.0[j]).widen();
                    let sum = if first { G::Scalar::ZERO } else { sums[i + j].widen() };
                    sums[i + j] = G::Sum::narrow(G::Scalar::ONE.fma(left, sum));
                    j += 1;
                }
                i += 4;
                // No more words than these are to take registers beside the sums at a time.
                if i.is_multiple_of(64) {
                    sync_warp(FULL_WARP);
                }
            }
        },
    );
}

/// Bytes of what a warpgroup's threads hold of one instruction.
#[inline(always)]
const fn of_instruction<G: WgmmaConfig>() -> u64 {
    4 * (WARPGROUP as usize * AccumulatorsOf::<G>::COUNT) as u64
}
