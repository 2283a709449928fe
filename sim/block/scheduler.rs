//! Runs the threads of a block in turn until all have returned.

use super::WARP_SIZE;
use super::context::{BlockContext, RawFault, Resume, TURNS, ThreadYielder};
use super::stack::{StackPool, ThreadStack};
use crate::Dim3;
use crate::fault::{FaultKind, WaitPlace};
use corosensei::{Coroutine, CoroutineResult};
use std::panic::{AssertUnwindSafe, catch_unwind};

type Thread = Coroutine<Resume, (), (), ThreadStack>;

/// Runs blocks of one launch, one after another, on one OS thread.
pub(crate) struct Worker<'a> {
    context: &'a BlockContext,
    entry: &'a (dyn Fn() + Sync),
    stacks: StackPool,
    /// The threads that have started and not returned, by linear index.
    live: Vec<Option<Thread>>,
    /// Whether the threads that wait for conditions were woken in this block because no other could run.
    asked: bool,
}

impl<'a> Worker<'a> {
    pub(crate) fn new(context: &'a BlockContext, entry: &'a (dyn Fn() + Sync), stack_bytes: usize) -> Self {
        let live = (0..context.count()).map(|_| None).collect();
        Self {
            context,
            entry,
            stacks: StackPool::new(stack_bytes, context.count() as usize),
            live,
            asked: false,
        }
    }

    /// Runs one block to its end or its first fault.
    pub(crate) fn run(&mut self, block_index: Dim3) -> Result<(), RawFault> {
        self.context.start(block_index);
        self.asked = false;
        let mut last = self.context.count() - 1;
        while let Some(linear) = self.next_ready(last) {
            last = linear;
            self.resume(linear, Resume::Run);
            if self.context.fault.borrow().is_some() {
                break;
            }
        }
        if self.context.fault.borrow().is_none() {
            self.note_deadlock();
        }
        let Some(fault) = self.context.fault.take() else { return Ok(()) };
        self.unwind_all();
        Err(fault)
    }

    /// The thread to run after `last`: the next one of the same warp for a while, so that warp operations find the stacks
    /// of their lanes in the caches, then those of the next warps.
    ///
    /// Where none is ready, those that wait for conditions look at them once more; if none of them finds its own
    /// fulfilled, nothing in the block can change any more.
    fn next_ready(&mut self, last: u32) -> Option<u32> {
        let context = self.context;
        let turns = context.turns_left.get();
        if turns > 0 {
            context.turns_left.set(turns - 1);
            if let Some(linear) = context.take_ready_in_warp(last) {
                return Some(linear);
            }
        }
        context.turns_left.set(TURNS);
        let next_warp = (last / WARP_SIZE + 1) * WARP_SIZE;
        let from = if next_warp < context.count() { next_warp } else { 0 };
        context.take_ready(from).or_else(|| {
            let changed = context.condition_met.take();
            if std::mem::replace(&mut self.asked, true) && !changed {
                return None;
            }
            for (linear, thread) in context.threads.iter().enumerate() {
                if matches!(thread.wait.get().map(|wait| wait.place), Some(WaitPlace::Condition { .. })) {
                    context.set_ready(linear as u32);
                }
            }
            context.take_ready(from)
        })
    }

    /// Switches to a thread until it waits, returns or unwinds.
    fn resume(&mut self, linear: u32, resume: Resume) {
        let context = self.context;
        let slot = &mut self.live[linear as usize];
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
        let result = context.with_current(linear, || thread.resume(resume));
        if let CoroutineResult::Return(()) = result {
            if resume == Resume::Run {
                context.note_exit();
            }
            if let Some(thread) = slot.take() {
                self.stacks.put(thread.into_stack());
            }
        }
    }

    /// Records the fault of a block in which no thread can go on although some have not returned.
    fn note_deadlock(&self) {
        let context = self.context;
        let waits =
            || context.threads.iter().enumerate().filter_map(|(i, t)| Some((i as u32, t, t.wait.get()?)));
        // A barrier tells more than what the other threads wait for.
        let at_barrier = waits().find(|(_, _, wait)| matches!(wait.place, WaitPlace::Barrier { .. }));
        let Some((linear, thread, wait)) = at_barrier.or_else(|| waits().next()) else { return };
        let (waiting, exited) = (context.waiting(), context.exited());
        let kind = match wait.place {
            WaitPlace::Barrier { id } => {
                let (arrived, expected) = context.barrier_arrivals(id);
                FaultKind::BarrierIncomplete { barrier: id, arrived, expected, waiting, exited }
            }
            WaitPlace::Warp { operation, mask } => {
                let missing = context.lanes_missing(linear);
                FaultKind::WarpIncomplete { operation, mask, missing, waiting, exited }
            }
            WaitPlace::Condition { what } => FaultKind::WaitNeverEnds { what, waiting, exited },
        };
        context.record(RawFault { thread: thread.index, location: Some(wait.location), kind });
    }

    /// Unwinds every thread that has not returned, so that what lives on its stack is dropped.
    fn unwind_all(&mut self) {
        self.context.unwinding.set(true);
        for linear in 0..self.context.count() {
            while self.live[linear as usize].is_some() {
                self.resume(linear, Resume::Unwind);
            }
        }
    }
}

/// A thread of the block, not started.
fn spawn(context: &BlockContext, entry: &(dyn Fn() + Sync), linear: u32, stack: ThreadStack) -> Thread {
    let body = move |yielder: &ThreadYielder, _: Resume| {
        context.threads[linear as usize].yielder.set(yielder);
        if let Err(payload) = catch_unwind(AssertUnwindSafe(entry)) {
            context.note_unwound(&*payload);
        }
    };
    // SAFETY: `Worker::run` drives every thread to its end before it returns, and a worker that is dropped earlier
    // unwinds its threads; context and entry outlive the worker.
    unsafe { Coroutine::with_stack_unchecked(stack, body) }
}
