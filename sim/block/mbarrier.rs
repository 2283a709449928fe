//! mbarriers: barriers that live in shared memory, at which copies arrive as well as threads.

use super::context::BlockContext;
use super::shared::SHARED_BASE;
use crate::fault::{Access, FaultKind};
use std::panic::Location;

/// The most arrivals that a phase can wait for: 2^20 - 1.
pub(crate) const MAX_COUNT: u32 = (1 << 20) - 1;

/// The 64 bits of an mbarrier, which are nobody's business on a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mbarrier {
    /// Arrivals that the phase still waits for.
    pub(crate) pending: u32,
    /// Arrivals of a phase.
    pub(crate) expected: u32,
    /// Phases that have completed.
    pub(crate) phase: u32,
}

impl Mbarrier {
    pub(crate) const fn of(bits: u64) -> Self {
        let count = MAX_COUNT as u64;
        Self {
            pending: (bits & count) as u32,
            expected: (bits >> 20 & count) as u32,
            phase: (bits >> 40) as u32,
        }
    }

    pub(crate) const fn bits(self) -> u64 {
        self.pending as u64 | (self.expected as u64) << 20 | (self.phase as u64) << 40
    }

    /// After one arrival.
    const fn arrived(self) -> Self {
        let pending = self.pending.saturating_sub(1);
        if pending > 0 {
            Self { pending, ..self }
        } else {
            Self { pending: self.expected, phase: (self.phase + 1) & 0xFF_FFFF, ..self }
        }
    }
}

impl BlockContext {
    /// The mbarrier at an address, or a fault.
    #[track_caller]
    pub(crate) fn mbarrier(&self, address: u32) -> Option<Mbarrier> {
        let bits = self.shared.load(address.wrapping_sub(SHARED_BASE) as usize);
        if bits.is_none() {
            self.shared_fault(Access::Read, address, 8);
        }
        bits.map(Mbarrier::of)
    }

    #[track_caller]
    pub(crate) fn set_mbarrier(&self, address: u32, mbarrier: Mbarrier) {
        if !self.shared.store(address.wrapping_sub(SHARED_BASE) as usize, mbarrier.bits()) {
            self.shared_fault(Access::Write, address, 8);
        }
    }

    /// Counts one arrival at an mbarrier, by a thread or by its copies.
    #[track_caller]
    pub(crate) fn count_arrival(&self, address: u32) {
        if let Some(mbarrier) = self.mbarrier(address) {
            self.set_mbarrier(address, mbarrier.arrived());
        }
    }

    /// Faults for an operand of an mbarrier operation. Returns only in a thread that already unwinds.
    #[track_caller]
    pub(crate) fn mbarrier_misuse(&self, operation: &'static str, reason: String) {
        if !std::thread::panicking() {
            self.raise(Location::caller(), FaultKind::InvalidOperand { operation, reason });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_ends_with_its_last_arrival_and_the_next_begins() {
        let start = Mbarrier { pending: 2, expected: 2, phase: 0 };
        assert_eq!(Mbarrier::of(start.bits()), start);
        let one = start.arrived();
        assert_eq!(one, Mbarrier { pending: 1, expected: 2, phase: 0 });
        assert_eq!(one.arrived(), Mbarrier { pending: 2, expected: 2, phase: 1 });
    }
}
