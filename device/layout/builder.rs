//! Puts layouts together, node by node.

use super::error::{Fault, tri};
use super::int_tuple::NO_BASIS;
use super::layout::Layout;
use super::profile::{At, MAX_LEAVES, Profile, ROOT};

/// A layout under construction. Nodes are added in the order in which they are written.
pub(crate) struct LayoutBuilder {
    layout: Layout,
}

impl LayoutBuilder {
    pub const fn new() -> Self {
        Self {
            layout: Layout {
                profile: Profile::new(),
                shape: [0; MAX_LEAVES],
                stride: [0; MAX_LEAVES],
                basis: [NO_BASIS; MAX_LEAVES],
            },
        }
    }

    /// Adds a mode of `extent` elements at `stride` (times the unit vector `basis`).
    pub const fn leaf(&mut self, extent: i64, stride: i64, basis: u8) -> Result<(), Fault> {
        tri!(self.layout.profile.push_leaf());
        let leaf = self.layout.profile.leaves() - 1;
        self.layout.shape[leaf] = extent;
        self.layout.stride[leaf] = stride;
        self.layout.basis[leaf] = if stride == 0 && basis < super::int_tuple::ANY { NO_BASIS } else { basis };
        Ok(())
    }

    /// Opens a tuple of `rank` modes, which are added next. Returns its node, for [`set_rank`](Self::set_rank).
    pub const fn open(&mut self, rank: usize) -> Result<usize, Fault> {
        tri!(self.layout.profile.push_tuple(rank));
        Ok(self.layout.profile.len() - 1)
    }

    /// Corrects the rank of the tuple at `node`.
    pub const fn set_rank(&mut self, node: usize, rank: usize) {
        self.layout.profile.set_rank(node, rank);
    }

    /// Adds the mode of `from` at `at`.
    pub const fn copy(&mut self, from: &Layout, at: At) -> Result<(), Fault> {
        let start = self.layout.profile.leaves();
        let (first, end) = tri!(self.layout.profile.push_copy(&from.profile, at));
        let mut i = first;
        while i < end {
            self.layout.shape[start + i - first] = from.shape[i];
            self.layout.stride[start + i - first] = from.stride[i];
            self.layout.basis[start + i - first] = from.basis[i];
            i += 1;
        }
        Ok(())
    }

    /// Adds a whole layout as one mode.
    pub const fn mode(&mut self, from: &Layout) -> Result<(), Fault> {
        self.copy(from, ROOT)
    }

    /// The layout, if its extents are positive and no offset in it overflows.
    #[inline(always)]
    pub const fn finish(self) -> Result<Layout, Fault> {
        tri!(self.layout.check());
        Ok(self.layout)
    }

    /// The layout as it stands, without checks: for tilers, whose wildcards are no modes.
    pub const fn unchecked(self) -> Layout {
        self.layout
    }
}
