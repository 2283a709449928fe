//! What a layout leaves out.

use super::coalesce::Modes;
use super::compose::ceil_div;
use super::error::Fault;
use super::int_tuple::NO_BASIS;
use super::layout::Layout;
use super::operation::operation;

operation! {
    /// The layout of what `layout` leaves out below `cotarget`: ordered (its strides grow), disjoint from `layout` (the
    /// two side by side map no two coordinates to one index), and repeating it until its last period ends at `cotarget`
    /// or beyond.
    ///
    /// Where the strides leave gaps that a stride does not divide, CuTe rounds down, and so does this: indices in the
    /// gaps are then reached by neither.
    ///
    /// ```
    /// use moye_device::layout::{complement, layout};
    /// assert_eq!(complement(layout!(4:2), 24), layout!((2, 3):(1, 8)));
    /// ```
    complement / try_complement(layout: Layout, cotarget: i64) -> Layout = complemented;
}

/// Sorts `modes` by stride, smallest first, keeping the order of equals.
pub(crate) const fn sort_by_stride(modes: &mut Modes) {
    let mut i = 1;
    while i < modes.count {
        let (extent, stride, basis) = (modes.extent[i], modes.stride[i], modes.basis[i]);
        let mut at = i;
        while at > 0 && modes.stride[at - 1] > stride {
            modes.extent[at] = modes.extent[at - 1];
            modes.stride[at] = modes.stride[at - 1];
            modes.basis[at] = modes.basis[at - 1];
            at -= 1;
        }
        modes.extent[at] = extent;
        modes.stride[at] = stride;
        modes.basis[at] = basis;
        i += 1;
    }
}

/// See [`complement`].
pub(crate) const fn complemented(layout: &Layout, cotarget: i64) -> Result<Layout, Fault> {
    if cotarget < 1 {
        return Err(Fault::Least { what: "cotarget", value: cotarget, least: 1 });
    }
    if layout.is_coordinate() {
        return Err(Fault::HasBasis);
    }
    let mut modes = Modes::filtered(layout);
    sort_by_stride(&mut modes);
    // What is free takes the places of the modes: there is at most one gap in front of each, and they join nowhere.
    let count = modes.count;
    modes.count = 0;
    let mut reach = 1i64;
    let mut i = 0;
    while i < count {
        let (extent, stride) = (modes.extent[i], modes.stride[i]);
        if stride < reach {
            return Err(Fault::Overlap { stride, reach });
        }
        if stride / reach > 1 {
            modes.push(stride / reach, reach, NO_BASIS);
        }
        reach = match stride.checked_mul(extent) {
            Some(reach) => reach,
            None => return Err(Fault::Overflow),
        };
        i += 1;
    }
    let rest = ceil_div(cotarget, reach);
    if rest > 1 {
        modes.push(rest, reach, NO_BASIS);
    }
    modes.layout()
}
