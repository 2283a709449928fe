//! A module in a GPU's context.

use super::gpu::Gpu;
use crate::driver::{self, DriverCode, check, sys};
use crate::ptx::{self, EntryParams, Only, Ptx, Texts};
use crate::{Error, Result};
use std::collections::HashMap;
use std::ffi::{CString, c_void};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The modules that a GPU has loaded. Like the GPU, they stay open until the process exits.
#[derive(Default)]
pub(crate) struct Cache(Mutex<Vec<(Ptx, Slot<&'static Loaded>)>>);

/// A slot for a result of the driver's compiler. Its lock is held during the compilation, so that
/// only threads with the same request wait. It stays empty if the compilation fails.
type Slot<T> = Arc<Mutex<Option<T>>>;

/// A loaded module and the functions looked up in it.
pub(crate) struct Loaded {
    ptx: Ptx,
    compiled: Compiled,
    functions: Mutex<HashMap<&'static str, Slot<Known>>>,
}

/// The unit of the driver's compilation.
enum Compiled {
    /// All kernels of the image that fits the GPU best; it is compiled for `image`.
    Whole { image: &'static str, text: &'static str, module: RawModule },
    /// Each kernel at its first lookup, from the best image that contains it.
    ByKernel(Texts),
}

/// A function that has been looked up.
struct Known {
    function: &'static GpuFunction,
    /// The dynamic shared memory that its blocks may have, in bytes.
    allowed: usize,
}

/// The driver's module, which is not unloaded.
struct RawModule(sys::CUmodule);
// SAFETY: the driver accepts a module from any thread.
unsafe impl Send for RawModule {}
// SAFETY: the driver accepts a module from any thread.
unsafe impl Sync for RawModule {}

/// The driver's function, in a module that stays loaded.
#[derive(Clone, Copy)]
pub(crate) struct RawFunction(pub sys::CUfunction);
// SAFETY: the driver accepts a function from any thread.
unsafe impl Send for RawFunction {}
// SAFETY: the driver accepts a function from any thread.
unsafe impl Sync for RawFunction {}

/// A kernel in a GPU's context.
pub(crate) struct GpuFunction {
    pub function: RawFunction,
    pub attributes: KernelAttributes,
    /// Its parameters in PTX.
    pub params: EntryParams,
    /// Whether it is compiled for an architecture whose kernels can wait for earlier ones
    /// (`griddepcontrol`). On any GPU, a kernel for an older architecture is launched after earlier
    /// kernels have completed.
    pub waits: bool,
}

/// The attributes of a compiled kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelAttributes {
    /// Registers of a thread.
    pub registers: u32,
    /// Local memory of a thread in bytes: spills and arrays.
    pub local_bytes: usize,
    /// Static shared memory of a block, in bytes.
    pub static_shared_bytes: usize,
    /// The maximum number of threads of a block, by registers and launch bounds.
    pub max_threads: u32,
}

impl Cache {
    /// The module of this PTX, loaded at the first call.
    pub fn load(&self, gpu: &'static Gpu, ptx: &Ptx) -> Result<&'static Loaded> {
        let slot = {
            let mut modules = lock(&self.0);
            match modules.iter().find(|(known, _)| known.is(ptx)) {
                Some((_, slot)) => slot.clone(),
                None => {
                    let slot = Slot::default();
                    modules.push((*ptx, slot.clone()));
                    slot
                }
            }
        };
        let mut slot = lock(&slot);
        if let Some(loaded) = *slot {
            return Ok(loaded);
        }
        let loaded: &'static Loaded = Box::leak(Box::new(Loaded::new(gpu, *ptx)?));
        *slot = Some(loaded);
        Ok(loaded)
    }
}

impl Loaded {
    fn new(gpu: &'static Gpu, ptx: Ptx) -> Result<Self> {
        let arch = gpu.properties().arch;
        let no_ptx = || Error::NoPtxForArch { module: ptx.name(), compiled: ptx.architectures(), arch };
        let compiled = match Texts::of(&ptx, arch) {
            Some(texts) => Compiled::ByKernel(texts),
            None => {
                let (image, text) = ptx.image_for(arch).ok_or_else(no_ptx)?;
                Compiled::Whole { image, text, module: compile(gpu, ptx, image, text.to_owned())? }
            }
        };
        Ok(Self { ptx, compiled, functions: Mutex::default() })
    }

    /// The kernel of this name, for blocks with this much dynamic shared memory; looked up at the
    /// first call.
    pub fn function(
        &'static self,
        gpu: &'static Gpu,
        kernel: &'static str,
        package: &'static str,
        shared_bytes: usize,
    ) -> Result<&'static GpuFunction> {
        let slot = lock(&self.functions).entry(kernel).or_default().clone();
        let mut slot = lock(&slot);
        let known = match &mut *slot {
            Some(known) => known,
            empty => {
                // Like the module, it stays until the process exits.
                let function: &GpuFunction = Box::leak(Box::new(self.look_up(gpu, kernel, package)?));
                let own = function.attributes.static_shared_bytes;
                let allowed = super::STATIC_SHARED_BYTES.saturating_sub(own);
                empty.insert(Known { function, allowed })
            }
        };
        let asked = shared_bytes + known.function.attributes.static_shared_bytes;
        let limit = gpu.properties().shared_bytes_per_block;
        if asked > limit {
            return Err(Error::SharedMemory { kernel, asked, limit, device: gpu.label() });
        }
        if shared_bytes > known.allowed {
            // Above 48 KB a kernel has to opt in.
            let most = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            let bytes = i32::try_from(shared_bytes).unwrap_or(i32::MAX);
            gpu.bind()?;
            // SAFETY: the function belongs to a loaded module.
            check(unsafe { sys::cuFuncSetAttribute(known.function.function.0, most, bytes) })
                .map_err(|code| gpu.error_of_code("cuFuncSetAttribute", code))?;
            known.allowed = shared_bytes;
        }
        Ok(known.function)
    }

    fn look_up(
        &'static self,
        gpu: &'static Gpu,
        kernel: &'static str,
        package: &'static str,
    ) -> Result<GpuFunction> {
        let no_such = || Error::NoSuchKernel { kernel, package, module: self.ptx.name() };
        let (module, params, waits) = match &self.compiled {
            Compiled::Whole { image, text, module } => {
                (module.0, EntryParams::of(text, kernel), ptx::can_wait(image))
            }
            Compiled::ByKernel(texts) => {
                let only = texts.kernel(kernel).ok_or_else(no_such)?;
                let (image, params) = (only.arch(), EntryParams::of(only.head(), kernel));
                // The module stays loaded, as the GPU stays open; the caller keeps the function.
                let module = match assembled(gpu, &only)? {
                    Some(module) => module,
                    None => compile(gpu, self.ptx, image, only.text())?,
                };
                (module.0, params, ptx::can_wait(image))
            }
        };
        gpu.bind()?;
        let name = CString::new(kernel).map_err(|_| no_such())?;
        let mut function = std::ptr::null_mut();
        // SAFETY: the module is loaded, the name is zero-terminated, and the pointer to the result
        // is writable.
        check(unsafe { sys::cuModuleGetFunction(&mut function, module, name.as_ptr()) }).map_err(|code| {
            match code {
                DriverCode::NOT_FOUND => no_such(),
                code => gpu.error_of_code("cuModuleGetFunction", code),
            }
        })?;
        let params = params.ok_or_else(no_such)?;
        let attribute = |attribute| {
            let mut value = 0;
            // SAFETY: the function is of a loaded module; the pointer to the result is writable.
            check(unsafe { sys::cuFuncGetAttribute(&mut value, attribute, function) })
                .map_err(|code| gpu.error_of_code("cuFuncGetAttribute", code))?;
            Ok::<u32, Error>(value.unsigned_abs())
        };
        use sys::CUfunction_attribute as Attribute;
        let attributes = KernelAttributes {
            registers: attribute(Attribute::CU_FUNC_ATTRIBUTE_NUM_REGS)?,
            local_bytes: attribute(Attribute::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)? as usize,
            static_shared_bytes: attribute(Attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)? as usize,
            max_threads: attribute(Attribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?,
        };
        Ok(GpuFunction { function: RawFunction(function), attributes, params, waits })
    }
}

/// The value in a lock. A thread that panics leaves it consistent.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Loads the machine code of a kernel, which the driver need not compile. `None` if the package has
/// no code for this GPU or the driver refuses it.
fn assembled(gpu: &'static Gpu, only: &Only) -> Result<Option<RawModule>> {
    if !gpu.properties().arch.runs_code_of(only.arch()) {
        return Ok(None);
    }
    let Some(code) = only.cubin() else { return Ok(None) };
    gpu.bind()?;
    let mut module = std::ptr::null_mut();
    // SAFETY: the code is a whole ELF image, and the pointer to the module is writable; no options.
    let loaded = unsafe {
        sys::cuModuleLoadDataEx(
            &mut module,
            code.as_ptr().cast(),
            0,
            std::ptr::null_mut(),
            std::ptr::null_mut(),
        )
    };
    match check(loaded) {
        Ok(()) => Ok(Some(RawModule(module))),
        Err(code) if code.is_kernel_fault() || code == DriverCode::OUT_OF_MEMORY => {
            Err(gpu.error_of_code("cuModuleLoadDataEx", code))
        }
        Err(_) => Ok(None),
    }
}

/// Compiles an image with the driver.
fn compile(gpu: &'static Gpu, ptx: Ptx, image: &'static str, text: String) -> Result<RawModule> {
    gpu.bind()?;
    let text = CString::new(text).map_err(|_| Error::PtxRefused {
        module: ptx.name(),
        image,
        code: DriverCode::INVALID_PTX,
        log: "the module contains a zero byte".to_owned(),
    })?;
    let mut module = std::ptr::null_mut();
    // SAFETY: the PTX is zero-terminated, and the pointer to the module is writable; no options.
    let loaded = unsafe {
        sys::cuModuleLoadDataEx(
            &mut module,
            text.as_ptr().cast(),
            0,
            std::ptr::null_mut(),
            std::ptr::null_mut(),
        )
    };
    check(loaded).map_err(|code| refusal(gpu, ptx, image, &text, code))?;
    Ok(RawModule(module))
}

/// The error for an image that the driver refused, with the log of its compiler.
fn refusal(gpu: &Gpu, ptx: Ptx, image: &'static str, text: &CString, code: DriverCode) -> Error {
    let versions = ptx::version(&text.to_string_lossy()).zip(driver::version().ok());
    if let (DriverCode::UNSUPPORTED_PTX_VERSION, Some((version, driver))) = (code, versions) {
        let needs = ptx::cuda_for(version);
        return Error::PtxVersion {
            module: ptx.name(),
            ptx: format!("{}.{}", version.0, version.1),
            needs: format!("{}.{}", needs.0, needs.1),
            driver,
        };
    }
    if code.is_kernel_fault() || code == DriverCode::OUT_OF_MEMORY {
        return gpu.error_of_code("cuModuleLoadDataEx", code);
    }
    Error::PtxRefused { module: ptx.name(), image, code, log: compiler_log(text) }
}

/// The log of the driver's compiler for an image that it refused.
fn compiler_log(text: &CString) -> String {
    let mut log = vec![0u8; 8192];
    let mut options =
        [sys::CUjit_option::CU_JIT_ERROR_LOG_BUFFER, sys::CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES];
    // The size is passed by value in place of a pointer.
    let mut values = [log.as_mut_ptr().cast::<c_void>(), log.len() as *mut c_void];
    let mut module = std::ptr::null_mut();
    // SAFETY: the PTX is zero-terminated, the log has the given length, and the arrays have two
    // entries.
    let taken = unsafe {
        sys::cuModuleLoadDataEx(
            &mut module,
            text.as_ptr().cast(),
            2,
            options.as_mut_ptr(),
            values.as_mut_ptr(),
        )
    };
    if check(taken).is_ok() {
        // SAFETY: just loaded, and not in use.
        unsafe { sys::cuModuleUnload(module) };
    }
    let end = log.iter().position(|&b| b == 0).unwrap_or(log.len());
    String::from_utf8_lossy(&log[..end]).trim().to_owned()
}
