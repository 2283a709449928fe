//! The workspace of an operation.

use super::kept::{Bytes, MOST_KEPT, keep_freed_memory};
use crate::Result;
use crate::device::Backend;
use crate::driver::{check, sys};
use crate::memory::Buffer;
use crate::stream::Stream;
use std::sync::MutexGuard;

/// Bytes for the launches of a call, aligned to 256. Until it is dropped no call of another thread
/// gets the same stream's workspace.
pub(crate) struct Workspace<'a>(Memory<'a>);

enum Memory<'a> {
    /// The simulator's launches have completed when they return.
    Sim(Buffer<u8>),
    /// On the simulator, the memory of a graph.
    Recorded(u64),
    /// The stream's workspace.
    Kept(MutexGuard<'a, Bytes>),
    /// Freed when earlier launches have completed, without waiting for them.
    Once { stream: &'a Stream, address: u64 },
}

impl<'a> Workspace<'a> {
    /// `bytes` bytes for the work of `stream`; no memory if that is 0.
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
                    Some(capture) => Memory::Recorded(capture.alloc(simulator, bytes + ALIGN)?),
                })));
            }
        };
        // A graph owns its workspaces, whatever their size.
        if bytes <= MOST_KEPT || stream.captures() {
            return Ok(Some(Self(Memory::Kept(stream.kept(gpu).workspace(device, gpu, stream, bytes)?))));
        }
        gpu.bind()?;
        keep_freed_memory(device, gpu.index())?;
        let mut address = 0;
        // SAFETY: the pointer to the address is writable, and the stream is alive and belongs to
        // the current context.
        check(unsafe { sys::cuMemAllocAsync(&mut address, bytes, stream.raw(gpu)) })
            .map_err(|code| gpu.out_of_memory_or(device, "cuMemAllocAsync", code, bytes))?;
        Ok(Some(Self(Memory::Once { stream, address })))
    }

    /// Whether the stream keeps a workspace of this size for the next call.
    #[cfg(feature = "matmul-common")]
    pub fn is_kept(bytes: usize) -> bool {
        bytes <= MOST_KEPT
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

/// The driver's alignment.
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
