//! The threads of launches, which a forked process does not inherit.

use rayon::{ThreadPool, ThreadPoolBuilder};
use std::ptr;
use std::sync::atomic::AtomicPtr;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

/// The per-process state of launches.
pub(crate) struct Process {
    id: u32,
    /// The threads, in place of `rayon`'s, which only the parent has.
    pool: Option<ThreadPool>,
    /// Launches in progress.
    running: AtomicUsize,
    /// Whether a launch of the parent ran at the fork: its locks are held forever.
    is_cut_off: bool,
}

/// The state of the process, or of its parent after a fork. Never freed.
static CURRENT: AtomicPtr<Process> = AtomicPtr::new(ptr::null_mut());

/// A launch in progress.
pub(crate) struct Running(&'static Process);

impl Process {
    /// The state of this process.
    ///
    /// # Errors
    /// If threads cannot be started.
    pub(crate) fn current() -> Result<&'static Self, String> {
        let id = std::process::id();
        loop {
            let known = CURRENT.load(Acquire);
            // SAFETY: null or from a box that is never freed.
            let known_process = unsafe { known.as_ref() };
            if let Some(process) = known_process
                && process.id == id
            {
                return Ok(process);
            }
            let pool = match known_process {
                None => None,
                Some(_) => {
                    Some(ThreadPoolBuilder::new().num_threads(rayon::current_num_threads()).build().map_err(
                        |reason| {
                            format!("the process was forked, and its threads cannot be started: {reason}")
                        },
                    )?)
                }
            };
            let is_cut_off =
                known_process.is_some_and(|parent| parent.is_cut_off || parent.running.load(Relaxed) > 0);
            let new = Box::into_raw(Box::new(Self { id, pool, running: AtomicUsize::new(0), is_cut_off }));
            if CURRENT.compare_exchange(known, new, AcqRel, Acquire).is_err() {
                // SAFETY: created above, and not shared with another thread.
                drop(unsafe { Box::from_raw(new) });
            }
        }
    }

    /// Counts a launch until the result is dropped.
    ///
    /// # Errors
    /// If a launch of the parent ran when it forked.
    pub(crate) fn enter(&'static self) -> Result<Running, String> {
        if self.is_cut_off {
            return Err(
                "the process was forked while another thread ran a launch, which this one does not have; \
                        start it by `spawn` or `exec`, or fork between launches"
                    .to_owned(),
            );
        }
        self.running.fetch_add(1, Relaxed);
        Ok(Running(self))
    }

    /// Runs `work` where its tasks have threads: in the caller's pool, or in that of the process.
    pub(crate) fn scope<'scope>(&self, work: impl FnOnce(&rayon::Scope<'scope>) + Send) {
        match &self.pool {
            Some(pool) if rayon::current_thread_index().is_none() => pool.scope(work),
            _ => rayon::scope(work),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Relaxed);
    }
}
