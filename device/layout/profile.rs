//! The nesting of a tuple, without its integers.
//!
//! The whole algebra uses these few functions, mostly during constant evaluation. The compiler
//! evaluates step by step without optimising, so a call takes as long as a dozen additions: loops
//! keep invariants in variables.

use super::fault::{Fault, tri};

/// The most integers that a tuple or a layout's shape holds.
pub const MAX_LEAVES: usize = 32;

/// The most nodes that a tuple holds: its integers and its (sub)tuples together.
pub const MAX_NODES: usize = 64;

/// The marker of an integer among the nodes; every other node is the number of a tuple's elements.
const LEAF: u8 = u8::MAX;

/// The nesting of a tuple: its nodes in the order in which they are written, outer before inner,
/// left before right.
#[derive(Clone, Copy)]
pub(crate) struct Profile {
    nodes: [u8; MAX_NODES],
    len: u8,
    pub(super) leaves: u8,
}

/// A node of a [`Profile`] and the number of leaves before it.
#[derive(Clone, Copy)]
pub(crate) struct At {
    pub node: usize,
    pub leaf: usize,
}

/// The outermost node.
pub(crate) const ROOT: At = At { node: 0, leaf: 0 };

impl Profile {
    pub const fn new() -> Self {
        Self { nodes: [0; MAX_NODES], len: 0, leaves: 0 }
    }

    pub const fn len(&self) -> usize {
        self.len as usize
    }

    pub const fn leaves(&self) -> usize {
        self.leaves as usize
    }

    /// Adds an integer.
    pub const fn push_leaf(&mut self) -> Result<(), Fault> {
        let len = self.len as usize;
        if len == MAX_NODES || self.leaves as usize == MAX_LEAVES {
            return Err(Fault::Capacity);
        }
        self.nodes[len] = LEAF;
        self.len += 1;
        self.leaves += 1;
        Ok(())
    }

    /// Counts an integer; [`nest_leaves`](Self::nest_leaves) adds its node later.
    #[inline]
    pub const fn count_leaf(&mut self) -> Result<(), Fault> {
        if self.leaves as usize == MAX_LEAVES {
            return Err(Fault::Capacity);
        }
        self.leaves += 1;
        Ok(())
    }

    /// Removes the integers that were counted from `first` on.
    #[inline]
    pub const fn drop_leaves(&mut self, first: usize) {
        self.leaves = first as u8;
    }

    /// Adds the nodes of the integers that were counted from `first` on: an integer for one,
    /// otherwise a tuple.
    #[inline]
    pub const fn nest_leaves(&mut self, first: usize) -> Result<(), Fault> {
        let count = self.leaves as usize - first;
        if count != 1 {
            tri!(self.push_tuple(count));
        }
        let mut node = self.len as usize;
        let end = node + count;
        if end > MAX_NODES {
            return Err(Fault::Capacity);
        }
        while node < end {
            self.nodes[node] = LEAF;
            node += 1;
        }
        self.len = end as u8;
        Ok(())
    }

    /// Adds a tuple of `rank` elements, which are added next.
    pub const fn push_tuple(&mut self, rank: usize) -> Result<(), Fault> {
        let len = self.len as usize;
        if len == MAX_NODES || rank > MAX_NODES {
            return Err(Fault::Capacity);
        }
        self.nodes[len] = rank as u8;
        self.len += 1;
        Ok(())
    }

    /// Corrects the number of elements of the tuple at `node`, for a builder that knows it only
    /// later.
    pub const fn set_rank(&mut self, node: usize, rank: usize) {
        self.nodes[node] = rank as u8;
    }

    pub const fn is_leaf(&self, at: At) -> bool {
        self.nodes[at.node] == LEAF
    }

    /// The number of modes; 1 for an integer.
    pub const fn rank(&self, at: At) -> usize {
        let node = self.nodes[at.node];
        if node == LEAF { 1 } else { node as usize }
    }

    /// The first mode of a node: for an integer the node itself, for an empty tuple the node after
    /// it.
    pub const fn first(&self, at: At) -> At {
        if self.nodes[at.node] == LEAF { at } else { At { node: at.node + 1, leaf: at.leaf } }
    }

    /// The node after `at` and its subtree.
    #[inline]
    pub const fn next(&self, at: At) -> At {
        if at.node == 0 {
            return At { node: self.len as usize, leaf: self.leaves as usize };
        }
        if self.nodes[at.node] == LEAF {
            return At { node: at.node + 1, leaf: at.leaf + 1 };
        }
        let mut node = at.node;
        let mut leaf = at.leaf;
        let mut open = 1;
        while open > 0 {
            let modes = self.nodes[node];
            if modes == LEAF {
                leaf += 1;
            } else {
                open += modes as usize;
            }
            node += 1;
            open -= 1;
        }
        At { node, leaf }
    }

    /// Mode `index` of the node `at`; `index` is below its rank.
    pub const fn mode(&self, at: At, index: usize) -> At {
        let mut mode = self.first(at);
        let mut i = 0;
        while i < index {
            mode = self.next(mode);
            i += 1;
        }
        mode
    }

    /// The depth of the nesting below `at`: 0 for an integer.
    pub const fn depth(&self, at: At) -> usize {
        if self.is_leaf(at) {
            return 0;
        }
        let mut deepest = 0;
        let mut mode = self.first(at);
        let mut i = 0;
        while i < self.rank(at) {
            let depth = self.depth(mode);
            if depth > deepest {
                deepest = depth;
            }
            mode = self.next(mode);
            i += 1;
        }
        deepest + 1
    }

    /// Whether two tuples nest alike.
    pub const fn same(&self, other: &Self) -> bool {
        self.len == other.len && self.first_difference(other) == self.len()
    }

    /// The first node at which two tuples nest differently; the number of nodes if they nest alike.
    pub const fn first_difference(&self, other: &Self) -> usize {
        let end = if self.len < other.len { self.len } else { other.len } as usize;
        let mut node = 0;
        while node < end && self.nodes[node] == other.nodes[node] {
            node += 1;
        }
        node
    }

    /// The node of an integer.
    pub const fn node_of(&self, leaf: usize) -> usize {
        let mut node = 0;
        let mut before = 0;
        while self.nodes[node] != LEAF || before < leaf {
            before += (self.nodes[node] == LEAF) as usize;
            node += 1;
        }
        node
    }

    /// Appends the nodes of `from` at `at`. Returns the range of its leaves.
    pub const fn push_copy(&mut self, from: &Self, at: At) -> Result<(usize, usize), Fault> {
        let end = from.next(at);
        let mut to = self.len as usize;
        let leaves = self.leaves as usize + (end.leaf - at.leaf);
        if to + (end.node - at.node) > MAX_NODES || leaves > MAX_LEAVES {
            return Err(Fault::Capacity);
        }
        let mut node = at.node;
        while node < end.node {
            self.nodes[to] = from.nodes[node];
            to += 1;
            node += 1;
        }
        self.len = to as u8;
        self.leaves = leaves as u8;
        Ok((at.leaf, end.leaf))
    }

    /// The nodes as bytes, for hashing.
    pub fn nodes(&self) -> &[u8] {
        &self.nodes[..self.len()]
    }
}
