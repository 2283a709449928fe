//! The clocks of asynchronous operations, whose completion threads may know.

use super::WARP_SIZE;
use super::cluster::Cluster;
use super::knowledge::Knowledge;
use super::wgmma::WARPGROUP;

/// A sequence of steps that complete in order, for which threads wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clock {
    /// The groups of matrix instructions of a warpgroup.
    Warpgroup { rank: u32, number: u32 },
    /// The groups of bulk stores of a thread.
    Stores { rank: u32, thread: u32 },
    /// The copies between blocks of a cluster that complete on an mbarrier.
    Copies { rank: u32, mbarrier: u32 },
    /// The phases of an mbarrier, with the copies that complete in them.
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

/// The clocks of a cluster, in order of creation, each with the steps that threads have waited for.
pub(crate) type Clocks = Vec<(Clock, u32)>;

impl Cluster {
    /// Whether there are clocks: without them, there is nothing to know.
    #[inline]
    pub(crate) fn has_clocks(&self) -> bool {
        !self.clocks.borrow().is_empty()
    }

    /// The index of a clock, which is created if necessary.
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
