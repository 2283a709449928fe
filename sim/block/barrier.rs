//! Barriers of a block.

use super::WARP_SIZE;
use super::context::BlockContext;
use super::knowledge::Knowledge;
use crate::fault::{FaultKind, WaitPlace};
use crate::race::Gathered;
use std::panic::Location;

/// The number of barriers of a block.
const BARRIERS: usize = 16;

/// The threads that have arrived at a barrier, and the threads that it expects.
pub(super) struct Arrivals {
    pub arrived: u32,
    pub expected: u32,
}

/// The barriers of a block.
#[derive(Default)]
pub(crate) struct Barriers([Barrier; BARRIERS]);

#[derive(Default)]
struct Barrier {
    /// Expected threads; 0 before the first arrives.
    expected: u32,
    arrived: u32,
    /// The waiting threads.
    waiters: Vec<u32>,
    /// The knowledge of the threads that arrived.
    known: Knowledge,
    /// The accesses before the arrivals without a wait.
    told: Gathered,
}

impl BlockContext {
    /// The running thread arrives at a barrier for `count` threads (all of the block for `None`),
    /// and waits there if `waits`.
    #[track_caller]
    pub(crate) fn arrive(&self, operation: &'static str, id: u32, count: Option<u32>, waits: bool) {
        if std::thread::panicking() {
            return;
        }
        let location = Location::caller();
        self.profile_event(operation, location);
        let expected = count.unwrap_or(self.count());
        if let Some(reason) = self.barrier_misuse(id, count) {
            self.raise(location, FaultKind::InvalidOperand { operation, reason });
        }
        let mut barriers = self.barriers.borrow_mut();
        let barrier = &mut barriers.0[id as usize];
        if barrier.expected != 0 && barrier.expected != expected {
            let others = barrier.expected;
            drop(barriers);
            let waiting = self.waiting();
            let kind = FaultKind::BarrierMismatch { barrier: id, count: expected, expected: others, waiting };
            self.raise(location, kind);
        }
        barrier.expected = expected;
        barrier.arrived += 1;
        barrier.known.join(&self.thread().known.borrow());
        if !waits {
            self.release(&mut barrier.told);
        }
        if count.is_some() && self.running.get() + 1 == self.count() {
            // An explicit count is of whole warps, so the block's last thread represents the
            // missing lanes of its warp.
            barrier.arrived += self.count().next_multiple_of(WARP_SIZE) - self.count();
        }
        if barrier.arrived == expected {
            let known = std::mem::take(&mut barrier.known);
            for &waiter in &barrier.waiters {
                self.threads[waiter as usize].known.replace(known.clone());
                self.set_ready(waiter);
            }
            let mut met = std::mem::take(&mut barrier.waiters);
            if waits {
                self.tell(&known);
                met.push(self.running.get());
            }
            if met.len() as u32 == self.count() {
                self.meet_as_block();
            } else {
                self.meet_as_some(&met, std::mem::take(&mut barrier.told));
            }
            met.clear();
            barrier.waiters = met;
            (barrier.expected, barrier.arrived) = (0, 0);
            drop(barriers);
            self.note_rendezvous(location);
        } else if waits {
            barrier.waiters.push(self.running.get());
            drop(barriers);
            self.wait(WaitPlace::Barrier { id }, location);
        }
    }

    fn barrier_misuse(&self, id: u32, count: Option<u32>) -> Option<String> {
        if id as usize >= BARRIERS {
            return Some(format!("barrier {id} does not exist: a block has barriers 0 to {}", BARRIERS - 1));
        }
        let count = count?;
        let threads = self.count();
        if count == 0 || count % WARP_SIZE != 0 {
            return Some(format!(
                "a thread count of {count}, which is not a positive multiple of {WARP_SIZE}"
            ));
        }
        (count > threads.next_multiple_of(WARP_SIZE))
            .then(|| format!("a thread count of {count}, which is more than the block's {threads} threads"))
    }

    /// The arrivals at a barrier.
    pub(super) fn barrier_arrivals(&self, id: u32) -> Arrivals {
        let barriers = self.barriers.borrow();
        let barrier = &barriers.0[id as usize];
        Arrivals { arrived: barrier.arrived, expected: barrier.expected }
    }
}
