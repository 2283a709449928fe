//! The ranks of a model that is cut over several GPUs.

use half::f16;
use moye::{Buffer, Stream};
use moye_parallel::{Group, ONE_SHOT, Transfer};

/// A rank of a model that is cut over several GPUs: every rank runs the same engine on its
/// [part](crate::gguf::Gguf::cut), and draws the same tokens.
#[derive(Debug)]
pub struct Ranks {
    group: Group,
    rank: usize,
}

impl Ranks {
    /// One rank of a group.
    pub fn new(group: Group) -> Self {
        let rank = group.ranks().next().unwrap_or(0);
        Self { group, rank }
    }

    /// Whether this rank adds to the state what all ranks hold, such as the previous state.
    pub fn adds(&self) -> bool {
        self.rank == 0
    }

    /// Sums the first `elements` elements of `x` over the ranks, in place: the same bits on all
    /// ranks.
    ///
    /// # Safety
    /// No other stream uses `x` until the work is complete.
    pub(crate) unsafe fn sum(&self, stream: &Stream, x: &mut Buffer<f16>, elements: usize) -> moye::Result<()> {
        // In place, which a sum of all ranks allows, and in pieces, which need no NCCL.
        let old = Buffer::<f16>::from_raw_parts(x.address(), elements, x.device())?;
        let piece = ONE_SHOT / (size_of::<f16>() * (self.group.world() - 1).max(1)) / 8 * 8;
        for first in (0..elements).step_by(piece) {
            let part = first..elements.min(first + piece);
            let (from, to) = (old.slice(part.clone())?, x.slice_mut(part)?);
            self.group.collectives().all_reduce(&mut [Transfer { stream, from, to }])?;
        }
        Ok(())
    }

    /// Waits for the stream's work; if a rank does not arrive, the error names it.
    ///
    /// # Errors
    /// Same as [`Group::wait`].
    pub(crate) fn wait(&self, stream: &Stream) -> moye::Result<()> {
        self.group.wait(&[stream])
    }
}
