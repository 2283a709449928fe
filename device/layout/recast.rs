//! Layouts of the same memory in elements of another size.

use super::compose::ceil_div;
use super::error::{Fault, tri};
use super::layout::{Layout, checked};
use super::operation::operation;

operation! {
    /// The layout in elements `count` times as large: each group of `count` elements that are next to one another
    /// becomes one element. Groups that are touched in part count.
    ///
    /// # Errors
    /// Where a stride and `count` do not divide one another, so that groups are not aligned.
    ///
    /// ```
    /// use moye_device::layout::{layout, upcast};
    /// assert_eq!(upcast(layout!((8, 4):(1, 8)), 4), layout!((2, 4):(1, 2)));
    /// ```
    upcast / try_upcast(layout: Layout, count: i64) -> Layout = up;

    /// The layout in elements of which `count` make one of the old: the first mode of stride 1 gets the parts. Without
    /// such a mode, the result has the first part of each element.
    ///
    /// An extent of 1 at stride 1 gets them too, as in CuTe: beside another such mode, the result has elements more
    /// than once. Give extents of 1 the stride 0, or [`coalesce`](super::coalesce) first, where that matters.
    ///
    /// ```
    /// use moye_device::layout::{downcast, layout};
    /// assert_eq!(downcast(layout!((2, 4):(1, 2)), 4), layout!((8, 4):(1, 8)));
    /// ```
    downcast / try_downcast(layout: Layout, count: i64) -> Layout = down;

    /// The layout of elements of `from_bits` in elements of `to_bits`: [`upcast`] or [`downcast`] by their ratio, or
    /// both where neither is a multiple of the other.
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
    let mut i = 0;
    while i < layout.leaves() {
        let (Some(stride), sign) = (layout.stride[i].checked_abs(), layout.stride[i].signum()) else {
            return Err(Fault::Overflow);
        };
        if stride != 0 {
            // Also of an extent of 1, as in CuTe: a stride that does not fit is more likely a mistake than unused.
            if stride % count != 0 && count % stride != 0 {
                return Err(Fault::Indivisible { what: "stride", left: stride, right: count });
            }
            result.shape[i] = ceil_div(layout.shape[i], ceil_div(count, stride));
            result.stride[i] = sign * ceil_div(stride, count);
        }
        i += 1;
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
    let mut result = *layout;
    let mut has_parts = false;
    let mut i = 0;
    while i < layout.leaves() {
        let parts = matches!(layout.stride[i], 1 | -1) && (layout.shape[i] == 1 || !has_parts);
        has_parts |= parts && layout.shape[i] > 1;
        let grown = if parts { &mut result.shape[i] } else { &mut result.stride[i] };
        *grown = match grown.checked_mul(count) {
            Some(grown) => grown,
            None => return Err(Fault::Overflow),
        };
        i += 1;
    }
    let mut builder = Layout::start();
    tri!(builder.push_layout(&result));
    builder.finish()
}

pub(crate) const fn between(layout: &Layout, from_bits: i64, to_bits: i64) -> Result<Layout, Fault> {
    let (count, parts) = tri!(ratio(from_bits, to_bits));
    down(&tri!(up(layout, count)), parts)
}

/// By how many old elements a new one is larger, and into how many parts it is then cut.
pub(crate) const fn ratio(from_bits: i64, to_bits: i64) -> Result<(i64, i64), Fault> {
    if from_bits < 1 || to_bits < 1 {
        let value = if from_bits < 1 { from_bits } else { to_bits };
        return Err(Fault::Least { what: "size of an element in bits", value, least: 1 });
    }
    let divisor = gcd(from_bits, to_bits);
    Ok((to_bits / divisor, from_bits / divisor))
}

/// The greatest common divisor of two positive numbers.
pub(crate) const fn gcd(left: i64, right: i64) -> i64 {
    let (mut left, mut right) = (left, right);
    while right != 0 {
        (left, right) = (right, left % right);
    }
    left
}
