//! Streams: queues of work on a device.

use crate::captures::not_captured;
use crate::device::gpu::Gpu;
use crate::device::kept::{Kept, Raw};
use crate::device::simulated::{Capture, Simulated};
use crate::device::simulator::Simulator;
use crate::device::{Backend, Device};
use crate::driver::{check, sys};
use crate::{Error, Result};
use std::fmt;
use std::sync::Arc;

/// A queue of launches that run in order, and may overlap with those of other streams.
///
/// On the simulator every launch is complete when the call returns. An access to data of a launch
/// on another stream, without an event or a wait of the host in between, is still a fault. A clone
/// is another handle to the same stream.
///
/// On a GPU a stream keeps the workspaces of operations such as products, up to 256 MiB: after the
/// first call of a size, calls allocate nothing and wait for nothing. The last handle frees them.
/// While another library captures the stream, workspaces are memory nodes of its graph. With
/// [`Stream::with_workspaces`] the caller provides them instead.
#[derive(Clone)]
pub struct Stream {
    device: Device,
    kind: Kind,
    workspaces: Option<Arc<Allocate>>,
}

/// Allocates a workspace of this many bytes and returns its device address.
type Allocate = dyn Fn(usize) -> Result<u64> + Send + Sync;

/// The alignment of a workspace in bytes, equal to the driver's.
pub(crate) const WORKSPACE_ALIGN: u64 = 256;

#[derive(Clone)]
enum Kind {
    /// The default stream of a device.
    Default,
    /// A stream of the simulator.
    Sim(Arc<Simulated>),
    /// A stream of the driver.
    Gpu(Arc<Shared>),
}

/// A stream of the driver. The last handle destroys it, unless another library created it.
struct Shared {
    gpu: &'static Gpu,
    raw: sys::CUstream,
    is_borrowed: bool,
    /// Whether it was created for the capture of a graph, which owns its workspaces.
    captures: bool,
    kept: Kept,
}

// SAFETY: the driver accepts a stream from any thread.
unsafe impl Send for Shared {}
// SAFETY: the driver accepts a stream from any thread.
unsafe impl Sync for Shared {}

impl Drop for Shared {
    fn drop(&mut self) {
        // The driver destroys a stream in the current context; its work still completes.
        if self.gpu.bind().is_err() {
            return;
        }
        // SAFETY: this was the last handle, and the context is current. A borrowed stream is still
        // alive.
        unsafe { self.kept.free(self.raw, self.captures) };
        if !self.is_borrowed {
            // SAFETY: created in `new`, destroyed once.
            let _ = unsafe { sys::cuStreamDestroy_v2(self.raw) };
        }
    }
}

impl Device {
    /// The stream of [`Device::launch`].
    pub fn default_stream(&self) -> Stream {
        Stream::default_of(self)
    }

    /// A new stream: its work may overlap with that of other streams.
    ///
    /// # Errors
    /// An error of the driver.
    pub fn new_stream(&self) -> Result<Stream> {
        Stream::new(self)
    }
}

impl Stream {
    pub(crate) fn default_of(device: &Device) -> Self {
        Self::of_kind(device, Kind::Default)
    }

    fn of_kind(device: &Device, kind: Kind) -> Self {
        Self { device: device.clone(), kind, workspaces: None }
    }

    pub(crate) fn new(device: &Device) -> Result<Self> {
        match &device.0 {
            Backend::Sim(simulator) => {
                Ok(Self::simulating(device, Arc::new(Simulated::new(simulator.memory().new_stream()))))
            }
            Backend::Gpu(gpu) => Self::create(device, gpu, false),
        }
    }

    /// A stream for the capture of a graph. Transfers on other threads do not wait for it.
    pub(crate) fn for_capture(device: &Device, gpu: &'static Gpu) -> Result<Self> {
        Self::create(device, gpu, true)
    }

    /// A stream of the simulator.
    pub(crate) fn simulating(device: &Device, stream: Arc<Simulated>) -> Self {
        Self::of_kind(device, Kind::Sim(stream))
    }

    fn create(device: &Device, gpu: &'static Gpu, captures: bool) -> Result<Self> {
        /// `CU_STREAM_NON_BLOCKING`
        const NON_BLOCKING: u32 = 1;
        gpu.bind()?;
        let mut raw = std::ptr::null_mut();
        let flags = if captures { NON_BLOCKING } else { 0 };
        // SAFETY: the pointer to the stream is writable; 0 is the default priority.
        check(unsafe { sys::cuStreamCreateWithPriority(&mut raw, flags, 0) })
            .map_err(|code| gpu.error_of_code("cuStreamCreate", code))?;
        let shared = Shared { gpu, raw, is_borrowed: false, captures, kept: Kept::default() };
        Ok(Self::of_kind(device, Kind::Gpu(Arc::new(shared))))
    }

    /// A stream (`CUstream`) that another library created, including its legacy and per-thread
    /// default streams (null, 1 and 2). It is not destroyed here. This handle owns the workspaces
    /// of operations on it: keep it, so that calls after the first allocate nothing.
    ///
    /// Launches are ordered with the other library's launches on the stream. Transfers use the
    /// driver's null stream, which does not wait for a stream created with
    /// `CU_STREAM_NON_BLOCKING`: synchronise before them.
    ///
    /// On the simulator the only valid handle is null, for the default stream.
    ///
    /// # Errors
    /// [`Error::ForeignHandle`] if the stream belongs to another context than the device's, or is
    /// not null on the simulator; or an error of the driver.
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
        // SAFETY: the caller passes a live stream; the pointer to the result is writable.
        check(unsafe { sys::cuStreamGetCtx(raw, &mut context) })
            .map_err(|code| gpu.error_of_code("cuStreamGetCtx", code))?;
        if context != gpu.context() {
            let detail = "it is of another context than the device's; make the device by `Device::from_raw_context` of that one";
            return Err(Error::ForeignHandle { what: "stream", detail });
        }
        let shared = Shared { gpu, raw, is_borrowed: true, captures: false, kept: Kept::default() };
        Ok(Self::of_kind(device, Kind::Gpu(Arc::new(shared))))
    }

    /// A handle to the same stream whose operations take their workspaces from `allocate`: from a
    /// framework's allocator, or from memory that the caller keeps. `allocate` receives a number of
    /// bytes and returns the device address of that much memory, aligned to 256, with any contents;
    /// the operation returns its error. An operation's `explain` reports the number of bytes.
    ///
    /// ```
    /// use moye::{Device, Error, Matmul, Matrix, MatrixMut};
    /// let device = Device::sim();
    /// let x = device.upload(&[1.0f32; 32 * 32])?;
    /// let mut y = device.alloc_uninit::<f32>(32 * 32)?;
    /// let memory = device.alloc_uninit::<u8>((1 << 20) + 255)?;
    /// let allocate = move |bytes| match bytes <= 1 << 20 {
    ///     true => Ok(memory.address().next_multiple_of(256)),
    ///     false => Err(Error::Workspace { bytes, reason: "there is 1 MiB".to_owned() }),
    /// };
    /// // SAFETY: one stream uses the memory, which the closure keeps.
    /// let stream = unsafe { device.new_stream()?.with_workspaces(allocate) };
    /// let mut c = MatrixMut::row_major(&mut y, 32, 32)?;
    /// let [a, b] = [Matrix::row_major(&x, 32, 32)?, Matrix::row_major(&x, 32, 32)?];
    /// let product = Matmul::new(a, b).split_k(2);
    /// // SAFETY: no other stream uses the buffers.
    /// unsafe { product.run_on(&stream, &mut c)? };
    /// assert_eq!(y.download()?, [32.0; 32 * 32]);
    /// # Ok::<(), moye::Error>(())
    /// ```
    ///
    /// # Safety
    /// `allocate(bytes)` returns the address of `bytes` bytes of the device's memory. From the
    /// return of `allocate` to the end of the operation's launches, and of the launches of a graph
    /// that has captured them, the memory stays allocated and other work uses it only in stream
    /// order.
    pub unsafe fn with_workspaces(
        &self,
        allocate: impl Fn(usize) -> Result<u64> + Send + Sync + 'static,
    ) -> Self {
        Self { workspaces: Some(Arc::new(allocate)), ..self.clone() }
    }

    /// The address of a workspace from the caller; `None` if the stream keeps its workspaces.
    pub(crate) fn given_workspace(&self, bytes: usize) -> Result<Option<u64>> {
        let Some(allocate) = &self.workspaces else { return Ok(None) };
        let address = allocate(bytes)?;
        if !address.is_multiple_of(WORKSPACE_ALIGN) {
            let reason = format!("its address {address:#x} is not a multiple of {WORKSPACE_ALIGN}");
            return Err(Error::Workspace { bytes, reason });
        }
        Ok(Some(address))
    }

    /// The device that it belongs to.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The driver's stream on `gpu`, the GPU of this stream.
    pub(crate) fn raw(&self, gpu: &'static Gpu) -> sys::CUstream {
        match &self.kind {
            Kind::Gpu(shared) => shared.raw,
            _ => gpu.stream(),
        }
    }

    /// The owner of the memory that the stream keeps on `gpu`, the GPU of this stream.
    pub(crate) fn owner(&self, gpu: &'static Gpu) -> Raw {
        Raw { stream: self.raw(gpu), captures: self.captures() }
    }

    /// The stream's counters and workspace on `gpu`, the GPU of this stream.
    pub(crate) fn kept<'a>(&'a self, gpu: &'static Gpu) -> &'a Kept {
        match &self.kind {
            Kind::Gpu(shared) => &shared.kept,
            _ => gpu.kept(),
        }
    }

    /// Whether it was created for the capture of a graph on a GPU.
    pub(crate) fn captures(&self) -> bool {
        matches!(&self.kind, Kind::Gpu(shared) if shared.captures)
    }

    /// Whether another library is capturing it in a graph, on a GPU whose context is current.
    /// Launches of that graph run on any stream, so they must not use memory that this stream
    /// keeps.
    pub(crate) fn is_captured_elsewhere(&self, gpu: &'static Gpu) -> Result<bool> {
        if self.captures() {
            return Ok(false);
        }
        let mut status = sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
        // SAFETY: the stream is alive and belongs to the current context; the pointer to the result
        // is writable.
        check(unsafe { sys::cuStreamIsCapturing(self.raw(gpu), &mut status) })
            .map_err(|code| gpu.error_of_code("cuStreamIsCapturing", code))?;
        Ok(status != sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE)
    }

    /// This stream on `simulator`, to which it belongs.
    pub(crate) fn simulated<'a>(&'a self, simulator: &'a Simulator) -> &'a Simulated {
        match &self.kind {
            Kind::Sim(stream) => stream,
            _ => simulator.default_stream(),
        }
    }

    /// The current capture of a simulated stream.
    pub(crate) fn recorded(&self) -> Option<Arc<Capture>> {
        match &self.device.0 {
            Backend::Sim(simulator) => self.simulated(simulator).capture(),
            Backend::Gpu(_) => None,
        }
    }

    /// The driver's stream (`CUstream`), for other libraries that launch on it; null on the
    /// simulator. It lives as long as this stream has handles, the default stream as long as the
    /// process. The GPU's primary context becomes current on the calling thread.
    ///
    /// # Errors
    /// An error of the driver.
    pub fn raw_handle(&self) -> Result<*mut std::ffi::c_void> {
        match &self.device.0 {
            Backend::Sim(_) => Ok(std::ptr::null_mut()),
            Backend::Gpu(gpu) => {
                gpu.bind()?;
                Ok(self.raw(gpu).cast())
            }
        }
    }

    /// Waits for all launches on the stream, and reports their errors.
    ///
    /// # Errors
    /// [`Error::KernelFault`](crate::Error::KernelFault) if a kernel failed on the GPU; the
    /// simulator reports faults at the launch.
    pub fn synchronize(&self) -> Result<()> {
        not_captured("a wait for a stream")?;
        match &self.device.0 {
            Backend::Sim(simulator) => self.simulated(simulator).synchronize(),
            Backend::Gpu(gpu) => {
                gpu.bind()?;
                // SAFETY: the stream is alive, and its context is current.
                check(unsafe { sys::cuStreamSynchronize(self.raw(gpu)) })
                    .map_err(|code| gpu.error_of_code("cuStreamSynchronize", code))
            }
        }
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match &self.kind {
            Kind::Default => "default",
            Kind::Gpu(shared) if shared.captures => "capture",
            Kind::Gpu(shared) if shared.is_borrowed => "borrowed",
            Kind::Gpu(_) | Kind::Sim(_) => "own",
        };
        write!(f, "Stream({kind}, {:?})", self.device)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_used_from_any_thread() {
        fn from_any_thread<T: Send + Sync>() {}
        from_any_thread::<Stream>();
    }
}
