//! Graphs and executable graphs.

use crate::captures::not_captured;
use crate::device::gpu::Gpu;
use crate::device::recording::Recording;
use crate::device::{Backend, Device};
use crate::driver::{self, check, sys};
use crate::stream::Stream;
use crate::{Error, Result};
use std::fmt;
use std::ptr::null_mut;
use std::sync::Arc;

/// Launches that were captured by [`Device::capture`].
pub struct Graph {
    device: Device,
    kind: Captured,
}

enum Captured {
    Gpu {
        gpu: &'static Gpu,
        raw: sys::CUgraph,
        /// The stream of the capture. It owns the launches' workspaces.
        stream: Stream,
    },
    Sim(Arc<Recording>),
}

// SAFETY: the driver accepts a graph from any thread, one at a time: it is not `Sync`.
unsafe impl Send for Graph {}

impl Graph {
    pub(super) fn of_recording(device: &Device, recording: Recording) -> Self {
        Self { device: device.clone(), kind: Captured::Sim(Arc::new(recording)) }
    }

    /// `raw` is a graph of the driver, captured on `stream`.
    pub(super) fn of_driver(gpu: &'static Gpu, stream: Stream, raw: sys::CUgraph) -> Self {
        Self { device: stream.device().clone(), kind: Captured::Gpu { gpu, raw, stream } }
    }

    /// The device of the capture.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Instantiates the graph.
    ///
    /// # Errors
    /// An error of the driver.
    pub fn instantiate(&self) -> Result<GraphExec> {
        let kind = match &self.kind {
            Captured::Sim(recording) => Executable::Sim(recording.clone()),
            Captured::Gpu { gpu, raw, stream } => {
                gpu.bind()?;
                let mut executable = null_mut();
                // SAFETY: the graph is alive, and the pointer to the result is writable.
                check(unsafe { sys::cuGraphInstantiateWithFlags(&mut executable, *raw, 0) })
                    .map_err(|code| gpu.error_of_code("cuGraphInstantiate", code))?;
                Executable::Gpu { gpu, raw: executable, stream: stream.clone() }
            }
        };
        Ok(GraphExec { device: self.device.clone(), kind })
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        if let Captured::Gpu { gpu, raw, .. } = &self.kind
            && gpu.bind().is_ok()
        {
            // SAFETY: only this value owns the graph, and executable graphs do not use it.
            let _ = unsafe { sys::cuGraphDestroy(*raw) };
        }
    }
}

impl fmt::Debug for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            Captured::Gpu { .. } => write!(f, "Graph({:?})", self.device),
            Captured::Sim(recording) => write!(f, "Graph({} launches, {:?})", recording.len(), self.device),
        }
    }
}

/// A graph that can be launched, from [`Graph::instantiate`]. It owns the workspaces of its
/// operations.
pub struct GraphExec {
    device: Device,
    kind: Executable,
}

enum Executable {
    Gpu { gpu: &'static Gpu, raw: sys::CUgraphExec, stream: Stream },
    Sim(Arc<Recording>),
}

// SAFETY: the driver accepts an executable graph from any thread, one at a time: it is not `Sync`.
unsafe impl Send for GraphExec {}

impl GraphExec {
    /// The device of its launches.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Launches the graph on a stream, and returns while it runs. Launches of one graph run in
    /// order, also across streams.
    ///
    /// # Errors
    /// [`Error::StreamOfOtherDevice`], [`Error::Captured`] while a graph is captured, an error of
    /// the driver, and on the simulator the faults of its kernels.
    ///
    /// # Safety
    /// The contract of each captured launch holds now: its buffers are alive until the graph has
    /// completed, and other streams use them as [`Device::launch`] allows.
    pub unsafe fn launch(&mut self, stream: &Stream) -> Result<()> {
        if stream.device() != &self.device {
            return Err(Error::StreamOfOtherDevice {
                stream: stream.device().label(),
                device: self.device.label(),
            });
        }
        not_captured("GraphExec::launch")?;
        match (&self.kind, &self.device.0) {
            (Executable::Gpu { gpu, raw, .. }, _) => {
                gpu.bind()?;
                gpu.launched("a graph");
                // SAFETY: both are alive and belong to the current context; the caller keeps the
                // contracts of the captured launches.
                check(unsafe { sys::cuGraphLaunch(*raw, stream.raw(gpu)) })
                    .map_err(|code| gpu.error_of_code("cuGraphLaunch", code))
            }
            (Executable::Sim(recording), Backend::Sim(simulator)) => {
                let stream = stream.simulated(simulator);
                // Another thread may be capturing on the stream.
                if stream.capture().is_some() {
                    return Err(Error::Captured { call: "GraphExec::launch" });
                }
                recording.run(simulator, stream.stream())
            }
            (Executable::Sim(_), Backend::Gpu(_)) => unreachable!("a recording is of a simulator"),
        }
    }

    /// Takes the arguments and grids of another graph with the same launches, which is faster than
    /// instantiating that graph.
    ///
    /// # Errors
    /// [`Error::GraphUpdate`] if the other graph has other launches (this one is then unchanged),
    /// [`Error::GraphOfOtherDevice`], or an error of the driver.
    pub fn update(&mut self, graph: &Graph) -> Result<()> {
        if graph.device != self.device {
            return Err(Error::GraphOfOtherDevice {
                graph: graph.device.label(),
                device: self.device.label(),
            });
        }
        match (&mut self.kind, &graph.kind) {
            (Executable::Sim(old), Captured::Sim(new)) => {
                new.check_replaces(old)?;
                *old = new.clone();
                Ok(())
            }
            (Executable::Gpu { gpu, raw, stream }, Captured::Gpu { raw: graph, stream: other, .. }) => {
                gpu.bind()?;
                // SAFETY: both are alive.
                match unsafe { driver::graph::update(*raw, *graph) } {
                    Ok(()) => {
                        // Frees the memory of the old launches after they have completed: the
                        // driver waits.
                        *stream = other.clone();
                        Ok(())
                    }
                    Err((_, Some(reason))) => Err(Error::GraphUpdate { reason }),
                    Err((code, None)) => Err(gpu.error_of_code("cuGraphExecUpdate", code)),
                }
            }
            _ => unreachable!("both are of one device"),
        }
    }
}

impl Drop for GraphExec {
    fn drop(&mut self) {
        if let Executable::Gpu { gpu, raw, .. } = &self.kind
            && gpu.bind().is_ok()
        {
            // A running launch still completes. SAFETY: only this value owns the executable graph
            // and destroys it once.
            let _ = unsafe { sys::cuGraphExecDestroy(*raw) };
        }
    }
}

impl fmt::Debug for GraphExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            Executable::Gpu { .. } => write!(f, "GraphExec({:?})", self.device),
            Executable::Sim(recording) => {
                write!(f, "GraphExec({} launches, {:?})", recording.len(), self.device)
            }
        }
    }
}
