//! Tuples with elements added, removed and rearranged.

use super::super::error::LayoutError;
use super::super::fault::{Fault, tri};
use super::super::operation::method;
use super::super::profile::{At, ROOT};
use super::super::text::Text;
use super::{IntTuple, TupleBuilder};

impl IntTuple {
    method! {
        /// The tuple with `element` at the end. An integer is treated as a tuple of one.
        append / try_append(self: IntTuple, element: IntTuple) -> IntTuple = append;
        /// The tuple with the leading element `element`. An integer is treated as a tuple of one.
        prepend / try_prepend(self: IntTuple, element: IntTuple) -> IntTuple = prepend;
        /// The tuple with `element` before element `index`, or at the end if `index` is the rank.
        insert / try_insert(self: IntTuple, index: usize, element: IntTuple) -> IntTuple = insert;
        /// The tuple without element `index`.
        remove / try_remove(self: IntTuple, index: usize) -> IntTuple = remove;
        /// The tuple with `element` instead of element `index`.
        replace / try_replace(self: IntTuple, index: usize, element: IntTuple) -> IntTuple = replace;
        /// The elements `begin..end` as a tuple.
        take / try_take(self: IntTuple, begin: usize, end: usize) -> IntTuple = take;
        /// The elements `begin..end` as one element: `(a,b,c,d)` grouped at `1..3` is
        /// `(a,(b,c),d)`.
        group / try_group(self: IntTuple, begin: usize, end: usize) -> IntTuple = group;
        /// The integers of a flat tuple, nested like `profile`.
        unflatten / try_unflatten(self: IntTuple, profile: IntTuple) -> IntTuple = unflatten;
    }

    /// The elements at `indices`, in that order.
    ///
    /// # Panics
    /// If an element does not exist.
    #[track_caller]
    pub const fn select(self, indices: &[usize]) -> Self {
        match self.try_select(indices) {
            Ok(tuple) => tuple,
            Err(error) => panic!("{}", error.text()),
        }
    }

    /// The elements at `indices`, in that order.
    ///
    /// # Errors
    /// If an element does not exist.
    pub const fn try_select(self, indices: &[usize]) -> Result<Self, LayoutError> {
        match select(&self, indices) {
            Ok(tuple) => Ok(tuple),
            Err(fault) => {
                let mut text = Text::of_operands();
                text.str("select(");
                text.tuple(&self);
                text.str(", [");
                text.sizes(indices);
                text.str("])");
                Err(LayoutError::after(text, fault))
            }
        }
    }
}

/// Checks that element `index` exists.
const fn exists(tuple: &IntTuple, index: usize) -> Result<(), Fault> {
    if index >= tuple.rank() { Err(Fault::NoMode { index, rank: tuple.rank() }) } else { Ok(()) }
}

/// Adds the elements `begin..end` of `tuple`; an integer is its only element.
const fn elements(
    builder: &mut TupleBuilder,
    tuple: &IntTuple,
    begin: usize,
    end: usize,
) -> Result<(), Fault> {
    let mut i = begin;
    while i < end {
        let at: At = tuple.profile.mode(ROOT, i);
        tri!(builder.copy(tuple, at));
        i += 1;
    }
    Ok(())
}

/// `tuple` with the elements `begin..end` replaced by `with`, if any.
const fn spliced(
    tuple: &IntTuple,
    begin: usize,
    end: usize,
    with: Option<&IntTuple>,
) -> Result<IntTuple, Fault> {
    let rank = tuple.rank();
    let mut builder = TupleBuilder::new();
    tri!(builder.open(rank - (end - begin) + with.is_some() as usize));
    tri!(elements(&mut builder, tuple, 0, begin));
    if let Some(with) = with {
        tri!(builder.copy(with, ROOT));
    }
    tri!(elements(&mut builder, tuple, end, rank));
    Ok(builder.tuple)
}

pub(crate) const fn append(tuple: &IntTuple, element: &IntTuple) -> Result<IntTuple, Fault> {
    spliced(tuple, tuple.rank(), tuple.rank(), Some(element))
}

pub(crate) const fn prepend(tuple: &IntTuple, element: &IntTuple) -> Result<IntTuple, Fault> {
    spliced(tuple, 0, 0, Some(element))
}

pub(crate) const fn insert(tuple: &IntTuple, index: usize, element: &IntTuple) -> Result<IntTuple, Fault> {
    if index > tuple.rank() {
        return Err(Fault::NoMode { index, rank: tuple.rank() });
    }
    spliced(tuple, index, index, Some(element))
}

pub(crate) const fn remove(tuple: &IntTuple, index: usize) -> Result<IntTuple, Fault> {
    tri!(exists(tuple, index));
    spliced(tuple, index, index + 1, None)
}

pub(crate) const fn replace(tuple: &IntTuple, index: usize, element: &IntTuple) -> Result<IntTuple, Fault> {
    tri!(exists(tuple, index));
    if tuple.is_int() {
        return Ok(*element);
    }
    spliced(tuple, index, index + 1, Some(element))
}

pub(crate) const fn take(tuple: &IntTuple, begin: usize, end: usize) -> Result<IntTuple, Fault> {
    if begin > end || end > tuple.rank() {
        return Err(Fault::NoRange { begin, end, rank: tuple.rank() });
    }
    let mut builder = TupleBuilder::new();
    tri!(builder.open(end - begin));
    tri!(elements(&mut builder, tuple, begin, end));
    Ok(builder.tuple)
}

pub(crate) const fn group(tuple: &IntTuple, begin: usize, end: usize) -> Result<IntTuple, Fault> {
    let inner = tri!(take(tuple, begin, end));
    spliced(tuple, begin, end, Some(&inner))
}

pub(crate) const fn select(tuple: &IntTuple, indices: &[usize]) -> Result<IntTuple, Fault> {
    let mut builder = TupleBuilder::new();
    tri!(builder.open(indices.len()));
    let mut i = 0;
    while i < indices.len() {
        tri!(exists(tuple, indices[i]));
        tri!(elements(&mut builder, tuple, indices[i], indices[i] + 1));
        i += 1;
    }
    Ok(builder.tuple)
}

const fn unflatten(tuple: &IntTuple, profile: &IntTuple) -> Result<IntTuple, Fault> {
    if tuple.depth() > 1 {
        return Err(Fault::NotAnInt);
    }
    if tuple.leaves() != profile.leaves() {
        return Err(Fault::Ranks { left: tuple.leaves(), right: profile.leaves() });
    }
    let mut result = *tuple;
    result.profile = profile.profile;
    Ok(result)
}
