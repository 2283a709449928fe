//! mbarriers: barriers in shared memory, at which threads arrive and copies complete.

use super::context::BlockContext;
use super::shared::SHARED_BASE;
use crate::fault::{Access, FaultKind, WaitPlace};
use std::panic::Location;

/// The largest number of arrivals of a phase, and of bytes: 2^20 - 1.
pub(crate) const MAX_COUNT: u32 = (1 << 20) - 1;

/// The number of distinguished phases: a wait names the current phase or the previous one.
const PHASES: u32 = 8;

/// The 64 bits of an mbarrier, which are opaque on a GPU.
///
/// A phase completes when no arrivals and no bytes are pending. Bytes may arrive before they are
/// expected: their count is then negative, and the phase cannot complete, because the thread that
/// expects them has not arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mbarrier {
    /// Pending arrivals of the phase.
    pub(crate) pending: u32,
    /// Arrivals per phase.
    pub(crate) expected: u32,
    /// Pending bytes of the phase.
    pub(crate) transactions: i32,
    /// Completed phases, modulo 8.
    pub(crate) phase: u32,
}

/// The reason why an operation on an mbarrier fails.
type Misuse = String;

impl Mbarrier {
    /// An mbarrier whose phases expect `count` arrivals.
    pub(crate) const fn new(count: u32) -> Self {
        Self { pending: count, expected: count, transactions: 0, phase: 0 }
    }

    pub(crate) const fn of(bits: u64) -> Self {
        let count = MAX_COUNT as u64;
        Self {
            pending: (bits & count) as u32,
            expected: (bits >> 20 & count) as u32,
            // 21 bits, signed.
            transactions: (((bits >> 40) as u32) << 11) as i32 >> 11,
            phase: (bits >> 61) as u32,
        }
    }

    pub(crate) const fn bits(self) -> u64 {
        let transactions = (self.transactions as u64) & ((1 << 21) - 1);
        self.pending as u64 | (self.expected as u64) << 20 | transactions << 40 | (self.phase as u64) << 61
    }

    /// The next phase, if this one is complete.
    const fn settled(self) -> Self {
        if self.pending > 0 || self.transactions != 0 {
            return self;
        }
        Self { pending: self.expected, phase: (self.phase + 1) % PHASES, ..self }
    }

    /// After `count` arrivals.
    pub(crate) fn arrived(self, count: u32) -> Result<Self, Misuse> {
        match self.pending.checked_sub(count) {
            Some(pending) => Ok(Self { pending, ..self }.settled()),
            None => Err(format!(
                "{count} arrivals at an mbarrier whose phase still expects {} of {} arrivals, and {} bytes",
                self.pending, self.expected, self.transactions
            )),
        }
    }

    /// With `bytes` more to expect in this phase, or fewer if negative.
    pub(crate) fn expecting(self, bytes: i64) -> Result<Self, Misuse> {
        let transactions = i64::from(self.transactions) + bytes;
        if transactions.unsigned_abs() > u64::from(MAX_COUNT) {
            return Err(format!(
                "the phase would expect {transactions} bytes, and at most {MAX_COUNT} are possible"
            ));
        }
        Ok(Self { transactions: transactions as i32, ..self })
    }

    /// After `bytes` have arrived.
    pub(crate) fn received(self, bytes: u32) -> Result<Self, Misuse> {
        self.expecting(-i64::from(bytes)).map(Self::settled)
    }

    /// Whether the phase of this parity is over: the current phase has the other parity.
    pub(crate) const fn is_past(self, parity: u32) -> bool {
        self.phase % 2 != parity % 2
    }
}

impl BlockContext {
    /// The mbarrier at an address of this block.
    pub(crate) fn mbarrier(&self, operation: &'static str, address: u32) -> Result<Mbarrier, FaultKind> {
        let bits = self.shared.load(address.wrapping_sub(SHARED_BASE) as usize);
        let mbarrier = Mbarrier::of(bits.ok_or_else(|| self.shared_fault_kind(Access::Read, address, 8))?);
        if mbarrier.expected == 0 {
            let reason = format!("there is no mbarrier at shared address {address:#x}");
            return Err(FaultKind::InvalidOperand { operation, reason });
        }
        Ok(mbarrier)
    }

    /// Replaces an mbarrier of this block.
    pub(crate) fn set_mbarrier(&self, address: u32, mbarrier: Mbarrier) -> Result<(), FaultKind> {
        let stored = self.store_shared(address.wrapping_sub(SHARED_BASE) as usize, mbarrier.bits());
        if stored { Ok(()) } else { Err(self.shared_fault_kind(Access::Write, address, 8)) }
    }

    /// Changes an mbarrier of this block, and returns its previous value.
    pub(crate) fn change_mbarrier(
        &self,
        operation: &'static str,
        address: u32,
        change: impl FnOnce(Mbarrier) -> Result<Mbarrier, Misuse>,
    ) -> Result<Mbarrier, FaultKind> {
        let before = self.mbarrier(operation, address)?;
        let after = change(before).map_err(|reason| FaultKind::InvalidOperand { operation, reason })?;
        self.set_mbarrier(address, after)?;
        if after.phase != before.phase {
            self.end_phase(address);
        }
        Ok(before)
    }

    /// The value, or the fault of the running thread. `None` only in a thread that already unwinds.
    #[track_caller]
    pub(crate) fn or_raise<T>(&self, result: Result<T, FaultKind>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(_) if std::thread::panicking() => None,
            Err(kind) => self.raise(Location::caller(), kind),
        }
    }

    /// Waits until `is_over` holds for an mbarrier of this block; copies in flight may make it
    /// true.
    pub(crate) fn wait_for_mbarrier(
        &self,
        address: u32,
        parity: impl Fn(Mbarrier) -> u32,
        is_over: impl Fn(Mbarrier) -> bool,
        location: &'static Location<'static>,
    ) {
        self.profile_wait_at_mbarrier("mbarrier.try_wait", location);
        while !std::thread::panicking() {
            self.land_for(address);
            let operation = "mbarrier.try_wait";
            let mbarrier = match self.mbarrier(operation, address) {
                Ok(mbarrier) => mbarrier,
                Err(kind) => self.raise(location, kind),
            };
            if is_over(mbarrier) {
                self.see_phase(address);
                break;
            }
            let place = WaitPlace::Mbarrier {
                offset: i64::from(address) - i64::from(SHARED_BASE),
                parity: parity(mbarrier) % 2,
                pending: mbarrier.pending,
                transactions: mbarrier.transactions,
            };
            self.wait(place, location);
        }
        self.condition_met.set(true);
    }

    /// Completes the copies of an mbarrier of this block.
    pub(crate) fn land_for(&self, address: u32) {
        self.land_before_arrivals(address);
        self.land_bulk_loads(address);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_ends_with_its_last_arrival_and_the_next_begins() {
        let start = Mbarrier::new(2);
        assert_eq!(Mbarrier::of(start.bits()), start);
        let one = start.arrived(1).unwrap();
        assert_eq!(one, Mbarrier { pending: 1, ..start });
        assert_eq!(one.arrived(1).unwrap(), Mbarrier { phase: 1, ..start });
        assert!(one.arrived(2).unwrap_err().contains("still expects 1 of 2 arrivals"));
        let last = Mbarrier { phase: 7, ..start };
        assert_eq!(last.arrived(2).unwrap().phase, 0, "phases are counted modulo 8");
    }

    #[test]
    fn a_phase_waits_for_its_bytes_too() {
        let start = Mbarrier::new(1).expecting(100).unwrap();
        assert_eq!(Mbarrier::of(start.bits()), start);
        let arrived = start.arrived(1).unwrap();
        assert_eq!((arrived.phase, arrived.pending), (0, 0));
        let received = arrived.received(60).unwrap();
        assert_eq!((received.phase, received.transactions), (0, 40));
        assert_eq!(received.received(40).unwrap(), Mbarrier { phase: 1, ..Mbarrier::new(1) });
        // Bytes may come first.
        let early = Mbarrier::new(1).received(60).unwrap();
        assert_eq!(Mbarrier::of(early.bits()), early);
        assert_eq!((early.phase, early.transactions), (0, -60));
        assert_eq!(early.expecting(60).unwrap().arrived(1).unwrap().phase, 1);
        assert!(start.expecting(i64::from(MAX_COUNT)).unwrap_err().contains("1048675 bytes"));
    }

    #[test]
    fn a_parity_is_past_when_the_phase_that_runs_has_the_other() {
        let first = Mbarrier::new(1);
        assert_eq!([0, 1].map(|parity| first.is_past(parity)), [false, true]);
        assert_eq!([0, 1].map(|parity| first.arrived(1).unwrap().is_past(parity)), [true, false]);
    }
}
