//! The same function with as few modes as possible.

use super::builder::LayoutBuilder;
use super::error::{Fault, tri};
use super::int_tuple::{IntTuple, NO_BASIS};
use super::layout::Layout;
use super::operation::operation;
use super::profile::{At, MAX_LEAVES, ROOT};

operation! {
    /// The same function of an integer coordinate, flat and with as few modes as possible: extents of 1 go, and a
    /// mode that continues the one before it joins it.
    ///
    /// ```
    /// use moye_device::layout::{coalesce, layout};
    /// assert_eq!(coalesce(layout!((2, (1, 6)):(1, (6, 2)))), layout!(12:1));
    /// ```
    coalesce / try_coalesce(layout: Layout) -> Layout = coalesced;

    /// [`coalesce`] of each mode that `profile` has at a leaf (which leaf does not matter): `(1,1)` coalesces two
    /// modes and keeps them two. Modes beyond the profile stay as they are.
    ///
    /// ```
    /// use moye_device::layout::{coalesce_profile, layout, tuple};
    /// assert_eq!(coalesce_profile(layout!((2, (1, 6)):(1, (6, 2))), tuple!((1, 1))), layout!((2, 6):(1, 2)));
    /// ```
    coalesce_profile / try_coalesce_profile(layout: Layout, profile: IntTuple) -> Layout = by_profile;

    /// Each mode of stride 0 with the extent 1.
    filter_zeros / try_filter_zeros(layout: Layout) -> Layout = zeros_filtered;

    /// The layout without the modes of stride 0 and of extent 1, coalesced: the same image.
    filter / try_filter(layout: Layout) -> Layout = filtered;

    /// [`filter`] of each mode that `profile` has at a leaf. Modes beyond the profile stay as they are.
    filter_profile / try_filter_profile(layout: Layout, profile: IntTuple) -> Layout = filter_by_profile;
}

/// The modes of a coalesced layout, in order.
pub(crate) struct Modes {
    pub extent: [i64; MAX_LEAVES],
    pub stride: [i64; MAX_LEAVES],
    pub basis: [u8; MAX_LEAVES],
    pub count: usize,
    /// Whether a mode was left out, because there was no place for it.
    overfull: bool,
}

impl Modes {
    pub const fn new() -> Self {
        Self {
            extent: [0; MAX_LEAVES],
            stride: [0; MAX_LEAVES],
            basis: [NO_BASIS; MAX_LEAVES],
            count: 0,
            overfull: false,
        }
    }

    /// Adds a mode at the end, joined with the last one where it continues it.
    pub const fn push(&mut self, extent: i64, stride: i64, basis: u8) {
        if self.count > 0 {
            let last = self.count - 1;
            let joins = match self.extent[last].checked_mul(self.stride[last]) {
                Some(next) => next == stride && (self.basis[last] == basis || stride == 0),
                None => false,
            };
            if joins {
                self.extent[last] *= extent;
                return;
            }
        }
        if self.count == MAX_LEAVES {
            self.overfull = true;
            return;
        }
        self.extent[self.count] = extent;
        self.stride[self.count] = stride;
        self.basis[self.count] = basis;
        self.count += 1;
    }

    /// The modes under `at`, without those of extent 1, and joined.
    pub const fn of(layout: &Layout, at: At) -> Self {
        let end = layout.profile.next(at).leaf;
        let mut modes = Self::new();
        let mut leaf = at.leaf;
        while leaf < end {
            if layout.shape[leaf] != 1 {
                modes.push(layout.shape[leaf], layout.stride[leaf], layout.basis[leaf]);
            }
            leaf += 1;
        }
        modes
    }

    /// The modes of a filtered layout: without those of extent 1 or stride 0, and joined.
    pub const fn filtered(layout: &Layout) -> Self {
        let mut modes = Self::new();
        let mut leaf = 0;
        while leaf < layout.leaves() {
            if layout.shape[leaf] != 1 && layout.stride[leaf] != 0 {
                modes.push(layout.shape[leaf], layout.stride[leaf], layout.basis[leaf]);
            }
            leaf += 1;
        }
        modes
    }

    /// Adds the modes to `builder`: `1:0` for none, an integer mode for one, otherwise a tuple.
    pub const fn add_to(&self, builder: &mut LayoutBuilder) -> Result<(), Fault> {
        if self.overfull {
            return Err(Fault::Capacity);
        }
        if self.count == 0 {
            return builder.leaf(1, 0, NO_BASIS);
        }
        if self.count > 1 {
            tri!(builder.open(self.count));
        }
        let mut i = 0;
        while i < self.count {
            tri!(builder.leaf(self.extent[i], self.stride[i], self.basis[i]));
            i += 1;
        }
        Ok(())
    }

    pub const fn layout(&self) -> Result<Layout, Fault> {
        let mut builder = LayoutBuilder::new();
        tri!(self.add_to(&mut builder));
        builder.finish()
    }
}

pub(crate) const fn coalesced(layout: &Layout) -> Result<Layout, Fault> {
    Modes::of(layout, ROOT).layout()
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

pub(crate) const fn filtered(layout: &Layout) -> Result<Layout, Fault> {
    Modes::filtered(layout).layout()
}

pub(crate) const fn by_profile(layout: &Layout, profile: &IntTuple) -> Result<Layout, Fault> {
    let mut builder = LayoutBuilder::new();
    tri!(profile_into(&mut builder, layout, ROOT, profile, ROOT));
    builder.finish()
}

const fn filter_by_profile(layout: &Layout, profile: &IntTuple) -> Result<Layout, Fault> {
    // The zeros are filtered only under the profile: beyond it modes stay as they are.
    let mut filtered = *layout;
    tri!(filter_under(&mut filtered, layout, ROOT, profile, ROOT));
    by_profile(&filtered, profile)
}

/// Sets the extents of stride 0 to 1 where `profile` has a leaf. Returns the node of the profile that follows.
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
    builder: &mut LayoutBuilder,
    layout: &Layout,
    at: At,
    profile: &IntTuple,
    guide: At,
) -> Result<(), Fault> {
    if profile.profile.is_leaf(guide) {
        return Modes::of(layout, at).add_to(builder);
    }
    let modes = profile.profile.rank(guide);
    let rank = layout.profile.rank(at);
    if modes > rank {
        return Err(Fault::TooManyModes { what: "profile", modes, rank });
    }
    tri!(builder.open(rank));
    let mut mode = layout.profile.first(at);
    let mut part = profile.profile.first(guide);
    let mut i = 0;
    while i < rank {
        if i < modes {
            tri!(profile_into(builder, layout, mode, profile, part));
            part = profile.profile.next(part);
        } else {
            tri!(builder.copy(layout, mode));
        }
        mode = layout.profile.next(mode);
        i += 1;
    }
    Ok(())
}
