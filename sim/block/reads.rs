//! Asynchronous reads of shared memory: the readers of bytes, and the threads that may write them.
//!
//! Each read belongs to a step of a [`Clock`]; a thread may write the bytes when it knows that the
//! step is over (see [`Knowledge`]). A read is recorded until then, whether or not it is over.

use super::WARP_SIZE;
use super::clock::Clock;
use super::context::{BlockContext, running};
use super::knowledge::Knowledge;
use super::shared::PIECE;
use super::wgmma::WARPGROUP;
use crate::fault::{AsyncRead, FaultKind, ReadWait};
use std::panic::Location;

/// The last read of a piece by a clock's operations: its group, counted from 1, and the index of
/// the instruction. (0, 0) if there is none.
type LastRead = (u32, u32);

/// An asynchronous operation, as a thread issued it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Issued {
    pub operation: &'static str,
    pub location: &'static Location<'static>,
}

/// The asynchronous reads of a block's shared memory.
#[derive(Default)]
pub(crate) struct Reads {
    /// By the clock's index, for each piece. Empty for a clock whose operations have read nothing
    /// here.
    last: Vec<Vec<LastRead>>,
    /// Instructions, by name and line.
    instructions: Vec<Issued>,
}

impl Reads {
    fn instruction(&mut self, issued: Issued) -> u32 {
        let at = self.instructions.iter().rposition(|other| *other == issued).unwrap_or_else(|| {
            self.instructions.push(issued);
            self.instructions.len() - 1
        });
        at as u32
    }

    /// A read of the pieces that a thread does not know to be over, and the clock's index.
    fn unknown(&self, pieces: std::ops::Range<usize>, known: &Knowledge) -> Option<(usize, LastRead)> {
        let reads = self.last.iter().enumerate().filter(|(_, last)| !last.is_empty());
        let mut reads =
            reads.flat_map(|(clock, last)| last[pieces.clone()].iter().map(move |&at| (clock, at)));
        reads.find(|&(clock, (group, _))| group > known.of(clock))
    }
}

/// The pieces that a range of bytes overlaps.
pub(crate) const fn pieces_of(offset: usize, bytes: usize) -> std::ops::Range<usize> {
    offset / PIECE..(offset + bytes).div_ceil(PIECE)
}

impl BlockContext {
    /// Records that an operation of a clock's step reads pieces of this block's shared memory;
    /// steps count from 1.
    pub(crate) fn begin_reads(
        &self,
        clock: Clock,
        group: u32,
        issued: Issued,
        pieces: impl Iterator<Item = usize>,
    ) {
        let number = self.cluster().number_of(clock);
        let mut reads = self.reads.borrow_mut();
        let instruction = reads.instruction(issued);
        if reads.last.len() <= number {
            reads.last.resize_with(number + 1, Vec::new);
        }
        let last = &mut reads.last[number];
        if last.is_empty() {
            last.resize(self.shared.bytes().div_ceil(PIECE), (0, 0));
        }
        for piece in pieces {
            // Warps of a warpgroup arrive one after another.
            if last[piece].0 <= group {
                last[piece] = (group, instruction);
            }
            self.shared.begin_reading(piece);
        }
    }

    /// The number of copies between blocks that complete on an mbarrier of this block, including
    /// this one.
    pub(crate) fn next_copy(&self, mbarrier: u32) -> u32 {
        let mut copies = self.copies.borrow_mut();
        let (issued, _) = copies.entry(mbarrier).or_default();
        *issued += 1;
        *issued
    }

    /// Records for the threads that wait there that the oldest copy between blocks has completed on
    /// an mbarrier of this block.
    pub(crate) fn end_copy(&self, mbarrier: u32) {
        let mut copies = self.copies.borrow_mut();
        let (_, arrived) = copies.entry(mbarrier).or_default();
        *arrived += 1;
        let clock = Clock::Copies { rank: self.rank, mbarrier };
        self.with_phase(mbarrier, |known| self.cluster().end_steps(clock, *arrived, known));
    }

    /// Whether asynchronous reads permit the running thread, of any block of the cluster, to write
    /// a range of this block's shared memory: it knows all of them to be over. They are then
    /// forgotten.
    #[cold]
    #[inline(never)]
    pub(crate) fn settle_reads(&self, offset: usize, bytes: usize) -> bool {
        if offset.checked_add(bytes).is_none_or(|end| end > self.shared.bytes()) {
            return false;
        }
        if self.shared.first_being_read(offset, bytes).is_none() {
            return true;
        }
        let Some(writer) = running() else { return false };
        let known = writer.thread().known.borrow();
        let settled = self.reads.borrow().unknown(pieces_of(offset, bytes), &known).is_none();
        if settled {
            self.shared.end_reading(offset, bytes);
        }
        settled
    }

    /// A read that prevents the running thread from writing a range.
    pub(crate) fn read_in_the_way(&self, offset: usize, bytes: usize) -> Option<AsyncRead> {
        self.shared.first_being_read(offset, bytes)?;
        let writer = running()?;
        let known = writer.known();
        let reads = self.reads.borrow();
        let (number, (group, instruction)) = reads.unknown(pieces_of(offset, bytes), &known)?;
        let (clock, complete) = self.cluster().clocks.borrow()[number];
        let Issued { operation, location } = reads.instructions[instruction as usize];
        let (wait, thread) = match clock {
            Clock::Warpgroup { number, .. } => (ReadWait::WgmmaGroup, number * WARPGROUP * WARP_SIZE),
            Clock::Stores { thread, .. } => (ReadWait::BulkGroup, thread),
            Clock::Copies { .. } | Clock::Phases { .. } => (ReadWait::Mbarrier, 0),
        };
        let released = writer.arrival_seen(|rank, thread| clock.has(rank, thread));
        Some(AsyncRead {
            operation,
            location,
            thread: self.block_dim.index_of(thread.into()),
            block: (self.rank != writer.rank).then_some(self.rank),
            wait,
            is_complete: group <= complete,
            released,
        })
    }

    /// The fault of a write that may precede an asynchronous read.
    pub(crate) fn being_read(
        &self,
        access: crate::fault::Access,
        offset: usize,
        bytes: usize,
    ) -> Option<FaultKind> {
        let read = Box::new(self.read_in_the_way(offset, bytes)?);
        Some(FaultKind::SharedBeingRead { access, bytes, offset: offset as i64, read })
    }
}
