//! Layouts with modes added, removed and rearranged.

use super::compose::composed;
use super::error::LayoutError;
use super::fault::{Fault, tri};
use super::int_tuple::NO_BASIS;
use super::int_tuple::{IntTuple, edit};
use super::layout::{Layout, checked, of_shape_and_stride};
use super::make;
use super::operation::method;
use super::profile::ROOT;
use super::text::Text;

impl Layout {
    method! {
        /// The layout with `mode` as its last mode. A single integer mode is treated as a tuple of
        /// one.
        append / try_append(self: Layout, mode: Layout) -> Layout = append;
        /// The layout with `mode` as its first mode. A single integer mode is treated as a tuple of
        /// one.
        prepend / try_prepend(self: Layout, mode: Layout) -> Layout = prepend;
        /// The layout padded with trailing modes `1:0` to `rank`.
        append_dim / try_append_dim(self: Layout, rank: usize) -> Layout = padded;
        /// The layout padded with leading modes `1:0` to `rank`.
        prepend_dim / try_prepend_dim(self: Layout, rank: usize) -> Layout = padded_with_leading_modes;
        /// The layout with `mode` before mode `index`, or at the end if `index` is the rank.
        insert / try_insert(self: Layout, index: usize, mode: Layout) -> Layout = insert;
        /// The layout without mode `index`.
        remove / try_remove(self: Layout, index: usize) -> Layout = remove;
        /// The layout with `mode` instead of mode `index`.
        replace / try_replace(self: Layout, index: usize, mode: Layout) -> Layout = replace;
        /// The modes `begin..end`.
        take / try_take(self: Layout, begin: usize, end: usize) -> Layout = take;
        /// The modes `begin..end` as one mode: `(a,b,c,d)` grouped at `1..3` is `(a,(b,c),d)`.
        group / try_group(self: Layout, begin: usize, end: usize) -> Layout = group;
        /// The modes in reverse order; for a matrix, its transpose.
        transpose / try_transpose(self: Layout) -> Layout = transpose;
        /// The layout with another shape of the same size: the composition with the compact layout
        /// of `shape`.
        ///
        /// # Errors
        /// If `shape` has another size, or splits the modes in a way that no layout represents.
        with_shape / try_with_shape(self: Layout, shape: IntTuple) -> Layout = with_shape;
    }

    /// The modes at `indices`, in that order.
    ///
    /// # Panics
    /// If a mode does not exist.
    #[track_caller]
    pub const fn select(self, indices: &[usize]) -> Self {
        match self.try_select(indices) {
            Ok(layout) => layout,
            Err(error) => panic!("{}", error.text()),
        }
    }

    /// The modes at `indices`, in that order.
    ///
    /// # Errors
    /// If a mode does not exist.
    pub const fn try_select(self, indices: &[usize]) -> Result<Self, LayoutError> {
        match select(&self, indices) {
            Ok(layout) => Ok(layout),
            Err(fault) => {
                let mut text = Text::of_operands();
                text.str("select(");
                text.layout(&self);
                text.str(", [");
                text.sizes(indices);
                text.str("])");
                Err(LayoutError::after(text, fault))
            }
        }
    }

    /// The layouts concatenated, each as a mode.
    ///
    /// # Panics
    /// If [`try_concat`](Self::try_concat) returns an error.
    #[track_caller]
    pub const fn concat(modes: &[Self]) -> Self {
        match Self::try_concat(modes) {
            Ok(layout) => layout,
            Err(error) => panic!("{}", error.text()),
        }
    }

    /// The layouts concatenated, each as a mode.
    ///
    /// # Errors
    /// If they do not fit in one layout, or a size overflows.
    pub const fn try_concat(modes: &[Self]) -> Result<Self, LayoutError> {
        match joined(modes) {
            Ok(layout) => Ok(layout),
            Err(fault) => {
                let mut text = Text::of_operands();
                text.str("concat([");
                text.layouts(modes);
                text.str("])");
                Err(LayoutError::after(text, fault))
            }
        }
    }
}

const fn joined(modes: &[Layout]) -> Result<Layout, Fault> {
    let mut builder = Layout::start();
    tri!(builder.push_tuple(modes.len()));
    let mut i = 0;
    while i < modes.len() {
        tri!(builder.push_layout(&modes[i]));
        i += 1;
    }
    builder.finish()
}

/// The layout of two tuples that nest alike by construction, checked for the invariants.
const fn of(shape: Result<IntTuple, Fault>, stride: Result<IntTuple, Fault>) -> Result<Layout, Fault> {
    of_shape_and_stride(&tri!(shape), &tri!(stride))
}

pub(crate) const fn append(layout: &Layout, mode: &Layout) -> Result<Layout, Fault> {
    of(edit::append(&layout.shape(), &mode.shape()), edit::append(&layout.stride(), &mode.stride()))
}

const fn prepend(layout: &Layout, mode: &Layout) -> Result<Layout, Fault> {
    let mut builder = Layout::start();
    tri!(builder.push_tuple(layout.rank() + 1));
    tri!(builder.push_layout(mode));
    tri!(modes_into(&mut builder, layout));
    builder.finish()
}

const fn insert(layout: &Layout, index: usize, mode: &Layout) -> Result<Layout, Fault> {
    of(
        edit::insert(&layout.shape(), index, &mode.shape()),
        edit::insert(&layout.stride(), index, &mode.stride()),
    )
}

const fn remove(layout: &Layout, index: usize) -> Result<Layout, Fault> {
    of(edit::remove(&layout.shape(), index), edit::remove(&layout.stride(), index))
}

const fn replace(layout: &Layout, index: usize, mode: &Layout) -> Result<Layout, Fault> {
    of(
        edit::replace(&layout.shape(), index, &mode.shape()),
        edit::replace(&layout.stride(), index, &mode.stride()),
    )
}

pub(crate) const fn take(layout: &Layout, begin: usize, end: usize) -> Result<Layout, Fault> {
    if begin > end || end > layout.rank() {
        return Err(Fault::NoRange { begin, end, rank: layout.rank() });
    }
    let mut builder = Layout::start();
    tri!(builder.push_tuple(end - begin));
    let mut mode = layout.profile.mode(ROOT, if begin < end { begin } else { 0 });
    let mut i = begin;
    while i < end {
        tri!(builder.push_copy(layout, mode));
        i += 1;
        if i < end {
            mode = layout.profile.next(mode);
        }
    }
    builder.finish()
}

pub(crate) const fn group(layout: &Layout, begin: usize, end: usize) -> Result<Layout, Fault> {
    of(edit::group(&layout.shape(), begin, end), edit::group(&layout.stride(), begin, end))
}

const fn select(layout: &Layout, indices: &[usize]) -> Result<Layout, Fault> {
    of(edit::select(&layout.shape(), indices), edit::select(&layout.stride(), indices))
}

const fn transpose(layout: &Layout) -> Result<Layout, Fault> {
    if layout.profile.is_leaf(ROOT) {
        return Ok(*layout);
    }
    let rank = layout.rank();
    let mut builder = Layout::start();
    tri!(builder.push_tuple(rank));
    let mut i = rank;
    while i > 0 {
        i -= 1;
        tri!(builder.push_copy(layout, layout.profile.mode(ROOT, i)));
    }
    checked(builder)
}

pub(crate) const fn with_shape(layout: &Layout, shape: &IntTuple) -> Result<Layout, Fault> {
    let domain = tri!(make::col_major(shape));
    if domain.size() != layout.size() {
        return Err(Fault::Sizes { left: layout.size(), right: domain.size() });
    }
    composed(layout, &domain)
}

const fn padded_with_leading_modes(layout: &Layout, rank: usize) -> Result<Layout, Fault> {
    if layout.rank() >= rank {
        return Ok(*layout);
    }
    let mut builder = Layout::start();
    tri!(builder.push_tuple(rank));
    let mut i = layout.rank();
    while i < rank {
        tri!(builder.push_leaf(1, 0, NO_BASIS));
        i += 1;
    }
    tri!(modes_into(&mut builder, layout));
    builder.finish()
}

/// Adds the modes of `layout`; an integer mode is its only mode.
const fn modes_into(builder: &mut Layout, layout: &Layout) -> Result<(), Fault> {
    let rank = layout.rank();
    let mut mode = layout.profile.first(ROOT);
    let mut i = 0;
    while i < rank {
        tri!(builder.push_copy(layout, mode));
        if i + 1 < rank {
            mode = layout.profile.next(mode);
        }
        i += 1;
    }
    Ok(())
}

/// The layout padded with trailing modes `1:0` to `rank`. A layout of at least that rank stays
/// unchanged.
pub(crate) const fn padded(layout: &Layout, rank: usize) -> Result<Layout, Fault> {
    if layout.rank() >= rank {
        return Ok(*layout);
    }
    let mut builder = Layout::start();
    tri!(builder.push_tuple(rank));
    tri!(modes_into(&mut builder, layout));
    let mut i = layout.rank();
    while i < rank {
        tri!(builder.push_leaf(1, 0, NO_BASIS));
        i += 1;
    }
    builder.finish()
}
