//! Types smaller than a byte, and registers that hold several values.

use super::scalar::{Number, Scalar, number, round_ties_even};
use crate::tiling::TilingError;
use core::fmt;
use core::marker::PhantomData;

macro_rules! small {
    ($($(#[$doc:meta])* $t:ident($inner:ty): $name:literal, $bits:literal, $low:literal..=$high:literal;)*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $t($inner);

        number! { $t: $name, $bits, u32; }

        impl $t {
            /// The smallest value.
            pub const MIN: Self = Self($low);
            /// The largest value.
            pub const MAX: Self = Self($high);

            #[doc = concat!("The number of a value, if it is in ", $low, " to ", $high, ".")]
            pub const fn new(value: $inner) -> Option<Self> {
                if matches!(value, $low..=$high) { Some(Self(value)) } else { None }
            }

            /// The value.
            pub const fn get(self) -> $inner {
                self.0
            }
        }
    )* };
}
small! {
    /// A signed 4-bit integer, -8 to 7.
    S4(i8): "s4", 4, -8..=7;
    /// An unsigned 4-bit integer, 0 to 15.
    U4(u8): "u4", 4, 0..=15;
    /// A single bit, 0 or 1.
    B1(u8): "b1", 1, 0..=1;
}

impl Scalar for S4 {
    fn from_low_bits(bits: u64) -> Self {
        // Moves the sign to the top and back.
        Self((bits as i8) << 4 >> 4)
    }
    fn low_bits(self) -> u64 {
        u64::from(self.0 as u8 & 15)
    }
    fn to_f64(self) -> f64 {
        f64::from(self.0)
    }
    fn nearest(value: f64) -> Self {
        Self(round_ties_even(value).clamp(-8.0, 7.0) as i8)
    }
}

macro_rules! unsigned {
    ($($t:ident: $mask:literal;)*) => { $(
        impl Scalar for $t {
            fn from_low_bits(bits: u64) -> Self {
                Self(bits as u8 & $mask)
            }
            fn low_bits(self) -> u64 {
                u64::from(self.0)
            }
            fn to_f64(self) -> f64 {
                f64::from(self.0)
            }
            fn nearest(value: f64) -> Self {
                Self(round_ties_even(value).clamp(0.0, f64::from($mask)) as u8)
            }
        }
    )* };
}
unsigned! {
    U4: 15;
    B1: 1;
}

/// The values of one 32-bit register, the first in the lowest bits: 2 of 16 bits, 4 of 8, 8 of 4,
/// 32 of 1.
///
/// ```
/// use moye_device::number::{Packed, S4};
/// let mut register = Packed::<S4>::default();
/// register.set(1, S4::new(-3).unwrap());
/// assert_eq!(register.to_bits(), 0xd0);
/// assert_eq!(register.get(1).get(), -3);
/// assert_eq!(Packed::<S4>::LEN, 8);
/// ```
pub struct Packed<T> {
    bits: u32,
    number: PhantomData<T>,
}

impl<T: Scalar> Packed<T> {
    /// The number of values in a register.
    pub const LEN: usize = {
        if T::WIDTH > 32 {
            TilingError::of("Packed")
                .str(T::NAME)
                .str(" has ")
                .int(T::WIDTH as i64)
                .str(" bits; a register of 32 holds numbers of at most as many")
                .raise();
        }
        32 / T::WIDTH
    };

    const MASK: u32 = u32::MAX >> (32 - T::WIDTH);

    /// The register with these bits.
    pub const fn from_bits(bits: u32) -> Self {
        Self { bits, number: PhantomData }
    }

    /// The register's bits.
    pub const fn to_bits(self) -> u32 {
        self.bits
    }

    /// The register of the values `f(0)`, `f(1)`, ...
    pub fn from_fn(mut f: impl FnMut(usize) -> T) -> Self {
        let mut register = Self::from_bits(0);
        for index in 0..Self::LEN {
            register.set(index, f(index));
        }
        register
    }

    /// Value `index`.
    ///
    /// # Panics
    /// If `index` is not below [`Packed::LEN`].
    #[track_caller]
    pub fn get(self, index: usize) -> T {
        assert!(index < Self::LEN, "number {index} of a register of {}", Self::LEN);
        T::from_low_bits(u64::from(self.bits >> (index * T::WIDTH) & Self::MASK))
    }

    /// Replaces value `index`.
    ///
    /// # Panics
    /// If `index` is not below [`Packed::LEN`].
    #[track_caller]
    pub fn set(&mut self, index: usize, value: T) {
        assert!(index < Self::LEN, "number {index} of a register of {}", Self::LEN);
        let shift = index * T::WIDTH;
        self.bits = self.bits & !(Self::MASK << shift) | (value.low_bits() as u32 & Self::MASK) << shift;
    }
}

impl<T> Clone for Packed<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Packed<T> {}

impl<T> Default for Packed<T> {
    fn default() -> Self {
        Self { bits: 0, number: PhantomData }
    }
}

impl<T> PartialEq for Packed<T> {
    fn eq(&self, other: &Self) -> bool {
        self.bits == other.bits
    }
}
impl<T> Eq for Packed<T> {}

impl<T: Scalar> fmt::Debug for Packed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries((0..Self::LEN).map(|index| self.get(index))).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::f16;

    fn keeps_its_numbers<T: Scalar>() {
        for bits in [0, u32::MAX, 0x1234_5678, 0x8765_4321, 0xaaaa_5555] {
            let register = Packed::<T>::from_bits(bits);
            assert_eq!(Packed::from_fn(|index| register.get(index)), register, "{} in {bits:#x}", T::NAME);
        }
    }

    #[test]
    fn a_register_is_its_numbers() {
        keeps_its_numbers::<S4>();
        keeps_its_numbers::<U4>();
        keeps_its_numbers::<B1>();
        keeps_its_numbers::<i8>();
        keeps_its_numbers::<f16>();
        assert_eq!(Packed::<B1>::LEN, 32);
        assert_eq!(Packed::<S4>::from_bits(0x0000_0087).get(1), S4::MIN);
    }

    #[test]
    fn small_integers_are_refused_and_rounded_at_their_ends() {
        assert_eq!(S4::new(8), None);
        assert_eq!(U4::new(16), None);
        assert_eq!(S4::nearest(-100.0), S4::MIN);
        assert_eq!(U4::nearest(6.5).get(), 6);
        for bits in 0..16 {
            assert_eq!(S4::from_low_bits(bits).low_bits(), bits);
        }
    }
}
