//! Inverses of composed layouts, and the common part of two.

use super::coalesce::coalesce_into;
use super::common::common_into;
use super::compose::composed;
use super::composed::ComposedLayout;
use super::fault::{Fault, tri};
use super::int_tuple::NO_BASIS;
use super::inverse::{left_into, right_into};
use super::layout::Layout;
use super::operation::method;
use super::recast::gcd;
use super::swizzle::Swizzle;
use super::swizzle_past::moved_past;

impl ComposedLayout {
    method! {
        /// The composed layout `R` with `self(R(i)) == i` for each `i` below its size: the layout's
        /// [`right_inverse()`](super::right_inverse()) after the swizzle, which is its own inverse.
        ///
        /// ```
        /// use moye_device::layout::{ComposedLayout, Swizzle, layout};
        /// let rows = ComposedLayout::new(Swizzle::new(1, 0, 2), 0, layout!((2, 4):(4, 1)));
        /// let inverse = rows.right_inverse();
        /// assert_eq!(inverse.to_string(), "Sw<1,0,-1> o 0 o (4,2):(2,1)");
        /// assert!((0..8).all(|index| rows.at(inverse.at(index)) == index));
        /// ```
        ///
        /// # Errors
        /// If the offset is not 0; or if the swizzle maps an index below the size past it; or if
        /// the swizzle cannot be moved past the layout's inverse, see
        /// [`composition_swizzled()`](super::composition_swizzled()).
        right_inverse / try_right_inverse(self: ComposedLayout) -> ComposedLayout = right;

        /// The composed layout `L` with `L(self(i)) == i` for each `i` below the size: the layout's
        /// [`left_inverse()`](super::left_inverse()) after the swizzle.
        ///
        /// # Errors
        /// If the offset is not 0; or if the layout has no left inverse; or if the swizzle cannot
        /// be moved past it, see [`composition_swizzled()`](super::composition_swizzled()).
        left_inverse / try_left_inverse(self: ComposedLayout) -> ComposedLayout = left;

        /// The longest layout found through elements that are contiguous in both, in the same
        /// order: see [`max_common_layout()`](super::max_common_layout()).
        ///
        /// A swizzle keeps aligned groups of `2^base` elements contiguous, and so bounds it. Two
        /// equal swizzles do not bound it if they permute the same block: both reach the elements
        /// of that block in the same order, although not contiguously.
        ///
        /// ```
        /// use moye_device::layout::{ComposedLayout, Swizzle, layout};
        /// let rows = ComposedLayout::new(Swizzle::new(3, 3, 3), 0, layout!((8, 64):(64, 1)));
        /// let plain = ComposedLayout::plain(layout!((8, 64):(64, 1)));
        /// assert_eq!(rows.max_common_layout(plain), layout!(8:8));
        /// assert_eq!((rows.max_common_vector(plain), rows.max_common_vector(rows)), (8, 512));
        /// ```
        max_common_layout / try_max_common_layout(self: ComposedLayout, b: ComposedLayout) -> Layout = common;

        /// The size of [`max_common_layout`](Self::max_common_layout): the width of vectors that a
        /// copy between the two may move.
        max_common_vector / try_max_common_vector(self: ComposedLayout, b: ComposedLayout) -> i64 = common_size;
    }

    /// The size of the aligned groups of elements that the swizzle keeps contiguous.
    const fn unbroken(&self) -> i64 {
        if self.swizzle.bits() == 0 {
            return i64::MAX;
        }
        let block = 1 << self.swizzle.base();
        if self.offset == 0 { block } else { gcd(self.offset, block) }
    }
}

const fn right(this: &ComposedLayout) -> Result<ComposedLayout, Fault> {
    if this.offset != 0 {
        return Err(Fault::OffsetInverse { offset: this.offset });
    }
    let mut out = Layout::start();
    tri!(right_into(&mut out, &this.layout));
    let layout = tri!(out.finish());
    let most = this.swizzle.largest_below(layout.size());
    if most >= layout.size() {
        return Err(Fault::Leaves { size: layout.size(), index: most });
    }
    let swizzle = tri!(moved_past(&layout, &this.swizzle, layout.size()));
    ComposedLayout::of(swizzle, 0, layout)
}

const fn left(this: &ComposedLayout) -> Result<ComposedLayout, Fault> {
    if this.offset != 0 {
        return Err(Fault::OffsetInverse { offset: this.offset });
    }
    let mut out = Layout::start();
    tri!(left_into(&mut out, &this.layout));
    let layout = tri!(out.finish());
    let swizzle = tri!(moved_past(&layout, &this.swizzle, this.cosize()));
    ComposedLayout::of(swizzle, 0, layout)
}

const fn common(a: &ComposedLayout, b: &ComposedLayout) -> Result<Layout, Fault> {
    let mut out = Layout::start();
    tri!(common_into(&mut out, &a.layout, &b.layout));
    let layout = tri!(out.finish());
    if same_block(a, b, layout.size()) {
        return Ok(layout);
    }
    let (left, right) = (a.unbroken(), b.unbroken());
    let most = if left < right { left } else { right };
    if layout.size() <= most {
        return Ok(layout);
    }
    // The first elements of a layout are a layout if they are whole runs of its first modes.
    let mut size = 1;
    let mut i = 0;
    while i < layout.leaves() && layout.shape[i] <= most / size {
        size *= layout.shape[i];
        i += 1;
    }
    size *= most / size;
    let mut first = Layout::start();
    tri!(first.push_leaf(size, (size > 1) as i64, NO_BASIS));
    let mut out = Layout::start();
    tri!(coalesce_into(&mut out, &tri!(composed(&layout, &tri!(first.finish())))));
    out.finish()
}

const fn common_size(a: &ComposedLayout, b: &ComposedLayout) -> Result<i64, Fault> {
    Ok(tri!(common(a, b)).size())
}

/// Whether both swizzles, from their offsets on, permute the indices below `size` alike.
const fn same_block(a: &ComposedLayout, b: &ComposedLayout, size: i64) -> bool {
    let (left, right): (Swizzle, Swizzle) = (a.swizzle, b.swizzle);
    let same = left.bits() == right.bits() && left.base() == right.base() && left.shift() == right.shift();
    let period = left.period();
    same && a.offset % period == 0 && b.offset % period == 0 && left.largest_below(size) < size
}
