//! Bytes that bulk copies and asynchronous stores have brought: who may read them.
//!
//! A copy arrives when *some* thread looks at its mbarrier. Who reads what it brought must know that the phase has ended in which
//! it arrived: it has seen that itself, or what it waited for came behind one who had (see [`Knowledge`](super::knowledge)).

use super::bulk::{COPY, STORE};
use super::context::{BlockContext, running};
use super::reads::pieces_of;
use super::shared::{PIECE, SHARED_BASE};
use crate::fault::{Access, FaultKind};
use crate::pod::Pod;
use std::collections::HashMap;

/// What the smallest asynchronous store brings.
const WORD: usize = 4;

/// What brought a piece or a word: the number of the clock of an mbarrier's phases, the phase, counted from 1, and the mbarrier.
#[derive(Clone, Copy, Debug, Default)]
struct Brought {
    clock: u32,
    phase: u32,
    mbarrier: u32,
    by_store: bool,
}

impl Brought {
    /// Of a piece: each word of it was brought by itself.
    const BY_WORDS: Self = Self { clock: u32::MAX, phase: 0, mbarrier: 0, by_store: true };

    const fn is_by_words(self) -> bool {
        self.clock == u32::MAX
    }
}

/// What was brought into a block's shared memory. What is told of bytes that nothing has brought means nothing.
#[derive(Default)]
pub(crate) struct Arrived {
    /// By pieces; empty before the first.
    pieces: Vec<Brought>,
    /// By the number of the word, of the pieces that say so. Copies bring whole pieces, so that few have words.
    words: HashMap<usize, Brought>,
}

impl Arrived {
    /// What brought the bytes from `offset` to `end`, all of one piece, by parts that were brought as one.
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
    /// Notes that a copy has brought pieces of this block's shared memory, and arrives at an mbarrier of it.
    pub(crate) fn bring(&self, mbarrier: u32, pieces: impl Iterator<Item = usize>) {
        let brought = self.brought_at(mbarrier, false);
        let mut arrived = self.arrived.borrow_mut();
        arrived.pieces.resize(self.shared.bytes().div_ceil(PIECE), Brought::default());
        for piece in pieces {
            arrived.pieces[piece] = brought;
        }
    }

    /// Notes that an asynchronous store has brought words within a piece of this block's shared memory, and arrives at an mbarrier of it.
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
        let (clock, phase) = self.phase_that_runs(mbarrier);
        Brought { clock: clock as u32, phase, mbarrier, by_store }
    }

    /// Loads a `T` from an offset of this block's shared memory for the running thread, of any block of the cluster, if that can
    /// be.
    #[inline(always)]
    pub(crate) fn load_shared<T: Pod>(&self, offset: usize) -> Option<T> {
        self.shared.load(offset).or_else(|| self.load_brought(offset))
    }

    #[inline(never)]
    fn load_brought<T: Pod>(&self, offset: usize) -> Option<T> {
        let value = self.shared.load_brought(offset)?;
        self.not_seen(offset, size_of::<T>()).is_none().then_some(value)
    }

    /// What has brought a byte of a range within the memory, and arrived in a phase that the running thread does not know to have
    /// ended.
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

    /// The fault of a read of what a copy has brought that the running thread has not waited for.
    pub(crate) fn not_awaited(&self, access: Access, offset: usize, bytes: usize) -> Option<FaultKind> {
        let brought = self.not_seen(offset, bytes)?;
        let mbarrier = i64::from(brought.mbarrier) - i64::from(SHARED_BASE);
        let what = if brought.by_store { STORE } else { COPY };
        Some(FaultKind::SharedNotAwaited { access, bytes, offset: offset as i64, what, mbarrier })
    }
}
