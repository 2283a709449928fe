//! Atomic operations on global and shared memory, and fences.
//!
//! An address of type `u64` is in global memory, of type `u32` in shared memory. Each operation
//! returns the previous value. Operations of different blocks on one address have no fixed order,
//! so a floating-point sum over blocks may differ in its last bits from run to run, as on a GPU.

use crate::block::{SHARED_BASE, current, running};
use crate::fault::Access;
use crate::memory::words::{atomic, to_bits};
use crate::pod::{Pod, access_size, from_bits, poison};
use crate::profile::Action;
use crate::race::{GLOBAL, Kind, Noted, Scope};
use std::panic::Location;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};

/// An address with its space: `u64` is in global memory, `u32` in shared memory.
pub trait AtomicSpace: Copy {
    /// Replaces the `T` at the address by its `update`, and returns the previous value. With
    /// `of_block` the operation is atomic only for the threads of the block; `returns` says whether
    /// the instruction has a result.
    #[doc(hidden)]
    #[track_caller]
    fn update<T: Pod>(self, of_block: bool, returns: bool, update: impl Fn(T) -> T) -> T;
}

fn scoped(of_block: bool) -> (Kind, Scope) {
    if of_block { (Kind::BlockAtomic, Scope::Block) } else { (Kind::Atomic, Scope::Gpu) }
}

impl AtomicSpace for u64 {
    #[track_caller]
    fn update<T: Pod>(self, of_block: bool, returns: bool, update: impl Fn(T) -> T) -> T {
        let block = current();
        block.step();
        block.order_by_memory();
        if !block.global_fits(self, access_size::<T>()) {
            block.global_fault(Access::Atomic, self, size_of::<T>());
            return poison();
        }
        let action = if returns { Action::GlobalAtomic } else { Action::GlobalReduction };
        block.profile_access(action, self, size_of::<T>());
        let next = |bits: u64| to_bits(update(from_bits(bits.into()))) as u64;
        let act = || match size_of::<T>() {
            4 => {
                let next = |bits: u32| Some(next(bits.into()) as u32);
                atomic!(AtomicU32, self).fetch_update(SeqCst, SeqCst, next).map(u64::from).ok()
            }
            _ => atomic!(AtomicU64, self).fetch_update(SeqCst, SeqCst, |bits| Some(next(bits))).ok(),
        };
        let (kind, scope) = scoped(of_block);
        let noted = Noted::new(Access::Atomic, kind, Location::caller());
        let old = block.order_by_atomic(scope, GLOBAL, self, || {
            if !block.clock.is_on() {
                return act();
            }
            // Operations are recorded in execution order: a later operation has seen the earlier
            // ones.
            let mut old = None;
            let allocation = block.found_number.get();
            block.note_global_with(noted, allocation, self, size_of::<T>(), || old = act());
            old
        });
        from_bits(old.expect("the update never declines").into())
    }
}

impl AtomicSpace for u32 {
    #[track_caller]
    fn update<T: Pod>(self, of_block: bool, returns: bool, update: impl Fn(T) -> T) -> T {
        let block = current();
        block.step();
        block.order_by_memory();
        let action = if returns { Action::SharedAtomic } else { Action::SharedReduction };
        block.profile_access(action, self.into(), size_of::<T>());
        let offset = self.wrapping_sub(SHARED_BASE) as usize;
        // One OS thread runs the whole block, so no other access happens between load and store.
        let Some(old) = block.load_shared::<T>(offset) else {
            block.shared_fault(Access::Atomic, self, size_of::<T>());
            return poison();
        };
        if !block.store_shared(offset, update(old)) {
            block.shared_fault(Access::Atomic, self, size_of::<T>());
        }
        if block.clock.is_on() {
            let (kind, scope) = scoped(of_block);
            block.note_own(Noted::new(Access::Atomic, kind, Location::caller()), offset, size_of::<T>());
            block.order_by_atomic(scope, block.rank, self.into(), || ());
        }
        old
    }
}

/// Replaces the `T` (4 or 8 bytes) at `address` by its `update`, atomically, and returns the
/// previous value.
///
/// `update` may be called several times, and must not call intrinsics.
#[track_caller]
pub fn atomic_update<T: Pod>(address: impl AtomicSpace, update: impl Fn(T) -> T) -> T {
    const { assert!(matches!(size_of::<T>(), 4 | 8), "an atomic operation works on 4 or 8 bytes") };
    address.update(false, true, update)
}

/// Same as [`atomic_update`], but atomic only for the threads of the block (`.cta`): an atomic
/// operation of another block on the same address is a race.
#[track_caller]
pub fn atomic_update_of_block<T: Pod>(address: impl AtomicSpace, update: impl Fn(T) -> T) -> T {
    const { assert!(matches!(size_of::<T>(), 4 | 8), "an atomic operation works on 4 or 8 bytes") };
    address.update(true, true, update)
}

/// [`atomic_update`] without a result: `red`, which a profile counts separately from `atom`.
#[track_caller]
pub fn reduce_update<T: Pod>(address: impl AtomicSpace, update: impl Fn(T) -> T) {
    const { assert!(matches!(size_of::<T>(), 4 | 8), "an atomic operation works on 4 or 8 bytes") };
    address.update(false, false, update);
}

/// Replaces the value by `value`.
#[track_caller]
pub fn atomic_exchange<T: Pod>(address: impl AtomicSpace, value: T) -> T {
    atomic_update(address, |_| value)
}

/// Replaces the value by `value` if it is `expected`, bit for bit.
#[track_caller]
pub fn atomic_compare_exchange<T: Pod>(address: impl AtomicSpace, expected: T, value: T) -> T {
    atomic_update(address, |old| if to_bits(old) == to_bits(expected) { value } else { old })
}

/// A number with atomic addition, minimum and maximum.
pub trait AtomicNumber: Pod {
    /// The sum; integers wrap.
    #[doc(hidden)]
    fn add(self, other: Self) -> Self;
    /// The smaller.
    #[doc(hidden)]
    fn min(self, other: Self) -> Self;
    /// The larger.
    #[doc(hidden)]
    fn max(self, other: Self) -> Self;
}

/// An integer with atomic bit operations.
pub trait AtomicInteger: AtomicNumber {
    /// Bits set in both.
    #[doc(hidden)]
    fn and(self, other: Self) -> Self;
    /// Bits set in either.
    #[doc(hidden)]
    fn or(self, other: Self) -> Self;
    /// Bits set in one.
    #[doc(hidden)]
    fn xor(self, other: Self) -> Self;
}

macro_rules! integer {
    ($($t:ty),*) => { $(
        impl AtomicNumber for $t {
            fn add(self, other: Self) -> Self { self.wrapping_add(other) }
            fn min(self, other: Self) -> Self { Ord::min(self, other) }
            fn max(self, other: Self) -> Self { Ord::max(self, other) }
        }
        impl AtomicInteger for $t {
            fn and(self, other: Self) -> Self { self & other }
            fn or(self, other: Self) -> Self { self | other }
            fn xor(self, other: Self) -> Self { self ^ other }
        }
    )* };
}
integer!(u32, i32, u64, i64);

macro_rules! float {
    ($($t:ty),*) => { $(
        impl AtomicNumber for $t {
            fn add(self, other: Self) -> Self { self + other }
            fn min(self, other: Self) -> Self { <$t>::min(self, other) }
            fn max(self, other: Self) -> Self { <$t>::max(self, other) }
        }
    )* };
}
float!(f32, f64);

macro_rules! operations {
    ($($(#[$doc:meta])* $name:ident $bound:ident::$combine:ident;)*) => { $(
        $(#[$doc])*
        #[track_caller]
        pub fn $name<T: $bound>(address: impl AtomicSpace, value: T) -> T {
            atomic_update(address, |old: T| old.$combine(value))
        }
    )* };
}
operations! {
    /// Adds `value`; integers wrap.
    atomic_add AtomicNumber::add;
    /// Keeps the smaller of the two values.
    atomic_min AtomicNumber::min;
    /// Keeps the larger of the two values.
    atomic_max AtomicNumber::max;
    /// Keeps the bits that are set in both values.
    atomic_and AtomicInteger::and;
    /// Keeps the bits that are set in either value.
    atomic_or AtomicInteger::or;
    /// Keeps the bits that are set in one of the values.
    atomic_xor AtomicInteger::xor;
}

/// Orders the thread's earlier and later accesses for all threads of the GPU: `fence.acq_rel.gpu`.
///
/// A fence and a later atomic operation release the accesses before the fence. An atomic operation
/// that reads a released value, and a later fence, acquire them. The fence also passes on which
/// asynchronous reads are over, to all threads of the cluster that later execute a fence or an
/// atomic operation.
#[inline]
#[track_caller]
pub fn fence() {
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
    if let Some(block) = running() {
        block.profile_event("fence.acq_rel.gpu", Location::caller());
        block.order_by_memory();
        block.order_by_fence(Scope::Gpu);
    }
}

/// Same as [`fence`], but for the threads of the cluster only: `fence.acq_rel.cluster`.
#[inline]
#[track_caller]
pub fn fence_cluster() {
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
    if let Some(block) = running() {
        block.profile_event("fence.acq_rel.cluster", Location::caller());
        block.order_by_memory();
        block.order_by_fence(Scope::Cluster);
    }
}

/// Same as [`fence`], but for the threads of the block only: `fence.acq_rel.cta`. It orders no
/// accesses of two blocks.
#[inline]
#[track_caller]
pub fn fence_block() {
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
    if let Some(block) = running() {
        block.profile_event("fence.acq_rel.cta", Location::caller());
        block.order_by_memory();
        block.order_by_fence(Scope::Block);
    }
}
