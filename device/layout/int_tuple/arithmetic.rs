//! Products, divisions and compact strides of tuples.

use super::super::compose::ceil_div as int_ceil_div;
use super::super::fault::{Fault, tri};
use super::super::operation::operation;
use super::super::profile::{At, MAX_LEAVES, ROOT};
use super::{IntTuple, TupleBuilder};

operation! {
    /// The product of all integers of a tuple: its size.
    product / try_product(tuple: IntTuple) -> i64 = product_of;

    /// The size of each element: `((2,3),4)` becomes `(6,4)`. An integer stays an integer.
    product_each / try_product_each(tuple: IntTuple) -> IntTuple = each_product;

    /// The sum of the products of two tuples' leaves; both must nest alike.
    ///
    /// ```
    /// use moye_device::layout::{inner_product, tuple};
    /// assert_eq!(inner_product(tuple!((3, (1, 2))), tuple!((1, (10, 100)))), 213);
    /// ```
    inner_product / try_inner_product(a: IntTuple, b: IntTuple) -> i64 = inner;

    /// At each leaf the product of the previous leaves: `((2,3),4)` becomes `((1,2),6)`.
    prefix_product / try_prefix_product(shape: IntTuple) -> IntTuple = prefix;

    /// [`prefix_product`] that starts at `init` instead of 1. A tuple as `init` sets a start for
    /// each mode.
    prefix_product_from / try_prefix_product_from(shape: IntTuple, init: IntTuple) -> IntTuple = prefix_from;

    /// The strides of the compact column-major layout of a shape; extents of 1 have stride 0.
    compact_col_major / try_compact_col_major(shape: IntTuple) -> IntTuple = col_major;

    /// The strides of the compact row-major layout of a shape; extents of 1 have stride 0.
    compact_row_major / try_compact_row_major(shape: IntTuple) -> IntTuple = row_major;

    /// The strides of the compact layout of a shape in which the leaf with the smallest `order` is
    /// fastest, then the next smallest, and so on; of equals the leftmost is first. An order at a
    /// tuple of the shape applies to its leaves.
    ///
    /// ```
    /// use moye_device::layout::{compact_order, tuple};
    /// assert_eq!(compact_order(tuple!((2, 3, 4)), tuple!((2, 0, 1))), tuple!((12, 1, 3)));
    /// ```
    compact_order / try_compact_order(shape: IntTuple, order: IntTuple) -> IntTuple = ordered;

    /// A shape divided by `b`, in the order of its leaves: `(4,6) / 8` is `(1,3)`. Tuples divide
    /// element by element.
    ///
    /// # Errors
    /// If an extent and the rest of the divisor do not divide one another.
    shape_div / try_shape_div(a: IntTuple, b: IntTuple) -> IntTuple = shape_divided;

    /// `a` divided by `b`, rounded up, element by element: for two integers, the number of pieces
    /// of `b` that cover `a`. Missing elements of `b` are treated as 1. An integer divides a tuple
    /// leaf by leaf; its rest after the first leaf, also rounded up, divides the second: `(3,4)` by
    /// 5 is `(1,2)`, which is not the number of pieces of 5 that cover 12.
    ///
    /// ```
    /// use moye_device::layout::{ceil_div, tuple};
    /// assert_eq!(ceil_div(tuple!((100, 64)), tuple!((32, 64))), tuple!((4, 1)));
    /// ```
    ceil_div / try_ceil_div(a: IntTuple, b: IntTuple) -> IntTuple = ceil_divided;
}

const fn product_of(tuple: &IntTuple) -> Result<i64, Fault> {
    tuple.product_at(ROOT)
}

pub(crate) const fn each_product(tuple: &IntTuple) -> Result<IntTuple, Fault> {
    let mut builder = TupleBuilder::new();
    if tuple.is_int() {
        tri!(builder.int(tri!(tuple.int_at(0))));
        return Ok(builder.tuple);
    }
    tri!(builder.open(tuple.rank()));
    let mut mode = tuple.profile.first(ROOT);
    let mut i = 0;
    while i < tuple.rank() {
        tri!(builder.int(tri!(tuple.product_at(mode))));
        mode = tuple.profile.next(mode);
        i += 1;
    }
    Ok(builder.tuple)
}

const fn inner(a: &IntTuple, b: &IntTuple) -> Result<i64, Fault> {
    if !a.profile.same(&b.profile) {
        return Err(Fault::Incongruent { what: "the two tuples" });
    }
    let mut sum = 0i64;
    let mut i = 0;
    while i < a.leaves() {
        sum = match tri!(a.int_at(i)).checked_mul(tri!(b.int_at(i))) {
            Some(term) => match sum.checked_add(term) {
                Some(sum) => sum,
                None => return Err(Fault::Overflow),
            },
            None => return Err(Fault::Overflow),
        };
        i += 1;
    }
    Ok(sum)
}

const fn prefix(shape: &IntTuple) -> Result<IntTuple, Fault> {
    prefix_from(shape, &IntTuple::int(1))
}

const fn prefix_from(shape: &IntTuple, init: &IntTuple) -> Result<IntTuple, Fault> {
    let mut builder = TupleBuilder::new();
    tri!(prefix_into(&mut builder, shape, ROOT, init, ROOT));
    Ok(builder.tuple)
}

const fn prefix_into(
    builder: &mut TupleBuilder,
    shape: &IntTuple,
    at: At,
    init: &IntTuple,
    from: At,
) -> Result<(), Fault> {
    if init.profile.is_leaf(from) {
        let mut part = shape.sub(at);
        let mut product = tri!(init.int_at(from.leaf));
        let mut i = 0;
        while i < part.leaves() {
            let extent = tri!(part.int_at(i));
            part.value[i] = product;
            product = match product.checked_mul(extent) {
                Some(product) => product,
                None => return Err(Fault::Overflow),
            };
            i += 1;
        }
        return builder.copy(&part, ROOT);
    }
    let rank = shape.profile.rank(at);
    if shape.profile.is_leaf(at) {
        return Err(Fault::TupleForInt { what: "beginning", modes: init.profile.rank(from) });
    }
    if rank != init.profile.rank(from) {
        return Err(Fault::Ranks { left: rank, right: init.profile.rank(from) });
    }
    tri!(builder.open(rank));
    let (mut mode, mut start) = (shape.profile.first(at), init.profile.first(from));
    let mut i = 0;
    while i < rank {
        tri!(prefix_into(builder, shape, mode, init, start));
        mode = shape.profile.next(mode);
        start = init.profile.next(start);
        i += 1;
    }
    Ok(())
}

const fn col_major(shape: &IntTuple) -> Result<IntTuple, Fault> {
    ranked(shape, &[0; MAX_LEAVES])
}

const fn row_major(shape: &IntTuple) -> Result<IntTuple, Fault> {
    let mut ranks = [0; MAX_LEAVES];
    let mut i = 0;
    while i < MAX_LEAVES {
        ranks[i] = -(i as i64);
        i += 1;
    }
    ranked(shape, &ranks)
}

pub(crate) const fn ordered(shape: &IntTuple, order: &IntTuple) -> Result<IntTuple, Fault> {
    let mut ranks = [0; MAX_LEAVES];
    tri!(spread(&mut ranks, shape, ROOT, order, ROOT));
    ranked(shape, &ranks)
}

/// Sets the order of each leaf under `at`.
const fn spread(
    ranks: &mut [i64; MAX_LEAVES],
    shape: &IntTuple,
    at: At,
    order: &IntTuple,
    from: At,
) -> Result<(), Fault> {
    if order.profile.is_leaf(from) {
        let value = tri!(order.int_at(from.leaf));
        let end = shape.profile.next(at).leaf;
        let mut leaf = at.leaf;
        while leaf < end {
            ranks[leaf] = value;
            leaf += 1;
        }
        return Ok(());
    }
    let rank = shape.profile.rank(at);
    if shape.profile.is_leaf(at) {
        return Err(Fault::TupleForInt { what: "order", modes: order.profile.rank(from) });
    }
    if rank != order.profile.rank(from) {
        return Err(Fault::Ranks { left: rank, right: order.profile.rank(from) });
    }
    let (mut mode, mut part) = (shape.profile.first(at), order.profile.first(from));
    let mut i = 0;
    while i < rank {
        tri!(spread(ranks, shape, mode, order, part));
        mode = shape.profile.next(mode);
        part = order.profile.next(part);
        i += 1;
    }
    Ok(())
}

/// Compact strides, smallest rank first; of equals the leftmost is first.
const fn ranked(shape: &IntTuple, ranks: &[i64; MAX_LEAVES]) -> Result<IntTuple, Fault> {
    let mut stride = *shape;
    let mut done = [false; MAX_LEAVES];
    let mut product = 1i64;
    let mut count = 0;
    while count < shape.leaves() {
        let mut next = MAX_LEAVES;
        let mut i = 0;
        while i < shape.leaves() {
            if !done[i] && (next == MAX_LEAVES || ranks[i] < ranks[next]) {
                next = i;
            }
            i += 1;
        }
        done[next] = true;
        let extent = tri!(shape.int_at(next));
        stride.value[next] = if extent == 1 { 0 } else { product };
        product = match product.checked_mul(extent) {
            Some(product) => product,
            None => return Err(Fault::Overflow),
        };
        count += 1;
    }
    Ok(stride)
}

/// The positive integer at a leaf.
const fn positive(tuple: &IntTuple, leaf: usize) -> Result<i64, Fault> {
    let value = tri!(tuple.int_at(leaf));
    if value < 1 { Err(Fault::Least { what: "divisor or extent", value, least: 1 }) } else { Ok(value) }
}

const fn shape_divided(a: &IntTuple, b: &IntTuple) -> Result<IntTuple, Fault> {
    let mut builder = TupleBuilder::new();
    tri!(divide_into(&mut builder, a, ROOT, b, ROOT, true));
    Ok(builder.tuple)
}

const fn ceil_divided(a: &IntTuple, b: &IntTuple) -> Result<IntTuple, Fault> {
    let mut builder = TupleBuilder::new();
    tri!(divide_into(&mut builder, a, ROOT, b, ROOT, false));
    Ok(builder.tuple)
}

const fn divide_into(
    builder: &mut TupleBuilder,
    a: &IntTuple,
    at: At,
    b: &IntTuple,
    by: At,
    exact: bool,
) -> Result<(), Fault> {
    if b.profile.is_leaf(by) {
        let mut part = a.sub(at);
        let mut rest = tri!(positive(b, by.leaf));
        let mut i = 0;
        while i < part.leaves() {
            let extent = tri!(positive(&part, i));
            if exact && extent % rest != 0 && rest % extent != 0 {
                return Err(Fault::Indivisible { what: "extent", left: extent, right: rest });
            }
            part.value[i] = int_ceil_div(extent, rest);
            rest = int_ceil_div(rest, extent);
            i += 1;
        }
        return builder.copy(&part, ROOT);
    }
    if a.profile.is_leaf(at) {
        // An integer divided by a tuple: by its size.
        let mut part = IntTuple::int(tri!(positive(a, at.leaf)));
        let size = IntTuple::int(tri!(b.product_at(by)));
        let mut inner = TupleBuilder::new();
        tri!(divide_into(&mut inner, &part, ROOT, &size, ROOT, exact));
        part = inner.tuple;
        return builder.copy(&part, ROOT);
    }
    let rank = a.profile.rank(at);
    let parts = b.profile.rank(by);
    if parts > rank || (exact && parts != rank) {
        return Err(Fault::Ranks { left: rank, right: parts });
    }
    tri!(builder.open(rank));
    let (mut mode, mut part) = (a.profile.first(at), b.profile.first(by));
    let mut i = 0;
    while i < rank {
        if i < parts {
            tri!(divide_into(builder, a, mode, b, part, exact));
            part = b.profile.next(part);
        } else {
            tri!(builder.copy(a, mode));
        }
        mode = a.profile.next(mode);
        i += 1;
    }
    Ok(())
}
