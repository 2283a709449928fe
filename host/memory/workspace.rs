//! The workspace of an operation.

use crate::Result;
use crate::device::Backend;
use crate::device::kept::{Bytes, MOST_KEPT, keep_freed_memory};
use crate::driver::{check, sys};
use crate::memory::Buffer;
use crate::stream::{Stream, WORKSPACE_ALIGN};
use std::sync::MutexGuard;

/// Bytes for the launches of a call, aligned to 256. Until they are dropped, no call of another
/// thread gets the same stream's workspace. An operation stores the address in its
/// [`Call`](crate::operation::Operation::Call), part of the key by which launches are replayed.
pub struct Workspace<'a> {
    memory: Memory<'a>,
    bytes: usize,
    is_captured: bool,
}

/// The memory that launches use; [`Default`] means none.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Used {
    pub address: u64,
    pub bytes: usize,
    /// Whether another library is capturing the stream, so that a graph uses the memory.
    pub is_captured: bool,
}

enum Memory<'a> {
    /// The simulator's launches have completed when they return.
    Sim(Buffer<u8>),
    /// On the simulator, the memory of a graph.
    Recorded(u64),
    /// The stream's workspace.
    Kept(MutexGuard<'a, Bytes>),
    /// Freed in stream order after earlier launches; in a capture of another library, two memory
    /// nodes of its graph.
    Once { stream: &'a Stream, address: u64 },
    /// Passed by the caller.
    Given(u64),
}

impl<'a> Workspace<'a> {
    /// `bytes` bytes for the work of `stream`; `None` for 0 bytes.
    ///
    /// # Errors
    /// Out of memory, and the errors of the caller's allocator.
    pub fn new(stream: &'a Stream, bytes: usize) -> Result<Option<Self>> {
        Ok(match bytes {
            0 => None,
            _ => {
                let given = stream.given_workspace(bytes)?.map(Memory::Given);
                let (memory, is_captured) = Memory::new(stream, bytes, given)?;
                Some(Self { memory, bytes, is_captured })
            }
        })
    }

    /// Like [`new`](Self::new), but never the caller's memory, which only one call uses.
    pub(crate) fn of_graph(stream: &'a Stream, bytes: usize) -> Result<Self> {
        let (memory, is_captured) = Memory::new(stream, bytes, None)?;
        Ok(Self { memory, bytes, is_captured })
    }

    /// The memory that the launches use.
    pub(crate) fn used(&self) -> Used {
        Used { address: self.address(), bytes: self.bytes, is_captured: self.is_captured }
    }

    /// The device address of the first byte.
    pub fn address(&self) -> u64 {
        match &self.memory {
            Memory::Sim(buffer) => buffer.address().next_multiple_of(WORKSPACE_ALIGN),
            Memory::Recorded(address) => address.next_multiple_of(WORKSPACE_ALIGN),
            Memory::Kept(kept) => kept.address,
            Memory::Once { address, .. } | Memory::Given(address) => *address,
        }
    }
}

impl<'a> Memory<'a> {
    /// The memory, and whether another library is capturing the stream. The GPU's context is
    /// current afterwards.
    fn new(stream: &'a Stream, bytes: usize, given: Option<Self>) -> Result<(Self, bool)> {
        let device = stream.device();
        let gpu = match &device.0 {
            Backend::Gpu(gpu) => *gpu,
            Backend::Sim(simulator) => {
                let bytes = bytes + WORKSPACE_ALIGN as usize;
                let memory = match (given, stream.recorded()) {
                    (Some(given), _) => given,
                    (None, None) => Self::Sim(device.alloc_uninit::<u8>(bytes)?),
                    (None, Some(capture)) => Self::Recorded(capture.alloc(simulator, bytes)?),
                };
                return Ok((memory, false));
            }
        };
        gpu.bind()?;
        let is_captured = stream.is_captured_elsewhere(gpu)?;
        if let Some(given) = given {
            return Ok((given, is_captured));
        }
        // A graph captured by this crate owns its workspaces, whatever their size.
        if !is_captured && (bytes <= MOST_KEPT || stream.captures()) {
            let kept = stream.kept(gpu).workspace(device, gpu, stream.owner(gpu), bytes)?;
            return Ok((Self::Kept(kept), false));
        }
        if !is_captured {
            keep_freed_memory(device, gpu.index())?;
        }
        let mut address = 0;
        // SAFETY: the pointer to the address is writable, and the stream is alive and belongs to
        // the current context.
        check(unsafe { sys::cuMemAllocAsync(&mut address, bytes, stream.raw(gpu)) })
            .map_err(|code| gpu.out_of_memory_or(device, "cuMemAllocAsync", code, bytes))?;
        Ok((Self::Once { stream, address }, is_captured))
    }
}

impl Drop for Memory<'_> {
    fn drop(&mut self) {
        if let Self::Once { stream, address } = self
            && let Backend::Gpu(gpu) = &stream.device().0
            && gpu.bind().is_ok()
        {
            // After a kernel fault the driver refuses the call, and the process has lost the GPU
            // anyway. SAFETY: allocated in `new` for this stream, freed once.
            let _ = unsafe { sys::cuMemFreeAsync(*address, stream.raw(gpu)) };
        }
    }
}
