//! Layouts built from shapes.

use super::basis::{WHOLE, element, extended};
use super::coalesce::zeros_filtered;
use super::fault::{Fault, tri};
use super::int_tuple::arithmetic::ordered;
use super::int_tuple::{IntTuple, NO_BASIS, size_times};
use super::layout::{Layout, of_shape_and_stride};
use super::operation::operation;
use super::profile::{At, ROOT};

operation! {
    /// The compact column-major layout of a shape: the first extent has stride 1. Extents of 1 have
    /// stride 0, as in CuTe.
    ///
    /// ```
    /// use moye_device::layout::{layout, make_col_major, tuple};
    /// assert_eq!(make_col_major(tuple!((4, (2, 3)))), layout!((4, (2, 3)):(1, (4, 8))));
    /// ```
    make_col_major / try_make_col_major(shape: IntTuple) -> Layout = col_major;

    /// The compact row-major layout of a shape: the last extent has stride 1.
    ///
    /// ```
    /// use moye_device::layout::{layout, make_row_major, tuple};
    /// assert_eq!(make_row_major(tuple!((4, (2, 3)))), layout!((4, (2, 3)):(6, (3, 1))));
    /// ```
    make_row_major / try_make_row_major(shape: IntTuple) -> Layout = row_major;

    /// The compact layout of a shape in which the extent with the smallest `order` is fastest: see
    /// [`compact_order`](super::compact_order).
    ///
    /// ```
    /// use moye_device::layout::{layout, make_ordered_layout, tuple};
    /// assert_eq!(make_ordered_layout(tuple!((3, 5)), tuple!((1, 0))), layout!((3, 5):(5, 1)));
    /// ```
    make_ordered_layout / try_make_ordered_layout(shape: IntTuple, order: IntTuple) -> Layout = of_order;

    /// The compact layout of the same shape whose strides have the same order as those of `layout`.
    /// Strides of 0 stay 0: broadcast modes stay broadcast.
    ///
    /// ```
    /// use moye_device::layout::{layout, make_layout_like};
    /// assert_eq!(make_layout_like(layout!((4, 2, 8):(100, 0, 7))), layout!((4, 2, 8):(8, 0, 1)));
    /// ```
    make_layout_like / try_make_layout_like(layout: Layout) -> Layout = like;

    /// The layout of coordinates of a shape: it maps each coordinate to itself, and an integer to
    /// the coordinate of that index, nested like the shape.
    ///
    /// Its strides are along basis vectors, `1@0` in mode 0, `1@0@1` in mode 0 of mode 1 (see
    /// [`Basis`](super::Basis)); the coordinate of an integer shape is the integer, and its stride
    /// 1, as in CuTe. Composition, divides and partitions apply to it like to any layout, and then
    /// it maps each element to its coordinates, which the predicates of ragged tiles need.
    ///
    /// ```
    /// use moye_device::layout::{identity_layout, tiler, tuple, zipped_divide};
    /// let tiles = zipped_divide(identity_layout(tuple!((10, 6))), tiler!((4, 4)));
    /// assert_eq!(tiles.to_string(), "((4,4),(3,2)):((1@0,1@1),(4@0,4@1))");
    /// assert_eq!(identity_layout(tuple!((4, (2, 3)))).to_string(), "(4,(2,3)):(1@0,(1@0@1,1@1@1))");
    /// ```
    ///
    /// For one integer per mode, independent of the nesting: the identity of the modes' sizes, with
    /// the original shape.
    ///
    /// ```
    /// use moye_device::layout::{identity_layout, product_each, tuple};
    /// let shape = tuple!((4, (2, 3)));
    /// let coordinates = identity_layout(product_each(shape)).with_shape(shape);
    /// assert_eq!(coordinates.to_string(), "(4,(2,3)):(1@0,(1@1,2@1))");
    /// ```
    identity_layout / try_identity_layout(shape: IntTuple) -> Layout = identity;
}

pub(crate) const fn col_major(shape: &IntTuple) -> Result<Layout, Fault> {
    compact(shape, true)
}

const fn of_order(shape: &IntTuple, order: &IntTuple) -> Result<Layout, Fault> {
    of_shape_and_stride(shape, &tri!(ordered(shape, order)))
}

const fn like(layout: &Layout) -> Result<Layout, Fault> {
    if layout.is_coordinate() {
        return Err(Fault::HasBasis);
    }
    let kept = tri!(zeros_filtered(layout)).shape();
    let mut order = layout.stride();
    let mut i = 0;
    while i < order.leaves() {
        order.value[i] = order.value[i].saturating_abs();
        i += 1;
    }
    of_shape_and_stride(&layout.shape(), &tri!(ordered(&kept, &order)))
}

const fn row_major(shape: &IntTuple) -> Result<Layout, Fault> {
    compact(shape, false)
}

const fn compact(shape: &IntTuple, first_is_fastest: bool) -> Result<Layout, Fault> {
    let mut stride = *shape;
    let mut product = 1i64;
    let mut i = 0;
    while i < shape.leaves() {
        let leaf = if first_is_fastest { i } else { shape.leaves() - 1 - i };
        let extent = tri!(shape.int_at(leaf));
        stride.value[leaf] = if extent == 1 { 0 } else { product };
        product = tri!(size_times(product, extent));
        i += 1;
    }
    of_shape_and_stride(shape, &stride)
}

pub(crate) const fn identity(shape: &IntTuple) -> Result<Layout, Fault> {
    let mut builder = Layout::start();
    tri!(unit_into(&mut builder, shape, ROOT, WHOLE));
    builder.finish()
}

/// Adds the part of the shape at `at`, with each integer along its place, which is within `place`.
/// Extents of 1 are along theirs too, so that every coordinate nests like the shape.
const fn unit_into(builder: &mut Layout, shape: &IntTuple, at: At, place: u32) -> Result<(), Fault> {
    if shape.profile.is_leaf(at) {
        let extent = tri!(shape.int_at(at.leaf));
        return builder.push_leaf(extent, 1, if place == WHOLE { NO_BASIS } else { place });
    }
    let rank = shape.profile.rank(at);
    tri!(builder.push_tuple(rank));
    let mut mode = shape.profile.first(at);
    let mut i = 0;
    while i < rank {
        tri!(unit_into(builder, shape, mode, tri!(extended(place, i))));
        mode = shape.profile.next(mode);
        i += 1;
    }
    Ok(())
}

/// The coordinates of a shape with one integer for each of its modes: for a nested mode its
/// colexicographic index. This is the form for tensors, whose axes are the modes.
pub(crate) const fn mode_coordinates(shape: &IntTuple) -> Result<Layout, Fault> {
    let mut builder = Layout::start();
    if shape.is_int() {
        tri!(coordinate_into(&mut builder, shape, ROOT, element(0)));
        return builder.finish();
    }
    let rank = shape.rank();
    tri!(builder.push_tuple(rank));
    let mut mode = shape.profile.first(ROOT);
    let mut i = 0;
    while i < rank {
        tri!(coordinate_into(&mut builder, shape, mode, element(i)));
        mode = shape.profile.next(mode);
        i += 1;
    }
    builder.finish()
}

/// Adds the compact column-major mode of the shape at `at`, along `basis`.
const fn coordinate_into(builder: &mut Layout, shape: &IntTuple, at: At, basis: u32) -> Result<(), Fault> {
    let sub = shape.sub(at);
    let mut mode = tri!(compact(&sub, true));
    let mut i = 0;
    while i < mode.leaves() {
        if mode.stride[i] == 0 && mode.leaves() == 1 {
            mode.stride[i] = 1;
        }
        mode.basis[i] = if mode.stride[i] == 0 { NO_BASIS } else { basis };
        i += 1;
    }
    builder.push_layout(&mode)
}
