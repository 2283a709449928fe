//! Streams of the simulator, and their captures, by the driver's rules.
//!
//! A stream joins a capture when it waits for an event of the capture. From then on its launches
//! are nodes of the graph, until the capture ends.

use super::recording::{Launch, Recording, lock};
use super::simulator::Simulator;
use crate::captures;
use crate::grid::Grid;
use crate::{Error, Result};
use moye_device::kernel::{Kernel, Params};
use moye_sim::memory::{Allocation, GlobalMemory};
use std::sync::{Arc, Mutex};

/// A capture on the simulator.
pub(crate) struct Capture(Mutex<State>);

struct State {
    recording: Recording,
    /// The number of streams that have joined, including the first.
    streams: usize,
    is_valid: bool,
    has_ended: bool,
}

/// A point in the work of a capture.
#[derive(Clone)]
pub(crate) struct Point {
    capture: Arc<Capture>,
    /// The launches on which work after the point depends.
    after: Vec<usize>,
}

/// A stream of the simulator.
pub(crate) struct Simulated {
    stream: moye_sim::Stream,
    joined: Mutex<Option<Joined>>,
}

/// A stream's membership in a capture.
struct Joined {
    /// The stream's index in the capture.
    number: usize,
    at: Point,
}

/// The record of a simulator's event.
pub(crate) enum Recorded {
    /// Work that has run.
    Work(moye_sim::Event),
    /// Work of a capture.
    Captured(Point),
}

impl Capture {
    fn new() -> Arc<Self> {
        let recording = Recording::default();
        Arc::new(Self(Mutex::new(State { recording, streams: 1, is_valid: true, has_ended: false })))
    }

    /// Memory that lives as long as the graph; returns its device address.
    pub fn alloc(&self, simulator: &Simulator, bytes: usize) -> Result<u64> {
        self.keep(simulator.memory().alloc(bytes, format!("a graph's {bytes} bytes"))?)
    }

    /// [`Capture::alloc`], zeroed.
    pub fn alloc_zeroed(&self, simulator: &Simulator, bytes: usize) -> Result<u64> {
        let allocation = simulator.memory().alloc(bytes, format!("a graph's {bytes} bytes"))?;
        allocation.fill(0, bytes, 0)?;
        self.keep(allocation)
    }

    fn keep(&self, allocation: Allocation) -> Result<u64> {
        let address = allocation.address();
        self.valid(|state| state.recording.memory.push(allocation))?;
        Ok(address)
    }

    fn valid<T>(&self, work: impl FnOnce(&mut State) -> T) -> Result<T> {
        let mut state = lock(&self.0);
        if state.is_valid { Ok(work(&mut state)) } else { Err(captures::INVALID) }
    }

    /// Makes every later call of the capture fail, and returns `error`.
    fn invalidate(&self, error: Error) -> Error {
        lock(&self.0).is_valid = false;
        error
    }

    fn has_ended(&self) -> bool {
        lock(&self.0).has_ended
    }

    /// Ends the capture and returns its launches; `last` are the launches that the captured
    /// stream ends with.
    fn end(&self, last: &[usize]) -> Result<Recording> {
        let mut state = lock(&self.0);
        state.has_ended = true;
        if !std::mem::replace(&mut state.is_valid, false) {
            return Err(captures::INVALID);
        }
        let recording = std::mem::take(&mut state.recording);
        let mut is_before = vec![false; recording.len()];
        last.iter().for_each(|&at| is_before[at] = true);
        for (at, launch) in recording.launches.iter().enumerate().rev() {
            if !is_before[at] {
                return Err(captures::UNJOINED);
            }
            launch.after.iter().for_each(|&before| is_before[before] = true);
        }
        Ok(recording)
    }
}

impl Point {
    /// Moves the point after an event.
    fn join(&mut self, event: &Recorded) -> Result<()> {
        let refused = match event {
            Recorded::Work(_) => captures::FROM_OUTSIDE,
            Recorded::Captured(other) if other.capture.has_ended() => captures::ENDED,
            Recorded::Captured(other) if !Arc::ptr_eq(&self.capture, &other.capture) => {
                other.capture.invalidate(captures::MERGED)
            }
            Recorded::Captured(other) => {
                return self.capture.valid(|_| {
                    self.after.extend(&other.after);
                    self.after.sort_unstable();
                    self.after.dedup();
                });
            }
        };
        Err(self.capture.invalidate(refused))
    }
}

impl Simulated {
    pub fn new(stream: moye_sim::Stream) -> Self {
        Self { stream, joined: Mutex::new(None) }
    }

    /// A new stream with a capture.
    pub fn capturing(memory: &GlobalMemory) -> Self {
        let at = Point { capture: Capture::new(), after: Vec::new() };
        Self { joined: Mutex::new(Some(Joined { number: 0, at })), ..Self::new(memory.new_stream()) }
    }

    /// The underlying stream, for work outside captures.
    pub fn stream(&self) -> &moye_sim::Stream {
        &self.stream
    }

    /// The stream's current capture.
    pub fn capture(&self) -> Option<Arc<Capture>> {
        self.with_joined(|joined| joined.as_ref().map(|joined| joined.at.capture.clone()))
    }

    /// Ends the capture that began on this stream.
    pub fn end_capture(&self) -> Result<Recording> {
        let Some(joined) = lock(&self.joined).take() else { return Err(captures::INVALID) };
        joined.at.capture.end(&joined.at.after)
    }

    /// Captures a launch if the stream belongs to a capture; returns whether it does.
    ///
    /// # Safety
    /// The kernel's contract holds whenever the graph is launched.
    pub unsafe fn add<P: Params>(&self, kernel: &Kernel<P>, grid: Grid, parameters: P) -> Result<bool> {
        self.with_joined(|joined| {
            let Some(Joined { number, at }) = joined else { return Ok(false) };
            // SAFETY: the kernel's contract holds whenever the graph is launched.
            let launch = unsafe { Launch::new(kernel, grid, parameters, *number, at.after.clone()) };
            at.after = at.capture.valid(|state| {
                state.recording.launches.push(launch);
                vec![state.recording.len() - 1]
            })?;
            Ok(true)
        })
    }

    /// The record of an event on this stream now.
    pub fn record(&self) -> Result<Recorded> {
        self.with_joined(|joined| match joined {
            None => Ok(Recorded::Work(self.stream.record())),
            Some(Joined { at, .. }) => at.capture.valid(|_| Recorded::Captured(at.clone())),
        })
    }

    /// Makes later work wait for an event.
    pub fn wait(&self, event: &Recorded) -> Result<()> {
        self.with_joined(|joined| match joined {
            Some(Joined { at, .. }) => at.join(event),
            None => {
                let at = match event {
                    Recorded::Work(event) => {
                        self.stream.wait(event);
                        return Ok(());
                    }
                    Recorded::Captured(at) if at.capture.has_ended() => return Err(captures::ENDED),
                    Recorded::Captured(at) => at.clone(),
                };
                let number = at.capture.valid(|state| {
                    state.streams += 1;
                    state.streams - 1
                })?;
                *joined = Some(Joined { number, at });
                Ok(())
            }
        })
    }

    /// Waits on the host for all work so far.
    pub fn synchronize(&self) -> Result<()> {
        match self.capture() {
            None => {
                self.stream.synchronize();
                Ok(())
            }
            Some(capture) => Err(capture.invalidate(Error::Captured { call: "a wait for a stream" })),
        }
    }

    /// Passes the stream's membership, `None` if its capture has ended.
    fn with_joined<T>(&self, work: impl FnOnce(&mut Option<Joined>) -> T) -> T {
        let mut joined = lock(&self.joined);
        if joined.as_ref().is_some_and(|joined| joined.at.capture.has_ended()) {
            *joined = None;
        }
        work(&mut joined)
    }
}

impl Recorded {
    /// Waits on the host until the event has happened.
    pub fn synchronize(&self) -> Result<()> {
        self.happened().map(moye_sim::Event::synchronize)
    }

    /// The work that has run; an error for work of a capture.
    pub fn happened(&self) -> Result<&moye_sim::Event> {
        match self {
            Self::Work(event) => Ok(event),
            Self::Captured(at) if at.capture.has_ended() => Err(captures::ENDED),
            Self::Captured(at) => Err(at.capture.invalidate(Error::Captured { call: "a wait for an event" })),
        }
    }
}

impl std::fmt::Debug for Recorded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Work(event) => event.fmt(f),
            Self::Captured(at) => write!(f, "Captured(after {:?})", at.after),
        }
    }
}
