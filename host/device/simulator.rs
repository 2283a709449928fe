//! The simulator as a device.

use super::simulated::Simulated;
use super::{Properties, Rates};
use crate::arch::Arch;
use crate::grid::Grid;
use crate::ptx::Ptx;
use crate::{Error, Result};
use moye_sim::Launch;
use moye_sim::memory::GlobalMemory;
use moye_sim::profile::{Card, Profile, Profiler};
use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Receives the number of finished blocks and of all blocks.
pub(crate) type Progress = Arc<dyn Fn(u64, u64) + Send + Sync>;

thread_local! {
    /// The flag that ends this thread's launches.
    static INTERRUPT: RefCell<Option<Arc<AtomicBool>>> = const { RefCell::new(None) };
}

/// Runs `work`. Its launches on the simulator end with an error soon after another thread sets
/// `interrupt`. Buffers that such a launch writes are then partly written; everything else stays
/// usable. Launches on a GPU are not interrupted.
///
/// ```
/// use moye::{Device, Matrix, MatrixMut, interruptible};
/// use std::sync::{Arc, atomic::AtomicBool};
/// let device = Device::sim();
/// let x = device.upload(&[1.0f32; 4])?;
/// let mut y = device.alloc_zeroed::<f32>(4)?;
/// let (x, mut y) = (Matrix::row_major(&x, 2, 2)?, MatrixMut::row_major(&mut y, 2, 2)?);
/// let stop = Arc::new(AtomicBool::new(true));
/// let error = interruptible(&stop, || moye::transpose(&device, &x, &mut y)).unwrap_err();
/// assert!(error.to_string().ends_with("was interrupted"), "{error}");
/// moye::transpose(&device, &x, &mut y)?;
/// # Ok::<(), moye::Error>(())
/// ```
pub fn interruptible<R>(interrupt: &Arc<AtomicBool>, work: impl FnOnce() -> R) -> R {
    /// Restores the outer flag, also if `work` panics.
    struct Outer(Option<Arc<AtomicBool>>);
    impl Drop for Outer {
        fn drop(&mut self) {
            INTERRUPT.set(self.0.take());
        }
    }
    let _outer = Outer(INTERRUPT.replace(Some(interrupt.clone())));
    work()
}

/// The architecture whose limits the simulator has.
const ARCH: Arch = Arch::new(9, 0);

/// Shared memory of a block on that architecture, in bytes.
const SHARED_BYTES_PER_BLOCK: usize = 227 * 1024;

/// The number of SMs for which products are planned: an H200's, on which the kernels' costs were
/// measured. With the number of host cores, the choice of a kernel would differ by machine.
const PLANNED_MULTIPROCESSORS: u32 = 132;

/// A simulated device with its own memory.
pub(crate) struct Simulator {
    number: u64,
    memory: GlobalMemory,
    default_stream: Simulated,
    properties: Properties,
    rates: Rates,
    /// The reason why no GPU is used.
    reason: Option<Error>,
    progress: Mutex<Option<Progress>>,
    profiler: Mutex<Option<Profiler>>,
}

impl Simulator {
    pub fn new(reason: Option<Error>) -> Self {
        // For blocks of the maximum size: an SM runs one or two of them.
        let at_once = moye_sim::blocks_at_once(moye_sim::MAX_THREADS);
        let properties = Properties {
            name: "simulator".to_owned(),
            arch: ARCH,
            multiprocessors: u32::try_from(at_once).unwrap_or(u32::MAX),
            shared_bytes_per_block: SHARED_BYTES_PER_BLOCK,
            memory_bytes: None,
        };
        Self::with(properties, Rates { multiprocessors: PLANNED_MULTIPROCESSORS, ..Rates::H100 }, reason)
    }

    /// A simulator with the limits of a card.
    pub fn of_card(card: &Card) -> Self {
        let (major, minor) = card.capability;
        let properties = Properties {
            name: format!("simulator of {}", card.name),
            arch: Arch::new(major, minor),
            shared_bytes_per_block: card.shared_block_kib as usize * 1024,
            ..Self::new(None).properties
        };
        let rates = Rates {
            arch: properties.arch,
            multiprocessors: card.multiprocessors as u32,
            clock: card.clock_mhz,
            memory: card.memory_gb_s * 1e3,
            shared_bytes: card.shared_kib as u32 * 1024,
            ..Rates::H100
        };
        Self::with(properties, rates, None)
    }

    /// Another simulator that shares this one's memory.
    pub fn peer(&self) -> Self {
        let memory = self.memory.clone();
        Self::sharing(memory.new_stream(), memory, self.properties.clone(), self.rates, None)
    }

    fn with(properties: Properties, rates: Rates, reason: Option<Error>) -> Self {
        let memory = GlobalMemory::new();
        Self::sharing(memory.default_stream(), memory, properties, rates, reason)
    }

    /// A simulator over `memory`.
    fn sharing(
        default_stream: moye_sim::Stream,
        memory: GlobalMemory,
        properties: Properties,
        rates: Rates,
        reason: Option<Error>,
    ) -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        Self {
            number: COUNT.fetch_add(1, Ordering::Relaxed),
            default_stream: Simulated::new(default_stream),
            memory,
            properties,
            rates,
            reason,
            progress: Mutex::new(None),
            profiler: Mutex::new(None),
        }
    }

    /// The simulator's number in this process, for messages.
    pub fn number(&self) -> u64 {
        self.number
    }

    pub fn memory(&self) -> &GlobalMemory {
        &self.memory
    }

    /// The stream of launches that name none.
    pub fn default_stream(&self) -> &Simulated {
        &self.default_stream
    }

    pub fn properties(&self) -> &Properties {
        &self.properties
    }

    /// The rates for planning operations.
    pub fn rates(&self) -> Rates {
        self.rates
    }

    pub fn reason(&self) -> Option<&Error> {
        self.reason.as_ref()
    }

    pub fn on_progress(&self, report: Progress) {
        *self.progress.lock().unwrap_or_else(PoisonError::into_inner) = Some(report);
    }

    /// The profile of the launches of `work`.
    pub fn profile(&self, work: impl FnOnce() -> Result<()>) -> Result<Profile> {
        let profiler = Profiler::new();
        let set =
            |to| std::mem::replace(&mut *self.profiler.lock().unwrap_or_else(PoisonError::into_inner), to);
        // In nested calls only the innermost profile counts the launches.
        let outer = set(Some(profiler.clone()));
        let done = work();
        set(outer);
        done.map(|()| profiler.take())
    }

    /// Adds the PTX of a launched kernel to the current profile, if there is one.
    pub fn profile_ptx(&self, kernel: &str, ptx: &Ptx) {
        let profiler = self.profiler.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(profiler) = profiler {
            profiler.add_ptx(kernel, || ptx.text_of(kernel, self.properties.arch));
        }
    }

    /// Runs `thread` once for every thread of a grid, on a stream; returns when all have exited.
    pub fn run(
        &self,
        stream: &moye_sim::Stream,
        kernel: &'static str,
        grid: Grid,
        shared_bytes: usize,
        thread: &(dyn Fn() + Sync),
    ) -> Result<()> {
        let progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let progress = progress.as_deref().map(|report| report as &(dyn Fn(u64, u64) + Sync));
        let mut launch = Launch::new(kernel, grid.blocks, grid.threads, &self.memory)
            .cluster(grid.cluster)
            .shared_bytes(shared_bytes)
            .overlapping(grid.dependent)
            .stream(stream);
        if let Some(progress) = progress {
            launch = launch.progress(progress);
        }
        let profiler = self.profiler.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(profiler) = &profiler {
            launch = launch.profiler(profiler);
        }
        let interrupt = INTERRUPT.with_borrow(Clone::clone);
        if let Some(interrupt) = &interrupt {
            launch = launch.interrupt(interrupt);
        }
        launch.run(thread).map(|_| ()).map_err(Error::Simulator)
    }
}
