//! A stand-in for NVIDIA's driver, for machines without one: the part of `libcuda.so.1` that a
//! matrix product uses. `FAKE_DRIVER` names a fault.

use std::ffi::{c_char, c_int, c_uint, c_void};

fn fault(name: &str) -> bool {
    static FAULT: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    FAULT.get_or_init(|| std::env::var("FAKE_DRIVER").unwrap_or_default()) == name
}

/// `code` if this fault is set, success otherwise.
fn unless(name: &str, code: c_int) -> c_int {
    if fault(name) { code } else { 0 }
}

/// Whether a variable names a file for records. The environment is read once, because the time of
/// calls is measured.
fn is_noted(variable: &str) -> bool {
    static NOTED: std::sync::OnceLock<Vec<String>> = std::sync::OnceLock::new();
    let names = || std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let noted = NOTED.get_or_init(|| names().filter(|name| name.starts_with("FAKE_DRIVER_")).collect());
    noted.iter().any(|name| name == variable)
}

/// Appends a line to the file that a variable names, if it is set.
fn note(variable: &str, line: &str) -> c_int {
    use std::io::Write;
    if !is_noted(variable) {
        return 0;
    }
    if let Some(file) = std::env::var_os(variable) {
        let file = std::fs::OpenOptions::new().create(true).append(true).open(file);
        // In one write, because another thread may record something too.
        let line = format!("{line}\n");
        file.and_then(|mut file| file.write_all(line.as_bytes())).expect("a file for notes");
    }
    0
}

/// Records a call and its handles.
fn call(name: &str, handles: &[usize]) -> c_int {
    if !is_noted("FAKE_DRIVER_CALLS") {
        return 0;
    }
    let handles: String = handles.iter().map(|handle| format!(" {handle:#x}")).collect();
    note("FAKE_DRIVER_CALLS", &format!("{name}{handles}"))
}

/// Records the names of a module's entry points.
fn note_load(image: *const c_char) {
    // SAFETY: the driver receives a zero-terminated string.
    let text = unsafe { std::ffi::CStr::from_ptr(image) }.to_string_lossy();
    let names = text.lines().filter_map(|line| line.strip_prefix(".visible .entry "));
    let names: Vec<_> = names.map(|name| name.trim_end_matches(['(', ')'])).collect();
    note("FAKE_DRIVER_LOADS", &names.join(" "));
}

/// Whether the module has the kernel that `FAKE_DRIVER_REFUSED` names and the file `FAKE_DRIVER_GO`
/// does not exist yet.
fn refuses(image: *const c_char) -> bool {
    let (Ok(refused), Some(go)) = (std::env::var("FAKE_DRIVER_REFUSED"), std::env::var_os("FAKE_DRIVER_GO")) else {
        return false;
    };
    // SAFETY: the driver receives a zero-terminated string.
    let text = unsafe { std::ffi::CStr::from_ptr(image) }.to_string_lossy();
    text.contains(&format!(".visible .entry {refused}(")) && !std::path::Path::new(&go).exists()
}

/// The beginning of `CUlaunchConfig`, from NVIDIA's "CUDA Driver API".
#[repr(C)]
pub struct LaunchConfig {
    extents: [c_uint; 7],
    stream: usize,
    attributes: *const LaunchAttribute,
    count: c_uint,
}

/// `CUlaunchAttribute`
#[repr(C, align(8))]
pub struct LaunchAttribute {
    id: c_int,
    padding: u32,
    value: [u32; 16],
}

/// Delays the load of the kernel that `FAKE_DRIVER_SLOW` names until the file `FAKE_DRIVER_GO`
/// exists; returns an error code after a timeout.
fn slow_load(image: *const c_char) -> c_int {
    let (Ok(slow), Some(go)) = (std::env::var("FAKE_DRIVER_SLOW"), std::env::var_os("FAKE_DRIVER_GO")) else {
        return 0;
    };
    // SAFETY: the driver receives a zero-terminated string.
    let text = unsafe { std::ffi::CStr::from_ptr(image) }.to_string_lossy();
    if !text.contains(&format!(".visible .entry {slow}(")) {
        return 0;
    }
    let begun = std::time::Instant::now();
    while !std::path::Path::new(&go).exists() {
        if begun.elapsed().as_secs() >= 20 {
            return 999;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    0
}

unsafe fn put<T>(place: *mut T, value: T) -> c_int {
    // SAFETY: the callers pass a pointer for the result, as the driver's interface requires.
    unsafe { place.write(value) };
    0
}

macro_rules! driver {
    ($(fn $name:ident($($arg:ident: $type:ty),*) = $body:expr;)*) => { $(
        #[unsafe(no_mangle)]
        #[allow(unused_variables)]
        pub unsafe extern "C" fn $name($($arg: $type),*) -> c_int {
            note("FAKE_DRIVER_ALL", stringify!($name));
            // SAFETY: called as the driver's interface requires.
            #[allow(unused_unsafe)]
            unsafe { $body }
        }
    )* };
}

driver! {
    fn cuInit(flags: c_uint) = unless("no gpu", 100);
    fn cuDriverGetVersion(version: *mut c_int) = put(version, 11040);
    fn cuDeviceGetCount(count: *mut c_int) = put(count, 1);
    fn cuDeviceGet(device: *mut c_int, ordinal: c_int) = put(device, ordinal);
    fn cuDeviceGetName(name: *mut c_char, len: c_int, device: c_int) = {
        let text = c"Fake GPU";
        std::ptr::copy_nonoverlapping(text.as_ptr(), name, text.count_bytes() + 1);
        0
    };
    fn cuDeviceTotalMem_v2(bytes: *mut usize, device: c_int) = put(bytes, 1 << 30);
    fn cuDeviceGetAttribute(value: *mut c_int, attribute: c_int, device: c_int) = put(value, match attribute {
        75 if fault("old gpu") => 7,
        76 if fault("old gpu") => 5,
        75 if fault("hopper") || fault("hopper that refuses") || fault("h100") => 9,
        16 if fault("h100") => 132,
        97 if fault("h100") => 227 * 1024,
        75 if fault("new gpu") => 10,
        75 => 8,
        76 => 0,
        97 => 163 * 1024,
        // An H100's values: clocks in kHz, the width of the memory bus, bytes of L2 and of an SM's
        // shared memory.
        13 => 1_980_000,
        36 => 2_619_000,
        37 => 5120,
        38 => 50 << 20,
        81 => 228 << 10,
        _ => 1,
    });
    fn cuDevicePrimaryCtxRetain(context: *mut usize, device: c_int) =
        if fault("context") { 2 } else { put(context, 1) };
    fn cuCtxSetCurrent(context: usize) = 0;
    fn cuTensorMapEncodeTiled(map: *mut [u64; 16], element: c_int, rank: c_uint, address: *mut c_void,
        extents: *const u64, strides: *const u64, boxes: *const c_uint, steps: *const c_uint,
        interleave: c_int, swizzle: c_int, promotion: c_int, fill: c_int) = put(map, [7; 16]);
    fn cuCtxGetCurrent(context: *mut usize) = put(context, 1);
    // A stream of `cudarc`.
    fn cuStreamCreate(stream: *mut usize, flags: c_uint) = put(stream, 0x101);
    fn cuMemsetD8Async(address: u64, value: u8, count: usize, stream: usize) = 0;
    fn cuCtxGetDevice(device: *mut c_int) = put(device, 0);
    fn cuCtxDestroy_v2(context: usize) = call("cuCtxDestroy", &[context]);
    fn cuDevicePrimaryCtxGetState(device: c_int, flags: *mut c_uint, active: *mut c_int) = { put(flags, 0); put(active, 1) };
    fn cuDevicePrimaryCtxRelease_v2(device: c_int) = call("cuDevicePrimaryCtxRelease", &[device as usize]);
    fn cuPointerGetAttribute(value: *mut c_int, attribute: c_int, address: u64) =
        if address < 1 << 30 { 1 } else { put(value, c_int::from(address >= 1 << 50)) };
    // The handles of a context's streams start with the context's number.
    fn cuStreamGetCtx(stream: usize, context: *mut usize) = put(context, stream >> 8);
    fn cuStreamDestroy_v2(stream: usize) = call("cuStreamDestroy", &[stream]);
    fn cuStreamSynchronize(stream: usize) = call("cuStreamSynchronize", &[stream]);
    fn cuStreamWaitEvent(stream: usize, event: usize, flags: c_uint) = call("cuStreamWaitEvent", &[stream, event]);
    fn cuMemsetD32Async(address: u64, value: c_uint, count: usize, stream: usize) = call("cuMemsetD32Async", &[stream]);
    fn cuCtxSynchronize() = unless("kernel fault", 700);
    fn cuStreamCreateWithPriority(stream: *mut usize, flags: c_uint, priority: c_int) = put(stream, 2);
    fn cuMemAlloc_v2(address: *mut u64, bytes: usize) = if fault("memory") { 2 } else { put(address, 1 << 40) };
    fn cuMemFree_v2(address: u64) = call("cuMemFree", &[address as usize]);
    fn cuDeviceGetDefaultMemPool(pool: *mut usize, device: c_int) = put(pool, 5);
    fn cuMemPoolSetAttribute(pool: usize, attribute: c_int, value: *mut c_void) = 0;
    fn cuMemAllocAsync(address: *mut u64, bytes: usize, stream: usize) = {
        call("cuMemAllocAsync", &[stream]);
        put(address, 1 << 41)
    };
    fn cuMemFreeAsync(address: u64, stream: usize) = call("cuMemFreeAsync", &[stream]);
    fn cuMemsetD32_v2(address: u64, value: c_uint, count: usize) = 0;
    // The file `FAKE_DRIVER_CAPTURES` begins and ends another library's capture.
    fn cuStreamIsCapturing(stream: usize, status: *mut c_int) = put(status, c_int::from(
        std::env::var_os("FAKE_DRIVER_CAPTURES").is_some_and(|file| std::path::Path::new(&file).exists())));
    fn cuStreamBeginCapture_v2(stream: usize, mode: c_int) = call("cuStreamBeginCapture", &[stream, mode as usize]);
    fn cuStreamEndCapture(stream: usize, graph: *mut usize) = {
        call("cuStreamEndCapture", &[stream]);
        put(graph, 7)
    };
    fn cuGraphInstantiateWithFlags(executable: *mut usize, graph: usize, flags: u64) = {
        call("cuGraphInstantiateWithFlags", &[graph]);
        put(executable, 8)
    };
    fn cuGraphLaunch(executable: usize, stream: usize) = call("cuGraphLaunch", &[executable, stream]);
    fn cuGraphExecUpdate(executable: usize, graph: usize, node: *mut usize, result: *mut c_int) = {
        call("cuGraphExecUpdate", &[executable, graph]);
        // The topology differs.
        if fault("update") { put(result, 2) + 910 } else { put(result, 0) }
    };
    fn cuGraphExecDestroy(executable: usize) = call("cuGraphExecDestroy", &[executable]);
    fn cuGraphDestroy(graph: usize) = call("cuGraphDestroy", &[graph]);
    fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) = { put(total, 1 << 30); put(free, 1000) };
    fn cuMemcpyHtoD_v2(to: u64, from: *const c_void, bytes: usize) = 0;
    fn cuMemcpyDtoH_v2(to: *mut c_void, from: u64, bytes: usize) = unless("kernel fault", 700);
    fn cuEventCreate(event: *mut usize, flags: c_uint) = put(event, 3);
    fn cuEventDestroy_v2(event: usize) = call("cuEventDestroy", &[event]);
    fn cuEventRecord(event: usize, stream: usize) = call("cuEventRecord", &[event, stream]);
    fn cuEventSynchronize(event: usize) = {
        call("cuEventSynchronize", &[event]);
        unless("kernel fault", 700)
    };
    fn cuEventElapsedTime(milliseconds: *mut f32, start: usize, end: usize) = put(milliseconds, 1.0);
    fn cuModuleLoadDataEx(module: *mut usize, image: *const c_char, count: c_uint, options: *const c_int,
        values: *const *mut c_char) = {
        if fault("ptx version") {
            222
        } else if fault("load") {
            700
        } else if fault("load memory") {
            2
        } else if fault("ptx") || fault("ptx without a log") || fault("hopper that refuses") || refuses(image) {
            if count > 0 && fault("ptx") {
                let log = c"ptxas application ptx input, line 9; error";
                std::ptr::copy_nonoverlapping(log.as_ptr(), *values, log.count_bytes() + 1);
            }
            218
        } else {
            note_load(image);
            put(module, 4);
            slow_load(image)
        }
    };
    fn cuModuleUnload(module: usize) = 0;
    fn cuModuleGetFunction(function: *mut usize, module: usize, name: *const c_char) =
        if fault("no kernel") { 500 } else { put(function, 5) };
    fn cuFuncGetAttribute(value: *mut c_int, attribute: c_int, function: usize) =
        put(value, if fault("registers") { 128 } else { 1024 });
    fn cuFuncSetAttribute(function: usize, attribute: c_int, value: c_int) = 0;
    fn cuGetErrorName(code: c_int, text: *mut *const c_char) = put(text, c"CUDA_ERROR_FAKE".as_ptr());
    fn cuGetErrorString(code: c_int, text: *mut *const c_char) = put(text, c"something fake".as_ptr());
}

// Compiled without this, the driver lacks a function.
#[cfg(not(lacks_a_function))]
driver! {
    fn cuLaunchKernel(function: usize, gx: c_uint, gy: c_uint, gz: c_uint, bx: c_uint, by: c_uint, bz: c_uint,
        shared: c_uint, stream: usize, parameters: *mut *mut c_void, extra: *mut *mut c_void) = {
        call("cuLaunchKernel", &[stream]);
        note("FAKE_DRIVER_LAUNCHES", "cuLaunchKernel");
        unless("launch", 701)
    };
    fn cuLaunchKernelEx(config: *const LaunchConfig, function: usize, parameters: *mut *mut c_void,
        extra: *mut *mut c_void) = {
        call("cuLaunchKernelEx", &[(*config).stream]);
        if !is_noted("FAKE_DRIVER_LAUNCHES") {
            return 0;
        }
        let attributes = std::slice::from_raw_parts((*config).attributes, (*config).count as usize);
        let ids: Vec<_> = attributes.iter().map(|attribute| attribute.id.to_string()).collect();
        note("FAKE_DRIVER_LAUNCHES", &format!("cuLaunchKernelEx {}", ids.join(" ")))
    };
}
