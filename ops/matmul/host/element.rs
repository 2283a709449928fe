//! The element types of a product, and their factors `alpha` and `beta`.
#![cfg_attr(not(feature = "all"), allow(unused, reason = "each operand type uses some of it"))]

use super::variants::{self, Variant};
use crate::kernels::mma::{self, Arguments, Convertible, Scalar};
use half::{bf16, f16};
use moye_device::kernel::Kernel;
use moye_device::memory::Element;
use moye_device::number::{F8E4M3, F8E5M2};
use moye_runtime::{Error, Result};
use moye_sim::TensorElement;

/// An element type of the operands: `f16`, `bf16`, `f32`, `f64`, `i8`; on Hopper also `F8E4M3` and
/// `F8E5M2`.
///
/// ```compile_fail
/// fn product<T: moye::Operand>() {}
/// product::<u64>(); // no instruction multiplies these
/// ```
#[diagnostic::on_unimplemented(
    message = "matrices of `{Self}` cannot be multiplied",
    note = "operands have elements f16, bf16, f32, f64, i8, F8E4M3 or F8E5M2"
)]
pub trait Operand: Element + sealed::Sealed {
    /// The type of `alpha`, `beta` and the activation's arithmetic: `f32` for floats of up to 32
    /// bits, `f64`, and `i32` for integers.
    type Scalar: Scalar + Convertible<Self::Scalar> + Factor;
    /// The narrower of the result types: the operands' own, `i32` for integers, `bf16` for 8-bit
    /// floats.
    #[doc(hidden)]
    type Narrow: Convertible<Self::Scalar>;
    #[doc(hidden)]
    const VARIANTS: &'static [Variant<Self>];
    /// The element type of the operands' tensor maps, and the type of the arithmetic.
    #[doc(hidden)]
    const TENSOR_ELEMENT: TensorElement;
    #[doc(hidden)]
    const TENSOR_SCALAR: TensorElement;
    /// Whether activations with an exponential are defined for it.
    #[doc(hidden)]
    const SMOOTH: bool = !matches!(Self::TENSOR_SCALAR, TensorElement::I32);
}

/// An 8-bit operand, which is used with scales: [`F8E4M3`] and [`F8E5M2`]. See
/// [`Matmul::scale_a`](crate::Matmul::scale_a).
#[diagnostic::on_unimplemented(
    message = "matrices of `{Self}` have no scales",
    note = "only 8-bit floats have scales; for other elements use `alpha`"
)]
pub trait Float8: Operand<Scalar = f32> {}
#[cfg(feature = "f8")]
impl Float8 for F8E4M3 {}
#[cfg(feature = "f8")]
impl Float8 for F8E5M2 {}

/// An element type of the result for operands `T`: their own (`i32` for `i8`, `bf16` for 8-bit
/// floats), or `f32` for half precision and 8-bit floats.
#[diagnostic::on_unimplemented(
    message = "the product of matrices of `{T}` cannot be written as `{Self}`",
    note = "products of f16 and bf16 are their own type or f32, of f32 f32, of f64 f64, of i8 i32, of F8E4M3 and F8E5M2 bf16 or f32"
)]
pub trait Output<T: Operand>: Convertible<T::Scalar> {
    /// Whether it is the accumulator's type, for operands with two result types.
    #[doc(hidden)]
    const WIDE: bool;
    /// Its element type in tensor maps.
    #[doc(hidden)]
    const TENSOR_ELEMENT: TensorElement;
    #[doc(hidden)]
    fn finish() -> Finish<T, Self>;
}

/// A kernel that reduces the split-K slices.
type Finish<T, U> = Kernel<(Arguments<<T as Operand>::Scalar, U, <T as Operand>::Scalar>,)>;

/// The precision of the accumulators, for element types with a choice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Precision {
    /// f32 by fused multiply-adds in f32; half precision with f32 accumulators.
    #[default]
    Full,
    /// f32 on tensor cores, which read 10 bits of each fraction (tf32).
    Tf32,
    /// f16 with f16 accumulators.
    F16Accumulators,
}

macro_rules! operand {
    ($($feature:literal $t:ty: $scalar:ty, $narrow:ty, $element:ident, $scalar_element:ident, $variants:ident;)+) => { $(
        #[cfg(feature = $feature)]
        impl Operand for $t {
            type Scalar = $scalar;
            type Narrow = $narrow;
            const VARIANTS: &'static [Variant<Self>] = variants::$variants;
            const TENSOR_ELEMENT: TensorElement = TensorElement::$element;
            const TENSOR_SCALAR: TensorElement = TensorElement::$scalar_element;
        }
    )+ };
}
// Tensor maps have no 8-bit floats; the copies move bytes.
operand! {
    "f16" f16: f32, f16, F16, F32, F16;
    "bf16" bf16: f32, bf16, Bf16, F32, BF16;
    "f32" f32: f32, f32, Tf32, F32, F32;
    "f64" f64: f64, f64, F64, F64, F64;
    "i8" i8: i32, i32, U8, I32, I8;
    "f8" F8E4M3: f32, bf16, U8, F32, E4M3;
    "f8" F8E5M2: f32, bf16, U8, F32, E5M2;
}

macro_rules! output {
    ($($feature:literal $operand:ty => $output:ty, $wide:literal, $element:ident, $finish:ident;)+) => { $(
        #[cfg(feature = $feature)]
        impl Output<$operand> for $output {
            const WIDE: bool = $wide;
            const TENSOR_ELEMENT: TensorElement = TensorElement::$element;
            fn finish() -> Finish<$operand, Self> {
                mma::$finish
            }
        }
    )+ };
}
output! {
    "f16" f16 => f16, false, F16, finish_f16;
    "f16" f16 => f32, true, F32, finish_f32;
    "bf16" bf16 => bf16, false, Bf16, finish_bf16;
    "bf16" bf16 => f32, true, F32, finish_f32;
    "f32" f32 => f32, false, F32, finish_f32;
    "f64" f64 => f64, false, F64, finish_f64;
    "i8" i8 => i32, false, I32, finish_i32;
    "f8" F8E4M3 => bf16, false, Bf16, finish_bf16;
    "f8" F8E4M3 => f32, true, F32, finish_f32;
    "f8" F8E5M2 => bf16, false, Bf16, finish_bf16;
    "f8" F8E5M2 => f32, true, F32, finish_f32;
}

/// The type of `alpha` and `beta`: f32, f64 or i32.
pub trait Factor: Sized {
    /// The values that the type represents, for messages that end in "products take".
    const TAKES: &'static str;
    /// The way out for a value that the type cannot represent.
    const WAY_OUT: &'static str;

    /// The nearest value of the type. `None` if a finite value would become infinite, a nonzero
    /// value would become 0, or an integer type lacks the value.
    fn of(value: f64) -> Option<Self>;

    /// The result of [`Factor::of`], or an error.
    ///
    /// # Errors
    /// [`Error::Factor`], with the factor's `name` and the operands' `element` type.
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

mod sealed {
    /// Kernels are compiled with this crate, so other crates cannot implement the trait.
    pub trait Sealed {}
    impl Sealed for half::f16 {}
    impl Sealed for half::bf16 {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
    impl Sealed for i8 {}
    impl Sealed for moye_device::number::F8E4M3 {}
    impl Sealed for moye_device::number::F8E5M2 {}
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
