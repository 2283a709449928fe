//! Slices: the part of a layout at fixed coordinates.

use super::error::LayoutError;
use super::evaluate::{coordinate_at, index_at};
use super::fault::{Fault, tri};
use super::int_tuple::{ANY, IntTuple};
use super::layout::Layout;
use super::operation::operation;
use super::profile::{At, ROOT};
use super::text::Text;

operation! {
    /// The modes of `layout` under the wildcards of `coord`. The integers of the coordinate move
    /// the slice by [`slice_offset`], see [`slice_and_offset`].
    ///
    /// ```
    /// use moye_device::layout::{layout, slice, slice_offset, tuple};
    /// let tensor = layout!((4, (2, 3)):(1, (4, 8)));
    /// assert_eq!(slice(tensor, tuple!((1, (_, 2)))), layout!((2):(4)));
    /// assert_eq!(slice_offset(tensor, tuple!((1, (_, 2)))), 17);
    /// ```
    slice / try_slice(layout: Layout, coord: IntTuple) -> Layout = sliced;

    /// The modes of `layout` under the integers of `coord`, which [`slice()`] drops.
    dice / try_dice(layout: Layout, coord: IntTuple) -> Layout = diced;

    /// The index of `coord` with wildcards as 0: the start of the slice.
    slice_offset / try_slice_offset(layout: Layout, coord: IntTuple) -> i64 = offset;

    /// The start of the slice of a layout of coordinates, the counterpart of [`slice_offset`]:
    /// [`coordinate_of`](super::coordinate_of) for `coord` with wildcards as 0.
    ///
    /// ```
    /// use moye_device::layout::{identity_layout, slice, slice_coordinate, tuple};
    /// let coordinates = identity_layout(tuple!((4, 3)));
    /// assert_eq!(slice(coordinates, tuple!((_, 2))).to_string(), "(4):(1@0)");
    /// assert_eq!(slice_coordinate(coordinates, tuple!((_, 2))), tuple!((0, 2)));
    /// ```
    slice_coordinate / try_slice_coordinate(layout: Layout, coord: IntTuple) -> IntTuple = coordinate;
}

/// [`slice()`] and [`slice_offset`] together.
///
/// # Panics
/// If [`try_slice_and_offset`] returns an error.
#[track_caller]
pub const fn slice_and_offset(layout: Layout, coord: IntTuple) -> (Layout, i64) {
    match try_slice_and_offset(layout, coord) {
        Ok(slice) => slice,
        Err(error) => panic!("{}", error.text()),
    }
}

/// [`slice_and_offset`] as a `Result`.
///
/// # Errors
/// If the coordinate does not fit the layout's nesting.
pub const fn try_slice_and_offset(layout: Layout, coord: IntTuple) -> Result<(Layout, i64), LayoutError> {
    match both(&layout, &coord) {
        Ok(slice) => Ok(slice),
        Err(fault) => {
            let mut text = Text::of_operands();
            text.str("slice_and_offset(");
            text.layout(&layout);
            text.str(", ");
            text.tuple(&coord);
            text.str(")");
            Err(LayoutError::after(text, fault))
        }
    }
}

const fn sliced(layout: &Layout, coord: &IntTuple) -> Result<Layout, Fault> {
    selected(layout, coord, true)
}

const fn diced(layout: &Layout, coord: &IntTuple) -> Result<Layout, Fault> {
    selected(layout, coord, false)
}

const fn offset(layout: &Layout, coord: &IntTuple) -> Result<i64, Fault> {
    if layout.is_coordinate() {
        return Err(Fault::HasBasis);
    }
    let (index, _) = tri!(index_at(layout, ROOT, coord, ROOT, None, true));
    Ok(index)
}

const fn coordinate(layout: &Layout, coord: &IntTuple) -> Result<IntTuple, Fault> {
    coordinate_at(layout, coord, true)
}

/// The slice and its offset.
pub(crate) const fn both(layout: &Layout, coord: &IntTuple) -> Result<(Layout, i64), Fault> {
    Ok((tri!(sliced(layout, coord)), tri!(offset(layout, coord))))
}

/// The modes under wildcards, or under integers. As in CuTe, they form one flat tuple, except that
/// an integer coordinate or a wildcard for the whole leaves the layout unchanged.
const fn selected(layout: &Layout, coord: &IntTuple, wildcards: bool) -> Result<Layout, Fault> {
    if coord.is_int() && (coord.basis[0] == ANY) == wildcards {
        return Ok(*layout);
    }
    let mut builder = Layout::start();
    let node = tri!(builder.push_tuple(0));
    let rank = tri!(select_into(&mut builder, layout, ROOT, coord, ROOT, wildcards));
    builder.set_rank(node, rank);
    builder.finish()
}

const fn select_into(
    builder: &mut Layout,
    layout: &Layout,
    at: At,
    coord: &IntTuple,
    crd: At,
    wildcards: bool,
) -> Result<usize, Fault> {
    if coord.profile.is_leaf(crd) {
        if coord.basis[crd.leaf] != ANY {
            tri!(coord.int_at(crd.leaf));
        }
        if (coord.basis[crd.leaf] == ANY) == wildcards {
            tri!(builder.push_copy(layout, at));
            return Ok(1);
        }
        return Ok(0);
    }
    let rank = coord.profile.rank(crd);
    if layout.profile.is_leaf(at) {
        return Err(Fault::TupleForInt { what: "coordinate", modes: rank });
    }
    if rank != layout.profile.rank(at) {
        return Err(Fault::CoordinateRank { given: rank, rank: layout.profile.rank(at) });
    }
    let mut count = 0;
    let mut mode = layout.profile.first(at);
    let mut part = coord.profile.first(crd);
    let mut i = 0;
    while i < rank {
        count += tri!(select_into(builder, layout, mode, coord, part, wildcards));
        mode = layout.profile.next(mode);
        part = coord.profile.next(part);
        i += 1;
    }
    Ok(count)
}
