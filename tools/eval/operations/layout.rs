//! Layouts: construction, queries and transformations.

use moye_device::layout::{
    ComposedLayout, IntTuple, Layout, LayoutError, Swizzle, Tiler, try_coalesce, try_coalesce_profile,
    try_complement, try_composition, try_composition_swizzled, try_composition_tiler, try_coordinate_of,
    try_coshape, try_crd2idx, try_dice, try_domain_distribute, try_downcast, try_filter, try_filter_profile,
    try_filter_zeros, try_identity_layout, try_left_inverse, try_make_col_major, try_make_layout,
    try_make_layout_like, try_make_layout_tv, try_make_ordered_layout, try_make_row_major,
    try_max_common_layout, try_max_common_vector, try_nullspace, try_recast, try_right_inverse, try_slice,
    try_slice_and_offset, try_slice_coordinate, try_slice_offset, try_upcast,
};

use super::{Group, operations};
use crate::error::EvalError;
use crate::operand::{AnyLayout, Inner, Outer, TupleOrAny};
use crate::value::{Answer, Value};

pub(super) const GROUP: Group = Group {
    title: "Layouts",
    operations: operations! {
        make_layout(shape: IntTuple, stride: Option<IntTuple>) = match stride {
            Some(stride) => try_make_layout(shape, stride),
            None => try_make_col_major(shape),
        }, "shape:stride; without a stride the compact column-major layout";
        make_col_major(shape: IntTuple) = try_make_col_major(shape), "the compact layout, first mode fastest";
        make_row_major(shape: IntTuple) = try_make_row_major(shape), "the compact layout, last mode fastest";
        make_ordered_layout(shape: IntTuple, order: IntTuple) = try_make_ordered_layout(shape, order),
            "the compact layout, the extent of the smallest order fastest";
        make_layout_like(layout: Layout) = try_make_layout_like(layout),
            "the compact layout whose strides have the same order";
        identity_layout(shape: IntTuple) = try_identity_layout(shape),
            "each coordinate to itself, as nested, with strides such as 1@0, or 1@0@1 in mode 0 of mode 1";
        make_layout_tv(threads: Layout, values: Layout) = thread_value(threads, values),
            "(tile, layout) of the thread-value layout of a thread and a value layout";
        tv_coordinates(threads: Layout, values: Layout) =
            try_make_layout_tv(threads, values).and_then(|tv| tv.try_coordinates()),
            "its (thread, value) to the coordinate in the tile, with strides such as 1@0";
        shape(layout: AnyLayout) = match layout {
            AnyLayout::Layout(layout) => layout.shape(),
            AnyLayout::ComposedLayout(layout) => layout.shape(),
        }, "its shape";
        stride(layout: Layout) = layout.stride(), "its stride";
        size(of: TupleOrAny) = match of {
            TupleOrAny::IntTuple(tuple) => tuple.try_size(),
            TupleOrAny::Layout(layout) => Ok(layout.size()),
            TupleOrAny::ComposedLayout(layout) => Ok(layout.size()),
        }, "the number of coordinates: the product of the shape";
        cosize(layout: AnyLayout) = match layout {
            AnyLayout::Layout(layout) => layout.try_cosize(),
            AnyLayout::ComposedLayout(layout) => Ok(layout.cosize()),
        }, "one more than the largest index; of strides such as 1@0 the size of the coshape";
        coshape(layout: AnyLayout) = match layout {
            AnyLayout::Layout(layout) => try_coshape(layout).answer(),
            AnyLayout::ComposedLayout(layout) => layout.cosize().answer(),
        }, "the smallest shape that has all its values: of strides such as 1@0 a tuple, otherwise the cosize";
        crd2idx(layout: AnyLayout, coord: IntTuple) = match layout {
            AnyLayout::Layout(layout) if layout.is_coordinate() => try_coordinate_of(layout, coord).answer(),
            AnyLayout::Layout(layout) => try_crd2idx(layout, coord).answer(),
            AnyLayout::ComposedLayout(layout) => layout.try_crd2idx(coord).answer(),
        }, "the index of a coordinate; of strides such as 1@0 the coordinate. Also layout(coord)";
        coordinate_of(layout: Layout, coord: IntTuple) = try_coordinate_of(layout, coord),
            "the coordinate that strides such as 1@0 make of a coordinate";
        along(layout: Layout, basis: usize) = layout.along(basis),
            "the layout of element k of the coordinates: strides along basis vector k as integers, 0 for the others";
        slice(layout: AnyLayout, coord: IntTuple) = match layout {
            AnyLayout::Layout(layout) => try_slice(layout, coord).answer(),
            AnyLayout::ComposedLayout(layout) => layout.try_slice(coord).answer(),
        }, "the modes under the wildcards of a coordinate";
        slice_offset(layout: Layout, coord: IntTuple) = slice_offset(layout, coord),
            "the index at which a slice begins; of strides such as 1@0 the coordinate";
        slice_coordinate(layout: Layout, coord: IntTuple) = try_slice_coordinate(layout, coord),
            "the coordinate at which a slice begins, of strides such as 1@0";
        slice_and_offset(coord: IntTuple, layout: Layout) = slice_and_offset(layout, coord),
            "(slice, slice_offset)";
        dice(layout: Layout, coord: IntTuple) = try_dice(layout, coord),
            "the modes under the integers of a coordinate";
        coalesce(layout: AnyLayout, profile: Option<IntTuple>) = coalesce(layout, profile),
            "the same function with as few modes as possible, of each mode at a leaf of the profile";
        coalesce_profile(layout: AnyLayout, profile: IntTuple) = match layout {
            AnyLayout::Layout(layout) => try_coalesce_profile(layout, profile).answer(),
            AnyLayout::ComposedLayout(layout) => layout.try_coalesce_profile(profile).answer(),
        }, "coalesce with a profile";
        filter(layout: AnyLayout, profile: Option<IntTuple>) = match (layout, profile) {
            (AnyLayout::Layout(layout), Some(profile)) => try_filter_profile(layout, profile).answer(),
            (AnyLayout::Layout(layout), None) => try_filter(layout).answer(),
            (AnyLayout::ComposedLayout(layout), Some(profile)) => layout.try_filter_profile(profile).answer(),
            (AnyLayout::ComposedLayout(layout), None) => layout.try_filter().answer(),
        }, "without modes of stride 0 and extent 1, of each mode at a leaf of the profile";
        filter_profile(layout: AnyLayout, profile: IntTuple) = match layout {
            AnyLayout::Layout(layout) => try_filter_profile(layout, profile).answer(),
            AnyLayout::ComposedLayout(layout) => layout.try_filter_profile(profile).answer(),
        }, "filter with a profile";
        filter_zeros(layout: Layout) = try_filter_zeros(layout), "modes of stride 0 get the extent 1";
        composition(a: Outer, b: Inner) = composition(a, b), "R with R(i) == a(b(i)); by mode where b is a tuple";
        composition_tiler(layout: AnyLayout, tiler: Tiler) = by_tiler(layout, tiler), "composition with a tiler";
        complement(layout: Layout, cotarget: Option<IntTuple>) = complement(layout, cotarget),
            "what it leaves out below an integer, a shape or its cosize; of a padded layout not the ends of its gaps";
        right_inverse(layout: AnyLayout) = match layout {
            AnyLayout::Layout(layout) => try_right_inverse(layout).answer(),
            AnyLayout::ComposedLayout(layout) => layout.try_right_inverse().answer(),
        }, "R with layout(R(i)) == i, as large as can be";
        left_inverse(layout: AnyLayout) = match layout {
            AnyLayout::Layout(layout) => try_left_inverse(layout).answer(),
            AnyLayout::ComposedLayout(layout) => layout.try_left_inverse().answer(),
        }, "L with L(layout(i)) == i; where strides are 0, layout(L(layout(i))) == layout(i)";
        nullspace(layout: Layout) = try_nullspace(layout), "the coordinates that strides of 0 map to 0";
        max_common_layout(a: AnyLayout, b: AnyLayout) = match (a, b) {
            (AnyLayout::Layout(a), AnyLayout::Layout(b)) => try_max_common_layout(a, b),
            (a, b) => composed(a).and_then(|a| a.try_max_common_layout(composed(b)?)),
        }, "R with a(R(i)) == i == b(R(i)), counted from a(0) and b(0), along b's right inverse";
        max_common_vector(a: AnyLayout, b: AnyLayout) = match (a, b) {
            (AnyLayout::Layout(a), AnyLayout::Layout(b)) => try_max_common_vector(a, b),
            (a, b) => composed(a).and_then(|a| a.try_max_common_vector(composed(b)?)),
        }, "the size of max_common_layout";
        domain_distribute(shape: IntTuple, count: i64) = try_domain_distribute(shape, count),
            "up to count coordinates of a shape, spread over its modes";
        upcast(layout: AnyLayout, count: i64) = match layout {
            AnyLayout::Layout(layout) => try_upcast(layout, count).answer(),
            AnyLayout::ComposedLayout(layout) => layout.try_upcast(count).answer(),
        }, "in elements count times as large";
        downcast(layout: AnyLayout, count: i64) = match layout {
            AnyLayout::Layout(layout) => try_downcast(layout, count).answer(),
            AnyLayout::ComposedLayout(layout) => layout.try_downcast(count).answer(),
        }, "in elements of which count make one; an extent of 1 at stride 1 goes through the parts too";
        recast(layout: AnyLayout, from_bits: i64, to_bits: i64) = match layout {
            AnyLayout::Layout(layout) => try_recast(layout, from_bits, to_bits).answer(),
            AnyLayout::ComposedLayout(layout) => layout.try_recast(from_bits, to_bits).answer(),
        }, "in elements of another number of bits: upcast, downcast or both";
        with_shape(layout: Layout, shape: IntTuple) = layout.try_with_shape(shape),
            "with another shape of the same size";
    },
};

/// The complement below an integer, or below the size of a shape.
fn complement(layout: Layout, cotarget: Option<IntTuple>) -> Result<Layout, LayoutError> {
    let cotarget = match cotarget {
        Some(shape) => shape.try_size()?,
        None => layout.try_cosize()?,
    };
    try_complement(layout, cotarget)
}

fn coalesce(layout: AnyLayout, profile: Option<IntTuple>) -> Result<Value, EvalError> {
    match (layout, profile) {
        (AnyLayout::Layout(layout), None) => try_coalesce(layout).answer(),
        (AnyLayout::Layout(layout), Some(profile)) => try_coalesce_profile(layout, profile).answer(),
        (AnyLayout::ComposedLayout(layout), None) => layout.try_coalesce().answer(),
        (AnyLayout::ComposedLayout(layout), Some(profile)) => layout.try_coalesce_profile(profile).answer(),
    }
}

fn composition(a: Outer, b: Inner) -> Result<Value, EvalError> {
    match (a, b) {
        (Outer::Layout(a), Inner::Tiler(b)) => by_tiler(AnyLayout::Layout(a), b),
        (Outer::ComposedLayout(a), Inner::Tiler(b)) => by_tiler(AnyLayout::ComposedLayout(a), b),
        (Outer::Layout(a), Inner::ComposedLayout(b)) => try_composition_swizzled(a, b).answer(),
        (Outer::Swizzle(a), Inner::Tiler(b)) => match b.as_layout() {
            Some(b) => ComposedLayout::try_new(a, 0, b).answer(),
            None => {
                Err(EvalError::Call(format!("composition({a}, {b}): a swizzle has no modes to compose with")))
            }
        },
        (Outer::Swizzle(a), Inner::ComposedLayout(b)) => a.try_composition_swizzled(b).answer(),
        (Outer::ComposedLayout(a), Inner::ComposedLayout(b)) => a.try_composition_swizzled(b).answer(),
        (Outer::Swizzle(a), Inner::Swizzle(b)) => a.try_composition(b).answer(),
        // A swizzle without a layout maps the indices of the next operand.
        (Outer::Layout(a), Inner::Swizzle(b)) => try_composition_swizzled(a, of_size(b, a.size())?).answer(),
        (Outer::ComposedLayout(a), Inner::Swizzle(b)) => {
            a.try_composition_swizzled(of_size(b, a.size())?).answer()
        }
    }
}

/// A swizzle of the indices below `size`.
fn of_size(swizzle: Swizzle, size: i64) -> Result<ComposedLayout, LayoutError> {
    ComposedLayout::try_new(swizzle, 0, try_make_col_major(IntTuple::int(size))?)
}

/// A layout, plain or swizzled, as a composed one.
fn composed(layout: AnyLayout) -> Result<ComposedLayout, LayoutError> {
    match layout {
        AnyLayout::Layout(layout) => ComposedLayout::try_plain(layout),
        AnyLayout::ComposedLayout(layout) => Ok(layout),
    }
}

fn by_tiler(a: AnyLayout, tiler: Tiler) -> Result<Value, EvalError> {
    match (a, tiler.as_layout()) {
        (AnyLayout::Layout(a), Some(b)) => try_composition(a, b).answer(),
        (AnyLayout::Layout(a), None) => try_composition_tiler(a, tiler).answer(),
        (AnyLayout::ComposedLayout(a), Some(b)) => a.try_composition(b).answer(),
        (AnyLayout::ComposedLayout(a), None) => a.try_composition_tiler(tiler).answer(),
    }
}

fn slice_offset(layout: Layout, coord: IntTuple) -> Result<Value, EvalError> {
    match layout.is_coordinate() {
        true => try_slice_coordinate(layout, coord).answer(),
        false => try_slice_offset(layout, coord).answer(),
    }
}

fn slice_and_offset(layout: Layout, coord: IntTuple) -> Result<Vec<Value>, EvalError> {
    if layout.is_coordinate() {
        return Ok(vec![try_slice(layout, coord)?.into(), try_slice_coordinate(layout, coord)?.into()]);
    }
    let (slice, offset) = try_slice_and_offset(layout, coord)?;
    Ok(vec![slice.into(), offset.into()])
}

fn thread_value(threads: Layout, values: Layout) -> Result<Vec<Value>, LayoutError> {
    let tv = try_make_layout_tv(threads, values)?;
    Ok(vec![tv.tile.into(), tv.layout.into()])
}
