//! Coordinates of a shape.

use super::super::fault::{Fault, tri};
use super::super::operation::operation;
use super::super::profile::{At, ROOT};
use super::{IntTuple, TupleBuilder};

operation! {
    /// The coordinate of a shape with the colexicographic index `index`: the first extent is
    /// fastest. Past the size, the last extent is treated as unbounded, as in CuTe.
    ///
    /// ```
    /// use moye_device::layout::{idx2crd, tuple};
    /// assert_eq!(idx2crd(7, tuple!((3, (2, 3)))), tuple!((1, (0, 1))));
    /// ```
    idx2crd / try_idx2crd(index: i64, shape: IntTuple) -> IntTuple = of_index;

    /// The coordinate at which a layout of this shape and stride holds `index`, digit by digit:
    /// `index / stride` modulo the extent. It is the coordinate of `index` if the layout is
    /// compact.
    idx2crd_strided / try_idx2crd_strided(index: i64, shape: IntTuple, stride: IntTuple) -> IntTuple = of_strided;

    /// A coordinate in the nesting of `shape`: an integer at a tuple of the shape becomes a
    /// coordinate of that tuple. For a tuple at an integer, see [`crd2crd_from`].
    crd2crd / try_crd2crd(coord: IntTuple, shape: IntTuple) -> IntTuple = renested;

    /// The coordinate of the shape `to` with the same index as `coord` in the shape `from`.
    crd2crd_from / try_crd2crd_from(coord: IntTuple, from: IntTuple, to: IntTuple) -> IntTuple = converted;

    /// The coordinate after `coord` in a shape, with the first extent fastest. Past the size, the
    /// last extent is treated as unbounded, as in [`idx2crd`] and in CuTe: a loop over coordinates
    /// ends when their last integer reaches the shape's.
    ///
    /// ```
    /// use moye_device::layout::{increment, tuple};
    /// assert_eq!(increment(tuple!((2, 0)), tuple!((3, 4))), tuple!((0, 1)));
    /// assert_eq!(increment(tuple!((2, 3)), tuple!((3, 4))), tuple!((0, 4)));
    /// ```
    ///
    /// # Errors
    /// If an integer of the coordinate is negative, or an integer before the last is not below its
    /// extent.
    increment / try_increment(coord: IntTuple, shape: IntTuple) -> IntTuple = next;
}

const fn extents(shape: &IntTuple) -> Result<(), Fault> {
    let mut i = 0;
    while i < shape.leaves() {
        let extent = tri!(shape.int_at(i));
        if extent < 1 {
            return Err(Fault::Extent { extent });
        }
        i += 1;
    }
    Ok(())
}

const fn of_index(index: i64, shape: &IntTuple) -> Result<IntTuple, Fault> {
    tri!(extents(shape));
    if index < 0 {
        return Err(Fault::Least { what: "index", value: index, least: 0 });
    }
    let mut coord = *shape;
    let mut rest = index;
    let mut i = 0;
    while i < shape.leaves() {
        let is_last = i + 1 == shape.leaves();
        coord.value[i] = if is_last { rest } else { rest % shape.value[i] };
        rest /= shape.value[i];
        i += 1;
    }
    Ok(coord)
}

const fn of_strided(index: i64, shape: &IntTuple, stride: &IntTuple) -> Result<IntTuple, Fault> {
    tri!(extents(shape));
    if !shape.profile.same(&stride.profile) {
        return Err(Fault::Incongruent { what: "shape and stride" });
    }
    if index < 0 {
        return Err(Fault::Least { what: "index", value: index, least: 0 });
    }
    let mut coord = *shape;
    let mut i = 0;
    while i < shape.leaves() {
        let step = tri!(stride.int_at(i));
        coord.value[i] = if shape.value[i] == 1 {
            0
        } else if step < 1 {
            return Err(Fault::Least { what: "stride", value: step, least: 1 });
        } else {
            index / step % shape.value[i]
        };
        i += 1;
    }
    Ok(coord)
}

const fn renested(coord: &IntTuple, shape: &IntTuple) -> Result<IntTuple, Fault> {
    tri!(extents(shape));
    let mut builder = TupleBuilder::new();
    tri!(renest_into(&mut builder, coord, ROOT, shape, ROOT));
    Ok(builder.tuple)
}

const fn renest_into(
    builder: &mut TupleBuilder,
    coord: &IntTuple,
    crd: At,
    shape: &IntTuple,
    at: At,
) -> Result<(), Fault> {
    if coord.profile.is_leaf(crd) {
        let index = tri!(coord.int_at(crd.leaf));
        return builder.copy(&tri!(of_index(index, &shape.sub(at))), ROOT);
    }
    let rank = shape.profile.rank(at);
    if shape.profile.is_leaf(at) {
        return Err(Fault::TupleForInt { what: "coordinate", modes: coord.profile.rank(crd) });
    }
    if rank != coord.profile.rank(crd) {
        return Err(Fault::CoordinateRank { given: coord.profile.rank(crd), rank });
    }
    tri!(builder.open(rank));
    let (mut part, mut mode) = (coord.profile.first(crd), shape.profile.first(at));
    let mut i = 0;
    while i < rank {
        tri!(renest_into(builder, coord, part, shape, mode));
        part = coord.profile.next(part);
        mode = shape.profile.next(mode);
        i += 1;
    }
    Ok(())
}

const fn converted(coord: &IntTuple, from: &IntTuple, to: &IntTuple) -> Result<IntTuple, Fault> {
    let full = tri!(renested(coord, from));
    let mut index = 0i64;
    let mut product = 1i64;
    let mut i = 0;
    while i < full.leaves() {
        index = match full.value[i].checked_mul(product) {
            Some(part) => match index.checked_add(part) {
                Some(index) => index,
                None => return Err(Fault::Overflow),
            },
            None => return Err(Fault::Overflow),
        };
        product = match product.checked_mul(from.value[i]) {
            Some(product) => product,
            None => return Err(Fault::Overflow),
        };
        i += 1;
    }
    of_index(index, to)
}

const fn next(coord: &IntTuple, shape: &IntTuple) -> Result<IntTuple, Fault> {
    tri!(extents(shape));
    if !coord.profile.same(&shape.profile) {
        return Err(Fault::Incongruent { what: "coordinate and shape" });
    }
    let mut i = 0;
    while i < coord.leaves() {
        tri!(coord.int_at(i));
        i += 1;
    }
    if let Some(leaf) = beyond(coord, shape) {
        let (value, extent) = (coord.value[leaf], shape.value[leaf]);
        // The last extent is treated as unbounded.
        return Err(match leaf + 1 == coord.leaves() {
            true => Fault::Least { what: "last integer", value, least: 0 },
            false => Fault::Coordinate { value, extent, most: extent - 1 },
        });
    }
    let mut result = *coord;
    i = 0;
    while i < coord.leaves() {
        let (value, last) = (coord.value[i], i + 1 == coord.leaves());
        if value < shape.value[i] - 1 || last {
            result.value[i] = match value.checked_add(1) {
                Some(value) => value,
                None => return Err(Fault::Overflow),
            };
            return Ok(result);
        }
        result.value[i] = 0;
        i += 1;
    }
    Ok(result)
}

/// The first integer of a coordinate that is not within the shape, whose last extent is unbounded.
pub(crate) const fn beyond(coord: &IntTuple, shape: &IntTuple) -> Option<usize> {
    let mut i = 0;
    while i < coord.leaves() {
        if coord.value[i] < 0 || (coord.value[i] >= shape.value[i] && i + 1 < coord.leaves()) {
            return Some(i);
        }
        i += 1;
    }
    None
}
