//! Counters that kernels leave at 0, so that nobody must clear them before a launch.

use crate::Result;
use crate::device::gpu::Gpu;
use crate::device::{Backend, Device};
use crate::driver::check;
use crate::memory::Buffer;
use crate::stream::Stream;
use cust::sys;
use std::sync::OnceLock;

/// Counters of a stream: 32 bits each, all 0 between its launches.
pub(crate) enum Counters {
    /// New ones: the simulator's launches have ended when they return.
    Sim(Buffer<u32>),
    /// Those that the stream keeps.
    Gpu(u64),
}

impl Counters {
    /// How many there are.
    pub const COUNT: u32 = 4096;

    /// Those of a stream. On a GPU a launch uses them when those before it in the stream have ended.
    pub fn of(stream: &Stream) -> Result<Self> {
        match &stream.device().0 {
            Backend::Sim(_) => Ok(Self::Sim(stream.device().alloc_zeroed(Self::COUNT as usize)?)),
            Backend::Gpu(gpu) => Ok(Self::Gpu(stream.counters(gpu).get(stream.device(), gpu, stream)?)),
        }
    }

    /// The device address of the first.
    pub fn address(&self) -> u64 {
        match self {
            Self::Sim(buffer) => buffer.address(),
            Self::Gpu(address) => *address,
        }
    }
}

/// Where a stream of a GPU keeps its counters, from the first launch on that needs them.
#[derive(Default)]
pub(crate) struct Kept(OnceLock<u64>);

impl Kept {
    fn get(&self, device: &Device, gpu: &'static Gpu, stream: &Stream) -> Result<u64> {
        if let Some(&address) = self.0.get() {
            return Ok(address);
        }
        let bytes = 4 * Counters::COUNT as usize;
        let raw = stream.raw(gpu);
        let mut address = 0;
        gpu.bind()?;
        // SAFETY: the address may be written, and the stream is alive and of the context that is current.
        check(unsafe { sys::cuMemAllocAsync(&mut address, bytes, raw) })
            .map_err(|code| gpu.out_of_memory_or(device, "cuMemAllocAsync", code, bytes))?;
        // SAFETY: so many words were allocated there.
        let kept = check(unsafe { sys::cuMemsetD32Async(address, 0, Counters::COUNT as usize, raw) })
            .map_err(|code| gpu.error_of_code("cuMemsetD32Async", code))
            // Another thread may have been faster; its clearing is in the stream already.
            .map(|()| *self.0.get_or_init(|| address));
        if kept.as_ref().ok() != Some(&address) {
            // SAFETY: allocated above, and nobody was told of it.
            let _ = unsafe { sys::cuMemFreeAsync(address, raw) };
        }
        kept
    }

    /// Gives the memory back when the stream's work has ended.
    ///
    /// # Safety
    /// The stream is the one of the counters, of the context that is current; nothing is launched on it any more.
    pub unsafe fn free(&mut self, stream: sys::CUstream) {
        if let Some(address) = self.0.take() {
            // SAFETY: allocated in `get` for this stream, freed once.
            let _ = unsafe { sys::cuMemFreeAsync(address, stream) };
        }
    }
}
