//! Events: points in a stream's work, to wait for and to measure times between them.

use crate::captures::not_captured;
use crate::device::gpu::Gpu;
use crate::device::simulated::Recorded;
use crate::device::simulator::Simulator;
use crate::device::{Backend, Device};
use crate::driver::{check, sys};
use crate::stream::Stream;
use crate::{Error, Result};
use std::ffi::c_void;
use std::time::{Duration, Instant};

/// A point in the work of a stream, recorded by [`Stream::record`], or an event of another library.
#[derive(Debug)]
pub struct Event(Kind);

#[derive(Debug)]
enum Kind {
    Gpu(OnGpu),
    /// Launches on the simulator have completed when they return, so the host's clock is enough.
    Sim {
        time: Instant,
        event: Recorded,
        /// The simulator's number.
        of: u64,
    },
}

struct OnGpu {
    gpu: &'static Gpu,
    raw: sys::CUevent,
    is_borrowed: bool,
}

// SAFETY: the driver accepts an event from any thread.
unsafe impl Send for OnGpu {}
// SAFETY: the driver accepts an event from any thread.
unsafe impl Sync for OnGpu {}

impl Device {
    /// The device time of the launches of `work` on the stream it receives, the device's default
    /// one.
    ///
    /// A GPU measures it by two events, the simulator by the host's clock.
    ///
    /// # Errors
    /// The errors of `work`, and of its launches.
    pub fn time(&self, work: impl FnOnce(&Stream) -> Result<()>) -> Result<Duration> {
        let stream = self.default_stream();
        let start = stream.record()?;
        work(&stream)?;
        let end = stream.record()?;
        end.synchronize()?;
        end.elapsed_since(&start)
    }
}

impl Stream {
    /// An event that happens when all launches so far on the stream have completed.
    ///
    /// # Errors
    /// An error of the driver.
    pub fn record(&self) -> Result<Event> {
        Event::record(self)
    }

    /// Makes later launches on this stream wait for an event, which may be of another stream.
    /// Waiting for an event of a [capture](Device::capture) joins this stream to the capture.
    ///
    /// # Errors
    /// [`Error::EventsOfTwoDevices`] for an event of another device, [`Error::Capture`] if exactly
    /// one of the stream and the event belongs to a capture, or an error of the driver.
    pub fn wait(&self, event: &Event) -> Result<()> {
        event.hold(self)
    }
}

impl Event {
    pub(crate) fn record(stream: &Stream) -> Result<Self> {
        let gpu = match &stream.device().0 {
            Backend::Sim(simulator) => return Ok(Self(Kind::recorded(simulator, stream)?)),
            Backend::Gpu(gpu) => *gpu,
        };
        gpu.bind()?;
        let mut raw = std::ptr::null_mut();
        // SAFETY: the pointer to the event is writable.
        check(unsafe { sys::cuEventCreate(&mut raw, 0) })
            .map_err(|code| gpu.error_of_code("cuEventCreate", code))?;
        let on = OnGpu { gpu, raw, is_borrowed: false };
        on.record(stream)?;
        Ok(Self(Kind::Gpu(on)))
    }

    /// An event (`CUevent`) that another library created. It is not destroyed here.
    ///
    /// # Errors
    /// [`Error::ForeignHandle`] for a null event, and on the simulator, which has no driver events.
    ///
    /// # Safety
    /// `event` is a live event of the device's context, and outlives the result.
    /// [`Event::elapsed_since`] requires that it was created with timing.
    pub unsafe fn from_raw_handle(device: &Device, event: *mut c_void) -> Result<Self> {
        let refused = |detail| Err(Error::ForeignHandle { what: "event", detail });
        match &device.0 {
            Backend::Sim(_) => refused("the simulator has no events of the driver; use `Stream::record`"),
            Backend::Gpu(_) if event.is_null() => refused("it is null; give an event"),
            Backend::Gpu(gpu) => Ok(Self(Kind::Gpu(OnGpu { gpu, raw: event.cast(), is_borrowed: true }))),
        }
    }

    /// The driver's event (`CUevent`), for other libraries; null on the simulator. It lives as long
    /// as this event.
    pub fn raw_handle(&self) -> *mut c_void {
        match &self.0 {
            Kind::Gpu(on) => on.raw.cast(),
            Kind::Sim { .. } => std::ptr::null_mut(),
        }
    }

    /// Records the event again: it happens when all launches so far on the stream have completed.
    ///
    /// # Errors
    /// [`Error::EventsOfTwoDevices`] for a stream of another device, or an error of the driver.
    pub fn record_again(&mut self, stream: &Stream) -> Result<()> {
        match (&mut self.0, &stream.device().0) {
            (kind @ Kind::Sim { .. }, Backend::Sim(simulator)) if kind.is_of(simulator) => {
                *kind = Kind::recorded(simulator, stream)?;
                Ok(())
            }
            (Kind::Gpu(on), Backend::Gpu(gpu)) if std::ptr::eq(on.gpu, *gpu) => on.record(stream),
            _ => Err(Error::EventsOfTwoDevices),
        }
    }

    /// Makes later launches on the stream wait for the event.
    pub(crate) fn hold(&self, stream: &Stream) -> Result<()> {
        match (&self.0, &stream.device().0) {
            (kind @ Kind::Sim { event, .. }, Backend::Sim(simulator)) if kind.is_of(simulator) => {
                stream.simulated(simulator).wait(event)
            }
            (Kind::Gpu(on), Backend::Gpu(gpu)) if std::ptr::eq(on.gpu, *gpu) => {
                gpu.bind()?;
                // SAFETY: both are alive and belong to the current context.
                check(unsafe { sys::cuStreamWaitEvent(stream.raw(gpu), on.raw, 0) })
                    .map_err(|code| gpu.error_of_wait("cuStreamWaitEvent", code))
            }
            _ => Err(Error::EventsOfTwoDevices),
        }
    }

    /// Waits until the event has happened.
    ///
    /// # Errors
    /// The fault of a kernel that was launched before it, or an error of the driver.
    pub fn synchronize(&self) -> Result<()> {
        not_captured("a wait for an event")?;
        match &self.0 {
            Kind::Sim { event, .. } => event.synchronize(),
            Kind::Gpu(on) => {
                on.gpu.bind()?;
                // SAFETY: the event is alive, and its context is current.
                check(unsafe { sys::cuEventSynchronize(on.raw) })
                    .map_err(|code| on.gpu.error_of_wait("cuEventSynchronize", code))
            }
        }
    }

    /// The time from `start` to this event by the GPU's clock, to half a microsecond. Waits for
    /// both.
    ///
    /// # Errors
    /// [`Error::EventsOfTwoDevices`], the fault of an earlier kernel, or an error of the driver.
    pub fn elapsed_since(&self, start: &Self) -> Result<Duration> {
        not_captured("the time between two events")?;
        match (&self.0, &start.0) {
            (Kind::Sim { time: end, event, .. }, Kind::Sim { time: start, event: from, .. }) => {
                from.happened()?;
                event.happened()?;
                Ok(end.saturating_duration_since(*start))
            }
            (Kind::Gpu(end), Kind::Gpu(from)) if std::ptr::eq(end.gpu, from.gpu) => {
                start.synchronize()?;
                self.synchronize()?;
                let mut milliseconds = 0.0f32;
                // SAFETY: both are alive, and their context is current.
                check(unsafe { sys::cuEventElapsedTime(&mut milliseconds, from.raw, end.raw) })
                    .map_err(|code| end.gpu.error_of_code("cuEventElapsedTime", code))?;
                Ok(Duration::from_secs_f64(f64::from(milliseconds.max(0.0)) / 1e3))
            }
            _ => Err(Error::EventsOfTwoDevices),
        }
    }
}

impl Kind {
    /// An event of the simulator.
    fn recorded(simulator: &Simulator, stream: &Stream) -> Result<Self> {
        let event = stream.simulated(simulator).record()?;
        Ok(Self::Sim { time: Instant::now(), event, of: simulator.number() })
    }

    /// Whether the event belongs to this simulator.
    fn is_of(&self, simulator: &Simulator) -> bool {
        matches!(self, Self::Sim { of, .. } if *of == simulator.number())
    }
}

impl OnGpu {
    /// Records the event in a stream of the same device.
    fn record(&self, stream: &Stream) -> Result<()> {
        self.gpu.bind()?;
        // SAFETY: the event and the stream are alive and belong to the current context.
        check(unsafe { sys::cuEventRecord(self.raw, stream.raw(self.gpu)) })
            .map_err(|code| self.gpu.error_of_code("cuEventRecord", code))
    }
}

impl Drop for OnGpu {
    fn drop(&mut self) {
        if !self.is_borrowed && self.gpu.bind().is_ok() {
            // SAFETY: created in `record`, destroyed once.
            let _ = unsafe { sys::cuEventDestroy_v2(self.raw) };
        }
    }
}

impl std::fmt::Debug for OnGpu {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "OnGpu({})", self.gpu.index())
    }
}
