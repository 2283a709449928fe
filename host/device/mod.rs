//! Devices: a GPU, or the simulator.

mod arch;
mod choice;
pub(crate) mod gpu;
mod properties;
mod rates;
pub(crate) mod simulator;

pub use arch::Arch;
pub use choice::{DeviceChoice, VARIABLE as DEVICE_VARIABLE};
pub use properties::{
    MAX_BLOCKS, MAX_BLOCKS_PER_CLUSTER, MAX_THREADS, MAX_THREADS_PER_BLOCK, Properties, STATIC_SHARED_BYTES,
};

pub use rates::Rates;

use crate::graph::not_captured;
use crate::stream::Stream;
use crate::{Error, Result};
use gpu::Gpu;
use moye_sim::profile::{Card, Profile};
use simulator::Simulator;
pub use simulator::interruptible;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A device that owns buffers and runs kernels: a GPU, or the CPU simulator of one.
///
/// A clone is another handle to the same device, and every handle may be used from any thread.
///
/// Work on a device is ordered as on a GPU with CUDA's default settings: launches on one [`Stream`]
/// run in order, [`Device::launch`] uses the device's default stream, and a transfer waits for all
/// earlier launches and delays all later ones.
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
    /// GPU 0 if it is usable, otherwise the simulator; or the device that the environment variable
    /// `MOYE_DEVICE` names (`auto`, `gpu`, `gpu:N`, `sim`).
    ///
    /// [`Device::why_simulated`] gives the reason why no GPU is used.
    ///
    /// # Errors
    /// `MOYE_DEVICE` does not name a device, or names a GPU that cannot be used.
    pub fn open() -> Result<Self> {
        Self::choose(DeviceChoice::from_env()?)
    }

    /// The requested device.
    ///
    /// # Errors
    /// A GPU is requested and cannot be used.
    pub fn choose(choice: DeviceChoice) -> Result<Self> {
        match choice {
            DeviceChoice::Auto => Ok(Self::gpu(0)
                .unwrap_or_else(|reason| Self(Backend::Sim(Arc::new(Simulator::new(Some(reason))))))),
            DeviceChoice::Gpu(index) => Self::gpu(index),
            DeviceChoice::Sim => Ok(Self::sim()),
        }
    }

    /// The GPU with this index, in the driver's numbering (`CUDA_VISIBLE_DEVICES` applies).
    ///
    /// # Errors
    /// No driver, no GPU, no GPU with this index, a GPU older than sm_80, or an error of the
    /// driver.
    pub fn gpu(index: u32) -> Result<Self> {
        Gpu::open(index).map(|gpu| Self(Backend::Gpu(gpu)))
    }

    /// The GPU of a context that another library has created, a `CUcontext`: a primary context or
    /// any other. Buffers, streams and kernels of the device belong to that context. For the
    /// primary context this is [`Device::gpu`].
    ///
    /// The same context gives the same device, with the kernels that it has loaded. The context is
    /// not destroyed, nor is the primary context of the GPU released, before the process exits. As
    /// with every other device, a call that uses the driver leaves the context current on the
    /// calling thread.
    ///
    /// # Errors
    /// No driver, a null context, a GPU older than sm_80, or an error of the driver.
    ///
    /// # Safety
    /// `context` is a live context of the driver. It outlives the device, its clones and everything
    /// made with them. After it is destroyed, no context at the same address is passed to this
    /// function.
    pub unsafe fn from_raw_context(context: *mut std::ffi::c_void) -> Result<Self> {
        // SAFETY: a live context of the driver, which outlives the device.
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
    /// No driver, no GPU, or an error of the driver.
    pub fn gpu_count() -> Result<u32> {
        Gpu::count()
    }

    /// A new simulator with its own memory.
    ///
    /// It has the limits of sm_90. Its blocks run on all cores of the host; products are planned
    /// for the 132 multiprocessors of an H200, so that the same kernel computes the same product on
    /// every machine.
    pub fn sim() -> Self {
        Self(Backend::Sim(Arc::new(Simulator::new(None))))
    }

    /// A new simulator with the limits of a card: operations choose the kernels that they would
    /// choose on it, for its architecture, its shared memory and its multiprocessors.
    ///
    /// ```
    /// use moye::profile::Card;
    /// let device = moye::Device::sim_of(&Card::named("RTX 4090").unwrap());
    /// assert_eq!(device.arch(), moye::Arch::new(8, 9));
    /// assert_eq!(device.properties().shared_bytes_per_block, 99 * 1024);
    /// ```
    ///
    /// Its simulator runs every instruction: a kernel of your own is not refused there that the
    /// card cannot run, but its profile says so.
    pub fn sim_of(card: &Card) -> Self {
        Self(Backend::Sim(Arc::new(Simulator::of_card(card))))
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

    /// The architecture; for the simulator, the one whose limits it has.
    pub fn arch(&self) -> Arch {
        self.properties().arch
    }

    /// Whether it is a GPU rather than the simulator.
    pub fn is_gpu(&self) -> bool {
        matches!(self.0, Backend::Gpu(_))
    }

    /// Why [`Device::open`] chose the simulator although a GPU was acceptable; `None` if the
    /// simulator was requested.
    pub fn why_simulated(&self) -> Option<&Error> {
        match &self.0 {
            Backend::Gpu(_) => None,
            Backend::Sim(simulator) => simulator.reason(),
        }
    }

    /// Free and total memory in bytes; `None` for the simulator, which uses the host's.
    ///
    /// # Errors
    /// An error of the driver.
    pub fn memory(&self) -> Result<Option<(usize, usize)>> {
        match &self.0 {
            Backend::Gpu(gpu) => gpu.memory().map(Some),
            Backend::Sim(_) => Ok(None),
        }
    }

    /// Waits for all work on the device, and reports its errors.
    ///
    /// # Errors
    /// [`Error::KernelFault`] if a kernel failed on the GPU; the simulator reports faults at the
    /// launch.
    pub fn synchronize(&self) -> Result<()> {
        not_captured("a wait for the device")?;
        match &self.0 {
            Backend::Gpu(gpu) => gpu.synchronize(),
            Backend::Sim(simulator) => {
                simulator.memory().synchronize();
                Ok(())
            }
        }
    }

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

    /// The device time of the launches of `work` on the given stream, the device's default one.
    ///
    /// A GPU measures it with two events, the simulator with the host's clock.
    ///
    /// # Errors
    /// The errors of `work`, and of its launches.
    pub fn time(&self, work: impl FnOnce(&Stream) -> Result<()>) -> Result<Duration> {
        let stream = self.default_stream();
        let start = stream.record()?;
        work(&stream)?;
        let end = stream.record()?;
        end.synchronize()?;
        end.elapsed_since(&start)
    }

    /// Calls `report` with the number of finished blocks and of all blocks during a launch on the
    /// simulator, from the threads that run it. Has no effect on a GPU.
    pub fn on_progress(&self, report: impl Fn(u64, u64) + Send + Sync + 'static) {
        if let Backend::Sim(simulator) = &self.0 {
            simulator.on_progress(Arc::new(report));
        }
    }

    /// Takes a profile of the launches of `work` on this simulator: sectors, wavefronts and
    /// instructions by source line, and plain arithmetic by the PTX of the module that a kernel is
    /// launched from. See [`moye_sim::profile`](crate::profile).
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

    /// The number of multiprocessors for which products are planned.
    pub(crate) fn planned_multiprocessors(&self) -> u32 {
        self.rates().multiprocessors
    }

    /// The rates by which operations are planned.
    pub fn rates(&self) -> Rates {
        match &self.0 {
            Backend::Gpu(gpu) => gpu.rates(),
            Backend::Sim(simulator) => simulator.rates(),
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
