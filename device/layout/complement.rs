//! The complement of a layout.

use super::compose::ceil_div;
use super::fault::{Fault, tri};
use super::int_tuple::NO_BASIS;
use super::layout::{Layout, times};
use super::operation::operation;
use super::profile::{At, ROOT};

operation! {
    /// The layout of the indices below `cotarget` that `layout` leaves out: ordered (its strides
    /// grow), disjoint from `layout` (both together map no two coordinates to one index), and
    /// covering: with `layout` it reaches every index below `cotarget`.
    ///
    /// It covers whenever some layout does. If a stride is not a multiple of the reach of the modes
    /// of smaller stride, as in the padded tile `(64,64):(1,72)`, no disjoint copies of the layout
    /// reach the end of the gaps. The result is then CuTe's, which fills each gap with the whole
    /// copies that fit, provided that it keeps CuTe's promises: ordered, disjoint, and with
    /// `layout` a cosize of at least `cotarget`. Neither layout reaches the ends of the gaps.
    /// [`logical_divide`](super::logical_divide), which would lose these elements, rejects such a
    /// tile.
    ///
    /// # Errors
    /// If modes overlap; or if a stride is negative, since the complement counts from 0 upwards; or
    /// if elements would be left out and the last of them is the end of a gap, so that not even the
    /// cosize reaches `cotarget`.
    ///
    /// ```
    /// use moye_device::layout::{complement, layout, try_complement};
    /// assert_eq!(complement(layout!(4:2), 24), layout!((2, 3):(1, 8)));
    /// // The rows of 72 that hold 64: the 8 after each have room for no copy.
    /// assert_eq!(complement(layout!((64, 64):(1, 72)), 8192), layout!(2:4608));
    /// // Copies of 0, 1, 3, 4 at 0 and 6 reach neither 2 nor 11.
    /// assert!(try_complement(layout!((2, 2):(1, 3)), 12).is_err());
    /// ```
    complement / try_complement(layout: Layout, cotarget: i64) -> Layout => complement_of;
}

/// See [`complement`].
#[inline]
pub(crate) const fn complement_of(out: &mut Layout, layout: &Layout, cotarget: i64) -> Result<(), Fault> {
    let Err(fault) = covering_into(out, layout, ROOT, cotarget) else { return Ok(()) };
    if let Fault::Gap { stride, reach } = fault {
        *out = Layout::start();
        tri!(places_into(out, layout, ROOT, cotarget, 1, Gaps::Rounded));
        tri!(out.check());
        // Both cosizes are below 2^63; their sum saturates.
        let end = layout.cosize().saturating_add(out.cosize() - 1);
        if end >= cotarget {
            return Ok(());
        }
        return Err(Fault::LeftOut { stride, reach, end, cotarget });
    }
    Err(fault)
}

/// Adds the complement of the mode of `layout` at `at`, which with it covers all below `cotarget`.
#[inline]
pub(crate) const fn covering_into(
    out: &mut Layout,
    layout: &Layout,
    at: At,
    cotarget: i64,
) -> Result<(), Fault> {
    places_into(out, layout, at, cotarget, 1, Gaps::Filled)
}

/// The treatment of a gap that whole copies do not fill.
#[derive(Clone, Copy)]
pub(crate) enum Gaps {
    /// It takes the copies that fit.
    Rounded,
    /// It is a fault if it ends below the cotarget, since its rest would be left out.
    Filled,
}

/// Adds the complement of the mode of `layout` at `at`, such that its first `places` indices are
/// free. A complement whose last mode is a gap between the strides of `layout` is exhausted at its
/// size: further indices would collide with `layout`. Then a mode `1:reach` at its end makes
/// further indices continue after `layout`.
pub(crate) const fn places_into(
    out: &mut Layout,
    layout: &Layout,
    at: At,
    cotarget: i64,
    places: i64,
    gaps: Gaps,
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
    if end > run && out.stride[run] < 0 {
        let (extent, stride) = (out.shape[run], out.stride[run]);
        return Err(Fault::Downwards { extent, stride, least: stride * (extent - 1) });
    }
    // The gaps replace the modes: there is at most one gap before each mode, and no two are
    // adjacent.
    out.drop_run(run);
    let mut reach = 1i64;
    let mut found = 1i64;
    let mut i = run;
    while i < end {
        let (extent, stride) = (out.shape[i], out.stride[i]);
        if stride < reach {
            return Err(Fault::Overlap { stride, reach });
        }
        if stride > reach {
            let copies = stride / reach;
            // The copies end at `copies * reach`, which is the stride if they fill the gap.
            if matches!(gaps, Gaps::Filled) && copies * reach < stride && copies * reach < cotarget {
                return Err(Fault::Gap { stride, reach });
            }
            if copies > 1 {
                tri!(out.push_to_run(copies, reach, NO_BASIS));
                found *= copies;
            }
        }
        reach = match times(stride, extent) {
            Some(reach) => reach,
            None => {
                return Err(Fault::TooLarge {
                    what: "the stride",
                    left: stride,
                    by: "the extent",
                    right: extent,
                });
            }
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
    /// Sorts the modes from leaf `run` on by stride, smallest first; the sort is stable.
    #[inline]
    pub(crate) const fn sort_run(&mut self, run: usize) {
        let leaves = self.leaves();
        let mut i = run + 1;
        while i < leaves {
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
