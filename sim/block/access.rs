//! The slow path of loads and stores: the fault of a failed access.

use super::bulk::CopyInFlight;
use super::context::BlockContext;
use super::shared::SHARED_BASE;
use crate::fault::{Access, FaultKind};
use crate::pod::{Pod, to_bits};
use crate::race::{Kind, Noted};
use std::panic::Location;

impl BlockContext {
    /// Stores a `T` at an offset of this block's shared memory for the running thread, of any block
    /// of the cluster; returns whether it succeeded.
    #[inline(always)]
    pub(crate) fn store_shared<T: Pod>(&self, offset: usize, value: T) -> bool {
        self.shared.store(offset, value)
            || self.settle_reads(offset, size_of::<T>()) && self.shared.store(offset, value)
    }

    /// Whether `bytes` bytes at `address` are in one allocation and aligned to their size.
    #[inline(always)]
    pub(crate) fn global_fits(&self, address: u64, bytes: usize) -> bool {
        let aligned = address & (bytes as u64 - 1) == 0;
        aligned && (self.found.get().contains(address, bytes as u64) || self.find(address, bytes as u64))
    }

    #[inline(never)]
    fn find(&self, address: u64, bytes: u64) -> bool {
        // Kernels often alternate between two allocations.
        let last = (self.found.get(), self.found_number.get());
        let (mut span, mut number) = self.found_before.replace(last);
        if !span.contains(address, bytes) {
            let Some(found) = self.global.number_of(address) else { return false };
            (span, number) = (self.global.spans()[found], found);
        }
        self.found.set(span);
        self.found_number.set(number);
        span.contains(address, bytes)
    }

    /// Faults for a failed access to global memory. Returns only in a thread that already unwinds,
    /// which must not fault again.
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

    /// Faults for a failed access to shared memory. Returns only in a thread that already unwinds.
    #[cold]
    #[inline(never)]
    #[track_caller]
    pub(crate) fn shared_fault(&self, access: Access, address: u32, bytes: usize) {
        if !std::thread::panicking() {
            let kind = self.shared_fault_kind(access, address, bytes);
            self.raise_or_park(self, access, address, bytes, Location::caller(), kind)
        }
    }

    /// Faults for an access of the running thread, of this block, to the shared memory of `owner`.
    /// A read of bytes that are not written yet waits for a later write: then it is a race.
    #[cold]
    #[inline(never)]
    pub(crate) fn raise_or_park(
        &self,
        owner: &Self,
        access: Access,
        address: u32,
        bytes: usize,
        location: &'static Location<'static>,
        fault: FaultKind,
    ) -> ! {
        if self.clock.is_on()
            && matches!(
                fault,
                FaultKind::SharedUnwritten { .. } | FaultKind::SharedInFlight { issuer_exited: false, .. }
            )
        {
            let offset = address.wrapping_sub(SHARED_BASE) as usize;
            let kind = if access.writes() { Kind::Write } else { Kind::Read };
            owner.note_shared(Noted::new(access, kind, location), offset, bytes);
            if !access.writes() {
                self.park(offset as i64, location, fault);
            }
        }
        self.raise(location, fault)
    }

    /// The bits that a store of the running thread would change at an offset of this block's shared
    /// memory.
    #[inline(always)]
    pub(crate) fn changed_shared<T: Pod>(&self, offset: usize, value: T) -> u128 {
        if self.shared.fits(offset, size_of::<T>()) {
            to_bits(self.shared.peek::<T>(offset)) ^ to_bits(value)
        } else {
            u128::MAX
        }
    }

    /// The fault of an access to this block's shared memory.
    #[cold]
    #[inline(never)]
    pub(crate) fn shared_fault_kind(&self, access: Access, address: u32, bytes: usize) -> FaultKind {
        let offset = i64::from(address) - i64::from(SHARED_BASE);
        if offset < 0 || offset + bytes as i64 > self.shared.bytes() as i64 {
            FaultKind::SharedOutOfBounds { access, bytes, offset, shared_bytes: self.shared.bytes() }
        } else if offset & (bytes.next_power_of_two() as i64 - 1) != 0 && bytes <= 16 {
            FaultKind::SharedMisaligned { access, bytes, offset }
        } else if let Some(at) = self.shared.first_in_flight(offset as usize, bytes) {
            let CopyInFlight { what, issuer, issued_at, issuer_exited } = self.copy_to(at);
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
