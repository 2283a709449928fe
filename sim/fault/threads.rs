//! Sets of threads and the objects of their waits, as compact text.

use crate::Dim3;
use std::fmt;
use std::panic::Location;

/// Consecutive threads of a block, `x` fastest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadRange {
    /// The first.
    pub first: Dim3,
    /// The last; equal to the first for a single thread.
    pub last: Dim3,
    /// The number of threads.
    pub count: u32,
}

/// A set of threads of one block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThreadSet {
    ranges: Vec<ThreadRange>,
}

/// The number of ranges in a message.
const RANGES_TOLD: usize = 4;

impl ThreadSet {
    /// The threads with these linear indices, in ascending order, in a block with these extents.
    pub(crate) fn new(linear: impl IntoIterator<Item = u32>, block: Dim3) -> Self {
        let mut runs: Vec<(u32, u32)> = Vec::new();
        for index in linear {
            match runs.last_mut() {
                Some((_, last)) if *last + 1 == index => *last = index,
                _ => runs.push((index, index)),
            }
        }
        let index = |linear: u32| block.index_of(linear.into());
        let range =
            |(first, last)| ThreadRange { first: index(first), last: index(last), count: last - first + 1 };
        Self { ranges: runs.into_iter().map(range).collect() }
    }

    /// The threads as maximal ranges, ascending.
    pub fn ranges(&self) -> &[ThreadRange] {
        &self.ranges
    }

    /// The number of threads in the set.
    pub fn count(&self) -> u32 {
        self.ranges.iter().map(|range| range.count).sum()
    }
}

impl fmt::Display for ThreadSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.count();
        write!(f, "{count} thread{} ", if count == 1 { "" } else { "s" })?;
        for (i, range) in self.ranges.iter().take(RANGES_TOLD).enumerate() {
            let separator = if i == 0 { "" } else { ", " };
            if range.count == 1 {
                write!(f, "{separator}{}", range.first)?;
            } else {
                write!(f, "{separator}{} to {}", range.first, range.last)?;
            }
        }
        if self.ranges.len() > RANGES_TOLD {
            write!(f, " and {} more ranges", self.ranges.len() - RANGES_TOLD)?;
        }
        Ok(())
    }
}

/// The object of a thread's wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitPlace {
    /// A barrier of the block.
    Barrier {
        /// Its id.
        id: u32,
    },
    /// A warp-wide operation.
    Warp {
        /// Its name.
        operation: &'static str,
        /// Its mask.
        mask: u32,
    },
    /// The end of an mbarrier's phase.
    Mbarrier {
        /// Its offset from the start of the block's shared memory.
        offset: i64,
        /// The parity of the phase that the thread waits for.
        parity: u32,
        /// Pending arrivals.
        pending: u32,
        /// Pending bytes.
        transactions: i32,
    },
    /// Shared memory that no thread has written yet.
    Memory {
        /// The offset from the start of the memory.
        offset: i64,
    },
    /// A condition that another thread must make true.
    Condition {
        /// Its description.
        what: &'static str,
    },
}

impl fmt::Display for WaitPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Barrier { id } => write!(f, "at barrier {id}"),
            Self::Warp { operation, mask } => write!(f, "in {operation} with mask {mask:#010x}"),
            Self::Mbarrier { offset, parity, pending, transactions } => write!(
                f,
                "for the phase of parity {parity} of the mbarrier at offset {offset}, which still expects {pending} arrivals and {transactions} bytes,"
            ),
            Self::Memory { offset } => write!(f, "for what is written to shared memory at offset {offset}"),
            Self::Condition { what } => write!(f, "for {what}"),
        }
    }
}

/// Threads that wait for the same thing at the same line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingThreads {
    /// The block's rank in its cluster, if it is not the block of the fault.
    pub block: Option<u32>,
    /// The threads.
    pub threads: ThreadSet,
    /// The object of their wait.
    pub place: WaitPlace,
    /// The line.
    pub location: &'static Location<'static>,
}

impl fmt::Display for WaitingThreads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = if self.threads.count() == 1 { "waits" } else { "wait" };
        let Self { block, threads, place, location } = self;
        if let Some(rank) = block {
            write!(f, "in block {rank} of the cluster ")?;
        }
        write!(f, "{threads} {verb} {place} at {}:{}", location.file(), location.line())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thread_sets_join_consecutive_threads_and_stay_short() {
        let block = Dim3::new(16, 4, 1);
        assert_eq!(ThreadSet::new(0..32, block).to_string(), "32 threads (0,0,0) to (15,1,0)");
        assert_eq!(ThreadSet::new([5], block).to_string(), "1 thread (5,0,0)");
        let odd = ThreadSet::new((0..64).filter(|i| i % 2 == 1), block);
        assert_eq!(odd.count(), 32);
        assert_eq!(odd.to_string(), "32 threads (1,0,0), (3,0,0), (5,0,0), (7,0,0) and 28 more ranges");
    }
}
