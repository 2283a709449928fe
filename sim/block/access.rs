//! What is wrong with an access that did not go through: the slow half of loads and stores.

use super::context::BlockContext;
use super::shared::SHARED_BASE;
use crate::fault::{Access, FaultKind};
use crate::pod::Pod;
use std::panic::Location;

impl BlockContext {
    /// Stores a `T` at an offset of this block's shared memory for the running thread, of any block of the cluster; says whether
    /// that could be.
    #[inline(always)]
    pub(crate) fn store_shared<T: Pod>(&self, offset: usize, value: T) -> bool {
        self.shared.store(offset, value)
            || self.settle_reads(offset, size_of::<T>()) && self.shared.store(offset, value)
    }

    /// Whether `bytes` bytes at `address` lie in one allocation, aligned to their number.
    #[inline(always)]
    pub(crate) fn global_fits(&self, address: u64, bytes: usize) -> bool {
        let aligned = address & (bytes as u64 - 1) == 0;
        aligned && (self.found.get().contains(address, bytes as u64) || self.find(address, bytes as u64))
    }

    #[inline(never)]
    fn find(&self, address: u64, bytes: u64) -> bool {
        let Some(span) = self.global.find(address) else { return false };
        self.found.set(span);
        span.contains(address, bytes)
    }

    /// Faults for an access to global memory that does not fit. Returns only in a thread that already unwinds, which
    /// must not do so twice.
    #[cold]
    #[inline(never)]
    #[track_caller]
    pub(crate) fn global_fault(&self, access: Access, address: u64, bytes: usize) {
        if std::thread::panicking() {
            return;
        }
        let kind = if address & (bytes as u64 - 1) != 0 {
            FaultKind::GlobalMisaligned { access, bytes, address }
        } else {
            let nearest = self.global.nearest(address, bytes as u64);
            FaultKind::GlobalOutOfBounds { access, bytes, address, nearest }
        };
        self.raise(Location::caller(), kind)
    }

    /// Faults for an access to shared memory that did not go through. Returns only in a thread that already unwinds.
    #[cold]
    #[inline(never)]
    #[track_caller]
    pub(crate) fn shared_fault(&self, access: Access, address: u32, bytes: usize) {
        if !std::thread::panicking() {
            self.raise(Location::caller(), self.shared_fault_kind(access, address, bytes))
        }
    }

    /// What is wrong with an access to this block's shared memory.
    #[cold]
    #[inline(never)]
    pub(crate) fn shared_fault_kind(&self, access: Access, address: u32, bytes: usize) -> FaultKind {
        let offset = i64::from(address) - i64::from(SHARED_BASE);
        if offset < 0 || offset + bytes as i64 > self.shared.bytes() as i64 {
            FaultKind::SharedOutOfBounds { access, bytes, offset, shared_bytes: self.shared.bytes() }
        } else if offset & (bytes.next_power_of_two() as i64 - 1) != 0 && bytes <= 16 {
            FaultKind::SharedMisaligned { access, bytes, offset }
        } else if let Some(at) = self.shared.first_in_flight(offset as usize, bytes) {
            let (what, issuer, issued_at, issuer_exited) = self.issuer_of(at);
            FaultKind::SharedInFlight { access, bytes, offset, what, issuer, issued_at, issuer_exited }
        } else if access.writes()
            && let Some(kind) = self.being_read(access, offset as usize, bytes)
        {
            kind
        } else if !access.writes()
            && let Some(kind) = self.not_awaited(access, offset as usize, bytes)
        {
            kind
        } else {
            FaultKind::SharedUnwritten { access, bytes, offset }
        }
    }
}
