//! Bytes that bulk copies and asynchronous stores have written, and the threads that may read them.
//!
//! A copy completes when *some* thread looks at its mbarrier. A thread that reads the bytes must
//! know that the phase in which the copy completed is over: it has waited for that phase, or has
//! synchronised with a thread that has (see [`Knowledge`](super::knowledge)).

use super::bulk::{COPY, STORE};
use super::context::{BlockContext, running};
use super::phase::RunningPhase;
use super::reads::pieces_of;
use super::shared::{PIECE, SHARED_BASE};
use crate::fault::{Access, FaultKind};
use crate::pod::Pod;
use std::collections::HashMap;

/// The size of the smallest asynchronous store.
const WORD: usize = 4;

/// The writer of a piece or a word: the clock of an mbarrier's phases, the phase, counted from 1,
/// and the mbarrier.
#[derive(Clone, Copy, Debug, Default)]
struct Brought {
    clock: u32,
    phase: u32,
    mbarrier: u32,
    by_store: bool,
}

impl Brought {
    /// A piece whose words have different writers.
    const BY_WORDS: Self = Self { clock: u32::MAX, phase: 0, mbarrier: 0, by_store: true };

    const fn is_by_words(self) -> bool {
        self.clock == u32::MAX
    }
}

/// The writers of a block's shared memory. Entries for bytes that no copy has written are
/// meaningless.
#[derive(Default)]
pub(crate) struct Arrived {
    /// By piece; empty before the first copy.
    pieces: Vec<Brought>,
    /// By word, for pieces marked `BY_WORDS`. Copies write whole pieces, so few pieces have words.
    words: HashMap<usize, Brought>,
}

impl Arrived {
    /// The writers of the bytes from `offset` to `end`, all in one piece, as ranges with one
    /// writer.
    fn parts(&self, offset: usize, end: usize) -> impl Iterator<Item = (std::ops::Range<usize>, Brought)> {
        let piece = self.pieces[offset / PIECE];
        let words = if piece.is_by_words() { offset / WORD..end.div_ceil(WORD) } else { 0..0 };
        let whole = (!piece.is_by_words()).then_some((offset..end, piece));
        whole.into_iter().chain(words.map(move |word| {
            let range = (WORD * word).max(offset)..(WORD * (word + 1)).min(end);
            (range, self.words.get(&word).copied().unwrap_or_default())
        }))
    }
}

impl BlockContext {
    /// Records that a copy has written pieces of this block's shared memory and completes on one of
    /// its mbarriers.
    pub(crate) fn bring(&self, mbarrier: u32, pieces: impl Iterator<Item = usize>) {
        let brought = self.brought_at(mbarrier, false);
        let mut arrived = self.arrived.borrow_mut();
        arrived.pieces.resize(self.shared.bytes().div_ceil(PIECE), Brought::default());
        for piece in pieces {
            arrived.pieces[piece] = brought;
        }
    }

    /// Records that an asynchronous store has written words within a piece of this block's shared
    /// memory and completes on one of its mbarriers.
    pub(crate) fn bring_words(&self, mbarrier: u32, offset: usize, bytes: usize) {
        let brought = self.brought_at(mbarrier, true);
        let arrived = &mut *self.arrived.borrow_mut();
        arrived.pieces.resize(self.shared.bytes().div_ceil(PIECE), Brought::default());
        let piece = offset / PIECE;
        let before = std::mem::replace(&mut arrived.pieces[piece], Brought::BY_WORDS);
        if !before.is_by_words() {
            arrived
                .words
                .extend((piece * PIECE / WORD..(piece + 1) * PIECE / WORD).map(|word| (word, before)));
        }
        arrived.words.extend((offset / WORD..(offset + bytes) / WORD).map(|word| (word, brought)));
    }

    fn brought_at(&self, mbarrier: u32, by_store: bool) -> Brought {
        let RunningPhase { clock, number: phase } = self.phase_that_runs(mbarrier);
        Brought { clock: clock as u32, phase, mbarrier, by_store }
    }

    /// Loads a `T` from an offset of this block's shared memory for the running thread, of any
    /// block of the cluster, if permitted.
    #[inline(always)]
    pub(crate) fn load_shared<T: Pod>(&self, offset: usize) -> Option<T> {
        self.shared.load(offset).or_else(|| self.load_brought(offset))
    }

    #[inline(never)]
    fn load_brought<T: Pod>(&self, offset: usize) -> Option<T> {
        let value = self.shared.load_brought(offset)?;
        self.not_seen(offset, size_of::<T>()).is_none().then_some(value)
    }

    /// The writer of a byte in a valid range whose phase the running thread does not know to be
    /// over.
    fn not_seen(&self, offset: usize, bytes: usize) -> Option<Brought> {
        self.shared.first_brought(offset, bytes)?;
        let reader = running()?;
        let known = reader.thread().known.borrow();
        let arrived = self.arrived.borrow();
        let mut parts = pieces_of(offset, bytes).flat_map(|piece| {
            let start = (piece * PIECE).max(offset);
            arrived.parts(start, ((piece + 1) * PIECE).min(offset + bytes))
        });
        parts
            .find(|(part, brought)| {
                known.of(brought.clock as usize) < brought.phase
                    && self.shared.first_brought(part.start, part.len()).is_some()
            })
            .map(|(_, brought)| brought)
    }

    /// The fault of a read of copied bytes for which the running thread has not waited.
    pub(crate) fn not_awaited(&self, access: Access, offset: usize, bytes: usize) -> Option<FaultKind> {
        let brought = self.not_seen(offset, bytes)?;
        let mbarrier = i64::from(brought.mbarrier) - i64::from(SHARED_BASE);
        let what = if brought.by_store { STORE } else { COPY };
        Some(FaultKind::SharedNotAwaited { access, bytes, offset: offset as i64, what, mbarrier })
    }
}
