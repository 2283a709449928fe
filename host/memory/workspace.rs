//! Memory that an operation needs while it runs.

use crate::Result;
use crate::device::{Backend, Device};
use crate::driver::check;
use crate::memory::Buffer;
use crate::stream::Stream;
use cust::sys;

/// Bytes that the work of a stream may use from now on, aligned to 256. Dropping it gives them back when the work that was
/// launched before has ended, without waiting for that.
pub(crate) struct Workspace(Memory);

enum Memory {
    Sim(Buffer<u8>),
    Gpu { stream: Stream, address: u64 },
}

/// What the driver keeps of freed memory for the next workspace, in bytes.
const KEPT_BYTES: u64 = 1 << 30;

impl Workspace {
    /// `bytes` bytes for the work of `stream`; none at all where that is 0.
    pub fn new(stream: &Stream, bytes: usize) -> Result<Option<Self>> {
        if bytes == 0 {
            return Ok(None);
        }
        let device = stream.device();
        let Backend::Gpu(gpu) = &device.0 else {
            // The simulator's launches have ended when they return.
            return Ok(Some(Self(Memory::Sim(device.alloc_uninit::<u8>(bytes + ALIGN)?))));
        };
        gpu.bind()?;
        keep_freed_memory(device, gpu.index())?;
        let mut address = 0;
        // SAFETY: the address may be written, the stream is alive and of the context that is current.
        check(unsafe { sys::cuMemAllocAsync(&mut address, bytes, stream.raw(gpu)) })
            .map_err(|code| gpu.out_of_memory_or(device, "cuMemAllocAsync", code, bytes))?;
        Ok(Some(Self(Memory::Gpu { stream: stream.clone(), address })))
    }

    /// The device address of the first byte.
    pub fn address(&self) -> u64 {
        match &self.0 {
            Memory::Sim(buffer) => buffer.address().next_multiple_of(ALIGN as u64),
            Memory::Gpu { address, .. } => *address,
        }
    }
}

/// What the driver aligns to.
const ALIGN: usize = 256;

/// Tells the driver once for each GPU to keep what is freed: by default it gives it back to the system at every wait for a
/// stream, and asks for it anew.
fn keep_freed_memory(device: &Device, gpu: u32) -> Result<()> {
    use std::sync::atomic::{AtomicU64, Ordering};
    static TOLD: AtomicU64 = AtomicU64::new(0);
    let bit = 1u64.checked_shl(gpu).unwrap_or(0);
    if bit == 0 || TOLD.fetch_or(bit, Ordering::Relaxed) & bit != 0 {
        return Ok(());
    }
    let Backend::Gpu(of) = &device.0 else { return Ok(()) };
    let mut pool = std::ptr::null_mut();
    let mut threshold = KEPT_BYTES;
    let attribute = sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
    // SAFETY: the pool may be written; the attribute's value is a number of 64 bits.
    check(unsafe { sys::cuDeviceGetDefaultMemPool(&mut pool, gpu as i32) })
        .map_err(|code| of.error_of_code("cuDeviceGetDefaultMemPool", code))?;
    // SAFETY: as above.
    check(unsafe { sys::cuMemPoolSetAttribute(pool, attribute, (&raw mut threshold).cast()) })
        .map_err(|code| of.error_of_code("cuMemPoolSetAttribute", code))
}

impl Drop for Workspace {
    fn drop(&mut self) {
        if let Memory::Gpu { stream, address } = &self.0
            && let Backend::Gpu(gpu) = &stream.device().0
            && gpu.bind().is_ok()
        {
            // After a kernel's fault the driver refuses, and the process has lost the GPU anyway.
            // SAFETY: allocated in `new` for this stream, freed once.
            let _ = unsafe { sys::cuMemFreeAsync(*address, stream.raw(gpu)) };
        }
    }
}
