//! The same function with as few modes as possible.

use super::fault::{Fault, tri};
use super::int_tuple::IntTuple;
use super::layout::Layout;
use super::operation::operation;
use super::profile::{At, ROOT};

operation! {
    /// The same function of an integer coordinate, flat and with as few modes as possible: extents
    /// of 1 are dropped, and a mode that continues the previous one is merged with it.
    ///
    /// ```
    /// use moye_device::layout::{coalesce, layout};
    /// assert_eq!(coalesce(layout!((2, (1, 6)):(1, (6, 2)))), layout!(12:1));
    /// ```
    coalesce / try_coalesce(layout: Layout) -> Layout => coalesce_into;

    /// [`coalesce`] of each mode at which `profile` has a leaf (of any value): `(1,1)` coalesces
    /// two modes separately. Modes past the profile's stay unchanged.
    ///
    /// ```
    /// use moye_device::layout::{coalesce_profile, layout, tuple};
    /// assert_eq!(coalesce_profile(layout!((2, (1, 6)):(1, (6, 2))), tuple!((1, 1))), layout!((2, 6):(1, 2)));
    /// ```
    coalesce_profile / try_coalesce_profile(layout: Layout, profile: IntTuple) -> Layout => coalesce_by_profile;

    /// Sets the extent of each mode of stride 0 to 1.
    filter_zeros / try_filter_zeros(layout: Layout) -> Layout = zeros_filtered;

    /// The layout without modes of stride 0 or of extent 1, coalesced: the same image.
    filter / try_filter(layout: Layout) -> Layout => filter_into;

    /// [`filter`] of each mode at which `profile` has a leaf. Modes past the profile's stay
    /// unchanged.
    filter_profile / try_filter_profile(layout: Layout, profile: IntTuple) -> Layout => filter_by_profile;
}

impl Layout {
    /// Adds the modes of `layout` under `at` to the run from leaf `run` on, merged, without modes
    /// of extent 1, and, unless `zeros`, without modes of stride 0.
    #[inline]
    pub(crate) const fn coalesce_to_run(
        &mut self,
        run: usize,
        layout: &Self,
        at: At,
        zeros: bool,
    ) -> Result<(), Fault> {
        let end = layout.profile.next(at).leaf;
        let mut leaf = at.leaf;
        while leaf < end {
            let (extent, stride) = (layout.shape[leaf], layout.stride[leaf]);
            if extent != 1 && (zeros || stride != 0) {
                tri!(self.join_to_run(run, extent, stride, layout.basis[leaf]));
            }
            leaf += 1;
        }
        Ok(())
    }
}

/// See [`coalesce`].
pub(crate) const fn coalesce_into(out: &mut Layout, layout: &Layout) -> Result<(), Fault> {
    coalesce_mode(out, layout, ROOT)
}

const fn coalesce_mode(out: &mut Layout, layout: &Layout, at: At) -> Result<(), Fault> {
    let run = out.leaves();
    tri!(out.coalesce_to_run(run, layout, at, true));
    out.close_run(run)
}

pub(crate) const fn zeros_filtered(layout: &Layout) -> Result<Layout, Fault> {
    let mut result = *layout;
    let mut i = 0;
    while i < result.leaves() {
        if result.stride[i] == 0 {
            result.shape[i] = 1;
        }
        i += 1;
    }
    Ok(result)
}

pub(crate) const fn filter_into(out: &mut Layout, layout: &Layout) -> Result<(), Fault> {
    let run = out.leaves();
    tri!(out.coalesce_to_run(run, layout, ROOT, false));
    out.close_run(run)
}

pub(crate) const fn coalesce_by_profile(
    out: &mut Layout,
    layout: &Layout,
    profile: &IntTuple,
) -> Result<(), Fault> {
    profile_into(out, layout, ROOT, profile, ROOT)
}

pub(crate) const fn filter_by_profile(
    out: &mut Layout,
    layout: &Layout,
    profile: &IntTuple,
) -> Result<(), Fault> {
    // Zeros are filtered only under the profile: other modes stay unchanged.
    let mut filtered = *layout;
    tri!(filter_under(&mut filtered, layout, ROOT, profile, ROOT));
    profile_into(out, &filtered, ROOT, profile, ROOT)
}

/// Sets the extents of stride 0 to 1 where `profile` has a leaf. Returns the node after the
/// profile.
const fn filter_under(
    result: &mut Layout,
    layout: &Layout,
    at: At,
    profile: &IntTuple,
    guide: At,
) -> Result<At, Fault> {
    if profile.profile.is_leaf(guide) {
        let end = layout.profile.next(at).leaf;
        let mut leaf = at.leaf;
        while leaf < end {
            if layout.stride[leaf] == 0 {
                result.shape[leaf] = 1;
            }
            leaf += 1;
        }
        return Ok(At { node: guide.node + 1, leaf: guide.leaf + 1 });
    }
    let modes = profile.profile.rank(guide);
    let rank = layout.profile.rank(at);
    if modes > rank {
        return Err(Fault::TooManyModes { what: "profile", modes, rank });
    }
    let mut mode = layout.profile.first(at);
    let mut part = profile.profile.first(guide);
    let mut i = 0;
    while i < modes {
        part = tri!(filter_under(result, layout, mode, profile, part));
        mode = layout.profile.next(mode);
        i += 1;
    }
    Ok(part)
}

const fn profile_into(
    out: &mut Layout,
    layout: &Layout,
    at: At,
    profile: &IntTuple,
    guide: At,
) -> Result<(), Fault> {
    if profile.profile.is_leaf(guide) {
        return coalesce_mode(out, layout, at);
    }
    let modes = profile.profile.rank(guide);
    let rank = layout.profile.rank(at);
    if modes > rank {
        return Err(Fault::TooManyModes { what: "profile", modes, rank });
    }
    tri!(out.push_tuple(rank));
    let mut mode = layout.profile.first(at);
    let mut part = profile.profile.first(guide);
    let mut i = 0;
    while i < rank {
        if i < modes {
            tri!(profile_into(out, layout, mode, profile, part));
            part = profile.profile.next(part);
        } else {
            tri!(out.push_copy(layout, mode));
        }
        mode = layout.profile.next(mode);
        i += 1;
    }
    Ok(())
}
