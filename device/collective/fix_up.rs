//! The fix-up of tiles that several workers sum parts of K of.
//!
//! Each team stores its partial accumulators in a workspace and increments the tile's counter. The
//! last team to arrive reads all of them in the order of K, adds them up and writes C; the others
//! go on. No thread waits, and the result does not depend on which team is last.

use super::Team;
use crate::arch::{AtomicAdd as _, Fma, Word as _, fence_gpu};
use crate::memory::{Element, GlobalMut};
use crate::tensor::{Fragment, StaticLayout};

/// The type of accumulators: f32, f64 or i32.
pub trait FixUp: Element + Fma {
    /// The sum; of integers modulo 2^32.
    fn plus(self, other: Self) -> Self;
}

impl FixUp for f32 {
    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        self + other
    }
}

impl FixUp for f64 {
    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        self + other
    }
}

impl FixUp for i32 {
    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        self.wrapping_add(other)
    }
}

/// Memory for partial accumulators, used by one launch only.
#[derive(Clone, Copy, Debug)]
pub struct Workspace {
    /// The partial accumulators: [`SplitK::partials`] or [`StreamK::partials`] elements, 4 bytes
    /// each, or 8 for f64.
    ///
    /// [`SplitK::partials`]: super::SplitK::partials
    /// [`StreamK::partials`]: super::StreamK::partials
    pub partials: GlobalMut<u32>,
    /// A counter for each tile of C of each block: 0 before the launch, and 0 after it.
    pub counters: GlobalMut<u32>,
}

/// Which part of a tile's K a team has summed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    /// The tile's counter.
    pub(super) counter: u32,
    /// Which of the tile's pieces, in the order of K.
    pub(super) own: u32,
    /// Pieces of the tile.
    pub(super) pieces: u32,
}

impl Workspace {
    /// Reduces the pieces of a tile; `slot` says where piece `i` is stored. Returns whether this
    /// team has the sum.
    ///
    /// # Safety
    /// All threads of the team call it with the same piece; the slots belong to the tile's pieces.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub(super) unsafe fn reduce<D: FixUp, L: StaticLayout>(
        self,
        accumulators: &mut Fragment<D, L>,
        team: &Team,
        Piece { counter, own, pieces }: Piece,
        slot: impl Fn(u32) -> u32,
    ) -> bool {
        if pieces == 1 {
            return true;
        }
        let partials: GlobalMut<D> = self.partials.cast();
        let size = const { L::LAYOUT.size() as u32 };
        // Thread by thread within a value: neighbours access consecutive elements.
        let place = |slot: u32, i: usize| {
            let first = u64::from(slot) * u64::from(size * team.threads) + u64::from(team.thread);
            partials.offset((first + i as u64 * u64::from(team.threads)) as i64).address()
        };
        let counter = self.counters.offset(counter.into()).address();
        // SAFETY: the slots and the counter are the tile's. Partial accumulators are stored before
        // the barrier and the fence of the thread that counts, and read after those of the last
        // one.
        unsafe {
            let own = slot(own);
            for i in 0..size as usize {
                D::Bits::store_global(place(own, i), accumulators.get(i).to_bits());
            }
            let last = team.broadcast(|| {
                fence_gpu();
                let arrived = u32::atomic_add_global(counter, 1);
                fence_gpu();
                u32::from(arrived == pieces - 1)
            });
            if last == 0 {
                return false;
            }
            if team.thread == 0 {
                u32::store_global(counter, 0);
            }
            let mut piece = 0;
            while piece < pieces {
                let from = slot(piece);
                for i in 0..size as usize {
                    let partial = D::from_bits(D::Bits::load_global(place(from, i)));
                    let sum = if piece == 0 { D::ZERO } else { accumulators.get(i) };
                    accumulators.set(i, sum.plus(partial));
                }
                piece += 1;
            }
        }
        true
    }
}
