//! Complex numbers of the complex f64 atoms.

use super::scalar::{Number, number};
use crate::arch::Word128;
use crate::memory::{Element, Storable};
use core::ops::{Add, Mul};

/// A complex number: real and imaginary part, 16 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C)]
pub struct Complex64 {
    /// The real part.
    pub re: f64,
    /// The imaginary part.
    pub im: f64,
}

/// A sum of products of complex numbers by Gauss's method, with three products instead of four: for
/// `(a + bi)(c + di)` it holds the sums of `ac`, of `bd`, and of `(a + b)(c + d)`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C)]
pub struct GaussComplex {
    /// The sum of products of real parts.
    pub t0: f64,
    /// The sum of products of imaginary parts.
    pub t1: f64,
    /// The sum of products of (real + imaginary) parts.
    pub t2: f64,
}

number! {
    Complex64: "c64", 128, f64;
    GaussComplex: "gc64", 192, f64;
}

// SAFETY: two adjacent plain numbers without padding; all bit patterns are valid.
unsafe impl Element for Complex64 {
    const NAME: &'static str = "c64";
    type Bits = Word128;
}

/// Only in registers: no memory access has 24 bytes. Its value is stored as a [`Complex64`].
impl Storable for GaussComplex {
    const NAME: &'static str = "gc64";
    const BITS: i64 = 192;

    #[inline(always)]
    unsafe fn read_own(first: *const u8, index: usize) -> Self {
        // SAFETY: the element's bytes were written, and `first` is aligned.
        unsafe { first.cast::<Self>().add(index).read() }
    }

    #[inline(always)]
    unsafe fn write_own(first: *mut u8, index: usize, value: Self) {
        // SAFETY: the element's bytes may be written, and `first` is aligned.
        unsafe { first.cast::<Self>().add(index).write(value) }
    }
}

impl Complex64 {
    /// The number `re + im i`.
    pub const fn new(re: f64, im: f64) -> Self {
        Self { re, im }
    }
}

impl Add for Complex64 {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self::new(self.re + other.re, self.im + other.im)
    }
}

impl Mul for Complex64 {
    type Output = Self;
    fn mul(self, other: Self) -> Self {
        Self::new(self.re * other.re - self.im * other.im, self.re * other.im + self.im * other.re)
    }
}

/// The value of the three sums.
impl From<GaussComplex> for Complex64 {
    #[inline(always)]
    fn from(sums: GaussComplex) -> Self {
        let GaussComplex { t0, t1, t2 } = sums;
        Self::new(t0 - t1, t2 - t0 - t1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_products_make_up_four() {
        let (x, y) = (Complex64::new(2.0, -3.0), Complex64::new(5.0, 7.0));
        let sums = GaussComplex { t0: x.re * y.re, t1: x.im * y.im, t2: (x.re + x.im) * (y.re + y.im) };
        assert_eq!(Complex64::from(sums), x * y);
        assert_eq!(x * y, Complex64::new(31.0, -1.0));
        assert_eq!(x + y, Complex64::new(7.0, 4.0));
    }
}
