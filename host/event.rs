//! Events: points in a stream's work, to wait for and to take times between.

use crate::device::Backend;
use crate::device::gpu::Gpu;
use crate::stream::Stream;
use crate::{Error, Result};
use cust::event::EventFlags;
use std::time::{Duration, Instant};

/// A point in the work of a stream, made by [`Stream::record`].
#[derive(Debug)]
pub struct Event(Kind);

#[derive(Debug)]
enum Kind {
    Gpu(OnGpu),
    /// Launches on the simulator are done when they return, so the clock says it all.
    Sim(Instant),
}

struct OnGpu {
    gpu: &'static Gpu,
    /// Always `Some` until dropped.
    event: Option<cust::event::Event>,
}

impl Event {
    pub(crate) fn record(stream: &Stream) -> Result<Self> {
        match &stream.device().0 {
            Backend::Sim(_) => Ok(Self(Kind::Sim(Instant::now()))),
            Backend::Gpu(gpu) => {
                gpu.bind()?;
                let event = cust::event::Event::new(EventFlags::DEFAULT)
                    .map_err(|e| gpu.error("cuEventCreate", e))?;
                event.record(stream.raw(gpu)).map_err(|e| gpu.error("cuEventRecord", e))?;
                Ok(Self(Kind::Gpu(OnGpu { gpu, event: Some(event) })))
            }
        }
    }

    /// Waits until it has happened.
    ///
    /// # Errors
    /// The fault of a kernel that was launched before it, or the driver's own.
    pub fn synchronize(&self) -> Result<()> {
        match &self.0 {
            Kind::Sim(_) => Ok(()),
            Kind::Gpu(on) => {
                on.gpu.bind()?;
                on.event().synchronize().map_err(|e| on.gpu.error("cuEventSynchronize", e))
            }
        }
    }

    /// The time from `start` to this event, measured by the GPU to half a microsecond. Waits for both.
    ///
    /// # Errors
    /// [`Error::EventsOfTwoDevices`]; the fault of a kernel that was launched before; the driver's own.
    pub fn elapsed_since(&self, start: &Self) -> Result<Duration> {
        match (&self.0, &start.0) {
            (Kind::Sim(end), Kind::Sim(start)) => Ok(end.saturating_duration_since(*start)),
            (Kind::Gpu(end), Kind::Gpu(from)) if end.gpu.index() == from.gpu.index() => {
                start.synchronize()?;
                self.synchronize()?;
                let milliseconds = end
                    .event()
                    .elapsed_time_f32(from.event())
                    .map_err(|e| end.gpu.error("cuEventElapsedTime", e))?;
                Ok(Duration::from_secs_f64(f64::from(milliseconds.max(0.0)) / 1e3))
            }
            _ => Err(Error::EventsOfTwoDevices),
        }
    }
}

impl OnGpu {
    fn event(&self) -> &cust::event::Event {
        self.event.as_ref().expect("the event lives as long as this")
    }
}

impl Drop for OnGpu {
    fn drop(&mut self) {
        if self.gpu.bind().is_err() {
            std::mem::forget(self.event.take());
        }
    }
}

impl std::fmt::Debug for OnGpu {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "OnGpu({})", self.gpu.index())
    }
}
