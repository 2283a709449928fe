//! The capture of a graph.

use super::executable::Graph;
use crate::Result;
use crate::captures::Counted;
use crate::device::gpu::Gpu;
use crate::device::simulated::Simulated;
use crate::device::{Backend, Device};
use crate::driver::{check, sys};
use crate::stream::Stream;
use std::ptr::null_mut;
use std::sync::Arc;

/// A capture of the driver. It ends even if the work panics.
struct Running {
    gpu: &'static Gpu,
    stream: sys::CUstream,
}

impl Running {
    fn begin(gpu: &'static Gpu, stream: &Stream) -> Result<Self> {
        gpu.bind()?;
        let raw = stream.raw(gpu);
        // Allows calls of this thread that the driver considers unsafe, such as loading a kernel.
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        // SAFETY: the stream is alive and belongs to the current context.
        check(unsafe { sys::cuStreamBeginCapture_v2(raw, mode) })
            .map_err(|code| gpu.error_of_code("cuStreamBeginCapture", code))?;
        Ok(Self { gpu, stream: raw })
    }

    /// The captured graph.
    fn end(self) -> Result<sys::CUgraph> {
        let graph = self.stop();
        std::mem::forget(self);
        graph
    }

    fn stop(&self) -> Result<sys::CUgraph> {
        self.gpu.bind()?;
        let mut graph = null_mut();
        // SAFETY: `begin` began the capture; the pointer to the graph is writable.
        check(unsafe { sys::cuStreamEndCapture(self.stream, &mut graph) })
            .map_err(|code| self.gpu.error_of_code("cuStreamEndCapture", code))?;
        Ok(graph)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Ok(graph) = self.stop()
            && !graph.is_null()
        {
            // SAFETY: only this capture owns the graph.
            let _ = unsafe { sys::cuGraphDestroy(graph) };
        }
    }
}

/// A capture of the simulator. It ends even if the work panics.
struct Recorder<'a>(&'a Simulated);

impl Drop for Recorder<'_> {
    fn drop(&mut self) {
        // This fails after `end_capture`, when there is nothing to end.
        let _ = self.0.end_capture();
    }
}

impl Device {
    /// Captures the launches of `work` on the given stream in a graph, and runs none of them.
    ///
    /// The stream is created for this capture. Another stream joins the capture when it
    /// [waits](Stream::wait) for an event of this one: its launches are then captured too, until
    /// the capture ends, and this stream must wait for an event after the last of them. Launches
    /// without an order by events may run at the same time. After the capture, clones of the stream
    /// have no work, and its events never happen.
    ///
    /// Operations run on the given stream; the graph owns their workspaces. Kernels that were not
    /// launched before are loaded during the capture.
    ///
    /// Transfers, waits of the host and [`fill_bytes`](crate::Buffer::fill_bytes) are synchronous
    /// and return an error during a capture. Allocations are allowed; a buffer that `work` drops is
    /// freed at once, so the graph must not use it.
    ///
    /// On the simulator the launches are recorded, and a launch of the graph runs them.
    ///
    /// ```
    /// use moye::{Device, Grid, Matrix, MatrixMut};
    /// let device = Device::sim();
    /// let mut x = device.upload(&[1.0f32, 2.0, 3.0, 4.0])?;
    /// let mut y = device.alloc_zeroed::<f32>(4)?;
    /// let graph = device.capture(|stream| {
    ///     let (x, mut y) = (Matrix::row_major(&x, 2, 2)?, MatrixMut::row_major(&mut y, 2, 2)?);
    ///     // SAFETY: nothing else uses the buffers.
    ///     unsafe { moye::transpose_on(stream, &x, &mut y) }
    /// })?;
    /// let mut graph = graph.instantiate()?;
    /// x.upload_from(&[5.0, 6.0, 7.0, 8.0])?;
    /// // SAFETY: `x` and `y` are alive, and nothing else uses them.
    /// unsafe { graph.launch(&device.default_stream())? };
    /// assert_eq!(y.download()?, [5.0, 7.0, 6.0, 8.0]);
    /// # Ok::<(), moye::Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of `work`; [`Error::Captured`] for a call that cannot be captured;
    /// [`Error::Capture`] for work of another stream that this one does not wait for, and for
    /// events outside the capture; or an error of the driver.
    pub fn capture(&self, work: impl FnOnce(&Stream) -> Result<()>) -> Result<Graph> {
        match &self.0 {
            Backend::Sim(simulator) => {
                let stream = Arc::new(Simulated::capturing(simulator.memory()));
                let running = Recorder(&stream);
                let counted = Counted::new();
                // If it fails or panics, `running` ends the capture.
                work(&Stream::simulating(self, stream.clone()))?;
                drop(counted);
                let recording = running.0.end_capture()?;
                Ok(Graph::of_recording(self, recording))
            }
            Backend::Gpu(gpu) => {
                let stream = Stream::for_capture(self, gpu)?;
                let running = Running::begin(gpu, &stream)?;
                let counted = Counted::new();
                // If it fails or panics, `running` ends the capture.
                work(&stream)?;
                drop(counted);
                let graph = running.end()?;
                Ok(Graph::of_driver(gpu, stream, graph))
            }
        }
    }
}
