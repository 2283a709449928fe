//! Shapes, strides and coordinates.

use moye_device::layout::{
    IntTuple, LayoutError, colex_less, compatible, congruent, elem_less, lex_less, try_ceil_div,
    try_compact_col_major, try_compact_order, try_compact_row_major, try_crd2crd, try_crd2crd_from,
    try_idx2crd, try_idx2crd_strided, try_increment, try_inner_product, try_prefix_product,
    try_prefix_product_from, try_product, try_product_each, try_shape_div, weakly_compatible,
    weakly_congruent,
};

use super::{Group, operations};

pub(super) const GROUP: Group = Group {
    title: "Shapes, strides and coordinates",
    operations: operations! {
        product(tuple: IntTuple) = try_product(tuple), "the product of all integers";
        product_each(tuple: IntTuple) = try_product_each(tuple), "the product of each element";
        inner_product(a: IntTuple, b: IntTuple) = try_inner_product(a, b), "the sum of the products, leaf by leaf";
        prefix_product(shape: IntTuple, init: Option<IntTuple>) = match init {
            Some(init) => try_prefix_product_from(shape, init),
            None => try_prefix_product(shape),
        }, "at each leaf the product of those before it, from init (or 1)";
        shape_div(a: IntTuple, b: IntTuple) = try_shape_div(a, b), "the shape that is left of a after division by b";
        ceil_div(a: IntTuple, b: IntTuple) = try_ceil_div(a, b), "how many pieces of b cover a";
        compact_col_major(shape: IntTuple) = try_compact_col_major(shape), "strides, first mode fastest";
        compact_row_major(shape: IntTuple) = try_compact_row_major(shape), "strides, last mode fastest";
        compact_order(shape: IntTuple, order: IntTuple) = try_compact_order(shape, order),
            "strides, the extent of the smallest order fastest";
        idx2crd(index: i64, shape: IntTuple, stride: Option<IntTuple>) = match stride {
            Some(stride) => try_idx2crd_strided(index, shape, stride),
            None => try_idx2crd(index, shape),
        }, "the coordinate of an index";
        crd2crd(coord: IntTuple, shape: IntTuple, from: Option<IntTuple>) = crd2crd(coord, shape, from),
            "the coordinate as one of the shape; `from` is its own shape";
        increment(coord: IntTuple, shape: IntTuple) = try_increment(coord, shape),
            "the coordinate after this one; after the last one, the last extent counts as unbounded";
        congruent(a: IntTuple, b: IntTuple) = congruent(a, b), "whether both have the same nesting";
        weakly_congruent(a: IntTuple, b: IntTuple) = weakly_congruent(a, b), "whether b nests as a, or deeper";
        compatible(a: IntTuple, b: IntTuple) = compatible(a, b), "whether each coordinate of a is one of b";
        weakly_compatible(a: IntTuple, b: IntTuple) = weakly_compatible(a, b),
            "as compatible, where sizes of b may be multiples of those of a";
        elem_less(a: IntTuple, b: IntTuple) = elem_less(a, b), "whether each element is smaller";
        lex_less(a: IntTuple, b: IntTuple) = lex_less(a, b), "whether a is before b, first element first";
        colex_less(a: IntTuple, b: IntTuple) = colex_less(a, b), "whether a is before b, last element first";
    },
};

fn crd2crd(coord: IntTuple, shape: IntTuple, from: Option<IntTuple>) -> Result<IntTuple, LayoutError> {
    match from {
        Some(from) => try_crd2crd_from(coord, from, shape),
        None => try_crd2crd(coord, shape),
    }
}
