//! A lock that is held for a few instructions.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, Ordering};

/// A value that one thread at a time uses. Unlocking is a plain store; `Mutex` needs a second
/// locked instruction, a tenth of the time of race detection.
#[derive(Default)]
pub(super) struct Spin<T> {
    locked: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: `with` lends the value to one thread at a time.
unsafe impl<T: Send> Sync for Spin<T> {}

/// Unlocks, also when the thread unwinds.
struct Unlock<'a>(&'a AtomicBool);

impl Drop for Unlock<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

/// The number of attempts after which a thread yields.
const SPINS: u32 = 64;

impl<T> Spin<T> {
    /// Calls `act` with the value under the lock. `act` must not take the lock again.
    #[inline(always)]
    pub(super) fn with<R>(&self, act: impl FnOnce(&mut T) -> R) -> R {
        if self.locked.swap(true, Ordering::Acquire) {
            self.wait();
        }
        let _unlock = Unlock(&self.locked);
        // SAFETY: this thread has locked the value, and unlocks it when `act` has returned or
        // panicked.
        act(unsafe { &mut *self.value.get() })
    }

    #[cold]
    #[inline(never)]
    fn wait(&self) {
        let mut spins = 0;
        while self.locked.load(Ordering::Relaxed) || self.locked.swap(true, Ordering::Acquire) {
            spins += 1;
            if spins % SPINS == 0 {
                std::thread::yield_now();
            } else {
                std::hint::spin_loop();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_use_the_value_one_after_the_other_and_a_panic_unlocks_it() {
        let sum = Spin::<u64>::default();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..20_000).for_each(|_| sum.with(|sum| *sum += 1)));
            }
        });
        let unwound =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| sum.with(|_| panic!("within"))));
        assert!(unwound.is_err());
        assert_eq!(sum.with(|sum| *sum), 80_000);
    }
}
