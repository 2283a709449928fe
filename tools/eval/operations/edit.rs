//! Modes of tuples and layouts: queried, added, removed and rearranged.

use moye_device::layout::{IntTuple, Layout, LayoutError, try_mode};

use super::{Group, operations};
use crate::error::EvalError;
use crate::operand::TupleOrAny;
use crate::operand::TupleOrLayout::{self, IntTuple as Tuple, Layout as Of};
use crate::value::{Answer, Value};

pub(super) const GROUP: Group = Group {
    title: "Modes, of tuples and of layouts",
    operations: operations! {
        rank(of: TupleOrAny) = small(match of {
            TupleOrAny::IntTuple(tuple) => tuple.rank(),
            TupleOrAny::Layout(layout) => layout.rank(),
            TupleOrAny::ComposedLayout(layout) => layout.rank(),
        }), "the number of modes; an integer has one";
        depth(of: TupleOrAny) = small(match of {
            TupleOrAny::IntTuple(tuple) => tuple.depth(),
            TupleOrAny::Layout(layout) => layout.depth(),
            TupleOrAny::ComposedLayout(layout) => layout.depth(),
        }), "how deep tuples nest; 0 for an integer";
        mode(of: TupleOrAny, index: usize) = match of {
            TupleOrAny::IntTuple(tuple) => tuple.try_mode(index).answer(),
            TupleOrAny::Layout(layout) => try_mode(layout, index).answer(),
            TupleOrAny::ComposedLayout(layout) => layout.try_mode(index).answer(),
        }, "one mode";
        modes(of: TupleOrAny) = modes(of), "all modes, one after another";
        flatten(of: TupleOrAny) = match of {
            TupleOrAny::IntTuple(tuple) => Value::from(tuple.flatten()),
            TupleOrAny::Layout(layout) => Value::from(layout.flatten()),
            TupleOrAny::ComposedLayout(layout) => Value::from(layout.flatten()),
        }, "the same integers without nesting";
        concat(modes: Vec<Layout>) = Layout::try_concat(&modes), "layouts side by side, each a mode";
        append(of: TupleOrAny, mode: TupleOrLayout) = match of {
            TupleOrAny::IntTuple(of) => append(Tuple(of), mode),
            TupleOrAny::Layout(of) => append(Of(of), mode),
            TupleOrAny::ComposedLayout(of) => of.try_append(layout(mode)?).answer(),
        }, "with another mode at the end";
        prepend(of: TupleOrLayout, mode: TupleOrLayout) =
            two(of, mode, |of, mode| of.try_prepend(mode), |of, mode| of.try_prepend(mode)),
            "with another leading mode";
        insert(of: TupleOrLayout, index: usize, mode: TupleOrLayout) = two(
            of,
            mode,
            |of, mode| of.try_insert(index, mode),
            |of, mode| of.try_insert(index, mode),
        ), "with another mode before mode index";
        replace(of: TupleOrLayout, index: usize, mode: TupleOrLayout) = two(
            of,
            mode,
            |of, mode| of.try_replace(index, mode),
            |of, mode| of.try_replace(index, mode),
        ), "with another mode in the place of mode index";
        remove(of: TupleOrLayout, index: usize) = match of {
            Tuple(tuple) => tuple.try_remove(index).answer(),
            Of(layout) => layout.try_remove(index).answer(),
        }, "without mode index";
        take(of: TupleOrAny, begin: usize, end: usize) = match of {
            TupleOrAny::IntTuple(tuple) => tuple.try_take(begin, end).answer(),
            TupleOrAny::Layout(layout) => layout.try_take(begin, end).answer(),
            TupleOrAny::ComposedLayout(layout) => layout.try_take(begin, end).answer(),
        }, "the modes begin..end";
        group(of: TupleOrAny, begin: usize, end: usize) = match of {
            TupleOrAny::IntTuple(tuple) => tuple.try_group(begin, end).answer(),
            TupleOrAny::Layout(layout) => layout.try_group(begin, end).answer(),
            TupleOrAny::ComposedLayout(layout) => layout.try_group(begin, end).answer(),
        }, "the modes begin..end as one mode";
        select(of: TupleOrLayout, indices: Vec<usize>) = match of {
            Tuple(tuple) => tuple.try_select(&indices).answer(),
            Of(layout) => layout.try_select(&indices).answer(),
        }, "the modes at the indices, in that order";
        unflatten(tuple: IntTuple, profile: IntTuple) = tuple.try_unflatten(profile),
            "the integers of a flat tuple in the nesting of a profile";
        transpose(layout: Layout) = layout.try_transpose(), "the modes in reverse order";
        append_dim(layout: Layout, rank: usize) = layout.try_append_dim(rank), "with modes 1:0 at the end up to a rank";
        prepend_dim(layout: Layout, rank: usize) = layout.try_prepend_dim(rank),
            "with leading modes 1:0 up to a rank";
    },
};

/// A rank or a depth, which a tuple's capacity bounds.
fn small(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn modes(of: TupleOrAny) -> Result<Vec<Value>, EvalError> {
    match of {
        TupleOrAny::IntTuple(tuple) => {
            (0..tuple.rank()).map(|index| tuple.try_mode(index).answer()).collect()
        }
        TupleOrAny::Layout(layout) => {
            (0..layout.rank()).map(|index| try_mode(layout, index).answer()).collect()
        }
        TupleOrAny::ComposedLayout(layout) => {
            (0..layout.rank()).map(|index| layout.try_mode(index).answer()).collect()
        }
    }
}

fn append(of: TupleOrLayout, mode: TupleOrLayout) -> Result<Value, EvalError> {
    two(of, mode, |of, mode| of.try_append(mode), |of, mode| of.try_append(mode))
}

/// An operation on two tuples, or on two layouts if either is one.
fn two(
    of: TupleOrLayout,
    mode: TupleOrLayout,
    tuples: impl FnOnce(IntTuple, IntTuple) -> Result<IntTuple, LayoutError>,
    layouts: impl FnOnce(Layout, Layout) -> Result<Layout, LayoutError>,
) -> Result<Value, EvalError> {
    match (of, mode) {
        (Tuple(of), Tuple(mode)) => tuples(of, mode).answer(),
        (of, mode) => layouts(layout(of)?, layout(mode)?).answer(),
    }
}

/// A layout, or the compact one of a shape.
fn layout(of: TupleOrLayout) -> Result<Layout, LayoutError> {
    match of {
        Tuple(shape) => moye_device::layout::try_make_col_major(shape),
        Of(layout) => Ok(layout),
    }
}
