//! Layouts as types: one constant each.

use crate::layout::{Layout, identity_layout};
use core::marker::PhantomData;

/// A layout known at compile time, as a type.
///
/// [`static_layout!`](crate::static_layout) declares one under a name; the types that partitioning returns are built
/// from it.
pub trait StaticLayout: Copy + 'static {
    /// The layout.
    const LAYOUT: Layout;

    /// What the tensor's origin is known to be a multiple of, after the shifts that led to this layout.
    const ORIGIN: Divisors = Divisors::UNMOVED;
}

/// Declares types for layouts: `static_layout! { pub SmemA = layout!((128, 8) : (1, 129)); }`.
#[macro_export]
macro_rules! static_layout {
    ($($(#[$meta:meta])* $vis:vis $name:ident = $layout:expr;)+) => { $(
        $(#[$meta])*
        #[derive(Clone, Copy, Debug)]
        $vis struct $name;

        impl $crate::tensor::StaticLayout for $name {
            const LAYOUT: $crate::layout::Layout = $layout;
        }
    )+ };
}

/// The coordinates of a tile of `L`'s shape: index to `(i, j, ...)`, a basis vector per mode.
pub struct IdentityOf<L>(PhantomData<L>);

impl<L> Clone for IdentityOf<L> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<L> Copy for IdentityOf<L> {}

impl<L: StaticLayout> StaticLayout for IdentityOf<L> {
    const LAYOUT: Layout = identity_layout(L::LAYOUT.shape());
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

/// For each axis (for a layout of plain offsets: the first alone), a number of which every shift so far was a
/// multiple. 0 stands for "not moved", a multiple of everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Divisors(pub [u64; Divisors::AXES]);

impl Divisors {
    /// The most axes that a tensor in global memory can have.
    pub const AXES: usize = 4;

    /// The origin that nobody has moved.
    pub const UNMOVED: Self = Self([0; Self::AXES]);

    /// What holds after one more shift by multiples of `steps`.
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
