//! Builds tuples, node by node.

use super::super::fault::{Fault, tri};
use super::super::profile::{At, MAX_LEAVES, Profile};
use super::{ANY, IntTuple, NO_BASIS};

/// A tuple under construction. Nodes are added in the order in which they are written.
pub(crate) struct TupleBuilder {
    pub tuple: IntTuple,
}

impl TupleBuilder {
    pub const fn new() -> Self {
        Self {
            tuple: IntTuple {
                profile: Profile::new(),
                value: [0; MAX_LEAVES],
                basis: [NO_BASIS; MAX_LEAVES],
            },
        }
    }

    /// Adds a leaf. A value of 0 has no basis vector; the wildcard has no value.
    pub const fn leaf(&mut self, value: i64, basis: u32) -> Result<(), Fault> {
        let leaf = self.tuple.profile.leaves();
        tri!(self.tuple.profile.push_leaf());
        self.tuple.value[leaf] = value;
        self.tuple.basis[leaf] = if value == 0 && basis != ANY { NO_BASIS } else { basis };
        Ok(())
    }

    pub const fn int(&mut self, value: i64) -> Result<(), Fault> {
        self.leaf(value, NO_BASIS)
    }

    /// Opens a tuple of `rank` elements, which are added next.
    pub const fn open(&mut self, rank: usize) -> Result<(), Fault> {
        self.tuple.profile.push_tuple(rank)
    }

    /// Adds the element of `from` at `at`.
    pub const fn copy(&mut self, from: &IntTuple, at: At) -> Result<(), Fault> {
        let mut to = self.tuple.profile.leaves();
        let (first, end) = tri!(self.tuple.profile.push_copy(&from.profile, at));
        let mut i = first;
        while i < end {
            self.tuple.value[to] = from.value[i];
            self.tuple.basis[to] = from.basis[i];
            to += 1;
            i += 1;
        }
        Ok(())
    }

    /// Adds the tuple of `elements`.
    pub const fn tuple_of(&mut self, elements: &[IntTuple]) -> Result<(), Fault> {
        tri!(self.open(elements.len()));
        let mut i = 0;
        while i < elements.len() {
            tri!(self.copy(&elements[i], super::ROOT));
            i += 1;
        }
        Ok(())
    }

    /// Adds the tuple of `values`.
    pub const fn flat(&mut self, values: &[i64]) -> Result<(), Fault> {
        tri!(self.open(values.len()));
        let mut i = 0;
        while i < values.len() {
            tri!(self.int(values[i]));
            i += 1;
        }
        Ok(())
    }

    /// Adds the leaves of `from` as one flat tuple.
    pub const fn flattened(&mut self, from: &IntTuple) -> Result<(), Fault> {
        tri!(self.open(from.leaves()));
        let leaves = from.leaves();
        let mut i = 0;
        while i < leaves {
            tri!(self.leaf(from.value[i], from.basis[i]));
            i += 1;
        }
        Ok(())
    }
}
