//! Streams: queues of work on a device.

use crate::device::gpu::Gpu;
use crate::device::{Backend, Device};
use crate::driver::check;
use crate::event::Event;
use crate::memory::Kept;
use crate::{Error, Result};
use cust::sys;
use std::fmt;
use std::sync::Arc;

/// A queue of launches that run one after the other, and may overlap with those of other streams.
///
/// On the simulator every launch is done when the call returns. A clone is another handle to the same stream.
#[derive(Clone)]
pub struct Stream {
    device: Device,
    /// The driver's stream; `None` for a device's default stream and on the simulator.
    shared: Option<Arc<Shared>>,
}

/// A stream of the driver, destroyed with the last handle where it was created here.
struct Shared {
    gpu: &'static Gpu,
    raw: sys::CUstream,
    is_borrowed: bool,
    counters: Kept,
}

// SAFETY: the driver takes a stream from any thread.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Drop for Shared {
    fn drop(&mut self) {
        // The driver destroys a stream in the context that is current; work in the stream still runs to its end.
        if self.gpu.bind().is_err() {
            return;
        }
        // SAFETY: this was the last handle, and the context was bound. A borrowed stream is still alive.
        unsafe { self.counters.free(self.raw) };
        if !self.is_borrowed {
            // SAFETY: created in `new`, destroyed once.
            let _ = unsafe { sys::cuStreamDestroy_v2(self.raw) };
        }
    }
}

impl Stream {
    pub(crate) fn default_of(device: &Device) -> Self {
        Self { device: device.clone(), shared: None }
    }

    pub(crate) fn new(device: &Device) -> Result<Self> {
        let shared = match &device.0 {
            Backend::Sim(_) => None,
            Backend::Gpu(gpu) => {
                gpu.bind()?;
                let mut raw = std::ptr::null_mut();
                // SAFETY: the place for the stream may be written. Without flags and of the default priority.
                check(unsafe { sys::cuStreamCreateWithPriority(&mut raw, 0, 0) })
                    .map_err(|code| gpu.error_of_code("cuStreamCreate", code))?;
                Some(Arc::new(Shared { gpu, raw, is_borrowed: false, counters: Kept::default() }))
            }
        };
        Ok(Self { device: device.clone(), shared })
    }

    /// A stream that another library has made, a `CUstream`; also its legacy and per-thread default streams (null, 1
    /// and 2). It is not destroyed here.
    ///
    /// Launches are ordered with what the other library launches on the stream. Transfers use the driver's null
    /// stream, which does not wait for a stream made with `CU_STREAM_NON_BLOCKING`: synchronise before them.
    ///
    /// On the simulator the only handle is null, which gives the default stream.
    ///
    /// # Errors
    /// [`Error::ForeignHandle`] where the stream is of another context than the device's, or not null on the
    /// simulator; the driver's own.
    ///
    /// # Safety
    /// `stream` is a live stream of the driver. It outlives the last handle to the result.
    pub unsafe fn from_raw_handle(device: &Device, stream: *mut std::ffi::c_void) -> Result<Self> {
        let gpu = match &device.0 {
            Backend::Sim(_) if stream.is_null() => return Ok(Self::default_of(device)),
            Backend::Sim(_) => {
                let detail = "the simulator has no streams of the driver; give a null stream";
                return Err(Error::ForeignHandle { what: "stream", detail });
            }
            Backend::Gpu(gpu) => *gpu,
        };
        gpu.bind()?;
        let (raw, mut context) = (stream.cast(), std::ptr::null_mut());
        // SAFETY: the caller's stream; the place for the result may be written.
        check(unsafe { sys::cuStreamGetCtx(raw, &mut context) })
            .map_err(|code| gpu.error_of_code("cuStreamGetCtx", code))?;
        if context != gpu.context() {
            let detail = "it is of another context than the device's; make the device by `Device::from_raw_context` of that one";
            return Err(Error::ForeignHandle { what: "stream", detail });
        }
        let shared = Shared { gpu, raw, is_borrowed: true, counters: Kept::default() };
        Ok(Self { device: device.clone(), shared: Some(Arc::new(shared)) })
    }

    /// The device that it belongs to.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The driver's stream on `gpu`, the GPU that this stream belongs to.
    pub(crate) fn raw(&self, gpu: &'static Gpu) -> sys::CUstream {
        self.shared.as_ref().map_or_else(|| gpu.stream().as_inner(), |shared| shared.raw)
    }

    /// Where the stream keeps its counters on `gpu`, the GPU that it belongs to.
    pub(crate) fn counters<'a>(&'a self, gpu: &'static Gpu) -> &'a Kept {
        self.shared.as_ref().map_or(gpu.counters(), |shared| &shared.counters)
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
                Ok(self.raw(gpu).cast())
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
                // SAFETY: the stream is alive, and its context is current.
                check(unsafe { sys::cuStreamSynchronize(self.raw(gpu)) })
                    .map_err(|code| gpu.error_of_code("cuStreamSynchronize", code))
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

    /// Makes what is launched on this stream from now on wait for an event, also one of another stream.
    ///
    /// # Errors
    /// [`Error::EventsOfTwoDevices`] for an event of another device; the driver's own.
    pub fn wait(&self, event: &Event) -> Result<()> {
        event.hold(self)
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match &self.shared {
            None => "default",
            Some(shared) if shared.is_borrowed => "borrowed",
            Some(_) => "own",
        };
        write!(f, "Stream({kind}, {:?})", self.device)
    }
}
