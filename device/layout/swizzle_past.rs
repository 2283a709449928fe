//! A swizzle moved past a layout: compositions whose second operand is swizzled.

use super::compose::{Left, SEARCH, composed_at};
use super::composed::ComposedLayout;
use super::evaluate::linear;
use super::fault::{Fault, LayoutErrorKind, tri};
use super::layout::Layout;
use super::operation::{method, operation};
use super::swizzle::{self, Swizzle};

operation! {
    /// `a` after a composed layout: the swizzle is moved to the other side of `a`, which must
    /// permute the bits of an index.
    ///
    /// ```
    /// use moye_device::layout::{ComposedLayout, Swizzle, composition_swizzled, layout};
    /// let columns = ComposedLayout::new(Swizzle::new(1, 0, 2), 0, layout!(8:1));
    /// let moved = composition_swizzled(layout!((4, 2):(2, 1)), columns);
    /// assert_eq!(moved.to_string(), "Sw<1,0,-1> o 0 o (4,2):(2,1)");
    /// ```
    ///
    /// # Errors
    /// If `a` separates the bits of the swizzle or is not a permutation of bits (strides, and all
    /// extents but the last, are powers of two without overlap), so that no swizzle has this
    /// function; or if adding the offset carries from one mode of `a` into the next. CuTe requires
    /// an offset of 0.
    composition_swizzled / try_composition_swizzled(a: Layout, b: ComposedLayout) -> ComposedLayout = swizzled;
}

impl ComposedLayout {
    method! {
        /// This after `b`, which is swizzled too: the swizzle of `b` is moved past this layout, as
        /// in [`composition_swizzled()`], past its offset, and merged with its swizzle, as in
        /// [`Swizzle::composition`].
        ///
        /// ```
        /// use moye_device::layout::{ComposedLayout, Swizzle, layout};
        /// let a = ComposedLayout::new(Swizzle::new(1, 1, 2), 16, layout!((4, 4):(4, 1)));
        /// let b = ComposedLayout::new(Swizzle::new(1, 0, -2), 0, layout!(16:1));
        /// assert_eq!(a.composition_swizzled(b).to_string(), "Sw<2,0,2> o 16 o (4,4):(4,1)");
        /// ```
        ///
        /// # Errors
        /// If one of these has no result, or if this offset is not a multiple of the block that the
        /// swizzle permutes and adding it does not commute with the swizzle.
        composition_swizzled / try_composition_swizzled(self: ComposedLayout, b: ComposedLayout) -> ComposedLayout
            = compose_swizzled;
    }
}

impl Swizzle {
    method! {
        /// This after a composed layout: see [`composition`](Self::composition).
        ///
        /// # Errors
        /// If the two swizzles do not merge into one.
        composition_swizzled / try_composition_swizzled(self: Swizzle, b: ComposedLayout) -> ComposedLayout = onto;
    }
}

const fn onto(swizzle: &Swizzle, b: &ComposedLayout) -> Result<ComposedLayout, Fault> {
    ComposedLayout::of(tri!(swizzle::after(swizzle, &b.swizzle)), b.offset, b.layout)
}

const fn swizzled(a: &Layout, b: &ComposedLayout) -> Result<ComposedLayout, Fault> {
    if a.is_coordinate() {
        return Err(Fault::HasBasis);
    }
    let Some(end) = b.end() else { return Err(Fault::Overflow) };
    let swizzle = tri!(moved_past(a, &b.swizzle, end));
    let Some(offset) = linear(a, 0, a.leaves(), b.offset, None) else { return Err(Fault::Overflow) };
    ComposedLayout::of(swizzle, offset, tri!(composed_at(a, b.offset, &b.layout)))
}

const fn compose_swizzled(this: &ComposedLayout, b: &ComposedLayout) -> Result<ComposedLayout, Fault> {
    let inner = tri!(swizzled(&this.layout, b));
    let Some(offset) = inner.offset.checked_add(this.offset) else { return Err(Fault::Overflow) };
    let moved = tri!(ComposedLayout::of(inner.swizzle, offset, inner.layout));
    let period = inner.swizzle.period();
    if this.offset % period != 0 && !same_but_for(&moved, &inner, this.offset) {
        return Err(Fault::NotAMultiple { what: "offset", left: this.offset, right: period });
    }
    onto(&this.swizzle, &moved)
}

/// Whether `moved(i) == inner(i) + offset`, by comparing all values.
const fn same_but_for(moved: &ComposedLayout, inner: &ComposedLayout, offset: i64) -> bool {
    if inner.size() > SEARCH {
        return false;
    }
    let mut i = 0;
    while i < inner.size() {
        match inner.at(i).checked_add(offset) {
            Some(index) if index == moved.at(i) => i += 1,
            _ => return false,
        }
    }
    true
}

/// The swizzle `S` with `a(swizzle(i)) == S(a(i))` for each `i` from 0 to below `end`.
///
/// Such indices have bits up to those of `end - 1`: the swizzle changes no others. `a` must map
/// each bit to a distinct bit, or to none: then `a(x ^ y) == a(x) ^ a(y)`, and each bit that is
/// read and the bit that it changes map to two distinct bits.
pub(crate) const fn moved_past(a: &Layout, swizzle: &Swizzle, end: i64) -> Result<Swizzle, Fault> {
    let span = ((end as u64).next_power_of_two() - 1) as i64;
    let (sources, targets) = (swizzle.source_mask(), swizzle.target_mask());
    if sources & span == 0 {
        return Ok(Swizzle::NONE);
    }
    let reach = span | targets;
    if !tri!(takes_bits_to_bits(a, reach)) {
        let own = tri!(takes_bits_to_bits(a, ((a.size() as u64).next_power_of_two() - 1) as i64));
        return Err(if own { Fault::Leaves { size: a.size(), index: reach } } else { NOT_BITS });
    }
    let (mut from, mut to) = (0i64, 0i64);
    let mut bit = 0;
    while bit < swizzle.bits() {
        let source = (sources & -sources) << bit;
        let target = (targets & -targets) << bit;
        bit += 1;
        if source & span == 0 {
            continue;
        }
        let (Some(taken), Some(changed)) =
            (linear(a, 0, a.leaves(), source, None), linear(a, 0, a.leaves(), target, None))
        else {
            return Err(Fault::Overflow);
        };
        // `a` drops the target bit, so the swizzle does not change the offset.
        if changed == 0 {
            continue;
        }
        if taken == 0 {
            return Err(Fault::LostBit { source, target });
        }
        from |= taken;
        to |= changed;
        // All have one distance: that of the lowest.
        if taken.trailing_zeros() as i64 - changed.trailing_zeros() as i64
            != from.trailing_zeros() as i64 - to.trailing_zeros() as i64
        {
            return Err(Fault::BitsApart { source: from, target: to });
        }
    }
    Swizzle::of_masks(from, to)
}

const NOT_BITS: Fault = Fault::Said {
    kind: LayoutErrorKind::Divisibility,
    text: "the first layout is not a permutation of the bits of an index, so that no swizzle can follow it; extents and \
           strides must be powers of two, without overlap",
};

/// Whether a layout maps each bit of the mask `reach` to a distinct bit, or to none.
const fn takes_bits_to_bits(a: &Layout, reach: i64) -> Result<bool, Fault> {
    let left = tri!(Left::of(a));
    let modes = left.modes();
    let mut used = 0i64;
    let mut rest = reach;
    let mut i = 0;
    while i < modes.leaves() {
        let (extent, stride) = (modes.shape[i], modes.stride[i]);
        // The last extent is unbounded.
        let ends = i + 1 == modes.leaves() || rest < extent;
        if !ends && extent & (extent - 1) != 0 {
            return Ok(false);
        }
        let digits = if ends { rest } else { extent - 1 };
        if digits > 0 && stride != 0 {
            if stride < 1 || stride & (stride - 1) != 0 {
                return Ok(false);
            }
            let Some(bits) = digits.checked_mul(stride) else { return Err(Fault::Overflow) };
            if used & bits != 0 {
                return Ok(false);
            }
            used |= bits;
        }
        if ends {
            break;
        }
        rest /= extent;
        i += 1;
    }
    Ok(true)
}
