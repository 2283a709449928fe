//! A GPU by the driver's own functions, which are looked up when the program runs.

use libloading::Library;
use moye_sim::TensorMap;
use std::ffi::{CString, c_char, c_int, c_void};

type Code = c_int;

/// A GPU with the kernels loaded.
pub struct Gpu {
    library: Library,
    module: *mut c_void,
    /// Its multiprocessors.
    pub multiprocessors: u32,
}

#[repr(C, align(64))]
struct Encoded([u64; 16]);

/// Calls a function of the driver by its name and types.
macro_rules! call {
    ($library:expr, $name:literal($($value:expr => $type:ty),*)) => {
        // SAFETY: the driver's function of this name has this signature (CUDA Driver API).
        unsafe {
            let function = $library
                .get::<unsafe extern "C" fn($($type),*) -> Code>($name.as_bytes())
                .map_err(|error| error.to_string())?;
            match function($($value),*) {
                0 => Ok(()),
                code => Err(format!("{} gives the code {code}", $name)),
            }
        }
    };
}

impl Gpu {
    /// The first GPU, with the kernels of a PTX text.
    ///
    /// # Errors
    /// The driver's own.
    pub fn new(ptx: &str) -> Result<Self, String> {
        // SAFETY: the driver's library, whose initialisers are its own.
        let library = unsafe { Library::new("libcuda.so.1") }.map_err(|error| error.to_string())?;
        let (mut device, mut context, mut module) = (0, std::ptr::null_mut(), std::ptr::null_mut());
        let mut multiprocessors = 0;
        call!(library, "cuInit"(0 => u32))?;
        call!(library, "cuDeviceGet"(&raw mut device => *mut c_int, 0 => c_int))?;
        call!(library, "cuDevicePrimaryCtxRetain"(&raw mut context => *mut *mut c_void, device => c_int))?;
        call!(library, "cuCtxSetCurrent"(context => *mut c_void))?;
        call!(library, "cuDeviceGetAttribute"(&raw mut multiprocessors => *mut c_int, 16 => c_int, device => c_int))?;
        let text = CString::new(ptx).map_err(|error| error.to_string())?;
        call!(library, "cuModuleLoadData"(&raw mut module => *mut *mut c_void, text.as_ptr() => *const c_char))?;
        Ok(Self { library, module, multiprocessors: multiprocessors as u32 })
    }

    /// Memory with these bytes.
    ///
    /// # Errors
    /// The driver's own.
    pub fn upload(&self, bytes: &[u8]) -> Result<u64, String> {
        let mut address = 0;
        call!(self.library, "cuMemAlloc_v2"(&raw mut address => *mut u64, bytes.len().max(16) => usize))?;
        call!(self.library, "cuMemcpyHtoD_v2"(
            address => u64, bytes.as_ptr().cast() => *const c_void, bytes.len() => usize
        ))?;
        Ok(address)
    }

    /// Fills memory with a byte.
    ///
    /// # Errors
    /// The driver's own.
    pub fn fill(&self, address: u64, value: u8, bytes: usize) -> Result<(), String> {
        call!(self.library, "cuMemsetD8_v2"(address => u64, value => u8, bytes => usize))
    }

    /// The bytes of memory.
    ///
    /// # Errors
    /// The driver's own; a kernel that failed before.
    pub fn download(&self, address: u64, bytes: usize) -> Result<Vec<u8>, String> {
        let mut result = vec![0; bytes];
        call!(self.library, "cuMemcpyDtoH_v2"(
            result.as_mut_ptr().cast() => *mut c_void, address => u64, bytes => usize
        ))?;
        Ok(result)
    }

    /// Frees memory.
    ///
    /// # Errors
    /// The driver's own.
    pub fn free(&self, address: u64) -> Result<(), String> {
        call!(self.library, "cuMemFree_v2"(address => u64))
    }

    /// A tensor map in the driver's form.
    ///
    /// # Errors
    /// The driver's own.
    pub fn encode(&self, map: &TensorMap) -> Result<[u64; 16], String> {
        let mut encoded = Encoded([0; 16]);
        call!(self.library, "cuTensorMapEncodeTiled"(
            &raw mut encoded => *mut Encoded, map.element as c_int => c_int, map.rank as u32 => u32,
            map.address as *mut c_void => *mut c_void, map.extents.as_ptr() => *const u64,
            map.strides.as_ptr() => *const u64, map.box_extents.as_ptr() => *const u32,
            map.element_strides.as_ptr() => *const u32, 0 => c_int, map.swizzle as c_int => c_int,
            // L2 fetches 256 bytes at a time.
            3 => c_int, map.fill as c_int => c_int
        ))?;
        Ok(encoded.0)
    }

    /// A kernel, ready for launches with this much shared memory.
    ///
    /// # Errors
    /// The driver's own.
    pub fn kernel(&self, name: &str, shared_bytes: usize) -> Result<*mut c_void, String> {
        let mut function = std::ptr::null_mut();
        let text = CString::new(name).map_err(|error| error.to_string())?;
        call!(self.library, "cuModuleGetFunction"(
            &raw mut function => *mut *mut c_void, self.module => *mut c_void, text.as_ptr() => *const c_char
        ))?;
        call!(self.library, "cuFuncSetAttribute"(function => *mut c_void, 8 => c_int, shared_bytes as c_int => c_int))?;
        Ok(function)
    }

    /// Launches a kernel.
    ///
    /// # Safety
    /// The parameters are the kernel's, and keep its contract.
    ///
    /// # Errors
    /// The driver's own.
    pub unsafe fn launch<P: moye_device::kernel::Params>(
        &self,
        kernel: *mut c_void,
        (blocks, threads, shared_bytes): (u32, u32, usize),
        parameters: &P,
    ) -> Result<(), String> {
        parameters.with_addresses(|addresses| {
            let addresses = addresses.as_ptr().cast_mut();
            let null = std::ptr::null_mut::<c_void>();
            call!(self.library, "cuLaunchKernel"(
                kernel => *mut c_void, blocks => u32, 1 => u32, 1 => u32, threads => u32, 1 => u32, 1 => u32,
                shared_bytes as u32 => u32, null => *mut c_void, addresses => *mut *mut c_void,
                std::ptr::null_mut() => *mut *mut c_void
            ))
        })
    }

    /// Milliseconds that the work which `enqueue` launches takes on the GPU.
    ///
    /// # Errors
    /// The driver's own; those of `enqueue`.
    pub fn milliseconds(&self, enqueue: impl FnOnce() -> Result<(), String>) -> Result<f32, String> {
        let mut events = [std::ptr::null_mut::<c_void>(); 2];
        for event in &mut events {
            call!(self.library, "cuEventCreate"(event => *mut *mut c_void, 0 => u32))?;
        }
        let null = std::ptr::null_mut::<c_void>();
        call!(self.library, "cuEventRecord"(events[0] => *mut c_void, null => *mut c_void))?;
        enqueue()?;
        call!(self.library, "cuEventRecord"(events[1] => *mut c_void, null => *mut c_void))?;
        call!(self.library, "cuEventSynchronize"(events[1] => *mut c_void))?;
        let mut milliseconds = 0.0;
        call!(self.library, "cuEventElapsedTime"(
            &raw mut milliseconds => *mut f32, events[0] => *mut c_void, events[1] => *mut c_void
        ))?;
        Ok(milliseconds)
    }
}
