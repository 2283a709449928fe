//! Stream-K fix-up: reduces the partial accumulators of a tile that several clusters share along K.
//!
//! No cluster waits. Each warpgroup stores its partial accumulators and increments the tile's
//! counter; the last to arrive reduces the others' in K order and writes C. With two pieces the
//! last to arrive need not store its own: it adds the other's to its registers, and addition is
//! commutative. With three or more it loads all from memory, its own too, in K order. So the result
//! does not depend on which warpgroup is last.

use super::config::{AccumulatorsOf, Parts, Sums as _, WARPGROUP, WgmmaConfig};
use super::schedule::Share;
use super::sharing::Sharing;
use crate::mma::{Convertible as _, Scalar as _};
use moye_device::arch::wgmma::Accumulators;
use moye_device::arch::{
    AtomicAdd as _, FULL_WARP, Fma as _, Word as _, Word128, fence_gpu, opaque, sync_barrier, sync_warp,
};
use moye_device::memory::Element as _;

/// A consumer warpgroup of a cluster's block.
#[derive(Clone, Copy)]
pub struct Warpgroup {
    /// The block's number in its cluster.
    pub rank: u32,
    /// The number of the consumer warpgroup in the block.
    pub consumer: u32,
    /// The number of the thread in the warpgroup.
    pub thread: u32,
    /// The warpgroup's own named barrier.
    pub barrier: u32,
}

/// Elements of a warpgroup's part of a tile, `COUNT` for each of its threads.
#[inline(always)]
const fn part<G: WgmmaConfig>() -> u32 {
    WARPGROUP * G::MMA_M * AccumulatorsOf::<G>::COUNT as u32
}

/// Reduces the tile's pieces. Returns whether this warpgroup has the complete accumulators; if not,
/// another cluster writes the tile.
///
/// # Safety
/// All threads of the warpgroup call it together; no instruction that writes the accumulators is in
/// flight. `sharing` names valid memory, which no other concurrent launch uses.
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
    // SAFETY: the caller's contract. One thread increments the counter, between two barriers of the
    // warpgroup: what others stored before they incremented is visible after it, and this
    // warpgroup's stores are visible to warpgroups that increment later. `told` belongs to the
    // warpgroup.
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
        // One loop for both cases: with a branch for each, ptxas keeps two copies of the
        // accumulators, and spills.
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

/// Stores a thread's accumulators to memory: vectors of four, contiguous across threads.
///
/// # Safety
/// The vectors are writable.
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

/// Adds what [`leave`] has stored, or loads it if it is the `first` piece.
///
/// # Safety
/// The vectors are readable.
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
                // The number of vectors in registers beside the accumulators at a time.
                if i.is_multiple_of(64) {
                    sync_warp(FULL_WARP);
                }
            }
        },
    );
}

/// Bytes of the accumulators of one instruction in all threads of a warpgroup.
#[inline(always)]
const fn of_instruction<G: WgmmaConfig>() -> u64 {
    4 * (WARPGROUP as usize * AccumulatorsOf::<G>::COUNT) as u64
}
