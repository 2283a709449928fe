//! Memory that an operation needs while it runs.

use super::kept::{Bytes, MOST_KEPT, keep_freed_memory};
use crate::Result;
use crate::device::Backend;
use crate::driver::check;
use crate::memory::Buffer;
use crate::stream::Stream;
use cust::sys;
use std::sync::MutexGuard;

/// Bytes that the launches of a call may use, aligned to 256. Until it is dropped no other thread's
/// call gets those of the same stream.
pub(crate) struct Workspace<'a>(Memory<'a>);

enum Memory<'a> {
    /// The simulator's launches have ended when they return.
    Sim(Buffer<u8>),
    /// On the simulator, of a graph.
    Recorded(u64),
    /// The stream's own.
    Kept(MutexGuard<'a, Bytes>),
    /// Freed when the work that was launched before has ended, without waiting for that.
    Once { stream: &'a Stream, address: u64 },
}

impl<'a> Workspace<'a> {
    /// `bytes` bytes for the work of `stream`; none at all where that is 0.
    pub fn new(stream: &'a Stream, bytes: usize) -> Result<Option<Self>> {
        if bytes == 0 {
            return Ok(None);
        }
        let device = stream.device();
        let gpu = match &device.0 {
            Backend::Gpu(gpu) => *gpu,
            Backend::Sim(simulator) => {
                return Ok(Some(Self(match stream.recorded() {
                    None => Memory::Sim(device.alloc_uninit::<u8>(bytes + ALIGN)?),
                    Some(recording) => Memory::Recorded(recording.alloc(simulator, bytes + ALIGN)?),
                })));
            }
        };
        // Those of a graph are its own, whatever their size.
        if bytes <= MOST_KEPT || stream.captures() {
            return Ok(Some(Self(Memory::Kept(stream.kept(gpu).workspace(device, gpu, stream, bytes)?))));
        }
        gpu.bind()?;
        keep_freed_memory(device, gpu.index())?;
        let mut address = 0;
        // SAFETY: the address may be written, the stream is alive and of the context that is
        // current.
        check(unsafe { sys::cuMemAllocAsync(&mut address, bytes, stream.raw(gpu)) })
            .map_err(|code| gpu.out_of_memory_or(device, "cuMemAllocAsync", code, bytes))?;
        Ok(Some(Self(Memory::Once { stream, address })))
    }

    /// The device address of the first byte.
    pub fn address(&self) -> u64 {
        match &self.0 {
            Memory::Sim(buffer) => buffer.address().next_multiple_of(ALIGN as u64),
            Memory::Recorded(address) => address.next_multiple_of(ALIGN as u64),
            Memory::Kept(kept) => kept.address,
            Memory::Once { address, .. } => *address,
        }
    }
}

/// What the driver aligns to.
const ALIGN: usize = 256;

impl Drop for Workspace<'_> {
    fn drop(&mut self) {
        if let Memory::Once { stream, address } = &self.0
            && let Backend::Gpu(gpu) = &stream.device().0
            && gpu.bind().is_ok()
        {
            // After a kernel's fault the driver refuses, and the process has lost the GPU anyway.
            // SAFETY: allocated in `new` for this stream, freed once.
            let _ = unsafe { sys::cuMemFreeAsync(*address, stream.raw(gpu)) };
        }
    }
}
