//! Streams: queues of work on a device.

use crate::Result;
use crate::device::gpu::Gpu;
use crate::device::{Backend, Device};
use crate::event::Event;
use crate::memory::Kept;
use std::fmt;
use std::sync::Arc;

/// A queue of launches that run one after the other, and may overlap with those of other streams.
///
/// On the simulator every launch is done when the call returns. A clone is another handle to the same stream.
#[derive(Clone)]
pub struct Stream {
    device: Device,
    /// The driver's stream; `None` for a device's default stream and on the simulator.
    own: Option<Arc<Own>>,
}

/// A stream of the driver, destroyed when the last handle is dropped.
struct Own {
    gpu: &'static Gpu,
    /// Always `Some` until dropped.
    stream: Option<cust::stream::Stream>,
    counters: Kept,
}

impl Drop for Own {
    fn drop(&mut self) {
        // The driver destroys a stream in the context that is current; work in the stream still runs to its end.
        if self.gpu.bind().is_err() {
            std::mem::forget(self.stream.take());
        } else if let Some(stream) = &self.stream {
            // SAFETY: the last handle goes, and the context was bound.
            unsafe { self.counters.free(stream) };
        }
    }
}

impl Stream {
    pub(crate) fn default_of(device: &Device) -> Self {
        Self { device: device.clone(), own: None }
    }

    pub(crate) fn new(device: &Device) -> Result<Self> {
        let own = match &device.0 {
            Backend::Sim(_) => None,
            Backend::Gpu(gpu) => {
                gpu.bind()?;
                let stream = cust::stream::Stream::new(cust::stream::StreamFlags::DEFAULT, None)
                    .map_err(|e| gpu.error("cuStreamCreate", e))?;
                Some(Arc::new(Own { gpu, stream: Some(stream), counters: Kept::default() }))
            }
        };
        Ok(Self { device: device.clone(), own })
    }

    /// The device that it belongs to.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The driver's stream on `gpu`, the GPU that this stream belongs to.
    pub(crate) fn raw<'a>(&'a self, gpu: &'static Gpu) -> &'a cust::stream::Stream {
        self.own.as_ref().and_then(|own| own.stream.as_ref()).unwrap_or(gpu.stream())
    }

    /// Where the stream keeps its counters on `gpu`, the GPU that it belongs to.
    pub(crate) fn counters<'a>(&'a self, gpu: &'static Gpu) -> &'a Kept {
        self.own.as_ref().map_or(gpu.counters(), |own| &own.counters)
    }

    /// The driver's stream, a `CUstream`, for other libraries that launch on it; null on the simulator. It lives as long as
    /// this stream has handles, the default stream as long as the process. The GPU's context, the device's primary one,
    /// becomes that of the calling thread.
    ///
    /// # Errors
    /// The driver's own.
    pub fn raw_handle(&self) -> Result<*mut std::ffi::c_void> {
        match &self.device.0 {
            Backend::Sim(_) => Ok(std::ptr::null_mut()),
            Backend::Gpu(gpu) => {
                gpu.bind()?;
                Ok(self.raw(gpu).as_inner().cast())
            }
        }
    }

    /// Waits for all launches on the stream, and reports what went wrong in them.
    ///
    /// # Errors
    /// [`Error::KernelFault`](crate::Error::KernelFault) where a kernel failed on the GPU; the simulator reports faults
    /// at the launch.
    pub fn synchronize(&self) -> Result<()> {
        match &self.device.0 {
            Backend::Sim(_) => Ok(()),
            Backend::Gpu(gpu) => {
                gpu.bind()?;
                self.raw(gpu).synchronize().map_err(|e| gpu.error("cuStreamSynchronize", e))
            }
        }
    }

    /// An event that happens when all launches made so far on the stream have ended.
    ///
    /// # Errors
    /// The driver's own.
    pub fn record(&self) -> Result<Event> {
        Event::record(self)
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.own.is_some() { "own" } else { "default" };
        write!(f, "Stream({kind}, {:?})", self.device)
    }
}
