//! A launch: a grid of blocks, distributed over the host's cores as far as there are stacks for
//! their threads.

use crate::Dim3;
use crate::block::{
    BlockContext, Cluster, Limits, MAX_CLUSTER, MAX_STACKS, Permutation, RawFault, SignalStack, Traces,
    Worker, install_guard, install_hook, within_simulated_thread,
};
use crate::fault::{Fault, LaunchError, RaceThreads};
use crate::memory::{GlobalMemory, Snapshot};
use crate::process::Process;
use crate::profile::Profiler;
use crate::race::GlobalRaces;
use crate::stream::{Stream, lock};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// The most threads that a block may have.
pub const MAX_THREADS: u32 = 1024;
/// The most shared memory that a block may have, in bytes: 227 KiB, the limit on Hopper.
pub const MAX_SHARED_BYTES: usize = 227 * 1024;

/// The most blocks of this many threads that one launch runs concurrently: one on each core of the
/// caller's `rayon` pool, limited by the process's stacks for 12288 threads, so 12 blocks of 1024.
///
/// ```
/// assert_eq!(moye_sim::blocks_at_once(1), rayon::current_num_threads().min(12288));
/// assert!((1..=12).contains(&moye_sim::blocks_at_once(1024)));
/// ```
pub fn blocks_at_once(threads_per_block: u32) -> usize {
    // A process forked from this one starts its own threads.
    let _ = Process::current();
    (MAX_STACKS / threads_per_block.max(1) as usize).min(rayon::current_num_threads()).max(1)
}

/// A kernel launch: what a CUDA program writes between `<<<` and `>>>`, and how the simulator runs
/// it.
///
/// ```
/// use moye_sim::{GlobalMemory, Launch, intrinsics};
///
/// let memory = GlobalMemory::new();
/// let squares = memory.alloc(4 * 64, "squares")?;
/// let address = squares.address();
/// let report = Launch::new("squares", 2, 32, &memory).run(&|| {
///     let i = intrinsics::block_idx().x * 32 + intrinsics::thread_idx().x;
///     intrinsics::store_global(address + 4 * u64::from(i), i * i);
/// })?;
/// assert_eq!(report.blocks, 2);
/// let mut last = [0; 4];
/// squares.read(4 * 63, &mut last)?;
/// assert_eq!(u32::from_ne_bytes(last), 63 * 63);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Launch<'a> {
    kernel: &'a str,
    grid: Dim3,
    block: Dim3,
    cluster: Dim3,
    shared_bytes: usize,
    memory: GlobalMemory,
    stack_bytes: usize,
    limits: Limits,
    progress: Option<Progress<'a>>,
    profiler: Option<Profiler>,
    races: Option<bool>,
    same_values: Option<SameValues<'a>>,
    order: Option<u64>,
    interrupt: Option<&'a AtomicBool>,
    overlaps: bool,
    /// By its number in the memory; `None` is one of another memory.
    stream: Option<usize>,
}

/// Called after every block: completed blocks, and all blocks.
type Progress<'a> = &'a (dyn Fn(u64, u64) + Sync);

/// Receives threads that write the same value.
type SameValues<'a> = &'a (dyn Fn(&Fault) + Sync);

/// Statistics of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// Blocks of the grid.
    pub blocks: u64,
    /// Threads of a block.
    pub threads_per_block: u32,
    /// Memory accesses of all threads.
    pub accesses: u64,
    /// The elapsed time.
    pub elapsed: Duration,
}

impl<'a> Launch<'a> {
    /// A launch of `grid` blocks of `block` threads each, without shared memory. `kernel` is the
    /// name in faults.
    pub fn new(
        kernel: &'a str,
        grid: impl Into<Dim3>,
        block: impl Into<Dim3>,
        memory: &GlobalMemory,
    ) -> Self {
        Self {
            kernel,
            grid: grid.into(),
            block: block.into(),
            cluster: Dim3::new(1, 1, 1),
            shared_bytes: 0,
            memory: memory.clone(),
            stack_bytes: stack_by_default(),
            limits: Limits { accesses: 1 << 32, rendezvous: 1 << 26, profile: None },
            progress: None,
            profiler: None,
            races: None,
            same_values: None,
            order: None,
            interrupt: None,
            overlaps: false,
            stream: Some(0),
        }
    }

    /// Groups the blocks of the grid into clusters of these extents, 16 blocks at most; the grid's
    /// extents are multiples of them. The blocks of a cluster run together, on one core.
    ///
    /// ```
    /// use moye_sim::{GlobalMemory, Launch, intrinsics::*};
    ///
    /// // Each block of a pair reads a word of the other's shared memory.
    /// let kernel = || {
    ///     store_shared::<u32>(shared_base(), 100 + cluster_rank());
    ///     cluster_arrive();
    ///     cluster_wait();
    ///     let other = map_shared(shared_base(), 1 - cluster_rank());
    ///     assert_eq!(load_shared_cluster::<u32>(other), 101 - cluster_rank());
    ///     // No block exits while its memory is read.
    ///     cluster_arrive();
    ///     cluster_wait();
    /// };
    /// Launch::new("swap", 8, 32, &GlobalMemory::new()).cluster(2).shared_bytes(64).run(&kernel)?;
    /// # Ok::<(), moye_sim::LaunchError>(())
    /// ```
    #[must_use]
    pub fn cluster(mut self, cluster: impl Into<Dim3>) -> Self {
        self.cluster = cluster.into();
        self
    }

    /// Sets the shared memory of every block.
    #[must_use]
    pub fn shared_bytes(mut self, bytes: usize) -> Self {
        self.shared_bytes = bytes;
        self
    }

    /// Sets the stack size of every thread, at least 32 KiB. The default is the environment
    /// variable `MOYE_SIM_STACK` in bytes, or 256 KiB. Overflow is a fault on Linux on x86-64, and
    /// ends the process elsewhere.
    #[must_use]
    pub fn stack_bytes(mut self, bytes: usize) -> Self {
        self.stack_bytes = bytes.max(LEAST_STACK);
        self
    }

    /// Faults a block whose threads make this many memory accesses while none of them reaches a
    /// barrier, a warp operation or its end: they poll for something that does not happen. The
    /// default is 2^32, which takes ten seconds or more.
    #[must_use]
    pub fn access_budget(mut self, accesses: u64) -> Self {
        self.limits.accesses = accesses;
        self
    }

    /// Faults a block that completes this many barriers and warp operations while none of its
    /// threads ends. The default is 2^26.
    #[must_use]
    pub fn rendezvous_budget(mut self, rendezvous: u64) -> Self {
        self.limits.rendezvous = rendezvous;
        self
    }

    /// Calls `progress(done, total)` after every block, from the OS thread that ran it; calls may
    /// overlap.
    #[must_use]
    pub fn progress(mut self, progress: Progress<'a>) -> Self {
        self.progress = Some(progress);
        self
    }

    /// Enables race detection, which takes time: unordered accesses to the same bytes are then
    /// faults. The default is the environment variable `MOYE_SIM_RACES` (`0`, `1` or `values`);
    /// without it, race detection is on if the simulator was compiled with debug assertions.
    #[must_use]
    pub fn races(mut self, races: bool) -> Self {
        self.races = Some(races);
        self
    }

    /// Enables race detection, and calls `tell` if several threads write the same value to the same
    /// bytes without an order: not a race, because the value does not depend on the order, but
    /// seldom intended. It is called after the launch, once for each pair of lines, with the fault
    /// that writes of different values would be. `MOYE_SIM_RACES=values` prints the same to
    /// standard error, for all launches.
    ///
    /// ```
    /// use moye_sim::{GlobalMemory, Launch, intrinsics::*};
    /// use std::sync::Mutex;
    ///
    /// let told = Mutex::new(Vec::new());
    /// let tell = |fault: &moye_sim::Fault| told.lock().unwrap().push(fault.to_string());
    /// let kernel = || store_shared(shared_base(), 7_u32);
    /// Launch::new("sevens", 1, 64, &GlobalMemory::new()).shared_bytes(64).same_values(&tell).run(&kernel)?;
    /// let told = told.into_inner().unwrap();
    /// assert!(told[0].starts_with("kernel `sevens`, block (0,0,0), thread (1,0,0) at "), "{told:?}");
    /// # Ok::<(), moye_sim::LaunchError>(())
    /// ```
    #[must_use]
    pub fn same_values(mut self, tell: SameValues<'a>) -> Self {
        self.same_values = Some(tell);
        self
    }

    /// Declares that the launch may begin before the previous launch on the same stream has ended
    /// (programmatic dependent launch). Both still run one after the other; but an access to bytes
    /// that the previous launch accesses is a race unless the thread has first waited for that
    /// launch ([`wait_for_prior_launch`](crate::intrinsics::wait_for_prior_launch)). The wait is
    /// for the previous launch only: in a chain of launches, an earlier one may still run if the
    /// launch between has not waited.
    #[must_use]
    pub fn overlapping(mut self, overlaps: bool) -> Self {
        self.overlaps = overlaps;
        self
    }

    /// Issues the launch on a stream of the same memory instead of the default one: launches of
    /// different streams are ordered only by [`Event`](crate::Event)s.
    #[must_use]
    pub fn stream(mut self, stream: &Stream) -> Self {
        self.stream = stream.is_of(&self.memory).then(|| stream.number());
        self
    }

    /// Runs warps and blocks in an order determined by this seed (for blocks: if one runs at a
    /// time). The default is the environment variable `MOYE_SIM_ORDER`; without it, they run in
    /// index order.
    #[must_use]
    pub fn order(mut self, seed: u64) -> Self {
        self.order = Some(seed);
        self
    }

    /// Ends the launch soon after another thread sets this: [`LaunchError::Interrupted`].
    ///
    /// ```
    /// use moye_sim::{GlobalMemory, Launch, LaunchError, intrinsics::*};
    /// use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
    /// use std::time::Duration;
    ///
    /// let memory = GlobalMemory::new();
    /// let word = memory.alloc(4, "word")?;
    /// word.fill(0, 4, 0)?;
    /// let address = word.address();
    /// let stop = AtomicBool::new(false);
    /// let poll = || while load_global::<u32>(address) == 0 {};
    /// let ended = std::thread::scope(|scope| {
    ///     let launch = scope.spawn(|| {
    ///         let launch = Launch::new("poll", 1, 32, &memory).interrupt(&stop);
    ///         launch.run(&poll)
    ///     });
    ///     std::thread::sleep(Duration::from_millis(20));
    ///     stop.store(true, Relaxed);
    ///     launch.join().unwrap()
    /// });
    /// assert!(matches!(ended, Err(LaunchError::Interrupted { .. })), "{ended:?}");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn interrupt(mut self, interrupt: &'a AtomicBool) -> Self {
        self.interrupt = Some(interrupt);
        self
    }

    /// Profiles the launch, even if it ends with a fault.
    #[must_use]
    pub fn profiler(mut self, profiler: &Profiler) -> Self {
        self.limits.profile = Some(profiler.sector_limit());
        self.profiler = Some(profiler.clone());
        self
    }

    /// Runs the grid: calls `entry`, the kernel with its parameters bound, once for every thread.
    ///
    /// Blocks run in parallel on the caller's `rayon` pool, each on one core, [`blocks_at_once`] of
    /// them.
    ///
    /// # Errors
    /// - [`LaunchError::Invalid`] if the grid, the block or its shared memory exceed a limit, if a
    ///   simulated thread calls it, or in a process that was forked while another thread ran a
    ///   launch.
    /// - [`LaunchError::Interrupted`] if the caller ends it.
    /// - [`LaunchError::Fault`] if the kernel did something wrong; with several faulting blocks, it
    ///   is the fault of the first in the grid, so the same launch returns the same fault. After a
    ///   race inside a block in global memory, the other blocks run. If two blocks race at one of
    ///   its lines, the fault is their race, whose remedy orders all threads.
    pub fn run(&self, entry: &(dyn Fn() + Sync)) -> Result<Report, LaunchError> {
        if let Some(reason) = self.misuse() {
            return Err(LaunchError::Invalid { kernel: self.kernel.to_owned(), reason });
        }
        let invalid = |reason| LaunchError::Invalid { kernel: self.kernel.to_owned(), reason };
        let process = Process::current().map_err(invalid)?;
        let _running = process.enter().map_err(invalid)?;
        let stream = self.stream.expect("`misuse` has seen that it is of this memory");
        install_hook();
        install_guard();
        if let Some(profiler) = &self.profiler {
            profiler.launched(self.kernel, self.grid, self.block, self.shared_bytes);
        }
        let started = Instant::now();
        let memory = Arc::new(self.memory.snapshot());
        let seed = self.order.or_else(order_by_default);
        let tells_values = self.same_values.is_some() || values_by_default();
        let finds_races = self.races.unwrap_or_else(|| self.same_values.is_some() || races_by_default());
        let extents = [self.clusters(), self.cluster, self.block];
        let races = finds_races.then(|| Arc::new(GlobalRaces::new(&memory, extents, tells_values)));
        let concurrent = lock(&self.memory.streams).begin(stream, self.kernel, races.as_ref(), self.overlaps);
        let is_alone = concurrent.chain.is_empty() && concurrent.others.is_empty();
        let concurrent = (finds_races && !is_alone).then(|| Arc::new(concurrent));
        let grid = Grid {
            launch: self,
            entry,
            traces: (races.clone(), concurrent.clone()),
            memory,
            // `misuse` has checked that it fits.
            blocks: self.grid.count() as u64,
            clusters: self.clusters(),
            seed,
            order: Permutation::new(seed, self.clusters().count() as u64),
            next: AtomicU64::new(0),
            done: AtomicU64::new(0),
            accesses: AtomicU64::new(0),
            first_fault: Mutex::new(None),
        };
        let threads = self.block.count() as usize;
        let per_cluster = threads * self.cluster.count() as usize;
        let workers = blocks_at_once(per_cluster as u32)
            .min((grid.clusters.count() as u64).try_into().unwrap_or(usize::MAX));
        process.scope(|scope| {
            for _ in 0..workers {
                scope.spawn(|_| grid.work());
            }
        });
        if let Some(concurrent) = &concurrent {
            lock(&self.memory.streams).ended(stream, concurrent);
        }
        if let Some(profiler) = &self.profiler {
            profiler.ended(self.kernel, self.grid, self.block, self.shared_bytes);
        }
        if let Some(races) = &races {
            self.tell_same_values(races);
        }
        match grid.first_fault.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some(FaultOf { block, fault, .. }) => {
                let RawFault { thread, location, kind } = fault;
                let kernel = self.kernel.to_owned();
                Err(LaunchError::Fault(Box::new(Fault { kernel, block, thread, location, kind })))
            }
            None if self.is_interrupted() => Err(LaunchError::Interrupted { kernel: self.kernel.to_owned() }),
            None => Ok(Report {
                blocks: grid.blocks,
                threads_per_block: threads as u32,
                accesses: grid.accesses.into_inner(),
                elapsed: started.elapsed(),
            }),
        }
    }

    /// Reports which threads wrote the same value.
    fn tell_same_values(&self, races: &GlobalRaces) {
        for (block, RawFault { thread, location, kind }) in races.take_warnings() {
            let fault = Fault { kernel: self.kernel.to_owned(), block, thread, location, kind };
            match self.same_values {
                Some(tell) => tell(&fault),
                None => eprintln!("warning: two threads write the same value: {fault}"),
            }
        }
    }

    fn is_interrupted(&self) -> bool {
        self.interrupt.is_some_and(|interrupt| interrupt.load(Relaxed))
    }

    /// The extents of the grid in clusters.
    fn clusters(&self) -> Dim3 {
        let (grid, cluster) = (self.grid, self.cluster);
        Dim3::new(grid.x / cluster.x, grid.y / cluster.y, grid.z / cluster.z)
    }

    /// The reason why the launch is not possible.
    fn misuse(&self) -> Option<String> {
        let (grid, block) = (self.grid, self.block);
        if within_simulated_thread() {
            return Some("a simulated thread cannot launch a grid".to_owned());
        }
        if grid.count() == 0 || block.count() == 0 {
            return Some(format!("grid {grid} of blocks {block} has no threads; every extent is at least 1"));
        }
        if block.count() > MAX_THREADS.into() || block.z > 64 {
            let count = block.count();
            return Some(format!(
                "a block {block} of {count} threads; it has at most {MAX_THREADS}, and at most 64 along z"
            ));
        }
        if grid.x > i32::MAX as u32 || grid.y > 65_535 || grid.z > 65_535 {
            return Some(format!("grid {grid}; its extents are at most (2147483647,65535,65535)"));
        }
        if self.stream.is_none() {
            return Some("its stream is of another memory; make it by `GlobalMemory::new_stream`".to_owned());
        }
        let cluster = self.cluster;
        if cluster.count() == 0 || cluster.count() > MAX_CLUSTER.into() {
            return Some(format!("a cluster {cluster} of blocks; it has 1 to {MAX_CLUSTER}"));
        }
        if !grid.x.is_multiple_of(cluster.x)
            || !grid.y.is_multiple_of(cluster.y)
            || !grid.z.is_multiple_of(cluster.z)
        {
            return Some(format!("grid {grid}; its extents are multiples of those of the cluster {cluster}"));
        }
        (self.shared_bytes > MAX_SHARED_BYTES).then(|| {
            let bytes = self.shared_bytes;
            format!("{bytes} bytes of shared memory; a block has at most {MAX_SHARED_BYTES}")
        })
    }
}

/// Whether race detection is on by default.
pub(crate) fn races_by_default() -> bool {
    static DEFAULT: OnceLock<bool> = OnceLock::new();
    *DEFAULT.get_or_init(|| match std::env::var("MOYE_SIM_RACES").as_deref() {
        Ok("0") => false,
        Ok("1" | "values") => true,
        _ => cfg!(debug_assertions),
    })
}

/// Whether writes of the same value are reported by default.
fn values_by_default() -> bool {
    static DEFAULT: OnceLock<bool> = OnceLock::new();
    *DEFAULT.get_or_init(|| std::env::var("MOYE_SIM_RACES").is_ok_and(|value| value == "values"))
}

/// The smallest stack of a simulated thread, in bytes.
const LEAST_STACK: usize = 32 * 1024;

/// The default stack of a simulated thread, in bytes.
fn stack_by_default() -> usize {
    static DEFAULT: OnceLock<usize> = OnceLock::new();
    let of_variable = || std::env::var("MOYE_SIM_STACK").ok()?.parse().ok();
    *DEFAULT.get_or_init(|| of_variable().unwrap_or(256 * 1024).max(LEAST_STACK))
}

/// The default seed of the order.
fn order_by_default() -> Option<u64> {
    static DEFAULT: OnceLock<Option<u64>> = OnceLock::new();
    *DEFAULT.get_or_init(|| std::env::var("MOYE_SIM_ORDER").ok()?.parse().ok())
}

/// The state shared by a launch's workers.
struct Grid<'a> {
    launch: &'a Launch<'a>,
    entry: &'a (dyn Fn() + Sync),
    memory: Arc<Snapshot>,
    traces: Traces,
    blocks: u64,
    /// The grid's extents in clusters.
    clusters: Dim3,
    /// The seed of the order of threads, and the order of the clusters.
    seed: Option<u64>,
    order: Permutation,
    /// The next cluster that no worker has started.
    next: AtomicU64,
    done: AtomicU64,
    accesses: AtomicU64,
    /// The fault of the cluster that started first.
    first_fault: Mutex<Option<FaultOf>>,
}

/// A fault of a cluster.
struct FaultOf {
    /// The cluster's position in the order.
    place: u64,
    /// The block's index.
    block: Dim3,
    fault: RawFault,
}

impl Grid<'_> {
    /// Runs clusters until none is left, one has faulted, or the launch is interrupted.
    ///
    /// They start in index order or in a drawn order, and a started cluster is completed; so all
    /// clusters before a faulted one complete, and the first fault is always the same.
    fn work(&self) {
        let _signals = SignalStack::of_this_thread();
        let Launch { grid, block, cluster: dim, shared_bytes, stack_bytes, limits, progress, .. } =
            *self.launch;
        let cluster = Cluster::new(dim, grid, block, shared_bytes, &self.memory, &self.traces, limits);
        let blocks = cluster.blocks().len() as u64;
        let mut worker = Worker::new(&cluster, self.entry, stack_bytes, self.seed, self.launch.interrupt);
        while !self.faulted() {
            let next = self.next.fetch_add(1, Relaxed);
            if next >= self.clusters.count() as u64 {
                break;
            }
            let linear = self.order.of(next);
            if let Err((block, fault)) = worker.run(self.clusters.index_of(linear)) {
                self.note(FaultOf { place: next, block, fault });
            } else if let Some(progress) = progress {
                progress(self.done.fetch_add(blocks, Relaxed) + blocks, self.blocks);
            }
        }
        let accesses = cluster.blocks().iter().map(|block| block.total_steps.get()).sum();
        self.accesses.fetch_add(accesses, Relaxed);
        if let Some(profiler) = &self.launch.profiler {
            for profile in cluster.blocks().iter().filter_map(BlockContext::take_profile) {
                profiler.add(self.launch.kernel, grid, block, shared_bytes, profile);
            }
        }
    }

    /// Records a fault if it is the first or a race of a wider group of threads. A race recorded
    /// when another cluster reaches a limit states that later blocks were not checked.
    fn note(&self, new: FaultOf) {
        let mut first = self.first_fault.lock().unwrap_or_else(PoisonError::into_inner);
        let (kept, other) = match first.take() {
            Some(old) if !new.fault.widens(&old.fault) => {
                match old.place < new.place || old.fault.widens(&new.fault) {
                    true => (old, Some(new.fault)),
                    false => (new, Some(old.fault)),
                }
            }
            _ => (new, None),
        };
        let is_limited = other.is_some_and(|other| other.is_of_a_limit()) && kept.fault.may_widen_in_grid();
        let fault = match is_limited {
            true => kept.fault.with_unseen(Some(RaceThreads::Grid)),
            false => kept.fault,
        };
        if let (true, Some(races)) = (is_limited, &self.traces.0) {
            races.give_up();
        }
        *first = Some(FaultOf { fault, ..kept });
    }

    /// Whether no further cluster is started.
    fn faulted(&self) -> bool {
        let is_last = |FaultOf { fault, .. }: &FaultOf| {
            let has_given_up = self.traces.0.as_ref().is_some_and(|races| races.has_given_up());
            has_given_up || self.clusters.count() == 1 || !fault.may_widen_in_grid()
        };
        self.launch.is_interrupted()
            || self.first_fault.lock().unwrap_or_else(PoisonError::into_inner).as_ref().is_some_and(is_last)
    }
}
