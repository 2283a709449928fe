//! Conversion of `alpha` and `beta` from float64, with an error for numbers that their type cannot
//! represent.

use crate::{Error, Result};

/// The type of `alpha` and `beta`: f32, f64 or i32.
pub trait Factor: Sized {
    /// The numbers that it represents, for messages that end in "products take".
    const TAKES: &'static str;
    /// The way out for a number that it cannot represent.
    const WAY_OUT: &'static str;

    /// The nearest number of the type. `None` if a finite value would become infinite, a nonzero
    /// value would become 0, or an integer type does not have the value.
    fn of(value: f64) -> Option<Self>;

    /// [`Factor::of`], or an error.
    ///
    /// # Errors
    /// [`Error::Factor`], which names the number `name` and the operands' elements `element`.
    fn checked(name: &'static str, value: f64, element: &'static str) -> Result<Self> {
        Self::of(value).ok_or(Error::Factor {
            name,
            value,
            element,
            takes: Self::TAKES,
            way_out: Self::WAY_OUT,
        })
    }
}

impl Factor for f32 {
    const TAKES: &'static str = "a float of 32 bits, which is 0 or from 1.4e-45 to 3.4e38 in magnitude";
    const WAY_OUT: &'static str = "scale the matrices instead, or convert them to floats of 64 bits";

    fn of(value: f64) -> Option<Self> {
        let nearest = value as Self;
        let fits = value.is_nan() || nearest.is_infinite() == value.is_infinite();
        (fits && (nearest == 0.0) == (value == 0.0)).then_some(nearest)
    }
}

impl Factor for f64 {
    const TAKES: &'static str = "a float of 64 bits";
    const WAY_OUT: &'static str = "scale the matrices instead";

    fn of(value: f64) -> Option<Self> {
        Some(value)
    }
}

impl Factor for i32 {
    const TAKES: &'static str = "a whole number of 32 bits, from -2147483648 to 2147483647";
    const WAY_OUT: &'static str = "convert the matrices to floats of 32 bits for others";

    fn of(value: f64) -> Option<Self> {
        let whole = value as Self;
        (f64::from(whole) == value).then_some(whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f32_holds_what_is_nearest_to_a_number_of_its_range() {
        let held = [
            (0.1, 0.1f32),
            (-0.0, -0.0),
            (f64::from(f32::MAX), f32::MAX),
            (f64::from(f32::MAX) * (1.0 + 1e-8), f32::MAX),
            (1e-45, f32::from_bits(1)),
            (-1e-44, -f32::from_bits(7)),
            (f64::INFINITY, f32::INFINITY),
            (f64::NEG_INFINITY, f32::NEG_INFINITY),
        ];
        for (value, want) in held {
            assert_eq!(f32::of(value).map(f32::to_bits), Some(want.to_bits()), "{value:e}");
        }
        assert!(f32::of(f64::NAN).is_some_and(f32::is_nan));
        for value in [1e39, -1e39, f64::MAX, f64::from(f32::MAX) * (1.0 + 1e-7), 1e-50, -7e-46, 5e-324] {
            assert_eq!(f32::of(value), None, "{value:e}");
        }
    }

    #[test]
    fn f64_holds_every_number() {
        for value in [1e300, 5e-324, -0.0, f64::INFINITY] {
            assert_eq!(f64::of(value).map(f64::to_bits), Some(value.to_bits()));
        }
        assert!(f64::of(f64::NAN).is_some_and(f64::is_nan));
    }

    #[test]
    fn i32_holds_whole_numbers_of_its_range() {
        for value in [0, -3, i32::MIN, i32::MAX] {
            assert_eq!(i32::of(value.into()), Some(value));
        }
        assert_eq!(i32::of(-0.0), Some(0));
        for value in [0.5, 2f64.powi(31), -2147483649.0, f64::NAN, f64::INFINITY, 1e-300] {
            assert_eq!(i32::of(value), None, "{value:e}");
        }
    }
}
