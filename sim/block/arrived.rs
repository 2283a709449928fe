//! Bytes that bulk copies have brought: who may read them.
//!
//! A copy arrives when *some* thread looks at its mbarrier. Who reads what it brought must know that the phase has ended in which
//! it arrived: it has seen that itself, or what it waited for came behind one who had (see [`Knowledge`](super::knowledge)).

use super::context::{BlockContext, running};
use super::reads::pieces_of;
use super::shared::{PIECE, SHARED_BASE};
use crate::fault::{Access, FaultKind};
use crate::pod::Pod;

/// What brought a piece: the number of the clock of an mbarrier's phases, the phase, counted from 1, and the mbarrier.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Brought {
    clock: u32,
    phase: u32,
    mbarrier: u32,
}

impl BlockContext {
    /// Notes that a copy has brought pieces of this block's shared memory, and arrives at an mbarrier of it.
    pub(crate) fn bring(&self, mbarrier: u32, pieces: impl Iterator<Item = usize>) {
        let (clock, phase) = self.phase_that_runs(mbarrier);
        let mut brought = self.brought.borrow_mut();
        brought.resize(self.shared.bytes().div_ceil(PIECE), Brought::default());
        for piece in pieces {
            brought[piece] = Brought { clock: clock as u32, phase, mbarrier };
        }
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
        self.mbarrier_not_seen(offset, size_of::<T>()).is_none().then_some(value)
    }

    /// The mbarrier whose phase the running thread does not know to have ended although a copy that arrives in it has brought a
    /// byte of a range within the memory.
    fn mbarrier_not_seen(&self, offset: usize, bytes: usize) -> Option<u32> {
        self.shared.first_brought(offset, bytes)?;
        let reader = running()?;
        let known = reader.thread().known.borrow();
        let brought = self.brought.borrow();
        let unseen = |piece: &usize| {
            let Brought { clock, phase, .. } = brought[*piece];
            let start = (piece * PIECE).max(offset);
            let end = ((piece + 1) * PIECE).min(offset + bytes);
            known.of(clock as usize) < phase && self.shared.first_brought(start, end - start).is_some()
        };
        pieces_of(offset, bytes).find(unseen).map(|piece| brought[piece].mbarrier)
    }

    /// The fault of a read of what a copy has brought that the running thread has not waited for.
    pub(crate) fn not_awaited(&self, access: Access, offset: usize, bytes: usize) -> Option<FaultKind> {
        let mbarrier = self.mbarrier_not_seen(offset, bytes)?;
        let mbarrier = i64::from(mbarrier) - i64::from(SHARED_BASE);
        Some(FaultKind::SharedNotAwaited { access, bytes, offset: offset as i64, mbarrier })
    }
}
