//! A GPU with its context.

use super::kept::Kept;
use super::loaded::Cache;
use super::{Device, Properties, Rates};
use crate::arch::Arch;
use crate::captures;
use crate::driver::{self, DriverCode, check, sys};
use crate::{Error, Result};
use std::collections::BTreeMap;
use std::ffi::CStr;
use std::sync::{Mutex, PoisonError};

/// The GPUs that this process has opened. They stay open until it exits, as the driver's primary
/// contexts do.
static OPENED: Mutex<BTreeMap<u32, &'static Gpu>> = Mutex::new(BTreeMap::new());

/// GPUs in contexts that other libraries created, by the context's address.
static BORROWED: Mutex<BTreeMap<usize, &'static Gpu>> = Mutex::new(BTreeMap::new());

/// An opened GPU: a context and the default stream, which are never destroyed here.
pub(crate) struct Gpu {
    index: u32,
    context: RawContext,
    stream: RawStream,
    properties: Properties,
    rates: Rates,
    /// The default stream's counters and workspace.
    kept: Kept,
    /// The name of the last launched kernel, for fault reports.
    last_kernel: Mutex<&'static str>,
    pub(crate) modules: Cache,
}

/// The driver's stream, which is not destroyed.
struct RawStream(sys::CUstream);
// SAFETY: the driver accepts a stream from any thread.
unsafe impl Send for RawStream {}
// SAFETY: the driver accepts a stream from any thread.
unsafe impl Sync for RawStream {}

/// The driver's context, which is not released.
struct RawContext(sys::CUcontext);
// SAFETY: the driver accepts a context from any thread.
unsafe impl Send for RawContext {}
// SAFETY: the driver accepts a context from any thread.
unsafe impl Sync for RawContext {}

impl Gpu {
    /// The GPU of a context that another library created.
    ///
    /// # Safety
    /// Same contract as [`Device::from_raw_context`].
    pub(crate) unsafe fn of_context(context: sys::CUcontext) -> Result<&'static Self> {
        Self::count()?;
        if context.is_null() {
            return Err(Error::ForeignHandle { what: "context", detail: "it is null; give a context" });
        }
        let mut index = 0;
        // SAFETY: the caller passes a live context; the pointer to the result is writable.
        check(unsafe { sys::cuCtxSetCurrent(context) })
            .map_err(|code| Error::of_code("cuCtxSetCurrent", code))?;
        // SAFETY: the pointer to the result is writable.
        check(unsafe { sys::cuCtxGetDevice(&mut index) })
            .map_err(|code| Error::of_code("cuCtxGetDevice", code))?;
        let (mut flags, mut active) = (0, 0);
        // SAFETY: the pointers to the results are writable.
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
        let gpu: &'static Self = Box::leak(Box::new(Self::in_context(number, index, context)?));
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
        // SAFETY: it takes no flags.
        check(unsafe { sys::cuInit(0) }).map_err(|code| Error::of_code("cuInit", code))?;
        let mut count = 0;
        // SAFETY: the pointer to the result is writable.
        check(unsafe { sys::cuDeviceGetCount(&mut count) })
            .map_err(|code| Error::of_code("cuDeviceGetCount", code))?;
        if count == 0 { Err(Error::NoGpu) } else { Ok(count.unsigned_abs()) }
    }

    fn start(index: u32) -> Result<Self> {
        let count = Self::count()?;
        if index >= count {
            return Err(Error::GpuIndex { index, count });
        }
        let mut device = 0;
        // SAFETY: the pointer to the result is writable.
        check(unsafe { sys::cuDeviceGet(&mut device, index.cast_signed()) })
            .map_err(|code| Error::of_code("cuDeviceGet", code))?;
        not_too_old(index, &properties(device)?)?;
        let mut context = std::ptr::null_mut();
        // It stays retained until the process exits. SAFETY: the pointer to the context is
        // writable; the driver returned the device.
        check(unsafe { sys::cuDevicePrimaryCtxRetain(&mut context, device) })
            .map_err(|code| Error::of_code("cuDevicePrimaryCtxRetain", code))?;
        Self::in_context(index, device, context)
    }

    /// The GPU with this context, which becomes current.
    fn in_context(index: u32, device: sys::CUdevice, context: sys::CUcontext) -> Result<Self> {
        let properties = properties(device)?;
        not_too_old(index, &properties)?;
        // SAFETY: a retained context, or the live one that was passed to `of_context`.
        check(unsafe { sys::cuCtxSetCurrent(context) })
            .map_err(|code| Error::of_code("cuCtxSetCurrent", code))?;
        // Not the null stream: this one synchronises with it, and transfers in both directions use
        // the null stream.
        let mut stream = std::ptr::null_mut();
        // SAFETY: the pointer to the stream is writable; 0 is the default priority.
        check(unsafe { sys::cuStreamCreateWithPriority(&mut stream, 0, 0) })
            .map_err(|code| Error::of_code("cuStreamCreate", code))?;
        Ok(Self {
            index,
            context: RawContext(context),
            stream: RawStream(stream),
            rates: rates(device, &properties),
            properties,
            kept: Kept::default(),
            last_kernel: Mutex::new("none"),
            modules: Cache::default(),
        })
    }

    pub fn index(&self) -> u32 {
        self.index
    }

    pub fn properties(&self) -> &Properties {
        &self.properties
    }

    /// The rates for planning operations.
    pub fn rates(&self) -> Rates {
        self.rates
    }

    /// The GPU's index and name, for messages.
    pub fn label(&self) -> String {
        format!("GPU {} ({})", self.index, self.properties.name)
    }

    /// The default stream of launches.
    pub(crate) fn stream(&self) -> sys::CUstream {
        self.stream.0
    }

    /// The default stream's counters and workspace.
    pub fn kept(&self) -> &Kept {
        &self.kept
    }

    /// Makes the GPU's context current on this thread. Every use of the driver starts here.
    pub fn bind(&self) -> Result<()> {
        // SAFETY: the context lives as long as the process, or as long as the caller of
        // `of_context` promised.
        check(unsafe { sys::cuCtxSetCurrent(self.context.0) })
            .map_err(|code| self.error_of_code("cuCtxSetCurrent", code))
    }

    /// The driver's handle of the device.
    pub(crate) fn raw_device(&self) -> Result<sys::CUdevice> {
        self.bind()?;
        let mut device = 0;
        // SAFETY: the context is current; the pointer to the result is writable.
        check(unsafe { sys::cuCtxGetDevice(&mut device) })
            .map_err(|code| self.error_of_code("cuCtxGetDevice", code))?;
        Ok(device)
    }

    /// The context.
    pub(crate) fn context(&self) -> sys::CUcontext {
        self.context.0
    }

    /// Free and total memory in bytes.
    pub fn memory(&self) -> Result<(usize, usize)> {
        self.bind()?;
        let (mut free, mut total) = (0, 0);
        // SAFETY: the pointers to the results are writable, and the context is current.
        check(unsafe { sys::cuMemGetInfo_v2(&mut free, &mut total) })
            .map_err(|code| self.error_of_code("cuMemGetInfo", code))?;
        Ok((free, total))
    }

    /// Waits for all work on this GPU.
    pub fn synchronize(&self) -> Result<()> {
        self.bind()?;
        // SAFETY: the context is current.
        check(unsafe { sys::cuCtxSynchronize() }).map_err(|code| self.error_of_code("cuCtxSynchronize", code))
    }

    /// Stores the name of the last launched kernel.
    pub fn launched(&self, kernel: &'static str) {
        *self.last_kernel.lock().unwrap_or_else(PoisonError::into_inner) = kernel;
    }

    /// The error for a failed allocation on this GPU.
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

    /// The error for a failed wait for a recorded event.
    pub fn error_of_wait(&self, call: &'static str, code: DriverCode) -> Error {
        // The driver discards an event's record when its capture ends.
        if code == DriverCode::INVALID_VALUE { captures::ENDED } else { self.error_of_code(call, code) }
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

/// Rejects a GPU that the kernels do not support.
fn not_too_old(index: u32, properties: &Properties) -> Result<()> {
    if properties.arch < Arch::OLDEST {
        let Properties { name, arch, .. } = properties.clone();
        return Err(Error::GpuTooOld { index, name, arch });
    }
    Ok(())
}

/// Reads a GPU's properties from the driver.
fn properties(device: sys::CUdevice) -> Result<Properties> {
    use sys::CUdevice_attribute as Attribute;
    let attribute = |attribute| {
        let mut value = 0;
        // SAFETY: the pointer to the result is writable; the driver returned the device.
        check(unsafe { sys::cuDeviceGetAttribute(&mut value, attribute, device) })
            .map_err(|code| Error::of_code("cuDeviceGetAttribute", code))?;
        Ok::<u32, Error>(value.unsigned_abs())
    };
    let (mut name, mut memory) = ([0; 256], 0);
    // SAFETY: `name` has the length that is passed; the driver returned the device.
    check(unsafe { sys::cuDeviceGetName(name.as_mut_ptr().cast(), name.len() as i32, device) })
        .map_err(|code| Error::of_code("cuDeviceGetName", code))?;
    let name = CStr::from_bytes_until_nul(&name).unwrap_or_default();
    // SAFETY: the pointer to the result is writable; the driver returned the device.
    check(unsafe { sys::cuDeviceTotalMem_v2(&mut memory, device) })
        .map_err(|code| Error::of_code("cuDeviceTotalMem", code))?;
    Ok(Properties {
        name: name.to_string_lossy().into_owned(),
        arch: Arch::new(
            attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        ),
        multiprocessors: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
        shared_bytes_per_block: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?
            as usize,
        memory_bytes: Some(memory),
    })
}

/// Reads the rates for planning operations from the driver.
fn rates(device: sys::CUdevice, properties: &Properties) -> Rates {
    use sys::CUdevice_attribute as Attribute;
    let attribute = |attribute| {
        let mut value = 0;
        // A driver that does not know the attribute leaves 0. SAFETY: the pointer to the result is
        // writable; the driver returned the device.
        let _ = check(unsafe { sys::cuDeviceGetAttribute(&mut value, attribute, device) });
        value.unsigned_abs()
    };
    let attributes = [
        Attribute::CU_DEVICE_ATTRIBUTE_CLOCK_RATE,
        Attribute::CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE,
        Attribute::CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH,
        Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE,
        Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR,
    ];
    Rates::of(properties.arch, properties.multiprocessors, attributes.map(attribute))
}
