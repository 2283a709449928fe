//! Asynchronous reads of shared memory: who reads which bytes, and who may write them.
//!
//! Each read belongs to a group of a [`Reader`], whose groups end in order; a thread may write what was read when it knows that
//! the group has (see [`Knowledge`]). A read is kept until then, whether it is over or not.

use super::WARP_SIZE;
use super::cluster::Cluster;
use super::context::{BlockContext, running};
use super::knowledge::Knowledge;
use super::shared::PIECE;
use super::wgmma::WARPGROUP;
use crate::fault::{AsyncRead, FaultKind, ReadWait};
use std::panic::Location;

/// What reads shared memory asynchronously, and ends group by group, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reader {
    /// The matrix instructions of a warpgroup of a block.
    Warpgroup { rank: u32, number: u32 },
    /// The bulk stores of a thread of a block.
    Stores { rank: u32, thread: u32 },
    /// Copies between blocks of a cluster that arrive at an mbarrier of a block; each is a group.
    Copies { rank: u32, mbarrier: u32 },
}

impl Reader {
    /// Whether a thread is one of those that wait for it.
    fn has(self, (rank, thread): (u32, u32)) -> bool {
        match self {
            Self::Warpgroup { rank: of, number } => (of, number) == (rank, thread / WARP_SIZE / WARPGROUP),
            Self::Stores { rank: of, thread: number } => (of, number) == (rank, thread),
            Self::Copies { .. } => false,
        }
    }
}

/// The readers of a cluster, numbered as they come, each with the groups that somebody has waited for.
pub(crate) type Readers = Vec<(Reader, u32)>;

impl Cluster {
    /// Whether there are readers: without them nobody has anything to know.
    #[inline]
    pub(crate) fn has_readers(&self) -> bool {
        !self.readers.borrow().is_empty()
    }

    /// The number of a reader, a new one if need be.
    fn number_of(&self, reader: Reader) -> usize {
        let mut readers = self.readers.borrow_mut();
        readers.iter().position(|&(other, _)| other == reader).unwrap_or_else(|| {
            readers.push((reader, 0));
            readers.len() - 1
        })
    }

    /// Notes that `groups` groups of a reader have read, and tells that to who waited for them.
    pub(crate) fn end_reads(&self, reader: Reader, groups: u32, known: &mut Knowledge) {
        if groups > 0 {
            let number = self.number_of(reader);
            let complete = &mut self.readers.borrow_mut()[number].1;
            *complete = groups.max(*complete);
            known.learn(number, groups);
        }
    }
}

/// The last read of a piece by a reader: its group, counted from 1, and the number of the instruction. No read is (0, 0).
type LastRead = (u32, u32);

/// What asynchronous operations read of a block's shared memory.
#[derive(Default)]
pub(crate) struct Reads {
    /// By the reader's number, for each piece. Empty for a reader that has read nothing here.
    last: Vec<Vec<LastRead>>,
    /// Instructions, by name and line.
    instructions: Vec<(&'static str, &'static Location<'static>)>,
}

impl Reads {
    fn instruction(&mut self, operation: &'static str, location: &'static Location<'static>) -> u32 {
        let same = |other: &(&str, &Location)| *other == (operation, location);
        let at = self.instructions.iter().rposition(same).unwrap_or_else(|| {
            self.instructions.push((operation, location));
            self.instructions.len() - 1
        });
        at as u32
    }

    /// A read of the pieces that a thread does not know to be over, and the reader's number.
    fn unknown(&self, pieces: std::ops::Range<usize>, known: &Knowledge) -> Option<(usize, LastRead)> {
        let reads = self.last.iter().enumerate().filter(|(_, last)| !last.is_empty());
        let mut reads =
            reads.flat_map(|(reader, last)| last[pieces.clone()].iter().map(move |&at| (reader, at)));
        reads.find(|&(reader, (group, _))| group > known.of(reader))
    }
}

/// The pieces that a range of bytes touches.
const fn pieces_of(offset: usize, bytes: usize) -> std::ops::Range<usize> {
    offset / PIECE..(offset + bytes).div_ceil(PIECE)
}

impl BlockContext {
    /// Notes that an operation of a reader's group reads pieces of this block's shared memory; groups count from 1.
    pub(crate) fn begin_reads(
        &self,
        (reader, group): (Reader, u32),
        (operation, location): (&'static str, &'static Location<'static>),
        pieces: impl Iterator<Item = usize>,
    ) {
        let number = self.cluster().number_of(reader);
        let mut reads = self.reads.borrow_mut();
        let instruction = reads.instruction(operation, location);
        if reads.last.len() <= number {
            reads.last.resize_with(number + 1, Vec::new);
        }
        let last = &mut reads.last[number];
        if last.is_empty() {
            last.resize(self.shared.bytes().div_ceil(PIECE), (0, 0));
        }
        for piece in pieces {
            // Warps of a warpgroup come one after another.
            if last[piece].0 <= group {
                last[piece] = (group, instruction);
            }
            self.shared.begin_reading(piece);
        }
    }

    /// How many copies between blocks were issued that arrive at an mbarrier of this block, this one included.
    pub(crate) fn next_copy(&self, mbarrier: u32) -> u32 {
        let mut copies = self.copies.borrow_mut();
        let (issued, _) = copies.entry(mbarrier).or_default();
        *issued += 1;
        *issued
    }

    /// Notes that the oldest copy between blocks has arrived at an mbarrier of this block: who waits there is to know.
    pub(crate) fn end_copy(&self, mbarrier: u32) {
        let mut copies = self.copies.borrow_mut();
        let (_, arrived) = copies.entry(mbarrier).or_default();
        *arrived += 1;
        let reader = Reader::Copies { rank: self.rank, mbarrier };
        self.with_phase(mbarrier, |known| self.cluster().end_reads(reader, *arrived, known));
    }

    /// Whether the running thread, of any block of the cluster, may write a range of this block's shared memory, as far as
    /// asynchronous reads go: all of them are known to it to be over, and forgotten now.
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

    /// The read that keeps the running thread from writing a range, if one does.
    pub(crate) fn read_in_the_way(&self, offset: usize, bytes: usize) -> Option<AsyncRead> {
        self.shared.first_being_read(offset, bytes)?;
        let writer = running()?;
        let known = writer.known();
        let reads = self.reads.borrow();
        let (number, (group, instruction)) = reads.unknown(pieces_of(offset, bytes), &known)?;
        let (reader, complete) = self.cluster().readers.borrow()[number];
        let (operation, location) = reads.instructions[instruction as usize];
        let (wait, thread) = match reader {
            Reader::Warpgroup { number, .. } => (ReadWait::WgmmaGroup, number * WARPGROUP * WARP_SIZE),
            Reader::Stores { thread, .. } => (ReadWait::BulkGroup, thread),
            Reader::Copies { .. } => (ReadWait::Mbarrier, 0),
        };
        let released = writer.arrival_seen(|arrival| reader.has(arrival));
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

    /// The fault of a write that an asynchronous read is in the way of.
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
