//! Stacks of simulated threads, reused across blocks and launches.

use corosensei::stack::{DefaultStack, Stack, StackPointer};
use std::io;
use std::num::NonZeroUsize;
use std::sync::{Condvar, Mutex, PoisonError};

/// A stack whose first frame does not always start at the same offset within a page.
///
/// Stacks of one size are mapped at multiples of the page size, so their hot frames would share a
/// few sets of the processor's caches.
pub(crate) struct ThreadStack {
    inner: DefaultStack,
    base: StackPointer,
    /// The requested bytes.
    bytes: usize,
}

/// The distance between the first frames of successive stacks, and the number of different offsets.
const COLOUR_BYTES: usize = 320;
const COLOURS: usize = 64;

impl ThreadStack {
    fn new(bytes: usize, number: usize) -> io::Result<Self> {
        let shift = number % COLOURS * COLOUR_BYTES;
        let inner = DefaultStack::new(bytes + COLOURS * COLOUR_BYTES)?;
        let base =
            NonZeroUsize::new(inner.base().get() - shift).expect("the stack holds more than the shift");
        Ok(Self { inner, base, bytes })
    }

    /// The bytes that the thread may use.
    pub(crate) fn usable(&self) -> usize {
        self.bytes
    }
}

// SAFETY: the base stays a multiple of the stack alignment (16 bytes) and above the limit, and the
// memory between limit and base is that of `inner`, above its guard page.
unsafe impl Stack for ThreadStack {
    fn base(&self) -> StackPointer {
        self.base
    }

    fn limit(&self) -> StackPointer {
        self.inner.limit()
    }

    #[cfg(windows)]
    fn teb_fields(&self) -> corosensei::stack::StackTebFields {
        self.inner.teb_fields()
    }

    #[cfg(windows)]
    fn update_teb_fields(&mut self, stack_limit: usize, guaranteed_stack_bytes: usize) {
        self.inner.update_teb_fields(stack_limit, guaranteed_stack_bytes);
    }
}

/// The most stacks that the workers of a process may use at once.
///
/// A stack takes two of the 65,530 mappings that Linux grants a process, and as many again may be
/// idle.
pub(crate) const MAX_STACKS: usize = 12 * 1024;

/// The stacks of the process.
struct Stacks {
    /// Stacks reserved by all workers together.
    reserved: usize,
    /// The idle stacks, by size in bytes.
    idle: Vec<(usize, Vec<ThreadStack>)>,
}

static STACKS: Mutex<Stacks> = Mutex::new(Stacks { reserved: 0, idle: Vec::new() });
static RELEASED: Condvar = Condvar::new();

/// A worker's stacks, all of one size. Dropping the pool returns them to the process.
pub(crate) struct StackPool {
    bytes: usize,
    reserved: usize,
    made: usize,
    free: Vec<ThreadStack>,
}

impl StackPool {
    /// A pool of up to `count` stacks of at least `bytes`; it takes idle ones first. Waits while
    /// the workers of other launches use too many.
    pub(crate) fn new(bytes: usize, count: usize) -> Self {
        let stacks = STACKS.lock().unwrap_or_else(PoisonError::into_inner);
        let too_many = |stacks: &mut Stacks| stacks.reserved > 0 && stacks.reserved + count > MAX_STACKS;
        let mut stacks = RELEASED.wait_while(stacks, too_many).unwrap_or_else(PoisonError::into_inner);
        stacks.reserved += count;
        let left = stacks.idle.iter().position(|(size, _)| *size == bytes);
        let free = left.map(|at| stacks.idle.swap_remove(at).1).unwrap_or_default();
        Self { bytes, reserved: count, made: free.len(), free }
    }

    /// Takes a stack; maps a new one only if none is free.
    pub(crate) fn take(&mut self) -> io::Result<ThreadStack> {
        if let Some(stack) = self.free.pop() {
            return Ok(stack);
        }
        self.made += 1;
        ThreadStack::new(self.bytes, self.made)
    }

    /// Returns a stack to the pool.
    pub(crate) fn put(&mut self, stack: ThreadStack) {
        self.free.push(stack);
    }
}

impl Drop for StackPool {
    fn drop(&mut self) {
        let mut stacks = STACKS.lock().unwrap_or_else(PoisonError::into_inner);
        stacks.reserved -= self.reserved;
        let idle: usize = stacks.idle.iter().map(|(_, free)| free.len()).sum();
        if idle + self.free.len() <= MAX_STACKS {
            stacks.idle.push((self.bytes, std::mem::take(&mut self.free)));
        }
        RELEASED.notify_all();
    }
}
