//! What a layout leaves out.

use super::compose::ceil_div;
use super::error::{Fault, tri};
use super::int_tuple::NO_BASIS;
use super::layout::Layout;
use super::operation::operation;
use super::profile::{At, ROOT};

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
    complement / try_complement(layout: Layout, cotarget: i64) -> Layout => complement_of;
}

/// See [`complement`].
#[inline]
const fn complement_of(out: &mut Layout, layout: &Layout, cotarget: i64) -> Result<(), Fault> {
    complement_into(out, layout, ROOT, cotarget)
}

/// Adds the complement of the mode of `layout` at `at`.
#[inline]
pub(crate) const fn complement_into(
    out: &mut Layout,
    layout: &Layout,
    at: At,
    cotarget: i64,
) -> Result<(), Fault> {
    places_into(out, layout, at, cotarget, 1)
}

/// Adds the complement of the mode of `layout` at `at`, such that its first `places` places are free ones. A complement
/// whose last mode is a gap between the strides of `layout` has no more places than its size: counting on would meet
/// `layout` again. There, a mode `1:reach` at its end makes what lies beyond continue behind `layout`.
pub(crate) const fn places_into(
    out: &mut Layout,
    layout: &Layout,
    at: At,
    cotarget: i64,
    places: i64,
) -> Result<(), Fault> {
    if cotarget < 1 {
        return Err(Fault::Least { what: "cotarget", value: cotarget, least: 1 });
    }
    if layout.is_coordinate_at(at) {
        return Err(Fault::HasBasis);
    }
    let run = out.leaves();
    tri!(out.coalesce_to_run(run, layout, at, false));
    let end = out.leaves();
    out.sort_run(run);
    // What is free takes the places of the modes: there is at most one gap in front of each, and they join nowhere.
    out.drop_run(run);
    let mut reach = 1i64;
    let mut found = 1i64;
    let mut i = run;
    while i < end {
        let (extent, stride) = (out.shape[i], out.stride[i]);
        if stride < reach {
            return Err(Fault::Overlap { stride, reach });
        }
        if stride / 2 >= reach {
            tri!(out.push_to_run(stride / reach, reach, NO_BASIS));
            found *= stride / reach;
        }
        reach = match stride.checked_mul(extent) {
            Some(reach) => reach,
            None => return Err(Fault::Overflow),
        };
        i += 1;
    }
    let rest = ceil_div(cotarget, reach);
    if rest > 1 || found < places {
        tri!(out.push_to_run(rest, reach, NO_BASIS));
    }
    out.close_run(run)
}

impl Layout {
    /// Sorts the modes from leaf `run` on by stride, smallest first, keeping the order of equals.
    #[inline]
    pub(crate) const fn sort_run(&mut self, run: usize) {
        let mut i = run + 1;
        while i < self.leaves() {
            let (extent, stride, basis) = (self.shape[i], self.stride[i], self.basis[i]);
            let mut at = i;
            while at > run && self.stride[at - 1] > stride {
                self.shape[at] = self.shape[at - 1];
                self.stride[at] = self.stride[at - 1];
                self.basis[at] = self.basis[at - 1];
                at -= 1;
            }
            self.shape[at] = extent;
            self.stride[at] = stride;
            self.basis[at] = basis;
            i += 1;
        }
    }
}
