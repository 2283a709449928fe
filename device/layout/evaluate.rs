//! The value of a layout at a coordinate.

use super::basis::{WHOLE, below, depth, extended, is_flat, outermost, place_of};
use super::error::LayoutError;
use super::fault::{Fault, tri};
use super::int_tuple::{ANY, IntTuple, NO_BASIS, TupleBuilder};
use super::layout::Layout;
use super::operation::operation;
use super::profile::{At, ROOT};
use super::text::Text;

operation! {
    /// The index to which a layout maps a coordinate. A coordinate is an integer for a whole mode
    /// (colexicographic) or a tuple with an element for each mode.
    ///
    /// Coordinates are not compared with the shape: as in CuTe, the last extent of a mode has no
    /// upper bound.
    crd2idx / try_crd2idx(layout: Layout, coord: IntTuple) -> i64 = index_of;

    /// The coordinate to which a layout of coordinates maps a coordinate: the counterpart of
    /// [`crd2idx`]. It has an element for each basis vector up to the last one of a stride, nested
    /// like the basis vectors. If all strides are integers, it is the index, an integer.
    ///
    /// ```
    /// use moye_device::layout::{coordinate_of, identity_layout, tiler, tuple, zipped_divide};
    /// let tiles = zipped_divide(identity_layout(tuple!((10, 6))), tiler!((4, 4)));
    /// // Element (3, 1) of tile (2, 1).
    /// assert_eq!(coordinate_of(tiles, tuple!(((3, 1), (2, 1)))), tuple!((11, 5)));
    /// // Coordinates nest as the shape does.
    /// assert_eq!(coordinate_of(identity_layout(tuple!((4, (2, 3)))), tuple!(22)), tuple!((2, (1, 2))));
    /// ```
    ///
    /// # Errors
    /// If strides require one place to be both an integer and a tuple (`1` or `1@0@0` beside
    /// `1@0`).
    coordinate_of / try_coordinate_of(layout: Layout, coord: IntTuple) -> IntTuple = mapped;

    /// The smallest shape that contains all coordinates to which a layout maps (by the strides'
    /// magnitudes, as in CuTe): for integer strides the [`cosize`](Layout::cosize), for strides
    /// along basis vectors a tuple.
    ///
    /// ```
    /// use moye_device::layout::{coshape, layout, tuple};
    /// assert_eq!(coshape(layout!((6, 5):(1@0, 1@1))), tuple!((6, 5)));
    /// assert_eq!(coshape(layout!((6, (2, 3)):(1@0, (1@0@1, 2@1@1)))), tuple!((6, (2, 5))));
    /// assert_eq!(coshape(layout!((4, 3):(1, 10))), tuple!(24));
    /// ```
    ///
    /// # Errors
    /// If [`coordinate_of`] returns one.
    coshape / try_coshape(layout: Layout) -> IntTuple = shape_of_values;
}

pub(crate) const fn index_of(layout: &Layout, coord: &IntTuple) -> Result<i64, Fault> {
    if layout.is_coordinate() {
        return Err(Fault::HasBasis);
    }
    let (index, _) = tri!(index_at(layout, ROOT, coord, ROOT, None, false));
    Ok(index)
}

const fn mapped(layout: &Layout, coord: &IntTuple) -> Result<IntTuple, Fault> {
    coordinate_at(layout, coord, false)
}

/// The coordinate of `coord` in a layout of coordinates. With `slice`, wildcards count as
/// coordinate 0.
pub(crate) const fn coordinate_at(layout: &Layout, coord: &IntTuple, slice: bool) -> Result<IntTuple, Fault> {
    let mut builder = TupleBuilder::new();
    tri!(places_into(&mut builder, layout, WHOLE, Some((coord, slice))));
    Ok(builder.tuple)
}

/// See [`coshape`].
pub(crate) const fn shape_of_values(layout: &Layout) -> Result<IntTuple, Fault> {
    let mut builder = TupleBuilder::new();
    tri!(places_into(&mut builder, layout, WHOLE, None));
    Ok(builder.tuple)
}

/// Adds the part at `place` of the value of `layout` at a coordinate, or of the shape of all its
/// values.
const fn places_into(
    builder: &mut TupleBuilder,
    layout: &Layout,
    place: u32,
    at: Option<(&IntTuple, bool)>,
) -> Result<(), Fault> {
    let mut parts = 0;
    // A leaf whose stride is along the place, and one whose stride is along a place within it.
    let (mut whole, mut within) = (None, None);
    let mut leaf = 0;
    while leaf < layout.leaves() {
        if layout.stride[leaf] != 0
            && let Some(rest) = below(place_of(layout.basis[leaf]), place)
        {
            if rest == WHOLE {
                whole = Some(leaf);
            } else {
                within = Some(leaf);
                if outermost(rest) >= parts {
                    parts = outermost(rest) + 1;
                }
            }
        }
        leaf += 1;
    }
    if let (Some(whole), Some(within)) = (whole, within) {
        return Err(layout.both_kinds(whole, within));
    }
    if within.is_none() {
        let basis = if place == WHOLE { NO_BASIS } else { place };
        let value = match at {
            Some((coord, slice)) => tri!(index_at(layout, ROOT, coord, ROOT, Some(basis), slice)).0,
            None => layout.extent_along(basis),
        };
        return builder.int(value);
    }
    tri!(builder.open(parts));
    let mut part = 0;
    while part < parts {
        tri!(places_into(builder, layout, tri!(extended(place, part)), at));
        part += 1;
    }
    Ok(())
}

/// The index of `coord` at `at`, by the strides along `basis` if one is given. With `slice`,
/// wildcards count as coordinate 0. The second value is the node after the coordinate.
pub(crate) const fn index_at(
    layout: &Layout,
    at: At,
    coord: &IntTuple,
    crd: At,
    basis: Option<u32>,
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
        return Err(Fault::TupleForInt { what: "coordinate", modes: rank });
    }
    if rank != layout.profile.rank(at) {
        return Err(Fault::CoordinateRank { given: rank, rank: layout.profile.rank(at) });
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
    basis: Option<u32>,
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
    /// The index of the integer coordinate `index`, colexicographic.
    ///
    /// Past the size, the last extent is treated as unbounded, as in CuTe. Every index within the
    /// size fits in 64 bits; for coordinates so far past it that their index may not,
    /// [`try_crd2idx`] checks the arithmetic.
    ///
    /// # Panics
    /// If [`try_crd2idx`] returns an error of the kind
    /// [`Profile`](super::LayoutErrorKind::Profile): the layout maps to coordinates (strides such
    /// as `1@0`); use [`along`](Self::along) or [`coordinate`](Self::coordinate).
    #[inline(always)]
    #[track_caller]
    pub const fn at(&self, index: i64) -> i64 {
        match self.sum(0, self.leaves(), index) {
            Some(index) => index,
            None => no_index(*self, IntTuple::int(index)),
        }
    }

    /// The index of a coordinate with an integer for each mode. Integers outside the shape are not
    /// checked, and their index may not fit in 64 bits: [`try_crd2idx`] checks the arithmetic.
    ///
    /// # Panics
    /// If [`try_crd2idx`] returns an error of the kind
    /// [`Profile`](super::LayoutErrorKind::Profile): `R` is not the rank, or the layout maps to
    /// coordinates.
    #[inline(always)]
    #[track_caller]
    pub const fn at_coord<const R: usize>(&self, coord: [i64; R]) -> i64 {
        if R != self.rank() {
            no_index(*self, IntTuple::flat(&coord));
        }
        let mut sum = 0;
        let mut mode = self.profile.first(ROOT);
        let mut i = 0;
        while i < R {
            let next = self.profile.next(mode);
            sum += match self.sum(mode.leaf, next.leaf, coord[i]) {
                Some(part) => part,
                None => no_index(*self, IntTuple::flat(&coord)),
            };
            mode = next;
            i += 1;
        }
        sum
    }

    /// The index of the integer coordinate `index` over the leaves `first..end`, if their strides
    /// are integers.
    #[inline(always)]
    const fn sum(&self, first: usize, end: usize, index: i64) -> Option<i64> {
        let mut rest = index;
        let mut sum = 0;
        let mut leaf = first;
        while leaf < end {
            if self.basis[leaf] != NO_BASIS {
                return None;
            }
            let (mut extent, stride) = (self.shape[leaf], self.stride[leaf]);
            leaf += 1;
            // Modes that continue one another form one digit: one division less, and for a constant
            // layout the arithmetic that an author would write by hand, since compilers do not
            // merge the digits.
            while leaf < end && self.basis[leaf] == NO_BASIS {
                match extent.checked_mul(stride) {
                    Some(next) if next == self.stride[leaf] => extent *= self.shape[leaf],
                    _ => break,
                }
                leaf += 1;
            }
            if leaf == end {
                return Some(sum + rest * stride);
            }
            sum += rest % extent * stride;
            rest /= extent;
        }
        Some(sum)
    }

    /// The coordinate to which a layout of coordinates maps `index`, in its first `R` basis
    /// vectors.
    ///
    /// ```
    /// use moye_device::layout::{identity_layout, tuple};
    /// let coordinates = identity_layout(tuple!((4, 3)));
    /// assert_eq!(coordinates.coordinate(6), [2, 1]);
    /// ```
    ///
    /// # Panics
    /// If [`try_coordinate`](Self::try_coordinate) returns an error.
    #[track_caller]
    pub const fn coordinate<const R: usize>(&self, index: i64) -> [i64; R] {
        match self.try_coordinate(index) {
            Ok(coordinate) => coordinate,
            Err(error) => panic!("{}", error.text()),
        }
    }

    /// [`coordinate`](Self::coordinate) as a `Result`.
    ///
    /// # Errors
    /// If a stride is along a basis vector past `R`, within a part of the coordinate (`1@0@1`, see
    /// [`coordinate_of`]), or is an integer other than 0; or if a part of the coordinate does not
    /// fit in 64 bits.
    #[inline]
    pub const fn try_coordinate<const R: usize>(&self, index: i64) -> Result<[i64; R], LayoutError> {
        match parts_of(self, index) {
            Ok(parts) => Ok(parts),
            Err(fault) => {
                let mut text = Text::of_operands();
                text.str("coordinate(");
                text.layout(self);
                text.str(", ");
                text.int(index);
                text.str(")");
                Err(LayoutError::after(text, fault))
            }
        }
    }
}

impl Layout {
    /// The fault of one stride along a place and another along a place within it.
    #[cold]
    const fn both_kinds(&self, whole: usize, within: usize) -> Fault {
        Fault::BothKinds {
            whole: (self.stride[whole], self.basis[whole]),
            within: (self.stride[within], self.basis[within]),
        }
    }

    /// Rejects strides under `at` of which one requires a place of the coordinate to be an integer,
    /// and another a tuple.
    pub(crate) const fn check_places(&self, at: At) -> Result<(), Fault> {
        let end = self.profile.next(at).leaf;
        let mut whole = at.leaf;
        while whole < end {
            let mut other = at.leaf;
            while other < end {
                let (place, deeper) = (self.basis[whole], self.basis[other]);
                if place != NO_BASIS
                    && deeper != NO_BASIS
                    && depth(deeper) > depth(place)
                    && below(deeper, place).is_some()
                {
                    return Err(self.both_kinds(whole, other));
                }
                other += 1;
            }
            whole += 1;
        }
        Ok(())
    }

    /// Why the stride of `leaf`, along the whole coordinate or within a part of it, adds to no
    /// integer of a flat coordinate.
    #[cold]
    const fn no_number(&self, leaf: usize) -> Fault {
        let mut other = 0;
        while other < self.leaves() {
            if self.basis[leaf] == NO_BASIS && self.basis[other] != NO_BASIS {
                return self.both_kinds(leaf, other);
            }
            other += 1;
        }
        Fault::NotFlat { stride: (self.stride[leaf], self.basis[leaf]) }
    }

    /// One more than the sum of all steps along `basis`.
    const fn extent_along(&self, basis: u32) -> i64 {
        let mut last = 0;
        let mut leaf = 0;
        while leaf < self.leaves() {
            if self.basis[leaf] == basis && self.shape[leaf] > 1 {
                last += (self.shape[leaf] - 1) * self.stride[leaf].abs();
            }
            leaf += 1;
        }
        last + 1
    }
}

#[inline]
const fn parts_of<const R: usize>(layout: &Layout, index: i64) -> Result<[i64; R], Fault> {
    let mut parts = [0i64; R];
    let mut rest = index;
    let mut leaf = 0;
    while leaf < layout.leaves() {
        let digit = if leaf + 1 == layout.leaves() { rest } else { rest % layout.shape[leaf] };
        rest /= layout.shape[leaf];
        let stride = layout.stride[leaf];
        if stride != 0 {
            let basis = layout.basis[leaf];
            if basis == NO_BASIS || !is_flat(basis) {
                return Err(layout.no_number(leaf));
            }
            let basis = outermost(basis);
            if basis >= R {
                return Err(Fault::CoordinateBasis { basis, parts: R, want: basis + 1 });
            }
            let part = match digit.checked_mul(stride) {
                Some(step) => parts[basis].checked_add(step),
                None => None,
            };
            parts[basis] = match part {
                Some(part) => part,
                None => return Err(Fault::Overflow),
            };
        }
        leaf += 1;
    }
    Ok(parts)
}

/// The panic for a coordinate without an index, with the message of [`try_crd2idx`]. The layout is
/// passed by value, so that the caller's need not be in memory.
#[cold]
#[inline(never)]
#[track_caller]
const fn no_index(layout: Layout, coord: IntTuple) -> ! {
    match try_crd2idx(layout, coord) {
        Err(error) => panic!("{}", error.text()),
        Ok(_) => unreachable!(),
    }
}
