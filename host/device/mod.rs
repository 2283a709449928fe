//! Devices: a GPU, or the simulator.

mod choice;
pub(crate) mod gpu;
pub(crate) mod kept;
pub(crate) mod loaded;
mod properties;
mod rates;
pub(crate) mod recording;
pub(crate) mod simulated;
pub(crate) mod simulator;

pub use crate::arch::Arch;
pub use crate::grid::{MAX_BLOCKS, MAX_BLOCKS_PER_CLUSTER, MAX_THREADS, MAX_THREADS_PER_BLOCK};
pub use choice::{DeviceChoice, VARIABLE as DEVICE_VARIABLE};
pub use properties::{Properties, STATIC_SHARED_BYTES};
pub use rates::Rates;

use crate::captures::not_captured;
use crate::{Error, Result};
use gpu::Gpu;
use moye_sim::profile::{Card, Profile};
use simulator::Simulator;
pub use simulator::interruptible;
use std::fmt;
use std::sync::Arc;

/// A device owns buffers and runs kernels: a GPU, or the CPU simulator of one.
///
/// A clone is another handle to the same device, and every handle may be used from any thread.
///
/// Work on a device is ordered as on a GPU with CUDA's default settings: launches on one
/// [`Stream`](crate::Stream) run in order, [`Device::launch`] uses the device's default stream, and
/// a transfer waits for all earlier launches and delays all later ones.
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
    /// [`Device::why_simulated`] returns the reason why no GPU is used.
    ///
    /// # Errors
    /// [`Device::why_simulated`] returns the reason when no GPU is used.
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
    /// There is no driver, no GPU or no GPU with this index; the GPU is older than sm_80; or the
    /// driver reports an error.
    pub fn gpu(index: u32) -> Result<Self> {
        Gpu::open(index).map(|gpu| Self(Backend::Gpu(gpu)))
    }

    /// The GPU of a context (`CUcontext`) that another library created, primary or not. The
    /// device's buffers, streams and kernels belong to that context. For the primary context this
    /// is [`Device::gpu`].
    ///
    /// The same context returns the same device, with the kernels that it has loaded. Before the
    /// process exits, neither the context is destroyed nor the GPU's primary context released. As
    /// with every device, a call that uses the driver leaves the context current on the calling
    /// thread.
    ///
    /// # Errors
    /// There is no driver, the context is null, the GPU is older than sm_80, or the driver reports
    /// an error.
    ///
    /// # Safety
    /// `context` is a live context of the driver. It outlives the device, its clones and everything
    /// made with them. After it is destroyed, no context at the same address is passed to this
    /// function.
    pub unsafe fn from_raw_context(context: *mut std::ffi::c_void) -> Result<Self> {
        // SAFETY: a live context of the driver, which outlives the device.
        unsafe { Gpu::of_context(context.cast()) }.map(|gpu| Self(Backend::Gpu(gpu)))
    }

    /// The driver's context (`CUcontext`), for other libraries; null on the simulator.
    pub fn raw_context(&self) -> *mut std::ffi::c_void {
        match &self.0 {
            Backend::Gpu(gpu) => gpu.context().cast(),
            Backend::Sim(_) => std::ptr::null_mut(),
        }
    }

    /// The number of GPUs.
    ///
    /// # Errors
    /// There is no driver or no GPU, or the driver reports an error.
    pub fn gpu_count() -> Result<u32> {
        Gpu::count()
    }

    /// A new simulator with its own memory.
    ///
    /// It has the limits of sm_90 and runs blocks on all cores of the host. Products are planned
    /// for the 132 SMs of an H200, so that every machine runs the same kernel for the same product.
    pub fn sim() -> Self {
        Self(Backend::Sim(Arc::new(Simulator::new(None))))
    }

    /// A new simulator with a card's limits: operations choose kernels for the card's architecture,
    /// shared memory and number of SMs.
    ///
    /// ```
    /// use moye::profile::Card;
    /// let device = moye::Device::sim_of(&Card::named("RTX 4090").unwrap());
    /// assert_eq!(device.arch(), moye::Arch::new(8, 9));
    /// assert_eq!(device.properties().shared_bytes_per_block, 99 * 1024);
    /// ```
    /// The simulator runs every instruction: a custom kernel that the card cannot run is not
    /// refused, but its profile says so.
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

    /// Why [`Device::open`] fell back to the simulator; `None` if the simulator was requested.
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

    /// Calls `report` with the number of finished blocks and of all blocks during a launch on the
    /// simulator, from its worker threads. Has no effect on a GPU.
    pub fn on_progress(&self, report: impl Fn(u64, u64) + Send + Sync + 'static) {
        if let Backend::Sim(simulator) = &self.0 {
            simulator.on_progress(Arc::new(report));
        }
    }

    /// Profiles the launches of `work` on this simulator: sectors, wavefronts and instructions by
    /// source line, and plain arithmetic by the PTX of the launched kernel's module. See
    /// [`moye_sim::profile`](crate::profile).
    ///
    /// ```
    /// let device = moye::Device::sim();
    /// let src = device.upload(&[1.0f32; 4096])?;
    /// let mut dst = device.alloc_zeroed::<f32>(4096)?;
    /// let profile = device.profile(|| {
    ///     let src = moye::Matrix::row_major(&src, 64, 64)?;
    ///     moye::copy(&device, &src, &mut moye::MatrixMut::row_major(&mut dst, 64, 64)?)
    /// })?;
    /// let total = profile.kernels[0].total();
    /// assert_eq!((total.global_loads.bytes + total.async_loads.bytes, total.global_stores.bytes), (16384, 16384));
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

    /// The rates for planning operations.
    pub fn rates(&self) -> Rates {
        match &self.0 {
            Backend::Gpu(gpu) => gpu.rates(),
            Backend::Sim(simulator) => simulator.rates(),
        }
    }

    /// The device's name and index, for messages: `GPU 0 (NVIDIA H200)` or `simulator`.
    pub(crate) fn label(&self) -> String {
        match &self.0 {
            Backend::Gpu(gpu) => gpu.label(),
            Backend::Sim(simulator) => format!("simulator {}", simulator.number()),
        }
    }
}

/// Whether two handles refer to one device.
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
