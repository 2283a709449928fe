//! Swizzles, and tables of functions.

use moye_device::layout::{
    ComposedLayout, IntTuple, Layout, LayoutError, Major, Swizzle, SwizzleBytes, try_composition_swizzled,
    try_idx2crd, try_shared_memory_atom,
};

use super::{Group, operations};
use crate::error::EvalError;

/// The maximum number of values of a table.
const LONGEST_TABLE: i64 = 1 << 16;

pub(super) const GROUP: Group = Group {
    title: "Swizzles and tables",
    operations: operations! {
        swizzle(bits: i64, base: i64, shift: i64, index: i64) = swizzled(bits, base, shift, index),
            "Sw<bits,base,shift> of an index";
        swizzle_table(bits: i64, base: i64, shift: i64, count: i64) = swizzle_table(bits, base, shift, count),
            "Sw<bits,base,shift> of 0, 1, ... below count";
        composed_layout(swizzle: Swizzle, offset: i64, layout: Layout) =
            ComposedLayout::try_new(swizzle, offset, layout),
            "Sw<bits,base,shift> o offset o layout";
        composed_layout_table(swizzle: Swizzle, offset: i64, layout: Layout) =
            composed_table(ComposedLayout::try_new(swizzle, offset, layout)),
            "its values at 0, 1, ...";
        shared_memory_atom(contiguous: usize, row: i64, bits: i64) = atom(contiguous, row, bits),
            "for tensor cores: the contiguous mode (0: M or N, 1: K), bytes of a swizzled row, bits of an element";
        composition_swizzled(a: Layout, b: ComposedLayout) = try_composition_swizzled(a, b),
            "a after a composed layout, the swizzle moved past a";
        composition_swizzled_table(a: Layout, b: ComposedLayout) =
            composed_table(try_composition_swizzled(a, b)),
            "its values at 0, 1, ...";
        idx2crd_table(shape: IntTuple) = idx2crd_table(shape), "the coordinates of 0, 1, ... in a shape";
    },
};

/// `value(0), value(1), ...` below `count`.
fn table(
    count: i64,
    value: impl Fn(i64) -> Result<IntTuple, LayoutError>,
) -> Result<Vec<IntTuple>, EvalError> {
    if !(0..=LONGEST_TABLE).contains(&count) {
        return Err(EvalError::Call(format!(
            "a table of {count} values is requested; it may have from 0 to {LONGEST_TABLE}"
        )));
    }
    Ok((0..count).map(value).collect::<Result<_, _>>()?)
}

/// A swizzle permutes the bits of an index, which must not be negative.
fn swizzled(bits: i64, base: i64, shift: i64, index: i64) -> Result<i64, EvalError> {
    let swizzle = Swizzle::try_new(bits, base, shift)?;
    if index < 0 {
        return Err(EvalError::Call(format!("{swizzle} of {index}: an index is at least 0")));
    }
    Ok(swizzle.apply(index))
}

fn swizzle_table(bits: i64, base: i64, shift: i64, count: i64) -> Result<Vec<IntTuple>, EvalError> {
    let swizzle = Swizzle::try_new(bits, base, shift)?;
    table(count, |index| Ok(IntTuple::int(swizzle.apply(index))))
}

/// The shared-memory atom, selected by numbers.
fn atom(contiguous: usize, row: i64, bits: i64) -> Result<ComposedLayout, EvalError> {
    let major = match contiguous {
        0 => Major::Mn,
        1 => Major::K,
        _ => {
            return Err(EvalError::Call(format!(
                "shared_memory_atom: the contiguous mode is {contiguous}; it is 0 (M or N) or 1 (K)"
            )));
        }
    };
    let Some(swizzle) = SwizzleBytes::of_row(row) else {
        return Err(EvalError::Call(format!(
            "shared_memory_atom: the swizzled row has {row} bytes; it has 16 (no swizzle), 32, 64 or 128"
        )));
    };
    Ok(try_shared_memory_atom(major, swizzle, bits)?)
}

fn composed_table(layout: Result<ComposedLayout, LayoutError>) -> Result<Vec<IntTuple>, EvalError> {
    let layout = layout?;
    table(layout.size(), |index| Ok(IntTuple::int(layout.at(index))))
}

fn idx2crd_table(shape: IntTuple) -> Result<Vec<IntTuple>, EvalError> {
    table(shape.try_size()?, |index| try_idx2crd(index, shape))
}
