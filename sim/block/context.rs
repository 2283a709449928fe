//! The state of a running block and of its threads.

use super::arrived::Arrived;
use super::barrier::Barriers;
use super::bulk::BulkLoads;
use super::bulk_store::BulkStores;
use super::cluster::Cluster;
use super::collective::Pending;
use super::cp_async::CpAsyncQueue;
use super::knowledge::Knowledge;
use super::overflow::{RESERVE, stack_pointer};
use super::panics::Unwound;
use super::parked::Parked;
use super::phase::Phases;
use super::reads::Reads;
use super::shared::SharedMemory;
use super::wgmma::WgmmaQueue;
use crate::Dim3;
use crate::fault::{FaultKind, ThreadSet, WaitPlace, WaitingThreads};
use crate::memory::{Snapshot, Span};
use crate::profile::BlockProfile;
use crate::race::{BlockClock, GlobalRaces, Handover, SharedShadow, ThreadClock};
use crate::stream::{Clock, Concurrent};
use corosensei::Yielder;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::panic::{Location, resume_unwind};
use std::ptr;
use std::sync::Arc;

/// The recorded accesses of a launch, and the work that may run at the same time.
pub(crate) type Traces = (Option<Arc<GlobalRaces>>, Option<Arc<Concurrent>>);

/// Limits for a thread and for a block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Memory accesses of a block without any of its threads reaching a barrier, a warp operation
    /// or its exit.
    pub(crate) accesses: u64,
    /// Barriers and warp operations that a block completes without the exit of a thread.
    pub(crate) rendezvous: u64,
    /// The sectors that a profile keeps, if one is taken.
    pub(crate) profile: Option<usize>,
}

/// Memory accesses after which a thread yields: it may poll for a write of another thread.
pub(crate) const SLICE: u32 = 1 << 14;

/// Switches after which a warp yields even if its threads could continue.
pub(crate) const TURNS: u32 = 64 * super::WARP_SIZE;

/// The reason why a suspended thread is resumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resume {
    /// To continue.
    Run,
    /// To unwind, because the block has a fault.
    Unwind,
}

pub(crate) type ThreadYielder = Yielder<Resume, ()>;

/// The event that a thread waits for, and the line.
#[derive(Clone, Copy)]
pub(crate) struct Wait {
    pub(crate) place: WaitPlace,
    pub(crate) location: &'static Location<'static>,
}

/// One simulated thread.
pub(crate) struct Thread {
    pub(crate) index: Dim3,
    /// The lowest address of its stack, and the bytes above it that a kernel may use; set when it
    /// starts.
    pub(crate) stack: Cell<(usize, usize)>,
    /// Suspends the thread; set when it starts.
    pub(crate) yielder: Cell<*const ThreadYielder>,
    pub(crate) wait: Cell<Option<Wait>>,
    pub(crate) exited: Cell<bool>,
    pub(crate) cp_async: RefCell<CpAsyncQueue>,
    pub(crate) bulk_stores: RefCell<BulkStores>,
    /// The phase of the cluster's barrier at which the thread has arrived but not yet waited.
    pub(crate) cluster_arrival: Cell<Option<u32>>,
    /// The asynchronous operations known to be over.
    pub(crate) known: RefCell<Knowledge>,
    /// The number of its last proxy fence, 0 before the first.
    pub(crate) fence: Cell<u32>,
    /// The mbarrier of its last completed wait.
    pub(crate) seen_mbarrier: Cell<Option<u32>>,
    /// The accesses of others that are ordered before its own.
    pub(crate) clock: ThreadClock,
    /// The order that its fences have released and will acquire.
    pub(crate) handover: Handover,
    /// The work of other streams known to have ended, by their flags.
    pub(crate) flags: RefCell<Clock>,
}

/// A fault before the launch adds the names of kernel and block.
pub(crate) struct RawFault {
    pub(crate) thread: Dim3,
    pub(crate) location: Option<&'static Location<'static>>,
    pub(crate) kind: FaultKind,
}

/// The state of a running block.
pub(crate) struct BlockContext {
    // The fields of every access come first.
    steps_left: Cell<u32>,
    /// The accesses in the running thread's slice.
    pub(crate) slice: Cell<u32>,
    /// Uncounted steps that only read an index.
    asked: Cell<u64>,
    /// The lowest stack address of the running thread at which an intrinsic may still begin.
    stack_floor: Cell<usize>,
    /// The allocation of the last lookup.
    pub(crate) found: Cell<Span>,
    /// Its index.
    pub(crate) found_number: Cell<usize>,
    /// The allocation found before that one, and its index.
    pub(super) found_before: Cell<(Span, usize)>,
    pub(crate) shared: SharedMemory,
    pub(crate) thread_index: Cell<Dim3>,
    /// The running thread's linear index.
    pub(crate) running: Cell<u32>,

    /// The block's rank in its cluster.
    pub(crate) rank: u32,
    /// The cluster that holds this block; set when it starts.
    cluster: Cell<*const Cluster>,
    pub(crate) block_index: Cell<Dim3>,
    pub(crate) block_dim: Dim3,
    pub(crate) grid_dim: Dim3,
    pub(crate) global: Arc<Snapshot>,
    pub(crate) threads: Vec<Thread>,
    /// One bit per thread: it can run.
    pub(crate) ready: RefCell<Vec<u64>>,
    pub(crate) barriers: RefCell<Barriers>,
    /// Warp operations that wait for lanes, by warp.
    pub(crate) pending: Vec<RefCell<Vec<Pending>>>,
    /// Lanes that have exited or never existed, by warp.
    pub(crate) exited_lanes: Vec<Cell<u32>>,
    /// Threads that have exited.
    pub(crate) exited_count: Cell<u32>,
    /// Bulk loads into this block's shared memory that have not completed.
    pub(crate) bulk_loads: RefCell<BulkLoads>,
    /// The `wgmma` groups of each warpgroup not yet waited for, by warp.
    pub(crate) wgmma: Vec<RefCell<WgmmaQueue>>,
    /// The asynchronous reads of this block's shared memory.
    pub(crate) reads: RefCell<Reads>,
    /// The bytes of this block's shared memory that bulk copies and asynchronous stores have
    /// written.
    pub(crate) arrived: RefCell<Arrived>,
    /// The knowledge at this block's mbarriers.
    pub(crate) phases: RefCell<Phases>,
    /// The order of the threads, and the recorded accesses.
    pub(crate) clock: BlockClock,
    pub(crate) shared_shadow: SharedShadow,
    races: Option<Arc<GlobalRaces>>,
    /// The work that may run concurrently.
    pub(crate) concurrent: Option<Arc<Concurrent>>,
    /// Threads that read unwritten bytes and wait for a write that makes it a race.
    pub(crate) parked: RefCell<Vec<Parked>>,
    /// Copies between blocks that were issued and that have completed, by this block's mbarrier on
    /// which they complete.
    pub(crate) copies: RefCell<HashMap<u32, (u32, u32)>>,
    pub(crate) fault: RefCell<Option<RawFault>>,
    /// A race not reported yet: a wider pair of threads may follow.
    pub(super) deferred: RefCell<Option<RawFault>>,
    pub(crate) unwinding: Cell<bool>,
    /// Whether a thread's condition was true since this was last cleared.
    pub(crate) condition_met: Cell<bool>,
    /// Arrivals at mbarriers that wait for `cp.async` copies, of all threads: mostly 0, so that the
    /// threads' queues need no search.
    pub(crate) late_arrivals: Cell<usize>,

    /// Whether a thread has used up a slice since this was last cleared.
    pub(crate) slice_over: Cell<bool>,
    /// Switches of the running warp until it yields.
    pub(crate) turns_left: Cell<u32>,

    /// The block's counters, if a profile is taken.
    pub(crate) profile: Option<Box<RefCell<BlockProfile>>>,

    limits: Limits,
    /// Traces since the last rendezvous or exit, up to the last switch.
    accesses: Cell<u64>,
    /// Rendezvous since the last exit.
    rendezvous: Cell<u64>,
    /// Memory accesses of all blocks of this context.
    pub(crate) total_steps: Cell<u64>,
}

thread_local! {
    /// The block whose thread runs on this OS thread; null between threads.
    static CURRENT: Cell<*const BlockContext> = const { Cell::new(ptr::null()) };
}

/// The block of the calling simulated thread: every intrinsic starts with it. Faults if the stack
/// is exhausted.
#[inline(always)]
#[track_caller]
pub(crate) fn current<'a>() -> &'a BlockContext {
    let pointer = CURRENT.get();
    if pointer.is_null() {
        outside_launch();
    }
    // SAFETY: it is set only while a thread of the block runs, and the worker keeps the block
    // meanwhile. Callers are intrinsics, which run within the simulated thread and do not let the
    // reference escape.
    let block = unsafe { &*pointer };
    if stack_pointer() < block.stack_floor.get() {
        block.stack_used_up();
    }
    block
}

/// The block of the running simulated thread, without a check of its stack.
pub(crate) fn running<'a>() -> Option<&'a BlockContext> {
    // SAFETY: as in `current`.
    unsafe { CURRENT.get().as_ref() }
}

#[cold]
#[inline(never)]
#[track_caller]
fn outside_launch() -> ! {
    panic!("a device intrinsic was called outside a launch: kernels run through `moye_sim::Launch`")
}

/// Whether this OS thread currently runs a simulated thread.
pub(crate) fn within_simulated_thread() -> bool {
    !CURRENT.get().is_null()
}

impl BlockContext {
    pub(crate) fn new(
        grid_dim: Dim3,
        block_dim: Dim3,
        rank: u32,
        shared_bytes: usize,
        global: Arc<Snapshot>,
        (races, concurrent): Traces,
        limits: Limits,
    ) -> Self {
        let count = block_dim.count() as u32;
        let thread = |linear: u32| Thread {
            index: block_dim.index_of(linear.into()),
            stack: Cell::new((0, 0)),
            yielder: Cell::new(ptr::null()),
            wait: Cell::new(None),
            exited: Cell::new(false),
            cp_async: RefCell::default(),
            bulk_stores: RefCell::default(),
            cluster_arrival: Cell::new(None),
            known: RefCell::default(),
            fence: Cell::new(0),
            seen_mbarrier: Cell::new(None),
            clock: ThreadClock::default(),
            handover: Handover::default(),
            flags: RefCell::default(),
        };
        let warps = count.div_ceil(super::WARP_SIZE) as usize;
        Self {
            steps_left: Cell::new(0),
            slice: Cell::new(SLICE),
            asked: Cell::new(0),
            stack_floor: Cell::new(0),
            found: Cell::new(Span::EMPTY),
            found_number: Cell::new(0),
            found_before: Cell::new((Span::EMPTY, 0)),
            shared: SharedMemory::new(shared_bytes),
            thread_index: Cell::new(Dim3::new(0, 0, 0)),
            running: Cell::new(0),
            rank,
            cluster: Cell::new(ptr::null()),
            block_index: Cell::new(Dim3::new(0, 0, 0)),
            block_dim,
            grid_dim,
            global,
            threads: (0..count).map(thread).collect(),
            ready: RefCell::new(vec![0; count.div_ceil(64) as usize]),
            barriers: RefCell::default(),
            pending: (0..warps).map(|_| RefCell::default()).collect(),
            exited_lanes: (0..warps).map(|_| Cell::new(0)).collect(),
            exited_count: Cell::new(0),
            bulk_loads: RefCell::default(),
            wgmma: (0..warps).map(|_| RefCell::default()).collect(),
            reads: RefCell::default(),
            arrived: RefCell::default(),
            phases: RefCell::default(),
            clock: BlockClock::new(
                races.is_some(),
                races.as_ref().is_some_and(|races| races.tells_values()),
                warps,
            ),
            shared_shadow: SharedShadow::new(if races.is_some() { shared_bytes } else { 0 }),
            races,
            concurrent,
            parked: RefCell::default(),
            copies: RefCell::default(),
            fault: RefCell::new(None),
            deferred: RefCell::new(None),
            unwinding: Cell::new(false),
            condition_met: Cell::new(false),
            late_arrivals: Cell::new(0),
            slice_over: Cell::new(false),
            turns_left: Cell::new(0),
            profile: limits.profile.map(|sectors| Box::new(RefCell::new(BlockProfile::new(sectors)))),
            limits,
            accesses: Cell::new(0),
            rendezvous: Cell::new(0),
            total_steps: Cell::new(0),
        }
    }

    /// Resets the context to a block that has not started.
    pub(crate) fn start(&self, cluster: &Cluster, block_index: Dim3) {
        self.profile_flush();
        self.cluster.set(cluster);
        self.block_index.set(block_index);
        self.exited_count.set(0);
        self.bulk_loads.borrow_mut().clear();
        for queue in &self.wgmma {
            queue.borrow_mut().clear();
        }
        self.shared.reset();
        self.shared_shadow.clear();
        self.clock.clear();
        self.parked.borrow_mut().clear();
        self.reads.take();
        self.phases.borrow_mut().clear();
        self.copies.borrow_mut().clear();
        *self.barriers.borrow_mut() = Barriers::default();
        for (warp, (pending, exited)) in self.pending.iter().zip(&self.exited_lanes).enumerate() {
            pending.borrow_mut().clear();
            let lanes = self.count() - warp as u32 * super::WARP_SIZE;
            exited.set(if lanes < super::WARP_SIZE { u32::MAX << lanes } else { 0 });
        }
        self.late_arrivals.set(0);
        for (linear, thread) in self.threads.iter().enumerate() {
            thread.wait.set(None);
            thread.exited.set(false);
            thread.cp_async.borrow_mut().clear();
            thread.bulk_stores.borrow_mut().clear();
            thread.cluster_arrival.set(None);
            thread.known.take();
            thread.fence.set(0);
            thread.seen_mbarrier.set(None);
            thread.clock.clear();
            thread.handover.clear();
            thread.flags.borrow_mut().clear();
            self.set_ready(linear as u32);
        }
        *self.fault.borrow_mut() = None;
        self.deferred.take();
        self.unwinding.set(false);
        self.turns_left.set(0);
        self.accesses.set(0);
        self.rendezvous.set(0);
    }

    /// The number of threads in the block.
    pub(crate) fn count(&self) -> u32 {
        self.threads.len() as u32
    }

    /// The running thread.
    pub(crate) fn thread(&self) -> &Thread {
        &self.threads[self.running.get() as usize]
    }

    /// The size of the running thread's stack.
    pub(crate) fn stack_bytes(&self) -> usize {
        self.thread().stack.get().1
    }

    /// Counts one access; after a slice of them, yields to the other threads.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn step(&self) {
        match self.steps_left.get().checked_sub(1) {
            Some(left) => self.steps_left.set(left),
            None => self.slice_spent(),
        }
    }

    /// Same as [`step`](Self::step), for operations other than accesses: an infinite loop may have
    /// no accesses.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn ask(&self) {
        let left = self.steps_left.get();
        self.step();
        // A step that finds its slice exhausted is not counted.
        if self.steps_left.get() < left {
            self.asked.set(self.asked.get() + 1);
        }
    }

    #[cold]
    #[inline(never)]
    #[track_caller]
    fn stack_used_up(&self) {
        if !std::thread::panicking() {
            self.raise(Location::caller(), FaultKind::StackOverrun { bytes: self.stack_bytes() });
        }
    }

    #[cold]
    #[inline(never)]
    #[track_caller]
    fn slice_spent(&self) {
        if std::thread::panicking() {
            return;
        }
        let location = Location::caller();
        self.count_steps();
        if self.accesses.get() > self.limits.accesses {
            let what = "accesses to memory or indices since any of them reached a barrier, a warp operation or its end";
            self.no_progress(location, self.accesses.get(), what);
        }
        // The write that it polls for may come from another block, on another OS thread.
        std::thread::yield_now();
        self.slice_over.set(true);
        // Or from threads that wait for conditions, which are evaluated only when no other thread
        // can run.
        for block in self.cluster().blocks() {
            block.wake_for_conditions();
            block.wear_patience();
        }
        // A warp of polling threads yields when each of them has polled once.
        self.turns_left.set(self.turns_left.get().saturating_sub(TURNS / super::WARP_SIZE));
        self.set_ready(self.running.get());
        self.suspend();
    }

    fn no_progress(&self, location: &'static Location<'static>, steps: u64, what: &'static str) -> ! {
        self.raise(location, FaultKind::NoProgress { steps, what, waiting: self.waiting() })
    }

    /// Adds the running thread's steps in this slice to the block's.
    fn count_steps(&self) {
        let made = u64::from(self.slice.get() - self.steps_left.replace(self.slice.get()));
        self.accesses.set(self.accesses.get() + made);
        self.total_steps.set(self.total_steps.get() + made - self.asked.take());
    }

    /// Records that threads of the block have met: progress, unless the block repeats it forever.
    pub(crate) fn note_rendezvous(&self, location: &'static Location<'static>) {
        self.count_steps();
        self.accesses.set(0);
        self.rendezvous.set(self.rendezvous.get() + 1);
        if self.rendezvous.get() > self.limits.rendezvous {
            let what = "barriers and warp operations since any of them reached its end";
            self.no_progress(location, self.rendezvous.get(), what);
        }
    }

    /// Records that the running thread has exited.
    pub(crate) fn note_exit(&self) {
        self.count_steps();
        self.accesses.set(0);
        self.rendezvous.set(0);
        self.thread().exited.set(true);
        self.exited_count.set(self.exited_count.get() + 1);
        self.end_bulk_stores();
        if self.exited_count.get() == self.count() {
            self.end_bulk_loads();
            self.end_overlap();
        }
        self.leave_cluster_barrier();
        self.lane_exited();
    }

    /// The cluster of the block; a cluster of one block if the launch has none.
    pub(crate) fn cluster(&self) -> &Cluster {
        let cluster = self.cluster.get();
        assert!(!cluster.is_null(), "a block that runs was started");
        // SAFETY: set by the cluster that owns this block when it started the block; it is not
        // moved while its blocks run.
        unsafe { &*cluster }
    }

    /// Runs `switch`, which resumes thread `linear`, with this block as the current one.
    pub(crate) fn with_current<R>(&self, linear: u32, switch: impl FnOnce() -> R) -> R {
        self.running.set(linear);
        self.thread_index.set(self.threads[linear as usize].index);
        self.steps_left.set(self.slice.get());
        self.stack_floor.set(self.threads[linear as usize].stack.get().0 + RESERVE);
        self.shared.set_writer(Some(linear));
        CURRENT.set(self);
        let result = switch();
        self.shared.set_writer(None);
        CURRENT.set(ptr::null());
        self.count_steps();
        result
    }

    /// Switches to the scheduler; returns when the thread is resumed.
    pub(crate) fn suspend(&self) {
        let yielder = self.thread().yielder.get();
        // SAFETY: the thread set it when it started, and the yielder lives as long as the coroutine
        // runs.
        let resume = if self.unwinding.get() { Resume::Unwind } else { unsafe { (*yielder).suspend(()) } };
        if resume == Resume::Unwind {
            resume_unwind(Box::new(Unwound));
        }
    }

    /// Suspends the running thread until another makes it ready.
    pub(crate) fn wait(&self, place: WaitPlace, location: &'static Location<'static>) {
        self.thread().wait.set(Some(Wait { place, location }));
        self.suspend();
    }

    /// Suspends the running thread until `condition` holds, unless it holds now. The condition is
    /// re-evaluated whenever no thread of the block can run.
    pub(crate) fn wait_until(
        &self,
        what: &'static str,
        condition: impl Fn() -> bool,
        location: &'static Location<'static>,
    ) {
        while !std::thread::panicking() && !condition() {
            self.wait(WaitPlace::Condition { what }, location);
        }
        self.condition_met.set(true);
    }

    /// Ends the block with a fault of the running thread.
    pub(crate) fn raise(&self, location: &'static Location<'static>, kind: FaultKind) -> ! {
        self.raise_for(self.thread_index.get(), location, kind)
    }

    /// Ends the running thread with a fault of any thread, which ends the block unless the block
    /// defers a race.
    #[cold]
    #[inline(never)]
    pub(crate) fn raise_for(&self, thread: Dim3, location: &'static Location<'static>, kind: FaultKind) -> ! {
        self.record(RawFault { thread, location: Some(location), kind });
        resume_unwind(Box::new(Unwound))
    }

    /// The recorded accesses of the launch's blocks; only with race detection.
    pub(crate) fn races(&self) -> &GlobalRaces {
        self.races.as_ref().expect("used only with race detection")
    }

    /// Records a fault, unless the block has a fault already or defers a race.
    pub(crate) fn record(&self, fault: RawFault) {
        if let Some(fault) = self.with_deferred(fault) {
            self.fault.borrow_mut().get_or_insert(fault);
        }
    }

    /// Makes a thread ready to run.
    pub(crate) fn set_ready(&self, linear: u32) {
        self.threads[linear as usize].wait.set(None);
        self.ready.borrow_mut()[linear as usize / 64] |= 1 << (linear % 64);
    }

    /// Lets the block's threads that wait for conditions evaluate them; returns whether there are
    /// any.
    pub(crate) fn wake_for_conditions(&self) -> bool {
        let mut any = false;
        for (linear, thread) in self.threads.iter().enumerate() {
            let place = thread.wait.get().map(|wait| wait.place);
            if matches!(place, Some(WaitPlace::Condition { .. } | WaitPlace::Mbarrier { .. })) {
                self.set_ready(linear as u32);
                any = true;
            }
        }
        any
    }

    /// Takes the first ready thread at or after `from`, cyclically.
    pub(crate) fn take_ready(&self, from: u32) -> Option<u32> {
        let mut ready = self.ready.borrow_mut();
        let words = ready.len();
        let first = from as usize / 64;
        // The first word is checked twice: its bits from `from` on, and at the end the bits before.
        for step in 0..=words {
            let at = (first + step) % words;
            let mut word = ready[at];
            if step == 0 {
                word &= u64::MAX << (from % 64);
            }
            if word != 0 {
                let bit = word.trailing_zeros();
                ready[at] &= !(1 << bit);
                return Some(at as u32 * 64 + bit);
            }
        }
        None
    }

    /// Takes a random ready thread; `below` draws a number below its argument.
    pub(crate) fn take_any_ready(&self, below: impl FnOnce(u64) -> u64) -> Option<u32> {
        let mut ready = self.ready.borrow_mut();
        let count: u32 = ready.iter().map(|word| word.count_ones()).sum();
        if count == 0 {
            return None;
        }
        let mut left = below(count.into()) as u32;
        for (at, word) in ready.iter_mut().enumerate() {
            if left >= word.count_ones() {
                left -= word.count_ones();
                continue;
            }
            let mut rest = *word;
            (0..left).for_each(|_| rest &= rest - 1);
            let bit = rest.trailing_zeros();
            *word &= !(1 << bit);
            return Some(at as u32 * 64 + bit);
        }
        None
    }

    /// Takes the first ready thread of the same warp after `last`, cyclically.
    pub(crate) fn take_ready_in_warp(&self, last: u32) -> Option<u32> {
        let mut ready = self.ready.borrow_mut();
        let word = &mut ready[last as usize / 64];
        let half = last % 64 / super::WARP_SIZE * super::WARP_SIZE;
        let lanes = (*word >> half) as u32;
        let behind = lanes & (u32::MAX - 1) << (last % super::WARP_SIZE);
        let lane = if behind != 0 { behind } else { lanes }.trailing_zeros();
        if lanes == 0 {
            return None;
        }
        *word &= !(1 << (half + lane));
        Some(last / super::WARP_SIZE * super::WARP_SIZE + lane)
    }

    /// The waiting threads, by place and line, in the order of their first threads.
    pub(crate) fn waiting(&self) -> Vec<WaitingThreads> {
        let mut groups: Vec<(WaitPlace, &'static Location<'static>, Vec<u32>)> = Vec::new();
        for (linear, thread) in self.threads.iter().enumerate() {
            let Some(Wait { place, location }) = thread.wait.get() else { continue };
            match groups.iter_mut().find(|group| group.0 == place && group.1 == location) {
                Some(group) => group.2.push(linear as u32),
                None => groups.push((place, location, vec![linear as u32])),
            }
        }
        let told = |(place, location, threads)| WaitingThreads {
            block: None,
            threads: ThreadSet::new(threads, self.block_dim),
            place,
            location,
        };
        groups.into_iter().map(told).collect()
    }

    /// The threads that have exited.
    pub(crate) fn exited(&self) -> ThreadSet {
        let exited = |&linear: &u32| self.threads[linear as usize].exited.get();
        ThreadSet::new((0..self.count()).filter(exited), self.block_dim)
    }
}
