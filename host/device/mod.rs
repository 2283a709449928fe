//! Devices: a GPU, or the simulator.

mod arch;
mod choice;
pub(crate) mod gpu;
mod properties;
pub(crate) mod simulator;

pub use arch::Arch;
pub use choice::{DeviceChoice, VARIABLE as DEVICE_VARIABLE};
pub use properties::{
    MAX_BLOCKS, MAX_BLOCKS_PER_CLUSTER, MAX_THREADS, MAX_THREADS_PER_BLOCK, Properties, STATIC_SHARED_BYTES,
};

use crate::graph::not_captured;
use crate::stream::Stream;
use crate::{Error, Result};
use gpu::Gpu;
use moye_sim::profile::Profile;
use simulator::Simulator;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A device that buffers live on and kernels run on: a GPU, or the CPU simulator of one.
///
/// A clone is another handle to the same device, and every handle may be used from any thread.
///
/// Work on a device is ordered as on a GPU with CUDA's default settings: launches on one [`Stream`]
/// run one after the other, [`Device::launch`] uses the device's default stream, and a transfer
/// waits for all launches before it and holds up all after it.
///
/// ```
/// let device = moye::Device::sim();
/// let numbers = device.upload(&[1.0f32, 2.0, 3.0])?;
/// assert_eq!(numbers.download()?, [1.0, 2.0, 3.0]);
/// # Ok::<(), moye::Error>(())
/// ```
#[derive(Clone)]
pub struct Device(pub(crate) Backend);

#[derive(Clone)]
pub(crate) enum Backend {
    Gpu(&'static Gpu),
    Sim(Arc<Simulator>),
}

impl Device {
    /// GPU 0 where there is a usable one, the simulator otherwise; or what the environment variable
    /// `MOYE_DEVICE` says (`auto`, `gpu`, `gpu:N`, `sim`).
    ///
    /// [`Device::why_simulated`] tells why there is no GPU.
    ///
    /// # Errors
    /// `MOYE_DEVICE` names no device, or a GPU that cannot be used.
    pub fn open() -> Result<Self> {
        Self::choose(DeviceChoice::from_env()?)
    }

    /// The device that was asked for.
    ///
    /// # Errors
    /// A GPU was asked for and cannot be used.
    pub fn choose(choice: DeviceChoice) -> Result<Self> {
        match choice {
            DeviceChoice::Auto => Ok(Self::gpu(0)
                .unwrap_or_else(|reason| Self(Backend::Sim(Arc::new(Simulator::new(Some(reason))))))),
            DeviceChoice::Gpu(index) => Self::gpu(index),
            DeviceChoice::Sim => Ok(Self::sim()),
        }
    }

    /// The GPU with this index, counted as the driver does (`CUDA_VISIBLE_DEVICES` counts).
    ///
    /// # Errors
    /// No driver, no GPU, no GPU of this index, a GPU older than sm_80, or the driver's own error.
    pub fn gpu(index: u32) -> Result<Self> {
        Gpu::open(index).map(|gpu| Self(Backend::Gpu(gpu)))
    }

    /// The GPU of a context that another library has made, a `CUcontext`: a primary one or any
    /// other. Buffers, streams and kernels of the device belong to that context. For the primary
    /// context this is [`Device::gpu`].
    ///
    /// The same context gives the same device, which keeps the kernels that it has loaded. The
    /// context is not destroyed, nor is the primary one of the GPU released, before the process
    /// ends. As with every other device, a call that uses the driver leaves the context current on
    /// the calling thread.
    ///
    /// # Errors
    /// No driver, a null context, a GPU older than sm_80, or the driver's own error.
    ///
    /// # Safety
    /// `context` is a live context of the driver. It lives as long as the device, its clones and
    /// what was made with them are used, and once it is destroyed no context at the same address is
    /// passed to this function.
    pub unsafe fn from_raw_context(context: *mut std::ffi::c_void) -> Result<Self> {
        // SAFETY: the caller's contract.
        unsafe { Gpu::of_context(context.cast()) }.map(|gpu| Self(Backend::Gpu(gpu)))
    }

    /// The driver's context, a `CUcontext`, for other libraries; null on the simulator.
    pub fn raw_context(&self) -> *mut std::ffi::c_void {
        match &self.0 {
            Backend::Gpu(gpu) => gpu.context().cast(),
            Backend::Sim(_) => std::ptr::null_mut(),
        }
    }

    /// How many GPUs there are.
    ///
    /// # Errors
    /// No driver, no GPU, or the driver's own error.
    pub fn gpu_count() -> Result<u32> {
        Gpu::count()
    }

    /// A new simulator, with a memory of its own.
    ///
    /// It keeps the limits of sm_90. Its blocks run on all cores of the host; products are planned
    /// as for the 132 multiprocessors of an H200, so that the same kernel computes the same product
    /// on every machine.
    pub fn sim() -> Self {
        Self(Backend::Sim(Arc::new(Simulator::new(None))))
    }

    /// The fixed properties.
    pub fn properties(&self) -> &Properties {
        match &self.0 {
            Backend::Gpu(gpu) => gpu.properties(),
            Backend::Sim(simulator) => simulator.properties(),
        }
    }

    /// The name: the GPU's, or `simulator`.
    pub fn name(&self) -> &str {
        &self.properties().name
    }

    /// The architecture; for the simulator, the one whose limits it keeps.
    pub fn arch(&self) -> Arch {
        self.properties().arch
    }

    /// Whether it is a GPU and not the simulator.
    pub fn is_gpu(&self) -> bool {
        matches!(self.0, Backend::Gpu(_))
    }

    /// Why [`Device::open`] took the simulator though a GPU would have done; `None` where the
    /// simulator was asked for.
    pub fn why_simulated(&self) -> Option<&Error> {
        match &self.0 {
            Backend::Gpu(_) => None,
            Backend::Sim(simulator) => simulator.reason(),
        }
    }

    /// Free and total memory in bytes; `None` for the simulator, which takes what the host has.
    ///
    /// # Errors
    /// The driver's own.
    pub fn memory(&self) -> Result<Option<(usize, usize)>> {
        match &self.0 {
            Backend::Gpu(gpu) => gpu.memory().map(Some),
            Backend::Sim(_) => Ok(None),
        }
    }

    /// Waits for all work on the device, and reports what went wrong in it.
    ///
    /// # Errors
    /// [`Error::KernelFault`] where a kernel failed on the GPU; the simulator reports faults at the
    /// launch.
    pub fn synchronize(&self) -> Result<()> {
        not_captured("a wait for the device")?;
        match &self.0 {
            Backend::Gpu(gpu) => gpu.synchronize(),
            Backend::Sim(_) => Ok(()),
        }
    }

    /// The stream that [`Device::launch`] uses.
    pub fn default_stream(&self) -> Stream {
        Stream::default_of(self)
    }

    /// A new stream: what runs on it may overlap with what runs on other streams.
    ///
    /// # Errors
    /// The driver's own.
    pub fn new_stream(&self) -> Result<Stream> {
        Stream::new(self)
    }

    /// The time that the device takes for what `work` launches on the given stream, the default one
    /// of the device.
    ///
    /// On a GPU it is measured there by two events, on the simulator by the clock.
    ///
    /// # Errors
    /// Those of `work`, and what goes wrong while it runs.
    pub fn time(&self, work: impl FnOnce(&Stream) -> Result<()>) -> Result<Duration> {
        let stream = self.default_stream();
        let start = stream.record()?;
        work(&stream)?;
        let end = stream.record()?;
        end.synchronize()?;
        end.elapsed_since(&start)
    }

    /// Calls `report` with the number of finished blocks and of all blocks while the simulator runs
    /// a launch, from the threads that run it. Does nothing on a GPU.
    pub fn on_progress(&self, report: impl Fn(u64, u64) + Send + Sync + 'static) {
        if let Backend::Sim(simulator) = &self.0 {
            simulator.on_progress(Arc::new(report));
        }
    }

    /// Takes a profile of what `work` launches on this simulator: sectors, wavefronts and
    /// instructions by source line. See [`moye_sim::profile`](crate::profile).
    ///
    /// ```
    /// # #[cfg(feature = "movement")] {
    /// let device = moye::Device::sim();
    /// let src = device.upload(&[1.0f32; 4096])?;
    /// let mut dst = device.alloc_zeroed::<f32>(4096)?;
    /// let profile = device.profile(|| {
    ///     let src = moye::Matrix::row_major(&src, 64, 64)?;
    ///     moye::copy(&device, &src, &mut moye::MatrixMut::row_major(&mut dst, 64, 64)?)
    /// })?;
    /// let total = profile.kernels[0].total();
    /// assert_eq!((total.global_loads.bytes + total.async_loads.bytes, total.global_stores.bytes), (16384, 16384));
    /// # }
    /// # Ok::<(), moye::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::NoProfile`] on a GPU, and the errors of `work`.
    pub fn profile(&self, work: impl FnOnce() -> Result<()>) -> Result<Profile> {
        match &self.0 {
            Backend::Gpu(_) => Err(Error::NoProfile { device: self.label() }),
            Backend::Sim(simulator) => simulator.profile(work),
        }
    }

    /// The multiprocessors for which a product's kernel is chosen.
    pub(crate) fn planned_multiprocessors(&self) -> u32 {
        match &self.0 {
            Backend::Gpu(gpu) => gpu.properties().multiprocessors,
            Backend::Sim(_) => simulator::PLANNED_MULTIPROCESSORS,
        }
    }

    /// The device with its index, for messages: `GPU 0 (NVIDIA H200)` or `simulator`.
    pub(crate) fn label(&self) -> String {
        match &self.0 {
            Backend::Gpu(gpu) => gpu.label(),
            Backend::Sim(simulator) => format!("simulator {}", simulator.number()),
        }
    }
}

/// Whether two handles are of one device.
impl PartialEq for Device {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Backend::Gpu(a), Backend::Gpu(b)) => std::ptr::eq(*a, *b),
            (Backend::Sim(a), Backend::Sim(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }
}
impl Eq for Device {}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Device({})", self.label())
    }
}
