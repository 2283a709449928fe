//! Counters that kernels reset to 0, so that launches need not clear them.

use crate::Result;
use crate::device::Backend;
use crate::memory::Buffer;
use crate::stream::Stream;

/// Counters of a stream: 32 bits each, all 0 between its launches.
pub(crate) enum Counters {
    /// New counters: the simulator's launches have completed when they return.
    Sim(Buffer<u32>),
    /// The counters of the stream, or of a graph.
    Kept(u64),
}

impl Counters {
    /// The number of counters.
    pub const COUNT: u32 = 4096;

    /// The counters of a stream. On a GPU a launch uses them after earlier launches of the stream
    /// have completed.
    pub fn of(stream: &Stream) -> Result<Self> {
        let (device, count) = (stream.device(), Self::COUNT as usize);
        match (&device.0, stream.recorded()) {
            (Backend::Sim(_), None) => Ok(Self::Sim(device.alloc_zeroed(count)?)),
            // Launches run in order and reset them to 0.
            (Backend::Sim(simulator), Some(capture)) => {
                Ok(Self::Kept(capture.alloc_zeroed(simulator, 4 * count)?))
            }
            (Backend::Gpu(gpu), _) => Ok(Self::Kept(stream.kept(gpu).counters(device, gpu, stream, count)?)),
        }
    }

    /// The device address of the first.
    pub fn address(&self) -> u64 {
        match self {
            Self::Sim(buffer) => buffer.address(),
            Self::Kept(address) => *address,
        }
    }
}
