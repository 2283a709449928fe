//! A profile without a GPU: what each source line of a kernel demands of the memory system and the
//! tensor cores.
//!
//! The simulator sees every access of every thread. With a [`Profiler`] it combines the accesses of
//! the 32 lanes of a warp into requests, as the hardware does, and counts what a GPU's counters
//! count: sectors, wavefronts, instructions.
//!
//! ```
//! use moye_sim::profile::Profiler;
//! use moye_sim::{GlobalMemory, Launch, intrinsics::*};
//!
//! // Reads rows of a matrix of 32 columns, and writes them as columns.
//! fn transpose(a: u64, b: u64) {
//!     let (t, row) = (thread_idx().x, block_idx().x);
//!     let value: u32 = load_global(a + 4 * u64::from(32 * row + t)); // load of A
//!     store_global(b + 4 * u64::from(32 * t + row), value); // store of B
//! }
//!
//! let memory = GlobalMemory::new();
//! let (a, b) = (memory.alloc(4096, "a")?, memory.alloc(4096, "b")?);
//! a.fill(0, 4096, 1)?;
//! let (from, to) = (a.address(), b.address());
//! let profiler = Profiler::new();
//! Launch::new("transpose", 32, 32, &memory).profiler(&profiler).run(&|| transpose(from, to))?;
//!
//! let profile = profiler.take();
//! let total = profile.kernel("transpose").unwrap().total();
//! assert_eq!((total.global_loads.sectors, total.global_loads.coalescing()), (32 * 4, 1.0));
//! assert_eq!((total.global_stores.sectors, total.global_stores.coalescing()), (32 * 32, 0.125));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Requests
//!
//! The simulator runs threads one after another. The n-th access of a lane from a source line
//! belongs to the request of the n-th accesses of the other lanes from that line, of the same kind
//! and width. If lanes iterate a loop different numbers of times, there are as many requests as the
//! longest loop has iterations, as on a GPU. If a branch in a loop is taken by other lanes in each
//! iteration, a GPU has more requests.
//!
//! # What is not counted
//!
//! Plain arithmetic, comparisons, branches and address computations are ordinary Rust to the
//! simulator. [`Profile::add_ptx`] counts them in the PTX. There is no time, and there are no
//! caches: sectors are requests to L1.

mod card;
mod class;
mod counts;
mod flight;
mod gather;
mod html;
mod json;
mod ptx;
mod sectors;
mod source;
mod tensor;
mod text;

pub use card::{Card, Occupancy, Roofline};
pub use class::Class;
pub use counts::{BarrierWaits, Counts, GlobalCounts, SharedCounts};
pub use flight::InFlight;
pub(crate) use flight::Outstanding;
pub(crate) use gather::{Action, BlockProfile, Touch};
pub use ptx::PtxCounts;

use crate::Dim3;
use sectors::{SECTOR_LIMIT, Sectors};
use source::Sources;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Profiles the launches that use it.
#[derive(Clone, Debug)]
pub struct Profiler {
    profile: Arc<Mutex<Profile>>,
    sectors: usize,
}

impl Default for Profiler {
    fn default() -> Self {
        Self { profile: Arc::default(), sectors: SECTOR_LIMIT }
    }
}

/// The profile of launches, by kernel and source line.
#[derive(Clone, Debug, Default)]
pub struct Profile {
    /// The kernels in the order of their first launches. Launches of one kernel with other extents
    /// are counted separately.
    pub kernels: Vec<KernelProfile>,
    sources: Arc<Sources>,
}

/// The profile of the launches of one kernel.
#[derive(Clone, Debug)]
pub struct KernelProfile {
    /// Its name.
    pub kernel: String,
    /// The extents of the grid in blocks.
    pub grid: Dim3,
    /// The extents of a block in threads.
    pub block: Dim3,
    /// Bytes of shared memory of a block.
    pub shared_bytes: usize,
    /// The number of launches.
    pub launches: u64,
    /// Registers of a thread, if set by [`Profile::set_registers`]: `ptxas` decides them.
    pub registers: Option<u64>,
    /// Plain arithmetic, which the simulator does not see, if [`Profile::add_ptx`] received the
    /// kernel's PTX.
    pub ptx: Option<PtxCounts>,
    /// The counts by source file and line.
    pub lines: BTreeMap<(String, u32), Counts>,
    /// Different sectors of global memory that a launch read, by threads or by copies, summed over
    /// the launches.
    pub sectors_read: u64,
    /// Different sectors of global memory that a launch wrote, summed over the launches.
    pub sectors_written: u64,
    /// One in how many of these sectors was counted: 1 if both counts are exact.
    pub sector_sample: u64,
    /// The sectors of the running launch.
    read: Sectors,
    written: Sectors,
}

impl Profiler {
    /// An empty profiler.
    pub fn new() -> Self {
        Self::default()
    }

    /// The profile of the launches since the last call.
    pub fn take(&self) -> Profile {
        std::mem::take(&mut *self.lock())
    }

    /// Sets how many different sectors of a kernel are stored, 2^20 by default. A launch that
    /// accesses more is sampled at this size, as [`KernelProfile::sector_sample`] reports; this
    /// bounds the memory of a profile.
    #[must_use]
    pub fn keeping_sectors(mut self, sectors: usize) -> Self {
        self.sectors = sectors;
        self
    }

    pub(crate) const fn sector_limit(&self) -> usize {
        self.sectors
    }

    /// Counts the plain arithmetic of a kernel in its PTX, as [`Profile::add_ptx`]; `text` is
    /// called if the profile contains the kernel without such counts.
    pub fn add_ptx(&self, kernel: &str, text: impl FnOnce() -> Option<String>) {
        let lacks = |profile: &Profile| profile.kernels.iter().any(|k| k.kernel == kernel && k.ptx.is_none());
        if !lacks(&self.lock()) {
            return;
        }
        // Not under the lock: the PTX may have megabytes.
        let Some(counts) = text().and_then(|text| PtxCounts::of_kernel(&text, kernel)) else { return };
        for profiled in self.lock().kernels.iter_mut().filter(|other| other.kernel == kernel) {
            profiled.ptx = Some(counts);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Profile> {
        self.profile.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a launch.
    pub(crate) fn launched(&self, kernel: &str, grid: Dim3, block: Dim3, shared_bytes: usize) {
        self.lock().entry(kernel, grid, block, shared_bytes).launches += 1;
    }

    /// Records that a launch has ended.
    pub(crate) fn ended(&self, kernel: &str, grid: Dim3, block: Dim3, shared_bytes: usize) {
        self.lock().entry(kernel, grid, block, shared_bytes).end_launch();
    }

    /// Adds the profile of blocks of a launch.
    pub(crate) fn add(
        &self,
        kernel: &str,
        grid: Dim3,
        block: Dim3,
        shared_bytes: usize,
        profile: BlockProfile,
    ) {
        self.lock().entry(kernel, grid, block, shared_bytes).add(profile);
    }
}

impl Profile {
    fn entry(&mut self, kernel: &str, grid: Dim3, block: Dim3, shared_bytes: usize) -> &mut KernelProfile {
        let same = |other: &KernelProfile| {
            other.kernel == kernel
                && (other.grid, other.block, other.shared_bytes) == (grid, block, shared_bytes)
        };
        let at = self.kernels.iter().position(same).unwrap_or_else(|| {
            let kernel = kernel.to_owned();
            self.kernels.push(KernelProfile {
                kernel,
                grid,
                block,
                shared_bytes,
                launches: 0,
                registers: None,
                ptx: None,
                lines: BTreeMap::new(),
                sectors_read: 0,
                sectors_written: 0,
                sector_sample: 1,
                read: Sectors::default(),
                written: Sectors::default(),
            });
            self.kernels.len() - 1
        });
        &mut self.kernels[at]
    }

    /// The first kernel of this name.
    pub fn kernel(&self, name: &str) -> Option<&KernelProfile> {
        self.kernels.iter().find(|kernel| kernel.kernel == name)
    }

    /// Sets the registers per thread of a kernel, as `moye report` prints them: they limit how many
    /// blocks fit on an SM.
    pub fn set_registers(&mut self, kernel: &str, registers: u64) {
        for kernel in self.kernels.iter_mut().filter(|other| other.kernel == kernel) {
            kernel.registers = Some(registers);
        }
    }

    /// Sets the contents of a source file under its name in the profile. Other files are read from
    /// disk when the profile is printed, if found.
    ///
    /// ```
    /// # use moye_sim::profile::Profiler;
    /// # use moye_sim::{GlobalMemory, Launch, intrinsics::sync_threads};
    /// let profiler = Profiler::new();
    /// Launch::new("k", 1, 32, &GlobalMemory::new()).profiler(&profiler).run(&sync_threads)?;
    /// let mut profile = profiler.take();
    /// let (file, line) = profile.kernels[0].lines.keys().next().unwrap().clone();
    /// profile.add_source(&file, &format!("{}bar.sync", "\n".repeat(line as usize - 1)));
    /// assert!(profile.to_text(None).contains(&format!("{file}:{line}: bar.sync")));
    /// # Ok::<(), moye_sim::LaunchError>(())
    /// ```
    pub fn add_source(&mut self, file: &str, text: &str) {
        self.sources.set(file, text);
    }

    /// Counts the plain arithmetic of the kernels in a PTX module: the instructions of the program,
    /// not how often they are executed. Kernels that are not in the module stay unchanged.
    ///
    /// ```
    /// # use moye_sim::profile::Profiler;
    /// # use moye_sim::{GlobalMemory, Launch};
    /// let profiler = Profiler::new();
    /// Launch::new("k", 1, 32, &GlobalMemory::new()).profiler(&profiler).run(&|| ())?;
    /// let mut profile = profiler.take();
    /// let body = "  add.s32 %r1, %r2, 1;\n  fma.rn.f32 %f1, %f2, %f3, %f4;\n  ret;\n";
    /// profile.add_ptx(&format!(".visible .entry k()\n{{\n{body}}}\n"));
    /// let ptx = profile.kernel("k").unwrap().ptx.unwrap();
    /// assert_eq!((ptx.integer, ptx.single, ptx.double), (1, 1, 0));
    /// # Ok::<(), moye_sim::LaunchError>(())
    /// ```
    pub fn add_ptx(&mut self, text: &str) {
        for kernel in &mut self.kernels {
            if let Some(counts) = PtxCounts::of_kernel(text, &kernel.kernel) {
                kernel.ptx = Some(counts);
            }
        }
    }

    /// The counts of the source lines that contain this text, for example a comment, summed over
    /// all kernels.
    ///
    /// # Panics
    /// If no line of the profile contains the text, as this is for tests. Otherwise use
    /// [`find_line`](Self::find_line), which returns `None`.
    #[track_caller]
    pub fn line(&self, text: &str) -> Counts {
        self.find_line(text).unwrap_or_else(|| {
            let lines: Vec<_> = self.lines().map(|((file, line), _)| format!("{file}:{line}")).collect();
            panic!("no line of the profile holds `{text}`; it has counts for {}", lines.join(", "))
        })
    }

    /// Same as [`line`](Self::line); `None` if no line of the profile contains the text, or its
    /// source cannot be read.
    pub fn find_line(&self, text: &str) -> Option<Counts> {
        let holds =
            |file: &str, line| self.sources.line(file, line).is_some_and(|source| source.contains(text));
        let found = self.lines().filter(|((file, line), _)| holds(file, *line)).map(|(_, counts)| counts);
        found.fold(None, |sum: Option<Counts>, counts| {
            let mut sum = sum.unwrap_or_default();
            sum.add(counts);
            Some(sum)
        })
    }

    /// The counts of each file and line, of all kernels.
    fn lines(&self) -> impl Iterator<Item = (&(String, u32), &Counts)> {
        self.kernels.iter().flat_map(|kernel| &kernel.lines)
    }

    /// The profile as a table, for a terminal. With a card, also occupancy and what limits each
    /// kernel on it.
    pub fn to_text(&self, card: Option<&Card>) -> String {
        text::profile(self, card)
    }

    /// The profile as JSON.
    pub fn to_json(&self, card: Option<&Card>) -> String {
        json::profile(self, card)
    }

    /// The profile as an HTML page: the source with its figures beside it.
    pub fn to_html(&self, card: Option<&Card>) -> String {
        html::profile(self, card)
    }
}

impl KernelProfile {
    /// The number of its blocks that fit on an SM of a card.
    pub fn occupancy(&self, card: &Card) -> Occupancy {
        card.occupancy(self.block.count() as u64, self.shared_bytes as u64, self.registers)
    }

    /// The least bytes that a launch transfers from and to memory, on average: each sector that it
    /// reads once, and each that it writes. This is the traffic of a large enough L2 that starts
    /// empty.
    pub fn memory_bytes(&self) -> u64 {
        (self.sectors_read + self.sectors_written) * counts::SECTOR / self.launches.max(1)
    }

    /// The most bytes that a launch transfers between the SMs and L2, on average: see
    /// [`Counts::l2_bytes`].
    pub fn l2_bytes(&self) -> u64 {
        self.total().l2_bytes() / self.launches.max(1)
    }

    /// The sum over all lines.
    pub fn total(&self) -> Counts {
        let mut total = Counts::default();
        self.lines.values().for_each(|counts| total.add(counts));
        total
    }

    fn add(&mut self, profile: BlockProfile) {
        for (location, counts) in profile.lines.into_values() {
            self.lines.entry((location.file().to_owned(), location.line())).or_default().add(&counts);
        }
        self.read.merge(profile.read);
        self.written.merge(profile.written);
    }

    /// Counts the sectors of a launch, each once.
    fn end_launch(&mut self) {
        let (read, written) = (std::mem::take(&mut self.read), std::mem::take(&mut self.written));
        self.sectors_read += read.count();
        self.sectors_written += written.count();
        self.sector_sample = self.sector_sample.max(read.sample()).max(written.sample());
    }
}
