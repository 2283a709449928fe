//! Runs the threads of the blocks of a cluster in turn until all have exited.

use super::WARP_SIZE;
use super::barrier::Arrivals;
use super::cluster::Cluster;
use super::context::{BlockContext, RawFault, Resume, SLICE, TURNS, ThreadYielder};
use super::order::Draw;
use super::overflow::Watched;
use super::stack::{StackPool, ThreadStack};
use crate::Dim3;
use crate::fault::{FaultKind, WaitPlace, WaitingThreads};
use corosensei::stack::Stack as _;
use corosensei::{Coroutine, CoroutineResult};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

type Thread = Coroutine<Resume, (), (), ThreadStack>;

/// Runs clusters of one launch, one after another, on one OS thread. In a launch without clusters,
/// each has one block.
pub(crate) struct Worker<'a> {
    cluster: &'a Cluster,
    entry: &'a (dyn Fn() + Sync),
    stacks: StackPool,
    blocks: Vec<Block>,
    /// The seed if the order is random, and the random numbers of this cluster.
    seed: Option<u64>,
    draw: Option<Draw>,
    /// Set by the caller to end the launch.
    interrupt: Option<&'a AtomicBool>,
    /// Whether the threads that wait for conditions were woken in this cluster because no other
    /// could run.
    asked: bool,
}

/// The worker's state of a block.
struct Block {
    /// The threads that have started and not exited, by linear index.
    live: Vec<Option<Thread>>,
    /// The thread that ran last.
    last: u32,
}

/// Switches after which a block of a cluster lets the others run, whether or not its threads could
/// continue.
const BLOCK_TURNS: u32 = 16 * TURNS;

impl<'a> Worker<'a> {
    pub(crate) fn new(
        cluster: &'a Cluster,
        entry: &'a (dyn Fn() + Sync),
        stack_bytes: usize,
        seed: Option<u64>,
        interrupt: Option<&'a AtomicBool>,
    ) -> Self {
        let threads: usize = cluster.blocks().iter().map(|block| block.count() as usize).sum();
        let block = |block: &BlockContext| Block {
            live: (0..block.count()).map(|_| None).collect(),
            last: block.count() - 1,
        };
        Self {
            cluster,
            entry,
            stacks: StackPool::new(stack_bytes, threads),
            blocks: cluster.blocks().iter().map(block).collect(),
            seed,
            draw: None,
            interrupt,
            asked: false,
        }
    }

    /// Runs one cluster to its end, to an interrupt, or to its first fault, which it returns with
    /// the block's index.
    pub(crate) fn run(&mut self, index: Dim3) -> Result<(), (Dim3, RawFault)> {
        self.cluster.start(index);
        self.asked = false;
        self.draw = self.seed.map(|seed| Draw::new(seed, self.cluster.number.get().into()));
        for block in &mut self.blocks {
            block.last = block.live.len() as u32 - 1;
        }
        let contexts = self.cluster.blocks();
        while !self.faulted() {
            let count = contexts.len();
            let first = self.draw.as_mut().map_or(0, |draw| draw.below(count as u64) as usize);
            let ran = (first..first + count).filter(|&rank| self.run_block(rank % count)).count() > 0;
            if !ran && !self.faulted() && !self.ask() {
                self.note_deadlock();
                break;
            }
        }
        BlockContext::settle_cluster(contexts);
        let faults =
            contexts.iter().filter_map(|context| Some((context.block_index.get(), context.fault.take()?)));
        let fault = faults.reduce(|first, other| if other.1.goes_before(&first.1) { other } else { first });
        if fault.is_some() || self.interrupted() {
            self.unwind_all();
        }
        fault.map_or(Ok(()), Err)
    }

    fn interrupted(&self) -> bool {
        self.interrupt.is_some_and(|interrupt| interrupt.load(Relaxed))
    }

    fn faulted(&self) -> bool {
        self.interrupted() || self.cluster.blocks().iter().any(|context| context.fault.borrow().is_some())
    }

    /// Runs the threads of a block until none is ready, up to a limit if there are other blocks.
    /// Returns whether any ran.
    fn run_block(&mut self, rank: usize) -> bool {
        let contexts = self.cluster.blocks();
        let context = &contexts[rank];
        let mut turns = 0;
        while (contexts.len() == 1 || turns < BLOCK_TURNS) && !self.faulted() {
            let next = match &mut self.draw {
                None => next_ready(context, self.blocks[rank].last),
                Some(draw) => draw_ready(context, draw),
            };
            let Some(linear) = next else { break };
            self.blocks[rank].last = linear;
            self.resume(rank, linear, Resume::Run);
            turns += 1;
            // The write that a thread polls for may come from another block.
            if context.slice_over.take() && contexts.len() > 1 {
                break;
            }
        }
        turns > 0
    }

    /// Lets the threads that wait for conditions evaluate them again, unless nothing has changed
    /// since; returns whether there are any.
    fn ask(&mut self) -> bool {
        let contexts = self.cluster.blocks();
        let changed = contexts.iter().filter(|context| context.condition_met.take()).count() > 0;
        if std::mem::replace(&mut self.asked, true) && !changed {
            return false;
        }
        contexts.iter().filter(|context| context.wake_for_conditions()).count() > 0
    }

    /// Switches to a thread until it waits, exits or unwinds.
    fn resume(&mut self, rank: usize, linear: u32, resume: Resume) {
        let context = &self.cluster.blocks()[rank];
        let slot = &mut self.blocks[rank].live[linear as usize];
        let thread = match slot {
            Some(thread) => thread,
            None => match self.stacks.take() {
                Ok(stack) => slot.insert(spawn(context, self.entry, linear, stack)),
                Err(error) => {
                    let kind = FaultKind::NoStack { error: error.to_string() };
                    let thread = context.threads[linear as usize].index;
                    return context.record(RawFault { thread, location: None, kind });
                }
            },
        };
        let (limit, _) = context.threads[linear as usize].stack.get();
        let result = context.with_current(linear, || {
            let _watched = Watched::new(&*thread, limit);
            thread.resume(resume)
        });
        if let CoroutineResult::Return(()) = result {
            if resume == Resume::Run {
                context.note_exit();
            }
            if let Some(thread) = slot.take() {
                self.stacks.put(thread.into_stack());
            }
        }
    }

    /// Records the fault of a cluster in which no thread can continue although some have not
    /// exited.
    fn note_deadlock(&self) {
        let contexts = self.cluster.blocks();
        // Threads that wait for a thread that waits for a write are not at fault.
        if contexts.iter().any(BlockContext::fault_parked) {
            return;
        }
        let waits = || {
            contexts.iter().flat_map(|context| {
                let wait = move |(i, t): (usize, &'a super::context::Thread)| {
                    Some((context, i as u32, t, t.wait.get()?))
                };
                context.threads.iter().enumerate().filter_map(wait)
            })
        };
        // A barrier explains more than the other threads' waits.
        let at_barrier = waits().find(|(.., wait)| matches!(wait.place, WaitPlace::Barrier { .. }));
        let Some((context, linear, thread, wait)) = at_barrier.or_else(|| waits().next()) else { return };
        let mut waiting = context.waiting();
        for other in contexts.iter().filter(|other| other.rank != context.rank) {
            waiting.extend(
                other.waiting().into_iter().map(|group| WaitingThreads { block: Some(other.rank), ..group }),
            );
        }
        let exited = context.exited();
        let kind = match wait.place {
            WaitPlace::Barrier { id } => {
                let Arrivals { arrived, expected } = context.barrier_arrivals(id);
                FaultKind::BarrierIncomplete { barrier: id, arrived, expected, waiting, exited }
            }
            WaitPlace::Warp { operation, mask } => {
                let missing = context.lanes_missing(linear);
                FaultKind::WarpIncomplete { operation, mask, missing, waiting, exited }
            }
            WaitPlace::Mbarrier { .. } => {
                FaultKind::WaitNeverEnds { what: "an mbarrier's phase", waiting, exited }
            }
            WaitPlace::Memory { .. } => unreachable!("handled above"),
            WaitPlace::Condition { what } => FaultKind::WaitNeverEnds { what, waiting, exited },
        };
        context.record(RawFault { thread: thread.index, location: Some(wait.location), kind });
    }

    /// Unwinds every thread that has not exited, so that the values on its stack are dropped.
    fn unwind_all(&mut self) {
        for (rank, context) in self.cluster.blocks().iter().enumerate() {
            context.unwinding.set(true);
            for linear in 0..context.count() {
                while self.blocks[rank].live[linear as usize].is_some() {
                    self.resume(rank, linear, Resume::Unwind);
                }
            }
        }
    }
}

/// The next thread of a block to run after `last`: for a while the next of the same warp, so that
/// warp operations find the stacks of their lanes in the caches, then threads of the next warps.
fn next_ready(context: &BlockContext, last: u32) -> Option<u32> {
    let turns = context.turns_left.get();
    if turns > 0 {
        context.turns_left.set(turns - 1);
        if let Some(linear) = context.take_ready_in_warp(last) {
            return Some(linear);
        }
    }
    context.turns_left.set(TURNS);
    let next_warp = (last / WARP_SIZE + 1) * WARP_SIZE;
    context.take_ready(if next_warp < context.count() { next_warp } else { 0 })
}

/// Any thread of the block, for a random slice.
fn draw_ready(context: &BlockContext, draw: &mut Draw) -> Option<u32> {
    context.slice.set(64 + draw.below(u64::from(SLICE) - 64) as u32);
    context.take_any_ready(|count| draw.below(count))
}

/// A thread of the block, not yet started.
fn spawn(context: &BlockContext, entry: &(dyn Fn() + Sync), linear: u32, stack: ThreadStack) -> Thread {
    context.threads[linear as usize].stack.set((stack.limit().get(), stack.usable()));
    let body = move |yielder: &ThreadYielder, _: Resume| {
        context.threads[linear as usize].yielder.set(yielder);
        if let Err(payload) = catch_unwind(AssertUnwindSafe(entry)) {
            context.note_unwound(&*payload);
        }
    };
    // SAFETY: `Worker::run` drives every thread to its end before it returns, and a worker dropped
    // earlier unwinds its threads; context and entry outlive the worker.
    unsafe { Coroutine::with_stack_unchecked(stack, body) }
}
