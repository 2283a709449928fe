//! Graphs on the simulator: recorded launches.

use crate::device::simulator::Simulator;
use crate::launch::Grid;
use crate::{Error, Result};
use moye_device::kernel::{Kernel, Params};
use moye_sim::memory::Allocation;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The launches of a graph in order, and the workspaces of its operations.
#[derive(Default)]
pub(crate) struct Recording {
    launches: Mutex<Vec<Arc<Launch>>>,
    memory: Mutex<Vec<Allocation>>,
    /// The end of its last run.
    ended: Mutex<Option<moye_sim::Event>>,
}

/// A launch with its arguments.
struct Launch {
    kernel: &'static str,
    run: Box<Run>,
}

type Run = dyn Fn(&Simulator, &moye_sim::Stream) -> Result<()> + Send + Sync;

impl Recording {
    /// Records a launch.
    ///
    /// # Safety
    /// The kernel's contract holds whenever the launch is [run](Self::run).
    pub unsafe fn add<P: Params>(&self, kernel: &Kernel<P>, grid: Grid, parameters: P) {
        let kernel = *kernel;
        let run = move |simulator: &Simulator, stream: &moye_sim::Stream| {
            simulator.run(stream, kernel.name(), grid, kernel.shared_bytes(), &|| {
                // SAFETY: this runs inside a simulated thread; the kernel's contract is that of
                // `add`.
                unsafe { kernel.call(parameters) }
            })
        };
        lock(&self.launches).push(Arc::new(Launch { kernel: kernel.name(), run: Box::new(run) }));
    }

    /// Memory that lives as long as the recording: the device address of its first byte.
    pub fn alloc(&self, simulator: &Simulator, bytes: usize) -> Result<u64> {
        Ok(self.keep(simulator.memory().alloc(bytes, format!("a graph's {bytes} bytes"))?))
    }

    /// The same, zeroed.
    pub fn alloc_zeroed(&self, simulator: &Simulator, bytes: usize) -> Result<u64> {
        let allocation = simulator.memory().alloc(bytes, format!("a graph's {bytes} bytes"))?;
        allocation.fill(0, bytes, 0)?;
        Ok(self.keep(allocation))
    }

    fn keep(&self, allocation: Allocation) -> u64 {
        let address = allocation.address();
        lock(&self.memory).push(allocation);
        address
    }

    /// Runs all launches on a stream; the first one that fails ends it.
    pub fn run(&self, simulator: &Simulator, stream: &moye_sim::Stream) -> Result<()> {
        // Launches of one graph run one after the other, whatever the streams.
        if let Some(before) = &*lock(&self.ended) {
            stream.wait(before);
        }
        // Without the lock: another thread may run the same graph.
        let launches = lock(&self.launches).clone();
        let ran = launches.iter().try_for_each(|launch| (launch.run)(simulator, stream));
        *lock(&self.ended) = Some(stream.record());
        ran
    }

    /// Refuses a recording that this one cannot replace.
    pub fn check_replaces(&self, old: &Self) -> Result<()> {
        let names = |of: &Self| lock(&of.launches).iter().map(|launch| launch.kernel).collect::<Vec<_>>();
        let (new, old) = (names(self), names(old));
        if new.len() != old.len() {
            return Err(Error::GraphUpdate { reason: "it has other launches" });
        }
        // Like the driver, which only replaces arguments and grids.
        if new != old {
            return Err(Error::GraphUpdate { reason: "one of its launches is of another kernel" });
        }
        Ok(())
    }

    /// The number of launches.
    pub fn len(&self) -> usize {
        lock(&self.launches).len()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
