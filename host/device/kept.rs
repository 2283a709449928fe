//! Memory that a stream on a GPU keeps: counters and a workspace.

use super::gpu::Gpu;
use super::{Backend, Device};
use crate::Result;
use crate::driver::{check, sys};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// The stream's memory, allocated by the first launch that needs it.
#[derive(Default)]
pub(crate) struct Kept {
    counters: OnceLock<u64>,
    workspace: Mutex<Bytes>,
}

/// The stream that owns the memory, and whether it was created for the capture of a graph.
#[derive(Clone, Copy)]
pub(crate) struct Raw {
    pub(crate) stream: sys::CUstream,
    pub(crate) captures: bool,
}

/// A workspace.
#[derive(Default)]
pub(crate) struct Bytes {
    pub address: u64,
    len: usize,
    /// Earlier, smaller workspaces, which launches of a captured graph use.
    smaller: Vec<u64>,
}

/// The largest workspace that is kept, in bytes; larger ones are freed after the call.
pub(crate) const MOST_KEPT: usize = 256 << 20;
/// The amount of freed memory that the driver keeps for later workspaces, in bytes.
const KEPT_BYTES: u64 = 1 << 30;
/// The smallest allocation.
const LEAST_KEPT: usize = 1 << 20;

impl Kept {
    /// The address of this many words, all 0, which kernels reset to 0 after use.
    pub(crate) fn counters(&self, device: &Device, gpu: &'static Gpu, of: Raw, count: usize) -> Result<u64> {
        if let Some(&address) = self.counters.get() {
            return Ok(address);
        }
        let address = alloc(device, gpu, of, 4 * count)?;
        let cleared = if of.captures {
            // At once, not at each launch of the graph. SAFETY: this many words were allocated at
            // the address.
            check(unsafe { sys::cuMemsetD32_v2(address, 0, count) })
        } else {
            // SAFETY: the words are allocated; the stream is alive, in the current context.
            check(unsafe { sys::cuMemsetD32Async(address, 0, count, of.stream) })
        };
        let kept = cleared
            .map_err(|code| gpu.error_of_code("cuMemsetD32", code))
            // If another thread was faster, its memset is already in the stream.
            .map(|()| *self.counters.get_or_init(|| address));
        if kept.as_ref().ok() != Some(&address) {
            // SAFETY: allocated above, and used by no launch.
            unsafe { free(address, of.stream, of.captures) };
        }
        kept
    }

    /// The address of the counters, if a launch has used them.
    pub fn known_counters(&self) -> Option<u64> {
        self.counters.get().copied()
    }

    /// The workspace, locked, with at least `bytes` bytes.
    pub(crate) fn workspace(
        &self,
        device: &Device,
        gpu: &'static Gpu,
        of: Raw,
        bytes: usize,
    ) -> Result<MutexGuard<'_, Bytes>> {
        // A call that panicked has left the workspace unchanged.
        let mut kept = self.workspace.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len >= bytes {
            return Ok(kept);
        }
        let len = bytes.max(LEAST_KEPT).checked_next_power_of_two().unwrap_or(bytes);
        let address = alloc(device, gpu, of, len)?;
        let old = std::mem::replace(&mut kept.address, address);
        kept.len = len;
        match old {
            0 => {}
            old if of.captures => kept.smaller.push(old),
            // SAFETY: allocated here for this stream, whose later work uses the new workspace.
            old => unsafe { free(old, of.stream, false) },
        }
        Ok(kept)
    }

    /// Frees the memory after the stream's work has completed.
    ///
    /// # Safety
    /// The stream owns the memory and belongs to the current context; no later launches are issued
    /// on it. `captured` says whether it is a stream of a capture, whose graphs have been dropped.
    pub(crate) unsafe fn free(&mut self, stream: sys::CUstream, captured: bool) {
        let workspace = self.workspace.get_mut().unwrap_or_else(PoisonError::into_inner);
        let workspaces = workspace.smaller.drain(..).chain([std::mem::take(&mut workspace.address)]);
        for address in workspaces.chain(self.counters.take()).filter(|&address| address != 0) {
            // SAFETY: allocated here for this stream, freed once.
            unsafe { free(address, stream, captured) };
        }
    }
}

/// Allocates for the work of a stream that no other library captures.
fn alloc(device: &Device, gpu: &'static Gpu, of: Raw, bytes: usize) -> Result<u64> {
    gpu.bind()?;
    let mut address = 0;
    if of.captures {
        // A stream-ordered allocation would be a node of the graph, freed by each launch. SAFETY:
        // the pointer to the address is writable.
        check(unsafe { sys::cuMemAlloc_v2(&mut address, bytes) })
            .map_err(|code| gpu.out_of_memory_or(device, "cuMemAlloc", code, bytes))?;
        return Ok(address);
    }
    keep_freed_memory(device, gpu.index())?;
    // SAFETY: the pointer is writable; the stream is alive and belongs to the current context.
    check(unsafe { sys::cuMemAllocAsync(&mut address, bytes, of.stream) })
        .map_err(|code| gpu.out_of_memory_or(device, "cuMemAllocAsync", code, bytes))?;
    Ok(address)
}

/// Frees memory from [`alloc`] for the stream.
///
/// # Safety
/// No later launch uses it. The stream is alive and belongs to the current context.
unsafe fn free(address: u64, stream: sys::CUstream, captured: bool) {
    // After a kernel fault the driver refuses the call, and the process has lost the GPU anyway.
    // SAFETY: the caller guarantees that no later launch uses the memory. Without a stream, the
    // driver waits for the work that uses it.
    let _ =
        unsafe { if captured { sys::cuMemFree_v2(address) } else { sys::cuMemFreeAsync(address, stream) } };
}

/// Makes the driver keep freed memory, once for each GPU. By default it returns the memory to the
/// system at every synchronisation and allocates it again.
pub(crate) fn keep_freed_memory(device: &Device, gpu: u32) -> Result<()> {
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
    // SAFETY: the pointer to the pool is writable; the attribute's value is a 64-bit number.
    check(unsafe { sys::cuDeviceGetDefaultMemPool(&mut pool, gpu as i32) })
        .map_err(|code| of.error_of_code("cuDeviceGetDefaultMemPool", code))?;
    // SAFETY: the driver returned the pool; the attribute's value is a 64-bit number.
    check(unsafe { sys::cuMemPoolSetAttribute(pool, attribute, (&raw mut threshold).cast()) })
        .map_err(|code| of.error_of_code("cuMemPoolSetAttribute", code))
}
