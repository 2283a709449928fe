//! The clocks of asynchronous operations, whose ends threads may know.

use super::WARP_SIZE;
use super::cluster::Cluster;
use super::knowledge::Knowledge;
use super::wgmma::WARPGROUP;

/// A sequence of steps that end in order, and for which threads wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clock {
    /// The groups of matrix instructions of a warpgroup of a block.
    Warpgroup { rank: u32, number: u32 },
    /// The groups of bulk stores of a thread of a block.
    Stores { rank: u32, thread: u32 },
    /// The copies between blocks of a cluster that arrive at an mbarrier of a block.
    Copies { rank: u32, mbarrier: u32 },
    /// The phases of an mbarrier of a block, with the copies that arrive in them.
    Phases { rank: u32, mbarrier: u32 },
}

impl Clock {
    /// Whether a thread is one of those whose operations it counts.
    pub(crate) fn has(self, rank: u32, thread: u32) -> bool {
        match self {
            Self::Warpgroup { rank: of, number } => (of, number) == (rank, thread / WARP_SIZE / WARPGROUP),
            Self::Stores { rank: of, thread: number } => (of, number) == (rank, thread),
            Self::Copies { .. } | Self::Phases { .. } => false,
        }
    }
}

/// The clocks of a cluster, numbered in order of creation, each with the steps that threads have
/// waited for.
pub(crate) type Clocks = Vec<(Clock, u32)>;

impl Cluster {
    /// Whether there are clocks: without them there is nothing to know.
    #[inline]
    pub(crate) fn has_clocks(&self) -> bool {
        !self.clocks.borrow().is_empty()
    }

    /// The number of a clock, which is created if necessary.
    pub(crate) fn number_of(&self, clock: Clock) -> usize {
        let mut clocks = self.clocks.borrow_mut();
        clocks.iter().position(|&(other, _)| other == clock).unwrap_or_else(|| {
            clocks.push((clock, 0));
            clocks.len() - 1
        })
    }

    /// Records that `steps` steps of a clock are over, for the threads that waited for them.
    pub(crate) fn end_steps(&self, clock: Clock, steps: u32, known: &mut Knowledge) {
        if steps > 0 {
            let number = self.number_of(clock);
            let complete = &mut self.clocks.borrow_mut()[number].1;
            *complete = steps.max(*complete);
            known.learn(number, steps);
        }
    }
}
