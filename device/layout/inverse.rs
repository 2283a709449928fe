//! Inverses.

use super::coalesce::Modes;
use super::complement::sort_by_stride;
use super::error::{Fault, tri};
use super::int_tuple::NO_BASIS;
use super::layout::Layout;
use super::operation::operation;
use super::profile::{MAX_LEAVES, ROOT};

operation! {
    /// The layout `R` with `layout(R(i)) == i` for each `i` below its size, as large as the modes of `layout` allow: it
    /// follows them from stride 1 on, each starting where the one before it ends.
    ///
    /// ```
    /// use moye_device::layout::{layout, right_inverse};
    /// assert_eq!(right_inverse(layout!((4, 8):(8, 1))), layout!((8, 4):(4, 1)));
    /// ```
    right_inverse / try_right_inverse(layout: Layout) -> Layout = right;

    /// The layout `L` with `L(layout(i)) == i` for each `i` below the size of `layout`.
    ///
    /// Modes of stride 0 cannot be told apart by their index and count as coordinate 0: then
    /// `layout(L(layout(i))) == layout(i)`.
    ///
    /// # Errors
    /// Where a mode overlaps another, or a stride is no multiple of the next smaller one.
    ///
    /// ```
    /// use moye_device::layout::{layout, left_inverse};
    /// assert_eq!(left_inverse(layout!((4, 2):(1, 8))), layout!((8, 2):(1, 4)));
    /// ```
    left_inverse / try_left_inverse(layout: Layout) -> Layout = left;
}

/// The coalesced modes with their strides replaced by their numbers; the strides are in the second value.
const fn numbered(layout: &Layout) -> Result<(Modes, [i64; MAX_LEAVES]), Fault> {
    if layout.is_coordinate() {
        return Err(Fault::HasBasis);
    }
    let modes = Modes::of(layout, ROOT);
    let mut preimage = [0i64; MAX_LEAVES];
    let mut product = 1;
    let mut i = 0;
    while i < modes.count {
        preimage[i] = product;
        product *= modes.extent[i];
        i += 1;
    }
    Ok((modes, preimage))
}

pub(crate) const fn right(layout: &Layout) -> Result<Layout, Fault> {
    tri!(right_modes(layout)).layout()
}

/// The size of the right inverse.
pub(crate) const fn right_size(layout: &Layout) -> Result<i64, Fault> {
    let modes = tri!(right_modes(layout));
    let mut size = 1;
    let mut i = 0;
    while i < modes.count {
        size *= modes.extent[i];
        i += 1;
    }
    Ok(size)
}

const fn right_modes(layout: &Layout) -> Result<Modes, Fault> {
    let (modes, preimage) = tri!(numbered(layout));
    let mut result = Modes::new();
    let mut reach = 1i64;
    loop {
        let mut found = None;
        let mut i = 0;
        while i < modes.count {
            if modes.stride[i] == reach && found.is_none() {
                found = Some(i);
            }
            i += 1;
        }
        let Some(mode) = found else { break };
        result.push(modes.extent[mode], preimage[mode], NO_BASIS);
        // A product of an extent and a stride, which the layout's cosize bounds up to one stride more.
        reach = match reach.checked_mul(modes.extent[mode]) {
            Some(reach) => reach,
            None => break,
        };
    }
    Ok(result)
}

const fn left(layout: &Layout) -> Result<Layout, Fault> {
    let (modes, preimage) = tri!(numbered(layout));
    // Sorted by stride, with the preimage's stride carried along by way of its position.
    let mut sorted = Modes::new();
    let mut i = 0;
    while i < modes.count {
        sorted.extent[i] = modes.extent[i];
        sorted.stride[i] = modes.stride[i];
        sorted.basis[i] = i as u8;
        i += 1;
    }
    sorted.count = modes.count;
    sort_by_stride(&mut sorted);
    // In `L`, the digit of each mode is as long as the step to the next stride.
    let mut result = Modes::new();
    let mut reach = 1i64;
    let mut start = 1i64;
    let mut stride = 0i64;
    let mut last = 1i64;
    i = 0;
    while i < sorted.count {
        let next = sorted.stride[i];
        if next == 0 {
            i += 1;
            continue;
        }
        if next < reach {
            return Err(Fault::Overlap { stride: next, reach });
        }
        if next % start != 0 {
            return Err(Fault::NotAMultiple { what: "stride", left: next, right: start });
        }
        if next / start > 1 {
            result.push(next / start, stride, NO_BASIS);
        }
        start = next;
        stride = preimage[sorted.basis[i] as usize];
        last = sorted.extent[i];
        reach = match next.checked_mul(last) {
            Some(reach) => reach,
            None => return Err(Fault::Overflow),
        };
        i += 1;
    }
    if last > 1 {
        result.push(last, stride, NO_BASIS);
    }
    result.layout()
}
