//! Counters that kernels reset to 0, so that launches need not clear them.

use crate::Result;
use crate::device::Backend;
use crate::driver::{check, sys};
use crate::memory::{Buffer, Workspace};
use crate::stream::Stream;

/// Counters of a stream: 32 bits each, all 0 between its launches.
pub struct Counters<'a>(Memory<'a>);

enum Memory<'a> {
    /// New counters; the simulator's launches have completed when they return.
    Sim(Buffer<u32>),
    /// The counters of the stream, or of a graph.
    Kept(u64),
    /// Memory of a graph that another library captures; the graph sets it to 0.
    Captured(Workspace<'a>),
}

impl<'a> Counters<'a> {
    /// The number of counters.
    pub const COUNT: u32 = 4096;

    /// The counters of a stream. On a GPU a launch uses them after earlier launches of the stream
    /// have completed.
    ///
    /// # Errors
    /// Out of memory, and the errors of the driver.
    pub fn of(stream: &'a Stream) -> Result<Self> {
        Memory::of(stream, Self::COUNT as usize).map(Self)
    }

    /// The device address of the first counter.
    pub fn address(&self) -> u64 {
        match &self.0 {
            Memory::Sim(buffer) => buffer.address(),
            Memory::Kept(address) => *address,
            Memory::Captured(memory) => memory.address(),
        }
    }
}

impl<'a> Memory<'a> {
    fn of(stream: &'a Stream, count: usize) -> Result<Self> {
        let device = stream.device();
        match (&device.0, stream.recorded()) {
            (Backend::Sim(_), None) => Ok(Self::Sim(device.alloc_zeroed(count)?)),
            // Launches run in order and reset the counters to 0.
            (Backend::Sim(simulator), Some(capture)) => {
                Ok(Self::Kept(capture.alloc_zeroed(simulator, 4 * count)?))
            }
            (Backend::Gpu(gpu), _) => {
                gpu.bind()?;
                if stream.is_captured_elsewhere(gpu)? {
                    let memory = Workspace::of_graph(stream, 4 * count)?;
                    // SAFETY: the memory has this many words; the stream is alive and belongs to
                    // the current context.
                    check(unsafe { sys::cuMemsetD32Async(memory.address(), 0, count, stream.raw(gpu)) })
                        .map_err(|code| gpu.error_of_code("cuMemsetD32Async", code))?;
                    return Ok(Self::Captured(memory));
                }
                Ok(Self::Kept(stream.kept(gpu).counters(device, gpu, stream.owner(gpu), count)?))
            }
        }
    }
}
