//! Streams: queues of launches and copies, and the events that order work of different queues.
//!
//! Everything runs when it is called, one after another. What a stream *knows* of others decides
//! whether two accesses of different streams are ordered: the work of a stream is ordered after the
//! work that the stream or the host has waited for.

use crate::Dim3;
use crate::chain::Chain;
use crate::fault::{Access, Fault, FaultKind, LaunchError, Race, RaceAccess, RaceSpace, RaceThreads};
use crate::launch::races_by_default;
use crate::memory::{GlobalMemory, words};
use crate::race::{GlobalRaces, Kind};
use std::collections::{BTreeMap, VecDeque};
use std::panic::Location;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A queue of work on a memory that may overlap with other queues: an access to bytes that a launch
/// or copy of another stream accesses is a race unless an [`Event`] or the host orders the two.
///
/// ```
/// use moye_sim::{GlobalMemory, Launch, intrinsics::*};
///
/// let memory = GlobalMemory::new();
/// let data = memory.alloc(128, "data")?;
/// let address = data.address();
/// let (first, second) = (memory.new_stream(), memory.new_stream());
/// let launch = Launch::new("fill", 1, 32, &memory).races(true);
/// let fill = || store_global(address + 4 * u64::from(thread_idx().x), thread_idx().x);
/// launch.clone().stream(&first).run(&fill)?;
/// let fault = launch.clone().stream(&second).run(&fill).unwrap_err().to_string();
/// assert!(fault.contains("race: write") && fault.contains("of kernel `fill`"), "{fault}");
///
/// launch.clone().stream(&first).run(&fill)?;
/// second.wait(&first.record());
/// launch.stream(&second).run(&fill)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A clone is another handle to the same stream.
#[derive(Clone)]
pub struct Stream(Arc<Handle>);

struct Handle {
    memory: GlobalMemory,
    number: usize,
}

/// A point in the work of a stream, created by [`Stream::record`].
#[derive(Clone)]
pub struct Event {
    memory: GlobalMemory,
    clock: Clock,
}

/// By stream, how much of its work is known to have ended.
pub(crate) type Clock = Vec<u64>;

pub(crate) fn join(into: &mut Clock, other: &[u64]) {
    if into.len() < other.len() {
        into.resize(other.len(), 0);
    }
    for (into, other) in into.iter_mut().zip(other) {
        *into = (*into).max(*other);
    }
}

fn of(clock: &[u64], stream: usize) -> u64 {
    clock.get(stream).copied().unwrap_or(0)
}

/// A launch or a copy, and its accesses.
#[derive(Clone)]
pub(crate) struct Work {
    stream: usize,
    /// Its number in the stream, from 1.
    number: u64,
    pub(crate) name: Arc<str>,
    pub(crate) races: Arc<GlobalRaces>,
    /// The earlier launches that it overlaps, as far as it knows.
    pub(crate) chain: Arc<Chain>,
}

/// Work that may run concurrently with a launch or a copy.
#[derive(Default)]
pub(crate) struct Concurrent {
    /// The launches before it on its stream, which have ended unless it overlaps them.
    pub(crate) chain: Arc<Chain>,
    /// Work of other streams.
    pub(crate) others: Vec<Work>,
    /// By the address of a flag, what streams and threads know that find it raised.
    flags: BTreeMap<u64, Clock>,
    /// Knowledge that threads of the launch have from flags.
    learned: Mutex<Clock>,
}

impl Concurrent {
    /// A thread that knows of `known` has found the flag at this address raised.
    pub(crate) fn learn(&self, address: u64, known: &mut Clock) {
        if let Some(clock) = self.flags.get(&address) {
            join(known, clock);
            join(&mut self.learned.lock().unwrap_or_else(PoisonError::into_inner), clock);
        }
    }
}

/// The most work that is tracked; older work counts as ended.
const MOST_WORK: usize = 16;

/// The streams of a memory. The first is the default one.
pub(crate) struct Streams {
    clocks: Vec<Clock>,
    /// Whether a handle to the stream exists.
    is_live: Vec<bool>,
    /// The work that the host has waited for.
    host: Clock,
    /// Oldest first.
    work: VecDeque<Work>,
    /// The work before the last write of each flag, by its address.
    flags: BTreeMap<u64, Clock>,
}

impl Default for Streams {
    fn default() -> Self {
        let (clocks, is_live) = (vec![Clock::new()], vec![true]);
        Self { clocks, is_live, host: Clock::new(), work: VecDeque::new(), flags: BTreeMap::new() }
    }
}

impl Streams {
    /// Adds work to a stream, without accesses if race detection is off, and returns what may run
    /// concurrently: the previous work of the same stream only if the new work `overlaps` it.
    pub(crate) fn begin(
        &mut self,
        stream: usize,
        name: &str,
        races: Option<&Arc<GlobalRaces>>,
        overlaps: bool,
    ) -> Concurrent {
        let clock = &mut self.clocks[stream];
        join(clock, &self.host);
        let before = of(clock, stream);
        let others = self.work.iter().filter(|work| work.stream != stream);
        let others = others.filter(|work| work.number > of(clock, work.stream)).cloned().collect();
        let host = &self.host;
        let has_ended = |work: &Work| work.number <= of(host, work.stream);
        let mut own = self.work.iter().filter(|work| overlaps && work.stream == stream);
        let prior = own.find(|work| work.number == before);
        let chain = Arc::new(prior.map_or_else(Chain::default, |prior| Chain::behind(prior, has_ended)));
        clock.resize(clock.len().max(stream + 1), 0);
        clock[stream] = before + 1;
        let (clocks, is_live) = (&self.clocks, &self.is_live);
        // The last work of a stream stays for launches that overlap it.
        self.work.retain(|work| {
            let is_unknown =
                |(at, clock): (usize, &Clock)| is_live[at] && of(clock, work.stream) < work.number;
            work.stream != stream && work.number == of(&clocks[work.stream], work.stream)
                || clocks.iter().enumerate().any(is_unknown)
        });
        if let Some(races) = races {
            let (name, races) = (name.into(), races.clone());
            let chain = chain.clone();
            self.work.push_back(Work { stream, number: before + 1, name, races, chain });
        }
        if self.work.len() > MOST_WORK {
            self.work.pop_front();
        }
        Concurrent { chain, others, flags: self.flags.clone(), learned: Mutex::default() }
    }

    /// A launch has ended whose threads have learned of other streams' work.
    pub(crate) fn ended(&mut self, stream: usize, concurrent: &Concurrent) {
        let learned = concurrent.learned.lock().unwrap_or_else(PoisonError::into_inner);
        join(&mut self.clocks[stream], &learned);
    }

    /// The host waits for the work in a clock.
    fn wait_on_host(&mut self, clock: &[u64]) {
        join(&mut self.host, clock);
        let host = &self.host;
        self.work.retain(|work| work.number > of(host, work.stream));
    }

    /// The host waits for all streams.
    pub(crate) fn synchronize(&mut self) {
        for stream in 0..self.clocks.len() {
            join(&mut self.host, &self.clocks[stream]);
        }
        self.work.clear();
    }

    fn new_stream(&mut self) -> usize {
        // A new stream takes the index of a dropped one, and counts as ordered after it.
        if let Some(number) = self.is_live.iter().position(|is_live| !is_live) {
            self.is_live[number] = true;
            return number;
        }
        self.clocks.push(Clock::new());
        self.is_live.push(true);
        self.clocks.len() - 1
    }
}

pub(crate) fn lock(streams: &Mutex<Streams>) -> MutexGuard<'_, Streams> {
    streams.lock().unwrap_or_else(PoisonError::into_inner)
}

impl GlobalMemory {
    /// A new stream, whose work may overlap with work of other streams of the same memory.
    pub fn new_stream(&self) -> Stream {
        let number = lock(&self.streams).new_stream();
        Stream(Arc::new(Handle { memory: self.clone(), number }))
    }

    /// The stream of launches that name none.
    pub fn default_stream(&self) -> Stream {
        Stream(Arc::new(Handle { memory: self.clone(), number: 0 }))
    }

    /// Waits on the host for the work of all streams. So does every host access to an allocation,
    /// and dropping it.
    pub fn synchronize(&self) {
        lock(&self.streams).synchronize();
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.number != 0 {
            lock(&self.memory.streams).is_live[self.number] = false;
        }
    }
}

impl Stream {
    pub(crate) fn number(&self) -> usize {
        self.0.number
    }

    /// Whether it is a stream of this memory.
    pub fn is_of(&self, memory: &GlobalMemory) -> bool {
        Arc::ptr_eq(&self.0.memory.streams, &memory.streams)
    }

    /// An event that occurs when the work so far has ended.
    pub fn record(&self) -> Event {
        let clock = lock(&self.0.memory.streams).clocks[self.0.number].clone();
        Event { memory: self.0.memory.clone(), clock }
    }

    /// Makes later work of this stream wait for an event. Returns whether the event belongs to the
    /// same memory; an event of another memory orders nothing.
    pub fn wait(&self, event: &Event) -> bool {
        let is_same = self.is_of(&event.memory);
        if is_same {
            join(&mut lock(&self.0.memory.streams).clocks[self.0.number], &event.clock);
        }
        is_same
    }

    /// Waits on the host for the work so far.
    pub fn synchronize(&self) {
        let mut streams = lock(&self.0.memory.streams);
        let clock = streams.clocks[self.0.number].clone();
        streams.wait_on_host(&clock);
    }

    /// Copies bytes within the memory, in the order of this stream (`cudaMemcpyAsync`). Race
    /// detection has the default of launches.
    ///
    /// # Errors
    /// [`LaunchError::Fault`] of the kernel `copy` if the bytes are not within one allocation, or
    /// race with other streams.
    #[track_caller]
    pub fn copy(&self, destination: u64, source: u64, bytes: usize) -> Result<(), LaunchError> {
        let (memory, location) = (&self.0.memory, Location::caller());
        let snapshot = memory.snapshot();
        let fault = |kind| {
            let nowhere = Dim3::new(0, 0, 0);
            let (block, thread, location) = (nowhere, nowhere, Some(location));
            Err(LaunchError::Fault(Box::new(Fault { kernel: "copy".into(), block, thread, location, kind })))
        };
        let sides =
            [(source, Access::CopySource, Kind::Read), (destination, Access::CopyDestination, Kind::Write)];
        for (address, access, _) in sides {
            if !snapshot.find(address).is_some_and(|span| span.contains(address, bytes as u64)) {
                let nearest = snapshot.nearest(address, bytes as u64);
                return fault(FaultKind::GlobalOutOfBounds { access, bytes, address, nearest });
            }
        }
        let one = Dim3::new(1, 1, 1);
        let races = races_by_default().then(|| Arc::new(GlobalRaces::new(&snapshot, [one; 3], false)));
        if let Some(races) = &races {
            for (address, access, kind) in sides {
                races.note_alone(snapshot.number_of(address), address, bytes, kind, (location, access));
            }
        }
        let concurrent = lock(&memory.streams).begin(self.0.number, "copy", races.as_ref(), false);
        if races.is_some() {
            for (address, access, kind) in sides {
                let found =
                    concurrent.others.iter().find_map(|work| Some((work, work.find(kind, address, bytes)?)));
                if let Some((_, (address, other))) = found {
                    let space = RaceSpace::Global { address, nearest: snapshot.nearest(address, 1) };
                    let threads = RaceThreads::Streams;
                    let race = Race { access, bytes, space, other, threads, unseen: None };
                    return fault(FaultKind::Race(Box::new(race)));
                }
            }
        }
        let mut all = vec![0; bytes];
        // SAFETY: both ranges are within allocations that the snapshot keeps.
        unsafe {
            words::copy_out(source, &mut all);
            words::copy_in(destination, &all);
        }
        Ok(())
    }
}

/// Whether a flag that holds `found` has reached `value`: counters wrap.
pub(crate) const fn has_reached(found: u32, value: u32) -> bool {
    found.wrapping_sub(value).cast_signed() >= 0
}

/// Flags: words that one stream writes and others wait for, on any device of the memory
/// (`cuStreamWriteValue32`, `cuStreamWaitValue32`).
impl Stream {
    /// Writes a word in the order of this stream. Streams and threads that have found it raised
    /// are ordered after the work so far.
    ///
    /// # Errors
    /// [`LaunchError::Fault`] of the kernel `flag` if the address is not that of an aligned word.
    #[track_caller]
    pub fn raise(&self, address: u64, value: u32) -> Result<(), LaunchError> {
        self.checked_flag(address, Access::Write)?;
        let mut streams = lock(&self.0.memory.streams);
        let clock = streams.clocks[self.0.number].clone();
        streams.flags.insert(address, clock);
        // SAFETY: an aligned word of an allocation.
        unsafe { words::store(address, value) };
        Ok(())
    }

    /// Makes later work of this stream wait until a word has reached `value`, modulo 2^32.
    ///
    /// # Errors
    /// [`LaunchError::Fault`] of the kernel `flag` if no stream has raised it: a GPU would wait for
    /// ever, or for work that is issued later.
    #[track_caller]
    pub fn wait_flag(&self, address: u64, value: u32) -> Result<(), LaunchError> {
        self.checked_flag(address, Access::Read)?;
        let mut streams = lock(&self.0.memory.streams);
        // SAFETY: an aligned word of an allocation.
        let found = unsafe { words::load::<u32>(address) };
        if !has_reached(found, value) {
            return fault_of_flag(FaultKind::FlagNotRaised { address, found, value });
        }
        if let Some(clock) = streams.flags.get(&address).cloned() {
            join(&mut streams.clocks[self.0.number], &clock);
        }
        Ok(())
    }

    #[track_caller]
    fn checked_flag(&self, address: u64, access: Access) -> Result<(), LaunchError> {
        let (snapshot, bytes) = (self.0.memory.snapshot(), 4);
        if !address.is_multiple_of(4) {
            return fault_of_flag(FaultKind::GlobalMisaligned { access, bytes, address });
        }
        if !snapshot.find(address).is_some_and(|span| span.contains(address, bytes as u64)) {
            let nearest = snapshot.nearest(address, bytes as u64);
            return fault_of_flag(FaultKind::GlobalOutOfBounds { access, bytes, address, nearest });
        }
        Ok(())
    }
}

#[track_caller]
fn fault_of_flag(kind: FaultKind) -> Result<(), LaunchError> {
    let (nowhere, location) = (Dim3::new(0, 0, 0), Some(Location::caller()));
    let (block, thread) = (nowhere, nowhere);
    Err(LaunchError::Fault(Box::new(Fault { kernel: "flag".into(), block, thread, location, kind })))
}

impl Work {
    /// Whether a clock includes its end.
    pub(crate) fn is_before(&self, clock: &[u64]) -> bool {
        self.number <= of(clock, self.stream)
    }

    /// Whether both are the same launch or copy.
    pub(crate) fn is(&self, other: &Self) -> bool {
        (self.stream, self.number) == (other.stream, other.number)
    }

    /// An access of the work that an access of a kind to these bytes conflicts with, and the first
    /// byte of both.
    pub(crate) fn find(&self, kind: Kind, address: u64, bytes: usize) -> Option<(u64, RaceAccess)> {
        let (address, mut access) = self.races.find(kind, address, bytes)?;
        access.kernel = Some(self.name.to_string());
        Some((address, access))
    }
}

impl Event {
    /// Waits on the host until it has occurred.
    pub fn synchronize(&self) {
        lock(&self.memory.streams).wait_on_host(&self.clock);
    }

    /// Whether it is an event of this memory.
    pub fn is_of(&self, memory: &GlobalMemory) -> bool {
        Arc::ptr_eq(&self.memory.streams, &memory.streams)
    }
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Stream({})", self.0.number)
    }
}

impl std::fmt::Debug for Event {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Event({:?})", self.clock)
    }
}
