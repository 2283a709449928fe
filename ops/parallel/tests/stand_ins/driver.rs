//! A stand-in for NVIDIA's driver with four GPUs: the part of `libcuda.so.1` that ranks use. Device
//! memory is the host's, each stream has a thread, and of the kernels only `pushed` and
//! `summed_bf16` compute. Without `STAND_IN_PEERS` the GPUs have no access to each other's memory.
//! `STAND_IN_GPUS` is the number of identifiers that the GPUs have, `STAND_IN_OLD` names one of
//! compute capability 8.0, and `STAND_IN_BROKEN` one that loads no module. With `STAND_IN_SLOW_SUM`
//! a sum takes 5 ms, with `STAND_IN_SLOW_FILL` a fill 200 ms on the first GPU, 400 on the next one.

use std::cell::Cell;
use std::collections::VecDeque;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Condvar, Mutex};
use std::time::Duration;

thread_local!(static CURRENT: Cell<usize> = const { Cell::new(0) });

/// Work of a stream: called until it returns that it is complete.
type Work = Box<dyn FnMut() -> bool + Send>;

/// A stream's work.
#[derive(Default)]
struct Stream {
    queue: Mutex<VecDeque<Work>>,
    queued: Condvar,
    /// How much of it is not complete.
    outstanding: AtomicUsize,
}

/// An event: how often it was recorded, and the last record that has happened.
#[derive(Default)]
struct Event {
    recorded: AtomicU64,
    happened: AtomicU64,
}

fn new_stream() -> usize {
    let stream: &'static Stream = Box::leak(Box::default());
    std::thread::spawn(move || {
        loop {
            let queue = stream.queue.lock().unwrap();
            let mut work = stream.queued.wait_while(queue, |queue| queue.is_empty()).unwrap().pop_front().unwrap();
            while !work() {
                std::thread::sleep(Duration::from_micros(200));
            }
            stream.outstanding.fetch_sub(1, SeqCst);
        }
    });
    std::ptr::from_ref(stream).expose_provenance()
}

unsafe fn stream(handle: usize) -> &'static Stream {
    // SAFETY: `new_stream` returned the handle.
    unsafe { &*std::ptr::with_exposed_provenance::<Stream>(handle) }
}

/// Fills of memory by `cuMemsetD8`: queued, and done, of each GPU's context.
static FILLS: [[AtomicU64; 2]; 5] = [const { [const { AtomicU64::new(0) }; 2] }; 5];

/// Waits for the fills of the current context.
fn filled() {
    let [queued, done] = &FILLS[CURRENT.get()];
    while done.load(SeqCst) < queued.load(SeqCst) {
        std::thread::yield_now();
    }
}

/// Queues work of a stream, which begins after the fills of its context before it.
unsafe fn queue(handle: usize, mut work: impl FnMut() -> bool + Send + 'static) -> c_int {
    // SAFETY: `new_stream` returned the handle.
    let stream = unsafe { stream(handle) };
    let [queued, done] = &FILLS[CURRENT.get()];
    let fills = queued.load(SeqCst);
    stream.outstanding.fetch_add(1, SeqCst);
    stream.queue.lock().unwrap().push_back(Box::new(move || done.load(SeqCst) >= fills && work()));
    stream.queued.notify_one();
    0
}

unsafe fn is_idle(handle: usize) -> bool {
    // SAFETY: `new_stream` returned the handle.
    unsafe { stream(handle) }.outstanding.load(SeqCst) == 0
}

unsafe fn event(handle: usize) -> &'static Event {
    // SAFETY: `cuEventCreate` returned the handle.
    unsafe { &*std::ptr::with_exposed_provenance::<Event>(handle) }
}

fn word(address: u64) -> &'static AtomicU32 {
    // SAFETY: the callers pass an aligned word that stays allocated.
    unsafe { &*std::ptr::with_exposed_provenance::<AtomicU32>(address as usize) }
}

/// Whether a variable names this GPU.
fn is_named(variable: &str, device: c_int) -> bool {
    std::env::var(variable).is_ok_and(|named| named == device.to_string())
}

/// Adds bf16 values that need no rounding: the kernel `summed_bf16`, with contiguous results.
unsafe fn sum(parts: [u64; 8], [count, rows, columns]: [u32; 3], target: u64) {
    let value = |bits: u16| f32::from_bits(u32::from(bits) << 16);
    for at in 0..(rows * columns) as usize {
        // SAFETY: the kernel's contract.
        let part = |&from: &u64| value(unsafe { bytes(from).cast::<u16>().add(at).read_volatile() });
        let sum: f32 = parts[..count as usize].iter().map(part).sum();
        // SAFETY: the kernel's contract: the result has rows x columns elements.
        unsafe { bytes(target).cast::<u16>().add(at).write_volatile((sum.to_bits() >> 16) as u16) };
    }
}

/// Whether the flags have reached the value that the kernel `summed_bf16` waits for.
fn have_come(flags: u64, [epoch, ranks, own]: [u32; 3]) -> bool {
    let has = |rank: &u32| word(flags + 128 * u64::from(*rank)).load(SeqCst).wrapping_sub(epoch).cast_signed() >= 0;
    ranks < 2 || (0..ranks).filter(|&rank| rank != own).all(|rank| has(&rank))
}

/// Handles of kernels.
const OTHER: usize = 5;
const SUM: usize = 6;
const PUSH: usize = 7;

unsafe fn launch(function: usize, stream: usize, parameters: *mut *mut c_void) -> c_int {
    // SAFETY: the kernels have these parameters; a `Target` starts with the result's address.
    unsafe {
        let parameter = |at: usize| (*parameters.add(at)).cast::<u64>();
        match function {
            SUM => {
                let parts = parameter(0).cast::<[u64; 8]>().read();
                let numbers = parameter(0).add(8).cast::<[u32; 3]>().read();
                let (flags, awaited) = (parameter(1).read(), parameter(1).add(1).cast::<[u32; 3]>().read());
                let target = parameter(2).read();
                queue(stream, move || {
                    if std::env::var_os("STAND_IN_SLOW_SUM").is_some() {
                        std::thread::sleep(Duration::from_millis(5));
                    }
                    let come = have_come(flags, awaited);
                    if come {
                        sum(parts, numbers, target);
                    }
                    come
                })
            }
            PUSH => {
                let (from, to) = (parameter(0).read(), parameter(1).cast::<[u64; 8]>().read());
                let count = 16 * parameter(2).cast::<u32>().read() as usize;
                queue(stream, move || {
                    to.into_iter().filter(|&to| to > 0).for_each(|to| bytes(to).copy_from(bytes(from), count));
                    true
                })
            }
            _ => 0,
        }
    }
}

fn bytes(address: u64) -> *mut u8 {
    std::ptr::with_exposed_provenance_mut(address as usize)
}

unsafe fn put<T>(place: *mut T, value: T) -> c_int {
    // SAFETY: the callers pass a pointer for the result.
    unsafe { place.write(value) };
    0
}

macro_rules! driver {
    ($(fn $name:ident($($arg:ident: $type:ty),*) = $body:expr;)*) => { $(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $type),*) -> c_int {
            // SAFETY: called as the driver's interface requires.
            #[allow(unused_unsafe)]
            unsafe { $body }
        }
    )* };
}

driver! {
    fn cuInit(_flags: c_uint) = 0;
    fn cuDriverGetVersion(version: *mut c_int) = put(version, 13000);
    fn cuDeviceGetCount(count: *mut c_int) = put(count, 4);
    fn cuDeviceGet(device: *mut c_int, ordinal: c_int) = put(device, ordinal);
    fn cuDeviceGetName(name: *mut c_char, _len: c_int, _device: c_int) = {
        std::ptr::copy_nonoverlapping(c"Stand-in".as_ptr(), name, 9);
        0
    };
    fn cuDeviceGetUuid_v2(uuid: *mut [u8; 16], device: c_int) = {
        let gpus = std::env::var("STAND_IN_GPUS").map_or(4, |gpus| gpus.parse().unwrap());
        put(uuid, [1 + device as u8 % gpus; 16])
    };
    fn cuDeviceTotalMem_v2(total: *mut usize, _device: c_int) = put(total, 1 << 30);
    fn cuDeviceGetAttribute(value: *mut c_int, attribute: c_int, device: c_int) = put(value, match attribute {
        // Compute capability, SMs, shared memory of a block and of an SM, clocks, bus width, L2.
        75 => if is_named("STAND_IN_OLD", device) { 8 } else { 9 },
        76 => 0,
        16 => 132,
        97 => 227 << 10,
        81 => 228 << 10,
        13 => 1_980_000,
        36 => 2_619_000,
        37 => 5120,
        38 => 50 << 20,
        _ => 1,
    });
    fn cuDevicePrimaryCtxRetain(context: *mut usize, device: c_int) = put(context, 1 + device as usize);
    fn cuCtxSetCurrent(context: usize) = { CURRENT.set(context); 0 };
    fn cuCtxGetDevice(device: *mut c_int) = put(device, CURRENT.get() as c_int - 1);
    fn cuCtxSynchronize() = 0;
    fn cuDeviceCanAccessPeer(can: *mut c_int, _device: c_int, _peer: c_int) =
        put(can, c_int::from(std::env::var_os("STAND_IN_PEERS").is_some()));
    fn cuCtxEnablePeerAccess(_peer: usize, _flags: c_uint) = 0;
    fn cuStreamCreateWithPriority(stream: *mut usize, _flags: c_uint, _priority: c_int) = put(stream, new_stream());
    fn cuStreamDestroy_v2(_stream: usize) = 0;
    fn cuStreamGetCtx(_stream: usize, context: *mut usize) = put(context, CURRENT.get());
    fn cuStreamIsCapturing(_stream: usize, status: *mut c_int) = put(status, 0);
    fn cuStreamQuery(stream: usize) = if is_idle(stream) { 0 } else { 600 };
    fn cuStreamSynchronize(stream: usize) = {
        while !is_idle(stream) {
            std::thread::sleep(Duration::from_micros(50));
        }
        0
    };
    fn cuStreamWaitEvent(stream: usize, of: usize, _flags: c_uint) = {
        let of = event(of);
        let number = of.recorded.load(SeqCst);
        queue(stream, move || of.happened.load(SeqCst) >= number)
    };
    fn cuStreamWriteValue32_v2(stream: usize, address: u64, value: c_uint, _flags: c_uint) = queue(stream, move || {
        word(address).store(value, SeqCst);
        true
    });
    fn cuStreamWaitValue32_v2(stream: usize, address: u64, value: c_uint, _flags: c_uint) =
        queue(stream, move || word(address).load(SeqCst).wrapping_sub(value).cast_signed() >= 0);
    fn cuEventCreate(place: *mut usize, _flags: c_uint) =
        put(place, std::ptr::from_ref::<Event>(Box::leak(Box::default())).expose_provenance());
    fn cuEventDestroy_v2(_event: usize) = 0;
    fn cuEventRecord(of: usize, stream: usize) = {
        let of = event(of);
        let number = of.recorded.fetch_add(1, SeqCst) + 1;
        queue(stream, move || {
            of.happened.fetch_max(number, SeqCst);
            true
        })
    };
    fn cuEventSynchronize(of: usize) = {
        let of = event(of);
        while of.happened.load(SeqCst) < of.recorded.load(SeqCst) {
            std::thread::sleep(Duration::from_micros(100));
        }
        0
    };
    fn cuMemAlloc_v2(address: *mut u64, count: usize) =
        put(address, Vec::<u128>::with_capacity(count / 16 + 64).leak().as_mut_ptr().expose_provenance() as u64 + 255 & !255);
    fn cuMemFree_v2(_address: u64) = 0;
    fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) = { put(free, 1 << 30); put(total, 1 << 30) };
    fn cuMemcpyHtoD_v2(to: u64, from: *const u8, count: usize) = { filled(); bytes(to).copy_from(from, count); 0 };
    fn cuMemcpyDtoH_v2(to: *mut u8, from: u64, count: usize) = { filled(); to.copy_from(bytes(from), count); 0 };
    // With `STAND_IN_SLOW_FILL` it returns before it has written, as the driver's does.
    fn cuMemsetD8_v2(to: u64, value: u8, count: usize) = match std::env::var_os("STAND_IN_SLOW_FILL") {
        None => {
            bytes(to).write_bytes(value, count);
            0
        }
        Some(_) => {
            let gpu = CURRENT.get();
            let [queued, done] = &FILLS[gpu];
            let number = queued.fetch_add(1, SeqCst);
            std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(gpu as u64 * 200));
                while done.load(SeqCst) < number {
                    std::thread::yield_now();
                }
                bytes(to).write_bytes(value, count);
                done.fetch_add(1, SeqCst);
            });
            0
        }
    };
    fn cuMemsetD32_v2(to: u64, value: c_uint, count: usize) = {
        (0..count).for_each(|at| bytes(to).cast::<u32>().add(at).write(value));
        0
    };
    fn cuMemcpyAsync(to: u64, from: u64, count: usize, stream: usize) = queue(stream, move || {
        bytes(to).copy_from(bytes(from), count);
        true
    });
    fn cuMemcpyDtoHAsync_v2(to: u64, from: u64, count: usize, stream: usize) = queue(stream, move || {
        bytes(to).copy_from(bytes(from), count);
        true
    });
    fn cuTensorMapEncodeTiled(map: *mut [u64; 16], _element: c_int, _rank: c_uint, _address: *mut c_void,
        _extents: *const u64, _strides: *const u64, _boxes: *const c_uint, _steps: *const c_uint,
        _interleave: c_int, _swizzle: c_int, _promotion: c_int, _fill: c_int) = put(map, [7; 16]);
    fn cuModuleLoadDataEx(module: *mut usize, _image: *const c_char, _count: c_uint, _options: *const c_int,
        _values: *const *mut c_void) =
        if is_named("STAND_IN_BROKEN", CURRENT.get() as c_int - 1) { 209 } else { put(module, 4) };
    fn cuModuleGetFunction(function: *mut usize, _module: usize, name: *const c_char) =
        put(function, match CStr::from_ptr(name).to_bytes() {
            b"summed_bf16" => SUM,
            b"pushed" => PUSH,
            _ => OTHER,
        });
    fn cuFuncGetAttribute(value: *mut c_int, _attribute: c_int, _function: usize) = put(value, 1024);
    fn cuFuncSetAttribute(_function: usize, _attribute: c_int, _value: c_int) = 0;
    fn cuLaunchKernel(function: usize, _x: c_uint, _y: c_uint, _z: c_uint, _a: c_uint, _b: c_uint, _c: c_uint,
        _shared: c_uint, stream: usize, parameters: *mut *mut c_void, _extra: *mut *mut c_void) =
        launch(function, stream, parameters);
    fn cuLaunchKernelEx(config: *const usize, function: usize, parameters: *mut *mut c_void,
        _extra: *mut *mut c_void) = launch(function, config.add(4).read(), parameters);
    fn cuGetErrorName(_code: c_int, text: *mut *const c_char) = put(text, c"CUDA_ERROR_STAND_IN".as_ptr());
    fn cuGetErrorString(_code: c_int, text: *mut *const c_char) = put(text, c"of the stand-in".as_ptr());
}
