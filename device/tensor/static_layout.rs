//! Layouts as types with one constant each.

use crate::layout::{ComposedLayout, IntTuple, Layout, Swizzle, Text, make_col_major, mode_coordinates};
use core::marker::PhantomData;

/// A layout known at compile time, as a type.
///
/// [`static_layout!`](crate::static_layout) declares a named one; partitioning returns types built
/// from it.
pub trait StaticLayout: Copy + 'static {
    /// The layout.
    const LAYOUT: Layout;

    /// The known divisor of the tensor's origin, after the shifts that produced this layout.
    const ORIGIN: Divisors = Divisors::UNMOVED;

    /// The swizzle of the offsets, in shared memory.
    const SWIZZLE: Swizzle = Swizzle::NONE;

    /// The layout with its swizzle, for the access checks of tiled copies and MMAs.
    const COMPOSED: ComposedLayout = ComposedLayout::new(Self::SWIZZLE, 0, Self::LAYOUT);

    /// The bits of an offset that the tensor's origin may have set within one block of the swizzle,
    /// after the shifts that produced this layout; all ones if unknown.
    const MOVED: u64 = 0;

    /// The bits of an offset within one block of the swizzle that slices at fixed places may have
    /// set since, which the origin keeps separate; all ones if unknown.
    const STEPPED: u64 = 0;

    /// Does not compile if the layout belongs to a partition that does not divide its tensor.
    ///
    /// [`LAYOUT`](Self::LAYOUT) still exists then, so that the compiler reports the partition and
    /// not each use of its result.
    #[doc(hidden)]
    const WHOLE: () = ();
}

/// A placeholder for the layout of an invalid partition: `rank` modes of one element.
pub(crate) const fn stand_in(rank: usize) -> Layout {
    let rank = if rank > super::at::MAX_PLACES { super::at::MAX_PLACES } else { rank };
    let modes = [make_col_major(IntTuple::int(1)); super::at::MAX_PLACES];
    Layout::concat(modes.split_at(rank).0)
}

/// The layout without the swizzle; it must start at offset 0, or it does not compile.
#[doc(hidden)]
#[track_caller]
pub const fn starts_at_offset_zero(composed: ComposedLayout) -> Layout {
    if composed.offset != 0 {
        let mut text = Text::<400>::new();
        text.str("a layout of shared memory starts at offset 0, and ");
        composed.write(&mut text);
        text.str(" at ");
        text.int(composed.offset);
        text.str("; the offset 0 would work");
        panic!("{}", text.as_str());
    }
    composed.layout
}

/// The coordinates of a tile of `L`'s shape: index to `(i, j, ...)`, a basis vector for each mode.
pub struct IdentityOf<L>(PhantomData<L>);

impl<L> Clone for IdentityOf<L> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<L> Copy for IdentityOf<L> {}

impl<L: StaticLayout> StaticLayout for IdentityOf<L> {
    const LAYOUT: Layout = coordinates_of_modes(L::LAYOUT);
    // A tile starts at a multiple of its extents.
    const ORIGIN: Divisors = {
        let mut origin = Divisors::UNMOVED;
        let mut axis = 0;
        while axis < L::LAYOUT.rank() {
            origin.0[axis] = L::LAYOUT.extent(axis) as u64;
            axis += 1;
        }
        origin
    };
}

/// The coordinates of a tile along its top-level modes.
pub(super) const fn coordinates_of_modes(tile: Layout) -> Layout {
    match mode_coordinates(&tile.shape()) {
        Ok(layout) => layout,
        // Its strides are those of the compact layout of the shape.
        Err(_) => unreachable!(),
    }
}

/// For each axis (for a layout of plain offsets: only the first), a divisor of every shift so far.
/// 0 means "not moved", a multiple of everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Divisors(pub [u64; Divisors::AXES]);

impl Divisors {
    /// The most axes that a tensor in global memory can have.
    pub const AXES: usize = super::MAX_RANK;

    /// The origin without a shift.
    pub const UNMOVED: Self = Self([0; Self::AXES]);

    /// Whether the origin is not shifted.
    #[must_use]
    pub const fn is_unmoved(&self) -> bool {
        let mut axis = 0;
        while axis < Self::AXES {
            if self.0[axis] != 0 {
                return false;
            }
            axis += 1;
        }
        true
    }

    /// The divisors after one more shift by multiples of `steps`.
    #[must_use]
    pub const fn and(self, steps: Self) -> Self {
        let mut result = self;
        let mut axis = 0;
        while axis < Self::AXES {
            result.0[axis] = gcd(self.0[axis], steps.0[axis]);
            axis += 1;
        }
        result
    }
}

/// The greatest common divisor; 0 is a multiple of everything.
pub(crate) const fn gcd(a: u64, b: u64) -> u64 {
    let (mut a, mut b) = (a, b);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
