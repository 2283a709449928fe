//! Builds layouts, node by node.
//!
//! A layout under construction is a [`Layout`] whose invariants may not hold yet: `finish` checks
//! them. The functions of the algebra write to a layout of their caller instead of returning one: a
//! layout is a value of over 600 bytes, and copying it would take longer than the algebra itself.

use super::fault::{Fault, tri};
use super::int_tuple::{ANY, NO_BASIS};
use super::layout::{Layout, checked, times};
use super::profile::{At, MAX_LEAVES, Profile, ROOT};

impl Layout {
    /// A layout without nodes; nodes are added in the order in which they are written.
    #[inline]
    pub(crate) const fn start() -> Self {
        Self {
            profile: Profile::new(),
            shape: [0; MAX_LEAVES],
            stride: [0; MAX_LEAVES],
            // Bytes past the leaves are never read; equal bytes are written fastest.
            basis: [0; MAX_LEAVES],
        }
    }

    /// Adds a mode of `extent` elements at `stride` (times the unit vector `basis`).
    #[inline]
    pub(crate) const fn push_leaf(&mut self, extent: i64, stride: i64, basis: u32) -> Result<(), Fault> {
        let leaf = self.profile.leaves();
        tri!(self.profile.push_leaf());
        self.set_leaf(leaf, extent, stride, basis);
        Ok(())
    }

    #[inline]
    const fn set_leaf(&mut self, leaf: usize, extent: i64, stride: i64, basis: u32) {
        self.shape[leaf] = extent;
        self.stride[leaf] = stride;
        self.basis[leaf] = if stride == 0 && basis < ANY { NO_BASIS } else { basis };
    }

    /// Opens a tuple of `rank` modes, which are added next. Returns its node, for
    /// [`set_rank`](Self::set_rank).
    #[inline]
    pub(crate) const fn push_tuple(&mut self, rank: usize) -> Result<usize, Fault> {
        let node = self.profile.len();
        tri!(self.profile.push_tuple(rank));
        Ok(node)
    }

    /// Corrects the rank of the tuple at `node`.
    pub(crate) const fn set_rank(&mut self, node: usize, rank: usize) {
        self.profile.set_rank(node, rank);
    }

    /// Adds the mode of `from` at `at`.
    pub(crate) const fn push_copy(&mut self, from: &Self, at: At) -> Result<(), Fault> {
        let mut to = self.profile.leaves();
        let (first, end) = tri!(self.profile.push_copy(&from.profile, at));
        let mut leaf = first;
        while leaf < end {
            self.shape[to] = from.shape[leaf];
            self.stride[to] = from.stride[leaf];
            self.basis[to] = from.basis[leaf];
            to += 1;
            leaf += 1;
        }
        Ok(())
    }

    /// Adds a whole layout as a mode.
    pub(crate) const fn push_layout(&mut self, from: &Self) -> Result<(), Fault> {
        self.push_copy(from, ROOT)
    }

    /// Adds a mode to a run: consecutive leaves whose nesting [`close_run`](Self::close_run) adds
    /// when their number is known. Until then no other node is added.
    #[inline]
    pub(crate) const fn push_to_run(&mut self, extent: i64, stride: i64, basis: u32) -> Result<(), Fault> {
        let leaf = self.profile.leaves();
        tri!(self.profile.count_leaf());
        self.set_leaf(leaf, extent, stride, basis);
        Ok(())
    }

    /// [`push_to_run`](Self::push_to_run) of a mode that is merged with the last one of the run
    /// (which begins at leaf `run`) if it continues it.
    #[inline]
    pub(crate) const fn join_to_run(
        &mut self,
        run: usize,
        extent: i64,
        stride: i64,
        basis: u32,
    ) -> Result<(), Fault> {
        let leaves = self.profile.leaves();
        if leaves > run {
            let last = leaves - 1;
            let joins = match times(self.shape[last], self.stride[last]) {
                Some(next) => next == stride && (self.basis[last] == basis || stride == 0),
                None => false,
            };
            if joins {
                self.shape[last] *= extent;
                return Ok(());
            }
        }
        self.push_to_run(extent, stride, basis)
    }

    /// Removes the leaves of a run, from `run` on.
    #[inline]
    pub(crate) const fn drop_run(&mut self, run: usize) {
        self.profile.drop_leaves(run);
    }

    /// Closes the run that begins at leaf `run`: `1:0` if it is empty, an integer mode for one
    /// mode, otherwise a tuple.
    #[inline]
    pub(crate) const fn close_run(&mut self, run: usize) -> Result<(), Fault> {
        if self.profile.leaves() == run {
            return self.push_leaf(1, 0, NO_BASIS);
        }
        self.profile.nest_leaves(run)
    }

    /// The layout, if its extents are positive and no offset in it overflows.
    #[inline(always)]
    pub(crate) const fn finish(self) -> Result<Self, Fault> {
        checked(self)
    }
}
