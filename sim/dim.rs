//! Extents and indices in three dimensions.

use std::fmt;

/// Three extents or a three-dimensional index, `x` fastest, as in CUDA.
///
/// ```
/// use moye_sim::Dim3;
/// assert_eq!(Dim3::from(7), Dim3 { x: 7, y: 1, z: 1 });
/// assert_eq!(Dim3::from((7, 2)).count(), 14);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Dim3 {
    /// The fastest.
    pub x: u32,
    /// The middle.
    pub y: u32,
    /// The slowest.
    pub z: u32,
}

impl Dim3 {
    /// The extents `(x, y, z)`.
    pub const fn new(x: u32, y: u32, z: u32) -> Self {
        Self { x, y, z }
    }

    /// The number of indices within these extents.
    pub const fn count(self) -> u128 {
        self.x as u128 * self.y as u128 * self.z as u128
    }

    /// The index of `linear` within these extents, `x` fastest.
    pub(crate) const fn index_of(self, linear: u64) -> Self {
        let (x, y) = (self.x as u64, self.y as u64);
        Self::new((linear % x) as u32, (linear / x % y) as u32, (linear / (x * y)) as u32)
    }
}

impl From<u32> for Dim3 {
    fn from(x: u32) -> Self {
        Self::new(x, 1, 1)
    }
}

impl From<(u32, u32)> for Dim3 {
    fn from((x, y): (u32, u32)) -> Self {
        Self::new(x, y, 1)
    }
}

impl From<(u32, u32, u32)> for Dim3 {
    fn from((x, y, z): (u32, u32, u32)) -> Self {
        Self::new(x, y, z)
    }
}

impl fmt::Display for Dim3 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({},{},{})", self.x, self.y, self.z)
    }
}
