//! A GPU with its context.

use super::{Arch, Device, Properties};
use crate::driver::{self, DriverCode, check};
use crate::memory::Kept;
use crate::module::{Cache, Loaded, SHIPPED_PTX};
use crate::{Error, Result};
use cust::context::{Context, CurrentContext};
use cust::device::{Device as CudaDevice, DeviceAttribute};
use cust::error::CudaError;
use cust::stream::{Stream, StreamFlags};
use cust::sys;
use std::collections::BTreeMap;
use std::sync::{Mutex, OnceLock, PoisonError};

/// The GPUs that this process has opened. They stay open until it exits, as the driver's primary
/// contexts do.
static OPENED: Mutex<BTreeMap<u32, &'static Gpu>> = Mutex::new(BTreeMap::new());

/// The GPUs in contexts of other libraries, by the contexts' addresses.
static BORROWED: Mutex<BTreeMap<usize, &'static Gpu>> = Mutex::new(BTreeMap::new());

/// An opened GPU: a context, and the default stream. Neither is ever destroyed here.
pub(crate) struct Gpu {
    index: u32,
    context: RawContext,
    stream: Stream,
    properties: Properties,
    /// The default stream's counters and workspace.
    kept: Kept,
    /// The name of the last launched kernel, for reports of a fault.
    last_kernel: Mutex<&'static str>,
    pub(crate) modules: Cache,
    /// The module of the kernels that this crate ships.
    shipped: OnceLock<&'static Loaded>,
}

/// The driver's context, which is not released.
struct RawContext(sys::CUcontext);
// SAFETY: the driver accepts a context from any thread.
unsafe impl Send for RawContext {}
// SAFETY: as above.
unsafe impl Sync for RawContext {}

impl Gpu {
    /// The GPU of a context that another library has created.
    ///
    /// # Safety
    /// As for [`Device::from_raw_context`].
    pub unsafe fn of_context(context: sys::CUcontext) -> Result<&'static Self> {
        Self::count()?;
        if context.is_null() {
            return Err(Error::ForeignHandle { what: "context", detail: "it is null; give a context" });
        }
        let mut index = 0;
        // SAFETY: the caller's context; the pointer to the result is writable.
        check(unsafe { sys::cuCtxSetCurrent(context) })
            .map_err(|code| Error::of_code("cuCtxSetCurrent", code))?;
        // SAFETY: as above.
        check(unsafe { sys::cuCtxGetDevice(&mut index) })
            .map_err(|code| Error::of_code("cuCtxGetDevice", code))?;
        let (mut flags, mut active) = (0, 0);
        // SAFETY: as above.
        check(unsafe { sys::cuDevicePrimaryCtxGetState(index, &mut flags, &mut active) })
            .map_err(|code| Error::of_code("cuDevicePrimaryCtxGetState", code))?;
        let number = index.unsigned_abs();
        if active != 0 {
            let primary = Self::open(number)?;
            if primary.context.0 == context {
                return Ok(primary);
            }
        }
        let mut borrowed = BORROWED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(gpu) = borrowed.get(&context.addr()) {
            return Ok(gpu);
        }
        let device = CudaDevice::get_device(number).map_err(|e| Error::driver("cuDeviceGet", e))?;
        let gpu: &'static Self = Box::leak(Box::new(Self::in_context(number, device, context)?));
        borrowed.insert(context.addr(), gpu);
        Ok(gpu)
    }

    /// The GPU with this index, opened at the first call.
    pub fn open(index: u32) -> Result<&'static Self> {
        let mut opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(gpu) = opened.get(&index) {
            return Ok(gpu);
        }
        let gpu: &'static Self = Box::leak(Box::new(Self::start(index)?));
        opened.insert(index, gpu);
        Ok(gpu)
    }

    /// The number of GPUs.
    pub fn count() -> Result<u32> {
        driver::available()?;
        cust::init(cust::CudaFlags::empty()).map_err(|e| Error::driver("cuInit", e))?;
        match CudaDevice::num_devices().map_err(|e| Error::driver("cuDeviceGetCount", e))? {
            0 => Err(Error::NoGpu),
            count => Ok(count),
        }
    }

    fn start(index: u32) -> Result<Self> {
        let count = Self::count()?;
        if index >= count {
            return Err(Error::GpuIndex { index, count });
        }
        let device = CudaDevice::get_device(index).map_err(|e| Error::driver("cuDeviceGet", e))?;
        not_too_old(index, &properties(device)?)?;
        let context = Context::new(device).map_err(|e| Error::driver("cuDevicePrimaryCtxRetain", e))?;
        let raw = context.as_raw();
        // It stays retained until the process exits.
        std::mem::forget(context);
        Self::in_context(index, device, raw)
    }

    /// The GPU with one of its contexts.
    fn in_context(index: u32, device: CudaDevice, context: sys::CUcontext) -> Result<Self> {
        let properties = properties(device)?;
        not_too_old(index, &properties)?;
        // SAFETY: a retained context, or the caller's of `of_context`.
        check(unsafe { sys::cuCtxSetCurrent(context) })
            .map_err(|code| Error::of_code("cuCtxSetCurrent", code))?;
        // A separate stream that synchronises with transfers in both directions: those use the null
        // stream.
        let stream =
            Stream::new(StreamFlags::DEFAULT, None).map_err(|e| Error::driver("cuStreamCreate", e))?;
        Ok(Self {
            index,
            context: RawContext(context),
            stream,
            properties,
            kept: Kept::default(),
            last_kernel: Mutex::new("none"),
            modules: Cache::default(),
            shipped: OnceLock::new(),
        })
    }

    /// The module of the kernels that this crate ships, loaded at the first call.
    pub fn shipped(&'static self) -> Result<&'static Loaded> {
        if let Some(loaded) = self.shipped.get() {
            return Ok(loaded);
        }
        let loaded = self.modules.load(self, &SHIPPED_PTX)?;
        Ok(self.shipped.get_or_init(|| loaded))
    }

    pub fn index(&self) -> u32 {
        self.index
    }

    pub fn properties(&self) -> &Properties {
        &self.properties
    }

    /// The GPU with its index, for messages.
    pub fn label(&self) -> String {
        format!("GPU {} ({})", self.index, self.properties.name)
    }

    /// The default stream of launches.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// The default stream's counters and workspace.
    pub fn kept(&self) -> &Kept {
        &self.kept
    }

    /// Makes the GPU's context current on this thread. Every use of the driver starts with it.
    pub fn bind(&self) -> Result<()> {
        // SAFETY: the context lives as long as the process, or as the caller of `of_context` has
        // promised.
        check(unsafe { sys::cuCtxSetCurrent(self.context.0) })
            .map_err(|code| self.error_of_code("cuCtxSetCurrent", code))
    }

    /// The context.
    pub fn context(&self) -> sys::CUcontext {
        self.context.0
    }

    /// Free and total memory in bytes.
    pub fn memory(&self) -> Result<(usize, usize)> {
        self.bind()?;
        cust::memory::mem_get_info().map_err(|e| self.error("cuMemGetInfo", e))
    }

    /// Waits for all work on this GPU.
    pub fn synchronize(&self) -> Result<()> {
        self.bind()?;
        CurrentContext::synchronize().map_err(|e| self.error("cuCtxSynchronize", e))
    }

    /// Stores the name of the launched kernel.
    pub fn launched(&self, kernel: &'static str) {
        *self.last_kernel.lock().unwrap_or_else(PoisonError::into_inner) = kernel;
    }

    /// The error for a failed call of `cust` on this GPU.
    pub fn error(&self, call: &'static str, error: CudaError) -> Error {
        self.error_of_code(call, driver::of(error))
    }

    /// The error for a failed allocation of this many bytes on this GPU.
    pub fn out_of_memory_or(
        &self,
        device: &Device,
        call: &'static str,
        code: DriverCode,
        bytes: usize,
    ) -> Error {
        match (code, self.memory()) {
            (DriverCode::OUT_OF_MEMORY, Ok((free, total))) => {
                Error::OutOfMemory { device: device.label(), asked: bytes, free, total }
            }
            _ => self.error_of_code(call, code),
        }
    }

    /// The error for a failed raw call on this GPU.
    pub fn error_of_code(&self, call: &'static str, code: DriverCode) -> Error {
        if !code.is_kernel_fault() {
            return Error::of_code(call, code);
        }
        let kernel = *self.last_kernel.lock().unwrap_or_else(PoisonError::into_inner);
        Error::KernelFault { device: self.properties.name.clone(), code, kernel }
    }
}

/// Refuses a GPU that the kernels do not support.
fn not_too_old(index: u32, properties: &Properties) -> Result<()> {
    if properties.arch < Arch::OLDEST {
        let Properties { name, arch, .. } = properties.clone();
        return Err(Error::GpuTooOld { index, name, arch });
    }
    Ok(())
}

/// Reads a GPU's properties from the driver.
fn properties(device: CudaDevice) -> Result<Properties> {
    let attribute = |attribute| {
        let value = device.get_attribute(attribute).map_err(|e| Error::driver("cuDeviceGetAttribute", e))?;
        Ok::<u32, Error>(value.unsigned_abs())
    };
    let mut shared = 0;
    let shared_attribute = sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN;
    // SAFETY: the pointer to the result is writable; the driver returned the device.
    check(unsafe { sys::cuDeviceGetAttribute(&mut shared, shared_attribute, device.as_raw()) })
        .map_err(|code| Error::of_code("cuDeviceGetAttribute", code))?;
    Ok(Properties {
        name: device.name().map_err(|e| Error::driver("cuDeviceGetName", e))?,
        arch: Arch::new(
            attribute(DeviceAttribute::ComputeCapabilityMajor)?,
            attribute(DeviceAttribute::ComputeCapabilityMinor)?,
        ),
        multiprocessors: attribute(DeviceAttribute::MultiprocessorCount)?,
        shared_bytes_per_block: shared.unsigned_abs() as usize,
        memory_bytes: Some(device.total_memory().map_err(|e| Error::driver("cuDeviceTotalMem", e))?),
    })
}
