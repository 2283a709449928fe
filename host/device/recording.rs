//! Graphs on the simulator: recorded launches.

use super::simulator::Simulator;
use crate::grid::Grid;
use crate::{Error, Result};
use moye_device::kernel::{Kernel, Params};
use moye_sim::memory::Allocation;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The launches of a graph, and the workspaces of its operations.
#[derive(Default)]
pub(crate) struct Recording {
    /// In an order in which each launch follows the launches that it depends on.
    pub(super) launches: Vec<Launch>,
    pub(super) memory: Vec<Allocation>,
    /// The end of the last run.
    ended: Mutex<Option<moye_sim::Event>>,
}

/// A launch with its arguments.
pub(super) struct Launch {
    kernel: &'static str,
    run: Box<Run>,
    /// The captured launch's stream; 0 is the stream on which the capture began.
    stream: usize,
    /// The launches on which it depends directly.
    pub(super) after: Vec<usize>,
}

type Run = dyn Fn(&Simulator, &moye_sim::Stream) -> Result<()> + Send + Sync;

impl Launch {
    /// A launch on a stream, after the launches that it depends on.
    ///
    /// # Safety
    /// The kernel's contract holds whenever the recording is [run](Recording::run).
    pub unsafe fn new<P: Params>(
        kernel: &Kernel<P>,
        grid: Grid,
        parameters: P,
        stream: usize,
        after: Vec<usize>,
    ) -> Self {
        let kernel = *kernel;
        let run = move |simulator: &Simulator, stream: &moye_sim::Stream| {
            simulator.run(stream, kernel.name(), grid, kernel.shared_bytes(), &|| {
                // SAFETY: this runs inside a simulated thread; the caller of `new` keeps the
                // kernel's contract.
                unsafe { kernel.call(parameters) }
            })
        };
        Self { kernel: kernel.name(), run: Box::new(run), stream, after }
    }
}

impl Recording {
    /// Runs all launches after the earlier work of a stream; stops at the first one that fails.
    /// Launches captured on several streams race as they would on those streams.
    pub fn run(&self, simulator: &Simulator, stream: &moye_sim::Stream) -> Result<()> {
        // Launches of one graph run one after another, on any streams.
        if let Some(before) = &*lock(&self.ended) {
            stream.wait(before);
        }
        let last = self.launches.iter().map(|launch| launch.stream).max().unwrap_or(0);
        let mut streams = vec![stream.clone()];
        streams.resize_with(last + 1, || simulator.memory().new_stream());
        let start = stream.record();
        streams[1..].iter().for_each(|other| _ = other.wait(&start));
        let mut done = Vec::with_capacity(self.launches.len());
        let ran = self.launches.iter().try_for_each(|launch| {
            let on = &streams[launch.stream];
            launch.after.iter().for_each(|&before| _ = on.wait(&done[before]));
            (launch.run)(simulator, on)?;
            done.push(on.record());
            Ok(())
        });
        streams[1..].iter().for_each(|other| _ = stream.wait(&other.record()));
        *lock(&self.ended) = Some(stream.record());
        ran
    }

    /// Rejects a recording that cannot replace `old`.
    pub fn check_replaces(&self, old: &Self) -> Result<()> {
        // Like the driver's update, which replaces only arguments and grids.
        if self.edges().ne(old.edges()) {
            return Err(Error::GraphUpdate { reason: "it has other launches" });
        }
        let names = |of: &Self| of.launches.iter().map(|launch| launch.kernel).collect::<Vec<_>>();
        if names(self) != names(old) {
            return Err(Error::GraphUpdate { reason: "one of its launches is of another kernel" });
        }
        Ok(())
    }

    fn edges(&self) -> impl Iterator<Item = &[usize]> {
        self.launches.iter().map(|launch| &*launch.after)
    }

    /// The number of launches.
    pub fn len(&self) -> usize {
        self.launches.len()
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
