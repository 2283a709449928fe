//! The fix-up of tiles whose K is split among several workers.
//!
//! Each team stores its partial accumulators in a workspace and increments the tile's counter. The
//! last team to arrive reduces the others' in the order of K and writes C; the others continue. No
//! thread waits.
//!
//! With two teams, the last does not store its partial accumulators: it adds the other's to its
//! registers, and addition is commutative. With three or more, the last loads all of them,
//! including its own, in the order of K. So the result does not depend on which team is last.

use super::Team;
use crate::arch::{AtomicAdd as _, FULL_WARP, Fma, Word as _, Word128, fence_gpu, sync_warp};
use crate::memory::{Element, GlobalMut};
use crate::tensor::{Fragment, StaticLayout};
use half::f16;

/// The type of accumulators: f32, f64, i32 or f16.
pub trait FixUp: Element + Fma {
    /// Values of a vector of 16 bytes.
    const VALUES: usize = 16 / size_of::<Self>();

    /// The sum; for integers modulo 2^32.
    fn plus(self, other: Self) -> Self;

    /// Packs [`VALUES`](Self::VALUES) elements of a fragment, from `first` on, into a vector.
    fn pack<L: StaticLayout>(fragment: &Fragment<Self, L>, first: usize) -> Word128;

    /// Value `i` of a vector.
    fn unpack(vector: Word128, i: usize) -> Self;
}

macro_rules! words {
    ($($t:ty, |$a:ident, $b:ident| $sum:expr;)+) => { $(
        impl FixUp for $t {
            #[cfg_attr(target_arch = "nvptx64", inline(always))]
            #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
            fn plus(self, other: Self) -> Self {
                let ($a, $b) = (self, other);
                $sum
            }

            #[cfg_attr(target_arch = "nvptx64", inline(always))]
            #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
            fn pack<L: StaticLayout>(fragment: &Fragment<Self, L>, first: usize) -> Word128 {
                let values = [fragment[first], fragment[first + 1], fragment[first + 2], fragment[first + 3]];
                Word128(values.map(Element::to_bits))
            }

            #[inline(always)]
            fn unpack(vector: Word128, i: usize) -> Self {
                Element::from_bits(vector.0[i])
            }
        }
    )+ };
}
words! {
    f32, |a, b| a + b;
    i32, |a, b| a.wrapping_add(b);
}

impl FixUp for f64 {
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    fn plus(self, other: Self) -> Self {
        self + other
    }

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    fn pack<L: StaticLayout>(fragment: &Fragment<Self, L>, first: usize) -> Word128 {
        let [first, second] = [fragment[first], fragment[first + 1]].map(Self::to_bits);
        Word128([first as u32, (first >> 32) as u32, second as u32, (second >> 32) as u32])
    }

    #[inline(always)]
    fn unpack(vector: Word128, i: usize) -> Self {
        Self::from_bits(u64::from(vector.0[2 * i]) | u64::from(vector.0[2 * i + 1]) << 32)
    }
}

impl FixUp for f16 {
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    fn plus(self, other: Self) -> Self {
        self.fma(Self::ONE, other)
    }

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    fn pack<L: StaticLayout>(fragment: &Fragment<Self, L>, first: usize) -> Word128 {
        let mut words = [0; 4];
        for i in 0..4 {
            let (low, high) = (fragment[first + 2 * i].to_bits(), fragment[first + 2 * i + 1].to_bits());
            words[i] = u32::from(low) | u32::from(high) << 16;
        }
        Word128(words)
    }

    #[inline(always)]
    fn unpack(vector: Word128, i: usize) -> Self {
        Self::from_bits((vector.0[i / 2] >> (16 * (i % 2))) as u16)
    }
}

/// Memory for partial accumulators, used by one launch only.
#[derive(Clone, Copy, Debug)]
pub struct Workspace {
    /// The partial accumulators: [`SplitK::partials`] or [`StreamK::partials`] elements of the
    /// accumulators' type.
    ///
    /// [`SplitK::partials`]: super::SplitK::partials
    /// [`StreamK::partials`]: super::StreamK::partials
    pub partials: GlobalMut<u32>,
    /// A counter for each tile of C of each block: 0 before the launch, and 0 after it.
    pub counters: GlobalMut<u32>,
}

/// A work unit of stream-K or a slice of split-K: the part of a tile's K that a team has
/// accumulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The counter of the tile and team.
    pub counter: u32,
    /// The index of the team's piece, in the order of K.
    pub own: u32,
    /// The number of the tile's pieces.
    pub pieces: u32,
}

/// Vectors that are loaded at a time: more would take registers from the accumulators.
const AT_ONCE: usize = 16;

impl Workspace {
    /// Reduces the pieces of a tile; piece `i` is stored in slot `slot(i)`, which holds a team's
    /// accumulators of a tile. Returns whether this team holds the sum.
    ///
    /// # Safety
    /// All threads of the team call it with the same piece, when their accumulators are complete;
    /// counter and slots belong to the tile's pieces of this team's part of C.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    pub unsafe fn reduce<D: FixUp, L: StaticLayout>(
        self,
        accumulators: &mut Fragment<D, L>,
        team: &Team,
        Piece { counter, own, pieces }: Piece,
        slot: impl Fn(u32) -> u32,
    ) -> bool {
        const { assert!((L::LAYOUT.size() as usize).is_multiple_of(D::VALUES), "a thread has whole vectors") };
        if pieces == 1 {
            return true;
        }
        let size = const { L::LAYOUT.size() as u32 };
        let counter = self.counters.offset(counter).address();
        // Vector-interleaved: adjacent threads access consecutive vectors.
        let place = |piece: u32| {
            let first = i64::from(slot(piece)) * i64::from(size * team.threads);
            self.partials.cast::<D>().offset(first).address() + u64::from(16 * team.thread)
        };
        // SAFETY: the slots and the counter are the team's. Partial accumulators are stored before
        // the barrier and the fence of the thread that increments the counter, and read after those
        // of the last team.
        unsafe {
            // Not by `broadcast`: faults and profiles would name its closure instead of the caller.
            team.sync();
            if team.thread == 0 {
                let is_second = pieces == 2 && u32::atomic_add_global(counter, 0) == 1;
                fence_gpu();
                team.publish(is_second.into());
            }
            if team.receive() == 0 {
                leave(accumulators, team, place(own));
                team.sync();
                if team.thread == 0 {
                    fence_gpu();
                    let arrived = u32::atomic_add_global(counter, 1);
                    fence_gpu();
                    team.publish(u32::from(arrived == pieces - 1));
                }
                if team.receive() == 0 {
                    return false;
                }
            }
            if team.thread == 0 {
                u32::store_global(counter, 0);
            }
            if pieces > 2 {
                for i in 0..size as usize {
                    accumulators[i] = D::ZERO;
                }
            }
            // One loop for both cases: with a branch for each, ptxas keeps two copies of the
            // accumulators, and spills.
            let mut piece = 0;
            while piece < pieces {
                if pieces > 2 || piece != own {
                    add(accumulators, team, place(piece));
                }
                piece += 1;
            }
        }
        true
    }
}

/// Stores a thread's accumulators.
///
/// # Safety
/// The vectors are writable.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
#[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
unsafe fn leave<D: FixUp, L: StaticLayout>(accumulators: &Fragment<D, L>, team: &Team, to: u64) {
    for v in 0..const { L::LAYOUT.size() as usize / D::VALUES } {
        let vector = D::pack(accumulators, v * D::VALUES);
        // SAFETY: the vectors are writable.
        unsafe { Word128::store_global(to + v as u64 * u64::from(16 * team.threads), vector) };
    }
}

/// Adds the accumulators that [`leave`] stored.
///
/// # Safety
/// The vectors are readable.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
#[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
unsafe fn add<D: FixUp, L: StaticLayout>(accumulators: &mut Fragment<D, L>, team: &Team, from: u64) {
    for v in 0..const { L::LAYOUT.size() as usize / D::VALUES } {
        // SAFETY: the vectors are readable.
        let vector = unsafe { Word128::load_global(from + v as u64 * u64::from(16 * team.threads)) };
        for i in 0..D::VALUES {
            let (at, left) = (v * D::VALUES + i, D::unpack(vector, i));
            accumulators[at] = accumulators[at].plus(left);
        }
        if (v + 1).is_multiple_of(AT_ONCE) {
            sync_warp(FULL_WARP);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::layout;
    use crate::static_layout;

    static_layout! {
        Values = layout!(16);
    }

    #[test]
    fn a_vector_gives_back_the_values_that_it_was_packed_from() {
        fn check<D: FixUp + PartialEq + core::fmt::Debug>(value: impl Fn(usize) -> D) {
            let mut fragment = Fragment::<D, Values>::filled(D::ZERO);
            (0..16).for_each(|i| fragment[i] = value(i));
            let vector = D::pack(&fragment, D::VALUES);
            for i in 0..D::VALUES {
                assert_eq!(D::unpack(vector, i), value(D::VALUES + i), "value {i} of {}", D::VALUES);
            }
        }
        check(|i| i as f32 - 1.5);
        check(|i| i as f64 - 0.5);
        check(|i| 7 - i as i32);
        check(|i| f16::from_f32(i as f32 - 3.5));
    }
}
