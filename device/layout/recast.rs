//! Layouts of the same memory with elements of another size.

use super::compose::ceil_div;
use super::fault::{Fault, LayoutErrorKind, tri};
use super::layout::{Layout, checked};
use super::operation::operation;

operation! {
    /// The layout with elements `count` times as large: each group of `count` contiguous elements
    /// becomes one element. Partial groups count: the result reaches exactly the elements
    /// `layout(i) / count`.
    ///
    /// # Errors
    /// If neither a stride nor `count` divides the other, if the strides below `count` sum to
    /// `count` or more, or if one of them is negative: then groups are not aligned with elements.
    ///
    /// ```
    /// use moye_device::layout::{layout, upcast};
    /// assert_eq!(upcast(layout!((8, 4):(1, 8)), 4), layout!((2, 4):(1, 2)));
    /// ```
    upcast / try_upcast(layout: Layout, count: i64) -> Layout = up;

    /// The layout with elements `count` times as small: the first mode of stride 1 with more than
    /// one element steps through the parts of an element, and all other strides are `count` times
    /// as large. The result reaches the parts of each element of `layout`, each as often as
    /// `layout` reaches the element.
    ///
    /// An extent of 1 at stride 1 covers the parts of its single element as well: with one such
    /// mode and no other of stride 1, the rule above holds. With another mode of stride 1 it is
    /// CuTe's form, a layout with more coordinates than parts: `(1,6):(1,1)` by 2 is
    /// `(2,12):(1,1)`. For the parts only, [`coalesce`](super::coalesce) first, or set the stride
    /// of extents of 1 to 0. For every result, [`upcast`] by `count` of each mode is the mode of
    /// `layout`.
    ///
    /// # Errors
    /// If no mode has stride 1, so that no mode can step through the parts, as in CuTe; or if a
    /// stride of -1 runs through elements backwards, and would run through their parts backwards.
    ///
    /// ```
    /// use moye_device::layout::{downcast, layout, upcast};
    /// assert_eq!(downcast(layout!((2, 4):(1, 2)), 4), layout!((8, 4):(1, 8)));
    /// assert_eq!(downcast(layout!((4, 1):(2, 1)), 2), layout!((4, 2):(4, 1)));
    /// let cute = downcast(layout!((1, 6):(1, 1)), 2);
    /// assert_eq!(cute, layout!((2, 12):(1, 1)));
    /// assert_eq!((upcast(cute.mode(0), 2), upcast(cute.mode(1), 2)), (layout!(1:1), layout!(6:1)));
    /// ```
    downcast / try_downcast(layout: Layout, count: i64) -> Layout = down;

    /// The layout of elements of `from_bits` with elements of `to_bits`: [`upcast`] or [`downcast`]
    /// by their ratio, or both if neither is a multiple of the other.
    ///
    /// In that case new elements must exactly cover the old ones, or it is an error: each mode
    /// rounds up separately.
    ///
    /// ```
    /// use moye_device::layout::{layout, recast};
    /// assert_eq!(recast(layout!((8, 4)), 16, 32), layout!((4, 4)));
    /// ```
    recast / try_recast(layout: Layout, from_bits: i64, to_bits: i64) -> Layout = between;
}

pub(crate) const fn up(layout: &Layout, count: i64) -> Result<Layout, Fault> {
    if count < 1 {
        return Err(Fault::Least { what: "count", value: count, least: 1 });
    }
    if layout.is_coordinate() {
        return Err(Fault::HasBasis);
    }
    let mut result = *layout;
    // The largest offset within an element: the sum of the strides below `count`.
    let mut reach = 0i64;
    let mut i = 0;
    while i < layout.leaves() {
        let (Some(stride), sign) = (layout.stride[i].checked_abs(), layout.stride[i].signum()) else {
            return Err(Fault::Overflow);
        };
        if stride != 0 {
            // Also for an extent of 1, as in CuTe: a stride that does not fit is more likely a
            // mistake than unused.
            if stride % count != 0 && count % stride != 0 {
                return Err(Fault::Indivisible { what: "stride", left: stride, right: count });
            }
            if stride < count && layout.shape[i] > 1 {
                if sign < 0 {
                    return Err(Fault::Backwards { stride: -stride, count });
                }
                let within = count / stride;
                let steps = if layout.shape[i] < within { layout.shape[i] } else { within };
                reach = reach.saturating_add((steps - 1) * stride);
            }
            result.shape[i] = ceil_div(layout.shape[i], ceil_div(count, stride));
            result.stride[i] = sign * ceil_div(stride, count);
        }
        i += 1;
    }
    // A sum that carries belongs to another element than its modes indicate.
    if reach >= count {
        return Err(Fault::Straddles { reach, count });
    }
    checked(result)
}

pub(crate) const fn down(layout: &Layout, count: i64) -> Result<Layout, Fault> {
    if count < 1 {
        return Err(Fault::Least { what: "count", value: count, least: 1 });
    }
    if layout.is_coordinate() {
        return Err(Fault::HasBasis);
    }
    if count == 1 {
        return Ok(*layout);
    }
    let mut result = *layout;
    let mut has_parts = false;
    let mut adjacent = false;
    let mut i = 0;
    while i < layout.leaves() {
        if layout.stride[i] == -1 && layout.shape[i] > 1 {
            return Err(Fault::Backwards { stride: -1, count });
        }
        let parts = layout.stride[i] == 1 && (layout.shape[i] == 1 || !has_parts);
        adjacent |= parts;
        has_parts |= parts && layout.shape[i] > 1;
        let grown = if parts { &mut result.shape[i] } else { &mut result.stride[i] };
        *grown = match grown.checked_mul(count) {
            Some(grown) => grown,
            None => return Err(Fault::Overflow),
        };
        i += 1;
    }
    if !adjacent {
        return Err(NOT_ADJACENT);
    }
    let mut builder = Layout::start();
    tri!(builder.push_layout(&result));
    builder.finish()
}

const NOT_ADJACENT: Fault = Fault::Said {
    kind: LayoutErrorKind::Divisibility,
    text: "no mode has stride 1, so that none can go through the parts of an element; a mode 1:1 appended would work",
};

pub(crate) const fn between(layout: &Layout, from_bits: i64, to_bits: i64) -> Result<Layout, Fault> {
    let (count, parts) = tri!(ratio(from_bits, to_bits));
    let result = tri!(down(&tri!(up(layout, count)), parts));
    // If neither size divides the other, CuTe's form rounds up each mode separately.
    if count > 1 && parts > 1 {
        let bits = layout.size() as i128 * from_bits as i128;
        if result.size() as i128 * to_bits as i128 != bits {
            return Err(CUT_ACROSS);
        }
    }
    Ok(result)
}

const CUT_ACROSS: Fault = Fault::Said {
    kind: LayoutErrorKind::Divisibility,
    text: "neither size divides the other, and mode by mode the new elements differ from the touched ones; coalesce the layout \
           first, or go by a size that divides both or that both divide",
};

/// The factor by which a new element is larger, and the number of parts into which it is then
/// split.
pub(crate) const fn ratio(from_bits: i64, to_bits: i64) -> Result<(i64, i64), Fault> {
    if from_bits < 1 || to_bits < 1 {
        let value = if from_bits < 1 { from_bits } else { to_bits };
        return Err(Fault::Least { what: "size of an element in bits", value, least: 1 });
    }
    let divisor = gcd(from_bits, to_bits);
    Ok((to_bits / divisor, from_bits / divisor))
}

/// The greatest common divisor of two positive integers.
pub(crate) const fn gcd(left: i64, right: i64) -> i64 {
    let (mut left, mut right) = (left, right);
    while right != 0 {
        (left, right) = (right, left % right);
    }
    left
}
