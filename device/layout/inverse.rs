//! Right and left inverses of layouts.

use super::fault::{Fault, tri};
use super::int_tuple::NO_BASIS;
use super::layout::{Layout, times};
use super::operation::operation;
use super::profile::{MAX_LEAVES, ROOT};

operation! {
    /// The layout `R` with `layout(R(i)) == i` for each `i` below its size, as large as the modes
    /// of `layout` allow: it follows them from stride 1 on, each starting where the previous one
    /// ends.
    ///
    /// ```
    /// use moye_device::layout::{layout, right_inverse};
    /// assert_eq!(right_inverse(layout!((4, 8):(8, 1))), layout!((8, 4):(4, 1)));
    /// ```
    right_inverse / try_right_inverse(layout: Layout) -> Layout => right_into;

    /// The layout `L` with `L(layout(i)) == i` for each `i` below the size of `layout`.
    ///
    /// Coordinates of modes of stride 0 cannot be recovered from the index and become 0: then
    /// `layout(L(layout(i))) == layout(i)`.
    ///
    /// # Errors
    /// If a stride is negative, since the inverse counts from 0 upwards; if a mode overlaps
    /// another, so that there is no inverse; or if a stride is not a multiple of the next smaller
    /// one, so that the digits of an index in the radix of the strides are not the coordinates.
    /// CuTe rejects the last two as well, although some layouts of the last kind have an inverse
    /// with other digits: `(2,2):(2,3)` has `(2,3):(1,1)`.
    ///
    /// ```
    /// use moye_device::layout::{layout, left_inverse};
    /// assert_eq!(left_inverse(layout!((4, 2):(1, 8))), layout!((8, 2):(1, 4)));
    /// ```
    left_inverse / try_left_inverse(layout: Layout) -> Layout => left_into;
}

/// Adds the modes of `layout`, coalesced, as a run.
const fn modes_to_run(modes: &mut Layout, layout: &Layout) -> Result<(), Fault> {
    if layout.is_coordinate() {
        return Err(Fault::HasBasis);
    }
    modes.coalesce_to_run(0, layout, ROOT, true)
}

/// See [`right_inverse`].
pub(crate) const fn right_into(out: &mut Layout, layout: &Layout) -> Result<(), Fault> {
    let mut modes = Layout::start();
    tri!(modes_to_run(&mut modes, layout));
    let run = out.leaves();
    let leaves = modes.leaves();
    let mut reach = 1i64;
    loop {
        // The first mode that starts where the last one ends, and the coordinate of its second
        // element.
        let mut step = 1;
        let mut i = 0;
        while i < leaves && modes.stride[i] != reach {
            step *= modes.shape[i];
            i += 1;
        }
        if i == leaves {
            break;
        }
        tri!(out.join_to_run(run, modes.shape[i], step, NO_BASIS));
        // A product of an extent and a stride: at most the layout's cosize plus one stride.
        reach = match times(reach, modes.shape[i]) {
            Some(reach) => reach,
            None => break,
        };
    }
    out.close_run(run)
}

/// Rejects a layout of `what` that skips an index below its size, or repeats one.
pub(crate) const fn each_number_once(layout: &Layout, what: &'static str) -> Result<(), Fault> {
    if layout.is_coordinate() {
        return Err(Fault::HasBasis);
    }
    let mut reach = 1;
    let mut i = 0;
    while i < layout.leaves() {
        if layout.shape[i] > 1 && layout.stride[i] == reach {
            reach *= layout.shape[i];
            i = 0;
        } else {
            i += 1;
        }
    }
    if reach != layout.size() {
        return Err(Fault::Short { what, size: reach, want: layout.size() });
    }
    Ok(())
}

/// See [`left_inverse`].
pub(crate) const fn left_into(out: &mut Layout, layout: &Layout) -> Result<(), Fault> {
    let mut modes = Layout::start();
    tri!(modes_to_run(&mut modes, layout));
    // The coordinate of each mode's second element, sorted together with the mode.
    let mut steps = [0i64; MAX_LEAVES];
    let mut step = 1;
    let mut i = 0;
    while i < modes.leaves() {
        steps[i] = step;
        step *= modes.shape[i];
        modes.basis[i] = i as u32;
        i += 1;
    }
    modes.sort_run(0);
    if modes.leaves() > 0 && modes.stride[0] < 0 {
        let (extent, stride) = (modes.shape[0], modes.stride[0]);
        return Err(Fault::Downwards { extent, stride, least: stride * (extent - 1) });
    }
    // In `L`, the digit of each mode extends to the next stride.
    let run = out.leaves();
    let mut reach = 1i64;
    let mut start = 1i64;
    let mut stride = 0i64;
    let mut last = 1i64;
    i = 0;
    while i < modes.leaves() {
        let next = modes.stride[i];
        if next == 0 {
            i += 1;
            continue;
        }
        // Strides that do not nest need not overlap: the reason is then that they do not nest.
        if next % start != 0 {
            return Err(Fault::NotNested { stride: next, smaller: start });
        }
        if next < reach {
            return Err(Fault::Overlap { stride: next, reach });
        }
        if next / start > 1 {
            tri!(out.join_to_run(run, next / start, stride, NO_BASIS));
        }
        start = next;
        stride = steps[modes.basis[i] as usize];
        last = modes.shape[i];
        reach = match next.checked_mul(last) {
            Some(reach) => reach,
            None => return Err(Fault::Overflow),
        };
        i += 1;
    }
    if last > 1 {
        tri!(out.join_to_run(run, last, stride, NO_BASIS));
    }
    out.close_run(run)
}
