//! What a layout maps a coordinate to.

use super::error::{Fault, tri};
use super::int_tuple::{ANY, IntTuple, NO_BASIS};
use super::layout::Layout;
use super::operation::operation;
use super::profile::{At, ROOT};

operation! {
    /// The index that a layout maps a coordinate to. A coordinate is an integer for a whole mode (counted along its
    /// first mode first) or a tuple with an element for each mode.
    ///
    /// Coordinates are not compared with the shape: as in CuTe, the last extent of a mode has no upper bound.
    crd2idx / try_crd2idx(layout: Layout, coord: IntTuple) -> i64 = index_of;
}

pub(crate) const fn index_of(layout: &Layout, coord: &IntTuple) -> Result<i64, Fault> {
    if layout.is_coordinate() {
        return Err(Fault::HasBasis);
    }
    let (index, _) = tri!(index_at(layout, ROOT, coord, ROOT, None, false));
    Ok(index)
}

/// The index of `coord` at `at`, of the strides along `basis` where one is given. With `slice`, wildcards count as
/// coordinate 0. The second value is the node after the coordinate.
pub(crate) const fn index_at(
    layout: &Layout,
    at: At,
    coord: &IntTuple,
    crd: At,
    basis: Option<u8>,
    slice: bool,
) -> Result<(i64, At), Fault> {
    if coord.profile.is_leaf(crd) {
        let next = At { node: crd.node + 1, leaf: crd.leaf + 1 };
        if slice && coord.basis[crd.leaf] == ANY {
            return Ok((0, next));
        }
        let index = tri!(coord.int_at(crd.leaf));
        let end = layout.profile.next(at).leaf;
        return match linear(layout, at.leaf, end, index, basis) {
            Some(index) => Ok((index, next)),
            None => Err(Fault::Overflow),
        };
    }
    let rank = coord.profile.rank(crd);
    if layout.profile.is_leaf(at) {
        return Err(Fault::TooManyModes {
            what: "coordinate, a tuple for an integer extent,",
            modes: rank,
            rank: 1,
        });
    }
    if rank != layout.profile.rank(at) {
        return Err(Fault::Ranks { left: layout.profile.rank(at), right: rank });
    }
    let mut sum = 0i64;
    let mut mode = layout.profile.first(at);
    let mut part = coord.profile.first(crd);
    let mut i = 0;
    while i < rank {
        let (index, next) = tri!(index_at(layout, mode, coord, part, basis, slice));
        sum = match sum.checked_add(index) {
            Some(sum) => sum,
            None => return Err(Fault::Overflow),
        };
        mode = layout.profile.next(mode);
        part = next;
        i += 1;
    }
    Ok((sum, part))
}

/// The index of the integer coordinate `index` over the leaves `first..end`, checked.
pub(crate) const fn linear(
    layout: &Layout,
    first: usize,
    end: usize,
    index: i64,
    basis: Option<u8>,
) -> Option<i64> {
    let mut rest = index;
    let mut sum = 0i64;
    let mut leaf = first;
    while leaf < end {
        let digit = if leaf + 1 == end { rest } else { rest % layout.shape[leaf] };
        rest /= layout.shape[leaf];
        let counts = match basis {
            Some(basis) => layout.basis[leaf] == basis,
            None => true,
        };
        if counts {
            sum = match digit.checked_mul(layout.stride[leaf]) {
                Some(term) => match sum.checked_add(term) {
                    Some(sum) => sum,
                    None => return None,
                },
                None => return None,
            };
        }
        leaf += 1;
    }
    Some(sum)
}

impl Layout {
    /// The index of the integer coordinate `index`, counted along the first mode first.
    ///
    /// Beyond the size, the last extent counts as unbounded, as in CuTe. Every index within the size fits in 64 bits;
    /// for coordinates so far beyond it that their index may not, [`try_crd2idx`] checks the arithmetic.
    ///
    /// # Panics
    /// Where the layout is one of coordinates (strides such as `1@0`): see [`along`](Self::along) and
    /// [`coordinate`](Self::coordinate).
    #[inline(always)]
    #[track_caller]
    pub const fn at(&self, index: i64) -> i64 {
        self.sum(0, self.leaves(), index)
    }

    /// The index of a coordinate with an integer for each mode.
    ///
    /// # Panics
    /// Where `R` is not the rank, or the layout is one of coordinates.
    #[inline(always)]
    #[track_caller]
    pub const fn at_coord<const R: usize>(&self, coord: [i64; R]) -> i64 {
        assert!(R == self.rank(), "a coordinate needs one integer for each mode");
        let mut sum = 0;
        let mut mode = self.profile.first(ROOT);
        let mut i = 0;
        while i < R {
            let next = self.profile.next(mode);
            sum += self.sum(mode.leaf, next.leaf, coord[i]);
            mode = next;
            i += 1;
        }
        sum
    }

    /// The index of the integer coordinate `index` over the leaves `first..end`.
    #[inline(always)]
    #[track_caller]
    const fn sum(&self, first: usize, end: usize, index: i64) -> i64 {
        let mut rest = index;
        let mut sum = 0;
        let mut leaf = first;
        while leaf < end {
            assert!(self.basis[leaf] == NO_BASIS, "a layout of coordinates has no index; see Layout::along");
            let (mut extent, stride) = (self.shape[leaf], self.stride[leaf]);
            leaf += 1;
            // Modes that continue one another are one digit: a division less, and for a constant layout the arithmetic
            // that one would write by hand, since compilers do not put the digits together again.
            while leaf < end && self.basis[leaf] == NO_BASIS {
                match extent.checked_mul(stride) {
                    Some(next) if next == self.stride[leaf] => extent *= self.shape[leaf],
                    _ => break,
                }
                leaf += 1;
            }
            if leaf == end {
                return sum + rest * stride;
            }
            sum += rest % extent * stride;
            rest /= extent;
        }
        sum
    }

    /// The coordinate that a layout of coordinates maps `index` to, of its first `R` basis vectors.
    ///
    /// ```
    /// use moye_device::layout::{identity_layout, tuple};
    /// let coordinates = identity_layout(tuple!((4, 3)));
    /// assert_eq!(coordinates.coordinate(6), [2, 1]);
    /// ```
    ///
    /// # Panics
    /// Where a stride is along a basis vector beyond `R`, or is an integer other than 0.
    #[track_caller]
    pub const fn coordinate<const R: usize>(&self, index: i64) -> [i64; R] {
        let mut parts = [0; R];
        let mut rest = index;
        let mut leaf = 0;
        while leaf < self.leaves() {
            let digit = if leaf + 1 == self.leaves() { rest } else { rest % self.shape[leaf] };
            rest /= self.shape[leaf];
            if self.stride[leaf] != 0 {
                let basis = self.basis[leaf] as usize;
                assert!(
                    basis < R,
                    "a stride of a coordinate layout is along none of the basis vectors asked for"
                );
                parts[basis] += digit * self.stride[leaf];
            }
            leaf += 1;
        }
        parts
    }
}
