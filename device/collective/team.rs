//! The threads that hold a tile's accumulators together, and their synchronisation.

use super::mainloop::WARPGROUP;
use crate::arch::{NamedBarrier, Word as _, sync_barrier};
use crate::memory::{Shared, SharedStorage};

/// The threads that together hold the accumulators of one tile of C: all threads of a block, its
/// consumer warpgroups, or one of these.
#[derive(Clone, Copy, Debug)]
pub struct Team {
    /// This thread's index in the team.
    pub thread: u32,
    /// Threads of the team, a multiple of 32.
    pub threads: u32,
    /// The index of the team in the block.
    pub number: u32,
    /// The thread's warpgroup in the team: uniform across the warp, also for the compiler.
    warpgroup: u32,
    /// The thread's index in its warpgroup.
    within: u32,
    /// The named barriers of the team and of its first warpgroup.
    barriers: [u32; 2],
    /// The address of a word in shared memory for each warpgroup. The team uses the first word.
    words: u32,
}

/// Words in shared memory, one for each warpgroup of the block's teams.
#[derive(Clone, Copy, Debug)]
pub struct TeamStorage;

/// Bytes of a word.
const WORD: u32 = 4;

impl SharedStorage for TeamStorage {
    const BYTES: usize = (8 * WORD) as usize;
    const ALIGN: usize = WORD as usize;

    type Tensors = Shared<u32>;

    #[inline(always)]
    unsafe fn at(base: u32) -> Shared<u32> {
        Shared::from_address(base)
    }
}

impl Team {
    /// Team `number` (0 or 1) of a block, of `threads` threads; this thread is `thread`, in the
    /// team's warpgroup `warpgroup`.
    ///
    /// Team 0 uses the named barriers from 1 on, one for the team and one for each of its
    /// warpgroups; team 1 those from 3 on.
    ///
    /// # Safety
    /// All threads of the team call it; if there are two teams, each has one warpgroup. Only the
    /// block's teams use `storage`. All threads of the team call [`broadcast`](Self::broadcast)
    /// together.
    #[inline(always)]
    #[must_use]
    pub const unsafe fn new(
        number: u32,
        thread: u32,
        warpgroup: u32,
        threads: u32,
        storage: Shared<u32>,
    ) -> Self {
        let first = 1 + 2 * number;
        let words = storage.address() + WORD * number;
        let within = thread % WARPGROUP;
        Self { thread, threads, number, warpgroup, within, barriers: [first, first + 1], words }
    }

    /// This thread's warpgroup as a separate team.
    #[inline(always)]
    #[must_use]
    pub const fn of_warpgroup(&self) -> Self {
        let barrier = self.barriers[1] + self.warpgroup;
        Self {
            thread: self.within,
            threads: WARPGROUP,
            number: self.number,
            warpgroup: 0,
            within: self.within,
            barriers: [barrier; 2],
            words: self.words + WORD * self.warpgroup,
        }
    }

    /// The thread's warpgroup in the team.
    #[inline(always)]
    #[must_use]
    pub const fn warpgroup(&self) -> u32 {
        self.warpgroup
    }

    /// The thread's index in its warpgroup.
    #[inline(always)]
    #[must_use]
    pub const fn within_warpgroup(&self) -> u32 {
        self.within
    }

    /// Waits for all threads of the team.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    pub fn sync(&self) {
        sync_barrier(self.barriers[0], self.threads);
    }

    /// The barrier of this thread's warpgroup.
    #[inline(always)]
    #[must_use]
    pub const fn warpgroup_barrier(&self) -> NamedBarrier {
        NamedBarrier::new(self.barriers[1] + self.warpgroup, WARPGROUP)
    }

    /// Waits for all threads of this thread's warpgroup.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    pub fn sync_warpgroup(&self) {
        self.warpgroup_barrier().sync();
    }

    /// Returns the value of thread 0 of the team to all of its threads.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    pub fn broadcast(&self, of_first: impl FnOnce() -> u32) -> u32 {
        self.sync();
        // SAFETY: thread 0 publishes, after a barrier that ends all reads of the previous
        // broadcast.
        unsafe {
            if self.thread == 0 {
                self.publish(of_first());
            }
            self.receive()
        }
    }

    /// Stores the value that [`receive`](Self::receive) returns to all threads of the team.
    ///
    /// # Safety
    /// Thread 0 of the team calls it, after a barrier of the team that follows the previous
    /// `receive`.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    pub(super) unsafe fn publish(&self, value: u32) {
        // SAFETY: only thread 0 writes the team's word, after a barrier that follows its last read.
        unsafe { u32::store_shared(self.words, value) }
    }

    /// The value that thread 0 has published.
    ///
    /// # Safety
    /// Thread 0 has called [`publish`](Self::publish) before it calls this.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    pub(super) unsafe fn receive(&self) -> u32 {
        self.sync();
        // SAFETY: the barrier follows thread 0's write.
        unsafe { u32::load_shared(self.words) }
    }
}
