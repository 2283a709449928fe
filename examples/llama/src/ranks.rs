//! The ranks of a model that is cut over several GPUs.

use half::f16;
use moye::{Buffer, Stream};
use moye_parallel::{Group, Transfer};

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

    /// Whether this rank adds to the state what all ranks have, such as the state before.
    pub fn adds(&self) -> bool {
        self.rank == 0
    }

    /// Sums the ranks' first elements of `x`, in place: the same bits on all ranks.
    ///
    /// # Safety
    /// No other stream uses `x` until the work is complete.
    pub(crate) unsafe fn sum(&self, stream: &Stream, x: &mut Buffer<f16>, elements: usize) -> moye::Result<()> {
        // The sum reads an element before it writes it.
        let old = Buffer::<f16>::from_raw_parts(x.address(), elements, x.device())?;
        let to = x.slice_mut(..elements)?;
        let mut calls = [Transfer { stream, from: old.as_slice(), to }];
        self.group.collectives().all_reduce(&mut calls)
    }

    /// Waits for the stream's work; a rank that does not come is an error that names it.
    ///
    /// # Errors
    /// As for [`Group::wait`].
    pub(crate) fn wait(&self, stream: &Stream) -> moye::Result<()> {
        self.group.wait(&[stream])
    }
}
